// Python bindings of the trellis: check shapes, release the GIL, call core. The Python class
// tagloom.Trellis prepares the arrays and words the errors for users; the checks here are the last
// line that keeps every read inside its array.

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>

#include "bind/arrays.hpp"
#include "bind/bind.hpp"
#include "bind/gil.hpp"
#include "core/automaton.hpp"
#include "core/dispatch.hpp"
#include "core/threads.hpp"

namespace nb = nanobind;

namespace tagloom {
namespace {

// ---------------------------------------------------------------------------------------------
// Checks of scores

// Scores up to 1e300 can be added up over millions of positions; beyond, sums overflow.
template <class R>
constexpr R kLargestScore = sizeof(R) == 4 ? R(std::numeric_limits<float>::max()) : R(1e300);

template <class R>
constexpr R kInfinity = std::numeric_limits<R>::infinity();

float largest_of(const float* x, int64_t n) { return kernels().largest_f32(x, n); }
double largest_of(const double* x, int64_t n) { return kernels().largest_f64(x, n); }

// The first score that is NaN or too large either way, or -1 (-inf is allowed); and the largest |x|
// of the finite ones before it.
struct Measured {
    int64_t bad = -1;
    double largest = 0;
};

template <class R>
Measured measure(const R* x, int64_t begin, int64_t end) {
    constexpr int64_t block = 1024;
    const auto is_good = [](R y) { return y == -kInfinity<R> || std::abs(y) <= kLargestScore<R>; };
    Measured found;
    for (int64_t lo = begin; lo < end; lo += block) {
        const int64_t hi = std::min(lo + block, end);
        const R largest = largest_of(x + lo, hi - lo);
        if (!(largest <= kLargestScore<R>)) {
            found.bad = std::find_if_not(x + lo, x + hi, is_good) - x;
            break;
        }
        found.largest = std::max<double>(found.largest, largest);
    }
    return found;
}

template <class R>
Measured measure_all(const R* x, int64_t n, int64_t threads) {
    constexpr int64_t small = 1 << 14, chunk = 1 << 18;
    if (n <= small) return measure(x, 0, n);  // sooner done than others have taken the GIL
    const WithoutGil unlocked;
    std::vector<Measured> parts((n + chunk - 1) / chunk);
    parallel_for(parts.size(), threads, [&](int64_t c, int64_t) {
        parts[c] = measure(x, c * chunk, std::min(n, (c + 1) * chunk));
    });
    Measured all;
    for (const Measured& part : parts) {
        if (part.bad >= 0) return part;
        all.largest = std::max(all.largest, part.largest);
    }
    return all;
}

// Of either type: to be told which takes nanobind less time than to try one after the other.
std::pair<int64_t, double> check_scores(
    const nb::ndarray<nb::numpy, nb::ro, nb::c_contig, nb::device::cpu>& array, int64_t threads) {
    const int64_t n = array.size();
    Measured found;
    if (array.dtype() == nb::dtype<double>())
        found = measure_all(static_cast<const double*>(array.data()), n, threads);
    else if (array.dtype() == nb::dtype<float>())
        found = measure_all(static_cast<const float*>(array.data()), n, threads);
    else
        throw nb::type_error("scores must be float32 or float64");
    return {found.bad, found.largest};
}

// ---------------------------------------------------------------------------------------------
// Automata

Automaton make_automaton(int64_t n_labels, Array<const int32_t, 1> label,
                         Array<const int32_t, 1> src, Array<const int32_t, 1> dst,
                         Array<const double, 1> score, Array<const double, 1> start,
                         Array<const double, 1> stop) {
    const int64_t S = label.shape(0), M = src.shape(0);
    require(int64_t(dst.shape(0)) == M && int64_t(score.shape(0)) == M,
            "src, dst and score must be [M]");
    require(int64_t(start.shape(0)) == S && int64_t(stop.shape(0)) == S,
            "label, start and stop must be [S]");
    for (int64_t s = 0; s < S; ++s)
        require(label(s) >= 0 && label(s) < n_labels, "label out of range");
    for (int64_t m = 0; m < M; ++m) {
        require(src(m) >= 0 && src(m) < S && dst(m) >= 0 && dst(m) < S, "state out of range");
        require(m == 0 || dst(m - 1) <= dst(m), "moves must be sorted by dst");
    }
    Automaton a;
    a.Y = n_labels;
    a.label.assign(label.data(), label.data() + S);
    a.src.assign(src.data(), src.data() + M);
    a.dst.assign(dst.data(), dst.data() + M);
    a.score.assign(score.data(), score.data() + M);
    a.start.assign(start.data(), start.data() + S);
    a.stop.assign(stop.data(), stop.data() + S);
    a.index();
    return a;
}

// A ragged batch for an automaton: hands out its sequences.
template <class In>
struct Ragged {
    const Automaton& a;
    Array<const In, 2> emit;
    Maybe<const In, 3> edge;
    Array<const int64_t, 1> offsets;
    int64_t N;

