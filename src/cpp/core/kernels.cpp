// The recursions of kernels.hpp, for one instruction set: TL_ISA names it, TL_VECTOR_BYTES is the
// width of its vectors. No standard library in here; see vectors.hpp for the reason.

#include "core/kernels.hpp"

#include "core/vectors.hpp"

namespace tagloom {
namespace {

constexpr int NV = 2;  // vectors per row of lanes: a broadcast score then serves two of them
template <class R>
constexpr int W = TL_VECTOR_BYTES / sizeof(R);
template <class R>
constexpr int L = NV * W<R>;  // lanes
template <class R>
constexpr R minus_inf = -__builtin_inf();
template <>
constexpr int32_t minus_inf<int32_t> = -2147483647 - 1;  // only to be replaced by a maximum
// With the guard on, every reachable forward or backward value stays above this, or the run is
// given up as not ok. Products of three such values are still normal numbers.
constexpr double tiny = 1e-100, log_tiny = -230.0;
constexpr double ln2 = 0.693147180559945309417;

double log(double x) { return __builtin_log(x); }

// A sum of doubles with its rounding errors kept aside (Neumaier): exact to the last few bits
// however many terms there are.
struct Sum {
    double value = 0, lost = 0;
    void add(double x) {
        const double t = value + x;
        lost +=
            (value < 0 ? -value : value) >= (x < 0 ? -x : x) ? (value - t) + x : (x - t) + value;
        value = t;
    }
    double total() const { return value + lost; }
};

template <int N>
struct Size {
    static constexpr int value = N;
};

// ---------------------------------------------------------------------------------------------
// Semirings, as the two operations of a vector-times-matrix step.

struct MaxPlus {
    template <class R>
    static constexpr R zero = minus_inf<R>;
    template <class V, class M>
    static V step(V sum, V from, M move) {
        return max<V>(sum, from + move);
    }
    template <class V>
    static V times(V a, V b) {
        return a + b;
    }
};

struct SumTimes {
    template <class R>
    static constexpr R zero = 0;
    template <class V, class M>
    static V step(V sum, V from, M move) {
        return sum + from * move;
    }
    template <class V>
    static V times(V a, V b) {
        return a * b;
    }
};

// ---------------------------------------------------------------------------------------------
// Lanes: every array has lanes as its last axis.

// to[j] = finish(j, (+)_i from[i] (x) m[i, j]) for B columns j, starting at j0. Strides in
// elements; finish(j, v, x) sees vector v of column j and says what to store.
template <class Semiring, int B, class R, class Finish>
inline void lane_tile(int64_t n, const R* from, int64_t from_stride, const R* m, int64_t mi,
                      int64_t mj, R* to, int64_t to_stride, int64_t j0, Finish&& finish) {
    using V = Vector<R>;
    V sum[B][NV];
    for (int j = 0; j < B; ++j)
        for (int v = 0; v < NV; ++v) sum[j][v] = broadcast<R>(Semiring::template zero<R>);
#pragma GCC unroll 2
    for (int64_t i = 0; i < n; ++i) {
        V f[NV];
        for (int v = 0; v < NV; ++v) f[v] = load(from + i * from_stride + v * W<R>);
        for (int j = 0; j < B; ++j) {
            const V move = broadcast<R>(m[i * mi + (j0 + j) * mj]);
            for (int v = 0; v < NV; ++v) sum[j][v] = Semiring::step(sum[j][v], f[v], move);
        }
    }
    for (int j = 0; j < B; ++j)
        for (int v = 0; v < NV; ++v)
            store(to + (j0 + j) * to_stride + v * W<R>, finish(j0 + j, v, sum[j][v]));
}

// The same for n columns j, in tiles.
template <class Semiring, class R, class Finish>
inline void lane_step(int64_t n, const R* from, int64_t from_stride, const R* m, int64_t mi,
                      int64_t mj, R* to, int64_t to_stride, Finish&& finish) {
    constexpr int B = 5;
    int64_t j = 0;
    auto tile = [&](auto width) {
        lane_tile<Semiring, width.value>(n, from, from_stride, m, mi, mj, to, to_stride, j, finish);
        j += width.value;
    };
    while (n - j >= B) tile(Size<B>{});
    switch (n - j) {
        case 4:
            tile(Size<4>{});
            break;
        case 3:
            tile(Size<3>{});
            break;
        case 2:
            tile(Size<2>{});
            break;
        case 1:
            tile(Size<1>{});
            break;
    }
}

// All blocks of one forward step: to[g*Y + c] = finish(c, (+)_a from[a*G + g] (x) m[g, a, c]).
template <class Semiring, class R, class Finish>
inline void lane_forward(const Moves<R>& moves, int64_t t, const R* from, R* to, Finish&& finish) {
    const int64_t Y = moves.Y, G = moves.G;
    const R* m = moves.matrix(t);
    for (int64_t g = 0; g < G; ++g)
        lane_step<Semiring>(Y, from + g * L<R>, G * L<R>, m + g * Y * moves.stride, moves.stride, 1,
                            to + g * Y * L<R>, L<R>, finish);
}

// All blocks of one backward step: to[a*G + g] = finish(a, (+)_c m[g, a, c] (x) from[g*Y + c]).
template <class Semiring, class R, class Finish>
inline void lane_backward(const Moves<R>& moves, int64_t t, const R* from, R* to, Finish&& finish) {
    const int64_t Y = moves.Y, G = moves.G;
    const R* m = moves.matrix(t);
    for (int64_t g = 0; g < G; ++g)
        lane_step<Semiring>(Y, from + g * Y * L<R>, L<R>, m + g * Y * moves.stride, 1, moves.stride,
                            to + g * L<R>, G * L<R>, finish);
}

// Asks for the n elements at p to be brought into the cache. Asking also past an array's end is
// harmless.
template <class R>
inline void prefetch(const R* p, int64_t n) {
    for (int64_t i = 0; i < n; i += 64 / sizeof(R)) __builtin_prefetch(p + i);
}

// Lanes walk through many places of memory at once, more than the hardware foresees: they ask for
// the rows that they need two positions later, a little with every label, as too many requests at
// once would have to queue.
template <class In, int Lanes, int write = 0>
struct Ahead {
    static constexpr int64_t line = 64 / sizeof(In);
    const In* row[Lanes];

