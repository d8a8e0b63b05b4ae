// Runs independent pieces of work on a few threads. Threads are made anew for each call: the
// callers ask for more than one only when there is work for milliseconds, and nothing is left
// behind that a fork could break.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace tagloom {

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
    std::vector<std::jthread> pool;
    for (int64_t w = 1; w < threads; ++w) pool.emplace_back(run, w);
    run(0);
    pool.clear();  // joins
    if (error) std::rethrow_exception(error);
}

// Items of one parallel_for end in their order: each waits for those before it.
class Turns {
  public:
    class Turn {
      public:
        Turn(Turns& turns, int64_t item) : turns_(turns), item_(item) {}
        // Waits until all items before this one are done; false if one of them never will be.
        bool wait() {
            std::unique_lock lock(turns_.mutex_);
            turns_.changed_.wait(lock, [&] { return turns_.broken_ || turns_.next_ == item_; });
            has_come_ = !turns_.broken_;
            return has_come_;
        }
        ~Turn() {
            {
                std::lock_guard lock(turns_.mutex_);
                if (has_come_)
                    turns_.next_++;
                else
                    turns_.broken_ = true;  // an exception went through
            }
            turns_.changed_.notify_all();
        }

      private:
        Turns& turns_;
        const int64_t item_;
        bool has_come_ = false;
    };

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int64_t next_ = 0;
    bool broken_ = false;
};

}  // namespace tagloom
