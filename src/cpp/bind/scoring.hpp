// Weight rows and scorers of sentences as Python objects; decoders use them. Arrays are checked
// here, so that core may trust them.
#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bind/extractor.hpp"
#include "bind/index.hpp"
#include "bind/words.hpp"
#include "core/score.hpp"
#include "core/word_cache.hpp"

namespace tagloom {

namespace nb = nanobind;

template <typename T, int N>
using In = nb::ndarray<const T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Out = nb::ndarray<nb::numpy, T>;

[[noreturn]] inline void fail(const std::string& what) { throw nb::value_error(what.c_str()); }

// A NumPy array that takes over the memory.
template <class T>
Out<T> give(std::unique_ptr<T[]> data, std::initializer_list<std::size_t> shape) {
    T* p = data.release();
    nb::capsule owner(p, [](void* it) noexcept { delete[] static_cast<T*>(it); });
    return Out<T>(p, shape, owner);
}

// Makes NumPy arrays; numpy.empty takes 0.4 us, an array made by nanobind 1 us. NumPy is imported
// for the first one: programs that only tag need none. Needs the GIL.
class ArrayMaker {
  public:
    nb::object floats(nb::handle shape) const {
        const Numpy& made = numpy();
        return made.empty(shape, made.float32);
    }
    nb::object integers(nb::handle shape) const {
        const Numpy& made = numpy();
        return made.empty(shape, made.int64);
    }

  private:
    struct Numpy {
        nb::object empty, int64, float32;
    };
    const Numpy& numpy() const {
        if (!numpy_) {
            const nb::module_ module = nb::module_::import_("numpy");
            Numpy made{module.attr("empty"), module.attr("dtype")("int64"),
                       module.attr("dtype")("float32")};
            // The import may release the GIL: another thread may have been first.
            if (!numpy_) numpy_ = std::move(made);
        }
        return *numpy_;
    }
    mutable std::optional<Numpy> numpy_;
};

// A writable view of the memory of an array.
class Memory {
  public:
    explicit Memory(const nb::object& array) {
        if (PyObject_GetBuffer(array.ptr(), &view_, PyBUF_WRITABLE) < 0) throw nb::python_error();
    }
    ~Memory() { PyBuffer_Release(&view_); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    template <class T>
    T* data() const {
        return static_cast<T*>(view_.buf);
    }

  private:
    Py_buffer view_;
};

inline int64_t check_threads(int64_t threads) {
    if (threads < 1) fail("threads must be at least 1; got " + std::to_string(threads) + ".");
    return threads;
}

inline void check_offsets(const In<int64_t, 1>& offsets, std::size_t T) {
    bool fits = offsets.shape(0) > 0 && offsets(0) == 0 &&
                offsets(offsets.shape(0) - 1) == static_cast<int64_t>(T);
    for (std::size_t n = 1; fits && n < offsets.shape(0); n++) fits = offsets(n - 1) <= offsets(n);
    if (!fits) fail("offsets must rise from 0 to " + std::to_string(T) + ".");
}

// The weights of each attribute, checked once.
using Cols = std::variant<In<uint16_t, 1>, In<uint8_t, 1>, In<uint32_t, 1>>;

class PyWeightRows {
  public:
    PyWeightRows(const In<int64_t, 1>& row_ptr, const Cols& cols, const In<float, 1>& weights,
                 int64_t K);
    // Scores of encoded tokens, in CSR form.
    Out<float> score(In<int64_t, 1> indptr, In<int32_t, 1> ids, std::optional<In<float, 1>> values,
                     int64_t threads) const;
    const WeightRows& rows() const { return rows_; }

  private:
    WeightRows rows_;
};

// The row of each attribute by its fingerprint; keys are those of an index, in order.
RowTable make_row_table(std::span<const uint64_t> keys, const WeightRows& rows);

// Its scores never change: it keeps the extractor alive, copies everything else, and caches only
// what follows from the text of a word.
class Scorer {
  public:
    Scorer(nb::typed<nb::object, Extractor> extractor, const PyIndex& index,
           const In<int64_t, 1>& row_ptr, const Cols& cols, const In<float, 1>& weights, int64_t K,
           bool takes_last);
    Scorer(nb::typed<nb::object, Extractor> extractor, const In<uint64_t, 1>& keys,
           const In<int64_t, 1>& row_ptr, const Cols& cols, const In<float, 1>& weights, int64_t K,
           bool takes_last);
    Scorer(const Scorer&) = delete;
    Scorer& operator=(const Scorer&) = delete;

    nb::tuple emit(nb::handle columns, nb::handle numeric, int64_t threads) const;
    nb::tuple edge(nb::handle columns, nb::handle numeric, int64_t threads) const;

    int64_t K() const { return rows_.K; }

    PyBatch read(nb::handle columns, nb::handle numeric, int64_t threads) const {
        return PyBatch(compiled_, columns, numeric, caches_, threads);
    }
    ScoredWords score_words(Batch& batch, int64_t threads, ScoredWords::Role role) const {
        return {scoring(), batch, caches_, threads, role};
    }

  private:
    Scorer(nb::typed<nb::object, Extractor> extractor, std::span<const uint64_t> keys,
           WeightRows rows, bool takes_last);

    Scoring scoring() const { return {compiled_.program, plan_, table_, rows_, takes_last_}; }

    template <class Shape>
    nb::tuple score(nb::handle columns, nb::handle numeric, int64_t threads,
                    const Shape& shape) const;

    nb::object held_;
    const PyProgram& compiled_;
    WeightRows rows_;
    RowTable table_;
    Plan plan_;
    bool takes_last_;
    std::vector<std::unique_ptr<WordCache>> caches_;  // [columns]
    ArrayMaker arrays_;
};

}  // namespace tagloom
