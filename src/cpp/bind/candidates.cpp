// Python bindings of candidate labels per position: check shapes, release the GIL, call core.

#include "core/candidates.hpp"

#include <algorithm>

#include "bind/arrays.hpp"
#include "bind/batches.hpp"
#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/dense.hpp"
#include "bind/gil.hpp"
#include "core/candidate_cells.hpp"

namespace tagloom {
namespace {

using Rows = Array<const int64_t, 1>;
using Labels = Array<const int32_t, 1>;

// The first candidate whose label is not from 0 to Y - 1, or not above the one before it in its
// row; -1 if all are. Rows must be checked already.
int64_t first_wrong_label(const Rows& rows, const Labels& labels, int64_t Y) {
    const int64_t* row = rows.data();
    const int32_t* label = labels.data();
    for (int64_t t = 0; t + 1 < int64_t(rows.shape(0)); ++t) {
        int64_t before = -1;
        for (int64_t j = row[t]; j < row[t + 1]; before = label[j++])
            if (label[j] <= before || label[j] >= Y) return j;
    }
    return -1;
}

int64_t check_candidates(const Rows& rows, const Labels& labels, int64_t n_labels) {
    check_offsets(rows, labels.shape(0));
    return first_wrong_label(rows, labels, n_labels);
}

struct CandidateArrays {
    using Scores = BatchArrays::Scores<1>;
    template <int D>
    using Results = BatchArrays::Results<D>;

    Rows rows;      // [T + 1]
    Labels labels;  // [C]
    Scores scores;  // [C]
    Rows offsets;   // [N + 1]
    int64_t Y, N, T;
    bool is_double;

    CandidateArrays(Rows rows_, Labels labels_, Scores scores_, Rows offsets_, int64_t n_labels)
        : rows(std::move(rows_)),
          labels(std::move(labels_)),
          scores(std::move(scores_)),
          offsets(std::move(offsets_)),
          Y(n_labels),
          N(int64_t(offsets.shape(0)) - 1),
          T(int64_t(rows.shape(0)) - 1),
          is_double(scores.dtype() == nb::dtype<double>()) {
        require(is_double || scores.dtype() == nb::dtype<float>(),
                "scores must be float32 or float64");
        require(scores.shape(0) == labels.shape(0), "labels and scores must be [C]");
        require(Y > 0 && check_candidates(rows, labels, Y) < 0,
                "labels must rise from 0 to Y - 1 within a row");
        check_offsets(offsets, T);
    }

    // call(the batch with these transitions, a zero of its type).
    template <class Call>
    auto with(const DenseScores& dense, const TrigramScores* trigrams, int64_t threads,
              const Call& call) const {
        require(
            dense.Y == Y && dense.levels == 1 && (!trigrams || trigrams->trigrams.n_labels() == Y),
            "the transitions are not over these labels");
        auto typed = [&](auto zero) {
            using In = decltype(zero);
            const CandidateBatch<In> batch{Y,
                                           dense.trans.data(),
                                           dense.start.data(),
                                           dense.stop.data(),
                                           rows.data(),
                                           labels.data(),
                                           static_cast<const In*>(scores.data()),
                                           offsets.data(),
                                           N,
                                           threads,
                                           trigrams};
            return call(batch, zero);
        };
        return is_double ? typed(double{}) : typed(float{});
    }

