// The forward pass of sum-times over one sequence, labels across the vector, in double. In the
// symbols of the loops:
//
//   row[t, y]         = exp(emit[t, y] - m[t]),  m[t] = max_y emit[t, y]
//   alpha[0, y]       = row[0, y]                (emit[0] has start added to it)
//   alpha[t, g*Y + c] = row[t, c] * sum_a alpha[t-1, a*G + g] * P[g, a, c], times 2^-e[t]
//   log_z             = log sum_s alpha[T-1, s] * stop[s] + sum_t m[t] + ln 2 * sum_t e[t]
//                       + the offsets of P and stop
//
// e[t] is the exponent of the largest. With edge scores P or row differ by position: for G = 1,
// P[a, c] = exp(transitions[a, c] + edge[t, a, c] - its maximum); for G > 1 all transitions of a
// block have the same label before them, p = g % Y, and row[t, p, c] = exp(emit[t, c] + edge[t, p,
// c] - m[t]).
#pragma once

#include "core/one.hpp"

namespace tagloom {
namespace {

template <class In>
class ForwardOne {
  public:
    explicit ForwardOne(const OneForward<In>& task)
        : task_(task),
          transitions_(*task.transitions),
          Y_(transitions_.Y),
          S_(transitions_.states()),
          width_(S_ + 8),
          by_block_(task.edge && transitions_.G > 1) {}

    // step(t, before, alpha) fills alpha[t], t > 0, after fill(t) has prepared P() and row();
    // begin() is called before the first position. Both are called again if delta is needed for
    // each state.
    template <class Begin, class Step>
    void run(const Begin& begin, const Step& step) {
        pass<false>(begin, step);
        if (unproven_) pass<true>(begin, step);
    }
    void run() {
        run([] {},
            [&](int64_t, const double* before, double* alpha) {
                one_forward<SumTimes>(
                    transitions_, P_, before, [&](int64_t g) { return row(g); }, alpha);
            });
    }

    // Prepares the transitions into t, and adds the offsets of their exponentials.
    void fill(int64_t t, Sum& offset) {
        if (by_block_ && t > 0) {
            P_ = transitions_.matrix(t);
            offset.add(fill_rows_by_block(t));
            offset.add(task_.offsets.levels[transitions_.level(t)]);
            return;
        }
        for (int64_t y = 0; y < Y_; ++y)
            task_.row[y] = double(task_.emit[t * Y_ + y]) + (t == 0 ? transitions_.start[y] : 0);
        offset.add(one_exp(task_.row, Y_, task_.guard.is_on, small_));
        if (t == 0) return;
        if (task_.edge) {
            P_ = task_.matrix;
            offset.add(fill_matrix(t));
        } else {
            P_ = transitions_.matrix(t);
            offset.add(task_.offsets.levels[transitions_.level(t)]);
        }
    }

    const double* P() const { return P_; }
    // row[t] for the transitions of block g.
    const double* row(int64_t g) const {
        return by_block_ ? task_.matrix + g % Y_ * transitions_.stride : task_.row;
    }
    double* alpha_of(int64_t t) const {
        return task_.alpha + (task_.keep_alpha ? t : t % 2) * width_;
    }
    double stop(int64_t s) const { return transitions_.stop[transitions_.G == 1 ? s : s % Y_]; }
    // e[t] is kept in the padding of the row.
    double& exponent(int64_t t) const { return alpha_of(t)[width_ - 1]; }

  private:
    template <bool each, class Begin, class Step>
    void pass(const Begin& begin, const Step& step) {
        Sum offset;            // of the exponentials
        double exponents = 0;  // whole numbers, so exact
        offset.add(task_.offsets.stop);
        small_ = task_.guard.small_transitions;
        delta_ = 0;
        for (int64_t i = 0; each && i < 2 * width_; ++i) task_.guard.delta[i] = 0;
        begin();
        for (int64_t t = 0; t < task_.T; ++t) {
            double* alpha = alpha_of(t);
            fill(t, offset);
            if (t == 0)
                for (int64_t s = 0; s < S_; ++s) alpha[s] = s < Y_ ? task_.row[s] : 0;
            else
                step(t, alpha_of(t - 1), alpha);
            const bool is_lossy = small_;  // what is small from here on is lost from t + 1 on
            const double e = one_rescale(alpha, S_, task_.guard.is_on, small_);
            if (is_lossy) follow_losses<each>(t, scaled(1, -e));
            exponent(t) = e;
            exponents += e;
        }
        const double z = dot_stop(alpha_of(task_.T - 1));
        offset.add(ln2 * exponents);
        offset.add(log(z));
        *task_.log_z = offset.total();
        const bool proven = !small_ || prove<each>(z);
        unproven_ = z > 0 && !proven;
        *task_.ok = z > 0 && proven;
    }

