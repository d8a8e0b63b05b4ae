// Python bindings of decoding: from sentences to labels, without building arrays of scores.
// Sentences are words, read by templates, or items, the features that a user computed.

#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/dense.hpp"
#include "bind/gil.hpp"
#include "bind/items.hpp"
#include "bind/python.hpp"
#include "bind/scoring.hpp"
#include "core/decode.hpp"
#include "core/dispatch.hpp"
#include "core/local.hpp"

namespace tagloom {
namespace {

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
            set_item(sentence, t, Py_NewRef(list_item(labels.ptr(), *y++)));
        }
        set_item(sentences.ptr(), n, sentence);
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
        set_item(sentences.ptr(), n, sentence);
        for (Py_ssize_t t = 0; t < T_n; t++) {
            PyObject* number = PyFloat_FromDouble(*value++);
            if (!number) throw nb::python_error();
            set_item(sentence, t, number);
        }
    }
    return sentences;
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

// What all decoders share: the transitions between labels, and results as Python objects. Results
// are None if a sentence has no path or a score is NaN or +inf; the caller then takes the slow
// path, which raises a precise error.
//
// With pruning, only best() has results; scores are then those of labels and sub-tags.
//
// `with_scores(use)` calls use(const ScoreSource&), without the GIL.
class Decoding {
  public:
    Decoding(const DenseScores& transitions, nb::list labels,
             std::optional<LocalNormaliser> normaliser, int64_t K, bool has_edges,
             std::optional<Pruning> prune, std::optional<TrigramScores> trigrams,
             std::optional<Subtags> subtags)
        : transitions_(transitions),
          labels_(std::move(labels)),
          normaliser_(std::move(normaliser)) {
        const int64_t Y = subtags ? K - subtags->S : K;
        transitions_.has_edges = has_edges;
        if (prune) {
            rule_.emplace(*prune, std::move(trigrams), subtags.value_or(Subtags()));
            if (has_edges || normaliser_ || transitions_.levels > 1 ||
                (subtags && subtags->n_labels() != Y)) {
                fail("pruning needs transitions of order 1, and no edges.");
            }
        } else if (subtags || trigrams) {
            fail("sub-tags and trigrams need pruning.");
        }
        if (rule_ && rule_->trigrams && rule_->trigrams->trigrams.n_labels() != Y)
            fail("trigrams must be for " + std::to_string(Y) + " labels.");
        if (transitions_.Y != Y || static_cast<int64_t>(labels_.size()) != Y ||
            (normaliser_ && normaliser_->Y() != Y)) {
            fail("transitions, labels, edges and normaliser must be for " + std::to_string(Y) +
                 " labels.");
        }
        if (!rule_) transitions_.set_dominance();
    }

    template <class WithScores>
    nb::object best(std::span<const int64_t> offsets, int64_t threads,
                    WithScores&& with_scores) const {
        const auto path = std::make_unique_for_overwrite<int32_t[]>(offsets.back());
        const bool is_sound = run(with_scores, [&](const ScoreSource& scores) {
            return rule_ ? decode_pruned(scores, transitions_, *rule_, offsets, threads, path.get())
                         : decode(scores, transitions_, offsets, threads, path.get());
        });
        return is_sound ? nb::object(lists_of(path.get(), offsets, labels_)) : nb::none();
    }

    // Labels, and the probability of each; None also where scaled probabilities are not safe.
    template <class WithScores>
    nb::object best_with_probs(std::span<const int64_t> offsets, double temperature,
                               int64_t threads, WithScores&& with_scores) const {
        if (!(temperature > 0)) fail("temperature must be above 0.");
        if (rule_) return nb::none();
        const auto path = std::make_unique_for_overwrite<int32_t[]>(offsets.back());
        const auto probs = std::make_unique_for_overwrite<float[]>(offsets.back());
        const bool is_sound = run(with_scores, [&](const ScoreSource& scores) {
            return decode_with_probs(scores, transitions_, temperature, offsets, threads,
                                     path.get(), probs.get());
        });
        if (!is_sound) return nb::none();
        return nb::make_tuple(lists_of(path.get(), offsets, labels_),
                              float_lists(probs.get(), offsets));
    }

