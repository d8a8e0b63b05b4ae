// Log probabilities of a local model (MEMM), each of whose steps is normalised by itself:
//
//   log Pr(y | y_prev, x, t) = emit[t, y] + trans[y_prev, y] + edge[t, y_prev, y] - log_z[t,
//   y_prev] log_z[t, y_prev] = log sum_y exp(emit[t, y] + trans[y_prev, y] + edge[t, y_prev, y])
//
// log_z[t, y_prev] depends on the token before and its label alone, so it is taken from the
// emission there; what normalises the first token, log sum_y exp(emit[0, y] + start[y]), is taken
// from the emissions of that. Transitions, starts and edges stay as they are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tagloom {

class LocalNormaliser {
  public:
    // trans [Y, Y] and start [Y]; -inf for what is forbidden.
    LocalNormaliser(int64_t Y, const double* trans, const double* start);

    // Sentences of which sentence i has the tokens offsets[i] - offsets[0] .. of emit [T, Y], of
    // edge [T, Y, Y], or null, and of out [T, Y], which may be emit itself.
    void normalise(std::span<const int64_t> offsets, const float* emit, const float* edge,
                   float* out) const;

    int64_t Y() const { return Y_; }

  private:
    struct Workspace;
    // log_z [Y] of one token, 0 where nothing may follow.
    void normaliser_of(const float* emit, const float* edge, Workspace& work, double* log_z) const;

    int64_t Y_;
    std::vector<double> trans_, start_;  // [Y, Y], [Y]
    std::vector<double> top_;            // [Y] the largest of each row of trans, 0 if that is -inf
    std::vector<double> by_label_;  // [Y, Y] exp(trans[y_prev, y] - top[y_prev]) at [y, y_prev]
};

}  // namespace tagloom
