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
constexpr int kRows = 4;         // positions whose scores are exponentiated side by side
constexpr double kLeastDot = 1e-280;

// A row of 8 numbers is N vectors.
inline void load_row(const double* from, V (&row)[N]) {
    for (int v = 0; v < N; ++v) row[v] = load(from + v * W);
}
inline void store_row(double* to, const V (&row)[N]) {
    for (int v = 0; v < N; ++v) store(to + v * W, row[v]);
}

inline double total(const V (&row)[N]) {
    V x = row[0];
    for (int v = 1; v < N; ++v) x += row[v];
#if TL_VECTOR_BYTES == 64
    x += __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3);
    x += __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5);
#elif TL_VECTOR_BYTES == 32
    x += __builtin_shufflevector(x, x, 2, 3, 0, 1);
#endif
    return x[0] + x[1];
}

// Element a of a row in every lane: from the register, which is sooner there than from memory.
template <int64_t a>
inline V spread(const V (&row)[N]) {
    const V x = row[a / W];
    constexpr int i = a % W;
#if TL_VECTOR_BYTES == 64
    return __builtin_shufflevector(x, x, i, i, i, i, i, i, i, i);
#elif TL_VECTOR_BYTES == 32
    return __builtin_shufflevector(x, x, i, i, i, i);
#else
    return __builtin_shufflevector(x, x, i, i);
#endif
}

// even[c] = sum_a from[a] * P[a, c], the even a apart from the odd ones.
template <int64_t a = 0>
inline void times_matrix(const V (&from)[N], const double* P, V (&even)[N], V (&odd)[N]) {
    const V x = spread<a>(from), y = spread<a + 1>(from);
    for (int v = 0; v < N; ++v) {
        const V p = load(P + a * S + v * W), q = load(P + (a + 1) * S + v * W);
        even[v] = a == 0 ? x * p : even[v] + x * p;
        odd[v] = a == 0 ? y * q : odd[v] + y * q;
    }
    if constexpr (a + 2 < S)
        times_matrix<a + 2>(from, P, even, odd);
    else
        for (int v = 0; v < N; ++v) even[v] += odd[v];
}

// A matrix [8, 8], in registers where they suffice.
struct Matrix {
    explicit Matrix(const double* P) {
        for (int i = 0; i < S * N; ++i) rows[i] = load(P + i * W);
    }
    V rows[S * N];
};

// The same with elements of `from` out of memory, which takes no shuffles.
inline void times_matrix(const double* from, const Matrix& P, V (&even)[N], V (&odd)[N]) {
    for (int64_t a = 0; a < S; a += 2) {
        const V x = broadcast<double>(from[a]), y = broadcast<double>(from[a + 1]);
        for (int v = 0; v < N; ++v) {
            const V p = P.rows[a * N + v], q = P.rows[(a + 1) * N + v];
            even[v] = a == 0 ? x * p : even[v] + x * p;
            odd[v] = a == 0 ? y * q : odd[v] + y * q;
        }
    }
    for (int v = 0; v < N; ++v) even[v] += odd[v];
}

