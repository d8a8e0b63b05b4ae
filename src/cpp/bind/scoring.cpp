// Python bindings of scoring and decoding: weight rows, scorers of sentences, and the decoder,
// which finds labels without building arrays of scores. Arrays are checked here, so that core may
// trust them.

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bind/bind.hpp"
#include "bind/dense.hpp"
#include "bind/extractor.hpp"
#include "bind/gil.hpp"
#include "bind/index.hpp"
#include "bind/words.hpp"
#include "core/decode.hpp"
#include "core/extract.hpp"
#include "core/local.hpp"
#include "core/score.hpp"
#include "core/threads.hpp"
#include "core/word_cache.hpp"

namespace nb = nanobind;

namespace tagloom {
namespace {

template <typename T, int N>
using In = nb::ndarray<const T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Out = nb::ndarray<nb::numpy, T>;

[[noreturn]] void fail(const std::string& what) { throw nb::value_error(what.c_str()); }

// A NumPy array that takes over the memory.
template <class T>
Out<T> give(std::unique_ptr<T[]> data, std::initializer_list<std::size_t> shape) {
    T* p = data.release();
    nb::capsule owner(p, [](void* it) noexcept { delete[] static_cast<T*>(it); });
    return Out<T>(p, shape, owner);
}

// ---- Labels ----

// The labels of each sentence. Path and offsets have been checked.
nb::list lists_of(const int32_t* y, std::span<const int64_t> offsets, const nb::list& labels) {
    const auto N = static_cast<Py_ssize_t>(offsets.size()) - 1;
    nb::list sentences = nb::steal<nb::list>(PyList_New(N));
    if (!sentences.is_valid()) throw nb::python_error();
    for (Py_ssize_t n = 0; n < N; n++) {
        const Py_ssize_t T_n = offsets[n + 1] - offsets[n];
        PyObject* sentence = PyList_New(T_n);
        if (!sentence) throw nb::python_error();
        for (Py_ssize_t t = 0; t < T_n; t++) {
            PyList_SET_ITEM(sentence, t, Py_NewRef(PyList_GET_ITEM(labels.ptr(), *y++)));
        }
        PyList_SET_ITEM(sentences.ptr(), n, sentence);
    }
    return sentences;
}

// Numbers, one per token, as a list for each sentence.
nb::list float_lists(const float* value, std::span<const int64_t> offsets) {
    const auto N = static_cast<Py_ssize_t>(offsets.size()) - 1;
    nb::list sentences = nb::steal<nb::list>(PyList_New(N));
    if (!sentences.is_valid()) throw nb::python_error();
    for (Py_ssize_t n = 0; n < N; n++) {
        const Py_ssize_t T_n = offsets[n + 1] - offsets[n];
        PyObject* sentence = PyList_New(T_n);
        if (!sentence) throw nb::python_error();
        PyList_SET_ITEM(sentences.ptr(), n, sentence);
        for (Py_ssize_t t = 0; t < T_n; t++) {
            PyObject* number = PyFloat_FromDouble(*value++);
            if (!number) throw nb::python_error();
            PyList_SET_ITEM(sentence, t, number);
        }
    }
    return sentences;
}

void check_offsets(const In<int64_t, 1>& offsets, std::size_t T) {
    bool fits = offsets.shape(0) > 0 && offsets(0) == 0 &&
                offsets(offsets.shape(0) - 1) == static_cast<int64_t>(T);
    for (std::size_t n = 1; fits && n < offsets.shape(0); n++) fits = offsets(n - 1) <= offsets(n);
    if (!fits) fail("offsets must rise from 0 to " + std::to_string(T) + ".");
}

nb::list label_lists(In<int32_t, 1> path, In<int64_t, 1> offsets, nb::list labels) {
    const std::size_t T = path.shape(0), Y = labels.size();
    check_offsets(offsets, T);
    for (std::size_t t = 0; t < T; t++) {
        if (static_cast<uint32_t>(path(t)) >= Y) {
            fail("path[" + std::to_string(t) + "] is " + std::to_string(path(t)) + "; there are " +
                 std::to_string(Y) + " labels.");
        }
    }
    return lists_of(path.data(), {offsets.data(), offsets.shape(0)}, labels);
}

// ---- Scorer ----

int64_t check_threads(int64_t threads) {
    if (threads < 1) fail("threads must be at least 1; got " + std::to_string(threads) + ".");
    return threads;
}

using Cols = std::variant<In<uint16_t, 1>, In<uint32_t, 1>>;

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

class PyWeightRows {
  public:
    PyWeightRows(const In<int64_t, 1>& row_ptr, const Cols& cols, const In<float, 1>& weights,
                 int64_t K)
        : rows_(make_rows(row_ptr, cols, weights, K)) {}

