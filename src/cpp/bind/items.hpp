// Reads features computed by the user: dicts and lists of features per token, in CRFsuite's forms.
// They are read in place, under the GIL.
//
//   ["a", "b"]             a, b           each with value 1
//   {"a": "b"}             a:b            with value 1
//   {"a": 0.5, "b": True}  a, b           with that value
//   {"a": {...} or [...]}  a:...          recursively
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bind/python.hpp"
#include "core/hash.hpp"
#include "core/rows.hpp"

namespace tagloom {

namespace nb = nanobind;

// The fingerprint of an attribute that the user names.
inline uint64_t fingerprint(std::string_view name) { return mix(kSeed, hash_part(name)); }

// Where the reader is.
struct Place {
    int64_t sentence = 0, token = 0;

    std::string text() const {
        return "sentence " + std::to_string(sentence) + ", token " + std::to_string(token);
    }
};

inline std::string shown(nb::handle object) {
    std::string text = nb::repr(object).c_str();
    if (text.size() > 60) {
        std::size_t end = 60;
        while ((text[end] & 0xc0) == 0x80) end--;  // not within a character
        text = text.substr(0, end) + "…";
    }
    return text + ", of type " + nb::type_name(object.type()).c_str();
}

// A name under construction. std::string takes twice as long for names of ten bytes.
class NameBuffer {
  public:
    std::size_t size() const { return size_; }
    void clear() { size_ = 0; }
    void resize(std::size_t size) { size_ = size; }  // to an earlier size
    void append(std::string_view text) {
        if (size_ + text.size() > capacity_) grow(text.size());
        std::memcpy(data_.get() + size_, text.data(), text.size());
        size_ += text.size();
    }
    std::string_view view() const { return {data_.get(), size_}; }

  private:
    void grow(std::size_t more) {
        const std::size_t capacity = 2 * (size_ + more);
        auto larger = std::make_unique_for_overwrite<char[]>(capacity);
        std::memcpy(larger.get(), data_.get(), size_);
        data_ = std::move(larger);
        capacity_ = capacity;
    }
    std::size_t size_ = 0, capacity_ = 256;
    std::unique_ptr<char[]> data_ = std::make_unique_for_overwrite<char[]>(256);
};

// Raises RecursionError for a dict that contains itself.
struct Deeper {
    Deeper() {
        if (Py_EnterRecursiveCall(" in the features of a token")) throw nb::python_error();
    }
    ~Deeper() { Py_LeaveRecursiveCall(); }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
};

// Reads the features of one token after another; calls take(name, value) for each attribute, or, if
// there is such a call, take(names, n) for attributes with value 1.
template <class Take>
class Reader {
  public:
    Reader(const Place& place, Take& take, bool keep_zeros)
        : place_(place), take_(take), keep_zeros_(keep_zeros) {}

    void item(nb::handle item) {
        name_.clear();
        if (!nested(item)) {
            throw nb::type_error((place_.text() +
                                  ": expected a dict or a list of features, found " + shown(item) +
                                  ".")
                                     .c_str());
        }
    }

  private:
    // Reads a dict, list, tuple or set; false if the item is something else.
    bool nested(nb::handle item) {
        if (PyDict_Check(item.ptr())) {
            PyObject *key, *value;
            Py_ssize_t at = 0;
            while (PyDict_Next(item.ptr(), &at, &key, &value)) entry(key, value);
            return true;
        }
        if (const Items elements(item.ptr()); elements.size >= 0) {
            list(elements);
            return true;
        }
        if (PyAnySet_Check(item.ptr())) {  // sorted: the order of a set changes from run to run
            const nb::object sorted = nb::steal(PySequence_List(item.ptr()));
            if (!sorted.is_valid() || PyList_Sort(sorted.ptr()) < 0) throw nb::python_error();
            return nested(sorted);
        }
        return false;
    }

    void list(const Items& elements) {
        if constexpr (requires(Take& take, const Name* names) { take(names, 1); }) {
            if (name_.size() == 0) {
                constexpr Py_ssize_t kMost = 64;
                Name names[kMost];
                for (Py_ssize_t first = 0; first < elements.size; first += kMost) {
                    const Py_ssize_t n = std::min(elements.size - first, kMost);
                    for (Py_ssize_t i = 0; i < n; i++) {
                        const std::string_view name = text(elements[first + i]);
                        names[i] = {name.data(), std::ssize(name)};
                    }
                    for (Py_ssize_t i = n; i % kNamesAtOnce != 0; i++) names[i] = {"", 0};
                    take_(names, n);
                }
                return;
            }
        }
        for (Py_ssize_t i = 0; i < elements.size; i++) add_text(elements[i], 1.0);
    }

