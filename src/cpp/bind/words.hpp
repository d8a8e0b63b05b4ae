// Turns Python strings into numbered words. This needs the GIL; the resulting batch can be read
// without it, because it keeps a reference to every string whose bytes it uses.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/extract.hpp"
#include "core/word_cache.hpp"

namespace tagloom {

// A program and the Python objects that it needs.
struct PyProgram {
    Program program;
    std::vector<std::vector<nanobind::callable>> functions;  // [columns, python atoms]
    std::vector<bool> needs_lowered, needs_punctuation;      // [columns]
    nanobind::object category;                               // unicodedata.category, if needed
};

// A word from a str, without the fields that only some atoms need.
Word copy_word(nanobind::handle text, Arena& arena);

// A batch and references to the strings that it points to. Destroy it with the GIL held.
struct PyBatch {
    Batch batch;
    std::vector<nanobind::object> held;

    // columns: list over columns of list over sentences of list of str; numeric: list of float64
    // arrays [T]. Tuples are accepted in place of lists. A TypeError or ValueError names sentence
    // and token. caches: the word caches of a scorer [columns], or empty. The caches are searched
    // on several threads while this one holds the GIL, so that no str can be freed meanwhile.
    PyBatch(const PyProgram& program, nanobind::handle columns, nanobind::handle numeric,
            std::span<const std::unique_ptr<WordCache>> caches = {}, int64_t threads = 1);
};

}  // namespace tagloom
