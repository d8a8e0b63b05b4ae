// Python bindings of segment trellises: check shapes, release the GIL, call core.

#include "core/segments.hpp"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind/arrays.hpp"
#include "bind/batches.hpp"
#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/extractor.hpp"
#include "bind/gil.hpp"
#include "bind/index.hpp"
#include "core/segment_chain.hpp"
#include "core/segment_features.hpp"
#include "core/segments.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

using PathsAndScores =
    nb::typed<nb::list, nb::typed<nb::tuple, nb::ndarray<nb::numpy, int32_t, nb::ndim<2>>,
                                  nb::ndarray<nb::numpy, double, nb::ndim<1>>>>;

// The scores of a ragged batch of segments, float32 or float64, and what its sequences share.
struct SegmentBatch {
    BatchArrays::Scores<3> score;     // [T, L, Y]
    Array<const int64_t, 1> offsets;  // [N + 1]
    SegmentModel model;
    int64_t N, T;
    bool is_double;

    SegmentBatch(BatchArrays::Scores<3> score_, Array<const int64_t, 1> offsets_,
                 Maybe<const double, 2> trans, Maybe<const double, 1> start,
                 Maybe<const double, 1> stop)
        : score(std::move(score_)),
          offsets(std::move(offsets_)),
          model(score.shape(1), score.shape(2)),
          N(int64_t(offsets.shape(0)) - 1),
          T(score.shape(0)),
          is_double(score.dtype() == nb::dtype<double>()) {
        const int64_t Y = model.Y;
        require(is_double || score.dtype() == nb::dtype<float>(),
                "score must be float32 or float64");
        require(Y > 0 && model.L > 0, "score must be [T, L, Y] with at least one label and length");
        check_offsets(offsets, T);
        require(!trans || (int64_t(trans->shape(0)) == Y && int64_t(trans->shape(1)) == Y),
                "trans must be [Y, Y]");
        require(!start || int64_t(start->shape(0)) == Y, "start must be [Y]");
        require(!stop || int64_t(stop->shape(0)) == Y, "stop must be [Y]");
        model.set(data_or_null(trans), data_or_null(start), data_or_null(stop));
    }

    int64_t first(int64_t i) const { return offsets(i); }
    template <class In>
    SegmentSequence<In> sequence(int64_t i) const {
        return {static_cast<const In*>(score.data()) + first(i) * model.L * model.Y,
                offsets(i + 1) - first(i)};
    }
    int64_t threads_for_work(int64_t threads) const {
        return T * model.Y * (model.L + model.Y) < 50'000 ? 1 : threads;  // too little to share
    }
    // Calls work(i, sequence, solver) for every sequence that is not empty. Each thread has its own
    // Solver<In>.
    template <template <class> class Solver, class Work>
    void each(int64_t threads, const Work& work) const {
        const auto run = [&](auto zero) {
            using In = decltype(zero);
            threads = std::clamp<int64_t>(threads_for_work(threads), 1, std::max<int64_t>(N, 1));
            std::vector<Solver<In>> solvers(threads, Solver<In>(model));
            parallel_for(N, threads, [&](int64_t i, int64_t worker) {
                const SegmentSequence<In> x = sequence<In>(i);
                if (x.T > 0) work(i, x, solvers[worker]);
            });
        };
        is_double ? run(double{}) : run(float{});
    }
};

