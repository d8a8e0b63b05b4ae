// Back to paths of states drawn at random, given the observations.

#include <algorithm>
#include <vector>

#include "core/dense_matrix.hpp"
#include "core/kalman_batch.hpp"

namespace tagloom {

namespace {

// A state given the next one and the observations so far: mean + J (x_next - A mean - b), with a
// noise of root root'.
struct StateDraw {
    DenseMatrix J, root;  // [n, n] each; the last state of a sequence has no J

    void draw(const double* mean, const double* A, const double* b, const double* next,
              const double* noise, double* to) const {
        const int64_t n = root.rows;
        std::copy_n(mean, n, to);
        for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j <= i; ++j) to[i] += root(i, j) * noise[j];
        for (int64_t k = 0; k < J.rows; ++k) {
            double error = next[k] - b[k];
            for (int64_t j = 0; j < n; ++j) error -= A[k * n + j] * mean[j];
            for (int64_t i = 0; i < n; ++i) to[i] += J(i, k) * error;
        }
    }
};

}  // namespace

// Forward filtering, backward sampling: the last state first, then each one given the next.
void KalmanBatch::sample(const SequencePass& sequence, double* workspace) {
    if (!sequence.T) return;
    const int64_t n = system_.n, steps = sequences_.offsets.back();
    const int64_t resolved = std::max<int64_t>(sequence.begin - 1, 0), last = sequence.T - 1;
    auto noise = [&](int64_t k, int64_t t) {
        const int64_t row = sequence.first + sequence.number + t;
        return draws_.noise + (k * (steps + sequences_.N) + row) * n;
    };
    auto state = [&](int64_t k, int64_t t) {
        return draws_.states + (k * steps + sequence.first + t) * n;
    };
    auto cov = [&](int64_t t) { return results_.covs + (sequence.first + t) * n * n; };
    StateDraw now{{}, SemiFactor(DenseMatrix(cov(last), n, n)).root()};
    int64_t kept = -1;  // the step whose filtered covariance `now` is made from
    for (int64_t t = last; t >= resolved; --t) {
        const int64_t step = sequence.first + t, next = t < last ? step + 1 : step;
        const double *A = system_.A.at(next), *Q = system_.Q.at(next), *b = system_.b.at(next);
        int64_t owner = t;
        while (sequence.is_steady[owner]) --owner;
        if (t < last && owner != kept) {
            DenseMatrix M(n, n);
            now.J = DenseMatrix(n, n);
            kernels_.gain({n, A, Q, cov(owner), workspace, now.J.data.data(), M.data.data()});
            now.root = SemiFactor(M).root();
            kept = owner;
        }
        for (int64_t k = 0; k < draws_.n_samples; ++k)
            now.draw(results_.means + step * n, A, b, state(k, t) + n, noise(k, t), state(k, t));
    }
    if (sequence.history.size() < 2) return;
    const KalmanBackward task = backward(sequence, 0, workspace);
    // The row after the last is for the unknown start.
    std::vector<double> rows((resolved + 1) * n);
    for (int64_t k = 0; k < draws_.n_samples; ++k) {
        std::copy_n(noise(k, 0), resolved * n, rows.data());
        std::copy_n(noise(k, sequence.T), n, rows.data() + resolved * n);
        sequence.history.sample(task, kernels_, rows.data(), state(k, 0));
    }
}

}  // namespace tagloom
