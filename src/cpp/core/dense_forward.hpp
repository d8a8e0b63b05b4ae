// Shared by sums, samples and entropies of a dense batch: the probabilities, the arithmetic that
// they allow, the plan, and the fields of a kernel's task that describe the forward pass.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/dense.hpp"
#include "core/dense_transitions.hpp"
#include "core/dispatch.hpp"

namespace tagloom {

template <class In>
class ForwardPlan {
  public:
    // A sequence in lanes keeps `kept` arrays [T, S]. Only double arithmetic if not `may_narrow`.
    ForwardPlan(const DenseBatch<In>& batch, bool may_use_lanes, int64_t kept,
                bool may_narrow = true)
        : batch_(batch),
          probabilities_(batch),
          guard_(probabilities_.needs_guard()),
          narrow_(sizeof(In) == 4 && may_narrow && probabilities_.is_narrow()),
          lanes_(batch.edge || !may_use_lanes ? 1
                 : narrow_                    ? kernels().lanes32
                                              : kernels().lanes64),
          plan_(batch.plan(lanes_,
                           kLaneBytes / (narrow_ ? 4 : 8) / (kept * batch.G * batch.Y * lanes_))),
          // With edge scores the exponentials of first-order transitions differ at every position:
          // the kernel takes them.
          one_(batch, scores_differ() ? batch.transitions : probabilities_.matrices.data(),
               probabilities_.stop.data(), round_up(batch.Y, 8),
               scores_differ() ? kMinusInf : 0.0) {
        if (plan_.singles == 0) return;
        if (narrow_)
            narrow_transitions_ = {batch, probabilities_.matrices.data(),
                                   probabilities_.stop.data(), batch.Y, 0.0};
        else
            wide_transitions_ = {batch, probabilities_.matrices.data(), probabilities_.stop.data(),
                                 batch.Y, 0.0};
    }
    ForwardPlan(const ForwardPlan&) = delete;

    // The results of empty sequences.
    void begin(double* log_z, bool* ok) const {
        std::fill_n(log_z, batch_.N, 0.0);
        std::fill_n(ok, batch_.N, true);
    }

    const BatchPlan& plan() const { return plan_; }
    int64_t lanes() const { return lanes_; }
    bool is_narrow() const { return narrow_; }
    const Probabilities& probabilities() const { return probabilities_; }

    // Scratch that fill() takes, for a group and for a single sequence.
    int64_t lane_size(const Group& group, bool keep_alpha, bool keep_rows) const {
        const int64_t Y = batch_.Y, T = group.length[0];
        const int64_t delta = guard_ ? 2 : 0;
        return (((keep_alpha ? T : 2) + delta) * batch_.G * Y + (keep_rows ? T : 1) * Y) * lanes_;
    }
    int64_t one_size(int64_t i, bool keep_alpha) const {
        const int64_t Y = batch_.Y, width = batch_.G * Y + 8;
        return ((keep_alpha ? batch_.length(i) : 2) + 2) * width + Y + 8 + matrix_size();
    }
    int64_t matrix_size() const { return batch_.edge ? batch_.Y * one_.view.stride : 0; }

    template <class R>
    void fill(LaneForward<In, R>& task, Pieces<R>& scratch, const Group& group, bool keep_alpha,
              bool keep_rows) const {
        const int64_t Y = batch_.Y, T = group.length[0];
        task.transitions = &transitions<R>();
        task.offsets = probabilities_.offsets();
        if constexpr (sizeof(R) == 8) fill(task.guard, guard_, scratch, 2 * batch_.G * Y * lanes_);
        task.emit = batch_.emit;
        task.first = group.first;
        task.length = group.length;
        task.n = group.n;
        task.keep_alpha = keep_alpha;
        task.keep_rows = keep_rows;
        task.alpha = scratch.take((keep_alpha ? T : 2) * batch_.G * Y * lanes_);
        task.rows = scratch.take((keep_rows ? T : 1) * Y * lanes_);
    }
    void fill(OneForward<In>& task, Pieces<double>& scratch, int64_t i, bool keep_alpha) const {
        const int64_t width = batch_.G * batch_.Y + 8;
        task.transitions = &one_.view;
        task.offsets = probabilities_.offsets();
        fill(task.guard, guard_ || batch_.edge, scratch, 2 * width);
        task.emit = batch_.emit_of(i);
        task.edge = batch_.edge_of(i);
        task.T = batch_.length(i);
        task.keep_alpha = keep_alpha;
        task.alpha = scratch.take((keep_alpha ? task.T : 2) * width);
        task.row = scratch.take(batch_.Y + 8);
        task.matrix = scratch.take(matrix_size());
    }

    template <class R>
    const Transitions<R>& transitions() const {
        if constexpr (sizeof(R) == 4)
            return narrow_transitions_.view;
        else
            return wide_transitions_.view;
    }
    bool scores_differ() const { return batch_.edge && batch_.G == 1; }

  private:
    void fill(Guard<double>& guard, bool is_on, Pieces<double>& scratch, int64_t size) const {
        guard.is_on = is_on;
        if (!is_on) return;
        guard.small_transitions = probabilities_.has_small_transitions();
        guard.sums = probabilities_.sums.data();
        guard.delta = scratch.take(size);
    }

    const DenseBatch<In>& batch_;
    const Probabilities probabilities_;
    const bool guard_, narrow_;
    const int64_t lanes_;
    const BatchPlan plan_;
    const OwnedTransitions<double> one_;
    OwnedTransitions<float> narrow_transitions_;
    OwnedTransitions<double> wide_transitions_;
};

}  // namespace tagloom
