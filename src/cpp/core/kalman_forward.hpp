// The Kalman filter over one sequence, in rows; see kalman_kernels.hpp for the recursion. Included
// by kalman_kernels.cpp alone.
#pragma once

#include "core/kalman_kernels.hpp"
#include "core/kalman_rows.hpp"

namespace tagloom {
namespace {

// A variance below this part of what it was computed from is rounding: nothing is left of it.
constexpr double rounding = 1e-14;

// The log density of components with given variances, one log for many of them.
struct LogDensity {
    double product = 1, squares = 0, sum = 0;
    void add(double variance, double square) {
        product *= variance;
        squares += square;
        if (!(product < 1e100) || !(product > 1e-100)) flush();
    }
    void flush() {
        sum -= 0.5 * (__builtin_log(product) + squares);
        product = 1;
        squares = 0;
    }
};

// The square of a component without a variance of its own: it must be what it is predicted to be.
inline double certain_square(double error, double y, double scale) {
    const bool fits = magnitude(error) <= 1e-7 * square_root(scale) + 1e-9 * magnitude(y);
    return fits ? 0 : __builtin_inf();
}

template <int N>
struct ForwardPass {
    static constexpr int64_t fixed = N ? N * Shape<N>::fixed_K : 1, fixed_K = Shape<N>::fixed_K;

    KalmanForward& task;
    const Shape<N> s;
    V *A, *At, *Q, *b;   // [n, K] into the present step, [n, K] its transpose, [n, K], [K]
    V *filtered, *mean;  // [n, K], [K]
    V *X, *before;       // [n, K] scratch; the covariance one step before
    V* C;                // [m, K] of the present block
    V* gains;            // [m, K] of the present step
    double* f;           // [m] variances of its components, 0 for those without one
    double* scale;       // [n] scratch
    // Of a steady state:
    //   error_i = y_i - sum_{l<i} w[i, l] y_l - z_i'a,  mean = Z a + sum_l G_l y_l,
    // so the next prediction is A Z a + sum_l (A G_l) y_l + b: one product per step to wait for.
    V *Zt, *AZt;          // [n, K] columns of Z and A Z
    V *G, *AG, *z;        // [m, K] each
    double *w, *inverse;  // [m, m], [m] of f
    // What every step touches stays in registers, as far as they suffice, if N is fixed.
    V P_here[fixed], a_here[fixed_K], g_here[fixed_K], variances_here[fixed_K];
    V *P_there, *a_there, *g_there, *variances_there;
    LogDensity log;
    int64_t rows = 0;
    const double* r = nullptr;

    V* P() { return N ? P_here : P_there; }  // [n, K] predicted, then filtered
    V* a() { return N ? a_here : a_there; }  // [K] likewise
    V* g() { return N ? g_here : g_there; }
    V* variances() { return N ? variances_here : variances_there; }  // [K] predicted

    explicit ForwardPass(KalmanForward& task) : task(task), s(task.n) {
        const int64_t n = s.n(), m = task.m, K = s.K();
        RowSpace space{task.workspace};
        V** matrices[] = {&A, &At, &Q, &filtered, &X, &before, &Zt, &AZt, &P_there};
        for (V** matrix : matrices) *matrix = space.rows(n * K);
        V** observed[] = {&C, &gains, &G, &AG, &z};
        for (V** matrix : observed) *matrix = space.rows(m * K);
        V** vectors[] = {&b, &mean, &a_there, &g_there, &variances_there};
        for (V** vector : vectors) *vector = space.rows(K);
        w = space.take(m * m);
        inverse = space.take(m);
        f = space.take(m);
        scale = space.take(n);
        pad(task.cov, n, s, P());
        pad(task.mean, 1, s, a());
    }

    void load_transition(int64_t t, bool is_first) {
        if (is_first || task.A.stride) {
            pad(task.A.at(t), s.n(), s, A);
            pad_transposed(task.A.at(t), s, At);
        }
        if (is_first || task.Q.stride) pad(task.Q.at(t), s.n(), s, Q);
        if (is_first || task.b.stride) pad(task.b.at(t), 1, s, b);
    }

