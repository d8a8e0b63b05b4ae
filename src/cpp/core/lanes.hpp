// Many sequences at once, one in each lane of a few vectors: every array has lanes as its last
// axis. Steps of a recursion over all lanes, and the ways between [tokens, Y] in memory and lanes.
#pragma once

#include "core/steps.hpp"

namespace tagloom {
namespace {

constexpr int NV = 2;  // vectors per row of lanes: a broadcast score then serves two of them
template <class R>
constexpr int L = NV * W<R>;  // lanes

// to[j] = finish(j, (+)_i from[i] (x) m[i, j]) for B columns j, starting at j0. Strides in
// elements; finish(j, v, x) maps vector v of column j to the value to store.
template <class Semiring, int B, class R, class Finish>
TL_INLINE_STEP inline void lane_tile(int64_t n, const R* from, int64_t from_stride, const R* m,
                                     int64_t mi, int64_t mj, R* to, int64_t to_stride, int64_t j0,
                                     Finish&& finish) {
    using V = Vector<R>;
    V sum[B][NV];
    for (int j = 0; j < B; ++j)
        for (int v = 0; v < NV; ++v) sum[j][v] = broadcast<R>(Semiring::template zero<R>);
#pragma GCC unroll 2
    for (int64_t i = 0; i < n; ++i) {
        V f[NV];
        for (int v = 0; v < NV; ++v) f[v] = load(from + i * from_stride + v * W<R>);
        for (int j = 0; j < B; ++j) {
            const V transition = broadcast<R>(m[i * mi + (j0 + j) * mj]);
            for (int v = 0; v < NV; ++v) sum[j][v] = Semiring::step(sum[j][v], f[v], transition);
        }
    }
    for (int j = 0; j < B; ++j)
        for (int v = 0; v < NV; ++v)
            store(to + (j0 + j) * to_stride + v * W<R>, finish(j0 + j, v, sum[j][v]));
}

// The same for n columns j, in tiles.
template <class Semiring, class R, class Finish>
TL_INLINE_STEP inline void lane_step(int64_t n, const R* from, int64_t from_stride, const R* m,
                                     int64_t mi, int64_t mj, R* to, int64_t to_stride,
                                     Finish&& finish) {
    constexpr int B = 5;
    int64_t j = 0;
    auto tile = [&](auto width) TL_INLINE_STEP {
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
TL_INLINE_STEP inline void lane_forward(const Transitions<R>& transitions, int64_t t, const R* from,
                                        R* to, Finish&& finish) {
    const int64_t Y = transitions.Y, G = transitions.G;
    const R* m = transitions.matrix(t);
    for (int64_t g = 0; g < G; ++g)
        lane_step<Semiring>(Y, from + g * L<R>, G * L<R>, m + g * Y * transitions.stride,
                            transitions.stride, 1, to + g * Y * L<R>, L<R>, finish);
}

// All blocks of one backward step: to[a*G + g] = finish(a, (+)_c m[g, a, c] (x) from[g*Y + c]).
template <class Semiring, class R, class Finish>
TL_INLINE_STEP inline void lane_backward(const Transitions<R>& transitions, int64_t t,
                                         const R* from, R* to, Finish&& finish) {
    const int64_t Y = transitions.Y, G = transitions.G;
    const R* m = transitions.matrix(t);
    for (int64_t g = 0; g < G; ++g)
        lane_step<Semiring>(Y, from + g * Y * L<R>, L<R>, m + g * Y * transitions.stride, 1,
                            transitions.stride, to + g * L<R>, G * L<R>, finish);
}

// Prefetches the n elements at p; harmless past the end of an array.
template <class R>
inline void prefetch(const R* p, int64_t n) {
    for (int64_t i = 0; i < n; i += 64 / sizeof(R)) __builtin_prefetch(p + i);
}

// Lanes read from many places of memory at once, more than the hardware prefetches. They prefetch
// the rows of two positions later, a little with every label, as too many requests at once would
// queue.
template <class In, int Lanes, int write = 0>
struct Ahead {
    static constexpr int64_t line = 64 / sizeof(In);
    const In* row[Lanes];

    // row_of(lane) is the row of Y numbers of each active lane; no rows if it returns null.
    template <class RowOf>
    Ahead(const RowOf& row_of, int64_t Y, int64_t active) {
        for (int64_t l = 0; l < Lanes; ++l) {
            row[l] = row_of(l < active ? l : 0);
            // The end of a row may be in a line that no label prefetches.
            if (row[l] && (write || Y < line)) __builtin_prefetch(row[l] + Y - 1, write);
        }
    }
    // The labels that share a line of memory prefetch it in turn, each for other lanes.
    void ask(int64_t label) const {
        for (int64_t l = label & (line - 1); row[0] && l < Lanes; l += line)
            __builtin_prefetch(row[l] + label, write);
    }
};

// Four numbers, and the transpose of four rows of four, by the shuffles of each type.
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

// Reads position t of every sequence that is long enough into row[y, lane].
template <class In, class R>
inline void gather(const In* emit, int64_t Y, int64_t t, const int64_t* first, int64_t active,
                   R* row) {
    rows_to_lanes([&](int64_t l) { return emit + (first[l] + t) * Y; }, Y, active, row);
}

// The inverse: writes value[y, lane] * factor[lane] to position t of each of `active` sequences.
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

}  // namespace
}  // namespace tagloom
