// Releases the GIL for a block of native work, which Ctrl-C may interrupt.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <thread>

#include "core/interrupts.hpp"

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

// Runs work() without the GIL. Searches in it that run on this thread end when Python has a signal
// to handle, such as that of Ctrl-C, and the exception of its handler is raised.
template <class Work>
auto run_interruptible(const Work& work) {
    struct Check {
        Check() {
            interrupt_check = [] {
                const nanobind::gil_scoped_acquire locked;
                return PyErr_CheckSignals() != 0;
            };
        }
        ~Check() { interrupt_check = nullptr; }
    };
    try {
        const WithoutGil unlocked;
        const Check check;
        return work();
    } catch (const Interrupted&) {
        throw nanobind::python_error();
    }
}

}  // namespace tagloom