    // The probability of each label at each token, an array [T, Y] for each sentence; None also for
    // more than a piece.
    template <class WithScores>
    nb::object marginals(std::span<const int64_t> offsets, WithScores&& with_scores) const {
        const int64_t T = offsets.back(), Y = transitions_.Y;
        if (rule_ || T * (transitions_.has_edges ? Y * Y : Y) > kMostMarginals) return nb::none();
        const nb::object all = arrays_.floats(nb::make_tuple(T, Y));
        const Memory memory(all);
        const bool is_sound = run(with_scores, [&](const ScoreSource& scores) {
            return tagloom::marginals(scores, transitions_, offsets, memory.data<float>());
        });
        if (!is_sound) return nb::none();
        nb::list sentences;
        if (offsets.size() == 2) {
            sentences.append(all);
        } else {
            for (std::size_t n = 0; n + 1 < offsets.size(); n++) {
                sentences.append(all[nb::slice(offsets[n], offsets[n + 1])]);
            }
        }
        return sentences;
    }

  private:
    // As many scores as a batch has at most in Tagger, so that its results have the same bits.
    static constexpr int64_t kMostMarginals = 1 << 19;

    template <class WithScores, class Use>
    bool run(WithScores&& with_scores, const Use& use) const {
        bool is_sound = false;
        const WithoutGil unlocked;
        with_scores([&](const ScoreSource& raw) {
            is_sound = normaliser_ ? use(LocalScores(raw, *normaliser_)) : use(raw);
        });
        return is_sound;
    }

    DenseTransitions transitions_;
    nb::list labels_;
    std::optional<LocalNormaliser> normaliser_;
    std::optional<CandidateRule> rule_;
    ArrayMaker arrays_;
};

// Whether X is a list of lists or tuples with at most kFewTokens tokens in all.
constexpr Py_ssize_t kFewTokens = 1024;
bool is_few(nb::handle X) {
    if (!PyList_CheckExact(X.ptr())) return false;
    Py_ssize_t T = 0;
    for (Py_ssize_t n = 0; n < list_size(X.ptr()) && T <= kFewTokens; n++) {
        PyObject* sentence = list_item(X.ptr(), n);
        if (!PyList_CheckExact(sentence) && !PyTuple_CheckExact(sentence)) return false;
        T += Items(sentence).size;
    }
    return T <= kFewTokens;
}

// From words to labels: scorers, and transitions.
class Decoder {
  public:
    Decoder(nb::typed<nb::object, Scorer> scorer, const DenseScores& transitions, nb::list labels,
            std::optional<nb::typed<nb::object, Scorer>> edges,
            std::optional<LocalNormaliser> normaliser, std::optional<Pruning> prune,
            std::optional<TrigramScores> trigrams, std::optional<Subtags> subtags)
        : held_(scorer),
          scorer_(nb::cast<const Scorer&>(scorer)),
          held_edges_(edges ? nb::object(*edges) : nb::none()),
          edges_(edges ? &nb::cast<const Scorer&>(*edges) : nullptr),
          decoding_(transitions, std::move(labels), std::move(normaliser), scorer_.K(),
                    edges_ != nullptr, prune, std::move(trigrams), std::move(subtags)) {
        const int64_t Y = scorer_.K();
        if (edges_ && edges_->K() != Y * Y) {
            fail("edges must be for " + std::to_string(Y) + " labels.");
        }
    }

    nb::object decode(nb::handle columns, nb::handle numeric, int64_t threads) const {
        Read read(*this, columns, numeric, threads);
        return decoding_.best(read.offsets(), threads, read);
    }

    nb::object decode_with_probs(nb::handle columns, nb::handle numeric, double temperature,
                                 int64_t threads) const {
        Read read(*this, columns, numeric, threads);
        return decoding_.best_with_probs(read.offsets(), temperature, threads, read);
    }

    // The same for a few lists of tokens, for templates that read tokens only.
    nb::object decode_few(nb::handle sentences, int64_t threads) const {
        if (!is_few(sentences)) return nb::none();
        return decode(nb::make_tuple(sentences), nb::make_tuple(), threads);
    }

    nb::object marginals_of_few(nb::handle sentences) const {
        if (!is_few(sentences)) return nb::none();
        Read read(*this, nb::make_tuple(sentences), nb::make_tuple(), 1);
        return decoding_.marginals(read.offsets(), read);
    }

  private:
    // The sentences of a call.
    class Read {
      public:
        Read(const Decoder& decoder, nb::handle columns, nb::handle numeric, int64_t threads)
            : decoder_(decoder),
              threads_(check_threads(threads)),
              nodes_(decoder.scorer_.read(columns, numeric, threads)) {
            if (decoder.edges_) edges_.emplace(decoder.edges_->read(columns, numeric, threads));
        }
        std::span<const int64_t> offsets() const { return nodes_.batch.offsets; }

