// Python bindings of scoring: weight rows, scorers of sentences, and the normaliser of local
// models.

#include "bind/scoring.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/gil.hpp"
#include "core/local.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

WeightRows make_rows(const In<int64_t, 1>& row_ptr, const Cols& cols, const In<float, 1>& weights,
                     int64_t K) {
    return std::visit(
        [&](const auto& array) {
            using Col = std::remove_const_t<typename std::decay_t<decltype(array)>::Scalar>;
            std::string fault;
            if (row_ptr.shape(0) == 0) {
                fault = "row_ptr is empty";
            } else if (array.shape(0) != weights.shape(0)) {
                fault = "there are " + std::to_string(weights.shape(0)) + " weights, but " +
                        std::to_string(array.shape(0)) + " cols";
            } else if (K < 1 || K > 0xffffffff) {
                fault = "K is " + std::to_string(K);
            } else {
                const RowArrays<Col> arrays{row_ptr.data(),
                                            array.data(),
                                            weights.data(),
                                            static_cast<int64_t>(row_ptr.shape(0)) - 1,
                                            static_cast<int64_t>(weights.shape(0)),
                                            K};
                const WithoutGil unlocked;
                fault = arrays.fault();
                if (fault.empty()) return WeightRows(arrays);
            }
            fail("Invalid weight rows: " + fault + ".");
        },
        cols);
}

// The row_ptr [A + 1] of rows with these lengths [A], as bytes.
nb::bytes row_pointers(const In<uint32_t, 1>& lengths) {
    const std::size_t A = lengths.shape(0);
    const nb::bytes result = nb::steal<nb::bytes>(
        PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>((A + 1) * sizeof(int64_t))));
    if (!result.is_valid()) throw nb::python_error();
    char* to = PyBytes_AsString(result.ptr());
    int64_t sum = 0;  // below 2^63 for any number of lengths that fits in memory
    std::memcpy(to, &sum, sizeof sum);
    for (std::size_t a = 0; a < A; a++) {
        sum += lengths(a);
        std::memcpy(to + (a + 1) * sizeof sum, &sum, sizeof sum);
    }
    return result;
}

// Whether no number is NaN or +inf; -inf forbids.
bool are_scores(const std::variant<In<float, 1>, In<double, 1>>& numbers) {
    return std::visit(
        [](const auto& array) {
            using Number = std::remove_const_t<typename std::decay_t<decltype(array)>::Scalar>;
            constexpr Number kMost = std::numeric_limits<Number>::max();
            return std::all_of(array.data(), array.data() + array.shape(0),
                               [](Number x) { return x <= kMost; });
        },
        numbers);
}

// Whether every template reads the word of its own token and nothing else.
bool reads_own_word(const Program& program) {
    return program.columns == 1 &&
           std::all_of(program.templates.begin(), program.templates.end(), [](const Template& one) {
               return one.local && one.offset == 0 && one.numeric < 0;
           });
}

LocalNormaliser make_normaliser(const In<double, 2>& trans, const In<double, 1>& start) {
    const std::size_t Y = start.shape(0);
    if (Y == 0 || trans.shape(0) != Y || trans.shape(1) != Y) {
        fail("trans must be [Y, Y] and start [Y], for at least one label.");
    }
    return LocalNormaliser(static_cast<int64_t>(Y), trans.data(), start.data());
}

Out<float> normalise(const LocalNormaliser& self, const In<float, 2>& emit,
                     const In<int64_t, 1>& offsets, const std::optional<In<float, 3>>& edge,
                     int64_t threads) {
    check_threads(threads);
    const std::size_t T = emit.shape(0), Y = emit.shape(1);
    check_offsets(offsets, T);
    const bool fits =
        static_cast<int64_t>(Y) == self.Y() &&
        (!edge || (edge->shape(0) == T && edge->shape(1) == Y && edge->shape(2) == Y));
    if (!fits) fail("emit and edge must be for " + std::to_string(self.Y()) + " labels.");
    auto out = std::make_unique_for_overwrite<float[]>(T * Y);
    {
        const WithoutGil unlocked;
        constexpr int64_t kSentences = 64;  // a thread's share at a time
        const std::span all(offsets.data(), offsets.shape(0));
        const int64_t N = std::ssize(all) - 1, items = (N + kSentences - 1) / kSentences;
        parallel_for(items, threads, [&](int64_t i, int64_t) {
            const auto first = static_cast<std::size_t>(i * kSentences);
            const auto n = static_cast<std::size_t>(std::min(kSentences, N - i * kSentences));
            const int64_t begin = all[first];
            self.normalise(all.subspan(first, n + 1), emit.data() + begin * self.Y(),
                           edge ? edge->data() + begin * self.Y() * self.Y() : nullptr,
                           out.get() + begin * self.Y());
        });
    }
    return give(std::move(out), {T, Y});
}

}  // namespace

