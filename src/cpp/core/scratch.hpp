// Scratch memory that calls of the same thread reuse: fresh pages from the system cost more than
// the computation in them. Declare it thread_local.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace tagloom {

template <class T>
class Scratch {
  public:
    // Valid until the next take(); beyond `most` elements, for the lifetime of `own`.
    struct Taken {
        T* data;
        std::unique_ptr<T[]> own;
    };

    static constexpr std::size_t kMost = (std::size_t{16} << 20) / sizeof(T);

    // Room for n elements, which are zero or left over from the last use.
    Taken take(std::size_t n, std::size_t most = kMost) {
        if (n > most) {
            auto own = std::make_unique<T[]>(n);
            return {own.get(), std::move(own)};
        }
        if (n > size_) {
            memory_ = nullptr;
            size_ = 0;  // stays so if the allocation throws
            memory_ = std::make_unique<T[]>(n);
            size_ = n;
        }
        return {memory_.get(), nullptr};
    }

  private:
    std::unique_ptr<T[]> memory_;
    std::size_t size_ = 0;
};

}  // namespace tagloom
