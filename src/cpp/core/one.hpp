// One sequence: labels across the vector, double throughout.
#pragma once

#include "core/losses.hpp"
#include "core/steps.hpp"

namespace tagloom {
namespace {

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

// One forward step over all blocks; row_of(g) has the factors of block g for each label. Writes up
// to a vector past each block, into the next block or the padding at the end of the row.
template <class Semiring, class RowOf>
inline void one_forward(const Transitions<double>& transitions, const double* m, const double* from,
                        const RowOf& row_of, double* to) {
    const int64_t Y = transitions.Y, G = transitions.G, stride = transitions.stride;
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

// Scores of the transitions into t: the shared matrix, plus this position's edge scores where
// given; for transitions of one block.
template <class In>
inline const double* one_scores(const Transitions<double>& transitions, const In* edge, int64_t t,
                                double* scratch) {
    const double* m = transitions.matrix(t);
    if (!edge) return m;
    const int64_t Y = transitions.Y;
    for (int64_t a = 0; a < Y; ++a)
        for (int64_t c = 0; c < Y; ++c)
            scratch[a * transitions.stride + c] =
                m[a * transitions.stride + c] + edge[(t * Y + a) * Y + c];
    return scratch;
}

// exp(x - its maximum) in place for n values in a buffer of whole vectors; returns the maximum.
// With the guard on, `small` is set where a value that is not forbidden falls below `tiny`.
inline double one_exp(double* x, int64_t n, bool guard, bool& small) {
    double m = one_max(x, n);
    if (m == minus_inf<double>) m = 0;
    for (int64_t i = n; i % WD; ++i) x[i] = minus_inf<double>;
    for (int64_t i = 0; i < n; i += WD) {
        const D v = load(x + i) - m;
        store(x + i, exp<double>(v));
        if (guard)
            for (int w = 0; w < WD; ++w) small |= v[w] > minus_inf<double> && v[w] < log_tiny;
    }
    return m;
}

// Rescales by a power of two so that the largest is in [1, 2); returns the exponent. `small` as
// above.
inline double one_rescale(double* x, int64_t n, bool guard, bool& small) {
    const double m = one_max(x, n);
    if (!(m > 0)) return 0;
    Bits<double> e;
    const double scale = scale_of<double>(broadcast<double>(m), e)[0];
    for (int64_t i = 0; i < n; ++i) x[i] *= scale;
    if (guard)
        for (int64_t i = 0; i < n; ++i) small |= x[i] > 0 && x[i] < tiny;
    return static_cast<double>(e[0]);
}

// x times 2^e for a whole number e between -2000 and 2000.
inline double scaled(double x, double e) {
    auto power = [](int64_t n) {
        return __builtin_bit_cast(double, (n + Types<double>::bias) << Types<double>::mantissa);
    };
    const int64_t n = static_cast<int64_t>(e), half = n / 2;
    return x * power(half) * power(n - half);
}

}  // namespace
}  // namespace tagloom
