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
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "bind/name_batch.hpp"
#include "bind/python.hpp"
#include "core/hash.hpp"

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

// Raises RecursionError for a dict that contains itself.
struct Deeper {
    Deeper() {
        if (Py_EnterRecursiveCall(" in the features of a token")) throw nb::python_error();
    }
    ~Deeper() { Py_LeaveRecursiveCall(); }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
};

// The objects of the tokens that are read next. Strings, lists, dicts and tokens of a corpus do not
// fit into the caches, so what Python holds of a token is prefetched in three steps: its dict or
// list, then the table of entries or the elements, then the strings. The entries of a dict are
// collected in the last step.
//
// All objects are borrowed: after code of the user has run, which may change the lists, call
// forget().
class Lookahead {
  public:
    struct Entry {
        PyObject *key, *value;
        Py_ssize_t end;  // where PyDict_Next() continues
    };
    // The first entries of a dict.
    struct Entries {
        PyObject* of = nullptr;
        int64_t n = 0;
        std::array<Entry, 64> all;
    };

    // Without keeps_zeros, entries that are False are left out.
    Lookahead(PyObject* sentences, bool keeps_zeros)
        : sentences_(sentences), keeps_zeros_(keeps_zeros) {}

    // Call for each token in order. Returns its entries if it is a dict, valid until the next call
    // or forget(); otherwise null.
    const Entries* move_to(Py_ssize_t sentence, Py_ssize_t token, PyObject* item) {
        if (is_lost_) {
            n_ = sentence;
            t_ = token;
            tokens_ = {};
            is_lost_ = false;
            for (std::size_t i = 0; i < kHead; i++) advance();
        }
        advance();
        const Entries& entries = entries_[at_ % kKept];
        return entries.of == item ? &entries : nullptr;
    }
    void forget() {
        is_lost_ = true;
        for (Entries& entries : entries_) entries.of = nullptr;
    }

  private:
    // How many tokens ahead each step is. Reading a token takes about as long as a cache miss.
    static constexpr std::size_t kTexts = 3, kTable = 7, kHead = 12, kKept = 4, kRing = 16;
    static_assert(kTexts < kKept && kHead < kRing);

    void advance() {
        at_++;
        const auto ahead = [this](std::size_t n) -> PyObject*& {
            return tokens_[(at_ + n) % kRing];
        };
        ahead(kHead) = pull();
        __builtin_prefetch(ahead(kHead));
        if (PyObject* token = ahead(kTable)) prefetch_table(token);
        Entries& entries = entries_[(at_ + kTexts) % kKept];
        entries.of = nullptr;
        PyObject* token = ahead(kTexts);
        if (!token) return;
        if (PyDict_Check(token)) {
            collect(token, entries);
        } else {
            prefetch_elements(token);
        }
    }

    // The next token, null at the end.
    PyObject* pull() {
        const Items sentences(sentences_);
        for (; n_ < sentences.size; n_++, t_ = 0) {
            const Items tokens(sentences[n_]);
            if (t_ < tokens.size) return tokens[t_++];
            if (n_ + 2 < sentences.size) Items(sentences[n_ + 2]).prefetch();
            if (n_ + 3 < sentences.size) __builtin_prefetch(sentences[n_ + 3]);
        }
        return nullptr;
    }

    // Not in a function that only prefetches: GCC 12 removes its calls, unless always inlined.
    [[gnu::always_inline]] static void prefetch_table(PyObject* token) {
        if (const Items items(token); items.size > 0) {
            items.prefetch();
            return;
        }
#ifndef Py_LIMITED_API
        if (!PyDict_Check(token)) return;
        const auto* dict = reinterpret_cast<const PyDictObject*>(token);
        const auto* table = reinterpret_cast<const char*>(dict->ma_keys);
        constexpr Py_ssize_t kHead = 64, kEntry = 24, kMost = 1024;  // bytes
        const Py_ssize_t bytes = std::min(kHead + dict->ma_used * kEntry, kMost);
        for (Py_ssize_t at = 0; at < bytes; at += 64) __builtin_prefetch(table + at);
#endif
    }

    [[gnu::always_inline]] static void prefetch_text(PyObject* text) {
        __builtin_prefetch(text);
        __builtin_prefetch(reinterpret_cast<const char*>(text) + 64);
    }

    [[gnu::always_inline]] static void prefetch_elements(PyObject* token) {
        constexpr Py_ssize_t kMost = 24;
        const Items items(token);
        for (Py_ssize_t i = 0; i < std::min(items.size, kMost); i++) prefetch_text(items[i]);
    }