        template <class Use>
        void operator()(const Use& use) {
            const ScoredWords nodes =
                decoder_.scorer_.score_words(nodes_.batch, threads_, ScoredWords::kNodes);
            std::optional<ScoredWords> edges;
            if (edges_) {
                edges.emplace(
                    decoder_.edges_->score_words(edges_->batch, threads_, ScoredWords::kEdges));
            }
            use(WordScores(nodes, edges ? &*edges : nullptr));
        }

      private:
        const Decoder& decoder_;
        int64_t threads_;
        PyBatch nodes_;
        std::optional<PyBatch> edges_;
    };

    nb::object held_;
    const Scorer& scorer_;
    nb::object held_edges_;
    const Scorer* edges_;  // or null
    Decoding decoding_;
};

// From items, the features that a user computed, to labels. Python strings become fingerprints
// under the GIL; weights are looked up and summed without it.
class ItemDecoder {
  public:
    ItemDecoder(const PyIndex& index, nb::typed<nb::object, PyWeightRows> rows,
                const DenseScores& transitions, nb::list labels,
                std::optional<LocalNormaliser> normaliser, std::optional<Pruning> prune,
                std::optional<TrigramScores> trigrams, std::optional<Subtags> subtags)
        : held_(rows),
          rows_(nb::cast<const PyWeightRows&>(rows).rows()),
          decoding_(transitions, std::move(labels), std::move(normaliser), rows_.K, false, prune,
                    std::move(trigrams), std::move(subtags)) {
        index.check_idle();
        table_ = make_row_table(index.index.keys(), rows_);
    }

    nb::object decode(nb::list sentences, int64_t threads) const {
        check_threads(threads);
        const Read read(*this, sentences);
        return decoding_.best(read.offsets(), threads, read);
    }

    nb::object decode_with_probs(nb::list sentences, double temperature, int64_t threads) const {
        check_threads(threads);
        const Read read(*this, sentences);
        return decoding_.best_with_probs(read.offsets(), temperature, threads, read);
    }

    nb::object decode_few(nb::handle sentences, int64_t threads) const {
        return is_few(sentences) ? decode(nb::borrow<nb::list>(sentences), threads) : nb::none();
    }

    nb::object marginals_of_few(nb::handle sentences) const {
        if (!is_few(sentences)) return nb::none();
        const Read read(*this, sentences);
        return decoding_.marginals(read.offsets(), read);
    }

  private:
    class Read {
      public:
        Read(const ItemDecoder& decoder, nb::handle sentences)
            : decoder_(decoder), attributes_(std::move(spare())) {
            auto& [indptr, fingerprints, values] = attributes_;
            indptr.assign(1, 0);
            fingerprints.clear();
            values.clear();
            Sink sink{attributes_, offsets_};
            Reader(sentences, sink, false).read();
            for (const float value : values) {
                if (!std::isfinite(value)) fail("a value is too large for 32 bits.");
            }
        }
        ~Read() {
            if (attributes_.fingerprints.capacity() <= kMostSpare) spare() = std::move(attributes_);
        }
        Read(const Read&) = delete;
        Read& operator=(const Read&) = delete;

        std::span<const int64_t> offsets() const { return offsets_; }

        template <class Use>
        void operator()(const Use& use) const {
            const auto& [indptr, fingerprints, values] = attributes_;
            use(ItemScores({indptr, fingerprints, values}, decoder_.table_, decoder_.rows_));
        }

      private:
        // The attributes of all tokens, in CSR form.
        struct Attributes {
            std::vector<int64_t> indptr;
            std::vector<uint64_t> fingerprints;
            std::vector<float> values;  // empty if all are 1
        };
        struct Sink {
            void operator()(NameBatch& batch) {
                auto& [indptr, fingerprints, values] = attributes;
                const std::size_t before = fingerprints.size(), n = batch.size();
                for (const int64_t end : batch.ends()) indptr.push_back(before + end);
                fingerprints.resize(before + NameBatch::kMost);
                batch.hash(fingerprints.data() + before);
                fingerprints.resize(before + n);
                if (values.empty() && batch.all_one()) return;
                values.resize(before, 1.0f);
                for (const double value : batch.values()) {
                    values.push_back(static_cast<float>(value));
                }
            }
            void end_sentence(int64_t n) { offsets.push_back(offsets.back() + n); }
            Attributes& attributes;
            std::vector<int64_t>& offsets;
        };
        // The memory of the last call of this thread; empty while a call uses it.
        static Attributes& spare() {
            thread_local Attributes memory;
            return memory;
        }
        static constexpr std::size_t kMostSpare = 1 << 20;