    void load_block(int32_t block) {
        rows = task.blocks.rows[block];
        pad(task.blocks.C + block * task.m * s.n(), rows, s, C);
        r = task.blocks.r + block * task.m;
    }

    // Takes one component in; see the recursion in kalman_kernels.hpp.
    inline void observe(int64_t i, double y) {
        const int64_t n = s.n(), K = s.K();
        V *P = this->P(), *a = this->a(), *g = this->g(), *k = gains + i * K;
        const V* row = C + i * K;
        const double* c = numbers(row);
        combine(c, P, nullptr, g, s);
        V sums{}, parts{};
        for (int64_t q = 0; q < K; ++q) {
            sums += row[q] * g[q];
            parts += row[q] * row[q] * variances()[q];
        }
        const double error = y - dot(row, a, s), most = r[i] + total(parts);
        f[i] = r[i] + total(sums);
        if (!(f[i] > rounding * double(n) * most)) {
            f[i] = 0;
            log.squares += certain_square(error, y, most) - kLogTwoPi;
            for (int64_t q = 0; q < K; ++q) k[q] = V{};
            return;
        }
        const double inverse = 1 / f[i];
        log.add(f[i], error * error * inverse);
        for (int64_t q = 0; q < K; ++q) {
            k[q] = g[q] * inverse;
            a[q] += k[q] * error;
        }
        // X = P (I - c k'), then (I - k c') X + r k k'.
        for (int64_t j = 0; j < n; ++j)
            for (int64_t q = 0; q < K; ++q) P[j * K + q] -= numbers(g)[j] * k[q];
        combine(c, P, nullptr, g, s);
        for (int64_t q = 0; q < K; ++q) g[q] = r[i] * k[q] - g[q];
        for (int64_t j = 0; j < n; ++j)
            for (int64_t q = 0; q < K; ++q) P[j * K + q] += numbers(k)[j] * g[q];
    }

    inline void observe_step(int64_t t) {
        const int64_t n = s.n(), K = s.K();
        for (int64_t q = 0; q < K; ++q) variances()[q] = V{};
        for (int64_t j = 0; j < n; ++j) numbers(variances())[j] = numbers(P())[j * s.S() + j];
        for (int64_t i = 0; i < rows; ++i) observe(i, task.y[t * task.m + i]);
        copy_rows(P(), s, filtered);
        mirror(filtered, s);
        for (int64_t q = 0; q < K; ++q) mean[q] = a()[q];
    }

    inline void predict() {
        combine(numbers(mean), At, b, a(), s);
        multiply(numbers(filtered), s.S(), 1, At, nullptr, X, s);
        multiply(numbers(A), s.S(), 1, X, Q, P(), s);
    }

    // From the gains of the step just taken; see the fields.
    double settle() {
        const int64_t n = s.n(), K = s.K(), m = task.m;
        double log_det = 0;
        for (int64_t j = 0; j < n; ++j) {
            for (int64_t q = 0; q < K; ++q) Zt[j * K + q] = V{};
            numbers(Zt + j * K)[j] = 1;
        }
        for (int64_t i = 0; i < rows; ++i) {
            const V *c = C + i * K, *k = gains + i * K;
            for (int64_t q = 0; q < K; ++q) z[i * K + q] = V{};
            for (int64_t j = 0; j < n; ++j) {
                const double product = dot(c, Zt + j * K, s);
                numbers(z + i * K)[j] = product;
                for (int64_t q = 0; q < K; ++q) Zt[j * K + q] -= k[q] * product;
            }
            for (int64_t l = 0; l < i; ++l) {
                w[i * m + l] = dot(c, G + l * K, s);
                for (int64_t q = 0; q < K; ++q) G[l * K + q] -= k[q] * w[i * m + l];
            }
            for (int64_t q = 0; q < K; ++q) G[i * K + q] = k[q];
            inverse[i] = 1 / f[i];
            log_det += __builtin_log(f[i]);
        }
        for (int64_t j = 0; j < n; ++j) combine(numbers(Zt + j * K), At, nullptr, AZt + j * K, s);
        for (int64_t i = 0; i < rows; ++i) combine(numbers(G + i * K), At, nullptr, AG + i * K, s);
        return log_det;
    }