// ---- Weight rows ----

PyWeightRows::PyWeightRows(const In<int64_t, 1>& row_ptr, const Cols& cols,
                           const In<float, 1>& weights, int64_t K)
    : rows_(make_rows(row_ptr, cols, weights, K)) {}

Out<float> PyWeightRows::score(In<int64_t, 1> indptr, In<int32_t, 1> ids,
                               std::optional<In<float, 1>> values, int64_t threads) const {
    check_threads(threads);
    const std::size_t nnz = ids.shape(0);
    bool fits = indptr.shape(0) > 0 && indptr(0) == 0 &&
                indptr(indptr.shape(0) - 1) == static_cast<int64_t>(nnz) &&
                (!values || values->shape(0) == nnz);
    for (std::size_t t = 1; fits && t < indptr.shape(0); t++) {
        fits = indptr(t - 1) <= indptr(t);
    }
    if (!fits) fail("indptr must rise from 0 to the number of ids; values must be one per id.");
    uint32_t largest = 0;  // a negative id counts as a large one
    for (std::size_t i = 0; i < nnz; i++) {
        largest = std::max(largest, static_cast<uint32_t>(ids(i)));
    }
    if (nnz > 0 && largest >= rows_.by_id.size()) {
        fail("id " + std::to_string(static_cast<int32_t>(largest)) +
             " is out of range; there are " + std::to_string(rows_.by_id.size()) + " attributes.");
    }
    const std::size_t T = indptr.shape(0) - 1, K = static_cast<std::size_t>(rows_.K);
    auto out = std::make_unique_for_overwrite<float[]>(T * K);
    {
        const WithoutGil unlocked;
        score_encoded(indptr.data(), ids.data(), values ? values->data() : nullptr,
                      static_cast<int64_t>(T), rows_, threads, out.get());
    }
    return give(std::move(out), {T, K});
}

// ---- Scorer ----

namespace {

// The fingerprints of the attributes, copied out of an index that another thread may add to.
std::vector<uint64_t> keys_of(const PyIndex& index) {
    index.check_idle();
    return index.index.keys();
}

}  // namespace

RowTable make_row_table(std::span<const uint64_t> keys, const WeightRows& rows) {
    if (rows.by_id.size() != keys.size()) {
        fail("The weight rows are for " + std::to_string(rows.by_id.size()) +
             " attributes, but the index has " + std::to_string(keys.size()) + ".");
    }
    try {
        const WithoutGil unlocked;
        return RowTable(keys, rows.by_id);
    } catch (const std::invalid_argument& error) {
        fail("Not the keys of an index: " + std::string(error.what()) + ".");
    }
}

Scorer::Scorer(nb::typed<nb::object, Extractor> extractor, std::span<const uint64_t> keys,
               WeightRows rows, bool takes_last)
    : held_(extractor),
      compiled_(nb::cast<const Extractor&>(extractor).compiled()),
      rows_(std::move(rows)),
      table_(make_row_table(keys, rows_)),
      plan_(compiled_.program, rows_.K),
      takes_last_(takes_last) {
    if (takes_last && !reads_own_word(compiled_.program)) {
        fail("takes_last needs templates that read only the word of their own token.");
    }
    const WithoutGil unlocked;
    rows_.by_id = {};  // rows are found by fingerprint from here on
    for (std::size_t c = 0; c < compiled_.program.columns; c++) {
        // Words with features computed in Python are not cached.
        caches_.push_back(make_word_cache(scoring(), c, compiled_.functions[c].empty()));
    }
}

Scorer::Scorer(nb::typed<nb::object, Extractor> extractor, const PyIndex& index,
               const In<int64_t, 1>& row_ptr, const Cols& cols, const In<float, 1>& weights,
               int64_t K, bool takes_last)
    : Scorer(extractor, keys_of(index), make_rows(row_ptr, cols, weights, K), takes_last) {}

Scorer::Scorer(nb::typed<nb::object, Extractor> extractor, const In<uint64_t, 1>& keys,
               const In<int64_t, 1>& row_ptr, const Cols& cols, const In<float, 1>& weights,
               int64_t K, bool takes_last)
    : Scorer(extractor, std::span(keys.data(), keys.shape(0)), make_rows(row_ptr, cols, weights, K),
             takes_last) {}