    // The rows of position t in x[tokens, Y]; none if x is null.
    Ahead(const In* x, int64_t Y, int64_t t, const int64_t* first, int64_t active) {
        for (int64_t l = 0; l < Lanes; ++l) {
            row[l] = x ? x + (first[l < active ? l : 0] + t) * Y : nullptr;
            // The end of a row may be in another line than what the labels ask for.
            if (x && (write || Y < line)) __builtin_prefetch(row[l] + Y - 1, write);
        }
    }
    // The labels that share a line of memory ask for it in turn, each for other lanes.
    void ask(int64_t label) const {
        for (int64_t l = label & (line - 1); row[0] && l < Lanes; l += line)
            __builtin_prefetch(row[l] + label, write);
    }
};

// Four numbers, and four rows of four becoming four columns: by the shuffles that each type has.
template <class R>
using Quad __attribute__((vector_size(4 * sizeof(R)))) = R;

template <class R>
inline void transpose_of_32_bits(Quad<R>* m) {
    const Quad<R> a = __builtin_shufflevector(m[0], m[1], 0, 4, 1, 5);
    const Quad<R> b = __builtin_shufflevector(m[2], m[3], 0, 4, 1, 5);
    const Quad<R> c = __builtin_shufflevector(m[0], m[1], 2, 6, 3, 7);
    const Quad<R> d = __builtin_shufflevector(m[2], m[3], 2, 6, 3, 7);
    m[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
    m[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    m[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
    m[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}
inline void transpose(Quad<float>* m) { transpose_of_32_bits<float>(m); }
inline void transpose(Quad<int32_t>* m) { transpose_of_32_bits<int32_t>(m); }
inline void transpose(Quad<double>* m) {
    const Quad<double> a = __builtin_shufflevector(m[0], m[1], 0, 4, 2, 6);
    const Quad<double> b = __builtin_shufflevector(m[0], m[1], 1, 5, 3, 7);
    const Quad<double> c = __builtin_shufflevector(m[2], m[3], 0, 4, 2, 6);
    const Quad<double> d = __builtin_shufflevector(m[2], m[3], 1, 5, 3, 7);
    m[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    m[1] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    m[2] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    m[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}
template <class To, class From>
inline Quad<To> load_quad(const From* p) {
    Quad<From> q;
    __builtin_memcpy(&q, p, sizeof q);
    return __builtin_convertvector(q, Quad<To>);
}
template <class To, class From>
inline void store_quad(To* p, Quad<From> q) {
    const Quad<To> converted = __builtin_convertvector(q, Quad<To>);
    __builtin_memcpy(p, &converted, sizeof converted);
}

// Writes the n numbers at row_of(lane) to to[i, lane], for the lanes below `active`; others get 0.
// Where `top` [lanes] is given, the largest of each lane goes there.
template <class R, class RowOf>
inline void rows_to_lanes(const RowOf& row_of, int64_t n, int64_t active, R* to, R* top = nullptr) {
    int64_t l = 0;
    for (; l + 4 <= active; l += 4) {  // four lanes by four numbers at a time
        const decltype(row_of(l)) from[4] = {row_of(l), row_of(l + 1), row_of(l + 2),
                                             row_of(l + 3)};
        Quad<R> largest = minus_inf<R> - Quad<R>{};
        int64_t i = 0;
        for (; i + 4 <= n; i += 4) {
            Quad<R> m[4];
            for (int j = 0; j < 4; ++j) m[j] = load_quad<R>(from[j] + i);
            transpose(m);
            for (int j = 0; j < 4; ++j) store_quad<R, R>(to + (i + j) * L<R> + l, m[j]);
            if (top)
                for (int j = 0; j < 4; ++j) largest = max<Quad<R>>(m[j], largest);
        }
        for (; i < n; ++i) {
            Quad<R> m;
            for (int j = 0; j < 4; ++j) m[j] = static_cast<R>(from[j][i]);
            store_quad<R, R>(to + i * L<R> + l, m);
            if (top) largest = max<Quad<R>>(m, largest);
        }
        if (top) store_quad<R, R>(top + l, largest);
    }
    for (; l < active; ++l) {
        R largest = minus_inf<R>;
        for (int64_t i = 0; i < n; ++i) {
            const R x = to[i * L<R> + l] = static_cast<R>(row_of(l)[i]);
            largest = x > largest ? x : largest;
        }
        if (top) top[l] = largest;
    }
    for (; l < L<R>; ++l) {
        for (int64_t i = 0; i < n; ++i) to[i * L<R> + l] = 0;
        if (top) top[l] = 0;
    }
}

// Reads position t of every sequence that is long enough into row[y, lane], and their maxima.
template <class In, class R>
inline void gather(const In* emit, int64_t Y, int64_t t, const int64_t* first, int64_t active,
                   R* row, R* top = nullptr) {
    rows_to_lanes([&](int64_t l) { return emit + (first[l] + t) * Y; }, Y, active, row, top);
}

// The way back: writes value[y, lane] * factor[lane] to position t of each of `active` sequences.
template <class In, class R>
inline void scatter(const R* value, int64_t Y, int64_t t, const int64_t* first, int64_t active,
                    const R* factor, In* out) {
    int64_t l = 0;
    for (; l + 4 <= active; l += 4) {
        In* to[4];
        for (int i = 0; i < 4; ++i) to[i] = out + (first[l + i] + t) * Y;
        const Quad<R> f = load_quad<R>(factor + l);
        int64_t y = 0;
        for (; y + 4 <= Y; y += 4) {
            Quad<R> m[4];
            for (int i = 0; i < 4; ++i) m[i] = load_quad<R>(value + (y + i) * L<R> + l) * f;
            transpose(m);
            for (int i = 0; i < 4; ++i) store_quad<In, R>(to[i] + y, m[i]);
        }
        for (; y < Y; ++y)
            for (int i = 0; i < 4; ++i)
                to[i][y] = static_cast<In>(value[y * L<R> + l + i] * factor[l + i]);
    }
    for (; l < active; ++l) {
        In* to = out + (first[l] + t) * Y;
        for (int64_t y = 0; y < Y; ++y) to[y] = static_cast<In>(value[y * L<R> + l] * factor[l]);
    }
}

// The largest of n rows, in each lane.
template <class R>
inline void lane_max(const R* rows, int64_t n, Vector<R>* m) {
    for (int v = 0; v < NV; ++v) m[v] = broadcast<R>(minus_inf<R>);
    for (int64_t i = 0; i < n; ++i)
        for (int v = 0; v < NV; ++v) m[v] = max<Vector<R>>(m[v], load(rows + i * L<R> + v * W<R>));
}

// Whether a number of any lane is below 0.
inline bool lane_any_negative(const Vector<int32_t>* x) {
    Vector<int32_t> all = {};
    for (int v = 0; v < NV; ++v) all |= x[v];
    int32_t sign = 0;
    for (int w = 0; w < W<int32_t>; ++w) sign |= all[w];
    return sign < 0;
}

// The state with number i when states are ordered by their last label, then the one before, ...:
// the order in which ties are broken.
inline int64_t by_last_label(int64_t i, int64_t Y, int64_t S) {
    if (S == Y) return i;
    int64_t s = 0;
    for (int64_t power = 1; power < S; power *= Y, i /= Y) s = s * Y + i % Y;  // digits reversed
    return s;
}

// In each lane, the first of the largest of n values, value(i, vector); `sure` turns false where
// another is within `slack` of it. A lane where none is reachable gets n.
template <class Value>
inline void lane_first(int64_t n, const Value& value, const int32_t* slack, int64_t* arg,
                       bool* sure, int64_t lanes) {
    using R = int32_t;
    using V = Vector<R>;
    V first[NV], top[NV], second[NV];
    for (int v = 0; v < NV; ++v) {
        first[v] = broadcast<R>(static_cast<R>(n));
        top[v] = second[v] = broadcast<R>(minus_inf<R>);
    }
    for (int64_t i = n - 1; i >= 0; --i)
        for (int v = 0; v < NV; ++v) {
            const V x = value(i, v);
            first[v] = top[v] > x ? first[v] : broadcast<R>(static_cast<R>(i));
            const V less = top[v] > x ? x : top[v];
            second[v] = max<V>(second[v], less);
            top[v] = max<V>(top[v], x);
        }
    for (int64_t l = 0; l < lanes; ++l) {
        const R best = top[l / W<R>][l % W<R>];
        const bool reached = best > Fixed::reachable;
        arg[l] = reached ? first[l / W<R>][l % W<R>] : n;
        if (reached && second[l / W<R>][l % W<R>] >= best - slack[l]) sure[l] = false;
    }
}

// alpha[t, s] = score of the best path that ends in s, less the best of all at t - 1, so that
// numbers stay small however long the sequence. The path is found on the way back, by asking at
// each position which predecessor gave the maximum: cheaper than to store it for every state.
//
// The lanes compute with whole numbers (see Fixed) and tell whether the rounding of the scores
// could have changed the path; the driver decodes those few sequences again in double.
//
// Most scores forbid nothing. Then no state is dead, none falls far behind, and it is enough to
// watch the emissions: the first -inf among them makes the run void.
template <class In, bool forbids>
bool viterbi_lanes(const LaneViterbi<In>& task) {
    using R = int32_t;
    using V = Vector<R>;
    using F = Vector<float>;
    static_assert(__builtin_bit_cast(R, minus_inf<float>) -
                      __builtin_bit_cast(R, Types<float>::magic) ==
                  Fixed::no_emission);
    const Moves<R>& moves = *task.moves;
    const int64_t Y = moves.Y, G = moves.G, S = moves.states(), T = task.length[0];
    const V magic = cast_bits<V>(broadcast<float>(Types<float>::magic));
    const F scale = broadcast<float>(task.scale);
    V low[NV] = {};   // the lowest alpha that is reachable, or bits of an emission: 0 unless -inf
    V peak[NV] = {};  // the maximum at the position before
    int64_t active = task.n;
    for (int64_t t = 0; t < T; ++t) {
        while (task.length[active - 1] <= t) --active;
        gather<In, float>(task.emit, Y, t, task.first, active, task.row);
        R* alpha = task.alpha + t * S * L<R>;
        V shift[NV];
        for (int v = 0; v < NV; ++v) {
            shift[v] = peak[v] + magic;
            peak[v] = broadcast<R>(Fixed::forbidden);
        }
        const Ahead<In, L<R>> ahead(task.emit, Y, t + 2, task.first, active);
        auto finish = [&](int64_t c, int v, V x) {
            if (v == 0) ahead.ask(c);
            // To the nearest whole number; the bits of -inf come out far below Fixed::reachable.
            const F emit = load(task.row + c * L<R> + v * W<R>) * scale + Types<float>::magic;
            const V bits = cast_bits<V>(emit);
            x += bits - shift[v];
            if constexpr (forbids) {
                const V dead = x < Fixed::reachable;
                x = dead ? broadcast<R>(Fixed::forbidden) : x;
                const V alive = dead ? V{} : x;
                low[v] = low[v] < alive ? low[v] : alive;
            } else {
                low[v] = low[v] < bits ? low[v] : bits;
            }
            peak[v] = max<V>(peak[v], x);
            return x;
        };
        if (t == 0) {
            for (int64_t s = 0; s < S; ++s)
                for (int v = 0; v < NV; ++v)
                    store(alpha + s * L<R> + v * W<R>,
                          s < Y ? finish(s, v, broadcast<R>(moves.start[s]))
                                : broadcast<R>(Fixed::forbidden));
        } else {
            lane_forward<MaxPlus>(moves, t, alpha - S * L<R>, alpha, finish);
        }
        for (int v = 0; v < NV; ++v) peak[v] = peak[v] < Fixed::reachable ? V{} : peak[v];
        if (!forbids && lane_any_negative(low)) return false;  // before the numbers grow too large
    }

    // A move and an emission are each off by at most 3/4, at every position, so two paths by at
    // most three units a position, start and stop included, one each way.
    R slack[L<R>] = {};
    bool dead[L<R>] = {};  // sequences without a path
    for (int64_t l = 0; l < task.n; ++l) {
        slack[l] = static_cast<R>(3 * (task.length[l] + 2));
        task.sure[l] = low[l / W<R>][l % W<R>] > Fixed::far;
    }

    // Of the state g*Y + c; first order has no use for slow divisions.
    auto suffix = [&](int64_t s) { return G == 1 ? 0 : s / Y; };
    auto label = [&](int64_t s) { return G == 1 ? s : s % Y; };
    int64_t state[L<R>], arg[L<R>];
    R* candidates = task.candidates;
    active = 0;
    for (int64_t t = T - 1; t >= 0; --t) {
        const R* alpha = task.alpha + t * S * L<R>;
        // state[l] is at t + 1: how do its predecessors score?
        const R* into = task.transposed + (moves.matrix(t + 1) - moves.matrices);
        if (t > 0) prefetch(alpha - S * L<R>, S * L<R>);
        rows_to_lanes([&](int64_t l) { return into + state[l] * Y; }, Y, active, candidates);
        // Label a, given up, leads there from the state a*G + suffix(state[l]).
        for (int64_t l = 0; G > 1 && l < active; ++l) {
            const R* from = alpha + suffix(state[l]) * L<R> + l;
            for (int64_t a = 0; a < Y; ++a) candidates[a * L<R> + l] += from[a * G * L<R>];
        }
        auto candidate = [&](int64_t a, int v) {
            const int64_t at = a * L<R> + v * W<R>;
            return G > 1 ? load(candidates + at) : load(candidates + at) + load(alpha + at);
        };
        if (active > 0) lane_first(Y, candidate, slack, arg, task.sure, active);
        for (int64_t l = 0; l < active; ++l) {
            // A sequence without a path stays in state 0; it is told below, and written over there.
            state[l] = arg[l] < Y ? arg[l] * G + suffix(state[l]) : 0;
            task.path[task.first[l] + t] = static_cast<int32_t>(label(state[l]));
        }
        const int64_t going = active;
        while (active < task.n && task.length[active] == t + 1) ++active;
        if (active == going) continue;
        bool end_sure[L<R>] = {};  // of sequences that end here
        for (int64_t l = going; l < active; ++l) end_sure[l] = task.sure[l];
        auto ending = [&](int64_t s, int v) {
            return load(alpha + s * L<R> + v * W<R>) + moves.stop[label(s)];
        };
        lane_first(S, ending, slack, arg, end_sure, active);
        for (int64_t l = going; l < active; ++l) {
            task.sure[l] = end_sure[l];
            dead[l] = arg[l] == S;
            state[l] = dead[l] ? 0 : arg[l];
            task.path[task.first[l] + t] = static_cast<int32_t>(label(state[l]));
        }
    }
    for (int64_t l = 0; l < task.n; ++l)
        for (int64_t t = 0; dead[l] && t < task.length[l]; ++t) task.path[task.first[l] + t] = -1;
    return true;
}
template <class In>
bool viterbi_lanes(const LaneViterbi<In>& task) {
    return task.forbids ? viterbi_lanes<In, true>(task) : viterbi_lanes<In, false>(task);
}

// acc[a, c] += P[a, c] * sum over t in [t0, t1) and lanes of alpha[t-1, a] * b[t, c], for one block
// of the state space. A and C are the tile's sizes.
template <int A, int C, class R>
inline void outer_tile(int64_t t0, int64_t t1, const R* alpha, const R* b, int64_t step,
                       int64_t alpha_stride, double* acc, int64_t Y, const R* P, int64_t stride) {
    using V = Vector<R>;
    constexpr int64_t chunk = 64;  // float sums are handed to double this often
    double total[A][C] = {};
    for (int64_t lo = t0; lo < t1; lo += chunk) {
        V sum[A][C] = {};
        const int64_t hi = lo + chunk < t1 ? lo + chunk : t1;
        for (int64_t t = lo; t < hi; ++t)
            for (int v = 0; v < NV; ++v) {
                V x[A], y[C];
                for (int i = 0; i < A; ++i)
                    x[i] = load(alpha + (t - 1) * step + i * alpha_stride + v * W<R>);
                for (int j = 0; j < C; ++j) y[j] = load(b + t * step + j * L<R> + v * W<R>);
                for (int i = 0; i < A; ++i)
                    for (int j = 0; j < C; ++j) sum[i][j] += x[i] * y[j];
            }
        for (int i = 0; i < A; ++i)
            for (int j = 0; j < C; ++j)
                for (int w = 0; w < W<R>; ++w) total[i][j] += sum[i][j][w];
    }
    for (int i = 0; i < A; ++i)
        for (int j = 0; j < C; ++j) acc[i * Y + j] += total[i][j] * P[i * stride + j];
}

template <class R>
inline void outer(const Moves<R>& moves, int64_t t0, int64_t t1, const R* alpha, const R* b,
                  double* acc) {
    const int64_t Y = moves.Y, G = moves.G, S = moves.states(), step = S * L<R>;
    const R* m = moves.matrix(t0);
    for (int64_t g = 0; g < G; ++g) {
        const R* P = m + g * Y * moves.stride;
        double* out = acc + g * Y * Y;
        const R* from = alpha + g * L<R>;
        const R* to = b + g * Y * L<R>;
        int64_t a = 0;
        auto rows = [&](auto size) {
            constexpr int A = size.value;
            int64_t c = 0;
            for (; c + 3 <= Y; c += 3)
                outer_tile<A, 3>(t0, t1, from + a * G * L<R>, to + c * L<R>, step, G * L<R>,
                                 out + a * Y + c, Y, P + a * moves.stride + c, moves.stride);
            for (; c < Y; ++c)
                outer_tile<A, 1>(t0, t1, from + a * G * L<R>, to + c * L<R>, step, G * L<R>,
                                 out + a * Y + c, Y, P + a * moves.stride + c, moves.stride);
            a += A;
        };
        while (a + 4 <= Y) rows(Size<4>{});
        while (a < Y) rows(Size<1>{});
    }
}

// Forward sums of probabilities, rescaled at every position by a power of two (exact, and no
// logarithm to take); then, if asked, backward sums and the expectations that both give.
template <class In, class R>
void sum_lanes(const LaneSum<In, R>& task) {
    using V = Vector<R>;
    const Moves<R>& moves = *task.moves;
    const int64_t Y = moves.Y, S = moves.states(), T = task.length[0];
    const int64_t n = task.n;
    // Of a state; first order has no use for slow divisions.
    auto stop = [&](int64_t s) { return moves.stop[moves.G == 1 ? s : s % Y]; };
    double offset[L<R>] = {};   // sum of row maxima
    Bits<R> exponent[NV] = {};  // sum of the exponents scaled away
    Bits<R> bad[NV] = {};
    const bool guard = sizeof(R) == 8 && task.guard;
    V scale[NV], peak[NV];  // power of two that undoes the growth so far; largest value at t
    for (int v = 0; v < NV; ++v) scale[v] = broadcast<R>(1);
    auto watch = [&](const R* x) {  // values that are reachable but too small to be trusted
        for (int64_t s = 0; s < S; ++s)
            for (int v = 0; v < NV; ++v) {
                const V value = load(x + s * L<R> + v * W<R>) * scale[v];
                bad[v] |= cast_bits<Bits<R>>((value > R(0)) & (value < R(tiny)));
            }
    };
    auto rescale = [&](bool count) {
        for (int v = 0; v < NV; ++v) {
            Bits<R> e;
            scale[v] = scale_of<R>(peak[v], e);
            if (count) exponent[v] += peak[v] > R(0) ? e : Bits<R>{};
        }
    };

    int64_t active = n;
    for (int64_t t = 0; t < T; ++t) {
        while (task.length[active - 1] <= t) --active;
        R* row = task.rows + (task.backward ? t : 0) * Y * L<R>;
        R* alpha = task.alpha + (task.backward ? t : t % 2) * S * L<R>;
        R top[L<R>];
        V m[NV];
        gather<In, R>(task.emit, Y, t, task.first, active, row, top);
        for (int v = 0; v < NV; ++v) m[v] = load(top + v * W<R>);
        if (t == 0) {
            for (int64_t y = 0; y < Y; ++y)
                for (int v = 0; v < NV; ++v) {
                    R* p = row + y * L<R> + v * W<R>;
                    store(p, load(p) + moves.start[y]);
                }
            lane_max(row, Y, m);
        }
        for (int v = 0; v < NV; ++v) {
            m[v] = m[v] == minus_inf<R> ? V{} : m[v];
            peak[v] = V{};
        }
        for (int64_t l = 0; l < active; ++l) offset[l] += m[l / W<R>][l % W<R>];
        auto exponentials = [&](R* p, auto labels) {  // of so many labels
            constexpr int n = labels.value * NV;
            V x[n];
            for (int i = 0; i < n; ++i) x[i] = load(p + i * W<R>) - m[i % NV];
            if (guard)
                for (int i = 0; i < n; ++i)
                    bad[i % NV] |= cast_bits<Bits<R>>((x[i] > minus_inf<R>)&(x[i] < R(log_tiny)));
            exp_each<R>(x);
            for (int i = 0; i < n; ++i) store(p + i * W<R>, x[i] * scale[i % NV]);
        };
        int64_t y = 0;
        for (; y + 2 <= Y; y += 2) exponentials(row + y * L<R>, Size<2>{});
        if (y < Y) exponentials(row + y * L<R>, Size<1>{});
        const Ahead<In, L<R>> ahead(task.emit, Y, t + 2, task.first, active);
        auto finish = [&](int64_t c, int v, V x) {
            if (v == 0) ahead.ask(c);
            x *= load(row + c * L<R> + v * W<R>);
            peak[v] = max<V>(peak[v], x);
            return x;
        };
        if (t == 0) {
            for (int64_t s = 0; s < S; ++s)
                for (int v = 0; v < NV; ++v)
                    store(alpha + s * L<R> + v * W<R>, s < Y ? finish(s, v, broadcast<R>(1)) : V{});
        } else {
            const R* before = task.alpha + (task.backward ? t - 1 : (t + 1) % 2) * S * L<R>;
            lane_forward<SumTimes>(moves, t, before, alpha, finish);
        }
        rescale(false);
        if (guard) watch(alpha);
        for (int64_t l = active - 1; l >= 0 && task.length[l] == t + 1; --l) {
            double z = 0;
            for (int64_t s = 0; s < S; ++s) z += double(alpha[s * L<R> + l]) * stop(s);
            double log_z =
                offset[l] + ln2 * exponent[l / W<R>][l % W<R>] + task.offsets.stop + log(z);
            for (int64_t u = 1; u <= t; ++u) {
                if (u >= moves.levels) {
                    log_z += (t - u + 1) * task.offsets.levels[moves.levels - 1];
                    break;
                }
                log_z += task.offsets.levels[u - 1];
            }
            task.log_z[l] = log_z;
            task.ok[l] = z > 0 && !bad[l / W<R>][l % W<R>];
        }
        rescale(true);  // into the rows of t + 1
    }
    if (!task.backward) return;

    R* beta = task.alpha + T * S * L<R>;  // [S, lanes], behind the last alpha
    R* gamma = task.rows + T * Y * L<R>;  // [Y, lanes], behind the last row
    for (int64_t i = 0; i < S * L<R>; ++i) beta[i] = 0;
    for (int v = 0; v < NV; ++v) {
        bad[v] = Bits<R>{};
        peak[v] = V{};
    }
    active = 0;
    for (int64_t t = T - 1; t >= 0; --t) {
        const R* alpha = task.alpha + t * S * L<R>;
        const int64_t going = active;  // lanes whose sequence reaches t + 1
        for (; active < n && task.length[active] == t + 1; ++active) {
            R largest = 0;
            for (int64_t s = 0; s < S; ++s) {
                beta[s * L<R> + active] = stop(s);
                largest = stop(s) > largest ? stop(s) : largest;
            }
            peak[active / W<R>][active % W<R>] = largest;
        }

        // gamma[y] = sum over the states of label y of alpha beta; divided by their total, these
        // are marginals that sum to one. b[t] = row[t] * beta[t], rescaled.
        rescale(false);
        if (guard && t > 0) watch(beta);
        const R* row = task.rows + t * Y * L<R>;
        R* b = task.b + (task.expected.transitions ? t : 0) * S * L<R>;  // one row stays near
        V total[NV] = {}, inverse[NV];
        const int64_t block_size = Y * L<R>, last = (moves.G - 1) * block_size;
        for (int64_t block = 0; block <= last; block += block_size)
            for (int64_t i = 0; i < block_size; i += L<R>)
                for (int v = 0; v < NV; ++v) {
                    const int64_t in = i + v * W<R>, at = block + in;
                    const V later = load(beta + at), both = load(alpha + at) * later;
                    const V sum = block == 0 ? both : load(gamma + in) + both;
                    store(gamma + in, sum);
                    if (block == last) total[v] += sum;
                    store(b + at, later * scale[v] * load(row + in));
                }
        for (int v = 0; v < NV; ++v) inverse[v] = total[v] > R(0) ? R(1) / total[v] : V{};
        if (task.expected.marginals) {
            R factor[L<R>];
            for (int v = 0; v < NV; ++v) store(factor + v * W<R>, inverse[v]);
            scatter<In, R>(gamma, Y, t, task.first, active, factor, task.expected.marginals);
        }
        auto add_marginals = [&](int64_t l, double* to) {
            const double factor = task.weight[l] * inverse[l / W<R>][l % W<R>];
            for (int64_t y = 0; to && y < Y; ++y) to[y] += factor * gamma[y * L<R> + l];
        };
        for (int64_t l = 0; t == 0 && l < n; ++l) add_marginals(l, task.expected.start);
        for (int64_t l = going; l < active; ++l) add_marginals(l, task.expected.stop);
        if (task.expected.transitions && t + 1 < T) {
            // b[t+1] becomes what alpha[t] is multiplied with to give expected moves into t + 1.
            R factor[L<R>] = {};
            for (int64_t l = 0; l < going; ++l)
                factor[l] = static_cast<R>(task.weight[l]) * inverse[l / W<R>][l % W<R>];
            R* after = b + S * L<R>;
            for (int64_t s = 0; s < S; ++s)
                for (int v = 0; v < NV; ++v) {
                    R* p = after + s * L<R> + v * W<R>;
                    store(p, load(p) * load(factor + v * W<R>));
                }
        }
        if (t == 0) break;

        // beta[t-1] = P b[t].
        for (int v = 0; v < NV; ++v) peak[v] = V{};
        const Ahead<In, L<R>, 1> ahead(t > 1 ? task.expected.marginals : nullptr, Y, t - 2,
                                       task.first, active);
        lane_backward<SumTimes>(moves, t, b, beta, [&](int64_t a, int v, V x) {
            if (v == 0) ahead.ask(a);
            peak[v] = max<V>(peak[v], x);
            return x;
        });
    }
    for (int64_t l = 0; l < n; ++l)
        if (bad[l / W<R>][l % W<R>]) task.ok[l] = false;
    if (task.expected.transitions) {
        // Short histories have a matrix each; the last matrix serves all later positions.
        for (int64_t level = 0; level < moves.levels; ++level) {
            const int64_t t0 = level + 1;
            const int64_t t1 = level + 1 < moves.levels ? t0 + 1 : T;
            if (t0 < T)
                outer(moves, t0, t1, task.alpha, task.b,
                      task.expected.transitions + level * moves.G * Y * Y);
        }
    }
}

// ---------------------------------------------------------------------------------------------
// One sequence: labels across the vector, double throughout.

using D = Vector<double>;
constexpr int WD = W<double>;

// to[c] = ((+)_a from[a * from_stride] (x) m[a, c]) (x) row[c] for B vectors of columns.
template <class Semiring, int B>
inline void one_tile(int64_t n, const double* from, int64_t from_stride, const double* m,
                     int64_t stride, const double* row, double* to) {
    D sum[B];
    for (int j = 0; j < B; ++j) sum[j] = broadcast<double>(Semiring::template zero<double>);
    for (int64_t a = 0; a < n; ++a) {
        const D f = broadcast<double>(from[a * from_stride]);
        for (int j = 0; j < B; ++j)
            sum[j] = Semiring::step(sum[j], f, load(m + a * stride + j * WD));
    }
    for (int j = 0; j < B; ++j) store(to + j * WD, Semiring::times(sum[j], load(row + j * WD)));
}

// One forward step over all blocks; row_of(g) is what block g adds for each label. Writes up to a
// vector past each block: the next block, or the slack at the end of the row, takes it.
template <class Semiring, class RowOf>
inline void one_forward(const Moves<double>& moves, const double* m, const double* from,
                        const RowOf& row_of, double* to) {
    const int64_t Y = moves.Y, G = moves.G, stride = moves.stride;
    for (int64_t g = 0; g < G; ++g) {
        const double* block = m + g * Y * stride;
        const double* row = row_of(g);
        double* out = to + g * Y;
        int64_t c = 0;
        auto tile = [&](auto width) {
            one_tile<Semiring, width.value>(Y, from + g, G, block + c, stride, row + c, out + c);
            c += width.value * WD;
        };
        while (c + 5 * WD < Y) tile(Size<6>{});
        switch ((Y - c + WD - 1) / WD) {
            case 5:
                tile(Size<5>{});
                break;
            case 4:
                tile(Size<4>{});
                break;
            case 3:
                tile(Size<3>{});
                break;
            case 2:
                tile(Size<2>{});
                break;
            case 1:
                tile(Size<1>{});
                break;
        }
    }
}

inline double one_max(const double* x, int64_t n) {
    double m = minus_inf<double>;
    int64_t i = 0;
    if (n >= WD) {
        D top = load(x);
        for (i = WD; i + WD <= n; i += WD) top = max<D>(top, load(x + i));
        for (int j = 0; j < WD; ++j) m = top[j] > m ? top[j] : m;
    }
    for (; i < n; ++i) m = x[i] > m ? x[i] : m;
    return m;
}

// Scores of the moves into t: the shared matrix, plus this position's edge scores where given; for
// moves of one block.
template <class In>
inline const double* one_scores(const Moves<double>& moves, const In* edge, int64_t t,
                                double* scratch) {
    const double* m = moves.matrix(t);
    if (!edge) return m;
    const int64_t Y = moves.Y;
    for (int64_t a = 0; a < Y; ++a)
        for (int64_t c = 0; c < Y; ++c)
            scratch[a * moves.stride + c] = m[a * moves.stride + c] + edge[(t * Y + a) * Y + c];
    return scratch;
}

template <class In>
void viterbi_one(const OneViterbi<In>& task) {
    const Moves<double>& moves = *task.moves;
    const int64_t Y = moves.Y, G = moves.G, S = moves.states(), T = task.T, width = S + 8;
    // alpha[t] for t in [block start, end), continued from its first row.
    auto advance = [&](int64_t t, const double* from, double* alpha) {
        const In* emit = task.emit + t * Y;
        for (int64_t y = 0; y < Y; ++y) task.row[y] = emit[y];
        if (t == 0) {
            for (int64_t s = 0; s < S; ++s)
                alpha[s] = s < Y ? moves.start[s] + task.row[s] : minus_inf<double>;
        } else {
            const bool by_block = task.edge && G > 1;  // a block has one label before
            const double* m =
                by_block ? moves.matrix(t) : one_scores(moves, task.edge, t, task.matrix);
            auto row = [&](int64_t g) -> const double* {
                if (!by_block) return task.row;
                const In* edge = task.edge + (t * Y + g % Y) * Y;
                for (int64_t y = 0; y < Y; ++y) task.matrix[y] = task.row[y] + edge[y];
                return task.matrix;
            };
            one_forward<MaxPlus>(moves, m, from, row, alpha);
        }
        const double m = one_max(alpha, S);
        if (m > minus_inf<double>)
            for (int64_t s = 0; s < S; ++s) alpha[s] -= m;
    };
    // Divisions are slow; most sequences have one block, and most models one history.
    auto in_block = [&](int64_t t) { return t < task.block ? t : t % task.block; };
    auto row_of = [&](int64_t t) { return task.alpha + in_block(t) * width; };
    for (int64_t t = 0; t < T; ++t) {
        // The first row of a block is written where the last block's first row was; the row before
        // is still there unless a block has one row only, which the driver never asks for.
        advance(t, t > 0 ? row_of(t - 1) : nullptr, row_of(t));
        if (in_block(t) == 0)
            __builtin_memcpy(task.checkpoints + t / task.block * width, row_of(t),
                             S * sizeof(double));
    }

    const double* last = row_of(T - 1);
    double best = minus_inf<double>;
    int64_t state = -1;
    for (int64_t i = 0; i < S; ++i) {
        const int64_t s = by_last_label(i, Y, S);
        const double score = last[s] + moves.stop[G == 1 ? s : s % Y];
        if (score > best) best = score, state = s;
    }
    if (state < 0) {
        for (int64_t t = 0; t < T; ++t) task.path[t] = -1;
        return;
    }
    for (int64_t t = T - 1;; --t) {
        const int64_t g = G == 1 ? 0 : state / Y, c = state - g * Y;
        task.path[t] = static_cast<int32_t>(c);
        if (t == 0) break;
        if (in_block(t) == 0) {  // the row before lies in an earlier block: compute that again
            int64_t u = t - task.block;
            __builtin_memcpy(row_of(u), task.checkpoints + u / task.block * width,
                             S * sizeof(double));
            for (++u; u < t; ++u) advance(u, row_of(u - 1), row_of(u));
        }
        const double* from = row_of(t - 1);
        const double* m = moves.matrix(t) + g * Y * moves.stride + c;
        // With G > 1 the edge scores are the same for all a.
        const In* edge = task.edge && G == 1 ? task.edge + t * Y * Y + c : nullptr;
        for (int64_t a = 0; a < Y; ++a) {
            double move = m[a * moves.stride];
            if (edge) move += edge[a * Y];
            task.row[a] = from[a * G + g] + move;
        }
        const double top = one_max(task.row, Y);
        int64_t a = 0;
        while (task.row[a] != top) ++a;
        state = a * G + g;
    }
}

// exp(x - its maximum) in place for n values in a buffer of whole vectors; returns the maximum.
inline double one_exp(double* x, int64_t n, bool guard, bool& bad) {
    double m = one_max(x, n);
    if (m == minus_inf<double>) m = 0;
    for (int64_t i = n; i % WD; ++i) x[i] = minus_inf<double>;
    for (int64_t i = 0; i < n; i += WD) {
        const D v = load(x + i) - m;
        store(x + i, exp<double>(v));
        if (guard)
            for (int w = 0; w < WD; ++w) bad |= v[w] > minus_inf<double> && v[w] < log_tiny;
    }
    return m;
}

// Rescales by a power of two so that the largest is in [1, 2); returns the exponent.
inline double one_rescale(double* x, int64_t n, bool guard, bool& bad) {
    const double m = one_max(x, n);
    if (!(m > 0)) return 0;
    Bits<double> e;
    const double scale = scale_of<double>(broadcast<double>(m), e)[0];
    for (int64_t i = 0; i < n; ++i) x[i] *= scale;
    if (guard)
        for (int64_t i = 0; i < n; ++i) bad |= x[i] > 0 && x[i] < tiny;
    return static_cast<double>(e[0]);
}

template <class In>
void sum_one(const OneSum<In>& task) {
    const Moves<double>& moves = *task.moves;
    const int64_t Y = moves.Y, G = moves.G, S = moves.states(), T = task.T, width = S + 8;
    const int64_t stride = moves.stride;
    bool bad = false;
    Sum offset;           // what the exponentials lack
    double exponent = 0;  // powers of two scaled away: whole numbers, so exact
    offset.add(task.offsets.stop);
    auto fill_row = [&](int64_t t) {
        for (int64_t y = 0; y < Y; ++y)
            task.row[y] = double(task.emit[t * Y + y]) + (t == 0 ? moves.start[y] : 0);
        return one_exp(task.row, Y, task.guard, bad);
    };
    // Probabilities of the moves into t and the offset they lack.
    auto fill_matrix = [&](int64_t t, double& lacks) -> const double* {
        if (!task.edge) {
            lacks = task.offsets.levels[(t < moves.levels ? t : moves.levels) - 1];
            return moves.matrix(t);
        }
        one_scores(moves, task.edge, t, task.matrix);
        for (int64_t a = 0; a < Y; ++a)
            for (int64_t c = Y; c < stride; ++c) task.matrix[a * stride + c] = minus_inf<double>;
        lacks = one_exp(task.matrix, Y * stride, task.guard, bad);
        return task.matrix;
    };

    for (int64_t t = 0; t < T; ++t) {
        double* alpha = task.alpha + (task.backward ? t : t % 2) * width;
        offset.add(fill_row(t));
        if (t == 0) {
            for (int64_t s = 0; s < S; ++s) alpha[s] = s < Y ? task.row[s] : 0;
        } else {
            double lacks;
            const double* P = fill_matrix(t, lacks);
            offset.add(lacks);
            const double* before = task.alpha + (task.backward ? t - 1 : (t + 1) % 2) * width;
            one_forward<SumTimes>(moves, P, before, [&](int64_t) { return task.row; }, alpha);
        }
        exponent += one_rescale(alpha, S, task.guard, bad);
    }
    const double* last = task.alpha + (task.backward ? T - 1 : (T - 1) % 2) * width;
    double z = 0;
    for (int64_t s = 0; s < S; ++s) z += last[s] * moves.stop[s % Y];
    offset.add(ln2 * exponent);
    offset.add(log(z));
    *task.log_z = offset.total();
    *task.ok = z > 0 && !bad;
    if (!task.backward || !*task.ok) return;

    double* beta = task.beta;
    for (int64_t s = 0; s < S; ++s) beta[s] = moves.stop[s % Y];
    const Expected<In>& expected = task.expected;
    for (int64_t t = T - 1; t >= 0; --t) {
        const double* alpha = task.alpha + t * width;
        double total = 0;
        for (int64_t s = 0; s < S; ++s) total += alpha[s] * beta[s];
        if (!(total > 0)) bad = true;
        const double inverse = 1 / total;
        // Marginals of the labels at t.
        if (expected.marginals || t == 0 || t == T - 1) {
            In* out = expected.marginals ? expected.marginals + (task.token + t) * Y : nullptr;
            for (int64_t y = 0; y < Y; ++y) {
                double gamma = 0;
                for (int64_t s = y; s < S; s += Y) gamma += alpha[s] * beta[s];
                gamma *= inverse;
                if (out) out[y] = static_cast<In>(gamma);
                if (t == 0 && expected.start) expected.start[y] += task.weight * gamma;
                if (t == T - 1 && expected.stop) expected.stop[y] += task.weight * gamma;
            }
        }
        if (t == 0) break;

        one_rescale(beta, S, task.guard, bad);
        fill_row(t);
        double lacks;
        const double* P = fill_matrix(t, lacks);
        for (int64_t s = 0; s < S; ++s) task.b[s] = task.row[s % Y] * beta[s];
        const double* before = alpha - width;
        // beta[a*G + g] = sum_c P[g, a, c] b[g*Y + c]; rows of P are dotted with b.
        double norm = 0;
        for (int64_t g = 0; g < G; ++g) {
            for (int64_t a = 0; a < Y; ++a) {
                const double* p = P + (g * Y + a) * stride;
                const double* b = task.b + g * Y;
                D sum = {};
                int64_t c = 0;
                for (; c + WD <= Y; c += WD) sum += load(p + c) * load(b + c);
                double x = 0;
                for (int w = 0; w < WD; ++w) x += sum[w];
                for (; c < Y; ++c) x += p[c] * b[c];
                beta[a * G + g] = x;
                norm += before[a * G + g] * x;
            }
        }
        if (expected.transitions || expected.pairs) {
            const double scale = norm > 0 ? 1 / norm : 0;
            const int64_t level = (t < moves.levels ? t : moves.levels) - 1;
            for (int64_t g = 0; g < G; ++g)
                for (int64_t a = 0; a < Y; ++a) {
                    const double* p = P + (g * Y + a) * stride;
                    const double* b = task.b + g * Y;
                    const double f = before[a * G + g] * scale;
                    if (expected.pairs) {
                        In* out = expected.pairs + ((task.token + t) * Y + a) * Y;
                        for (int64_t c = 0; c < Y; ++c) out[c] = static_cast<In>(f * p[c] * b[c]);
                    }
                    if (expected.transitions) {
                        double* out = expected.transitions + ((level * G + g) * Y + a) * Y;
                        const double wf = f * task.weight;
                        for (int64_t c = 0; c < Y; ++c) out[c] += wf * p[c] * b[c];
                    }
                }
        }
    }
    if (bad) *task.ok = false;
}

// The largest |x|, -inf aside; NaN if there is a NaN.
template <class R>
R largest_of(const R* x, int64_t n) {
    using V = Vector<R>;
    V top = {};
    auto good = top == top;
    auto add = [&](V y) {
        y = y == minus_inf<R> ? V{} : y;
        y = y < R(0) ? -y : y;
        good &= y == y;
        top = max<V>(y, top);  // a NaN is not larger
    };
    constexpr int64_t ahead = 2048 / sizeof(R), line = 64 / sizeof(R);
    int64_t i = 0;
    for (; i + line <= n; i += line) {
        __builtin_prefetch(x + i + ahead);  // sooner than the hardware would ask
        for (int64_t j = 0; j < line; j += W<R>) add(load(x + i + j));
    }
    for (; i + W<R> <= n; i += W<R>) add(load(x + i));
    V rest = {};
    for (int64_t w = 0; i + w < n; ++w) rest[w] = x[i + w];
    add(rest);
    R largest = 0;
    for (int w = 0; w < W<R>; ++w) {
        if (!good[w]) return __builtin_nan("");
        largest = top[w] > largest ? top[w] : largest;
    }
    return largest;
}

void exp_all(double* x, int64_t n) {
    int64_t i = 0;
    for (; i + WD <= n; i += WD) store(x + i, exp<double>(load(x + i)));
    if (i == n) return;
    D rest = {};
    for (int64_t w = 0; i + w < n; ++w) rest[w] = x[i + w];
    rest = exp<double>(rest);
    for (int64_t w = 0; i + w < n; ++w) x[i + w] = rest[w];
}

}  // namespace

#define TL_QUOTE_(x) #x
#define TL_QUOTE(x) TL_QUOTE_(x)
#define TL_JOIN_(a, b) a##b
#define TL_JOIN(a, b) TL_JOIN_(a, b)

const Kernels& TL_JOIN(kernels_, TL_ISA)() {
    static constexpr Kernels table = {
        TL_QUOTE(TL_ISA),
        L<float>,
        L<double>,
        viterbi_lanes<float>,
        viterbi_lanes<double>,
        sum_lanes<float, float>,
        sum_lanes<float, double>,
        sum_lanes<double, double>,
        viterbi_one<float>,
        viterbi_one<double>,
        sum_one<float>,
        sum_one<double>,
        exp_all,
        largest_of<float>,
        largest_of<double>,
        TL_JOIN(row_kernels_, TL_ISA),
        TL_JOIN(history_kernels_, TL_ISA),
    };
    return table;
}

}  // namespace tagloom
