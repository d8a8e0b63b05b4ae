// Collapsed pointwise Gibbs sampling of the labels of a first-order hidden Markov model with
// categorical emissions: parameters are integrated out, and one label at a time is drawn given all
// others (Goldwater and Griffiths 2007; Gao and Johnson 2008). With the token at t removed from all
// counts, a = y[t-1], b = y[t+1] and w = x[t],
//
//   Pr(y[t] = k | rest) ~ (emitted[w, k] + beta) / (emitted[k] + V beta)
//                         * (n[a, k] + prior[a, k])
//                         * (n[k, b] + prior[k, b] + [a = k = b]) / (n[k] + prior[k] + [a = k]),
//
// where the brackets count the transition a -> k, which comes before k -> b. b is the stop at the
// end of a sequence; a model without a stop omits the last factor there.
#pragma once

#include <cstdint>
#include <vector>

#include "core/gibbs_kernels.hpp"

namespace tagloom {

// Dirichlet parameters; 0 forbids a transition.
struct GibbsPrior {
    const double* start;  // [Y]
    const double* trans;  // [Y, Y]
    const double* stop;   // [Y], or null for a model without a stop
    double beta;          // of each of the V cells of an emission
};

class GibbsSampler {
  public:
    // symbols [T], -1 for a missing one; candidates of position t are rows[t] .. rows[t + 1], or
    // all labels if rows is empty. labels [T] is where the chain begins.
    GibbsSampler(int64_t Y, int64_t V, std::vector<int64_t> offsets, std::vector<int32_t> symbols,
                 std::vector<int32_t> labels, std::vector<int64_t> rows,
                 std::vector<int32_t> candidates);

    // Draws every label once. Returns how many changed.
    int64_t sweep(const GibbsPrior& prior, uint64_t seed);

    const std::vector<int32_t>& labels() const { return labels_; }
    int64_t Y() const { return Y_; }
    int64_t V() const { return V_; }

    // [Y + 1, Y + 1] transitions; row Y is the start, column Y the stop.
    std::vector<double> transitions() const;
    // [V, Y]
    std::vector<double> emissions() const;
    // How many of the V * Y cells have each count; [largest count + 1].
    std::vector<int64_t> emission_histogram() const;

  private:
    void fill_tables(const GibbsPrior& prior);

    const int64_t Y_, V_, P_;  // P: Y rounded up to whole vectors
    const std::vector<int64_t> offsets_;
    const std::vector<int32_t> symbols_;
    std::vector<int32_t> labels_;
    const std::vector<int64_t> rows_;
    const std::vector<int32_t> candidates_;
    std::vector<int32_t> emitted_;                        // [V, P]
    std::vector<double> emitted_total_, left_, inverse_;  // [P]
    std::vector<double> from_, into_;                     // [Y + 1, P]
    std::vector<double> weights_;                         // [P]
};

}  // namespace tagloom