// The power of two that brings the total of a row into [1, 2). 1 for totals that are too small: dot
// is small there, too.
inline double power_for(const V (&row)[N]) {
    const double sum = total(row);
    if (!(sum >= 0x1p-1000)) return 1;
    return cast_bits<double>((2046 - (cast_bits<unsigned long long>(sum) >> 52)) << 52);
}
inline double exponent_of(double power) {
    return double(cast_bits<unsigned long long>(power) >> 52) - 1023;
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

// b of positions [t, t + G), and the maxima that were taken away, into `factor`.
template <int G, class Scores>
inline void exponentiate_rows(SmallChain& x, Scores& scores, int64_t t) {
    V rows[G * N];
    for (int g = 0; g < G; ++g) {
        V row[N];
        scores(t + g, row);
        V most = row[0];
        for (int v = 1; v < N; ++v) most = max<V>(row[v], most);
        most = largest_of(most);
        x.factor[t + g] = most[0];
        for (int v = 0; v < N; ++v) rows[g * N + v] = row[v] - most;
    }
    exp_each<double>(rows);
    for (int i = 0; i < G * N; ++i) store(x.rows + t * S + i * W, rows[i]);
}

// The sum, and what its additions round away (Knuth's TwoSum).
template <class X>
inline void add_precisely(X value, X& sum, X& lost) {
    const X next = sum + value, part = next - sum;
    lost += (sum - (next - part)) + (value - part);
    sum = next;
}

double precise_sum(const double* values, int64_t n) {
    V sums = {}, rests = {};
    int64_t t = 0;
    for (; t + W <= n; t += W) add_precisely(load(values + t), sums, rests);
    double sum = 0, lost = 0;
    for (; t < n; ++t) add_precisely(values[t], sum, lost);
    for (int64_t i = 0; i < W; ++i) {
        add_precisely(double(sums[i]), sum, lost);
        lost += rests[i];
    }
    return sum + lost;
}

// b[t], and the sum of the maxima.
template <class Scores>
void exponentiate(SmallChain& x, Scores scores) {
    int64_t t = 0;
    for (; t + kRows <= x.T; t += kRows) exponentiate_rows<kRows>(x, scores, t);
    for (; t < x.T; ++t) exponentiate_rows<1>(x, scores, t);
    x.offset = precise_sum(x.factor, x.T);
}

// Products with the matrices of a single sequence, whose steps wait for one another.
class Sooner {
  public:
    explicit Sooner(const SmallChain& x) : x_(x) {}
    inline void operator()(int64_t, const V (&alpha)[N], const V (&weighted)[N], V (&ahead)[N],
                           V (&back)[N]) const {
        V odd[N];
        times_matrix(alpha, x_.forward, ahead, odd);
        times_matrix(weighted, x_.backward, back, odd);
    }

  private:
    const SmallChain& x_;
};

// The same where another sequence fills the time: fewer instructions, of which each waits longer.
class Cheaper {
  public:
    Cheaper(const SmallChain& x, const Matrix& forward, const Matrix& backward)
        : x_(x), forward_(forward), backward_(backward) {}
    inline void operator()(int64_t i, const V (&)[N], const V (&weighted)[N], V (&ahead)[N],
                           V (&back)[N]) const {
        alignas(64) double ahead_of[S];
        V odd[N];
        store_row(ahead_of, weighted);
        times_matrix(x_.alpha + (i - 1) * S, forward_, ahead, odd);
        times_matrix(ahead_of, backward_, back, odd);
    }

  private:
    const SmallChain& x_;
    const Matrix &forward_, &backward_;
};

// alpha from the first position of a sequence on and beta from the last one, side by side.
template <class Multiply>
class BothWays {
  public:
    BothWays(SmallChain& x, Multiply multiply) : x_(x), multiply_(multiply) {
        V row[N];
        load_row(x.rows, row);
        load_row(x.start, alpha_);
        for (int v = 0; v < N; ++v) alpha_[v] *= row[v];
        const double power = power_for(alpha_);
        exponent_ = -exponent_of(power);
        for (int v = 0; v < N; ++v) alpha_[v] *= power;
        load_row(x.stop, beta_);
        store_row(x.alpha, alpha_);
        store_row(x.beta + (x.T - 1) * S, beta_);
        x.factor[x.T - 1] = 1;
    }
    // alpha[i] from alpha[i-1], and beta[T-1-i] from beta[T-i]. Totals of the step before give the
    // power of two, so that no step waits for one: totals only fall from step to step.
    inline void step(int64_t i) {
        const int64_t u = x_.T - i;
        V row[N], weighted[N], ahead[N], back[N];
        load_row(x_.rows + u * S, weighted);
        for (int v = 0; v < N; ++v) weighted[v] *= beta_[v];
        load_row(x_.rows + i * S, row);
        x_.factor[u - 1] = 1;
        if (i % kRescale == 0) {
            const double to_alpha = power_for(alpha_), to_beta = power_for(beta_);
            exponent_ -= exponent_of(to_alpha);
            x_.factor[u - 1] = to_beta;
            for (int v = 0; v < N; ++v) {
                row[v] *= to_alpha;
                weighted[v] *= to_beta;
            }
        }
        multiply_(i, alpha_, weighted, ahead, back);
        for (int v = 0; v < N; ++v) {
            alpha_[v] = ahead[v] * row[v];
            beta_[v] = back[v];
        }
        store_row(x_.alpha + i * S, alpha_);
        store_row(x_.beta + (u - 1) * S, beta_);
    }
    void finish() { x_.exponent = exponent_; }

  private:
    SmallChain& x_;
    const Multiply multiply_;
    V alpha_[N], beta_[N];
    double exponent_;
};

// Two sequences at once: no step waits for that of the other one.
void pass_both_ways(SmallChain& x, SmallChain& y) {
    const Matrix forward(x.forward), backward(x.backward);  // the same for both
    BothWays first(x, Cheaper(x, forward, backward)), second(y, Cheaper(y, forward, backward));
    const int64_t common = x.T < y.T ? x.T : y.T;
    int64_t i = 1;
    for (; i < common; ++i) {
        first.step(i);
        second.step(i);
    }
    for (int64_t j = i; j < x.T; ++j) first.step(j);
    for (int64_t j = i; j < y.T; ++j) second.step(j);
    first.finish();
    second.finish();
}

void pass_both_ways(SmallChain& x) {
    BothWays pass(x, Sooner(x));
    for (int64_t i = 1; i < x.T; ++i) pass.step(i);
    pass.finish();
}

// Marginals of positions [t0, t1), into rows of `width` from `to` on. Afterwards alpha[t] has the
// weight of the pairs that leave t, and beta[t] is b[t] * beta[t].
bool write_marginals(SmallChain& x, int64_t t0, int64_t t1, double* to, int64_t width) {
    bool ok = true;
    for (int64_t t = t0; t < t1; ++t, to += width) {
        double *alpha = x.alpha + t * S, *beta = x.beta + t * S;
        V from[N], into[N], gamma[N], row[N];
        load_row(alpha, from);
        load_row(beta, into);
        load_row(x.rows + t * S, row);
        for (int v = 0; v < N; ++v) gamma[v] = from[v] * into[v];
        const double dot = total(gamma);
        ok &= dot >= kLeastDot;
        const double inverse = 1 / dot, leaving = x.factor[t] * inverse;
        for (int v = 0; v < N; ++v) {
            gamma[v] *= inverse;
            from[v] *= leaving;
            into[v] *= row[v];
        }
        store_row(alpha, from);
        store_row(beta, into);
        if (width == S) {
            store_row(to, gamma);
        } else {
            double few[S];
            store_row(few, gamma);
            for (int64_t y = 0; y < width; ++y) to[y] = few[y];
        }
        if (t == 0) store_row(x.ends, gamma);
        if (t == x.T - 1) store_row(x.ends + S, gamma);
    }
    return ok;
}

// sums[j] += sum_t gamma[t] * z[t, i] * z[t, j0 + j] for C columns j, and without z[t, j0 + j] into
// `linear` unless that is null. For i = -1, z[t, i] counts as 1.
template <int C>
void add_features(const double* gamma, const double* z, int64_t n, int64_t D, int64_t i, int64_t j0,
                  double* sums, double* linear) {
    constexpr int kApart = 2;  // even and odd t, so that fewer additions wait for each other
    V sum[kApart][C + 1][N] = {};
    const auto add = [&](int64_t t, V(&into)[C + 1][N]) {
        V g[N];
        load_row(gamma + t * S, g);
        for (int v = 0; v < N; ++v) {
            if (i >= 0) g[v] *= broadcast<double>(z[t * D + i]);
            into[C][v] += g[v];
        }
        for (int j = 0; j < C; ++j)
            for (int v = 0; v < N; ++v) into[j][v] += g[v] * broadcast<double>(z[t * D + j0 + j]);
    };
    int64_t t = 0;
    for (; t + kApart <= n; t += kApart)
        for (int k = 0; k < kApart; ++k) add(t + k, sum[k]);
    for (; t < n; ++t) add(t, sum[0]);
    for (int v = 0; v < N; ++v) {
        for (int j = 0; j < C; ++j)
            store(sums + j * S + v * W, load(sums + j * S + v * W) + (sum[0][j][v] + sum[1][j][v]));
        if (linear) store(linear + v * W, load(linear + v * W) + (sum[0][C][v] + sum[1][C][v]));
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

void exponentiate_scores(SmallChain& x) {
    if (x.quadratic)
        x.quadratic->products ? exponentiate(x, Quadratic<true>(x))
                              : exponentiate(x, Quadratic<false>(x));
    else
        x.Y == S ? exponentiate(x, Given<true>(x)) : exponentiate(x, Given<false>(x));
}

void add_expectations(SmallChain& x) {
    V last[N], stop[N];
    load_row(x.alpha + (x.T - 1) * S, last);
    load_row(x.stop, stop);
    for (int v = 0; v < N; ++v) last[v] *= stop[v];
    x.z = total(last);
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

void sum(SmallChain& x) {
    exponentiate_scores(x);
    pass_both_ways(x);
    add_expectations(x);
}

void sum_two(SmallChain& x, SmallChain& y) {
    exponentiate_scores(x);
    exponentiate_scores(y);
    pass_both_ways(x, y);
    add_expectations(x);
    add_expectations(y);
}

}  // namespace

#define TL_JOIN_(a, b) a##b
#define TL_JOIN(a, b) TL_JOIN_(a, b)

const SmallChainKernels& TL_JOIN(small_chain_kernels_, TL_ISA)() {
    static constexpr SmallChainKernels table = {sum, sum_two};
    return table;
}

}  // namespace tagloom
