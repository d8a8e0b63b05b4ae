// Beam sampling of the infinite hidden Markov model (Van Gael, Saatci, Teh and Ghahramani 2008): a
// hierarchical Dirichlet process over an unbounded number of states,
//
//   sticks ~ GEM(gamma),   pi[j] ~ DP(alpha + sticky, (alpha sticks + sticky [k = j]) / (...)),
//
// with a row pi[j] for each state and for the start. A sweep draws, in this order, each given all
// the rest:
//
//   1  tables, the number of draws from the sticks behind the transitions j -> k;
//   2  gamma and alpha, where they are learned, and the sticks;
//   3  rows of transitions over the used states and the rest, and stop probabilities;
//   4  slices u[t] ~ U(0, pi[y[t-1], y[t]]), then new states until no rest exceeds a slice;
//   5  emissions of all states;
//   6  labels, by forward filtering and backward sampling over transitions with pi > u[t].
//
// Given the slices, the transitions that remain at a position all have weight 1, and are few.
#pragma once

#include <cstdint>
#include <vector>

#include "core/beam_kernels.hpp"
#include "core/random.hpp"

namespace tagloom {

struct BeamSettings {
    double sticky;                    // pseudo-count of self-transitions
    bool learns_alpha, learns_gamma;  // with a Gamma(shape, rate) prior
    double alpha_shape, alpha_rate, gamma_shape, gamma_rate;
    bool stops;           // each state ends a sequence with a probability ~ Beta(1, 1)
    int64_t most_states;  // new states are not made beyond this
};

class BeamSampler {
  public:
    // Labels [T] from 0 to sticks.size() - 2; sticks end with the rest.
    BeamSampler(const BeamSettings& settings, std::vector<int64_t> offsets,
                std::vector<int32_t> labels, std::vector<double> sticks, double alpha,
                double gamma);

    // Steps 1 to 6. draw_tables drops empty states; tables [K] are those of each state.
    std::vector<int64_t> draw_tables(uint64_t seed);
    void draw_sticks(const std::vector<int64_t>& tables, uint64_t seed);
    void draw_rows(uint64_t seed);
    void draw_categorical(const int32_t* symbols, int64_t V, double beta, uint64_t seed,
                          int64_t threads);
    // Emissions of another kind: probabilities [R, K], and the row of each token [T].
    void set_emissions(const double* probs, int64_t R, const int32_t* rows);
    // Returns log Pr(x, y | parameters) of the new labels.
    double draw_labels(uint64_t seed, int64_t threads);

    const std::vector<int32_t>& labels() const { return labels_; }
    const std::vector<double>& sticks() const { return sticks_; }  // [K + 1]
    int64_t K() const { return int64_t(sticks_.size()) - 1; }      // with new states after step 4
    int64_t T() const { return int64_t(labels_.size()); }
    double alpha() const { return alpha_; }
    double gamma() const { return gamma_; }
    // [K + 1, K] transitions of the labels; row K is the start. After draw_tables.
    const std::vector<int64_t>& counts() const { return counts_; }

  private:
    struct Scratch;
    struct SymbolDraw;

    void drop_empty_states();
    void count_transitions();
    void learn_concentrations(const std::vector<int64_t>& tables, Random& random);
    void break_stick(Random& random);
    std::vector<double> draw_row(std::vector<double> shapes, Random& random) const;
    void lay_out_rows();
    Scratch make_scratch() const;
    double resample(int64_t i, uint64_t seed, Scratch& scratch);

    const BeamSettings settings_;
    const std::vector<int64_t> offsets_;
    std::vector<int32_t> labels_;
    std::vector<double> sticks_;
    double alpha_, gamma_;
    std::vector<int64_t> counts_;
    std::vector<std::vector<double>> rows_;  // [K + 1] of [K + 1]: the first is that of the start
    std::vector<double> stop_;               // [K]
    std::vector<double> slices_;             // [T]
    double least_slice_ = 0;

    int64_t P_ = 0;                 // K rounded up; arrays are padded with zeros
    std::vector<double> outgoing_;  // [K + 1, P] pi[j, k] in row j + 1; row 0 is the start
    std::vector<double> incoming_;  // [K, P] pi[j, k] in row k
    // Emissions: probability of row r in state k is table[r, k] * scale[k].
    std::vector<double> table_;       // [R, P]
    std::vector<double> scale_;       // [K]
    std::vector<int32_t> table_row_;  // [T], -1 for a missing token
};

}  // namespace tagloom