void sum(const SegmentBatch& batch, int64_t threads, Array<double, 1> log_z,
         Maybe<const double, 1> weight, BatchArrays::Results<3> marginals,
         const TransitionCounts* counts) {
    const int64_t Y = batch.model.Y, L = batch.model.L, N = batch.N;
    require(int64_t(log_z.shape(0)) == N, "log_z must be [N]");
    require(!weight || int64_t(weight->shape(0)) == N, "weight must be [N]");
    if (counts) counts->check(Y * Y, Y);
    require(!marginals || (marginals->dtype() == batch.score.dtype() &&
                           int64_t(marginals->shape(0)) == batch.T &&
                           int64_t(marginals->shape(1)) == L && int64_t(marginals->shape(2)) == Y),
            "marginals must be [T, L, Y], of the type of the scores");
    void* to = marginals ? marginals->data() : nullptr;
    const double* weights = data_or_null(weight);
    const WithoutGil unlocked;
    std::fill_n(log_z.data(), N, 0.0);
    // Counts of each sequence, added in order: the same bits for any number of threads.
    const int64_t size = Y * Y + 2 * Y;
    std::vector<double> parts(counts ? N * size : 0, 0.0);
    batch.each<SegmentSum>(
        threads, [&]<class In>(int64_t i, const SegmentSequence<In>& x, SegmentSum<In>& solver) {
            SegmentExpected<In> expected;
            if (to) expected.segments = static_cast<In*>(to) + batch.first(i) * L * Y;
            if (counts) {
                expected.trans = parts.data() + i * size;
                expected.start = expected.trans + Y * Y;
                expected.stop = expected.start + Y;
            }
            log_z.data()[i] = solver.forward(x);
            if (log_z.data()[i] > -std::numeric_limits<double>::infinity()) {
                if (to || counts) solver.expectations(weights ? weights[i] : 1.0, expected);
            } else if (to) {
                std::fill_n(expected.segments, x.T * L * Y, In(0));
            }
        });
    for (int64_t i = 0; counts && i < N; ++i) {
        const double* part = parts.data() + i * size;
        for (int64_t j = 0; j < Y * Y; ++j) counts->transitions.data()[j] += part[j];
        for (int64_t y = 0; y < Y; ++y) counts->start.data()[y] += part[Y * Y + y];
        for (int64_t y = 0; y < Y; ++y) counts->stop.data()[y] += part[Y * Y + Y + y];
    }
}

void viterbi(const SegmentBatch& batch, int64_t threads, Array<int32_t, 1> path,
             Array<double, 1> score) {
    require(int64_t(path.shape(0)) == batch.T && int64_t(score.shape(0)) == batch.N,
            "path must be [T] and score [N]");
    const WithoutGil unlocked;
    std::fill_n(score.data(), batch.N, 0.0);
    batch.each<SegmentBest>(
        threads, [&]<class In>(int64_t i, const SegmentSequence<In>& x, SegmentBest<In>& solver) {
            int32_t* to = path.data() + batch.first(i);
            solver.viterbi(x, to);
            score.data()[i] = segmentation_score(batch.model, x, to);
        });
}

PathsAndScores nbest(const SegmentBatch& batch, int64_t threads, int64_t n) {
    std::vector<std::vector<int32_t>> paths(batch.N);
    std::vector<std::vector<double>> scores(batch.N, std::vector<double>(1, 0.0));  // empty path
    {
        const WithoutGil unlocked;
        batch.each<SegmentBest>(threads, [&]<class In>(int64_t i, const SegmentSequence<In>& x,
                                                       SegmentBest<In>& solver) {
            scores[i].resize(solver.nbest(x, n, paths[i]));
            for (size_t k = 0; k < scores[i].size(); ++k)
                scores[i][k] = segmentation_score(batch.model, x, paths[i].data() + k * x.T);
        });
    }
    PathsAndScores out;
    for (int64_t i = 0; i < batch.N; ++i) {
        const size_t k = scores[i].size(), T = batch.offsets(i + 1) - batch.offsets(i);
        out.append(nb::make_tuple(to_numpy(std::move(paths[i]), {k, T}),
                                  to_numpy(std::move(scores[i]), {k})));
    }
    return out;
}