    // Scores of encoded tokens, in CSR form.
    Out<float> score(In<int64_t, 1> indptr, In<int32_t, 1> ids, std::optional<In<float, 1>> values,
                     int64_t threads) const {
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
                 " is out of range; there are " + std::to_string(rows_.by_id.size()) +
                 " attributes.");
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

  private:
    WeightRows rows_;
};

// Whether every template reads the word of its own token and nothing else.
bool reads_own_word(const Program& program) {
    return program.columns == 1 &&
           std::all_of(program.templates.begin(), program.templates.end(), [](const Template& one) {
               return one.local && one.offset == 0 && one.numeric < 0;
           });
}

// Its scores never change: it keeps the extractor alive, copies everything else, and caches only
// what follows from the text of a word.
class Scorer {
  public:
    Scorer(nb::typed<nb::object, Extractor> extractor, const PyIndex& index,
           const In<int64_t, 1>& row_ptr, const Cols& cols, const In<float, 1>& weights, int64_t K,
           bool takes_last)
        : held_(extractor),
          compiled_(nb::cast<const Extractor&>(extractor).compiled()),
          rows_(make_rows(row_ptr, cols, weights, K)),
          plan_(compiled_.program, K),
          takes_last_(takes_last),
          empty_(nb::module_::import_("numpy").attr("empty")),
          int64_(nb::module_::import_("numpy").attr("dtype")("int64")),
          float32_(nb::module_::import_("numpy").attr("dtype")("float32")) {
        index.check_idle();
        const Table table = index.index.table();
        if (rows_.by_id.size() != table.size) {
            fail("The weight rows are for " + std::to_string(rows_.by_id.size()) +
                 " attributes, but the index has " + std::to_string(table.size) + ".");
        }
        if (takes_last && !reads_own_word(compiled_.program)) {
            fail("takes_last needs templates that read only the word of their own token.");
        }
        const WithoutGil unlocked;
        table_ = RowTable(table, rows_.by_id);
        rows_.by_id = {};  // rows are found by fingerprint from here on
        for (std::size_t c = 0; c < compiled_.program.columns; c++) {
            // Words with features computed in Python are not cached.
            caches_.push_back(make_word_cache(scoring(), c, compiled_.functions[c].empty()));
        }
    }

    Scorer(const Scorer&) = delete;
    Scorer& operator=(const Scorer&) = delete;

    nb::tuple emit(nb::handle columns, nb::handle numeric, int64_t threads) const {
        return score(columns, numeric, threads, [&](int64_t T) { return nb::make_tuple(T, K()); });
    }

    nb::tuple edge(nb::handle columns, nb::handle numeric, int64_t threads) const {
        int64_t Y = 1;
        while (Y * Y < K()) Y++;
        if (Y * Y != K()) {
            fail("edge() needs Y * Y outputs; this scorer has " + std::to_string(K()) + ".");
        }
        return score(columns, numeric, threads, [&](int64_t T) { return nb::make_tuple(T, Y, Y); });
    }

    int64_t K() const { return rows_.K; }

    PyBatch read(nb::handle columns, nb::handle numeric) const {
        return PyBatch(compiled_, columns, numeric, caches_);
    }
    ScoredWords score_words(Batch& batch, int64_t threads, ScoredWords::Role role) const {
        return {scoring(), batch, caches_, threads, role};
    }

  private:
    Scoring scoring() const { return {compiled_.program, plan_, table_, rows_, takes_last_}; }

