// Python bindings of state spaces and automata: check shapes, release the GIL, call core.

#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "bind/arrays.hpp"
#include "bind/batches.hpp"
#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/gil.hpp"
#include "core/automaton.hpp"
#include "core/space.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

template <class T>
std::vector<T> vector_of(const Array<const T, 1>& array) {
    return std::vector<T>(array.data(), array.data() + array.size());
}

std::vector<uint8_t> flags_of(const Array<const bool, 1>& array) {
    return std::vector<uint8_t>(array.data(), array.data() + array.size());
}

// ---------------------------------------------------------------------------------------------
// State spaces

// Weights tied to each transition, or to each start: ids[indptr[i]] .. ids[indptr[i + 1]].
struct TieArrays {
    Array<const int64_t, 1> indptr;
    Array<const int32_t, 1> ids;
};

void make_space(Space* self, int64_t n_labels, Array<const int32_t, 1> state_labels,
                Array<const bool, 1> initial, Array<const bool, 1> final_,
                Array<const int32_t, 1> src, Array<const int32_t, 1> dst, const TieArrays& ties,
                const TieArrays& start_ties, int64_t n_weights, int64_t order) {
    require(order >= 0 && order < 64, "order must be 0 to 63");
    Space space;
    space.Y = n_labels;
    space.K = n_weights;
    space.label = vector_of(state_labels);
    space.is_initial = flags_of(initial);
    space.is_final = flags_of(final_);
    space.src = vector_of(src);
    space.dst = vector_of(dst);
    space.tie_ptr = vector_of(ties.indptr);
    space.ties = vector_of(ties.ids);
    space.start_tie_ptr = vector_of(start_ties.indptr);
    space.start_ties = vector_of(start_ties.ids);
    space.levels = order;
    space.index();
    new (self) Space(std::move(space));
}

// A read-only view of a table of a space; it keeps the space alive.
template <int D>
using Table = nb::ndarray<nb::numpy, const int32_t, nb::ndim<D>>;

Table<2> transition_table(nb::handle self) {
    const Space& space = nb::cast<const Space&>(self);
    return Table<2>(space.transition_of.data(), {size_t(space.states()), size_t(space.Y)}, self);
}

Table<1> first_state(nb::handle self) {
    const Space& space = nb::cast<const Space&>(self);
    return Table<1>(space.first_state.data(), {size_t(space.Y)}, self);
}

// ---------------------------------------------------------------------------------------------
// Automata

void make_automaton(Automaton* self, const Space& space, Array<const double, 1> score,
                    Array<const double, 1> start, Array<const double, 1> stop) {
    require(int64_t(score.shape(0)) == space.transitions() &&
                int64_t(start.shape(0)) == space.states() &&
                int64_t(stop.shape(0)) == space.states(),
            "score must be [M], start and stop [S]");
    Automaton automaton(space);
    std::copy_n(score.data(), score.size(), automaton.score.begin());
    std::copy_n(start.data(), start.size(), automaton.start.begin());
    std::copy_n(stop.data(), stop.size(), automaton.stop.begin());
    new (self) Automaton(std::move(automaton));
}

// The sequences of a batch, for one automaton.
template <class In>
struct Ragged {
    const Automaton& a;
    const In *emit, *edge;
    const int64_t* offsets;
    int64_t N, T, Y;

    Ragged(const Automaton& a_, const BatchArrays& batch)
        : a(a_),
          emit(batch.emit_data<In>()),
          edge(batch.edge_data<In>()),
          offsets(batch.offsets.data()),
          N(batch.N),
          T(batch.T),
          Y(batch.Y) {
        require(Y == a.Y(), "batch and automaton differ in their number of labels");
    }
    int64_t first(int64_t i) const { return offsets[i]; }
    Sequence<In> operator[](int64_t i) const {
        return {emit + first(i) * Y, edge ? edge + first(i) * Y * Y : nullptr,
                offsets[i + 1] - first(i)};
    }
    int64_t threads_for_work(int64_t threads) const {
        return T * a.transitions() < 100'000 ? 1 : threads;  // too little work to share
    }
    // Calls work(i, sequence) for every sequence that is not empty.
    template <class Work>
    void each(int64_t threads, const Work& work) const {
        parallel_for(N, threads_for_work(threads), [&](int64_t i, int64_t) {
            const Sequence<In> x = (*this)[i];
            if (x.T > 0) work(i, x);
        });
    }
};

