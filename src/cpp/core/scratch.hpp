// Memory for one call that the next call of the same thread uses again: fresh pages from the system
// cost more than what is computed in them. To be declared thread_local.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace tagloom {

template <class T>
class Scratch {
  public:
    // Valid until the next take(), or as long as this lives if it is too large to be kept.
    struct Taken {
        T* data;
        std::unique_ptr<T[]> own;
    };

    // Room for n elements, zeros or what they were before.
    Taken take(std::size_t n) {
        constexpr std::size_t kMost = (std::size_t{16} << 20) / sizeof(T);
        if (n > kMost) {
            auto own = std::make_unique<T[]>(n);
            return {own.get(), std::move(own)};
        }
        if (n > size_) {
            memory_ = nullptr;
            size_ = 0;  // also if there is no memory
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
