// Large arrays that are read at random, on large pages where the system offers them: with pages of
// 4 KB, each probe of a table of some megabytes waits for a page-table walk as well.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace tagloom {

template <class T>
struct PageAllocator {
    using value_type = T;
    static constexpr std::size_t kPage = std::size_t{1} << 21;

    PageAllocator() = default;
    template <class U>
    PageAllocator(const PageAllocator<U>&) {}

    T* allocate(std::size_t n) {
        if (n < kPage / sizeof(T)) return std::allocator<T>().allocate(n);
        if (n > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
        void* p = ::operator new(n * sizeof(T), std::align_val_t(kPage));
#ifdef __linux__
        madvise(p, n * sizeof(T), MADV_HUGEPAGE);  // a hint: what it returns does not matter
#endif
        return static_cast<T*>(p);
    }
    void deallocate(T* p, std::size_t n) {
        if (n < kPage / sizeof(T)) {
            std::allocator<T>().deallocate(p, n);
        } else {
            ::operator delete(p, std::align_val_t(kPage));
        }
    }
    template <class U>
    bool operator==(const PageAllocator<U>&) const {
        return true;
    }
};

template <class T>
using PagedVector = std::vector<T, PageAllocator<T>>;

}  // namespace tagloom