// Calls call(ragged, zero) in the type of the batch's scores, float or double.
template <class Call>
void with_ragged(const Automaton& a, const BatchArrays& batch, const Call& call) {
    batch.dispatch([&](auto zero) { call(Ragged<decltype(zero)>(a, batch), zero); });
}

void state_scores(const Automaton& a, const BatchArrays& batch, int64_t threads, bool log_sum,
                  bool forwards, Array<double, 2> out) {
    const int64_t S = a.states();
    require(int64_t(out.shape(0)) == batch.T && int64_t(out.shape(1)) == S, "out must be [T, S]");
    const Fold fold = log_sum ? Fold::log_sum : Fold::max;
    with_ragged(a, batch, [&](const auto& sequences, auto) {
        const WithoutGil unlocked;
        sequences.each(threads, [&](int64_t i, const auto& x) {
            double* to = out.data() + sequences.first(i) * S;
            if (forwards)
                forward(a, x, fold, to);
            else
                backward(a, x, fold, to);
        });
    });
}

void automaton_log_partition(const Automaton& a, const BatchArrays& batch, int64_t threads,
                             Array<double, 1> log_z) {
    require(int64_t(log_z.shape(0)) == batch.N, "log_z must be [N]");
    with_ragged(a, batch, [&](const auto& sequences, auto) {
        const WithoutGil unlocked;
        std::fill_n(log_z.data(), batch.N, 0.0);
        sequences.each(threads,
                       [&](int64_t i, const auto& x) { log_z.data()[i] = log_partition(a, x); });
    });
}

// Sums per shard, then over shards. The number of shards is fixed, so every bit of the result is
// the same for any number of threads.
template <class In>
void sum_shards(const Ragged<In>& sequences, int64_t threads, const double* weight, double* log_z,
                In* marginals, In* pairs, const TransitionCounts* counts) {
    const Automaton& a = sequences.a;
    const int64_t Y = a.Y(), M = a.transitions(), S = a.states(), N = sequences.N;
    const int64_t shards = counts ? std::min<int64_t>(16, N) : N;
    std::vector<std::vector<double>> partial(counts ? shards : 0);  // each [M + S + S]
    parallel_for(shards, sequences.threads_for_work(threads), [&](int64_t shard, int64_t) {
        AutomatonExpected<In> expected;
        if (counts) {
            partial[shard].assign(M + 2 * S, 0.0);
            expected.transitions = partial[shard].data();
            expected.start = expected.transitions + M;
            expected.stop = expected.start + S;
        }
        for (int64_t i = shard; i < N; i += shards) {
            const Sequence<In> x = sequences[i];
            if (x.T == 0) continue;
            if (marginals) expected.marginals = marginals + sequences.first(i) * Y;
            if (pairs) expected.pairs = pairs + sequences.first(i) * Y * Y;
            log_z[i] = expectations(a, x, weight ? weight[i] : 1.0, expected);
        }
    });
    for (const auto& p : partial) {
        for (int64_t m = 0; m < M; ++m) counts->transitions.data()[m] += p[m];
        for (int64_t s = 0; s < S; ++s) counts->start.data()[s] += p[M + s];
        for (int64_t s = 0; s < S; ++s) counts->stop.data()[s] += p[M + S + s];
    }
}

void automaton_sum(const Automaton& a, const BatchArrays& batch, int64_t threads,
                   Array<double, 1> log_z, Maybe<const double, 1> weight,
                   BatchArrays::Results<2> marginals, BatchArrays::Results<3> pairs,
                   const TransitionCounts* counts) {
    require(int64_t(log_z.shape(0)) == batch.N, "log_z must be [N]");
    require(!weight || int64_t(weight->shape(0)) == batch.N, "weight must be [N]");
    if (counts) counts->check(a.transitions(), a.states());
    with_ragged(a, batch, [&](const auto& sequences, auto zero) {
        using In = decltype(zero);
        In* to = batch.results<In, 2>(marginals, "marginals must be [T, Y], of the type of emit");
        In* xi = batch.results<In, 3>(pairs, "pairs must be [T, Y, Y], of the type of emit");
        const WithoutGil unlocked;
        std::fill_n(log_z.data(), batch.N, 0.0);
        sum_shards(sequences, threads, data_or_null(weight), log_z.data(), to, xi, counts);
    });
}

