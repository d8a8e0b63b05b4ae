// Forward and backward pass of a chain of at most 8 labels, both at once, for one instruction set.
// Each pass waits for its own last step; the two are independent, so together they take little
// longer than one. In the symbols of the loops, with b[t, y] = exp(emit[t, y] - max_y emit[t, y]),
//
//   alpha[t, c]   = b[t, c] * sum_a alpha[t-1, a] * P[a, c]
//   beta[t-1, a]  = sum_c P[a, c] * b[t, c] * beta[t, c]
//   dot[t]        = sum_y alpha[t, y] * beta[t, y]
//
// times a power of two every few positions. P, start and stop are probabilities, so sums of alpha
// and single betas are at most 2. What underflows, below 2.3e-308, adds at most 5e-308 / dot[t] of
// the sum over all paths; where every dot is above 1e-280, that is nothing, and otherwise the
// sequence is refused.

#include "core/small_chain_kernels.hpp"

#include "core/vectors.hpp"

namespace tagloom {
namespace {

using V = Vector<double>;
constexpr int64_t S = kSmallChain, W = TL_VECTOR_BYTES / sizeof(double), N = S / W;
constexpr int64_t kBlock = 128;  // positions whose expectations are computed at a time
constexpr int64_t kRescale = 4;  // positions between two powers of two
constexpr double kLeastDot = 1e-280;

inline double total(const double* x) {
    return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

// out[c] = sum_a from[a] * P[a, c], the even a apart from the odd ones.
inline void times_matrix(const double* from, const double* P, V (&out)[N]) {
    V odd[N];
    for (int v = 0; v < N; ++v) {
        out[v] = broadcast<double>(from[0]) * load(P + v * W);
        odd[v] = broadcast<double>(from[1]) * load(P + S + v * W);
    }
    for (int64_t a = 2; a < S; a += 2) {
        const V x = broadcast<double>(from[a]), y = broadcast<double>(from[a + 1]);
        for (int v = 0; v < N; ++v) {
            out[v] += x * load(P + a * S + v * W);
            odd[v] += y * load(P + (a + 1) * S + v * W);
        }
    }
    for (int v = 0; v < N; ++v) out[v] += odd[v];
}

// The power of two that brings x into [1, 2), and its exponent, negative.
inline double power_for(double x, double& exponent) {
    const unsigned long long bits = cast_bits<unsigned long long>(x) >> 52;
    exponent = double(bits) - 1023;
    return cast_bits<double>((2046 - bits) << 52);
}

inline double rescale(double* x) {
    double e;
    const double sum = total(x);
    if (!(sum >= 0x1p-1000)) return 0;  // dot is small, too
    const double factor = power_for(sum, e);
    for (int v = 0; v < N; ++v) store(x + v * W, load(x + v * W) * factor);
    return e;
}

// b[t], and the sum of the maxima that were taken away.
template <bool is_full>
void exponentiate(SmallChain& x) {
    double sum = 0, lost = 0;  // Neumaier's summation
    double buffer[S];
    for (double& value : buffer) value = -__builtin_inf();
    for (int64_t t = 0; t < x.T; ++t) {
        const double* emit = x.emit + t * x.Y;
        if (!is_full)
            for (int64_t y = 0; y < x.Y; ++y) buffer[y] = emit[y];
        V row[N];
        V most = load((is_full ? emit : buffer));
        row[0] = most;
        for (int v = 1; v < N; ++v) {
            row[v] = load((is_full ? emit : buffer) + v * W);
            most = max<V>(row[v], most);
        }
        double m = most[0];
        for (int w = 1; w < W; ++w) m = most[w] > m ? most[w] : m;
        for (int v = 0; v < N; ++v) row[v] = row[v] - m;
        exp_each<double>(row);
        for (int v = 0; v < N; ++v) store(x.rows + t * S + v * W, row[v]);
        const double next = sum + m;
        lost += (sum < 0 ? -sum : sum) >= (m < 0 ? -m : m) ? (sum - next) + m : (m - next) + sum;
        sum = next;
    }
    x.offset = sum + lost;
}

// alpha from the first position on and beta from the last one, side by side.
void pass_both_ways(SmallChain& x) {
    double scratch[S];
    double exponent = 0;
    for (int64_t y = 0; y < S; ++y) {
        x.alpha[y] = x.start[y] * x.rows[y];
        x.beta[(x.T - 1) * S + y] = x.stop[y];
    }
    exponent += rescale(x.alpha);
    x.factor[x.T - 1] = 1;
    for (int64_t i = 1; i < x.T; ++i) {
        const int64_t u = x.T - i;  // beta of u - 1 from that of u
        double *alpha = x.alpha + i * S, *beta = x.beta + (u - 1) * S;
        V ahead[N], back[N];
        for (int v = 0; v < N; ++v)
            store(scratch + v * W, load(x.rows + u * S + v * W) * load(beta + S + v * W));
        times_matrix(alpha - S, x.forward, ahead);
        times_matrix(scratch, x.backward, back);
        for (int v = 0; v < N; ++v) {
            store(alpha + v * W, ahead[v] * load(x.rows + i * S + v * W));
            store(beta + v * W, back[v]);
        }
        x.factor[u - 1] = 1;
        if (i % kRescale == 0) {
            exponent += rescale(alpha);
            const double e = rescale(beta);
            x.factor[u - 1] = cast_bits<double>((unsigned long long)(1023 - (long long)e) << 52);
        }
    }
    x.exponent = exponent;
}

// Marginals of positions [t0, t1). Afterwards alpha[t] has the weight of the pairs that leave t,
// and beta[t] is b[t] * beta[t].
bool write_marginals(SmallChain& x, int64_t t0, int64_t t1) {
    bool ok = true;
    for (int64_t t = t0; t < t1; ++t) {
        double *alpha = x.alpha + t * S, *beta = x.beta + t * S;
        V gamma[N];
        double products[S];
        for (int v = 0; v < N; ++v) {
            gamma[v] = load(alpha + v * W) * load(beta + v * W);
            store(products + v * W, gamma[v]);
        }
        const double dot = total(products);
        ok &= dot >= kLeastDot;
        const double inverse = 1 / dot, leaving = x.factor[t] * inverse;
        for (int v = 0; v < N; ++v) {
            store(products + v * W, gamma[v] * inverse);
            store(alpha + v * W, load(alpha + v * W) * leaving);
            store(beta + v * W, load(beta + v * W) * load(x.rows + t * S + v * W));
        }
        double* to = x.marginals + t * x.Y;
        for (int64_t y = 0; y < x.Y; ++y) to[y] = products[y];
    }
    return ok;
}

// pairs[a, c] += alpha[t-1, a] * beta[t, c] over t in [t0, t1), t0 > 0.
void add_pairs(const SmallChain& x, int64_t t0, int64_t t1) {
    for (int v = 0; v < N; ++v) {
        V sum[S] = {};
        for (int64_t t = t0; t < t1; ++t) {
            const V to = load(x.beta + t * S + v * W);
            const double* from = x.alpha + (t - 1) * S;
            for (int64_t a = 0; a < S; ++a) sum[a] += broadcast<double>(from[a]) * to;
        }
        for (int64_t a = 0; a < S; ++a) {
            double* to = x.pairs + a * S + v * W;
            store(to, load(to) + sum[a]);
        }
    }
}

void sum(SmallChain& x) {
    x.Y == S ? exponentiate<true>(x) : exponentiate<false>(x);
    pass_both_ways(x);
    const double* last = x.alpha + (x.T - 1) * S;
    double products[S];
    for (int64_t y = 0; y < S; ++y) products[y] = last[y] * x.stop[y];
    x.z = total(products);
    bool ok = x.z >= kLeastDot;
    for (int64_t t = 0; t < x.T && ok; t += kBlock) {
        const int64_t end = t + kBlock < x.T ? t + kBlock : x.T;
        ok = write_marginals(x, t, end);
        add_pairs(x, t > 0 ? t : 1, end);
    }
    x.ok = ok && x.offset - x.offset == 0;
}

}  // namespace

#define TL_JOIN_(a, b) a##b
#define TL_JOIN(a, b) TL_JOIN_(a, b)

const SmallChainKernels& TL_JOIN(small_chain_kernels_, TL_ISA)() {
    static constexpr SmallChainKernels table = {sum};
    return table;
}

}  // namespace tagloom