void sample(const SegmentBatch& batch, int64_t threads, Array<const double, 2> uniform,
            Array<int32_t, 2> paths, Array<double, 1> log_z) {
    const int64_t n = uniform.shape(0), T = batch.T;
    require(int64_t(uniform.shape(1)) == T && int64_t(paths.shape(0)) == n &&
                int64_t(paths.shape(1)) == T && int64_t(log_z.shape(0)) == batch.N,
            "uniform and paths must be [n, T], log_z [N]");
    const WithoutGil unlocked;
    std::fill_n(log_z.data(), batch.N, 0.0);
    batch.each<SegmentSum>(
        threads, [&]<class In>(int64_t i, const SegmentSequence<In>& x, SegmentSum<In>& solver) {
            const int64_t at = batch.first(i);
            log_z.data()[i] = solver.forward(x);
            if (log_z.data()[i] > -std::numeric_limits<double>::infinity())
                solver.sample(n, uniform.data() + at, T, paths.data() + at);
            else
                for (int64_t k = 0; k < n; ++k) std::fill_n(paths.data() + k * T + at, x.T, -1);
        });
}

void entropy(const SegmentBatch& batch, int64_t threads, Array<double, 1> out,
             Array<double, 1> log_z) {
    require(int64_t(out.shape(0)) == batch.N && int64_t(log_z.shape(0)) == batch.N,
            "out and log_z must be [N]");
    const WithoutGil unlocked;
    std::fill_n(out.data(), batch.N, 0.0);
    std::fill_n(log_z.data(), batch.N, 0.0);
    batch.each<SegmentSum>(
        threads, [&]<class In>(int64_t i, const SegmentSequence<In>& x, SegmentSum<In>& solver) {
            log_z.data()[i] = solver.forward(x);
            if (log_z.data()[i] > -std::numeric_limits<double>::infinity())
                out.data()[i] = solver.entropy();
        });
}

void path_score(const SegmentBatch& batch, Array<const int32_t, 1> path, Array<double, 1> score) {
    require(int64_t(path.shape(0)) == batch.T && int64_t(score.shape(0)) == batch.N,
            "path must be [T] and score [N]");
    const WithoutGil unlocked;
    std::fill_n(score.data(), batch.N, 0.0);
    batch.each<SegmentSum>(
        1, [&]<class In>(int64_t i, const SegmentSequence<In>& x, SegmentSum<In>&) {
            score.data()[i] = segmentation_score(batch.model, x, path.data() + batch.first(i));
        });
}

int64_t first_dead_position(const SegmentBatch& batch, int64_t i) {
    require(i >= 0 && i < batch.N, "i must be 0 to N - 1");
    const WithoutGil unlocked;
    const auto run = [&](auto zero) {
        using In = decltype(zero);
        SegmentSum<In> solver(batch.model);
        solver.forward(batch.sequence<In>(i));
        return solver.first_dead_position();
    };
    return batch.is_double ? run(double{}) : run(float{});
}

// ---------------------------------------------------------------------------------------------
// Segments in linear models

template <class T>
std::vector<T> vector_of(const Array<const T, 1>& array) {
    return std::vector<T>(array.data(), array.data() + array.size());
}

void make_shape(SegmentShape* self, Array<const int32_t, 2> columns,
                Array<const int32_t, 1> longest, Array<const bool, 1> is_span,
                Maybe<const int64_t, 1> n_tokens, Maybe<const int32_t, 1> begin,
                Maybe<const int32_t, 1> length, Maybe<const int32_t, 1> gold) {
    require(columns.shape(1) == 4, "columns must be [S, 4]: single, first, inside, last");
    SegmentShape shape;
    for (size_t y = 0; y < columns.shape(0); ++y) {
        shape.single.push_back(columns(y, 0));
        shape.first.push_back(columns(y, 1));
        shape.inside.push_back(columns(y, 2));
        shape.last.push_back(columns(y, 3));
    }
    shape.longest = vector_of(longest);
    shape.is_span.assign(is_span.data(), is_span.data() + is_span.size());
    if (n_tokens) shape.n_tokens = vector_of(*n_tokens);
    if (begin) shape.begin = vector_of(*begin);
    if (length) shape.length = vector_of(*length);
    if (gold) shape.gold = vector_of(*gold);
    new (self) SegmentShape(std::move(shape));
}