    template <class Shape>
    nb::tuple score(nb::handle columns, nb::handle numeric, int64_t threads,
                    const Shape& shape) const {
        check_threads(threads);
        PyBatch given = read(columns, numeric);
        const Batch& batch = given.batch;
        // numpy.empty takes 0.4 us, an array made by nanobind 1 us.
        const nb::object offsets = empty_(batch.offsets.size(), int64_);
        const nb::object scores = empty_(shape(batch.offsets.back()), float32_);
        const Memory to(offsets), out(scores);
        std::copy(batch.offsets.begin(), batch.offsets.end(), static_cast<int64_t*>(to.view.buf));
        {
            const WithoutGil unlocked;
            tagloom::score(scoring(), given.batch, caches_, threads,
                           static_cast<float*>(out.view.buf));
        }
        return nb::make_tuple(offsets, scores);
    }

    // A writable view of the bytes of an array.
    struct Memory {
        explicit Memory(const nb::object& array) {
            if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_WRITABLE) < 0) {
                throw nb::python_error();
            }
        }
        ~Memory() { PyBuffer_Release(&view); }
        Memory(const Memory&) = delete;
        Memory& operator=(const Memory&) = delete;
        Py_buffer view;
    };

    nb::object held_;
    const PyProgram& compiled_;
    WeightRows rows_;
    RowTable table_;
    Plan plan_;
    bool takes_last_;
    std::vector<std::unique_ptr<WordCache>> caches_;  // [columns]
    nb::object empty_, int64_, float32_;              // of numpy
};

// ---- Decoder ----

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

// From sentences to labels in one call: a scorer, and the transitions between its labels. Returns
// None if a sentence has no path or a score is NaN or +inf; the caller then takes the slow path,
// which raises a precise error.
class Decoder {
  public:
    Decoder(nb::typed<nb::object, Scorer> scorer, const DenseScores& transitions, nb::list labels,
            std::optional<nb::typed<nb::object, Scorer>> edges,
            std::optional<LocalNormaliser> normaliser)
        : held_(scorer),
          scorer_(nb::cast<const Scorer&>(scorer)),
          held_edges_(edges ? nb::object(*edges) : nb::none()),
          edges_(edges ? &nb::cast<const Scorer&>(*edges) : nullptr),
          normaliser_(std::move(normaliser)),
          transitions_(transitions),
          labels_(std::move(labels)) {
        const int64_t Y = scorer_.K();
        transitions_.has_edges = edges_ != nullptr;
        if (transitions_.Y != Y || static_cast<int64_t>(labels_.size()) != Y ||
            (edges_ && edges_->K() != Y * Y) || (normaliser_ && normaliser_->Y() != Y))
            fail("transitions, labels, edges and normaliser must be for " + std::to_string(Y) +
                 " labels.");
    }

    nb::object decode(nb::handle columns, nb::handle numeric, int64_t threads) const {
        std::vector<int64_t> offsets;
        const auto path = paths(columns, numeric, threads, offsets, nullptr, 1);
        return path ? nb::object(lists_of(path.get(), offsets, labels_)) : nb::none();
    }

    // Labels, and the probability of each; None also where scaled probabilities are not safe.
    nb::object decode_with_probs(nb::handle columns, nb::handle numeric, double temperature,
                                 int64_t threads) const {
        if (!(temperature > 0)) fail("temperature must be above 0.");
        std::vector<int64_t> offsets;
        std::unique_ptr<float[]> probs;
        const auto path = paths(columns, numeric, threads, offsets, &probs, temperature);
        if (!path) return nb::none();
        return nb::make_tuple(lists_of(path.get(), offsets, labels_),
                              float_lists(probs.get(), offsets));
    }

    // The same for a few lists of tokens, for templates that read tokens only. Also None for more
    // than kMost tokens, and for anything but a list of lists or tuples.
    nb::object decode_few(nb::handle sentences, int64_t threads) const {
        constexpr Py_ssize_t kMost = 1024;  // tokens
        if (!PyList_CheckExact(sentences.ptr())) return nb::none();
        Py_ssize_t T = 0;
        for (Py_ssize_t n = 0; n < PyList_GET_SIZE(sentences.ptr()) && T <= kMost; n++) {
            PyObject* sentence = PyList_GET_ITEM(sentences.ptr(), n);
            if (!PyList_CheckExact(sentence) && !PyTuple_CheckExact(sentence)) return nb::none();
            T += Py_SIZE(sentence);
        }
        if (T > kMost) return nb::none();
        return decode(nb::make_tuple(sentences), nb::make_tuple(), threads);
    }