    void collect(PyObject* dict, Entries& into) {
        into.of = dict;
        into.n = 0;
        PyObject *key, *value;
        Py_ssize_t at = 0;
        while (into.n < std::ssize(into.all) && PyDict_Next(dict, &at, &key, &value)) {
            if (value == Py_False && !keeps_zeros_) continue;
            prefetch_text(key);
            prefetch_text(value);
            into.all[into.n++] = {key, value, at};
        }
    }

    PyObject* sentences_;
    const bool keeps_zeros_;
    Py_ssize_t n_ = 0, t_ = 0;             // of the token that is pulled next
    std::size_t at_ = 0;                   // of the token, modulo the size of either ring
    std::array<PyObject*, kRing> tokens_;  // the token and those after it
    std::array<Entries, kKept> entries_;
    bool is_lost_ = true;
};

// Reads the features of all tokens of some sentences, and calls
//
//   sink(batch)                     for names and ends of tokens; the sink need not clear it
//   sink.end_sentence(n)            after each sentence, with the number of its tokens
//
// Names of a batch may be read in place, so it is handed over before any code of the user runs.
template <class Sink>
class Reader {
  public:
    Reader(nb::handle sentences, Sink& sink, bool keeps_zeros)
        : sentences_(sentences),
          sink_(sink),
          keeps_zeros_(keeps_zeros),
          lookahead_(sentences.ptr(), keeps_zeros) {}

    // Lists are read anew for each token: a feature may run code of the user, which may change
    // them.
    void read() {
        for (; place_.sentence < Items(sentences_.ptr()).size; place_.sentence++) {
            const nb::object held = nb::borrow(Items(sentences_.ptr())[place_.sentence]);
            PyObject* sentence = held.ptr();
            if (!PyList_Check(sentence) && !PyTuple_Check(sentence)) {
                throw nb::type_error(("sentence " + std::to_string(place_.sentence) + " is " +
                                      shown(held) +
                                      "; expected a list with the features of each token.")
                                         .c_str());
            }
            for (place_.token = 0; place_.token < Items(sentence).size; place_.token++) {
                item(nb::borrow(Items(sentence)[place_.token]));
            }
            sink_.end_sentence(place_.token);
        }
        flush();
    }

  private:
    void item(nb::object item) {
        prefix_.clear();
        const auto* entries = lookahead_.move_to(place_.sentence, place_.token, item.ptr());
        if (entries) {
            dict(item.ptr(), *entries);
        } else if (!nested(item)) {
            throw nb::type_error((place_.text() +
                                  ": expected a dict or a list of features, found " + shown(item) +
                                  ".")
                                     .c_str());
        }
        batch_.end_token();
        if (batch_.is_full()) flush();
    }

    void dict(PyObject* dict, const Lookahead::Entries& entries) {
        Py_ssize_t at = 0;
        for (int64_t i = 0; i < entries.n; i++) {
            const auto [key, value, end] = entries.all[i];
            at = end;
            entry(key, value);
            if (entries.of != dict) break;  // forgotten
        }
        if (entries.of != dict || entries.n == std::ssize(entries.all)) rest(dict, at);
    }
    // The entries from a place on.
    void rest(PyObject* dict, Py_ssize_t at) {
        PyObject *key, *value;
        while (PyDict_Next(dict, &at, &key, &value)) entry(key, value);
    }

    // Reads a dict, list, tuple or set; false if the item is something else.
    bool nested(nb::handle item) {
        if (PyDict_Check(item.ptr())) {
            rest(item.ptr(), 0);
            return true;
        }
        if (const Items elements(item.ptr()); elements.size >= 0) {
            for (Py_ssize_t i = 0; i < elements.size; i++) add(text(elements[i]), 1.0);
            return true;
        }
        if (PyAnySet_Check(item.ptr())) {  // sorted: the order of a set changes from run to run
            before_code();
            const nb::object sorted = nb::steal(PySequence_List(item.ptr()));
            if (!sorted.is_valid() || PyList_Sort(sorted.ptr()) < 0) throw nb::python_error();
            const bool is_read = nested(sorted);
            flush();  // the list goes
            return is_read;
        }
        return false;
    }

    void entry(PyObject* key, PyObject* value) {
        if (value == Py_True) {
            add(text(key), 1.0);
        } else if (value == Py_False) {
            if (keeps_zeros_) add(text(key), 0.0);
        } else if (PyUnicode_Check(value)) {
            join(text(key), text(value));
        } else if (PyFloat_CheckExact(value)) {
            add_number(key, float_value(value));
        } else {
            other(nb::borrow(key), nb::borrow(value));
        }
    }