void automaton_distant_pairs(const Automaton& a, const BatchArrays& batch, int64_t threads,
                             int64_t distance, BatchArrays::Results<3> pairs) {
    require(distance > 0 && pairs, "distance must be at least 1");
    with_ragged(a, batch, [&](const auto& sequences, auto zero) {
        using In = decltype(zero);
        In* to = batch.results<In, 3>(pairs, "pairs must be [T, Y, Y], of the type of emit");
        const WithoutGil unlocked;
        sequences.each(threads, [&](int64_t i, const auto& x) {
            distant_pairs(a, x, distance, to + sequences.first(i) * batch.Y * batch.Y);
        });
    });
}

void automaton_viterbi(const Automaton& a, const BatchArrays& batch, int64_t threads,
                       Array<int32_t, 1> path) {
    require(int64_t(path.shape(0)) == batch.T, "path must be [T]");
    with_ragged(a, batch, [&](const auto& sequences, auto) {
        const WithoutGil unlocked;
        sequences.each(threads, [&](int64_t i, const auto& x) {
            viterbi(a, x, path.data() + sequences.first(i));
        });
    });
}

using PathsAndScores =
    nb::typed<nb::list, nb::typed<nb::tuple, nb::ndarray<nb::numpy, int32_t, nb::ndim<2>>,
                                  nb::ndarray<nb::numpy, double, nb::ndim<1>>>>;

PathsAndScores automaton_nbest(const Automaton& a, const BatchArrays& batch, int64_t threads,
                               int64_t n) {
    std::vector<std::vector<int32_t>> paths(batch.N);
    const std::vector<double> empty_path(1, 0.0);
    std::vector<std::vector<double>> scores(batch.N, empty_path);
    with_ragged(a, batch, [&](const auto& sequences, auto) {
        run_interruptible([&] {
            sequences.each(threads, [&](int64_t i, const auto& x) {
                scores[i].resize(nbest(a, x, n, paths[i]));
                for (size_t k = 0; k < scores[i].size(); ++k)
                    scores[i][k] = path_score(a, x, paths[i].data() + k * x.T);
            });
        });
    });
    PathsAndScores out;
    for (int64_t i = 0; i < batch.N; ++i) {
        const size_t k = scores[i].size(), T = batch.offsets(i + 1) - batch.offsets(i);
        out.append(nb::make_tuple(to_numpy(std::move(paths[i]), {k, T}),
                                  to_numpy(std::move(scores[i]), {k})));
    }
    return out;
}

void automaton_sample(const Automaton& a, const BatchArrays& batch, int64_t threads,
                      Array<const double, 2> uniform, Array<int32_t, 2> paths) {
    const int64_t n = uniform.shape(0), T = batch.T;
    require(int64_t(uniform.shape(1)) == T && int64_t(paths.shape(0)) == n &&
                int64_t(paths.shape(1)) == T,
            "uniform and paths must be [n, T]");
    with_ragged(a, batch, [&](const auto& sequences, auto) {
        const WithoutGil unlocked;
        sequences.each(threads, [&](int64_t i, const auto& x) {
            const int64_t at = sequences.first(i);
            sample(a, x, n, uniform.data() + at, T, paths.data() + at);
        });
    });
}

void automaton_entropy(const Automaton& a, const BatchArrays& batch, int64_t threads,
                       Array<double, 1> out) {
    require(int64_t(out.shape(0)) == batch.N, "out must be [N]");
    with_ragged(a, batch, [&](const auto& sequences, auto) {
        const WithoutGil unlocked;
        std::fill_n(out.data(), batch.N, 0.0);
        sequences.each(threads, [&](int64_t i, const auto& x) { out.data()[i] = entropy(a, x); });
    });
}

int64_t automaton_first_dead_position(const Automaton& a, const BatchArrays& batch, int64_t i) {
    require(i >= 0 && i < batch.N, "i must be 0 to N - 1");
    int64_t t = -1;
    with_ragged(a, batch, [&](const auto& sequences, auto) {
        const WithoutGil unlocked;
        t = first_dead_position(a, sequences[i]);
    });
    return t;
}

void automaton_path_score(const Automaton& a, const BatchArrays& batch,
                          Array<const int32_t, 1> path, Array<double, 1> score) {
    require(int64_t(path.shape(0)) == batch.T && int64_t(score.shape(0)) == batch.N,
            "path must be [T] and score [N]");
    with_ragged(a, batch, [&](const auto& sequences, auto) {
        const WithoutGil unlocked;
        for (int64_t i = 0; i < batch.N; ++i)
            score.data()[i] = path_score(a, sequences[i], path.data() + sequences.first(i));
    });
}

