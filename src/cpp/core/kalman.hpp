// Kalman filter, smoother and posterior sampling over batches of sequences; the recursions are in
// kalman_kernels.hpp, starts of infinite variance in kalman_diffuse.hpp. This file prepares what
// the kernels expect (rows of components with independent noise) and shares the sequences out
// among threads. Results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/kalman_diffuse.hpp"
#include "core/kalman_kernels.hpp"

namespace tagloom {

// x_t = A x_{t-1} + b + w,  w ~ N(0, Q);  y_t = C x_t + d + v,  v ~ N(0, R);  x_0 ~ N(mean, cov).
// Arrays with a stride have an entry for each step of the whole batch.
struct KalmanSystem {
    int64_t n = 0, m = 0;
    StepArray A, Q, b;  // [., n, n], [., n, n], [., n] into step t; those into step 0 are not read
    StepArray C, R, d;  // [., m, n], [., m, m], [., m]
    const double* mean = nullptr;  // [n]
    const double* cov = nullptr;   // [n, n]
    const uint8_t* is_diffuse =
        nullptr;  // [n] 1 for states of infinite variance at step 0; null: none
    // Covariances are taken as steady when all their later changes together are estimated to be
    // below this, in units of the standard deviations; 0: never.
    double tolerance = 0;
};

// Sequences of observations, and which components are missing (NaN) where. Steps that miss the same
// components share a pattern; pattern 0 is all observed, pattern 1 nothing.
class KalmanSequences {
  public:
    KalmanSequences(const double* y, int64_t m, const int64_t* offsets, int64_t N);

    const double* y;  // [steps, m]
    int64_t m, N;
    std::vector<int64_t> offsets;    // [N + 1]
    std::vector<int32_t> which;      // [steps], empty if nothing is missing
    std::vector<uint8_t> observed;   // [patterns, m]
    std::vector<int64_t> counts;     // [patterns] components observed
    std::vector<uint8_t> is_uneven;  // [N] whether patterns change often

    int64_t patterns() const { return int64_t(counts.size()); }
    int64_t pattern(int64_t step) const { return which.empty() ? 0 : which[step]; }
};

// Arrays for the whole batch; each may be null but log_likelihoods.
struct KalmanResults {
    double* log_likelihoods = nullptr;  // [N]
    double* log_densities = nullptr;    // [steps] of y_t given y_0 .. y_{t-1}
    int64_t* n_diffuse = nullptr;       // [N] steps before the start is resolved
    double* predicted_means = nullptr;  // [steps, n]
    double* predicted_covs = nullptr;   // [steps, n, n]
    double* means = nullptr;            // [steps, n]
    double* covs = nullptr;             // [steps, n, n]
    // Of the smoother, which needs means and covs:
    double* lags = nullptr;      // [steps, n, n] covariance of x_{t+1} and x_t; not of last steps
    double* sum_covs = nullptr;  // [patterns, n, n] of all steps
    double* sum_lags = nullptr;  // [n, n] of all steps but the last of each sequence
};

void kalman_filter(const KalmanSystem& system, const KalmanSequences& sequences,
                   const KalmanResults& results, int64_t threads);
void kalman_smooth(const KalmanSystem& system, const KalmanSequences& sequences,
                   const KalmanResults& results, int64_t threads);
// Draws n_samples paths of states for each sequence, given its observations. noise is standard
// normal, [n_samples, steps + N, n]: sequence i begins at its offset + i, and has a row more than
// steps. states is [n_samples, steps, n]. Returns the first sequence whose start is not resolved,
// or -1.
int64_t kalman_sample(const KalmanSystem& system, const KalmanSequences& sequences,
                      const double* noise, int64_t n_samples, double* states, int64_t threads);

// Runs the model: states [T, n] and observations [T, m] from standard normal noise of the same
// shapes. The first state is `state`, or drawn if that is null.
void kalman_generate(const KalmanSystem& system, int64_t T, const double* state,
                     const double* state_noise, const double* observation_noise, double* states,
                     double* observations);

// What is known of the present state, one observation after another.
struct KalmanBelief {
    std::vector<double> mean, cov;      // [n], [n, n] given all observations so far
    double log_density = 0;             // of the latest observation given those before
    std::optional<DiffuseStart> start;  // as long as a variance is infinite
};

// One step on; `before` is null at the first one.
KalmanBelief kalman_update(const KalmanSystem& system, const KalmanBelief* before, const double* y);

}  // namespace tagloom