template <class Shape>
nb::tuple Scorer::score(nb::handle columns, nb::handle numeric, int64_t threads,
                        const Shape& shape) const {
    check_threads(threads);
    PyBatch given = read(columns, numeric, threads);
    const Batch& batch = given.batch;
    const nb::object offsets = arrays_.integers(nb::int_(batch.offsets.size()));
    const nb::object scores = arrays_.floats(shape(batch.offsets.back()));
    const Memory to(offsets), out(scores);
    std::copy(batch.offsets.begin(), batch.offsets.end(), to.data<int64_t>());
    {
        const WithoutGil unlocked;
        tagloom::score(scoring(), given.batch, caches_, threads, out.data<float>());
    }
    return nb::make_tuple(offsets, scores);
}

nb::tuple Scorer::emit(nb::handle columns, nb::handle numeric, int64_t threads) const {
    return score(columns, numeric, threads, [&](int64_t T) { return nb::make_tuple(T, K()); });
}

nb::tuple Scorer::edge(nb::handle columns, nb::handle numeric, int64_t threads) const {
    int64_t Y = 1;
    while (Y * Y < K()) Y++;
    if (Y * Y != K()) {
        fail("edge() needs Y * Y outputs; this scorer has " + std::to_string(K()) + ".");
    }
    return score(columns, numeric, threads, [&](int64_t T) { return nb::make_tuple(T, Y, Y); });
}

void bind_scoring(nb::module_& m) {
    using namespace nb::literals;
    m.def("row_pointers", &row_pointers, "lengths"_a,
          "Where rows of these lengths begin and end: int64 [A + 1], as bytes.");
    m.def("are_scores", &are_scores, "numbers"_a, "Whether no number is NaN or +inf.");
    nb::class_<PyWeightRows>(m, "WeightRows",
                             "The weights of each attribute, checked once: W weights, K outputs.")
        .def(nb::init<const In<int64_t, 1>&, const Cols&, const In<float, 1>&, int64_t>(),
             "row_ptr"_a, "cols"_a, "weights"_a, "K"_a)
        .def("score", &PyWeightRows::score, "indptr"_a, "ids"_a, "values"_a.none(), "threads"_a = 1,
             "Sum the weighted rows of the attributes of each token: [T, K].");

    nb::class_<Scorer>(
        m, "Scorer",
        "From sentences to scores: an extractor, and copies of an index and of weight rows, laid "
        "out for speed.")
        .def(nb::init<nb::typed<nb::object, Extractor>, const PyIndex&, const In<int64_t, 1>&,
                      const Cols&, const In<float, 1>&, int64_t, bool>(),
             "extractor"_a, "index"_a, "row_ptr"_a, "cols"_a, "weights"_a, "K"_a,
             "takes_last"_a = false)
        .def(nb::init<nb::typed<nb::object, Extractor>, const In<uint64_t, 1>&,
                      const In<int64_t, 1>&, const Cols&, const In<float, 1>&, int64_t, bool>(),
             "extractor"_a, "keys"_a, "row_ptr"_a, "cols"_a, "weights"_a, "K"_a,
             "takes_last"_a = false, "The same with the keys of an index.")
        .def("emit", &Scorer::emit, "columns"_a, "numeric"_a, "threads"_a = 1,
             nb::sig("def emit(self, columns: Sequence[Sequence[Sequence[str]]], numeric: "
                     "Sequence[NDArray[numpy.float64]], threads: int = 1) -> "
                     "tuple[NDArray[numpy.int64], NDArray[numpy.float32]]"),
             "Score the outputs of every token: (offsets [N + 1], emit [T, K]).")
        .def("edge", &Scorer::edge, "columns"_a, "numeric"_a, "threads"_a = 1,
             nb::sig("def edge(self, columns: Sequence[Sequence[Sequence[str]]], numeric: "
                     "Sequence[NDArray[numpy.float64]], threads: int = 1) -> "
                     "tuple[NDArray[numpy.int64], NDArray[numpy.float32]]"),
             "The same for label pairs, K = Y * Y: (offsets [N + 1], edge [T, Y, Y]).");

    nb::class_<LocalNormaliser>(
        m, "LocalNormaliser",
        "Turns the scores of a locally normalised model (MEMM) into log-probabilities.")
        .def(
            "__init__",
            [](LocalNormaliser* self, const In<double, 2>& trans, const In<double, 1>& start) {
                new (self) LocalNormaliser(make_normaliser(trans, start));
            },
            "trans"_a, "start"_a)
        .def("normalise", &normalise, "emit"_a, "offsets"_a, "edge"_a.none(), "threads"_a = 1,
             "Emissions [T, Y] minus the normaliser of the step that follows each token.");
}

}  // namespace tagloom
