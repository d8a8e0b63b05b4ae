// Back to smoothed moments: the backward recursion over one sequence of a batch.

#include <algorithm>

#include "core/kalman_batch.hpp"

namespace tagloom {

KalmanBackward KalmanBatch::backward(const SequencePass& sequence, int64_t begin,
                                     double* workspace) {
    const int64_t n = system_.n, first = sequence.first + begin;
    KalmanBackward task;
    task.n = n;
    task.T = sequence.T - begin;
    task.A = system_.A.from(first);
    task.Q = system_.Q.from(first);
    task.b = system_.b.from(first);
    task.tolerance = system_.tolerance;
    task.is_steady = sequence.is_steady.data() + begin;
    task.workspace = workspace;
    task.means = results_.means + first * n;
    task.covs = results_.covs + first * n * n;
    task.lags = at(results_.lags, first * n * n);
    task.which = sequences_.which.empty() ? nullptr : sequences_.which.data() + first;
    return task;
}

void KalmanBatch::smooth(const SequencePass& sequence, int64_t chunk, double* workspace) {
    if (!sequence.T) return;
    const int64_t n = system_.n, size = n * n, end = sequence.first + sequence.T - 1;
    double* sum_covs =
        results_.sum_covs ? sum_covs_.data() + chunk * sequences_.patterns() * size : nullptr;
    double* sum_lags = results_.sum_lags ? sum_lags_.data() + chunk * size : nullptr;
    if (sum_covs)
        for (int64_t j = 0; j < size; ++j)
            sum_covs[sequences_.pattern(end) * size + j] += results_.covs[end * size + j];
    const int64_t resolved = std::max<int64_t>(sequence.begin - 1, 0);
    if (sequence.is_resolved) {
        KalmanBackward task = backward(sequence, resolved, workspace);
        task.sum_covs = sum_covs;
        task.sum_lags = sum_lags;
        kernels_.backward(task);
    }
    if (sequence.history.size() > 1) {
        KalmanBackward task = backward(sequence, 0, workspace);
        task.sum_covs = sum_covs;
        task.sum_lags = sum_lags;
        sequence.history.smooth(task, kernels_);
    }
}

}  // namespace tagloom
