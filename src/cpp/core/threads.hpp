// Runs independent pieces of work on a few threads, which wait for the next ones afterwards: to
// wake one takes a tenth of what it takes to make one, and it has its scratch memory already.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

namespace tagloom {

// Calls run(context, worker) at most once for each worker in [0, threads), on a thread of its own;
// worker 0 is the caller. Returns when all have ended. It must not throw.
void run_on_threads(int64_t threads, void (*run)(void* context, int64_t worker), void* context);

// Calls work(item, worker) for every item in [0, items), in any order; worker < threads tells which
// scratch memory to use. The first exception is thrown again in the caller.
template <class Work>
void parallel_for(int64_t items, int64_t threads, const Work& work) {
    if (threads > items) threads = items;
    if (threads <= 1) {
        for (int64_t i = 0; i < items; ++i) work(i, 0);
        return;
    }
    std::atomic<int64_t> next{0};
    std::exception_ptr error;
    std::mutex mutex;
    auto run = [&](int64_t worker) {
        try {
            for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < items;)
                work(i, worker);
        } catch (...) {
            std::lock_guard lock(mutex);
            if (!error) error = std::current_exception();
            next = items;
        }
    };
    run_on_threads(
        threads,
        [](void* context, int64_t worker) { (*static_cast<decltype(run)*>(context))(worker); },
        &run);
    if (error) std::rethrow_exception(error);
}

// What the items of one parallel_for leave behind is taken in their order, by whoever has just left
// the next of it. No item waits for those before it to end; but one that is `window` items ahead
// waits until it may begin, so that no more than that many are under way or not yet taken.
class InOrder {
  public:
    InOrder(int64_t items, int64_t window) : is_left_(items), window_(window) {}

    class Item {
      public:
        Item(InOrder& all, int64_t number) : all_(all), number_(number) {}
        // Waits until it may; false if it never will, because another one failed.
        bool begin() {
            std::unique_lock lock(all_.mutex_);
            all_.changed_.wait(
                lock, [&] { return all_.is_broken_ || number_ < all_.n_taken_ + all_.window_; });
            return !all_.is_broken_;
        }
        // take(item) is called for each that was left, one at a time; it must not throw.
        template <class Take>
        void leave(const Take& take) {
            is_done_ = true;
            std::unique_lock lock(all_.mutex_);
            all_.is_left_[number_] = true;
            if (all_.is_taking_) return;
            all_.is_taking_ = true;
            while (all_.n_taken_ < int64_t(all_.is_left_.size()) && all_.is_left_[all_.n_taken_]) {
                const int64_t next = all_.n_taken_;
                lock.unlock();
                take(next);
                lock.lock();
                all_.n_taken_++;
                all_.changed_.notify_all();
            }
            all_.is_taking_ = false;
        }
        ~Item() {
            if (is_done_) return;
            {
                std::lock_guard lock(all_.mutex_);
                all_.is_broken_ = true;  // an exception went through
            }
            all_.changed_.notify_all();
        }
        Item(const Item&) = delete;
        Item& operator=(const Item&) = delete;

      private:
        InOrder& all_;
        const int64_t number_;
        bool is_done_ = false;
    };

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<bool> is_left_;  // [items]
    const int64_t window_;
    int64_t n_taken_ = 0;
    bool is_taking_ = false, is_broken_ = false;
};

}  // namespace tagloom