    Ragged(const Automaton& a_, const Array<const In, 2>& emit_, const Maybe<const In, 3>& edge_,
           const Array<const int64_t, 1>& offsets_)
        : a(a_), emit(emit_), edge(edge_), offsets(offsets_), N(int64_t(offsets_.shape(0)) - 1) {
        check_offsets(offsets, emit.shape(0));
        require(int64_t(emit.shape(1)) == a.Y, "emit must be [tokens, Y]");
        require(!edge || (edge->shape(0) == emit.shape(0) && int64_t(edge->shape(1)) == a.Y &&
                          int64_t(edge->shape(2)) == a.Y),
                "edge must be [tokens, Y, Y]");
    }
    int64_t first(int64_t i) const { return offsets(i); }
    Sequence<In> operator[](int64_t i) const {
        return {emit.data() + first(i) * a.Y, edge ? edge->data() + first(i) * a.Y * a.Y : nullptr,
                offsets(i + 1) - first(i)};
    }
    // work(i, sequence, worker) for every sequence that is not empty.
    template <class Work>
    void each(int64_t threads, const Work& work) const {
        if (int64_t(emit.shape(0)) * a.moves() < 100'000) threads = 1;
        parallel_for(N, threads, [&](int64_t i, int64_t worker) {
            const Sequence<In> x = (*this)[i];
            if (x.T > 0) work(i, x, worker);
        });
    }
};

template <class In>
void automaton_scores(const Automaton& a, Array<const In, 2> emit, Maybe<const In, 3> edge,
                      Array<const int64_t, 1> offsets, bool sum, bool forwards, int64_t threads,
                      Array<double, 2> out) {
    const Ragged<In> batch(a, emit, edge, offsets);
    const int64_t S = a.states();
    require(out.shape(0) == emit.shape(0) && int64_t(out.shape(1)) == S, "wrong output shape");
    const Fold fold = sum ? Fold::log_sum : Fold::max;
    const WithoutGil unlocked;
    batch.each(threads, [&](int64_t i, const Sequence<In>& x, int64_t) {
        double* to = out.data() + batch.first(i) * S;
        if (forwards)
            forward(a, x, fold, to);
        else
            backward(a, x, fold, to);
    });
}

template <class In>
void automaton_log_partition(const Automaton& a, Array<const In, 2> emit, Maybe<const In, 3> edge,
                             Array<const int64_t, 1> offsets, int64_t threads,
                             Array<double, 1> log_z) {
    const Ragged<In> batch(a, emit, edge, offsets);
    require(int64_t(log_z.shape(0)) == batch.N, "wrong output shape");
    const WithoutGil unlocked;
    std::fill_n(log_z.data(), batch.N, 0.0);
    batch.each(threads, [&](int64_t i, const Sequence<In>& x, int64_t) {
        log_z.data()[i] = log_partition(a, x);
    });
}

template <class In>
void automaton_sum(const Automaton& a, Array<const In, 2> emit, Maybe<const In, 3> edge,
                   Array<const int64_t, 1> offsets, int64_t threads, Maybe<const double, 1> weight,
                   Array<double, 1> log_z, Maybe<In, 2> marginals, Maybe<In, 3> pairs,
                   Maybe<double, 1> moves, Maybe<double, 1> start_counts,
                   Maybe<double, 1> stop_counts) {
    const Ragged<In> batch(a, emit, edge, offsets);
    const int64_t Y = a.Y, M = a.moves(), S = a.states(), tokens = emit.shape(0), N = batch.N;
    require(int64_t(log_z.shape(0)) == N && (!weight || int64_t(weight->shape(0)) == N),
            "must be [N]");
    require(
        !marginals || (int64_t(marginals->shape(0)) == tokens && int64_t(marginals->shape(1)) == Y),
        "marginals must be [tokens, Y]");
    require(!pairs || (int64_t(pairs->shape(0)) == tokens && int64_t(pairs->shape(1)) == Y &&
                       int64_t(pairs->shape(2)) == Y),
            "pairs must be [tokens, Y, Y]");
    require(!moves || int64_t(moves->shape(0)) == M, "moves must be [M]");
    require(!start_counts || int64_t(start_counts->shape(0)) == S, "start_counts must be [S]");
    require(!stop_counts || int64_t(stop_counts->shape(0)) == S, "stop_counts must be [S]");
    const WithoutGil unlocked;
    std::fill_n(log_z.data(), N, 0.0);
    // A fixed number of shards, each with sums of its own: the same bits for any number of threads.
    const bool counting = moves || start_counts || stop_counts;
    const int64_t shards = counting ? std::min<int64_t>(16, N) : N;
    std::vector<std::vector<double>> partial(counting ? shards : 0);
    if (tokens * M < 100'000) threads = 1;
    parallel_for(shards, threads, [&](int64_t shard, int64_t) {
        AutomatonExpected<In> expected;
        if (counting) {
            partial[shard].assign(M + 2 * S, 0.0);
            expected.moves = partial[shard].data();
            expected.start = expected.moves + M;
            expected.stop = expected.start + S;
        }
        for (int64_t i = shard; i < N; i += shards) {
            const Sequence<In> x = batch[i];
            if (x.T == 0) continue;
            if (marginals) expected.marginals = marginals->data() + batch.first(i) * Y;
            if (pairs) expected.pairs = pairs->data() + batch.first(i) * Y * Y;
            log_z.data()[i] = expectations(a, x, weight ? weight->data()[i] : 1.0, expected);
        }
    });
    for (const auto& p : partial) {
        for (int64_t m = 0; moves && m < M; ++m) moves->data()[m] += p[m];
        for (int64_t s = 0; start_counts && s < S; ++s) start_counts->data()[s] += p[M + s];
        for (int64_t s = 0; stop_counts && s < S; ++s) stop_counts->data()[s] += p[M + S + s];
    }
}

template <class In>
void automaton_distant_pairs(const Automaton& a, Array<const In, 2> emit, Maybe<const In, 3> edge,
                             Array<const int64_t, 1> offsets, int64_t distance, int64_t threads,
                             Array<In, 3> pairs) {
    const Ragged<In> batch(a, emit, edge, offsets);
    require(pairs.shape(0) == emit.shape(0) && int64_t(pairs.shape(1)) == a.Y &&
                int64_t(pairs.shape(2)) == a.Y && distance > 0,
            "pairs must be [tokens, Y, Y]");
    const WithoutGil unlocked;
    batch.each(threads, [&](int64_t i, const Sequence<In>& x, int64_t) {
        distant_pairs(a, x, distance, pairs.data() + batch.first(i) * a.Y * a.Y);
    });
}

template <class In>
void automaton_viterbi(const Automaton& a, Array<const In, 2> emit, Maybe<const In, 3> edge,
                       Array<const int64_t, 1> offsets, int64_t threads, Array<int32_t, 1> path) {
    const Ragged<In> batch(a, emit, edge, offsets);
    require(path.shape(0) == emit.shape(0), "wrong output shape");
    const WithoutGil unlocked;
    batch.each(threads, [&](int64_t i, const Sequence<In>& x, int64_t) {
        viterbi(a, x, path.data() + batch.first(i));
    });
}

using PathsAndScores =
    nb::typed<nb::list, nb::typed<nb::tuple, nb::ndarray<nb::numpy, int32_t, nb::ndim<2>>,
                                  nb::ndarray<nb::numpy, double, nb::ndim<1>>>>;

// A list with (paths [k, T], scores [k]) for each sequence, k <= n.
template <class In>
PathsAndScores automaton_nbest(const Automaton& a, Array<const In, 2> emit, Maybe<const In, 3> edge,
                               Array<const int64_t, 1> offsets, int64_t n, int64_t threads) {
    const Ragged<In> batch(a, emit, edge, offsets);
    std::vector<std::vector<int32_t>> paths(batch.N);
    std::vector<std::vector<double>> scores(batch.N,
                                            std::vector<double>(1, 0.0));  // the empty path
    {
        const WithoutGil unlocked;
        batch.each(threads, [&](int64_t i, const Sequence<In>& x, int64_t) {
            scores[i].resize(nbest(a, x, n, paths[i]));
            for (size_t k = 0; k < scores[i].size(); ++k)
                scores[i][k] = path_score(a, x, paths[i].data() + k * x.T);
        });
    }
    PathsAndScores out;
    for (int64_t i = 0; i < batch.N; ++i) {
        const size_t k = scores[i].size(), T = offsets(i + 1) - offsets(i);
        out.append(nb::make_tuple(to_numpy(std::move(paths[i]), {k, T}),
                                  to_numpy(std::move(scores[i]), {k})));
    }
    return out;
}

template <class In>
void automaton_sample(const Automaton& a, Array<const In, 2> emit, Maybe<const In, 3> edge,
                      Array<const int64_t, 1> offsets, Array<const double, 2> uniform,
                      int64_t threads, Array<int32_t, 2> paths) {
    const Ragged<In> batch(a, emit, edge, offsets);
    const int64_t n = uniform.shape(0), tokens = emit.shape(0);
    require(int64_t(uniform.shape(1)) == tokens && int64_t(paths.shape(0)) == n &&
                int64_t(paths.shape(1)) == tokens,
            "uniform and paths must be [n, tokens]");
    const WithoutGil unlocked;
    batch.each(threads, [&](int64_t i, const Sequence<In>& x, int64_t) {
        sample(a, x, n, uniform.data() + batch.first(i), tokens, paths.data() + batch.first(i));
    });
}

template <class In>
void automaton_entropy(const Automaton& a, Array<const In, 2> emit, Maybe<const In, 3> edge,
                       Array<const int64_t, 1> offsets, int64_t threads, Array<double, 1> out) {
    const Ragged<In> batch(a, emit, edge, offsets);
    require(int64_t(out.shape(0)) == batch.N, "wrong output shape");
    const WithoutGil unlocked;
    std::fill_n(out.data(), batch.N, 0.0);
    batch.each(threads,
               [&](int64_t i, const Sequence<In>& x, int64_t) { out.data()[i] = entropy(a, x); });
}

template <class In>
int64_t automaton_first_dead_position(const Automaton& a, Array<const In, 2> emit,
                                      Maybe<const In, 3> edge) {
    const int64_t T = emit.shape(0);
    require(int64_t(emit.shape(1)) == a.Y, "emit must be [T, Y]");
    require(!edge || (int64_t(edge->shape(0)) == T && int64_t(edge->shape(1)) == a.Y &&
                      int64_t(edge->shape(2)) == a.Y),
            "edge must be [T, Y, Y]");
    const WithoutGil unlocked;
    return first_dead_position(a, Sequence<In>{emit.data(), data_or_null(edge), T});
}

template <class In>
void automaton_path_score(const Automaton& a, Array<const In, 2> emit, Maybe<const In, 3> edge,
                          Array<const int64_t, 1> offsets, Array<const int32_t, 1> path,
                          Array<double, 1> score) {
    const Ragged<In> batch(a, emit, edge, offsets);
    require(path.shape(0) == emit.shape(0) && int64_t(score.shape(0)) == batch.N, "wrong shape");
    const WithoutGil unlocked;
    for (int64_t i = 0; i < batch.N; ++i)
        score.data()[i] = path_score(a, batch[i], path.data() + batch.first(i));
}

template <class R>
void bind_for(nb::class_<Automaton>& automaton) {
    automaton
        .def("scores", automaton_scores<R>, nb::arg("emit").noconvert(), nb::arg("edge").none(),
             nb::arg("offsets"), nb::arg("sum"), nb::arg("forwards"), nb::arg("threads"),
             nb::arg("out").noconvert())
        .def("log_partition", automaton_log_partition<R>, nb::arg("emit").noconvert(),
             nb::arg("edge").none(), nb::arg("offsets"), nb::arg("threads"),
             nb::arg("log_z").noconvert())
        .def("sum", automaton_sum<R>, nb::arg("emit").noconvert(), nb::arg("edge").none(),
             nb::arg("offsets"), nb::arg("threads"), nb::arg("weight").none(),
             nb::arg("log_z").noconvert(), nb::arg("marginals").noconvert() = nb::none(),
             nb::arg("pairs").noconvert() = nb::none(), nb::arg("moves").noconvert() = nb::none(),
             nb::arg("start_counts").noconvert() = nb::none(),
             nb::arg("stop_counts").noconvert() = nb::none())
        .def("distant_pairs", automaton_distant_pairs<R>, nb::arg("emit").noconvert(),
             nb::arg("edge").none(), nb::arg("offsets"), nb::arg("distance"), nb::arg("threads"),
             nb::arg("pairs").noconvert())
        .def("viterbi", automaton_viterbi<R>, nb::arg("emit").noconvert(), nb::arg("edge").none(),
             nb::arg("offsets"), nb::arg("threads"), nb::arg("path").noconvert())
        .def("nbest", automaton_nbest<R>, nb::arg("emit").noconvert(), nb::arg("edge").none(),
             nb::arg("offsets"), nb::arg("n"), nb::arg("threads"))
        .def("sample", automaton_sample<R>, nb::arg("emit").noconvert(), nb::arg("edge").none(),
             nb::arg("offsets"), nb::arg("uniform"), nb::arg("threads"),
             nb::arg("paths").noconvert())
        .def("entropy", automaton_entropy<R>, nb::arg("emit").noconvert(), nb::arg("edge").none(),
             nb::arg("offsets"), nb::arg("threads"), nb::arg("out").noconvert())
        .def("first_dead_position", automaton_first_dead_position<R>, nb::arg("emit").noconvert(),
             nb::arg("edge").none())
        .def("path_score", automaton_path_score<R>, nb::arg("emit").noconvert(),
             nb::arg("edge").none(), nb::arg("offsets"), nb::arg("path"),
             nb::arg("score").noconvert());
}

}  // namespace

void bind_trellis(nb::module_& m) {
    m.def("instruction_sets", instruction_sets,
          "Names of those this machine can run, narrowest first.");
    m.def("instruction_set", [] { return kernels().name; }, "The one in use.");
    m.def("use_instruction_set", use_instruction_set, nb::arg("name"),
          "False if this machine cannot run it.");
    nb::class_<Automaton> automaton(m, "Automaton");
    automaton.def(
        "__init__",
        [](Automaton* self, int64_t n_labels, Array<const int32_t, 1> label,
           Array<const int32_t, 1> src, Array<const int32_t, 1> dst, Array<const double, 1> score,
           Array<const double, 1> start, Array<const double, 1> stop) {
            new (self) Automaton(make_automaton(n_labels, label, src, dst, score, start, stop));
        },
        nb::arg("n_labels"), nb::arg("label"), nb::arg("src"), nb::arg("dst"), nb::arg("score"),
        nb::arg("start"), nb::arg("stop"));
    m.def("check_scores", check_scores, nb::arg("array").noconvert(), nb::arg("threads"),
          nb::sig("def check_scores(array: NDArray[numpy.float32] | NDArray[numpy.float64], "
                  "threads: int) -> tuple[int, float]"));
    bind_for<float>(automaton);
    bind_for<double>(automaton);
}

}  // namespace tagloom
