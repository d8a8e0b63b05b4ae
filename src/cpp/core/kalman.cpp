#include "core/kalman.hpp"

#include <vector>

#include "core/kalman_batch.hpp"

namespace tagloom {

void kalman_filter(const KalmanSystem& system, const KalmanSequences& sequences,
                   const KalmanResults& results, int64_t threads) {
    KalmanBatch(system, sequences, results, KalmanGoal::filter).run(threads);
}

void kalman_smooth(const KalmanSystem& system, const KalmanSequences& sequences,
                   const KalmanResults& results, int64_t threads) {
    KalmanBatch(system, sequences, results, KalmanGoal::smooth).run(threads);
}

int64_t kalman_sample(const KalmanSystem& system, const KalmanSequences& sequences,
                      const double* noise, int64_t n_samples, double* states, int64_t threads) {
    const int64_t steps = sequences.offsets.back(), n = system.n;
    std::vector<double> likelihoods(sequences.N), means(steps * n), covs(steps * n * n);
    std::vector<int64_t> n_diffuse(sequences.N);
    KalmanResults results;
    results.log_likelihoods = likelihoods.data();
    results.means = means.data();
    results.covs = covs.data();
    results.n_diffuse = n_diffuse.data();
    KalmanBatch(system, sequences, results, KalmanGoal::sample, {noise, n_samples, states})
        .run(threads);
    for (int64_t i = 0; i < sequences.N; ++i) {
        const int64_t T = sequences.offsets[i + 1] - sequences.offsets[i];
        if (T && n_diffuse[i] == T) return i;
    }
    return -1;
}

}  // namespace tagloom