    // The memory of results of this shape, in the type of the scores; null if they are not wanted.
    template <class In, int D>
    In* results(const Results<D>& array, std::initializer_list<int64_t> shape,
                const char* what) const {
        if (!array) return nullptr;
        bool fits = array->dtype() == scores.dtype();
        size_t d = 0;
        for (const int64_t n : shape) fits = fits && int64_t(array->shape(d++)) == n;
        require(fits, what);
        return static_cast<In*>(array->data());
    }
};

void candidate_viterbi(const CandidateArrays& x, const DenseScores& dense,
                       const TrigramScores* trigrams, int64_t threads, Array<int32_t, 1> path,
                       Array<double, 1> score) {
    require(int64_t(path.shape(0)) == x.T && int64_t(score.shape(0)) == x.N,
            "path must be [T] and score [N]");
    x.with(dense, trigrams, threads, [&](const auto& batch, auto) {
        const WithoutGil unlocked;
        viterbi(batch, path.data(), score.data());
    });
}

void candidate_path_score(const CandidateArrays& x, const DenseScores& dense,
                          const TrigramScores* trigrams, Array<const int32_t, 1> path,
                          Array<double, 1> score) {
    require(int64_t(path.shape(0)) == x.T && int64_t(score.shape(0)) == x.N,
            "path must be [T] and score [N]");
    for (int64_t t = 0; t < x.T; ++t)
        require(path(t) >= 0 && path(t) < x.Y, "path must have labels from 0 to Y - 1");
    x.with(dense, trigrams, 1, [&](const auto& batch, auto) {
        const WithoutGil unlocked;
        path_score(batch, path.data(), score.data());
    });
}

int64_t candidate_sum(const CandidateArrays& x, const DenseScores& dense,
                      const TrigramScores* trigrams, int64_t threads, Array<double, 1> log_z,
                      Maybe<const double, 1> weight, CandidateArrays::Results<1> candidates,
                      CandidateArrays::Results<2> marginals, CandidateArrays::Results<3> pairs,
                      const TransitionCounts* counts, Maybe<double, 1> trigram_counts) {
    require(int64_t(log_z.shape(0)) == x.N, "log_z must be [N]");
    require(!weight || int64_t(weight->shape(0)) == x.N, "weight must be [N]");
    if (counts) counts->check(x.Y * x.Y, x.Y);
    require(!trigram_counts ||
                (trigrams && int64_t(trigram_counts->shape(0)) == trigrams->trigrams.size()),
            "trigram_counts must be [K]");
    return x.with(dense, trigrams, threads, [&](const auto& batch, auto zero) {
        using In = decltype(zero);
        const int64_t C = x.labels.shape(0);
        const CandidateExpected<In> expected{
            x.results<In, 1>(candidates, {C}, "candidates must be [C], of the type of scores"),
            x.results<In, 2>(marginals, {x.T, x.Y},
                             "marginals must be [T, Y], of the type of scores"),
            x.results<In, 3>(pairs, {x.T, x.Y, x.Y},
                             "pairs must be [T, Y, Y], of the type of scores"),
            counts ? counts->transitions.data() : nullptr,
            counts ? counts->start.data() : nullptr,
            counts ? counts->stop.data() : nullptr,
            data_or_null(trigram_counts)};
        const double* weights = data_or_null(weight);
        const WithoutGil unlocked;
        return sum(batch, weights, expected, log_z.data());
    });
}

void candidate_sample(const CandidateArrays& x, const DenseScores& dense,
                      const TrigramScores* trigrams, int64_t threads,
                      Array<const double, 2> uniform, Array<int32_t, 2> paths,
                      Array<double, 1> log_z) {
    require(int64_t(uniform.shape(0)) == x.T, "uniform must be [T, n]");
    require(paths.shape(0) == uniform.shape(1) && int64_t(paths.shape(1)) == x.T,
            "paths must be [n, T]");
    require(int64_t(log_z.shape(0)) == x.N, "log_z must be [N]");
    x.with(dense, trigrams, threads, [&](const auto& batch, auto) {
        const WithoutGil unlocked;
        sample(batch, uniform.shape(1), uniform.data(), paths.data(), log_z.data());
    });
}

void candidate_entropy(const CandidateArrays& x, const DenseScores& dense,
                       const TrigramScores* trigrams, int64_t threads, Array<double, 1> out,
                       Array<double, 1> log_z) {
    require(int64_t(out.shape(0)) == x.N && int64_t(log_z.shape(0)) == x.N,
            "out and log_z must be [N]");
    x.with(dense, trigrams, threads, [&](const auto& batch, auto) {
        const WithoutGil unlocked;
        entropy(batch, out.data(), log_z.data());
    });
}

NBestArrays candidate_nbest(const CandidateArrays& x, const DenseScores& dense,
                            const TrigramScores* trigrams, int64_t threads, int64_t n) {
    return as_arrays(x.with(dense, trigrams, threads, [&](const auto& batch, auto) {
        return run_interruptible([&] { return nbest(batch, n); });
    }));
}

// Candidates whose scores are cells of a table.
struct CellArrays {
    Rows rows;      // [T + 1]
    Labels labels;  // [C]
    Labels cells;   // [C]
    Rows places;    // [K]
    Rows offsets;   // [N + 1]
    int64_t Y, N, K;