void bind_spaces(nb::module_& m) {
    nb::class_<TieArrays>(m, "Ties", "Weights tied to each transition, or to each start.")
        .def(nb::init<Array<const int64_t, 1>, Array<const int32_t, 1>>(), nb::arg("indptr"),
             nb::arg("ids"));
    nb::class_<Space>(m, "Space", "A state space: its transitions and the weights tied to them.")
        .def("__init__", make_space, nb::arg("n_labels"), nb::arg("state_labels"),
             nb::arg("initial"), nb::arg("final"), nb::arg("src"), nb::arg("dst"), nb::arg("ties"),
             nb::arg("start_ties"), nb::arg("n_weights"), nb::arg("order") = 0)
        .def_prop_ro("transition_table", transition_table,
                     "[S, Y] the transition from state s on label y, or -1.")
        .def_prop_ro("first_state", first_state,
                     "[Y] the state of a path that begins with label y, or -1.");
}

}  // namespace

void bind_automata(nb::module_& m) {
    nb::class_<BatchArrays>(m, "Batch", "Scores of a ragged batch, float32 or float64.")
        .def(nb::init<BatchArrays::Scores<2>, std::optional<BatchArrays::Scores<3>>,
                      Array<const int64_t, 1>, double>(),
             nb::arg("emit").noconvert(), nb::arg("edge").noconvert().none(), nb::arg("offsets"),
             nb::arg("largest_emit"),
             nb::sig("def __init__(self, emit: " SCORES ", edge: " SCORES
                     " | None, offsets: NDArray[numpy.int64], largest_emit: float) -> None"));
    bind_spaces(m);
    nb::class_<TransitionCounts>(m, "TransitionCounts",
                                 "Expected counts of transitions [M], starts [S] and stops [S].")
        .def(nb::init<Array<double, 1>, Array<double, 1>, Array<double, 1>>(),
             nb::arg("transitions").noconvert(), nb::arg("start").noconvert(),
             nb::arg("stop").noconvert());
    nb::class_<Automaton>(m, "Automaton", "A state space with scores.")
        .def("__init__", make_automaton, nb::arg("space"), nb::arg("score"), nb::arg("start"),
             nb::arg("stop"), nb::keep_alive<1, 2>())
        .def("scores", state_scores, nb::arg("batch"), nb::arg("threads"), nb::arg("log_sum"),
             nb::arg("forwards"), nb::arg("out").noconvert())
        .def("log_partition", automaton_log_partition, nb::arg("batch"), nb::arg("threads"),
             nb::arg("log_z").noconvert())
        .def("sum", automaton_sum, nb::arg("batch"), nb::arg("threads"),
             nb::arg("log_z").noconvert(), nb::arg("weight").none() = nb::none(),
             nb::arg("marginals").noconvert() = nb::none(),
             nb::arg("pairs").noconvert() = nb::none(), nb::arg("counts").none() = nb::none(),
             nb::sig("def sum(self, batch: Batch, threads: int, log_z: NDArray[numpy.float64], "
                     "weight: NDArray[numpy.float64] | None = None, marginals: " SCORES
                     " | None = None, pairs: " SCORES
                     " | None = None, counts: TransitionCounts | None = None) -> None"))
        .def("distant_pairs", automaton_distant_pairs, nb::arg("batch"), nb::arg("threads"),
             nb::arg("distance"), nb::arg("pairs").noconvert(),
             nb::sig("def distant_pairs(self, batch: Batch, threads: int, distance: int, "
                     "pairs: " SCORES ") -> None"))
        .def("viterbi", automaton_viterbi, nb::arg("batch"), nb::arg("threads"),
             nb::arg("path").noconvert())
        .def("nbest", automaton_nbest, nb::arg("batch"), nb::arg("threads"), nb::arg("n"),
             "(paths [k, T], scores [k]) of each sequence, k <= n.")
        .def("sample", automaton_sample, nb::arg("batch"), nb::arg("threads"), nb::arg("uniform"),
             nb::arg("paths").noconvert())
        .def("entropy", automaton_entropy, nb::arg("batch"), nb::arg("threads"),
             nb::arg("out").noconvert())
        .def("first_dead_position", automaton_first_dead_position, nb::arg("batch"), nb::arg("i"))
        .def("path_score", automaton_path_score, nb::arg("batch"), nb::arg("path"),
             nb::arg("score").noconvert());
}

}  // namespace tagloom
