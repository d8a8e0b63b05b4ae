// Runs the kernels of sum-times on the items of a plan, and keeps expected counts apart until they
// may be added. Shared by the drivers dense_sum.cpp and dense_rows.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/dense.hpp"
#include "core/dense_forward.hpp"

namespace tagloom {

constexpr int64_t kShards = 16;  // partial sums, whatever the number of threads

// Expected counts [levels, G, Y, Y], [Y] and [Y] apart from those of others, to be added later or
// never.
template <class In>
struct ExpectedCounts {
    std::vector<double> transitions, start, stop;

    ExpectedCounts(const DenseBatch<In>& batch, const Expected<In>& goal)
        : transitions(goal.transitions ? batch.levels * batch.G * batch.Y * batch.Y : 0),
          start(goal.start ? batch.Y : 0),
          stop(goal.stop ? batch.Y : 0) {}

    // The results of the goal, with the counts redirected to this.
    Expected<In> redirect(Expected<In> goal) {
        if (goal.transitions) goal.transitions = transitions.data();
        if (goal.start) goal.start = start.data();
        if (goal.stop) goal.stop = stop.data();
        return goal;
    }
    void add_to(const Expected<In>& goal) const {
        auto add = [](const std::vector<double>& from, double* to) {
            for (size_t j = 0; j < from.size(); ++j) to[j] += from[j];
        };
        add(transitions, goal.transitions);
        add(start, goal.start);
        add(stop, goal.stop);
    }
    void clear() {
        for (auto* counts : {&transitions, &start, &stop})
            std::fill(counts->begin(), counts->end(), 0.0);
    }
};

template <class In>
bool counts_anything(const Expected<In>& expected) {
    return expected.transitions || expected.start || expected.stop;
}

template <class In>
class DenseSummation {
  public:
    DenseSummation(const DenseBatch<In>& batch, const double* weight, const Expected<In>& expected,
                   const ForwardPlan<In>& forward, double* log_z, bool* ok)
        : batch_(batch),
          forward_(forward),
          weight_(weight),
          backward_(expected.marginals || expected.pairs || counts_anything(expected)),
          log_z_(log_z),
          ok_(ok) {}

    // Sequence i. Its marginals and pairs are at rows `place` and on of `expected`; emit [T, Y] are
    // its scores.
    void single(int64_t i, const In* emit, int64_t place, const Expected<In>& expected) const {
        OneSum<In> task{};
        const int64_t width = batch_.G * batch_.Y + 8;
        Pieces<double> scratch(forward_.one_size(i, backward_) + 2 * width);
        forward_.fill(task, scratch, i, backward_);
        task.emit = emit;
        task.token = place;
        task.weight = weight_ ? weight_[i] : 1.0;
        task.beta = scratch.take(width);
        task.b = scratch.take(width);
        task.log_z = log_z_ + i;
        task.ok = ok_ + i;
        // A sequence that underflowed must not contribute to the sums.
        if (task.guard.is_on && counts_anything(expected)) {
            ExpectedCounts<In> counts(batch_, expected);
            task.expected = counts.redirect(expected);
            run(task);
            if (*task.ok) counts.add_to(expected);
        } else {
            task.expected = expected;
            run(task);
        }
    }

    // The sequences of a group. The marginals of each are at rows `place` [n] and on of `expected`;
    // rows(zero) are the shared rows of scores, if there are any.
    template <class Rows>
    void group(const Group& group, const int64_t* place, const Rows& rows,
               const Expected<In>& expected) const {
        if (sizeof(In) == 8 || !forward_.is_narrow())
            group_as<double>(group, place, rows(double{}), expected);
        else
            group_as<In>(group, place, rows(In{}), expected);
    }

  private:
    // With the guard on, again without the sequences that failed.
    template <class R>
    void group_as(Group group, const int64_t* place_, const SharedRows<R>& shared,
                  const Expected<In>& expected) const {
        const int64_t S = batch_.G * batch_.Y, lanes = forward_.lanes();
        double log_z[kMostLanes], weight[kMostLanes];
        int64_t place[kMostLanes];
        bool ok[kMostLanes];
        const int64_t b = backward_ ? (expected.transitions ? group.length[0] : 1) * S * lanes : 0;
        LaneSum<In, R> task{};
        Pieces<R> scratch(forward_.lane_size(group, backward_, backward_) + b +
                          (S + batch_.Y) * lanes);
        forward_.fill(task, scratch, group, backward_, backward_);
        std::copy_n(place_, group.n, place);
        task.shared = shared;
        task.weight = weight;
        task.place = place;
        task.beta = scratch.take(S * lanes);
        task.gamma = scratch.take(batch_.Y * lanes);
        task.b = scratch.take(b);
        task.log_z = log_z;
        task.ok = ok;
        const bool apart = task.guard.is_on && counts_anything(expected);
        ExpectedCounts<In> counts(batch_, apart ? expected : Expected<In>{});
        task.expected = apart ? counts.redirect(expected) : expected;
        std::vector<int64_t> sequence(group.sequence, group.sequence + group.n);
        while (!sequence.empty()) {
            task.n = sequence.size();
            for (int64_t l = 0; l < task.n; ++l) weight[l] = weight_ ? weight_[sequence[l]] : 1.0;
            run(task);
            int64_t kept = 0;
            for (int64_t l = 0; l < task.n; ++l) {
                log_z_[sequence[l]] = log_z[l];
                ok_[sequence[l]] = ok[l];
                if (!ok[l]) continue;
                sequence[kept] = sequence[l];
                group.first[kept] = group.first[l];
                group.length[kept] = group.length[l];
                place[kept] = place[l];
                ++kept;
            }
            if (kept == task.n || !apart) break;
            sequence.resize(kept);
            counts.clear();
        }
        if (apart) counts.add_to(expected);
    }

    static void run(const OneSum<float>& task) { kernels().one_sum_f32(task); }
    static void run(const OneSum<double>& task) { kernels().one_sum_f64(task); }
    static void run(const LaneSum<float, float>& task) { kernels().sum_f32(task); }
    static void run(const LaneSum<float, double>& task) { kernels().sum_f32_in_f64(task); }
    static void run(const LaneSum<double, double>& task) { kernels().sum_f64(task); }

    const DenseBatch<In>& batch_;
    const ForwardPlan<In>& forward_;
    const double* weight_;  // [N] or null
    const bool backward_;
    double* log_z_;  // [N]
    bool* ok_;       // [N]
};

}  // namespace tagloom
