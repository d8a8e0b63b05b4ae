// Work without Python's lock.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <thread>

namespace tagloom {

// Gives up the GIL for as long as it lives. Before Python 3.14, a daemon thread that asks for the
// GIL when the interpreter is ending is ended in the middle of it, by an exception that may go
// through no destructor: the process would abort instead of ending. Such a thread waits here
// instead, and goes with the process.
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