// Scores of segments [T, L, S]: those of tokens, emit, summed inside; and those of segments with
// attributes, rows [n, Y]. Segment i begins at token begin[i].
void segment_scores(const SegmentShape& shape, Array<const float, 2> emit,
                    Array<const int64_t, 1> offsets, Array<const int64_t, 1> begin,
                    Array<const int32_t, 1> length, Array<const float, 2> rows, int64_t threads,
                    Array<float, 3> out) {
    const int64_t T = emit.shape(0), Y = emit.shape(1), L = out.shape(1), S = shape.labels();
    const int64_t N = int64_t(offsets.shape(0)) - 1, n = begin.shape(0);
    check_offsets(offsets, T);
    SegmentShape labels = shape;
    for (auto* of : {&labels.begin, &labels.length, &labels.gold}) of->clear();
    labels.n_tokens.clear();
    const int64_t no_rows = 0;
    labels.check(Y, &no_rows, 0);
    require(int64_t(out.shape(0)) == T && int64_t(out.shape(2)) == S && L == shape.max_length(),
            "out must be [T, L, S]");
    require(
        int64_t(length.shape(0)) == n && int64_t(rows.shape(0)) == n && int64_t(rows.shape(1)) == Y,
        "begin, length and rows must have an entry for each segment");
    for (int64_t i = 0; i < n; ++i)
        require(begin(i) >= 0 && begin(i) < T && length(i) >= 1 && length(i) <= L,
                "a segment must lie in the batch");
    const WithoutGil unlocked;
    parallel_for(N, T * L * S < 50'000 ? 1 : threads, [&](int64_t i, int64_t) {
        const int64_t at = offsets(i);
        token_scores(shape, offsets(i + 1) - at, Y, L, emit.data() + at * Y,
                     out.data() + at * L * S);
    });
    for (int64_t i = 0; i < n; ++i) {
        float* to = out.data() + (begin(i) * L + length(i) - 1) * S;
        for (int64_t y = 0; y < S; ++y)
            if (shape.is_span[y]) to[y] += rows(i, shape.first[y]);
    }
}

// (name, (anchor, template) of each factor); anchors as in core/segment_features.hpp.
using SegmentTemplateSpec = std::pair<std::string, std::vector<std::pair<int32_t, uint32_t>>>;

nb::typed<nb::tuple, nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>,
          nb::ndarray<nb::numpy, int32_t, nb::ndim<1>>>
encode_listed(const Extractor& extractor, const std::vector<SegmentTemplateSpec>& templates,
              nb::handle columns, nb::handle numeric, PyIndex& index, bool grow,
              Array<const int64_t, 1> begin, Array<const int32_t, 1> length,
              Array<const int64_t, 1> given_at, std::vector<std::string> given, int64_t threads) {
    require(begin.shape(0) == length.shape(0), "begin and length must be [n]");
    require(given_at.shape(0) == given.size(), "given_at and given must have the same length");
    require(std::is_sorted(given_at.data(), given_at.data() + given_at.size()),
            "given_at must ascend");
    std::vector<SegmentTemplate> compiled;
    for (const auto& [name, factors] : templates) {
        require(!factors.empty(), "a segment template needs a factor");
        SegmentTemplate one{name, {}};
        for (const auto& [anchor, of] : factors) {
            require(anchor >= 0 && anchor <= static_cast<int32_t>(Anchor::length),
                    "an anchor does not exist");
            one.factors.push_back({static_cast<Anchor>(anchor), of});
        }
        compiled.push_back(std::move(one));
    }
    const Program& program = extractor.compiled().program;
    PyBatch read(extractor.compiled(), columns, numeric);
    const SegmentList list{begin.data(), length.data(), int64_t(begin.shape(0)), given_at.data(),
                           std::move(given)};
    EncodedSegments encoded;
    if (grow) {
        const PyIndex::Growing growing(index);
        const WithoutGil unlocked;
        featurise(program, read.batch);
        encoded = encode_segments(program, read.batch, compiled, list, index.index);
    } else {
        index.check_idle();
        const Table table = index.index.table();
        const WithoutGil unlocked;
        featurise(program, read.batch);
        encoded = encode_segments(program, read.batch, compiled, list, table, threads);
    }
    const size_t n = encoded.indptr.size(), nnz = encoded.ids.size();
    return nb::make_tuple(to_numpy(std::move(encoded.indptr), {n}),
                          to_numpy(std::move(encoded.ids), {nnz}));
}

}  // namespace