    // delta[t], in the units of alpha[t], which has been rescaled by a power of two.
    template <bool each>
    void follow_losses(int64_t t, double scale) {
        const double added = newly_lost<double>(Y_, 1, delta_);
        if constexpr (each) {
            double* delta = delta_of(t);
            if (t > 0)
                one_forward<SumTimes>(
                    transitions_, P_, delta_of(t - 1), [&](int64_t g) { return row(g); }, delta);
            for (int64_t s = 0; s < S_; ++s) delta[s] = (delta[s] + added) * scale;
            delta_ = one_max(delta, S_);
        } else {
            delta_ = ((t > 0 ? delta_ * growth(t) : 0) + added) * scale;
        }
    }

    // max over the states g*Y + c of row[t, c] * sum_a P[g, a, c], or more.
    double growth(int64_t t) const {
        double most = 0;
        for (int64_t c = 0; c < Y_; ++c) {
            double row = by_block_ ? 0 : task_.row[c], sum = 0;
            for (int64_t p = 0; by_block_ && p < Y_; ++p) {
                const double x = task_.matrix[p * transitions_.stride + c];
                row = x > row ? x : row;
            }
            if (task_.edge && !by_block_)
                for (int64_t a = 0; a < Y_; ++a) sum += P_[a * transitions_.stride + c];
            else
                sum = task_.guard.sums[transitions_.level(t) * Y_ + c];
            most = row * sum > most ? row * sum : most;
        }
        return most;
    }

    template <bool each>
    bool prove(double z) const {
        double lost = 0;
        if (each)
            lost = dot_stop(delta_of(task_.T - 1));
        else
            for (int64_t s = 0; s < S_; ++s) lost += delta_ * stop(s);
        return is_proven(z, lost, S_, 2, delta_);
    }

    double dot_stop(const double* x) const {
        double sum = 0;
        for (int64_t s = 0; s < S_; ++s) sum += x[s] * stop(s);
        return sum;
    }
    double* delta_of(int64_t t) const { return task_.guard.delta + t % 2 * width_; }

    // P of position t, for G = 1.
    double fill_matrix(int64_t t) {
        one_scores(transitions_, task_.edge, t, task_.matrix);
        for (int64_t a = 0; a < Y_; ++a)
            for (int64_t c = Y_; c < transitions_.stride; ++c)
                task_.matrix[a * transitions_.stride + c] = minus_inf<double>;
        return one_exp(task_.matrix, Y_ * transitions_.stride, task_.guard.is_on, small_);
    }

    // row[t, p, c] in the rows of task.matrix.
    double fill_rows_by_block(int64_t t) {
        const int64_t stride = transitions_.stride;
        for (int64_t p = 0; p < Y_; ++p) {
            double* row = task_.matrix + p * stride;
            for (int64_t c = 0; c < Y_; ++c)
                row[c] = double(task_.emit[t * Y_ + c]) + double(task_.edge[(t * Y_ + p) * Y_ + c]);
            for (int64_t c = Y_; c < stride; ++c) row[c] = minus_inf<double>;
        }
        return one_exp(task_.matrix, Y_ * stride, task_.guard.is_on, small_);
    }

    const OneForward<In>& task_;
    const Transitions<double>& transitions_;
    const int64_t Y_, S_, width_;
    const bool by_block_;
    const double* P_ = nullptr;  // [G, Y, stride] of the transitions into t
    bool small_ = false;         // some number below `tiny` was met
    double delta_ = 0;           // max_s delta[t, s]
    bool unproven_ = false;
};

}  // namespace
}  // namespace tagloom
