// Python bindings of core/spans: strings become integers, counts become NumPy arrays. Arguments are
// checked here, so that no array is read out of bounds.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "bind/bind.hpp"
#include "bind/gil.hpp"
#include "bind/python.hpp"
#include "core/spans.hpp"

namespace nb = nanobind;

namespace tagloom {
namespace {

template <typename T, int N>
using In = nb::ndarray<const T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;

template <typename T>
using Out = nb::ndarray<nb::numpy, T>;
template <typename A, typename B>
using Pair = nb::typed<nb::tuple, Out<A>, Out<B>>;

template <typename T>
Out<T> make_array(std::initializer_list<size_t> shape) {
    size_t size = 1;
    for (size_t length : shape) size *= length;
    T* data = new T[size]();
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return Out<T>(data, shape, owner);
}

// Numbers label strings, which repeat a lot. Three caches, fastest first: by address (the caller's
// lists keep every object alive); by bytes and length, for ASCII of at most eight bytes; the
// caller's dict, which gets every new text.
class Interner {
  public:
    explicit Interner(nb::dict table) : table_(table) {}

    int32_t id(PyObject* text) {
        Seen& seen = by_address_[(reinterpret_cast<uintptr_t>(text) >> 4) % by_address_.size()];
        if (seen.text != text) seen = {text, by_text(text)};
        return seen.id;
    }

  private:
    struct Seen {
        PyObject* text = nullptr;
        int32_t id = 0;
    };
    struct Short {
        uint64_t bytes = 0;
        int64_t length = -1;
        int32_t id = 0;
    };

    int32_t by_text(PyObject* text) {
        const std::string_view ascii = ascii_text(text);
        if (!ascii.data() || ascii.size() > 8) return by_dict(text);
        uint64_t bytes = 0;
        const auto length = static_cast<int64_t>(ascii.size());
        std::memcpy(&bytes, ascii.data(), ascii.size());
        const uint64_t hash = (bytes + length) * 0x9e3779b97f4a7c15u;
        Short& seen = by_bytes_[(hash >> 40) % by_bytes_.size()];
        if (seen.bytes != bytes || seen.length != length) seen = {bytes, length, by_dict(text)};
        return seen.id;
    }

    int32_t by_dict(PyObject* text) {
        PyObject* found = PyDict_GetItemWithError(table_.ptr(), text);
        if (found) return static_cast<int32_t>(PyLong_AsLong(found));
        if (PyErr_Occurred()) throw nb::python_error();
        const Py_ssize_t fresh = PyDict_Size(table_.ptr());
        nb::object number = nb::steal(PyLong_FromSsize_t(fresh));
        if (PyDict_SetItem(table_.ptr(), text, number.ptr()) < 0) throw nb::python_error();
        return static_cast<int32_t>(fresh);
    }

