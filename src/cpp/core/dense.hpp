// A ragged batch over dense moves: cuts it into groups of lanes and single sequences, runs the
// kernels on all cores, and adds up what they return in an order that does not depend on the
// number of threads.
#pragma once

#include <cstdint>

#include "core/kernels.hpp"

namespace tagloom {

template <class In>
struct DenseBatch {
    int64_t Y, G, levels;
    const double* moves;     // [levels, G, Y, Y] scores, see kernels.hpp
    const double* start;     // [Y]
    const double* stop;      // [Y]
    const In* emit;          // [tokens, Y]
    const In* edge;          // [tokens, Y, Y] or null; for sums G = 1 only
    const int64_t* offsets;  // [N + 1]
    int64_t N;
    int64_t threads;
    double largest_emit = 0;  // |emit| where it is finite; Viterbi only
};

// path [tokens], -1 throughout a sequence that has none; score [N], -inf there, or null.
template <class In>
void viterbi(const DenseBatch<In>& batch, int32_t* path, double* score);

// log_z [N] and what `expected` asks for, each sequence counted weight[i] times (null: once).
// ok [N] is false where scaled probabilities are not to be trusted, and nothing of that sequence is
// in the sums: log space must answer. Marginals of such a sequence are left as they were.
template <class In>
void sum(const DenseBatch<In>& batch, const double* weight, const Expected<In>& expected,
         double* log_z, bool* ok);

}  // namespace tagloom
