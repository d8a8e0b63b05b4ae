// Features computed by the user: dicts and lists of features per token, in CRFsuite's forms, and
// arrays of numbers. They are read in place, under the GIL, and go straight into the index.
//
//   ["a", "b"]             a, b           each with value 1
//   {"a": "b"}             a:b            with value 1
//   {"a": 0.5, "b": True}  a, b           with that value
//   {"a": {...} or [...]}  a:...          recursively

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bind/bind.hpp"
#include "bind/index.hpp"
#include "core/index.hpp"

namespace nb = nanobind;

namespace tagloom {
namespace {

using Array = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// The encoded tokens so far, in CSR form.
struct Encoding {
    std::vector<int64_t> offsets{0}, indptr{0};
    std::vector<int32_t> ids;
    std::vector<float> values;
    bool all_one = true;

    std::string where() const {
        return "sentence " + std::to_string(offsets.size() - 1) + ", token " +
               std::to_string(static_cast<int64_t>(indptr.size()) - 1 - offsets.back());
    }
    void add(int32_t id, double value) {
        if (id < 0) return;
        ids.push_back(id);
        values.push_back(static_cast<float>(value));
        all_one &= value == 1.0;
    }
    void end_token() { indptr.push_back(static_cast<int64_t>(ids.size())); }
    void end_sentence() { offsets.push_back(static_cast<int64_t>(indptr.size()) - 1); }
};

template <class T>
nb::object give(std::vector<T>&& from) {
    auto* held = new std::vector<T>(std::move(from));
    nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T>(held->data(), {held->size()}, owner));
}

nb::tuple give(Encoding&& encoding) {
    nb::object values = nb::none();
    if (!encoding.all_one) values = give(std::move(encoding.values));
    return nb::make_tuple(give(std::move(encoding.offsets)), give(std::move(encoding.indptr)),
                          give(std::move(encoding.ids)), values);
}

std::string shown(nb::handle object) {
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

// Reads the features of one token after another; calls take(name, value) for each attribute.
template <class Take>
class Reader {
  public:
    Reader(const Encoding& encoding, Take& take, bool keep_zeros)
        : encoding_(encoding), take_(take), keep_zeros_(keep_zeros) {}

    void item(nb::handle item) {
        name_.clear();
        if (!nested(item)) {
            throw nb::type_error((encoding_.where() +
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
        if (PyList_Check(item.ptr()) || PyTuple_Check(item.ptr())) {
            PyObject* const* element = PySequence_Fast_ITEMS(item.ptr());
            for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(item.ptr()); i++) {
                add_text(element[i], 1.0);
            }
            return true;
        }
        if (PyAnySet_Check(item.ptr())) {  // sorted: the order of a set changes from run to run
            const nb::object sorted = nb::steal(PySequence_List(item.ptr()));
            if (!sorted.is_valid() || PyList_Sort(sorted.ptr()) < 0) throw nb::python_error();
            return nested(sorted);
        }
        return false;
    }

    void entry(PyObject* key, PyObject* value) {
        if (PyFloat_CheckExact(value)) {
            add_text(key, PyFloat_AS_DOUBLE(value));
            return;
        }
        if (PyBool_Check(value)) {
            add_text(key, value == Py_True ? 1.0 : 0.0);
            return;
        }
        const std::size_t before = name_.size();
        if (PyUnicode_Check(value)) {
            name_.append(text(key)).push_back(':');
            add_text(value, 1.0);
        } else if (PyDict_Check(value) || PyList_Check(value) || PyTuple_Check(value) ||
                   PyAnySet_Check(value)) {
            const Deeper deeper;
            name_.append(text(key)).push_back(':');
            nested(value);
        } else {
            const double number = PyFloat_AsDouble(value);
            if (number == -1.0 && PyErr_Occurred()) {
                PyErr_Clear();
                throw nb::type_error((encoding_.where() + ": feature " + shown_name(key) + " is " +
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
            throw nb::value_error((encoding_.where() + ": the value of feature " +
                                   shown_name(last) + " is " + std::to_string(value) +
                                   "; expected a finite number.")
                                      .c_str());
        }
        if (value == 0.0 && !keep_zeros_) return;
        const std::string_view tail = text(last);
        if (name_.empty()) {
            take_(tail, value);
            return;
        }
        const std::size_t before = name_.size();
        name_.append(tail);
        take_(name_, value);
        name_.resize(before);
    }

    std::string_view text(PyObject* object) const {
        if (!PyUnicode_Check(object)) {
            throw nb::type_error((encoding_.where() + ": the name of a feature is " +
                                  shown(object) + "; expected a str.")
                                     .c_str());
        }
        Py_ssize_t size;
        const char* data = PyUnicode_AsUTF8AndSize(object, &size);
        if (!data) {
            PyErr_Clear();
            throw nb::value_error((encoding_.where() + ": feature " +
                                   nb::repr(nb::handle(object)).c_str() +
                                   " is not valid Unicode: it has a lone surrogate.")
                                      .c_str());
        }
        return {data, static_cast<std::size_t>(size)};
    }

    std::string shown_name(PyObject* last) const {
        return "'" + name_ + std::string(text(last)) + "'";
    }

    const Encoding& encoding_;
    Take& take_;
    const bool keep_zeros_;
    std::string name_;  // the enclosing keys, each followed by ':'
};

// Calls one(item) for each token, and ends tokens and sentences. A sentence is a list or tuple.
template <class One>
void for_each_token(nb::handle sentences, Encoding& encoding, const One& one) {
    for (const nb::handle sentence : nb::borrow<nb::sequence>(sentences)) {
        if (!PyList_Check(sentence.ptr()) && !PyTuple_Check(sentence.ptr())) {
            throw nb::type_error(("sentence " + std::to_string(encoding.offsets.size() - 1) +
                                  " is " + shown(sentence) +
                                  "; expected a list with the features of each "
                                  "token.")
                                     .c_str());
        }
        for (Py_ssize_t t = 0; t < PySequence_Fast_GET_SIZE(sentence.ptr()); t++) {
            one(nb::handle(PySequence_Fast_GET_ITEM(sentence.ptr(), t)));
            encoding.end_token();
        }
        encoding.end_sentence();
    }
}

uint64_t fingerprint(std::string_view name) { return mix(kSeed, hash_part(name)); }

nb::tuple encode_items(nb::list sentences, PyIndex& index, bool grow) {
    Encoding encoding;
    const auto read = [&](auto&& number_of) {
        const auto take = [&](std::string_view name, double value) {
            encoding.add(number_of(name), value);
        };
        // A value of 0 adds nothing to a score. In training it still counts as seen with its label
        // and so gets a weight, as in CRFsuite.
        Reader reader(encoding, take, grow);
        for_each_token(sentences, encoding, [&](nb::handle item) { reader.item(item); });
    };
    if (grow) {
        const PyIndex::Growing growing(index);
        read([&](std::string_view name) {
            return index.index.add(fingerprint(name), [&](std::string& out) { out.append(name); });
        });
    } else {
        index.check_idle();
        const Table table = index.index.table();
        read([&](std::string_view name) { return table.find(fingerprint(name)); });
    }
    return give(std::move(encoding));
}

nb::list item_names(nb::list sentences) {
    Encoding encoding;
    nb::list tokens, found;
    const auto take = [&](std::string_view name, double value) {
        found.append(nb::make_tuple(nb::str(name.data(), name.size()), value));
    };
    Reader reader(encoding, take, false);
    for_each_token(sentences, encoding, [&](nb::handle item) {
        found = nb::list();
        reader.item(item);
        tokens.append(found);
    });
    return tokens;
}

// Arrays [T, D], one per sentence: number d of a token is attribute x[d].
nb::tuple encode_arrays(const std::vector<Array>& sentences, PyIndex& index, bool grow) {
    Encoding encoding;
    std::vector<std::string> names;
    std::vector<uint64_t> fingerprints;
    const auto read = [&](auto&& number_of) {
        for (const Array& array : sentences) {
            for (std::size_t d = names.size(); d < array.shape(1); d++) {
                names.push_back("x[" + std::to_string(d) + "]");
                fingerprints.push_back(fingerprint(names[d]));
            }
            for (std::size_t t = 0; t < array.shape(0); t++) {
                for (std::size_t d = 0; d < array.shape(1); d++) {
                    const double value = array(t, d);
                    if (!std::isfinite(value)) {
                        throw nb::value_error((encoding.where() + ": the value of feature '" +
                                               names[d] + "' is " + std::to_string(value) +
                                               "; expected a finite number.")
                                                  .c_str());
                    }
                    if (value != 0.0) encoding.add(number_of(d), value);
                }
                encoding.end_token();
            }
            encoding.end_sentence();
        }
    };
    if (grow) {
        const PyIndex::Growing growing(index);
        read([&](std::size_t d) {
            return index.index.add(fingerprints[d],
                                   [&](std::string& out) { out.append(names[d]); });
        });
    } else {
        index.check_idle();
        const Table table = index.index.table();
        read([&](std::size_t d) { return table.find(fingerprints[d]); });
    }
    return give(std::move(encoding));
}

}  // namespace

void bind_items(nb::module_& m) {
    using namespace nb::literals;
    m.def(
        "encode_items", &encode_items, "sentences"_a, "index"_a, "grow"_a,
        nb::sig("def encode_items(sentences: list[object], index: Index, grow: bool) -> "
                "tuple[NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.int32], "
                "NDArray[numpy.float32] | None]"),
        "Encode tokens given as dicts and lists: (offsets [N + 1], indptr [T + 1], ids, values).");
    m.def("item_names", &item_names, "sentences"_a,
          nb::sig("def item_names(sentences: list[object]) -> list[list[tuple[str, float]]]"),
          "The names and values of the attributes of every token, flat.");
    m.def("encode_arrays", &encode_arrays, "sentences"_a, "index"_a, "grow"_a,
          nb::sig("def encode_arrays(sentences: Sequence[NDArray[numpy.float64]], index: Index, "
                  "grow: bool) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64], "
                  "NDArray[numpy.int32], NDArray[numpy.float32] | None]"),
          "The same for arrays [T, D] of numbers: column d is attribute x[d]; zeros are left out.");
}

}  // namespace tagloom