  private:
    // The best path [T], or null; with its probabilities [T] if `probs` is given.
    std::unique_ptr<int32_t[]> paths(nb::handle columns, nb::handle numeric, int64_t threads,
                                     std::vector<int64_t>& offsets, std::unique_ptr<float[]>* probs,
                                     double temperature) const {
        check_threads(threads);
        PyBatch read = scorer_.read(columns, numeric);
        std::optional<PyBatch> read_edges;
        if (edges_) read_edges.emplace(edges_->read(columns, numeric));
        offsets = read.batch.offsets;
        const auto T = static_cast<std::size_t>(offsets.back());
        auto path = std::make_unique_for_overwrite<int32_t[]>(T);
        if (probs) *probs = std::make_unique_for_overwrite<float[]>(T);
        bool sound;
        {
            const WithoutGil unlocked;
            const ScoredWords nodes = scorer_.score_words(read.batch, threads, ScoredWords::kNodes);
            std::optional<ScoredWords> edges;
            if (edges_) {
                edges.emplace(edges_->score_words(read_edges->batch, threads, ScoredWords::kEdges));
            }
            const WordScores words(nodes, edges ? &*edges : nullptr);
            std::optional<LocalScores> local;
            if (normaliser_) local.emplace(words, *normaliser_);
            const ScoreSource& scores = local ? static_cast<const ScoreSource&>(*local) : words;
            sound = probs ? tagloom::decode_with_probs(scores, transitions_, temperature, offsets,
                                                       threads, path.get(), probs->get())
                          : tagloom::decode(scores, transitions_, offsets, threads, path.get());
        }
        if (!sound) path.reset();
        return path;
    }

    nb::object held_;
    const Scorer& scorer_;
    nb::object held_edges_;
    const Scorer* edges_;  // or null
    std::optional<LocalNormaliser> normaliser_;
    DenseTransitions transitions_;
    nb::list labels_;
};

}  // namespace

void bind_scoring(nb::module_& m) {
    using namespace nb::literals;
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

    nb::class_<Decoder>(m, "Decoder",
                        "From sentences to their best labels: scorers, and transitions.")
        .def(nb::init<nb::typed<nb::object, Scorer>, const DenseScores&, nb::list,
                      std::optional<nb::typed<nb::object, Scorer>>,
                      std::optional<LocalNormaliser>>(),
             "scorer"_a, "transitions"_a, "labels"_a, "edges"_a = nb::none(),
             "normaliser"_a = nb::none(),
             nb::sig("def __init__(self, scorer: Scorer, transitions: Dense, labels: list[str], "
                     "edges: Scorer | None = None, normaliser: LocalNormaliser | None = None) -> "
                     "None"))
        .def("decode", &Decoder::decode, "columns"_a, "numeric"_a, "threads"_a = 1,
             nb::sig("def decode(self, columns: Sequence[Sequence[Sequence[str]]], numeric: "
                     "Sequence[NDArray[numpy.float64]], threads: int = 1) -> "
                     "list[list[str]] | None"),
             "The best labels of every sentence; None if one has no path or no finite scores.")
        .def("decode_with_probs", &Decoder::decode_with_probs, "columns"_a, "numeric"_a,
             "temperature"_a = 1.0, "threads"_a = 1,
             nb::sig("def decode_with_probs(self, columns: Sequence[Sequence[Sequence[str]]], "
                     "numeric: Sequence[NDArray[numpy.float64]], temperature: float = 1.0, "
                     "threads: int = 1) -> tuple[list[list[str]], list[list[float]]] | None"),
             "The best labels and the marginal probability of each; None if a trellis must answer.")
        .def("decode_few", &Decoder::decode_few, "sentences"_a, "threads"_a = 1,
             nb::sig("def decode_few(self, sentences: object, threads: int = 1) -> "
                     "list[list[str]] | None"),
             "The same for a short list of token lists; None for anything else, or if too long.");
    m.def("label_lists", &label_lists, "path"_a, "offsets"_a, "labels"_a,
          nb::sig("def label_lists(path: NDArray[numpy.int32], offsets: NDArray[numpy.int64], "
                  "labels: list[str]) -> list[list[str]]"),
          "The labels of each sentence, from a flat array of label numbers.");
}

}  // namespace tagloom
