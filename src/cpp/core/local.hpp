// Log-probabilities of a locally normalised model (MEMM):
//
//   log Pr(y | y_prev, x, t) = score(t, y_prev, y) - log_z[t, y_prev]
//   score(t, y_prev, y)      = emit[t, y] + trans[y_prev, y] + edge[t, y_prev, y]
//   log_z[t, y_prev]         = log sum_y exp(score(t, y_prev, y))
//
// log_z[t, y_prev] depends on the previous label only, so it is subtracted from emit[t-1, y_prev].
// The normaliser of the first token, log sum_y exp(emit[0, y] + start[y]), is subtracted from its
// own emissions. Transitions, starts and edges stay the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tagloom {

class LocalNormaliser {
  public:
    // trans [Y, Y] and start [Y]; -inf where forbidden.
    LocalNormaliser(int64_t Y, const double* trans, const double* start);

    // emit [T, Y] to out [T, Y], which may be the same; edge [T, Y, Y] or null. The tokens of
    // sentence i are offsets[i] - offsets[0] .. offsets[i + 1] - offsets[0].
    void normalise(std::span<const int64_t> offsets, const float* emit, const float* edge,
                   float* out) const;

    int64_t Y() const { return Y_; }

  private:
    struct Workspace;
    // log_z [Y] of one token; 0 where no label may follow y_prev.
    void normaliser_of(const float* emit, const float* edge, Workspace& work, double* log_z) const;

    int64_t Y_;
    std::vector<double> trans_, start_;  // [Y, Y], [Y]
    std::vector<double> top_;            // [Y] maximum of each row of trans, 0 if that is -inf
    std::vector<double> by_label_;  // [Y, Y] exp(trans[y_prev, y] - top[y_prev]) at [y, y_prev]
};

}  // namespace tagloom