    void other(const nb::object& key, const nb::object& value) {
        if (PyDict_Check(value.ptr()) || PyList_Check(value.ptr()) || PyTuple_Check(value.ptr()) ||
            PyAnySet_Check(value.ptr())) {
            const Deeper deeper;
            const std::size_t before = prefix_.size();
            prefix_.append(text(key.ptr()).text).append(":");
            nested(value);
            prefix_.resize(before);
            return;
        }
        const bool runs_code = !PyLong_CheckExact(value.ptr()) && !PyFloat_Check(value.ptr());
        if (runs_code) before_code();
        const double number = PyFloat_AsDouble(value.ptr());
        if (number == -1.0 && PyErr_Occurred()) {
            PyErr_Clear();
            throw nb::type_error((place_.text() + ": feature " + shown_name(key.ptr()) + " is " +
                                  shown(value) +
                                  "; expected a str, a number, a bool, a dict or a list.")
                                     .c_str());
        }
        add_number(key.ptr(), number);
        if (runs_code) flush();  // the dict may no longer hold the key
    }

    void add_number(PyObject* key, double value) {
        if (!std::isfinite(value)) {
            throw nb::value_error((place_.text() + ": the value of feature " + shown_name(key) +
                                   " is " + std::to_string(value) + "; expected a finite number.")
                                      .c_str());
        }
        if (value != 0.0 || keeps_zeros_) add(text(key), value);
    }

    // The attribute whose name is the keys so far and `last`.
    [[gnu::always_inline]] void add(const Text& last, double value) {
        if (prefix_.empty() && last.has_head) {
            batch_.add(last.text, value);
            if (batch_.is_full()) flush();
        } else {
            add_copied(last, value);
        }
    }
    [[gnu::noinline]] void add_copied(const Text& last, double value) {
        if (make_room(prefix_.size() + last.text.size())) {
            batch_.prepend(last);
            batch_.prepend(Text{prefix_});
            batch_.add_joined(value);
        } else {
            add_long(std::string(last.text), value);
        }
        if (batch_.is_full()) flush();
    }

    // The attribute whose name is the keys so far, `key`, and `last`.
    void join(const Text& key, const Text& last) {
        if (make_room(prefix_.size() + key.text.size() + 1 + last.text.size())) {
            batch_.prepend(last);
            batch_.prepend(':');
            batch_.prepend(key);
            if (!prefix_.empty()) batch_.prepend(Text{prefix_});
            batch_.add_joined(1.0);
        } else {
            add_long(std::string(key.text) + ":" + std::string(last.text), 1.0);
        }
        if (batch_.is_full()) flush();
    }

    // Whether a joined name of this length has room, if need be after a flush.
    bool make_room(std::size_t bytes) {
        if (batch_.has_room_for(bytes)) return true;
        flush();
        return batch_.has_room_for(bytes);
    }
    [[gnu::noinline]] void add_long(const std::string& name, double value) {
        const std::string padded = std::string(kBeforeName, ' ') + prefix_ + name;
        batch_.add(std::string_view(padded).substr(kBeforeName), value);
        flush();
    }

    [[gnu::noinline]] void flush() {
        if (!batch_.is_empty()) sink_(batch_);
        batch_.clear();
    }
    // Code of the user may free every object that is not held.
    void before_code() {
        flush();
        lookahead_.forget();
    }

    Text text(PyObject* object) {
#ifndef Py_LIMITED_API
        if (PyUnicode_CheckExact(object) && PyUnicode_IS_COMPACT_ASCII(object)) {
            static_assert(sizeof(PyASCIIObject) >= Text::kBlock);
            const auto* head = reinterpret_cast<const PyASCIIObject*>(object);
            return {{reinterpret_cast<const char*>(head + 1), static_cast<size_t>(head->length)},
                    true};
        }
#endif
        return {utf8(object)};
    }

    [[gnu::noinline]] std::string_view utf8(PyObject* object) const {
        if (!PyUnicode_Check(object)) {
            throw nb::type_error((place_.text() + ": the name of a feature is " + shown(object) +
                                  "; expected a str.")
                                     .c_str());
        }
        Py_ssize_t size;
        const char* data = PyUnicode_AsUTF8AndSize(object, &size);  // which the object keeps
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
        return "'" + prefix_ + std::string(utf8(last)) + "'";
    }

    const nb::handle sentences_;
    Sink& sink_;
    const bool keeps_zeros_;
    Place place_;
    Lookahead lookahead_;
    std::string prefix_;  // the enclosing keys, each followed by ':'
    NameBatch batch_;
};

}  // namespace tagloom
