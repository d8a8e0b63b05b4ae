// Vectors whose data begins at a cache line, for kernels that read and write whole lines: a vector
// of 64 bytes at another address touches two.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace tagloom {

template <class T>
struct AlignedAllocator {
    using value_type = T;
    static constexpr std::align_val_t kLine{64};

    AlignedAllocator() = default;
    template <class U>
    AlignedAllocator(const AlignedAllocator<U>&) {}

    T* allocate(std::size_t n) {
        if (n > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
        return static_cast<T*>(::operator new(n * sizeof(T), kLine));
    }
    void deallocate(T* p, std::size_t) { ::operator delete(p, kLine); }

    template <class U>
    bool operator==(const AlignedAllocator<U>&) const {
        return true;
    }
};

template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

}  // namespace tagloom
