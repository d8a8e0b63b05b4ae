// The Kalman filter over several sequences, one in each lane; see kalman_kernels.hpp for the
// recursion. Included by kalman_kernels.cpp alone.
#pragma once

#include "core/kalman_forward.hpp"
#include "core/kalman_kernels.hpp"
#include "core/kalman_rows.hpp"

namespace tagloom {
namespace {

template <int N>
struct LanePass {
    KalmanLanes& task;
    V P[N][N];          // predicted, then filtered; the lower half is computed, and mirrored
    V a[N];             // predicted, then filtered
    V *C, *r;           // [m, N], [m] of the blocks of the present step
    int64_t rows = 0;   // the most of all lanes
    int32_t blocks[W];  // of the lanes
    V product = broadcast(1.0), squares{};
    Bits<double> exponents{};
    int64_t running;  // lanes that have not ended
    double log_densities[W] = {};

    explicit LanePass(KalmanLanes& task) : task(task), running(task.lanes) {
        RowSpace space{task.workspace};
        C = space.rows(task.m * N);
        r = space.rows(task.m);
        for (int64_t l = 0; l < W; ++l) blocks[l] = -1;
        for (int i = 0; i < N; ++i) {
            a[i] = gather([&](int64_t l) { return task.mean[l][i]; });
            for (int j = 0; j < N; ++j)
                P[i][j] = gather([&](int64_t l) { return task.cov[l][i * N + j]; });
        }
    }

    // A vector of one number per lane; lanes that are not in use repeat the first.
    template <class Number>
    V gather(const Number& number) {
        double x[W];
        for (int64_t l = 0; l < W; ++l) x[l] = number(l < task.lanes ? l : 0);
        return load(x);
    }

    void load_blocks(int64_t t) {
        bool is_same = true;
        for (int64_t l = 0; l < W; ++l) {
            const bool runs = l < running;
            const int32_t now = !runs ? task.empty : task.which[l] ? task.which[l][t] : 0;
            is_same &= now == blocks[l];
            blocks[l] = now;
        }
        if (is_same) return;
        const int64_t m = task.m;
        rows = 0;
        for (int64_t l = 0; l < W; ++l)
            if (task.blocks.rows[blocks[l]] > rows) rows = task.blocks.rows[blocks[l]];
        for (int64_t i = 0; i < rows; ++i) {
            double x[W];
            for (int64_t l = 0; l < W; ++l) x[l] = task.blocks.r[blocks[l] * m + i];
            r[i] = load(x);
            for (int j = 0; j < N; ++j) {
                for (int64_t l = 0; l < W; ++l) x[l] = task.blocks.C[(blocks[l] * m + i) * N + j];
                C[i * N + j] = load(x);
            }
        }
    }

    // Row i of the blocks. A row that a lane lacks is 0 with a noise of 1 and an observation of 0:
    // its variance is 1, its gain 0.
    void observe(int64_t i, V y, const V (&variances)[N]) {
        const V* c = C + i * N;
        V g[N], k[N], x[N], f = r[i], most = r[i], error = y;
        for (int j = 0; j < N; ++j) {
            g[j] = P[j][0] * c[0];
            for (int k = 1; k < N; ++k) g[j] += P[j][k] * c[k];
            f += c[j] * g[j];
            most += c[j] * c[j] * variances[j];
            error -= c[j] * a[j];
        }
        const auto is_free = f > rounding * double(N) * most;
        const V inverse = is_free ? 1 / f : V{};
        if (total(is_free ? V{} : broadcast(1.0)) > 0)
            for (int64_t l = 0; l < running; ++l)
                if (!is_free[l]) squares[l] += certain_square(error[l], y[l], most[l]) - kLogTwoPi;
        squares += error * error * inverse;
        Bits<double> exponent;
        product *= is_free ? f : broadcast(1.0);
        product *= scale_of<double>(product, exponent);
        exponents += exponent;
        for (int j = 0; j < N; ++j) {
            k[j] = g[j] * inverse;
            a[j] += k[j] * error;
        }
        // X = P (I - c k'), then (I - k c') X + r k k'.
        for (int p = 0; p < N; ++p)
            for (int q = 0; q < N; ++q) P[p][q] -= g[p] * k[q];
        for (int q = 0; q < N; ++q) {
            x[q] = r[i] * k[q];
            for (int p = 0; p < N; ++p) x[q] -= c[p] * P[p][q];
        }
        for (int p = 0; p < N; ++p)
            for (int q = 0; q <= p; ++q) P[p][q] += k[p] * x[q];
        mirror();
    }

    void mirror() {
        for (int p = 1; p < N; ++p)
            for (int q = 0; q < p; ++q) P[q][p] = P[p][q];
    }

    void predict(int64_t t) {
        V AP[N][N], next[N];
        const double* A = task.A;
        for (int i = 0; i < N; ++i) {
            next[i] = gather([&](int64_t l) { return l < running ? task.b[l].at(t)[i] : 0; });
            for (int k = 0; k < N; ++k) next[i] += A[i * N + k] * a[k];
            for (int j = 0; j < N; ++j) {
                AP[i][j] = A[i * N] * P[0][j];
                for (int k = 1; k < N; ++k) AP[i][j] += A[i * N + k] * P[k][j];
            }
        }
        for (int i = 0; i < N; ++i) {
            a[i] = next[i];
            for (int j = 0; j <= i; ++j) {
                V sum = broadcast(task.Q[i * N + j]);
                for (int k = 0; k < N; ++k) sum += AP[i][k] * A[j * N + k];
                P[i][j] = sum;
            }
        }
        mirror();
    }

    void write(double* const* means, double* const* covs, int64_t t) {
        double x[N * N][W];  // vectors that become numbers by way of memory
        if (means[0]) {
            for (int i = 0; i < N; ++i) store(x[i], a[i]);
            for (int64_t l = 0; l < running; ++l)
                for (int i = 0; i < N; ++i) means[l][t * N + i] = x[i][l];
        }
        if (covs[0]) {
            for (int e = 0; e < N * N; ++e) store(x[e], P[e / N][e % N]);
            for (int64_t l = 0; l < running; ++l)
                for (int e = 0; e < N * N; ++e) covs[l][t * N * N + e] = x[e][l];
        }
    }

    double log_density(int64_t l) const {
        constexpr double ln2 = 0.693147180559945309417;
        return -0.5 * (__builtin_log(product[l]) + ln2 * double(exponents[l]) + squares[l]);
    }

    void run() {
        for (int64_t t = 0; t < task.T[0]; ++t) {
            load_blocks(t);
            write(task.predicted_means, task.predicted_covs, t);
            V variances[N];
            for (int i = 0; i < N; ++i) variances[i] = P[i][i];
            for (int64_t i = 0; i < rows; ++i) {
                auto y = [&](int64_t l) { return l < running ? task.y[l][t * task.m + i] : 0; };
                observe(i, gather(y), variances);
            }
            write(task.means, task.covs, t);
            for (int64_t l = 0; l < running; ++l)
                if (task.log_densities[l]) {
                    const double sum = log_density(l);
                    task.log_densities[l][t] = sum - log_densities[l];
                    log_densities[l] = sum;
                }
            for (; running && task.T[running - 1] == t + 1; --running)
                task.log_density[running - 1] = log_density(running - 1);
            if (t + 1 < task.T[0]) predict(t + 1);
        }
    }
};

}  // namespace
}  // namespace tagloom
