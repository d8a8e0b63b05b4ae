// Large arrays for random access, on huge pages where the system offers them: with 4 KB pages, each
// probe of a table of several megabytes also waits for a page-table walk. Elements start as zeros.
// calloc provides them, so memory is not touched before it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace tagloom {

template <class T>
class PagedArray {
    static_assert(std::is_trivially_copyable_v<T>);  // and zero bytes must be a T

  public:
    PagedArray() = default;
    explicit PagedArray(std::size_t n) : size_(n) {
        constexpr std::size_t kPage = std::size_t{1} << 21;
        if (n > (static_cast<std::size_t>(-1) - kPage) / sizeof(T)) {
            throw std::bad_array_new_length();
        }
        const std::size_t bytes = n * sizeof(T), align = bytes < kPage ? alignof(T) : kPage;
        memory_.reset(std::calloc(bytes + align, 1));  // an empty array has an address too
        if (!memory_) throw std::bad_alloc();
        const auto at = reinterpret_cast<std::uintptr_t>(memory_.get());
        data_ = reinterpret_cast<T*>((at + align - 1) / align * align);
#ifdef __linux__
        // Only a hint; failure does not matter.
        if (align == kPage) madvise(data_, bytes, MADV_HUGEPAGE);
#endif
    }

    std::size_t size() const { return size_; }
    T* data() { return data_; }
    const T* data() const { return data_; }
    T& operator[](std::size_t i) { return data_[i]; }
    const T& operator[](std::size_t i) const { return data_[i]; }

  private:
    struct Free {
        void operator()(void* memory) const { std::free(memory); }
    };
    std::unique_ptr<void, Free> memory_;
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace tagloom
