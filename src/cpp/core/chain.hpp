// One sentence at a time through the trellis of a model in training: expected counts for the
// weights of transitions, or the best path. Scratch memory is reused. Sentences of single tokens
// without boundaries take O(Y) instead: a softmax, or the largest score.
#pragma once

#include <cstdint>
#include <vector>

#include "core/automaton.hpp"
#include "core/space.hpp"

namespace tagloom {

template <class In>
class Chain {
  public:
    Chain(const Space& space, bool boundaries, bool with_edges, bool separate);

    void set(const double* tail);  // see space.hpp; it must outlive the next calls

    // log_z; marginals [T, Y], pairs [T, Y, Y] with edge (null: not needed), and counts of the
    // tail += weight * expected. Marginals are zero where there is no path.
    double sum(const In* emit, const In* edge, int64_t T, double weight, In* marginals, In* pairs,
               double* counts);
    // path [T]; -1 throughout if no path has a score.
    void viterbi(const In* emit, const In* edge, int64_t T, int32_t* path);
    double path_score(const In* emit, const In* edge, int64_t T, const int32_t* path) const;

  private:
    double sum_token(const In* emit, In* marginals);
    int32_t best_label(const In* emit) const;
    bool sum_dense(const In* emit, const In* edge, int64_t T, double weight, In* marginals,
                   In* pairs, double* counts, double& log_z);
    void score_transitions();  // of the automaton, once for a tail
    double exponentials(const double* x, double* prob, int64_t rows, double& offset) const;

    const Space& space;
    const bool boundaries, separate, is_dense;
    const int64_t Y, stride, rows;  // rows of all dense matrices
    const double* tail = nullptr;
    std::vector<double> scores;       // [levels, G, Y, stride] of transitions, padded with -inf
    std::vector<double> start, stop;  // [Y]
    std::vector<double> probs, probs_stop, offsets;  // exp(score - offset)
    std::vector<double> row, matrix, memory, transitions, starts, stops;
    Automaton automaton;
    bool is_scored = false;
};

}  // namespace tagloom