    void entry(PyObject* key, PyObject* value) {
        if (PyFloat_CheckExact(value)) {
            add_text(key, float_value(value));
            return;
        }
        if (PyBool_Check(value)) {
            add_text(key, value == Py_True ? 1.0 : 0.0);
            return;
        }
        const std::size_t before = name_.size();
        if (PyUnicode_Check(value)) {
            name_.append(text(key));
            name_.append(":");
            add_text(value, 1.0);
        } else if (PyDict_Check(value) || PyList_Check(value) || PyTuple_Check(value) ||
                   PyAnySet_Check(value)) {
            const Deeper deeper;
            name_.append(text(key));
            name_.append(":");
            nested(value);
        } else {
            const double number = PyFloat_AsDouble(value);
            if (number == -1.0 && PyErr_Occurred()) {
                PyErr_Clear();
                throw nb::type_error((place_.text() + ": feature " + shown_name(key) + " is " +
                                      shown(value) +
                                      "; expected a str, a number, a bool, a dict or a list.")
                                         .c_str());
            }
            add_text(key, number);
        }
        name_.resize(before);
    }

    // The attribute whose name is the keys so far and `last`.
    void add_text(PyObject* last, double value) {
        if (!std::isfinite(value)) {
            throw nb::value_error((place_.text() + ": the value of feature " + shown_name(last) +
                                   " is " + std::to_string(value) + "; expected a finite number.")
                                      .c_str());
        }
        if (value == 0.0 && !keep_zeros_) return;
        const std::string_view tail = text(last);
        if (name_.size() == 0) {
            take_(tail, value);
            return;
        }
        const std::size_t before = name_.size();
        name_.append(tail);
        take_(name_.view(), value);
        name_.resize(before);
    }

    std::string_view text(PyObject* object) const {
        if (!PyUnicode_Check(object)) {
            throw nb::type_error((place_.text() + ": the name of a feature is " + shown(object) +
                                  "; expected a str.")
                                     .c_str());
        }
#ifndef Py_LIMITED_API
        if (const std::string_view ascii = ascii_text(object); ascii.data()) return ascii;
#endif
        Py_ssize_t size;
        const char* data = PyUnicode_AsUTF8AndSize(object, &size);
        if (!data) {
            PyErr_Clear();
            throw nb::value_error((place_.text() + ": feature " +
                                   nb::repr(nb::handle(object)).c_str() +
                                   " is not valid Unicode: it has a lone surrogate.")
                                      .c_str());
        }
        return {data, static_cast<std::size_t>(size)};
    }

    std::string shown_name(PyObject* last) const {
        return std::string("'").append(name_.view()).append(text(last)).append("'");
    }

    const Place& place_;
    Take& take_;
    const bool keep_zeros_;
    NameBuffer name_;  // the enclosing keys, each followed by ':'
};

// Strings, lists and tokens of a corpus do not fit into the caches: what follows is prefetched. GCC
// 12 removes calls of functions that only prefetch, unless they are always inlined.
[[gnu::always_inline]] inline void prefetch_text(PyObject* text) {
    __builtin_prefetch(text);
    __builtin_prefetch(reinterpret_cast<const char*>(text) + 64);
}

// For a token that is a list: the object of the third next token, the elements of the second next,
// and the strings of the next.
[[gnu::always_inline]] inline void prefetch_ahead(const Items& tokens, Py_ssize_t t) {
    constexpr Py_ssize_t kMost = 24;
    if (t + 3 < tokens.size) __builtin_prefetch(tokens[t + 3]);
    if (t + 2 < tokens.size) {
        if (const Items items(tokens[t + 2]); items.size > 0) items.prefetch();
    }
    if (t + 1 < tokens.size) {
        const Items items(tokens[t + 1]);
        for (Py_ssize_t i = 0; i < std::min(items.size, kMost); i++) prefetch_text(items[i]);
    }
}

// Calls one(item) for each token and end_sentence(number of tokens) after each sentence, which is a
// list or tuple.
template <class One, class EndSentence>
void for_each_token(nb::handle sentences, Place& place, const One& one,
                    const EndSentence& end_sentence) {
    for (const nb::handle sentence : nb::borrow<nb::sequence>(sentences)) {
        if (!PyList_Check(sentence.ptr()) && !PyTuple_Check(sentence.ptr())) {
            throw nb::type_error(("sentence " + std::to_string(place.sentence) + " is " +
                                  shown(sentence) +
                                  "; expected a list with the features of each token.")
                                     .c_str());
        }
        // Read anew for each token: a feature may run code of the user, which may change the list.
        for (place.token = 0; place.token < Items(sentence.ptr()).size; place.token++) {
            const Items tokens(sentence.ptr());
            prefetch_ahead(tokens, place.token);
            one(nb::handle(tokens[place.token]));
        }
        end_sentence(place.token);
        place.sentence++;
    }
}

}  // namespace tagloom
