// Segments: a sequence of T positions is cut into segments of up to L positions, each with one of Y
// labels. The score of a segmentation is the sum over its segments of
//
//   score[t, l - 1, y]   the segment of length l that begins at t
//   trans[y_prev, y]     to the label of the segment before it; start[y] for the first
//
// and stop[y] of the last label. With ⊕ log-sum-exp or max,
//
//   begin[t, y] = ⊕_{y_prev} end[t, y_prev] + trans[y_prev, y],   begin[0, y] = start[y]
//   end[e, y]   = ⊕_{l ≤ min(L, e)} begin[e - l, y] + score[e - l, l - 1, y]
//   total       = ⊕_y end[T, y] + stop[y]
//
// where begin[t] collects what ends before position t, and end[e] what ends with position e - 1. A
// pass takes O(T L Y + T Y²). All arithmetic is double, in log space.
//
// A segmentation is stored as one int per position: the label where a segment begins, Y inside it.
#pragma once

#include <cstdint>
#include <vector>

namespace tagloom {

// What all sequences share.
struct SegmentModel {
    SegmentModel(int64_t L, int64_t Y);
    // Null: zeros.
    void set(const double* trans, const double* start, const double* stop);

    int64_t L, Y;
    std::vector<double> trans;        // [Y, Y] from → to
    std::vector<double> start, stop;  // [Y]
    std::vector<double> top;          // [Y] the largest score of a transition to y
    std::vector<double> prob;         // [Y, Y] exp(trans[y_prev, y] - top[y])
};

// One sequence. In is float or double.
template <class In>
struct SegmentSequence {
    const In* score;  // [T, L, Y]; segments that end after T are not read
    int64_t T;
};

// Expected counts, times the weight of the sequence; null for results that are not needed.
template <class In>
struct SegmentExpected {
    In* segments = nullptr;   // [T, L, Y] this sequence, without the weight
    double* trans = nullptr;  // [Y, Y] +=
    double* start = nullptr;  // [Y] +=
    double* stop = nullptr;   // [Y] +=
};

// Sums over the segmentations of one sequence after another; memory is reused. The forward pass
// keeps the distribution of each choice given what follows it:
//
//   share[e, l, y] = Pr(length l | a segment with label y ends before e)
//                  = exp(begin[e - l, y] + score[e - l, l - 1, y] - end[e, y])
//   Pr(y_prev | a segment with label y begins at t) = exp(end[t, y_prev] + trans - begin[t, y])
//
// Expectations, entropy and samples follow from these distributions, from the last choice back to
// the first.
template <class In>
class SegmentSum {
  public:
    explicit SegmentSum(const SegmentModel& model) : m(model) {}

    // log_z; -inf if there is no segmentation. The calls below are for the same sequence, T > 0,
    // and need a finite log_z.
    double forward(const SegmentSequence<In>& x);
    void expectations(double weight, const SegmentExpected<In>& expected);
    double entropy();
    // n exact draws [n, T] (rows `stride` apart) from uniform numbers [n, T] in [0, 1).
    void sample(int64_t n, const double* uniform, int64_t stride, int32_t* paths) const;
    // The first position at which no segment can begin or end: no segmentation reaches it. T if
    // only the stop is unreachable.
    int64_t first_dead_position() const;

  private:
    void enter(int64_t t);
    void leave(const SegmentSequence<In>& x, int64_t e);
    // Calls use(y_prev, probability) for the labels before a segment with label y that begins at t.
    template <class Use>
    void each_before(int64_t t, int64_t y, const Use& use) const;
    void cross(int64_t e, double weight, double* counts);
    // Calls use(e, at_end[e]) from the end, when at_begin is complete for all t ≥ e.
    template <class Use>
    void go_back(double weight, double* counts, const Use& use);
    double* share_of(int64_t e) { return share.data() + (e - 1) * m.L * m.Y; }
    const double* share_of(int64_t e) const { return share.data() + (e - 1) * m.L * m.Y; }

    const SegmentModel& m;
    int64_t T = 0;
    double log_z = 0;
    std::vector<double> begin, end;  // [T, Y], [T + 1, Y]
    std::vector<double> prob;        // [T + 1, Y] exp(end[t, y] - the largest of end[t])
    std::vector<double> linear;      // [T, Y] sum of probabilities into y; 0: too small, use logs
    std::vector<double> share;       // [T, L, Y] by end
    std::vector<double> largest, ratio;    // [Y]
    std::vector<double> at_begin, at_end;  // [T, Y], [T + 1, Y] probabilities
};

// The best segmentation; -1 throughout if there is none. Ties: the lowest last label, then the
// shortest last segment, then the same before it. Memory is reused.
template <class In>
class SegmentBest {
  public:
    explicit SegmentBest(const SegmentModel& model) : m(model) {}

    bool viterbi(const SegmentSequence<In>& x, int32_t* path);
    // Up to n best segmentations [n, T] in order; returns how many.
    int64_t nbest(const SegmentSequence<In>& x, int64_t n, std::vector<int32_t>& paths);

  private:
    double forward(const SegmentSequence<In>& x);

    const SegmentModel& m;
    std::vector<double> begin, end;       // [T, Y], [T + 1, Y]
    std::vector<int32_t> before, length;  // [T, Y], [T + 1, Y] the best choices
};

// Score of a segmentation; -inf if it is not one, or is forbidden.
template <class In>
double segmentation_score(const SegmentModel& m, const SegmentSequence<In>& x, const int32_t* path);

}  // namespace tagloom
