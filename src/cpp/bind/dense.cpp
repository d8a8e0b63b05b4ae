// Python bindings of the dense layout: check shapes, release the GIL, call core. Messages for users
// come from tagloom.trellis; the checks here only keep every read inside its array.

#include "core/dense.hpp"

#include "bind/arrays.hpp"
#include "bind/batches.hpp"
#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/dense.hpp"
#include "bind/gil.hpp"

namespace tagloom {
namespace {

void dense_viterbi(const DenseScores& scores, const BatchArrays& x, int64_t threads,
                   Array<int32_t, 1> path, Array<double, 1> score) {
    require(int64_t(path.shape(0)) == x.T && int64_t(score.shape(0)) == x.N,
            "path must be [T] and score [N]");
    scores.with(x, threads, [&](const auto& batch, auto) {
        const WithoutGil unlocked;
        viterbi(batch, path.data(), score.data());
    });
}

void dense_sum(const DenseScores& scores, const BatchArrays& x, int64_t threads,
               Array<double, 1> log_z, Array<bool, 1> ok, Maybe<const double, 1> weight,
               BatchArrays::Results<2> marginals, BatchArrays::Results<3> pairs,
               const TransitionCounts* counts) {
    require(int64_t(log_z.shape(0)) == x.N && int64_t(ok.shape(0)) == x.N,
            "log_z and ok must be [N]");
    require(!weight || int64_t(weight->shape(0)) == x.N, "weight must be [N]");
    if (counts) counts->check(scores.trans.size(), scores.Y);
    scores.with(x, threads, [&](const auto& batch, auto zero) {
        using In = decltype(zero);
        const Expected<In> expected{
            x.results<In, 2>(marginals, "marginals must be [T, Y], of the type of emit"),
            x.results<In, 3>(pairs, "pairs must be [T, Y, Y], of the type of emit"),
            counts ? counts->transitions.data() : nullptr, counts ? counts->start.data() : nullptr,
            counts ? counts->stop.data() : nullptr};
        const double* weights = data_or_null(weight);
        const WithoutGil unlocked;
        sum(batch, weights, expected, log_z.data(), ok.data());
    });
}

void dense_sum_rows(const DenseScores& scores, const BatchArrays::Scores<2>& rows,
                    Array<const int32_t, 1> ids, Array<const int64_t, 1> offsets, int64_t threads,
                    Array<double, 1> log_z, Array<bool, 1> ok, Maybe<const double, 1> weight,
                    const TransitionCounts& counts, Array<double, 2> row_counts) {
    const int64_t N = int64_t(offsets.shape(0)) - 1, R = rows.shape(0), Y = rows.shape(1);
    const bool is_double = rows.dtype() == nb::dtype<double>();
    check_offsets(offsets, ids.shape(0));
    require(is_double || rows.dtype() == nb::dtype<float>(), "rows must be float32 or float64");
    require(Y == scores.Y, "rows must be [R, Y]");
    require(int64_t(row_counts.shape(0)) == R && int64_t(row_counts.shape(1)) == Y,
            "row_counts must have the shape of rows");
    for (size_t t = 0; t < ids.shape(0); ++t)
        require(ids(t) >= 0 && ids(t) < R, "ids must be numbers of rows");
    require(int64_t(log_z.shape(0)) == N && int64_t(ok.shape(0)) == N, "log_z and ok must be [N]");
    require(!weight || int64_t(weight->shape(0)) == N, "weight must be [N]");
    counts.check(scores.trans.size(), Y);
    const auto run = [&](auto zero) {
        using In = decltype(zero);
        const DenseBatch<In> batch{Y,
                                   scores.G,
                                   scores.levels,
                                   scores.trans.data(),
                                   scores.start.data(),
                                   scores.stop.data(),
                                   static_cast<const In*>(rows.data()),
                                   nullptr,
                                   offsets.data(),
                                   N,
                                   threads};
        const Expected<In> expected{nullptr, nullptr, counts.transitions.data(),
                                    counts.start.data(), counts.stop.data()};
        const double* weights = data_or_null(weight);
        const WithoutGil unlocked;
        sum_rows(batch, ids.data(), R, weights, expected, row_counts.data(), log_z.data(),
                 ok.data());
    };
    is_double ? run(double{}) : run(float{});
}

void dense_sample(const DenseScores& scores, const BatchArrays& x, int64_t threads,
                  Array<const double, 2> uniform, Array<int32_t, 2> paths, Array<double, 1> log_z,
                  Array<bool, 1> ok) {
    require(int64_t(uniform.shape(0)) == x.T, "uniform must be [T, n]");
    require(paths.shape(0) == uniform.shape(1) && int64_t(paths.shape(1)) == x.T,
            "paths must be [n, T]");
    require(int64_t(log_z.shape(0)) == x.N && int64_t(ok.shape(0)) == x.N,
            "log_z and ok must be [N]");
    scores.with(x, threads, [&](const auto& batch, auto) {
        const WithoutGil unlocked;
        sample(batch, uniform.shape(1), uniform.data(), paths.data(), log_z.data(), ok.data());
    });
}

void dense_entropy(const DenseScores& scores, const BatchArrays& x, int64_t threads,
                   Array<double, 1> out, Array<double, 1> log_z, Array<bool, 1> ok) {
    require(int64_t(out.shape(0)) == x.N && int64_t(log_z.shape(0)) == x.N &&
                int64_t(ok.shape(0)) == x.N,
            "out, log_z and ok must be [N]");
    scores.with(x, threads, [&](const auto& batch, auto) {
        const WithoutGil unlocked;
        entropy(batch, out.data(), log_z.data(), ok.data());
    });
}

NBestArrays dense_nbest(const DenseScores& scores, const BatchArrays& x, int64_t threads,
                        int64_t n) {
    return as_arrays(scores.with(x, threads, [&](const auto& batch, auto) {
        return run_interruptible([&] { return nbest(batch, n); });
    }));
}

}  // namespace

void bind_dense(nb::module_& m) {
    nb::class_<DenseScores>(m, "Dense", "Scores of transitions [k, Y^(k-1), Y, Y], start, stop.")
        .def(nb::init<int64_t, int64_t, const MaybeScores&, const MaybeScores&,
                      const MaybeScores&>(),
             nb::arg("n_labels"), nb::arg("order"), nb::arg("trans").none(),
             nb::arg("start").none(), nb::arg("stop").none(),
             nb::sig("def __init__(self, n_labels: int, order: int, trans: " SCORES
                     " | None, start: " SCORES " | None, stop: " SCORES " | None) -> None"))
        .def_prop_ro(
            "shape", [](const DenseScores& s) { return std::make_tuple(s.levels, s.G, s.Y, s.Y); },
            "(k, Y^(k-1), Y, Y), the shape of the scores of transitions.")
        .def("viterbi", dense_viterbi, nb::arg("batch"), nb::arg("threads"),
             nb::arg("path").noconvert(), nb::arg("score").noconvert())
        .def("sum", dense_sum, nb::arg("batch"), nb::arg("threads"), nb::arg("log_z").noconvert(),
             nb::arg("ok").noconvert(), nb::arg("weight").none() = nb::none(),
             nb::arg("marginals").noconvert() = nb::none(),
             nb::arg("pairs").noconvert() = nb::none(), nb::arg("counts").none() = nb::none(),
             nb::sig("def sum(self, batch: Batch, threads: int, log_z: NDArray[numpy.float64], "
                     "ok: NDArray[numpy.bool_], weight: NDArray[numpy.float64] | None = None, "
                     "marginals: " SCORES " | None = None, pairs: " SCORES
                     " | None = None, counts: TransitionCounts | None = None) -> None"))
        .def("sum_rows", dense_sum_rows, nb::arg("rows"), nb::arg("ids"), nb::arg("offsets"),
             nb::arg("threads"), nb::arg("log_z").noconvert(), nb::arg("ok").noconvert(),
             nb::arg("weight").none(), nb::arg("counts"), nb::arg("row_counts").noconvert(),
             nb::sig("def sum_rows(self, rows: " SCORES
                     ", ids: NDArray[numpy.int32], offsets: NDArray[numpy.int64], threads: int, "
                     "log_z: NDArray[numpy.float64], ok: NDArray[numpy.bool_], "
                     "weight: NDArray[numpy.float64] | None, counts: TransitionCounts, "
                     "row_counts: NDArray[numpy.float64]) -> None"))
        .def("sample", dense_sample, nb::arg("batch"), nb::arg("threads"), nb::arg("uniform"),
             nb::arg("paths").noconvert(), nb::arg("log_z").noconvert(), nb::arg("ok").noconvert())
        .def("entropy", dense_entropy, nb::arg("batch"), nb::arg("threads"),
             nb::arg("out").noconvert(), nb::arg("log_z").noconvert(), nb::arg("ok").noconvert())
        .def("nbest", dense_nbest, nb::arg("batch"), nb::arg("threads"), nb::arg("n"),
             "(number of paths of each sequence [N], their labels, flat, their scores, flat).");
}

}  // namespace tagloom
