// L-BFGS, and OWL-QN where there is an L1 penalty, on the objective of a Problem:
//
//   F(theta) = sum_i weight_i * nll_i + l2 * |theta|^2 + l1 * |theta|_1
//
// The direction comes from a table of dot products (Chen, Wang and Zhou, 2014): each iteration
// reads the history once to extend the table, in blocks that stay in the cache, and once to add up
// the direction, where the classic two loops read it four times. Partial sums are added in the
// order of the blocks, so that threads do not change a bit.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "core/linear.hpp"

namespace tagloom {

struct Penalty {
    double l1 = 0, l2 = 0;
};

struct Iteration {
    double loss = 0;       // with penalties, at the new theta
    double grad_norm = 0;  // of the gradient; of the pseudo-gradient with l1
    double norm = 0;       // of theta
    int64_t evaluations = 0;
    bool moved = true;  // false: no step along the gradient lowers the loss any more
};

// All that one iteration hands to the next. Pairs of the history are oldest first.
struct LbfgsState {
    std::vector<double> theta, grad;             // grad without l1
    std::vector<std::vector<float>> s, y;        // [k][n] steps, and what they did to the gradient
    std::vector<double> sy, yy;                  // [k, k] dot products s_i y_j and y_i y_j
    std::vector<double> s_dot_grad, y_dot_grad;  // [k] with the pseudo-gradient
    double loss = 0;
    bool evaluated = false;  // whether loss and grad are those of theta

    int64_t pairs() const { return static_cast<int64_t>(s.size()); }
};

class Lbfgs {
  public:
    Lbfgs(const Problem& problem, Penalty penalty, int64_t memory);

    Iteration step(int64_t threads);

    LbfgsState state;
    std::mutex mutex;      // for callers that share it
    const int64_t memory;  // most pairs of the history

  private:
    double evaluate(const std::vector<double>& theta, std::vector<double>& grad, int64_t threads);
    double pseudo_gradient(double theta, double grad) const;
    void pseudo_gradients(const std::vector<double>& theta, const std::vector<double>& grad,
                          int64_t lo, int64_t hi, double* out) const;  // of weights [lo, hi)
    bool search(bool first, Iteration& iteration, int64_t threads);
    void remember(double loss, int64_t threads);
    void find_direction(int64_t threads);
    void forget();
    // Adds up columns[j] over all pieces of [0, n): piece(lo, hi, sums).
    std::vector<double> add_pieces(
        int64_t columns, int64_t threads,
        const std::function<void(int64_t lo, int64_t hi, double* sums)>& piece) const;

    const Problem& problem;
    const Penalty penalty;
    const int64_t n;
    std::vector<double> trial, trial_grad;  // theta and grad of the line search
    std::vector<double> direction;
    double slope = 0, grad_norm = 0;  // of the pseudo-gradient: along direction; its length
    // What evaluate() found of its theta: its length, that of the pseudo-gradient, and, without l1,
    // the slope along direction.
    double evaluated_norm = 0, evaluated_grad_norm = 0, derivative = 0;
};

}  // namespace tagloom
