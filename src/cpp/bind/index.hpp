// The Index as a Python object, shared by the files that fill one. It grows without the GIL, so two
// threads could add to one Index at once; the second gets a RuntimeError.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "core/index.hpp"

namespace tagloom {

struct PyIndex {
    PyIndex() = default;
    explicit PyIndex(Index made) : index(std::move(made)) {}

    Index index;
    bool is_growing = false;  // read and written with the GIL held

    // Throws while another thread adds to the index. Call it with the GIL held before reading the
    // index; to read without the GIL, copy index.table() first.
    void check_idle() const {
        if (is_growing) {
            PyErr_SetString(PyExc_RuntimeError, "another thread is adding to this Index.");
            throw nanobind::python_error();
        }
    }

    // Guards index.add(). Create and destroy it with the GIL held; the GIL may be released between.
    class Growing {
      public:
        explicit Growing(PyIndex& one) : one_(one) {
            one.check_idle();
            if (!one.index.can_grow()) {
                throw nanobind::value_error(
                    "This Index cannot grow: it was built from keys without names.");
            }
            one.is_growing = true;
            one.index.begin_growing();
        }
        ~Growing() { one_.is_growing = false; }
        Growing(const Growing&) = delete;
        Growing& operator=(const Growing&) = delete;

      private:
        PyIndex& one_;
    };
};

}  // namespace tagloom