void bind_segments(nb::module_& m) {
    nb::class_<SegmentShape>(m, "SegmentShape",
                             "Segment labels as columns of token labels, and the rows of a corpus.")
        .def("__init__", make_shape, nb::arg("columns"), nb::arg("longest"), nb::arg("is_span"),
             nb::arg("n_tokens").none() = nb::none(), nb::arg("begin").none() = nb::none(),
             nb::arg("length").none() = nb::none(), nb::arg("gold").none() = nb::none());
    m.def("segment_scores", segment_scores, nb::arg("shape"), nb::arg("emit"), nb::arg("offsets"),
          nb::arg("begin"), nb::arg("length"), nb::arg("rows"), nb::arg("threads"),
          nb::arg("out").noconvert());
    m.def("encode_segments", encode_listed, nb::arg("extractor"), nb::arg("templates"),
          nb::arg("columns"), nb::arg("numeric"), nb::arg("index"), nb::arg("grow"),
          nb::arg("begin"), nb::arg("length"), nb::arg("given_at"), nb::arg("given"),
          nb::arg("threads"), "The attributes of segments: (indptr, ids).");
    nb::class_<SegmentBatch>(m, "Segments", "Scores of the segments of a ragged batch.")
        .def(nb::init<BatchArrays::Scores<3>, Array<const int64_t, 1>, Maybe<const double, 2>,
                      Maybe<const double, 1>, Maybe<const double, 1>>(),
             nb::arg("score").noconvert(), nb::arg("offsets"), nb::arg("trans").none(),
             nb::arg("start").none(), nb::arg("stop").none(),
             nb::sig("def __init__(self, score: " SCORES
                     ", offsets: NDArray[numpy.int64], trans: NDArray[numpy.float64] | None, "
                     "start: NDArray[numpy.float64] | None, "
                     "stop: NDArray[numpy.float64] | None) -> None"))
        .def("sum", sum, nb::arg("threads"), nb::arg("log_z").noconvert(),
             nb::arg("weight").none() = nb::none(),
             nb::arg("marginals").noconvert().none() = nb::none(),
             nb::arg("counts").none() = nb::none(),
             nb::sig("def sum(self, threads: int, log_z: NDArray[numpy.float64], "
                     "weight: NDArray[numpy.float64] | None = None, "
                     "marginals: " SCORES " | None = None, "
                     "counts: TransitionCounts | None = None) -> None"),
             "Log-partitions [N]; marginals [T, L, Y]; counts += expected.")
        .def("viterbi", viterbi, nb::arg("threads"), nb::arg("path").noconvert(),
             nb::arg("score").noconvert())
        .def("nbest", nbest, nb::arg("threads"), nb::arg("n"))
        .def("sample", sample, nb::arg("threads"), nb::arg("uniform"), nb::arg("paths").noconvert(),
             nb::arg("log_z").noconvert())
        .def("entropy", entropy, nb::arg("threads"), nb::arg("out").noconvert(),
             nb::arg("log_z").noconvert())
        .def("path_score", path_score, nb::arg("path"), nb::arg("score").noconvert())
        .def("first_dead_position", first_dead_position, nb::arg("i"));
}

}  // namespace tagloom
