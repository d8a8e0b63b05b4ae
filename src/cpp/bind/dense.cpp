// Python bindings of the dense layout: check shapes, release the GIL, call core. tagloom.trellis
// has the words for users; the checks here are the last line that keeps every read inside its
// array.

#include "core/dense.hpp"

#include <nanobind/stl/tuple.h>

#include "bind/arrays.hpp"
#include "bind/bind.hpp"
#include "bind/gil.hpp"

namespace tagloom {
namespace {

template <class In>
DenseBatch<In> dense_batch(const Array<const In, 2>& emit, const Array<const int64_t, 1>& offsets,
                           const Array<const double, 4>& moves, const Array<const double, 1>& start,
                           const Array<const double, 1>& stop, const Maybe<const In, 3>& edge,
                           int64_t threads) {
    const int64_t Y = emit.shape(1), tokens = emit.shape(0);
    check_offsets(offsets, tokens);
    const int64_t levels = moves.shape(0), G = moves.shape(1);
    int64_t power = 1;
    for (int64_t k = 1; k < levels; ++k) power *= Y;
    require(Y > 0 && levels > 0 && G == power, "moves must be [k, Y^(k-1), Y, Y]");
    require(int64_t(moves.shape(2)) == Y && int64_t(moves.shape(3)) == Y,
            "moves must be [k, Y^(k-1), Y, Y]");
    require(int64_t(start.shape(0)) == Y && int64_t(stop.shape(0)) == Y,
            "start and stop must be [Y]");
    if (edge)
        require(int64_t(edge->shape(0)) == tokens && int64_t(edge->shape(1)) == Y &&
                    int64_t(edge->shape(2)) == Y,
                "edge must be [tokens, Y, Y]");
    return {Y,
            G,
            levels,
            moves.data(),
            start.data(),
            stop.data(),
            emit.data(),
            data_or_null(edge),
            offsets.data(),
            int64_t(offsets.shape(0)) - 1,
            threads};
}

template <class In>
void dense_viterbi(Array<const In, 2> emit, Array<const int64_t, 1> offsets,
                   Array<const double, 4> moves, Array<const double, 1> start,
                   Array<const double, 1> stop, Maybe<const In, 3> edge, int64_t threads,
                   double largest_emit, Array<int32_t, 1> path, Array<double, 1> score) {
    auto batch = dense_batch<In>(emit, offsets, moves, start, stop, edge, threads);
    batch.largest_emit = largest_emit;
    require(path.shape(0) == emit.shape(0) && int64_t(score.shape(0)) == batch.N,
            "wrong output shape");
    const WithoutGil unlocked;
    viterbi(batch, path.data(), score.data());
}

template <class In>
void dense_sum(Array<const In, 2> emit, Array<const int64_t, 1> offsets,
               Array<const double, 4> moves, Array<const double, 1> start,
               Array<const double, 1> stop, Maybe<const In, 3> edge, int64_t threads,
               Maybe<const double, 1> weight, Array<double, 1> log_z, Array<bool, 1> ok,
               Maybe<In, 2> marginals, Maybe<In, 3> pairs, Maybe<double, 4> transitions,
               Maybe<double, 1> start_counts, Maybe<double, 1> stop_counts) {
    const auto batch = dense_batch<In>(emit, offsets, moves, start, stop, edge, threads);
    const int64_t N = batch.N, Y = batch.Y, tokens = emit.shape(0);
    require(int64_t(log_z.shape(0)) == N && int64_t(ok.shape(0)) == N, "wrong output shape");
    require(!weight || int64_t(weight->shape(0)) == N, "weight must be [N]");
    require(
        !marginals || (int64_t(marginals->shape(0)) == tokens && int64_t(marginals->shape(1)) == Y),
        "marginals must be [tokens, Y]");
    require(!pairs || (int64_t(pairs->shape(0)) == tokens && int64_t(pairs->shape(1)) == Y &&
                       int64_t(pairs->shape(2)) == Y),
            "pairs must be [tokens, Y, Y]");
    require(
        !transitions ||
            (transitions->shape(0) == moves.shape(0) && transitions->shape(1) == moves.shape(1) &&
             int64_t(transitions->shape(2)) == Y && int64_t(transitions->shape(3)) == Y),
        "transitions must have the shape of moves");
    require(!start_counts || int64_t(start_counts->shape(0)) == Y, "start_counts must be [Y]");
    require(!stop_counts || int64_t(stop_counts->shape(0)) == Y, "stop_counts must be [Y]");
    const Expected<In> expected{data_or_null(marginals), data_or_null(pairs),
                                data_or_null(transitions), data_or_null(start_counts),
                                data_or_null(stop_counts)};
    const double* weights = data_or_null(weight);
    const WithoutGil unlocked;
    sum(batch, weights, expected, log_z.data(), ok.data());
}

template <class In>
void dense_sample(Array<const In, 2> emit, Array<const int64_t, 1> offsets,
                  Array<const double, 4> moves, Array<const double, 1> start,
                  Array<const double, 1> stop, Maybe<const In, 3> edge, int64_t threads,
                  Array<const double, 2> uniform, Array<int32_t, 2> paths, Array<double, 1> log_z,
                  Array<bool, 1> ok) {
    const auto batch = dense_batch<In>(emit, offsets, moves, start, stop, edge, threads);
    require(uniform.shape(0) == emit.shape(0), "uniform must be [tokens, n]");
    require(paths.shape(0) == uniform.shape(1) && paths.shape(1) == emit.shape(0),
            "paths must be [n, tokens]");
    require(int64_t(log_z.shape(0)) == batch.N && int64_t(ok.shape(0)) == batch.N,
            "wrong output shape");
    const WithoutGil unlocked;
    sample(batch, uniform.shape(1), uniform.data(), paths.data(), log_z.data(), ok.data());
}

template <class In>
void dense_entropy(Array<const In, 2> emit, Array<const int64_t, 1> offsets,
                   Array<const double, 4> moves, Array<const double, 1> start,
                   Array<const double, 1> stop, Maybe<const In, 3> edge, int64_t threads,
                   Array<double, 1> out, Array<double, 1> log_z, Array<bool, 1> ok) {
    const auto batch = dense_batch<In>(emit, offsets, moves, start, stop, edge, threads);
    require(int64_t(out.shape(0)) == batch.N && int64_t(log_z.shape(0)) == batch.N &&
                int64_t(ok.shape(0)) == batch.N,
            "wrong output shape");
    const WithoutGil unlocked;
    entropy(batch, out.data(), log_z.data(), ok.data());
}

template <class T>
using Flat = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

// The number of paths of each sequence [N]; the paths, flat; their scores, flat.
template <class In>
nb::typed<nb::tuple, Flat<int64_t>, Flat<int32_t>, Flat<double>> dense_nbest(
    Array<const In, 2> emit, Array<const int64_t, 1> offsets, Array<const double, 4> moves,
    Array<const double, 1> start, Array<const double, 1> stop, Maybe<const In, 3> edge,
    int64_t threads, int64_t n) {
    const auto batch = dense_batch<In>(emit, offsets, moves, start, stop, edge, threads);
    NBestPaths best;
    {
        const WithoutGil unlocked;
        best = nbest(batch, n);
    }
    const size_t N = best.count.size(), labels = best.paths.size(), k = best.scores.size();
    return nb::make_tuple(to_numpy(std::move(best.count), {N}),
                          to_numpy(std::move(best.paths), {labels}),
                          to_numpy(std::move(best.scores), {k}));
}

template <class R>
void bind_for(nb::module_& m) {
    m.def("dense_viterbi", dense_viterbi<R>, nb::arg("emit").noconvert(), nb::arg("offsets"),
          nb::arg("moves"), nb::arg("start"), nb::arg("stop"), nb::arg("edge").none(),
          nb::arg("threads"), nb::arg("largest_emit"), nb::arg("path").noconvert(),
          nb::arg("score").noconvert());
    m.def("dense_sum", dense_sum<R>, nb::arg("emit").noconvert(), nb::arg("offsets"),
          nb::arg("moves"), nb::arg("start"), nb::arg("stop"), nb::arg("edge").none(),
          nb::arg("threads"), nb::arg("weight").none(), nb::arg("log_z").noconvert(),
          nb::arg("ok").noconvert(), nb::arg("marginals").noconvert() = nb::none(),
          nb::arg("pairs").noconvert() = nb::none(),
          nb::arg("transitions").noconvert() = nb::none(),
          nb::arg("start_counts").noconvert() = nb::none(),
          nb::arg("stop_counts").noconvert() = nb::none());
    m.def("dense_sample", dense_sample<R>, nb::arg("emit").noconvert(), nb::arg("offsets"),
          nb::arg("moves"), nb::arg("start"), nb::arg("stop"), nb::arg("edge").none(),
          nb::arg("threads"), nb::arg("uniform"), nb::arg("paths").noconvert(),
          nb::arg("log_z").noconvert(), nb::arg("ok").noconvert());
    m.def("dense_entropy", dense_entropy<R>, nb::arg("emit").noconvert(), nb::arg("offsets"),
          nb::arg("moves"), nb::arg("start"), nb::arg("stop"), nb::arg("edge").none(),
          nb::arg("threads"), nb::arg("out").noconvert(), nb::arg("log_z").noconvert(),
          nb::arg("ok").noconvert());
    m.def("dense_nbest", dense_nbest<R>, nb::arg("emit").noconvert(), nb::arg("offsets"),
          nb::arg("moves"), nb::arg("start"), nb::arg("stop"), nb::arg("edge").none(),
          nb::arg("threads"), nb::arg("n"));
}

}  // namespace

void bind_dense(nb::module_& m) {
    bind_for<float>(m);
    bind_for<double>(m);
}

}  // namespace tagloom