        const ItemDecoder& decoder_;
        std::vector<int64_t> offsets_{0};
        Attributes attributes_;
    };

    nb::object held_;
    const WeightRows& rows_;
    RowTable table_;
    Decoding decoding_;
};

}  // namespace

void bind_decoding(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<Decoder>(m, "Decoder",
                        "From sentences to their best labels: scorers, and transitions.")
        .def(nb::init<nb::typed<nb::object, Scorer>, const DenseScores&, nb::list,
                      std::optional<nb::typed<nb::object, Scorer>>, std::optional<LocalNormaliser>,
                      std::optional<Pruning>, std::optional<TrigramScores>,
                      std::optional<Subtags>>(),
             "scorer"_a, "transitions"_a, "labels"_a, "edges"_a = nb::none(),
             "normaliser"_a = nb::none(), "prune"_a = nb::none(), "trigrams"_a = nb::none(),
             "subtags"_a = nb::none(),
             nb::sig("def __init__(self, scorer: Scorer, transitions: Dense, labels: list[str], "
                     "edges: Scorer | None = None, normaliser: LocalNormaliser | None = None, "
                     "prune: Pruning | None = None, trigrams: TrigramScores | None = None, "
                     "subtags: Subtags | None = None) -> None"))
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
             "The same for a short list of token lists; None for anything else, or if too long.")
        .def("marginals_of_few", &Decoder::marginals_of_few, "sentences"_a,
             nb::sig("def marginals_of_few(self, sentences: object) -> "
                     "list[NDArray[numpy.float32]] | None"),
             "The probability of each label at each token of these, [T, Y] for each sentence.");
    nb::class_<ItemDecoder>(m, "ItemDecoder",
                            "From items, dicts or lists of features, to the best labels.")
        .def(nb::init<const PyIndex&, nb::typed<nb::object, PyWeightRows>, const DenseScores&,
                      nb::list, std::optional<LocalNormaliser>, std::optional<Pruning>,
                      std::optional<TrigramScores>, std::optional<Subtags>>(),
             "index"_a, "rows"_a, "transitions"_a, "labels"_a, "normaliser"_a = nb::none(),
             "prune"_a = nb::none(), "trigrams"_a = nb::none(), "subtags"_a = nb::none(),
             nb::sig("def __init__(self, index: Index, rows: WeightRows, transitions: Dense, "
                     "labels: list[str], normaliser: LocalNormaliser | None = None, "
                     "prune: Pruning | None = None, trigrams: TrigramScores | None = None, "
                     "subtags: Subtags | None = None) -> None"))
        .def("decode", &ItemDecoder::decode, "sentences"_a, "threads"_a = 1,
             nb::sig("def decode(self, sentences: list[object], threads: int = 1) -> "
                     "list[list[str]] | None"),
             "The best labels of every sentence; None if one has no path or no finite scores.")
        .def("decode_with_probs", &ItemDecoder::decode_with_probs, "sentences"_a,
             "temperature"_a = 1.0, "threads"_a = 1,
             nb::sig("def decode_with_probs(self, sentences: list[object], "
                     "temperature: float = 1.0, threads: int = 1) -> "
                     "tuple[list[list[str]], list[list[float]]] | None"),
             "The best labels and the marginal probability of each; None if a trellis must answer.")
        .def("decode_few", &ItemDecoder::decode_few, "sentences"_a, "threads"_a = 1,
             nb::sig("def decode_few(self, sentences: object, threads: int = 1) -> "
                     "list[list[str]] | None"),
             "The same for a short list of sentences; None for anything else, or if too long.")
        .def("marginals_of_few", &ItemDecoder::marginals_of_few, "sentences"_a,
             nb::sig("def marginals_of_few(self, sentences: object) -> "
                     "list[NDArray[numpy.float32]] | None"),
             "The probability of each label at each token of these, [T, Y] for each sentence.");
    m.def("label_lists", &label_lists, "path"_a, "offsets"_a, "labels"_a,
          nb::sig("def label_lists(path: NDArray[numpy.int32], offsets: NDArray[numpy.int64], "
                  "labels: list[str]) -> list[list[str]]"),
          "The labels of each sentence, from a flat array of label numbers.");
}

}  // namespace tagloom
