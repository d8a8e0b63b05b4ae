// The smoother of one sequence, in rows, and its gains; see kalman_kernels.hpp for the recursion.
// Included by kalman_kernels.cpp alone.
//
// Where the predicted covariance A P A' + Q is singular, any J with J (A P A' + Q) = P A' will do:
// pivots that are rounding count as 0. M is a sum of positive terms whatever the error of J.
#pragma once

#include "core/kalman_forward.hpp"
#include "core/kalman_kernels.hpp"
#include "core/kalman_rows.hpp"

namespace tagloom {
namespace {

// J' and M of one step, in rows.
template <int N>
struct StepGain {
    const Shape<N> s;
    V *AP, *R, *L, *T, *Tt;    // [n, K] each
    double *pivots, *inverse;  // [n]

    StepGain(Shape<N> s, RowSpace& space) : s(s) {
        V** matrices[] = {&AP, &R, &L, &T, &Tt};
        for (V** matrix : matrices) *matrix = space.rows(s.n() * s.K());
        pivots = space.take(s.n());
        inverse = space.take(s.n());
    }

    // row -= factor * other from the vector with column j on
    void subtract(double* row, double factor, const double* other, int64_t j) {
        V* to = reinterpret_cast<V*>(row);
        const V* from = reinterpret_cast<const V*>(other);
        for (int64_t q = j / W; q < s.K(); ++q) to[q] -= factor * from[q];
    }

    // R = L D L'; L has a diagonal of ones, which are not stored.
    void factor() {
        const int64_t n = s.n(), S = s.S();
        double *r = numbers(R), *l = numbers(L);
        for (int64_t j = 0; j < n; ++j) pivots[j] = r[j * S + j];
        for (int64_t j = 0; j < n; ++j) {
            const double pivot = r[j * S + j];
            inverse[j] = pivot > rounding * double(n) * pivots[j] ? 1 / pivot : 0;
            for (int64_t i = j + 1; i < n; ++i) {
                l[i * S + j] = r[i * S + j] * inverse[j];
                subtract(r + i * S, l[i * S + j], r + j * S, j);
            }
        }
    }

    // X = R^-1 X
    void solve(V* X) {
        const int64_t n = s.n(), S = s.S();
        double *x = numbers(X), *l = numbers(L);
        for (int64_t i = 1; i < n; ++i)
            for (int64_t k = 0; k < i; ++k) subtract(x + i * S, l[i * S + k], x + k * S, 0);
        for (int64_t i = n - 1; i >= 0; --i) {
            for (int64_t q = 0; q < s.K(); ++q) X[i * s.K() + q] *= inverse[i];
            for (int64_t k = i + 1; k < n; ++k) subtract(x + i * S, l[k * S + i], x + k * S, 0);
        }
    }

    void compute(const V* A, const V* At, const V* Q, const V* P, V* Jt, V* M) {
        const int64_t n = s.n(), S = s.S();
        multiply(numbers(A), S, 1, P, nullptr, AP, s);
        multiply(numbers(AP), S, 1, At, Q, R, s);
        factor();
        copy_rows(AP, s, Jt);
        solve(Jt);
        multiply(numbers(Jt), 1, S, A, nullptr, T, s);
        for (int64_t j = 0; j < n * s.K(); ++j) T[j] = -T[j];
        for (int64_t j = 0; j < n; ++j) numbers(T)[j * S + j] += 1;
        copy_rows(T, s, Tt);
        for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < n; ++j) numbers(Tt)[j * S + i] = numbers(T)[i * S + j];
        multiply(numbers(T), S, 1, P, nullptr, AP, s);
        multiply(numbers(Jt), 1, S, Q, nullptr, R, s);
        multiply(numbers(AP), S, 1, Tt, nullptr, M, s);
        multiply(numbers(R), S, 1, Jt, M, M, s);
        mirror(M, s);
    }
};

// J' and M of W steps, one in each lane, as rows of K vectors. P is [W, n, n]; A and Q are of each
// lane's step, or one for all with a stride of 0.
template <int N>
struct LaneGains {
    V P[N][N], A[N][N], Q[N][N], AP[N][N], L[N][N], Jt[N][N], T[N][N];
    V inverse[N];

    static void read(const double* from, int64_t stride, int64_t lanes, V (&to)[N][N]) {
        for (int64_t e = 0; e < N * N; ++e) {
            double x[W];
            for (int64_t l = 0; l < W; ++l) x[l] = from[(l < lanes ? l : lanes - 1) * stride + e];
            to[e / N][e % N] = load(x);
        }
    }

