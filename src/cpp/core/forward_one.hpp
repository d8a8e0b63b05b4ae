// The forward pass of sum-times over one sequence, labels across the vector, in double. In the
// letters of the loops:
//
//   row[t, y]         = exp(emit[t, y] - m[t]),  m[t] = max_y emit[t, y]
//   alpha[0, y]       = row[0, y]                (emit[0] has start added to it)
//   alpha[t, g*Y + c] = row[t, c] * sum_a alpha[t-1, a*G + g] * P[g, a, c], times 2^-e[t]
//   log_z             = log sum_s alpha[T-1, s] * stop[s] + sum_t m[t] + ln 2 * sum_t e[t]
//                       + what P and stop lack
//
// e[t] is the exponent of the largest. With edge scores P or row differ by position: for G = 1,
// P[a, c] = exp(moves[a, c] + edge[t, a, c] - its maximum); for G > 1 all moves of a block have the
// same label before them, p = g % Y, and row[t, p, c] = exp(emit[t, c] + edge[t, p, c] - m[t]).
#pragma once

#include "core/one.hpp"

namespace tagloom {
namespace {

template <class In>
class ForwardOne {
  public:
    explicit ForwardOne(const OneForward<In>& task)
        : task_(task),
          moves_(*task.moves),
          Y_(moves_.Y),
          S_(moves_.states()),
          width_(S_ + 8),
          by_block_(task.edge && moves_.G > 1) {}

    // step(t, before, alpha) fills alpha[t], t > 0, once fill(t) has prepared P() and row().
    template <class Step>
    void run(const Step& step) {
        Sum offset;           // what the exponentials lack
        double exponent = 0;  // whole numbers, so exact
        offset.add(task_.offsets.stop);
        for (int64_t t = 0; t < task_.T; ++t) {
            double* alpha = alpha_of(t);
            fill(t, offset);
            if (t == 0)
                for (int64_t s = 0; s < S_; ++s) alpha[s] = s < Y_ ? task_.row[s] : 0;
            else
                step(t, alpha_of(t - 1), alpha);
            exponent += one_rescale(alpha, S_, task_.guard, bad_);
        }
        const double* last = alpha_of(task_.T - 1);
        double z = 0;
        for (int64_t s = 0; s < S_; ++s) z += last[s] * stop(s);
        offset.add(ln2 * exponent);
        offset.add(log(z));
        *task_.log_z = offset.total();
        *task_.ok = z > 0 && !bad_;
    }
    void run() {
        run([&](int64_t, const double* before, double* alpha) {
            one_forward<SumTimes>(moves_, P_, before, [&](int64_t g) { return row(g); }, alpha);
        });
    }

    // Prepares the moves into t, and adds what their exponentials lack.
    void fill(int64_t t, Sum& offset) {
        if (by_block_ && t > 0) {
            P_ = moves_.matrix(t);
            offset.add(fill_rows_by_block(t));
            offset.add(task_.offsets.levels[level(t)]);
            return;
        }
        for (int64_t y = 0; y < Y_; ++y)
            task_.row[y] = double(task_.emit[t * Y_ + y]) + (t == 0 ? moves_.start[y] : 0);
        offset.add(one_exp(task_.row, Y_, task_.guard, bad_));
        if (t == 0) return;
        if (task_.edge) {
            P_ = task_.matrix;
            offset.add(fill_matrix(t));
        } else {
            P_ = moves_.matrix(t);
            offset.add(task_.offsets.levels[level(t)]);
        }
    }

    const double* P() const { return P_; }
    // row[t], as the moves of block g see it.
    const double* row(int64_t g) const {
        return by_block_ ? task_.matrix + g % Y_ * moves_.stride : task_.row;
    }
    double* alpha_of(int64_t t) const {
        return task_.alpha + (task_.keep_alpha ? t : t % 2) * width_;
    }
    double stop(int64_t s) const { return moves_.stop[moves_.G == 1 ? s : s % Y_]; }
    int64_t level(int64_t t) const { return (t < moves_.levels ? t : moves_.levels) - 1; }
    bool& bad() { return bad_; }

  private:
    // P of position t, for G = 1.
    double fill_matrix(int64_t t) {
        one_scores(moves_, task_.edge, t, task_.matrix);
        for (int64_t a = 0; a < Y_; ++a)
            for (int64_t c = Y_; c < moves_.stride; ++c)
                task_.matrix[a * moves_.stride + c] = minus_inf<double>;
        return one_exp(task_.matrix, Y_ * moves_.stride, task_.guard, bad_);
    }

    // row[t, p, c] in the rows of task.matrix.
    double fill_rows_by_block(int64_t t) {
        const int64_t stride = moves_.stride;
        for (int64_t p = 0; p < Y_; ++p) {
            double* row = task_.matrix + p * stride;
            for (int64_t c = 0; c < Y_; ++c)
                row[c] = double(task_.emit[t * Y_ + c]) + double(task_.edge[(t * Y_ + p) * Y_ + c]);
            for (int64_t c = Y_; c < stride; ++c) row[c] = minus_inf<double>;
        }
        return one_exp(task_.matrix, Y_ * stride, task_.guard, bad_);
    }

    const OneForward<In>& task_;
    const Moves<double>& moves_;
    const int64_t Y_, S_, width_;
    const bool by_block_;
    const double* P_ = nullptr;  // [G, Y, stride] of the moves into t
    bool bad_ = false;           // something reachable was too small to be trusted
};

}  // namespace
}  // namespace tagloom
