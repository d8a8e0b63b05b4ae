// L-BFGS, or OWL-QN with an L1 penalty, on an objective f:
//
//   F(theta) = f(theta) + l2 * |theta|^2 + l1 * |theta|_1
//
// The caller drives it: ask() for the point where f is needed next, compute loss and gradient there
// by any means, tell() them. step() is that loop around an Objective. Both take the same steps, to
// the last bit.
//
// The direction comes from a table of dot products (Chen, Wang and Zhou, 2014). Each iteration
// reads the history once to extend the table, in blocks that fit the cache, and once to compute the
// direction; the classic two-loop recursion reads it four times. Partial sums are added in the
// order of the blocks, so results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <variant>
#include <vector>

#include "core/objective.hpp"

namespace tagloom {

struct Penalty {
    double l1 = 0, l2 = 0;
};

struct Iteration {
    double loss = 0;       // with penalties, at the new theta
    double grad_norm = 0;  // of the gradient; of the pseudo-gradient with l1
    double norm = 0;       // of theta
    int64_t evaluations = 0;
    bool moved = true;  // false: no step along the gradient lowers the loss
};

// Changes of theta and of the gradient, oldest first.
template <class T>
struct LbfgsPairs {
    std::vector<std::vector<T>> s, y;  // [k][n]
};

// The state between iterations.
struct LbfgsState {
    std::vector<double> theta, grad;  // grad without l1
    // In the precision of the objective: rounding the pairs of an exact one to float32 would let
    // runs that differ in their last bits drift apart.
    std::variant<LbfgsPairs<float>, LbfgsPairs<double>> history;
    std::vector<double> sy, yy;                  // [k, k] dot products s_i y_j and y_i y_j
    std::vector<double> s_dot_grad, y_dot_grad;  // [k] with the pseudo-gradient
    double loss = 0;
    bool evaluated = false;  // whether loss and grad are at theta

    int64_t pairs() const {
        return std::visit([](const auto& of) { return static_cast<int64_t>(of.s.size()); },
                          history);
    }
};

class Lbfgs {
  public:
    // mask [n]: weights that are false stay 0; null: all are free. For rounding see Objective.
    Lbfgs(int64_t n, Penalty penalty, int64_t memory, const uint8_t* mask = nullptr,
          double rounding = 1e-14);

    // One iteration on an objective of n weights.
    Iteration step(const Objective& objective, int64_t threads);

    // The point [n] at which loss and gradient are needed next: the same one until tell(). Null if
    // no step along the gradient lowers the loss; `iteration.moved` is then false.
    const double* ask(int64_t threads);
    // Takes the loss at that point, without penalties; its gradient must be in gradient(), zero for
    // masked weights. True: the iteration is complete, see `iteration`. False: the line search
    // continues, ask again. std::invalid_argument without a point from ask().
    bool tell(double loss, int64_t threads);
    // The same with a gradient [n] of the caller; values at masked weights are ignored.
    bool tell(double loss, const double* grad, int64_t threads);
    double* gradient();                                           // [n]
    bool is_asked() const { return has_point; }                   // whether a point awaits tell()
    bool is_exact() const { return state.history.index() == 1; }  // whether pairs are double

    void start_from(const double* theta);
    // A state saved between ask() and tell() is that of the beginning of the iteration: its line
    // search is repeated, with the same numbers.
    void restore(LbfgsState state);

    LbfgsState state;
    Iteration iteration;   // the last complete one, or the one in progress
    std::mutex mutex;      // for callers that share the optimiser
    const int64_t memory;  // most pairs in the history

  private:
    enum class Verdict { found, failed, again };

    // The line search along the direction. low is the best step so far; once high is finite, the
    // two bracket a step that satisfies the Wolfe conditions.
    struct Search {
        double step = 0;        // of the trial
        double f0 = 0, d0 = 0;  // loss and slope at step 0
        double expected = 0;    // with l1: pseudo-gradient · (trial - theta)
        double low = 0, f_low = 0, d_low = 0;
        double high = 0, f_high = 0, d_high = 0;
        int64_t trials = 0;
        bool settles = false;  // the trial is `low` again and will be accepted
    };

    double add_penalties(double loss, const std::vector<double>& theta, std::vector<double>& grad,
                         int64_t threads);
    double pseudo_gradient(double theta, double grad) const;
    void pseudo_gradients(const std::vector<double>& theta, const std::vector<double>& grad,
                          int64_t lo, int64_t hi, double* out) const;  // of weights [lo, hi)
    bool begin_search(int64_t threads);
    bool begin_again(int64_t threads);
    void try_step(double step, int64_t threads);
    Verdict judge(double loss);
    Verdict judge_orthant(double loss);
    Verdict judge_wolfe(double loss);
    void finish(bool moved, int64_t threads);
    void remember(double loss, int64_t threads);
    void make_room();
    void drop_newest();
    void find_direction(int64_t threads);
    void clear_history();
    // Sums `columns` values over all pieces of [0, n): piece(lo, hi, sums) adds those of [lo, hi).
    std::vector<double> add_pieces(
        int64_t columns, int64_t threads,
        const std::function<void(int64_t lo, int64_t hi, double* sums)>& piece) const;

    const Penalty penalty;
    const int64_t n;
    const double rounding;
    std::vector<uint8_t> mask;  // [n] or empty
    bool is_searching = false;  // whether trial is the next point
    bool has_point = false;     // whether a point awaits tell()
    bool is_complete = true;    // whether `iteration` is complete
    Search search;
    std::vector<double> trial, trial_grad;  // theta and grad of the line search
    std::vector<double> direction;
    double slope = 0, grad_norm = 0;  // pseudo-gradient · direction; norm of the pseudo-gradient
    // At the last point passed to tell(): norms of theta and of the pseudo-gradient and, without
    // l1, the slope along direction.
    double trial_norm = 0, trial_grad_norm = 0, derivative = 0;
};

}  // namespace tagloom
