// The start of a sequence of which nothing is known: some states have an infinite variance at
// first. This is exact, not a large number. With d standing for the unknown start of those states,
//
//   x_t = a + B d + e,  e ~ N(0, P)      given y_0 .. y_t, for every d
//
// and a, B, P follow an ordinary Kalman filter (Rosenberg 1973, de Jong 1991). What the
// observations say about d is kept as the triangular factor of its information matrix: R d = z with
// unit noise, and H d = h without any, from components that have no noise. The start is resolved as
// soon as d is determined; from then on x_t is Gaussian and the kernels take over. The limit of the
// log-likelihood plus half a log of the infinite variance per resolved direction is that of Durbin
// and Koopman (2012, section 7.2.2).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/dense_matrix.hpp"
#include "core/kalman_kernels.hpp"

namespace tagloom {

// What is known of d: d = mean + factor u + free w, where u is standard normal and w infinite.
struct DiffuseSolution {
    DenseMatrix mean;    // [q, 1]
    DenseMatrix factor;  // [q, directions with noise]
    DenseMatrix free;    // [q, unresolved directions]
    double log_density;  // of the observations so far, without log(2 pi)
    bool is_resolved() const { return free.cols == 0; }
};

// A state that may have infinite variances, +-inf in cov.
struct DiffuseMoments {
    DenseMatrix mean, cov;  // [n, 1], [n, n]
};

class DiffuseStart {
  public:
    // The states with `is_diffuse` start at an unknown d; mean and cov are of the others.
    DiffuseStart(int64_t n, const double* mean, const double* cov, const uint8_t* is_diffuse);

    void predict(const double* A, const double* Q, const double* b);
    // One step: rows of a block, see KalmanBlocks.
    void observe(const double* C, const double* r, int64_t rows, const double* y);
    DiffuseSolution solve() const;
    DiffuseMoments moments(const DiffuseSolution& solution) const;
    int64_t size() const { return n_; }

    // All of it as numbers, and back; nothing if they are not such numbers.
    std::vector<double> pack() const;
    static std::optional<DiffuseStart> unpack(const std::vector<double>& numbers);

  private:
    friend class DiffuseHistory;
    DiffuseStart() = default;
    void observe(const double* c, double r, double y, const DenseMatrix& before);
    void learn(std::vector<double> row, double value);
    void constrain(const std::vector<double>& row, double value, double most, double fit);

    int64_t n_ = 0, q_ = 0;
    DenseMatrix a_, B_, P_;  // [n, 1], [n, q], [n, n]
    DenseMatrix R_, z_;      // [q, q] upper triangle, [q, 1]
    DenseMatrix H_, h_;      // [constraints, q], [constraints, 1]
    double squares_ = 0, log_det_ = 0;
};

// The filtered steps of a diffuse start, kept to go back through them.
class DiffuseHistory {
  public:
    void keep(const DiffuseStart& step) { steps_.push_back(step); }
    int64_t size() const { return int64_t(steps_.size()); }
    void clear() { steps_.clear(); }

    // Smooths the steps before the last, whose smoothed moments are in task.means and task.covs.
    // Of a start that is never resolved, the last one is the last of the sequence. Sums of the task
    // get all steps but the last.
    void smooth(const KalmanBackward& task, const KalmanKernels& kernels) const;
    // Draws the steps before the last, given the last one in `states` [size, n]. noise is
    // [size, n]: row t for step t, that of the last step for d.
    void sample(const KalmanBackward& task, const KalmanKernels& kernels, const double* noise,
                double* states) const;

  private:
    struct Back;  // x_t = J x_{t+1} + K d + k + noise
    Back back(const KalmanBackward& task, const KalmanKernels& kernels, int64_t t) const;
    std::vector<DiffuseStart> steps_;
};

}  // namespace tagloom