    // One step of means alone, and the prediction of the next; returns the sum of squares.
    inline double steady_step(const double* y) {
        const int64_t K = s.K(), m = task.m;
        V* a = this->a();
        double squares = 0;
        for (int64_t i = 0; i < rows; ++i) {
            double error = y[i] - dot(z + i * K, a, s);
            for (int64_t l = 0; l < i; ++l) error -= w[i * m + l] * y[l];
            squares += error * error * inverse[i];
        }
        V next[fixed_K];
        V* to = N ? next : g();
        combine(numbers(a), Zt, nullptr, mean, s);
        for (int64_t q = 0; q < K; ++q) to[q] = b[q];
        for (int64_t l = 0; l < rows; ++l)
            for (int64_t q = 0; q < K; ++q) {
                mean[q] += G[l * K + q] * y[l];
                to[q] += AG[l * K + q] * y[l];
            }
        combine(numbers(a), AZt, to, X, s);
        for (int64_t q = 0; q < K; ++q) a[q] = X[q];
        return squares;
    }

    void write_predicted(int64_t t) {
        const int64_t n = s.n();
        if (task.predicted_means) unpad(a(), 1, s, task.predicted_means + t * n);
        if (!task.predicted_covs) return;
        copy_rows(P(), s, X);
        mirror(X, s);
        unpad(X, n, s, task.predicted_covs + t * n * n);
    }

    // Steps from t on as long as the block stays the same; returns the first that is left. P is
    // the covariance predicted for the step before t, and stays it.
    int64_t steady_steps(int64_t t, int32_t block) {
        const int64_t n = s.n();
        const double log_det = settle();
        combine(numbers(mean), At, b, a(), s);
        for (; t < task.T && (!task.which || task.which[t] == block); ++t) {
            if (t + 1 < task.T && task.b.stride) pad(task.b.at(t + 1), 1, s, b);
            write_predicted(t);
            const double squares = steady_step(task.y + t * task.m);
            const double log_density = -0.5 * (log_det + squares);
            log.sum += log_density;
            if (task.log_densities) task.log_densities[t] = log_density;
            if (task.means) unpad(mean, 1, s, task.means + t * n);
            if (task.covs && (task.fill || t + 1 == task.T))
                unpad(filtered, n, s, task.covs + t * n * n);
            if (task.is_steady) task.is_steady[t] = 1;
        }
        return t;
    }

    void run() {
        const int64_t n = s.n();
        const bool may_settle = task.A.stride == 0 && task.Q.stride == 0 && task.tolerance > 0;
        Settling settling{task.tolerance};
        int64_t age = 0;  // steps with the present block
        int32_t block = -1;
        for (int64_t t = 0; t < task.T; ++t) {
            const int32_t now = task.which ? task.which[t] : 0;
            if (now != block) {
                block = now;
                load_block(block);
                age = 0;
                settling.last = -1;
            }
            bool is_settled = false;
            if (may_settle) {
                if (age % kLook == kLook - 1) copy_rows(P(), s, before);
                if (age && age % kLook == 0)
                    is_settled = settling.look(change_of(before, P(), scale, s));
                ++age;
            }
            write_predicted(t);
            if (task.log_densities) log.flush();
            const double sum = log.sum;
            if (is_settled) copy_rows(P(), s, before);
            observe_step(t);
            if (task.log_densities) {
                log.flush();
                task.log_densities[t] = log.sum - sum;
            }
            if (task.means) unpad(mean, 1, s, task.means + t * n);
            if (task.covs) unpad(filtered, n, s, task.covs + t * n * n);
            if (task.is_steady) task.is_steady[t] = 0;
            if (t + 1 == task.T) break;
            load_transition(t + 1, t == 0);
            for (int64_t i = 0; i < rows; ++i) is_settled &= f[i] > 0;  // else each y is checked
            if (is_settled) {
                copy_rows(before, s, P());  // predicted, and it stays so
                t = steady_steps(t + 1, block) - 1;
                age = 0;
                settling.last = -1;
            } else {
                predict();
            }
        }
        log.flush();
        task.log_density = log.sum;
    }
};

}  // namespace
}  // namespace tagloom
