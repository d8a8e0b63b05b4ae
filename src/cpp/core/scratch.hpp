// Memory for one call that the next call of the same thread uses again: fresh pages from the system
// cost more than what is computed in them. To be declared thread_local.
#pragma once

#include <cstddef>
#include <memory>

namespace tagloom {

template <class T>
class Scratch {
  public:
    // Room for n elements, not initialised; what was taken before is gone.
    T* take(std::size_t n) {
        constexpr std::size_t kMost = (std::size_t{16} << 20) / sizeof(T);  // worth keeping
        if (n > size_ || (size_ > kMost && n <= kMost)) {
            memory_ = nullptr;
            memory_ = std::make_unique_for_overwrite<T[]>(n);
            size_ = n;
        }
        return memory_.get();
    }

  private:
    std::unique_ptr<T[]> memory_;
    std::size_t size_ = 0;
};

}  // namespace tagloom
