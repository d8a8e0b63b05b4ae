// The recursions of a linear Gaussian state-space model, compiled once per instruction set
// (kalman_kernels.cpp). With state x_t [n] and observation y_t [m],
//
//   x_t = A x_{t-1} + b + w,  w ~ N(0, Q)        y_t = C x_t + v,  v ~ N(0, diag r)
//
// forward   the Kalman filter. Observations enter one component after another, so that nothing
//           larger than a number is inverted, and a missing component is simply left out:
//             g = P c,  f = c'g + r,  k = g / f,  mean += k (y - c'mean),
//             P = (I - k c') P (I - k c')' + r k k'     (Joseph's form)
//           A correlated noise v is made diagonal before, see kalman.cpp.
// lanes     the same for several sequences, one in each lane of a vector.
// backward  the smoother of Rauch, Tung and Striebel, its covariances as a sum of positive terms:
//             J = P A' (A P A' + Q)^-1,  T = I - J A,  M = T P T' + J Q J'
//             mean = mean + J (mean_next - A mean - b),  V = J V_next J' + M
//           J and M of several steps are computed side by side, one step in each lane.
//
// There are kernels of a fixed size for up to kMostFixed states, and one with blocked loops for
// any number. Everything here is plain data: this header is included by files built for different
// machines.
#pragma once

#include <cstdint>

namespace tagloom {

constexpr int64_t kMostFixed = 8;
// With more states, the numbers of a step fill the registers of several sequences many times over:
// 8 sequences of 6 states take 1.3 times as long in lanes as one after another.
constexpr int64_t kMostInLanes = 4;

// A component without any variance left has no density. Log densities leave out log(2 pi) of each
// observed component, to be subtracted later; such a component adds it, so that the two cancel.
constexpr double kLogTwoPi = 1.8378770664093454836;

// A matrix or vector for each step, or one for all of them (stride 0).
struct StepArray {
    const double* data = nullptr;
    int64_t stride = 0;
    const double* at(int64_t t) const { return data + t * stride; }
    StepArray from(int64_t t) const { return {at(t), stride}; }
};

// What may be observed at a step: rows c with their noise r. Steps with other components missing
// have other blocks. Rows from `rows` up to m are 0, their noise is 1.
struct KalmanBlocks {
    const double* C = nullptr;      // [blocks, m, n]
    const double* r = nullptr;      // [blocks, m]
    const int32_t* rows = nullptr;  // [blocks]
};

struct KalmanForward {
    int64_t n = 0, m = 0, T = 0;
    StepArray A, Q, b;  // from step t - 1 to step t; entry 0 is not read
    KalmanBlocks blocks;
    const int32_t* which = nullptr;  // [T] the block of each step; null: the first for all
    const double* y = nullptr;       // [T, m] in the rows of the block
    double tolerance = 0;            // of the steady state, see kalman.hpp; 0: none is looked for
    bool fill = true;                // write covs also where they are those of the step before
    double* workspace = nullptr;     // KalmanKernels::workspace(n, m) numbers, 64-byte aligned

    double* mean = nullptr;  // [n] in: predicted at step 0; out: predicted for step T - 1
    double* cov = nullptr;   // [n, n] likewise
    // Each may be null.
    double* predicted_means = nullptr;  // [T, n] of x_t given y_0 .. y_{t-1}
    double* predicted_covs = nullptr;   // [T, n, n]
    double* means = nullptr;            // [T, n] of x_t given y_0 .. y_t
    double* covs = nullptr;             // [T, n, n]
    uint8_t* is_steady = nullptr;       // [T] whether covs[t] is that of the step before
    double* log_densities = nullptr;    // [T] of y_t given y_0 .. y_{t-1}, without log(2 pi)
    double log_density = 0;             // out: their sum
};

// One sequence per lane, with the same A and Q at every step.
constexpr int64_t kKalmanLanes = 8;
struct KalmanLanes {
    int64_t n = 0, m = 0;
    int64_t lanes = 0;  // in use, at most KalmanKernels::lanes
    const double *A = nullptr, *Q = nullptr;
    KalmanBlocks blocks;
    int32_t empty = 0;  // the block without rows
    double* workspace = nullptr;
    int64_t T[kKalmanLanes] = {};  // descending
    StepArray b[kKalmanLanes];
    const int32_t* which[kKalmanLanes] = {};
    const double* y[kKalmanLanes] = {};
    const double* mean[kKalmanLanes] = {};  // [n] predicted at step 0
    const double* cov[kKalmanLanes] = {};   // [n, n]
    double* predicted_means[kKalmanLanes] = {};
    double* predicted_covs[kKalmanLanes] = {};
    double* means[kKalmanLanes] = {};
    double* covs[kKalmanLanes] = {};
    double* log_densities[kKalmanLanes] = {};
    double log_density[kKalmanLanes] = {};
};

struct KalmanBackward {
    int64_t n = 0, T = 0;
    StepArray A, Q, b;
    double tolerance = 0;
    const uint8_t* is_steady = nullptr;  // [T] of the forward pass, or null
    double* workspace = nullptr;
    // In: filtered. Out: smoothed. The last step is left as it is.
    double* means = nullptr;  // [T, n]
    double* covs = nullptr;   // [T, n, n]
    double* lags = nullptr;   // [T - 1, n, n] covariance of x_{t+1} and x_t, or null
    // Sums of the above over all steps but the last, or null.
    const int32_t* which = nullptr;  // [T] the sum that covs[t] belongs to; null: the first
    double* sum_covs = nullptr;      // [blocks, n, n] +=
    double* sum_lags = nullptr;      // [n, n] +=
};

// The gain of one step back, for sampling: x_t given x_{t+1} and y_0 .. y_t has mean
// mean + J (x_{t+1} - A mean - b) and covariance M.
struct KalmanGain {
    int64_t n = 0;
    const double *A = nullptr, *Q = nullptr;
    const double* cov = nullptr;  // [n, n] filtered, of step t
    double* workspace = nullptr;
    double* J = nullptr;  // [n, n]
    double* M = nullptr;  // [n, n]
};

struct KalmanKernels {
    int64_t lanes;
    int64_t (*workspace)(int64_t n, int64_t m);
    void (*forward)(KalmanForward&);
    void (*forward_lanes)(KalmanLanes&);  // n <= kMostInLanes
    void (*backward)(const KalmanBackward&);
    void (*gain)(const KalmanGain&);
};

const KalmanKernels& kalman_kernels_baseline();
const KalmanKernels& kalman_kernels_avx2();
const KalmanKernels& kalman_kernels_avx512();

}  // namespace tagloom
