// Runs independent pieces of work on a few threads. Threads are made anew for each call: the
// callers ask for more than one only when there is work for milliseconds, and nothing is left
// behind that a fork could break.
#pragma once

#include <atomic>
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

}  // namespace tagloom