    nb::dict table_;
    std::array<Seen, 1024> by_address_{};
    std::array<Short, 256> by_bytes_{};
};

// Whether this is a list or tuple of lists or tuples. Items are borrowed: in Python, reference
// counting alone takes five times as long.
bool is_nested_list(nb::handle lists) {
    const Items items(lists.ptr());
    for (Py_ssize_t n = 0; n < items.size; n++) {
        if (!PyList_Check(items[n]) && !PyTuple_Check(items[n])) return false;
    }
    return items.size >= 0;
}

// The length of each inner list; None unless is_nested_list().
nb::object list_lengths(nb::handle lists) {
    if (!is_nested_list(lists)) return nb::none();
    const Items items(lists.ptr());
    Out<int64_t> lengths = make_array<int64_t>({static_cast<size_t>(items.size)});
    for (Py_ssize_t n = 0; n < items.size; n++) lengths.data()[n] = Items(items[n]).size;
    return nb::cast(lengths);
}

// Ids of all strings of a list of lists, flat, and where each sentence begins. None if a sentence
// is not a list or an element not a str; the caller then raises a precise error.
nb::object intern(nb::list sentences, nb::dict table) {
    const size_t N = sentences.size();
    Out<int64_t> offsets = make_array<int64_t>({N + 1});
    size_t total = 0;
    for (size_t n = 0; n < N; n++) {
        PyObject* sentence = list_item(sentences.ptr(), n);
        if (!PyList_CheckExact(sentence)) return nb::none();
        total += list_size(sentence);
        offsets.data()[n + 1] = static_cast<int64_t>(total);
    }
    Out<int32_t> ids = make_array<int32_t>({total});
    Interner interner(table);
    size_t t = 0;
    for (size_t n = 0; n < N; n++) {
        PyObject* sentence = list_item(sentences.ptr(), n);
        const Py_ssize_t T = offsets.data()[n + 1] - offsets.data()[n];
        for (Py_ssize_t i = 0; i < T; i++) {
            PyObject* text = list_item(sentence, i);
            if (!PyUnicode_CheckExact(text)) return nb::none();
            ids.data()[t++] = interner.id(text);
        }
    }
    return nb::make_tuple(ids, offsets);
}

// Throws unless the ids index Y labels and the offsets cut them into sentences.
int64_t check_labels(const In<int32_t, 1>& gold, const In<int32_t, 1>& predicted,
                     const In<int64_t, 1>& offsets, size_t Y) {
    const size_t T = gold.shape(0);
    bool fits = predicted.shape(0) == T && offsets.shape(0) > 0 && offsets(0) == 0 &&
                offsets(offsets.shape(0) - 1) == static_cast<int64_t>(T);
    for (size_t n = 1; fits && n < offsets.shape(0); n++) fits = offsets(n - 1) <= offsets(n);
    for (size_t t = 0; fits && t < T; t++) {
        fits = static_cast<uint32_t>(gold(t)) < Y && static_cast<uint32_t>(predicted(t)) < Y;
    }
    if (!fits)
        throw std::invalid_argument(
            "labels and offsets must have matching shapes, and labels be 0 to Y - 1");
    return static_cast<int64_t>(offsets.shape(0)) - 1;
}

Pair<int64_t, int32_t> count_tokens_py(In<int32_t, 1> gold, In<int32_t, 1> predicted,
                                       In<int64_t, 1> offsets, size_t Y) {
    const int64_t N = check_labels(gold, predicted, offsets, Y);
    auto confusion = make_array<int64_t>({Y, Y});
    auto correct = make_array<int32_t>({static_cast<size_t>(N)});
    {
        const WithoutGil unlocked;
        count_tokens(gold.data(), predicted.data(), offsets.data(), N, static_cast<int64_t>(Y),
                     confusion.data(), correct.data());
    }
    return Pair<int64_t, int32_t>(nb::make_tuple(confusion, correct));
}

Reading make_reading(const In<uint8_t, 3>& action, const In<uint8_t, 1>& closing,
                     const In<uint8_t, 1>& letter, const In<int32_t, 1>& type) {
    if (action.size() != 2 * kLetters * kLetters || action.shape(0) != 2 ||
        closing.shape(0) != kLetters) {
        throw std::invalid_argument("action must be [2, 5, 5] and closing [5]");
    }
    return {action.data(), closing.data(), letter.data(), type.data()};
}

Pair<int64_t, int32_t> count_spans_py(In<int32_t, 1> gold, In<int32_t, 1> predicted,
                                      In<int64_t, 1> offsets, In<uint8_t, 1> letter,
                                      In<int32_t, 1> type, size_t K, In<uint8_t, 3> gold_action,
                                      In<uint8_t, 1> gold_closing, In<uint8_t, 3> predicted_action,
                                      In<uint8_t, 1> predicted_closing) {
    const size_t Y = letter.shape(0);
    const int64_t N = check_labels(gold, predicted, offsets, Y);
    bool fits = type.shape(0) == Y;
    for (size_t y = 0; fits && y < Y; y++) {
        fits = letter(y) < kLetters && static_cast<uint32_t>(type(y)) < K;
    }
    if (!fits) throw std::invalid_argument("letter and type must be [Y], of values below 5 and K");
    auto by_type = make_array<int64_t>({K, 3});
    auto by_sentence = make_array<int32_t>({static_cast<size_t>(N), 3});
    const Reading gold_reading = make_reading(gold_action, gold_closing, letter, type);
    const Reading predicted_reading =
        make_reading(predicted_action, predicted_closing, letter, type);
    {
        const WithoutGil unlocked;
        count_spans(gold.data(), predicted.data(), offsets.data(), N, gold_reading,
                    predicted_reading, {by_type.data(), by_sentence.data()});
    }
    return Pair<int64_t, int32_t>(nb::make_tuple(by_type, by_sentence));
}

Out<int64_t> resample_py(In<int32_t, 2> rows, size_t replicates, uint64_t seed) {
    const size_t N = rows.shape(0), S = rows.shape(1);
    if (S > 8) throw std::invalid_argument("at most 8 counts per row");
    auto sums = make_array<int64_t>({replicates, S});
    {
        const WithoutGil unlocked;
        resample(rows.data(), static_cast<int64_t>(N), static_cast<int64_t>(S),
                 static_cast<int64_t>(replicates), seed, sums.data());
    }
    return sums;
}

Out<int64_t> toss_py(In<int32_t, 2> rows, In<int64_t, 1> copies, size_t replicates, uint64_t seed) {
    const size_t N = rows.shape(0), S = rows.shape(1);
    if (copies.shape(0) != N)
        throw std::invalid_argument("copies must be [N], as many as there are rows");
    auto sums = make_array<int64_t>({replicates, S});
    {
        const WithoutGil unlocked;
        toss(rows.data(), copies.data(), static_cast<int64_t>(N), static_cast<int64_t>(S),
             static_cast<int64_t>(replicates), seed, sums.data());
    }
    return sums;
}

}  // namespace

void bind_evaluation(nb::module_& m) {
    using namespace nb::literals;
    // Signatures for the stub where nanobind cannot derive them from C++ types.
    m.def("intern", &intern, "sentences"_a, "table"_a,
          nb::sig("def intern(sentences: list[list[str]], table: dict[str, int]) -> "
                  "tuple[NDArray[numpy.int32], NDArray[numpy.int64]] | None"),
          "Number the strings of a list of lists: (ids [T], offsets [N + 1]), or None.");
    m.def("is_nested_list", &is_nested_list, "lists"_a,
          "Whether this is a list or tuple of lists or tuples.");
    m.def("list_lengths", &list_lengths, "lists"_a,
          nb::sig("def list_lengths(lists: object) -> NDArray[numpy.int64] | None"),
          "The length of each inner list [N]; None unless is_nested_list().");
    m.def("count_tokens", &count_tokens_py, "gold"_a, "predicted"_a, "offsets"_a, "Y"_a,
          "Count tokens: (confusion [Y, Y], correct [N]).");
    m.def("count_spans", &count_spans_py, "gold"_a, "predicted"_a, "offsets"_a, "letter"_a,
          "type"_a, "K"_a, "gold_action"_a, "gold_closing"_a, "predicted_action"_a,
          "predicted_closing"_a,
          "Count spans, gold, predicted and correct: (by type [K, 3], by sentence [N, 3]).");
    m.def("resample", &resample_py, "rows"_a, "replicates"_a, "seed"_a,
          "Sum rows drawn with replacement: [replicates, S].");
    m.def("toss", &toss_py, "rows"_a, "copies"_a, "replicates"_a, "seed"_a,
          "Sum over rows of the row times the number of heads among its `copies` coins: "
          "[replicates, S].");
}

}  // namespace tagloom
