// Runs independent work items on a pool of threads. Waking a waiting thread takes a tenth of the
// time of creating one, and it keeps its scratch memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

namespace tagloom {

// Calls run(context, worker) at most once for each worker in [0, threads), each on its own thread;
// worker 0 is the caller. Returns when all have ended. run must not throw.
void run_on_threads(int64_t threads, void (*run)(void* context, int64_t worker), void* context);

// Calls work(item, worker) for every item in [0, items), in any order; worker < threads selects the
// scratch memory. The first exception is rethrown in the caller.
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

// Collects the results of the items of one parallel_for in order. The thread that finishes the next
// item in order collects it and those after it that are finished; no item waits for earlier ones to
// end. An item waits before it begins while it is `window` or more ahead of the last one collected,
// so at most `window` items are in progress or uncollected.
class InOrder {
  public:
    InOrder(int64_t items, int64_t window) : is_finished_(items), window_(window) {}

    class Item {
      public:
        Item(InOrder& all, int64_t number) : all_(all), number_(number) {}
        // Waits until the item may begin; false if another item failed.
        bool begin() {
            std::unique_lock lock(all_.mutex_);
            all_.changed_.wait(lock, [&] {
                return all_.is_broken_ || number_ < all_.n_collected_ + all_.window_;
            });
            return !all_.is_broken_;
        }
        // Ends the item. Calls collect(i) for each item i that is next in order, one at a time;
        // collect must not throw.
        template <class Collect>
        void finish(const Collect& collect) {
            is_done_ = true;
            std::unique_lock lock(all_.mutex_);
            all_.is_finished_[number_] = true;
            if (all_.is_collecting_) return;
            all_.is_collecting_ = true;
            while (all_.n_collected_ < int64_t(all_.is_finished_.size()) &&
                   all_.is_finished_[all_.n_collected_]) {
                const int64_t next = all_.n_collected_;
                lock.unlock();
                collect(next);
                lock.lock();
                all_.n_collected_++;
                all_.changed_.notify_all();
            }
            all_.is_collecting_ = false;
        }
        ~Item() {
            if (is_done_) return;
            {
                std::lock_guard lock(all_.mutex_);
                all_.is_broken_ = true;  // an exception was thrown
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
    std::vector<bool> is_finished_;  // [items]
    const int64_t window_;
    int64_t n_collected_ = 0;
    bool is_collecting_ = false, is_broken_ = false;
};

}  // namespace tagloom
