// Every operation on a ragged batch in which each position has a list of candidate labels: a tag
// dictionary, partial labels, a lattice of words. A step from position t-1 to t costs the product
// of the two lists' lengths, whatever the number of labels. With weights of trigrams the order is
// 2; see candidate_pairs.hpp.
//
// All results are exact for all scores. Sums of order 1 use scaled probabilities where losses.hpp
// proves them, and log space elsewhere, which takes about three times as long.
#pragma once

#include <cstdint>

#include "core/dense.hpp"
#include "core/trigrams.hpp"

namespace tagloom {

template <class In>
struct CandidateBatch {
    int64_t Y;
    const double* trans;     // [Y, Y] scores
    const double* start;     // [Y]
    const double* stop;      // [Y]
    const int64_t* rows;     // [T + 1] the candidates of position t are rows[t] .. rows[t + 1]
    const int32_t* label;    // [C] ascending within a position
    const In* score;         // [C]
    const int64_t* offsets;  // [N + 1] positions
    int64_t N;
    int64_t threads;
    const TrigramScores* trigrams = nullptr;

    int64_t length(int64_t i) const { return offsets[i + 1] - offsets[i]; }
};

// What `sum` writes besides log_z; null for what is not wanted. Marginals and pairs of labels that
// are not candidates are not written.
template <class In>
struct CandidateExpected {
    In* candidates = nullptr;       // [C] probability of each candidate
    In* marginals = nullptr;        // [T, Y]
    In* pairs = nullptr;            // [T, Y, Y]
    double* transitions = nullptr;  // [Y, Y] += weight * expected transitions
    double* start = nullptr;        // [Y] +=
    double* stop = nullptr;         // [Y] +=
    double* trigrams = nullptr;     // [K] += weight * expected trigrams
};

// path [T], -1 throughout a sequence without a path; score [N], -inf there.
template <class In>
void viterbi(const CandidateBatch<In>& batch, int32_t* path, double* score);

// The scores [N] of paths [T] of labels; -inf where one is not a candidate.
template <class In>
void path_score(const CandidateBatch<In>& batch, const int32_t* path, double* score);

// The n best paths of each sequence; order and ties as in dense.hpp. Keeps n paths for each
// candidate.
template <class In>
NBestPaths nbest(const CandidateBatch<In>& batch, int64_t n);

// log_z [N], and how many sequences of order 1 log space answered for. Each sequence counts
// weight[i] times (null: once). The same bits for any number of threads.
template <class In>
int64_t sum(const CandidateBatch<In>& batch, const double* weight,
            const CandidateExpected<In>& expected, double* log_z);

// As in dense.hpp, with paths [draws, T] of -1 for a sequence without a path.
template <class In>
void sample(const CandidateBatch<In>& batch, int64_t draws, const double* uniform, int32_t* paths,
            double* log_z);
template <class In>
void entropy(const CandidateBatch<In>& batch, double* entropy, double* log_z);

}  // namespace tagloom