    void factor() {
        for (int j = 0; j < N; ++j) {
            V pivot = Q[j][j];
            for (int k = 0; k < N; ++k) pivot += AP[j][k] * A[j][k];
            const V limit = rounding * double(N) * pivot;
            V scaled[N];  // row j of L D
            for (int k = 0; k < j; ++k) {
                scaled[k] = L[j][k];  // still the product of L and D
                L[j][k] *= inverse[k];
                pivot -= L[j][k] * scaled[k];
            }
            inverse[j] = pivot > limit ? 1 / pivot : V{};
            for (int i = j + 1; i < N; ++i) {
                V sum = Q[i][j];
                for (int k = 0; k < N; ++k) sum += AP[i][k] * A[j][k];
                for (int k = 0; k < j; ++k) sum -= L[i][k] * L[j][k];
                L[i][j] = sum;
            }
        }
    }

    void solve() {
        for (int c = 0; c < N; ++c) {
            for (int i = 0; i < N; ++i) {
                V x = AP[i][c];
                for (int k = 0; k < i; ++k) x -= L[i][k] * Jt[k][c];
                Jt[i][c] = x;
            }
            for (int i = N - 1; i >= 0; --i) {
                V x = Jt[i][c] * inverse[i];
                for (int k = i + 1; k < N; ++k) x -= L[k][i] * Jt[k][c];
                Jt[i][c] = x;
            }
        }
    }

    // The lower half of M, element by element into M[n, n].
    void spread(V (&M)[N][N]) {
        for (int i = 0; i < N; ++i)
            for (int j = 0; j < N; ++j) {
                V sum = i == j ? broadcast(1.0) : V{};
                for (int k = 0; k < N; ++k) sum -= Jt[k][i] * A[k][j];
                T[i][j] = sum;
            }
        for (int i = 0; i < N; ++i) {
            V TP[N], JQ[N];
            for (int j = 0; j < N; ++j) {
                TP[j] = JQ[j] = V{};
                for (int k = 0; k < N; ++k) {
                    TP[j] += T[i][k] * P[k][j];
                    JQ[j] += Jt[k][i] * Q[k][j];
                }
            }
            for (int j = 0; j <= i; ++j) {
                V sum{};
                for (int k = 0; k < N; ++k) sum += TP[k] * T[j][k] + JQ[k] * Jt[k][j];
                M[i][j] = M[j][i] = sum;
            }
        }
    }
};

template <int N>
struct BackwardPass {
    static constexpr int64_t kSteps = N ? W : 1;  // gains computed at once

    const KalmanBackward& task;
    const Shape<N> s;
    V *A, *At, *Q, *b;          // [n, K], [n, K], [n, K], [K]
    V *Jt, *M;                  // [kSteps, n, K]
    V *P, *cov, *lag, *before;  // [n, K] cov and mean are those of the step after
    V *mean, *here, *error;     // [K]
    V *sum_covs, *sum_lags;     // [n, K]
    double* scale;              // [n]
    RowSpace space;
    int32_t block = -1;

    explicit BackwardPass(const KalmanBackward& task)
        : task(task), s(task.n), space{task.workspace} {
        const int64_t n = s.n(), K = s.K();
        V** matrices[] = {&A, &At, &Q, &P, &cov, &lag, &before, &sum_covs, &sum_lags};
        for (V** matrix : matrices) *matrix = space.rows(n * K);
        V** vectors[] = {&b, &mean, &here, &error};
        for (V** vector : vectors) *vector = space.rows(K);
        scale = space.take(n);
        Jt = space.rows(kSteps * n * K);
        M = space.rows(kSteps * n * K);
        for (int64_t j = 0; j < n * K; ++j) sum_covs[j] = sum_lags[j] = V{};
    }

    // A, Q and b of the way from step t to the next.
    void load_transition(int64_t t, bool is_first) {
        if (is_first || task.A.stride) {
            pad(task.A.at(t + 1), s.n(), s, A);
            pad_transposed(task.A.at(t + 1), s, At);
        }
        if (is_first || task.Q.stride) pad(task.Q.at(t + 1), s.n(), s, Q);
        if (is_first || task.b.stride) pad(task.b.at(t + 1), 1, s, b);
    }

