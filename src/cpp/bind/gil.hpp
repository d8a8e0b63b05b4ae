// Releases the GIL for a block of native work.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <thread>

namespace tagloom {

// Releases the GIL for its lifetime. Before Python 3.14, a daemon thread that acquires the GIL
// while the interpreter shuts down is terminated by a forced unwind. Unwinding must not leave a
// destructor, so the process would abort. Such a thread waits here until the process exits.
class WithoutGil {
  public:
    WithoutGil() : state_(PyEval_SaveThread()) {}
    ~WithoutGil() {
        try {
            PyEval_RestoreThread(state_);
        } catch (...) {
            for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
        }
    }
    WithoutGil(const WithoutGil&) = delete;
    WithoutGil& operator=(const WithoutGil&) = delete;

  private:
    PyThreadState* state_;
};

}  // namespace tagloom
