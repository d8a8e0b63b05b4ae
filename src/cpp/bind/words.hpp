// Python strings to numbered words. All of this holds the GIL; what it makes can be read without
// it, because a batch keeps a reference to every string whose bytes it uses.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/extract.hpp"
#include "core/known.hpp"

namespace tagloom {

// A program and the Python objects that it needs.
struct PyProgram {
    Program program;
    std::vector<std::vector<nanobind::callable>> functions;  // [columns, python atoms]
    std::vector<bool> needs_lowered, needs_punctuation;      // [columns]
    nanobind::object category;                               // unicodedata.category, if needed
};

// A word that Python wrote, without what only some atoms ask for.
Word copy_word(nanobind::handle text, Arena& arena);

// A batch and references to the strings that it points to. Destroy it with the GIL held.
struct PyBatch {
    Batch batch;
    std::vector<nanobind::object> held;

    // columns: list over columns of list over sentences of list of str; numeric: list of float64
    // arrays [T]. Tuples will do for lists. TypeError or ValueError says which sentence and token.
    // known: what a scorer remembers of words [columns], or nothing.
    PyBatch(const PyProgram& program, nanobind::handle columns, nanobind::handle numeric,
            std::span<const std::unique_ptr<KnownWords>> known = {});
};

}  // namespace tagloom
