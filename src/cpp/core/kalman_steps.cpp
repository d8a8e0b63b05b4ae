// One step after another: sequences drawn from the model, and single observations.

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/dense_matrix.hpp"
#include "core/dispatch.hpp"
#include "core/kalman.hpp"
#include "core/kalman_batch.hpp"
#include "core/kalman_blocks.hpp"

namespace tagloom {
namespace {

// to = offset + M x + root e
void draw(const double* offset, const double* M, const double* x, int64_t n,
          const DenseMatrix& root, const double* e, double* to) {
    for (int64_t i = 0; i < root.rows; ++i) {
        to[i] = offset[i];
        for (int64_t j = 0; M && j < n; ++j) to[i] += M[i * n + j] * x[j];
        for (int64_t j = 0; j <= i; ++j) to[i] += root(i, j) * e[j];
    }
}

}  // namespace

void kalman_generate(const KalmanSystem& system, int64_t T, const double* state,
                     const double* state_noise, const double* observation_noise, double* states,
                     double* observations) {
    const int64_t n = system.n, m = system.m;
    if (!T) return;
    DenseMatrix root = SemiFactor(DenseMatrix(system.cov, n, n)).root();
    DenseMatrix observed = SemiFactor(DenseMatrix(system.R.data, m, m)).root();
    draw(system.mean, nullptr, nullptr, n, root, state_noise, states);
    if (state) std::copy_n(state, n, states);
    for (int64_t t = 0; t < T; ++t) {
        double* x = states + t * n;
        if (t) {
            if (t == 1 || system.Q.stride)
                root = SemiFactor(DenseMatrix(system.Q.at(t), n, n)).root();
            draw(system.b.at(t), system.A.at(t), x - n, n, root, state_noise + t * n, x);
        }
        if (t && system.R.stride) observed = SemiFactor(DenseMatrix(system.R.at(t), m, m)).root();
        draw(system.d.at(t), system.C.at(t), x, n, observed, observation_noise + t * m,
             observations + t * m);
    }
}

namespace {

// The first step, or the next one after those that left a variance infinite.
KalmanBelief update_start(const KalmanSystem& system, const KalmanBelief* before,
                          const BlockTable& table, const double* y) {
    DiffuseStart start = before
                             ? *before->start
                             : DiffuseStart(system.n, system.mean, system.cov, system.is_diffuse);
    const double log_density = before ? start.solve().log_density : 0;
    if (before) start.predict(system.A.data, system.Q.data, system.b.data);
    start.observe(table.C.data(), table.r.data(), table.n_rows[0], y);
    const DiffuseSolution solution = start.solve();
    const DiffuseMoments moments = start.moments(solution);
    KalmanBelief after{moments.mean.data, moments.cov.data, solution.log_density - log_density, {}};
    if (!solution.is_resolved()) after.start = std::move(start);
    return after;
}

}  // namespace

KalmanBelief kalman_update(const KalmanSystem& system, const KalmanBelief* before,
                           const double* y) {
    const int64_t n = system.n, m = system.m;
    std::vector<uint8_t> observed(m);
    for (int64_t i = 0; i < m; ++i) observed[i] = !std::isnan(y[i]);
    BlockTable table;
    table.add(system.C.data, system.R.data, n, m, observed.data());
    std::vector<double> rows(m);
    table.rows[0].write_observation(y, system.d.data, m, rows.data());
    const double constant = 0.5 * kLogTwoPi * double(table.n_rows[0]);
    bool has_start = before && before->start;
    for (int64_t i = 0; !before && system.is_diffuse && i < n; ++i)
        has_start |= system.is_diffuse[i] != 0;
    KalmanBelief after;
    if (has_start) {
        after = update_start(system, before, table, rows.data());
        after.log_density -= constant;
        return after;
    }
    after.mean.assign(system.mean, system.mean + n);
    after.cov.assign(system.cov, system.cov + n * n);
    if (before) {
        const DenseMatrix A(system.A.data, n, n);
        const DenseMatrix mean(before->mean.data(), n, 1), cov(before->cov.data(), n, n);
        after.mean = (A * mean + DenseMatrix(system.b.data, n, 1)).data;
        after.cov = (sandwich(A, cov) + DenseMatrix(system.Q.data, n, n)).data;
    }
    const KalmanKernels& kernels = tagloom::kernels().kalman();
    KalmanWorkspace workspace(kernels.workspace(n, m));
    KalmanForward task;
    task.n = n;
    task.m = m;
    task.T = 1;
    task.A = system.A;
    task.Q = system.Q;
    task.b = system.b;
    task.blocks = table.blocks();
    task.y = rows.data();
    task.workspace = workspace.data();
    task.mean = after.mean.data();
    task.cov = after.cov.data();
    KalmanBelief out{std::vector<double>(n), std::vector<double>(n * n), 0, {}};
    task.means = out.mean.data();
    task.covs = out.cov.data();
    kernels.forward(task);
    out.log_density = task.log_density - constant;
    return out;
}

}  // namespace tagloom