    // Gains of `count` steps from t on, with covariances that begin at `covs`.
    void compute_gains(int64_t t, const double* covs, int64_t count) {
        const int64_t n = s.n(), K = s.K();
        if constexpr (N > 0) {
            LaneGains<N> lanes;
            lanes.read(covs, n * n, count, lanes.P);
            lanes.read(task.A.at(t + 1), task.A.stride, count, lanes.A);
            lanes.read(task.Q.at(t + 1), task.Q.stride, count, lanes.Q);
            for (int i = 0; i < N; ++i)
                for (int j = 0; j < N; ++j) {
                    V sum{};
                    for (int k = 0; k < N; ++k) sum += lanes.A[i][k] * lanes.P[k][j];
                    lanes.AP[i][j] = sum;
                }
            lanes.factor();
            lanes.solve();
            lanes.spread(lanes.AP);
            for (int64_t i = 0; i < n; ++i)
                for (int64_t j = 0; j < n; ++j)
                    for (int64_t l = 0; l < count; ++l) {
                        numbers(Jt + (l * n + i) * K)[j] = lanes.Jt[i][j][l];
                        numbers(M + (l * n + i) * K)[j] = lanes.AP[i][j][l];
                    }
        } else {
            RowSpace rest = space;
            load_transition(t, false);
            pad(covs, n, s, P);
            StepGain<N>(s, rest).compute(A, At, Q, P, Jt, M);
        }
    }

    inline void smooth_mean(int64_t t, const V* J) {
        const int64_t n = s.n(), K = s.K();
        pad(task.means + t * n, 1, s, here);
        combine(numbers(here), At, b, error, s);
        for (int64_t q = 0; q < K; ++q) error[q] = mean[q] - error[q];
        combine(numbers(error), J, here, mean, s);
        unpad(mean, 1, s, task.means + t * n);
    }

    inline void smooth_cov(const V* J, const V* noise) {
        multiply(numbers(cov), s.S(), 1, J, nullptr, lag, s);
        multiply(numbers(J), 1, s.S(), lag, noise, cov, s);
        mirror(cov, s);
    }

    void flush_covs() {
        const int64_t n = s.n();
        double* to = block < 0 ? nullptr : task.sum_covs + block * n * n;
        for (int64_t i = 0; to && i < n; ++i)
            for (int64_t j = 0; j < n; ++j) to[i * n + j] += numbers(sum_covs)[i * s.S() + j];
        for (int64_t j = 0; j < n * s.K(); ++j) sum_covs[j] = V{};
    }

    inline void write_covs(int64_t t) {
        const int64_t n = s.n(), size = n * s.K();
        unpad(cov, n, s, task.covs + t * n * n);
        if (task.lags) unpad(lag, n, s, task.lags + t * n * n);
        if (task.sum_lags)
            for (int64_t j = 0; j < size; ++j) sum_lags[j] += lag[j];
        if (!task.sum_covs) return;
        const int32_t now = task.which ? task.which[t] : 0;
        if (now != block) {
            flush_covs();
            block = now;
        }
        for (int64_t j = 0; j < size; ++j) sum_covs[j] += cov[j];
    }

    // Steps from t back to the one whose covariance the forward pass has kept: all have its gain.
    int64_t steady_steps(int64_t t) {
        int64_t first = t;
        while (task.is_steady[first]) --first;
        compute_gains(first, task.covs + first * s.n() * s.n(), 1);
        Settling settling{task.tolerance};
        bool is_settled = false;
        for (int64_t age = 0; t >= first; --t, ++age) {
            if (task.b.stride) pad(task.b.at(t + 1), 1, s, b);
            smooth_mean(t, Jt);
            if (!is_settled) {
                if (age % kLook == kLook - 1) copy_rows(cov, s, before);
                smooth_cov(Jt, M);
                if (age % kLook == kLook - 1)
                    is_settled = settling.look(change_of(before, cov, scale, s));
            }
            write_covs(t);
        }
        return t;
    }

    void run() {
        const int64_t n = s.n(), K = s.K();
        if (task.T < 2) return;
        pad(task.covs + (task.T - 1) * n * n, n, s, cov);
        pad(task.means + (task.T - 1) * n, 1, s, mean);
        load_transition(0, true);
        for (int64_t t = task.T - 2; t >= 0;) {
            if (task.is_steady && task.is_steady[t]) {
                t = steady_steps(t);
                continue;
            }
            int64_t count = 1;
            while (count < kSteps && count <= t && !(task.is_steady && task.is_steady[t - count]))
                ++count;
            compute_gains(t - count + 1, task.covs + (t - count + 1) * n * n, count);
            for (int64_t l = count - 1; l >= 0; --l, --t) {
                load_transition(t, false);
                smooth_mean(t, Jt + l * n * K);
                smooth_cov(Jt + l * n * K, M + l * n * K);
                write_covs(t);
            }
        }
        if (task.sum_covs) flush_covs();
        for (int64_t i = 0; task.sum_lags && i < n; ++i)
            for (int64_t j = 0; j < n; ++j)
                task.sum_lags[i * n + j] += numbers(sum_lags)[i * s.S() + j];
    }
};

}  // namespace
}  // namespace tagloom
