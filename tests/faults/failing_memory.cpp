// Loaded before the C++ library (LD_PRELOAD), lets the n-th allocation by operator new fail.
// arm(n) counts from now on; n = 0 never fails. counted() returns the allocations since then.
#include <atomic>
#include <cstdlib>
#include <new>

static std::atomic<long> seen{0}, fails_at{0};

extern "C" void arm(long n) {
    fails_at = n;
    seen = 0;
}
extern "C" long counted() { return seen; }

static void* get(std::size_t size) {
    const long n = ++seen;
    if (n == fails_at) throw std::bad_alloc();
    void* memory = std::malloc(size ? size : 1);
    if (!memory) throw std::bad_alloc();
    return memory;
}

void* operator new(std::size_t size) { return get(size); }
void* operator new[](std::size_t size) { return get(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
