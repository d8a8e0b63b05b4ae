// Viterbi of first order over the few labels that can be on a best path.
//
// Label d *dominates* label y at a position if replacing y by d there improves every path:
//
//   emit[d] - emit[y] > lead[d, y] = max_a (trans[a, y] - trans[a, d])
//                                  + max_c (trans[y, c] - trans[d, c])
//
// where a also stands for the start and the beginning, c for the stop and the end. Such a label is
// on no best path, whatever the neighbours are. Of the 49 tags of English about five remain per
// token if d is the label with the largest emission, so a step takes 30 transitions, not 2,400.
//
// Sums are in float. A sequence where rounding could change the path is decoded again in double,
// so the paths are those of viterbi() in dense.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/dense.hpp"

namespace tagloom {

// Transitions, and the lead that dominance needs.
class Dominance {
  public:
    static constexpr int64_t kLeast = 24, kMost = 64;  // labels; with fewer, lanes are as fast

    // Null if there are too few or too many labels, or a score is not finite.
    static std::unique_ptr<const Dominance> make(int64_t Y, const double* trans,
                                                 const double* start, const double* stop);

    // The best path of every sequence. False, with an undefined path, if too many labels remain for
    // this to be faster than viterbi(). The rows of emissions are read up to kSlack numbers beyond
    // the last one.
    static constexpr int64_t kSlack = kMost;
    bool viterbi(const DenseBatch<float>& batch, int32_t* path) const;

  private:
    Dominance() = default;

    int64_t Y_ = 0, stride_ = 0;
    double largest_ = 0;                      // |score|
    std::vector<float> trans_, into_, lead_;  // [Y, stride] padded with -inf
    std::vector<float> start_, stop_;         // [stride]
};

}  // namespace tagloom