    CellArrays(Rows rows_, Labels labels_, Labels cells_, Rows places_, Rows offsets_,
               int64_t n_labels)
        : rows(std::move(rows_)),
          labels(std::move(labels_)),
          cells(std::move(cells_)),
          places(std::move(places_)),
          offsets(std::move(offsets_)),
          Y(n_labels),
          N(int64_t(offsets.shape(0)) - 1),
          K(places.shape(0)) {
        require(Y > 0 && check_candidates(rows, labels, Y) < 0,
                "labels must rise from 0 to Y - 1 within a row");
        check_offsets(offsets, int64_t(rows.shape(0)) - 1);
        for (int64_t k = 0; k < K; ++k)
            require(places.data()[k] > (k ? places.data()[k - 1] : -1), "places must rise from 0");
        require(cells.shape(0) == labels.shape(0), "labels and cells must be [C]");
        for (size_t j = 0; j < cells.shape(0); ++j) {
            const int64_t k = cells.data()[j];
            require(k >= 0 && k < K && places.data()[k] % Y == labels.data()[j],
                    "the cell of each candidate must exist and have its label");
        }
    }
};

void expect_cells(const CellArrays& x, const DenseScores& dense, Array<const double, 1> scores,
                  int64_t threads, Maybe<const double, 1> weight, Array<double, 1> log_z,
                  Array<bool, 1> ok, Array<double, 1> cell_counts, const TransitionCounts& counts) {
    require(dense.Y == x.Y && dense.levels == 1, "the transitions are not over these labels");
    require(int64_t(scores.shape(0)) == x.K && int64_t(cell_counts.shape(0)) == x.K,
            "scores and cell_counts must be [K]");
    require(int64_t(log_z.shape(0)) == x.N && int64_t(ok.shape(0)) == x.N,
            "log_z and ok must be [N]");
    require(!weight || int64_t(weight->shape(0)) == x.N, "weight must be [N]");
    counts.check(x.Y * x.Y, x.Y);
    const CandidateCells batch{x.Y,
                               x.K,
                               dense.trans.data(),
                               dense.start.data(),
                               dense.stop.data(),
                               x.rows.data(),
                               x.labels.data(),
                               x.cells.data(),
                               x.places.data(),
                               scores.data(),
                               x.offsets.data(),
                               x.N,
                               threads};
    const CellCounts into{cell_counts.data(), counts.transitions.data(), counts.start.data(),
                          counts.stop.data()};
    const double* weights = data_or_null(weight);
    const WithoutGil unlocked;
    expect(batch, weights, into, log_z.data(), ok.data());
}

void make_trigrams(Trigrams* self, int64_t Y, Array<const int32_t, 2> labels) {
    require(Y > 0 && labels.shape(1) == 3, "labels must be [K, 3]");
    const int32_t* all = labels.data();
    for (size_t k = 0; k < labels.shape(0); ++k) {
        const int32_t* one = all + 3 * k;
        for (int n = 0; n < 3; ++n)
            require(one[n] >= 0 && one[n] < Y, "labels must be numbers from 0 to Y - 1");
        require(k == 0 || std::lexicographical_compare(one - 3, one, one, one + 3),
                "trigrams must rise");
    }
    new (self) Trigrams(Y, {all, labels.size()});
}

void make_trigram_scores(TrigramScores* self, const Trigrams& trigrams,
                         const MaybeScores& weights) {
    new (self) TrigramScores{trigrams, widened(weights, trigrams.size(), "weights must be [K]")};
}

}  // namespace

void bind_candidates(nb::module_& m) {
    m.def("check_candidates", check_candidates, nb::arg("indptr"), nb::arg("label_ids"),
          nb::arg("n_labels"),
          "The first candidate whose label does not exist, or is not above the one before it at "
          "its position; -1 if all are valid.");
    nb::class_<Trigrams>(m, "Trigrams", "Trigrams of labels that have weights.")
        .def("__init__", make_trigrams, nb::arg("n_labels"), nb::arg("labels"),
             "labels [K, 3], in order.")
        .def("__len__", [](const Trigrams& self) { return self.size(); });
    nb::class_<TrigramScores>(m, "TrigramScores", "Trigrams of labels with their weights.")
        .def("__init__", make_trigram_scores, nb::arg("trigrams"), nb::arg("weights").none(),
             nb::sig("def __init__(self, trigrams: Trigrams, weights: " SCORES " | None) -> None"));
    nb::class_<CellArrays>(m, "CandidateCells",
                           "Candidate labels of each position, whose scores are cells of a table.")
        .def(nb::init<Rows, Labels, Labels, Rows, Rows, int64_t>(), nb::arg("indptr"),
             nb::arg("label_ids"), nb::arg("cells"), nb::arg("places"), nb::arg("offsets"),
             nb::arg("n_labels"))
        .def("expect", expect_cells, nb::arg("dense"), nb::arg("scores"), nb::arg("threads"),
             nb::arg("weight").none(), nb::arg("log_z").noconvert(), nb::arg("ok").noconvert(),
             nb::arg("cell_counts").noconvert(), nb::arg("counts"),
             "Add the expected counts of all sequences with ok; the others need `Candidates.sum`.");
    nb::class_<CandidateArrays>(m, "Candidates", "Candidate labels of each position, with scores.")
        .def(nb::init<Rows, Labels, CandidateArrays::Scores, Rows, int64_t>(), nb::arg("indptr"),
             nb::arg("label_ids"), nb::arg("scores"), nb::arg("offsets"), nb::arg("n_labels"),
             nb::sig("def __init__(self, indptr: NDArray[numpy.int64], label_ids: "
                     "NDArray[numpy.int32], scores: " SCORES
                     ", offsets: NDArray[numpy.int64], n_labels: int) -> None"))
        .def("viterbi", candidate_viterbi, nb::arg("dense"), nb::arg("trigrams").none(),
             nb::arg("threads"), nb::arg("path").noconvert(), nb::arg("score").noconvert())
        .def("path_score", candidate_path_score, nb::arg("dense"), nb::arg("trigrams").none(),
             nb::arg("path"), nb::arg("score").noconvert())
        .def("sum", candidate_sum, nb::arg("dense"), nb::arg("trigrams").none(), nb::arg("threads"),
             nb::arg("log_z").noconvert(), nb::arg("weight").none() = nb::none(),
             nb::arg("candidates").noconvert() = nb::none(),
             nb::arg("marginals").noconvert() = nb::none(),
             nb::arg("pairs").noconvert() = nb::none(), nb::arg("counts").none() = nb::none(),
             nb::arg("trigram_counts").noconvert() = nb::none(),
             nb::sig("def sum(self, dense: Dense, trigrams: TrigramScores | None, threads: int, "
                     "log_z: NDArray[numpy.float64], "
                     "weight: NDArray[numpy.float64] | None = None, candidates: " SCORES
                     " | None = None, marginals: " SCORES " | None = None, pairs: " SCORES
                     " | None = None, counts: TransitionCounts | None = None, "
                     "trigram_counts: NDArray[numpy.float64] | None = None) -> int"),
             "Fill log_z and results; return the number of sequences of order 1 computed in log "
             "space.")
        .def("sample", candidate_sample, nb::arg("dense"), nb::arg("trigrams").none(),
             nb::arg("threads"), nb::arg("uniform"), nb::arg("paths").noconvert(),
             nb::arg("log_z").noconvert())
        .def("entropy", candidate_entropy, nb::arg("dense"), nb::arg("trigrams").none(),
             nb::arg("threads"), nb::arg("out").noconvert(), nb::arg("log_z").noconvert())
        .def("nbest", candidate_nbest, nb::arg("dense"), nb::arg("trigrams").none(),
             nb::arg("threads"), nb::arg("n"),
             "The number of paths of each sequence [N]; their labels, flat; their scores, flat.");
}

}  // namespace tagloom
