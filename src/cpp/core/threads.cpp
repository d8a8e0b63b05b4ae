#include "core/threads.hpp"

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <thread>

#ifndef _WIN32
#include <pthread.h>
#include <signal.h>
#endif

namespace tagloom {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kAwake = std::chrono::microseconds(40);  // a thread spins this long before it sleeps

inline void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// A thread that runs one job after another. It ends only on end(); threads that wait for work when
// the process exits end with it.
class Helper {
  public:
    struct Job {
        void (*run)(void* context, int64_t worker);
        void* context;
        int64_t worker;
        std::fenv_t rounding;  // of the caller, so that results do not depend on the thread
    };

    Helper() { std::thread(&Helper::work, this).detach(); }

    // After start(), call wait() before anything else.
    void start(const Job& job) {
        job_ = job;
        set(State::busy);
    }
    void wait() {
        wait_until([](State state) { return state == State::idle; });
    }
    void end() { set(State::ending); }  // it deletes itself

  private:
    enum class State { idle, busy, ending };

    void work() {
#ifndef _WIN32
        sigset_t others;  // all signals except faults of this thread go to the user's threads
        sigfillset(&others);
        for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&others, own);
        pthread_sigmask(SIG_BLOCK, &others, nullptr);
#endif
        while (wait_until([](State state) { return state != State::idle; }) == State::busy) {
            std::fesetenv(&job_.rounding);
            job_.run(job_.context, job_.worker);
            set(State::idle);
        }
        delete this;
    }

    void set(State state) {
        std::lock_guard lock(mutex_);  // held while notifying: afterwards `this` may be deleted
        state_.store(state, std::memory_order_release);
        changed_.notify_one();
    }

    template <class Test>
    State wait_until(const Test& is_it) {
        const auto until = Clock::now() + kAwake;
        for (int i = 1; !is_it(state_.load(std::memory_order_acquire)); ++i) {
            if (i % 16 == 0 && Clock::now() > until) break;
            pause();
        }
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return is_it(state_.load(std::memory_order_acquire)); });
        return state_;
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::atomic<State> state_{State::idle};
    Job job_{};
};

// The idle helpers.
class Pool {
  public:
    Pool() { idle_.reserve(most_); }

    // Up to n helpers; fewer if the system cannot create more threads.
    std::vector<Helper*> take(int64_t n) {
        std::vector<Helper*> taken;
        taken.reserve(n);
        {
            std::lock_guard lock(mutex_);
            while (n > std::ssize(taken) && !idle_.empty()) {
                taken.push_back(idle_.back());
                idle_.pop_back();
            }
        }
        try {
            while (n > std::ssize(taken)) taken.push_back(new Helper);
        } catch (const std::exception&) {  // no thread, or no memory for one
        }
        return taken;
    }
    void give_back(const std::vector<Helper*>& helpers) {
        std::lock_guard lock(mutex_);
        for (Helper* helper : helpers) {
            if (idle_.size() < most_) {
                idle_.push_back(helper);
            } else {
                helper->end();
            }
        }
    }

  private:
    std::mutex mutex_;
    std::vector<Helper*> idle_;
    const std::size_t most_ = std::max(std::thread::hardware_concurrency(), 2u);
};

// One pool per process. A forked child creates a new one: threads are not forked, and their locks
// stay locked.
constinit std::atomic<Pool*> current = nullptr;

#ifndef _WIN32
// Registered when the module is loaded, before a pool exists.
[[maybe_unused]] const int kAtFork = pthread_atfork(nullptr, nullptr, [] { current = nullptr; });
#endif

Pool& pool_of_this_process() {
    Pool* pool = current.load();
    if (pool) return *pool;
    auto fresh = std::make_unique<Pool>();
    return current.compare_exchange_strong(pool, fresh.get()) ? *fresh.release() : *pool;
}

}  // namespace

void run_on_threads(int64_t threads, void (*run)(void* context, int64_t worker), void* context) {
    Pool& pool = pool_of_this_process();
    const std::vector<Helper*> helpers = pool.take(threads - 1);
    Helper::Job job{run, context, 0, {}};
    std::fegetenv(&job.rounding);
    for (Helper* helper : helpers) {
        job.worker++;
        helper->start(job);
    }
    run(context, 0);
    for (Helper* helper : helpers) helper->wait();
    pool.give_back(helpers);
}

}  // namespace tagloom
