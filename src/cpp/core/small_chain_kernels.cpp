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

// The largest number of a vector, in all of its places.
inline V largest_of(V x) {
#if TL_VECTOR_BYTES == 64
    x = max<V>(x, __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3));
    x = max<V>(x, __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5));
    return max<V>(x, __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6));
#elif TL_VECTOR_BYTES == 32
    x = max<V>(x, __builtin_shufflevector(x, x, 2, 3, 0, 1));
    return max<V>(x, __builtin_shufflevector(x, x, 1, 0, 3, 2));
#else
    return max<V>(x, __builtin_shufflevector(x, x, 1, 0));
#endif
}

// Reads scores [T, Y].
template <bool is_full>
class Given {
  public:
    explicit Given(const SmallChain& x) : emit_(x.emit), Y_(x.Y) {
        for (double& value : buffer_) value = -__builtin_inf();
    }
    void operator()(int64_t t, V (&row)[N]) {
        const double* emit = emit_ + t * Y_;
        if (!is_full)
            for (int64_t y = 0; y < Y_; ++y) buffer_[y] = emit[y];
        for (int v = 0; v < N; ++v) row[v] = load((is_full ? emit : buffer_) + v * W);
    }

  private:
    const double* emit_;
    const int64_t Y_;
    double buffer_[S];
};

// Computes quadratic scores as sum_i z_i * (b_i + sum_{j >= i} A_ij z_j) + c.
template <bool products>
class Quadratic {
  public:
    explicit Quadratic(const SmallChain& x)
        : z_(x.quadratic->z), weights_(x.quadratic->weights), D_(x.quadratic->D) {}
    void operator()(int64_t t, V (&row)[N]) const {
        const double *z = z_ + t * D_, *A = weights_;
        const double* b = weights_ + (products ? D_ * (D_ + 1) / 2 : D_) * S;
        for (int v = 0; v < N; ++v) row[v] = load(b + D_ * S + v * W);
        for (int64_t i = 0; i < D_; ++i, b += S) {
            V sum[N];
            for (int v = 0; v < N; ++v) sum[v] = load(b + v * W);
            const int64_t end = products ? D_ : i + 1;
            for (int64_t j = i; j < end; ++j, A += S)
                for (int v = 0; v < N; ++v) sum[v] += broadcast<double>(z[j]) * load(A + v * W);
            for (int v = 0; v < N; ++v) row[v] += broadcast<double>(z[i]) * sum[v];
        }
    }

  private:
    const double *z_, *weights_;
    const int64_t D_;
};

// b[t], and the sum of the maxima that were taken away.
template <class Scores>
void exponentiate(SmallChain& x, Scores scores) {
    double sum = 0, lost = 0;  // Neumaier's summation
    for (int64_t t = 0; t < x.T; ++t) {
        V row[N];
        scores(t, row);
        V most = row[0];
        for (int v = 1; v < N; ++v) most = max<V>(row[v], most);
        most = largest_of(most);
        for (int v = 0; v < N; ++v) row[v] = row[v] - most;
        exp_each<double>(row);
        for (int v = 0; v < N; ++v) store(x.rows + t * S + v * W, row[v]);
        const double m = most[0], next = sum + m;
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

// Marginals of positions [t0, t1), into rows of `width` from `to` on. Afterwards alpha[t] has the
// weight of the pairs that leave t, and beta[t] is b[t] * beta[t].
bool write_marginals(SmallChain& x, int64_t t0, int64_t t1, double* to, int64_t width) {
    bool ok = true;
    for (int64_t t = t0; t < t1; ++t, to += width) {
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
        if (width == S)
            for (int v = 0; v < N; ++v) store(to + v * W, load(products + v * W));
        else
            for (int64_t y = 0; y < width; ++y) to[y] = products[y];
        if (t == 0)
            for (int v = 0; v < N; ++v) store(x.ends + v * W, load(products + v * W));
        if (t == x.T - 1)
            for (int v = 0; v < N; ++v) store(x.ends + S + v * W, load(products + v * W));
    }
    return ok;
}

// sums[j] += sum_t gamma[t] * z[t, i] * z[t, j0 + j] for C columns j, and without z[t, j0 + j] into
// `linear` unless that is null. For i = -1, z[t, i] counts as 1.
template <int C>
void add_features(const double* gamma, const double* z, int64_t n, int64_t D, int64_t i, int64_t j0,
                  double* sums, double* linear) {
    V sum[C + 1][N] = {};
    for (int64_t t = 0; t < n; ++t) {
        V g[N];
        for (int v = 0; v < N; ++v) {
            g[v] = load(gamma + t * S + v * W);
            if (i >= 0) g[v] *= broadcast<double>(z[t * D + i]);
            sum[C][v] += g[v];
        }
        for (int j = 0; j < C; ++j)
            for (int v = 0; v < N; ++v) sum[j][v] += g[v] * broadcast<double>(z[t * D + j0 + j]);
    }
    for (int v = 0; v < N; ++v) {
        for (int j = 0; j < C; ++j)
            store(sums + j * S + v * W, load(sums + j * S + v * W) + sum[j][v]);
        if (linear) store(linear + v * W, load(linear + v * W) + sum[C][v]);
    }
}

// Features of n positions, with marginals gamma [n, 8].
void add_moments(const QuadraticScores& q, const double* gamma, const double* z, int64_t n) {
    const int64_t D = q.D;
    double *sums = q.sums, *linear = q.sums + (q.size() - D - 1) * S;
    for (int64_t i = 0; i < D; ++i, linear += S) {
        double* to = linear;  // only once
        const int64_t end = q.products ? D : i + 1;
        for (int64_t j = i; j < end;) {
            const int64_t left = end - j, C = left < 4 ? left : 4;
            const auto add = C == 4   ? add_features<4>
                             : C == 3 ? add_features<3>
                             : C == 2 ? add_features<2>
                                      : add_features<1>;
            add(gamma, z, n, D, i, j, sums, to);
            sums += C * S;
            j += C;
            to = nullptr;
        }
    }
    add_features<0>(gamma, z, n, D, -1, 0, nullptr, linear);
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
    if (x.quadratic)
        x.quadratic->products ? exponentiate(x, Quadratic<true>(x))
                              : exponentiate(x, Quadratic<false>(x));
    else
        x.Y == S ? exponentiate(x, Given<true>(x)) : exponentiate(x, Given<false>(x));
    pass_both_ways(x);
    const double* last = x.alpha + (x.T - 1) * S;
    double products[S];
    for (int64_t y = 0; y < S; ++y) products[y] = last[y] * x.stop[y];
    x.z = total(products);
    bool ok = x.z >= kLeastDot;
    for (int64_t t = 0; t < x.T && ok; t += kSmallChainBlock) {
        const int64_t end = t + kSmallChainBlock < x.T ? t + kSmallChainBlock : x.T;
        ok = x.quadratic ? write_marginals(x, t, end, x.marginals, S)
                         : write_marginals(x, t, end, x.marginals + t * x.Y, x.Y);
        add_pairs(x, t > 0 ? t : 1, end);
        if (x.quadratic)
            add_moments(*x.quadratic, x.marginals, x.quadratic->z + t * x.quadratic->D, end - t);
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
