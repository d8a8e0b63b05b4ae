// Expectations of a Markov chain with probabilities and few labels, in double: the E-step of a
// hidden Markov model of up to 8 states. The forward and the backward pass run at once, labels
// across the vector; for one long sequence that is several times as fast as the general kernels.
#pragma once

#include <cstdint>

#include "core/small_chain_kernels.hpp"

namespace tagloom {

struct SmallChainBatch {
    int64_t Y, N;
    const double* emit;      // [T, Y] scores; null if they are quadratic
    const int64_t* offsets;  // [N + 1]
    const double* trans;     // [Y, Y] log-probabilities
    const double* start;     // [Y]
    const double* stop;      // [Y]
    const double* weight;    // [N] of each sequence in the counts, or null
    int64_t threads;
};

// Scores as functions of numbers, such as normal densities; features as in QuadraticScores.
struct SmallChainNumbers {
    int64_t D;
    bool products;
    const double* z;        // [T, D]
    const double* weights;  // [P, Y]
};

struct SmallChainCounts {
    double* transitions;  // [Y, Y] +=
    double* start;        // [Y] +=
    double* stop;         // [Y] +=
};

// Writes log_z [N] and the marginals [T, Y], and adds to the counts. Returns false, with counts
// that are meaningless, if a sequence has no path or underflow may have cost precision. The same
// bits for any number of threads.
bool small_chain_sum(const SmallChainBatch& batch, double* log_z, double* marginals,
                     const SmallChainCounts& counts);

// The same for quadratic scores. Instead of the marginals, it adds sum_t marginal[t, y] * feature_p
// to sums [P, Y]: scores and marginals of all tokens are never stored.
bool small_chain_moments(const SmallChainBatch& batch, const SmallChainNumbers& numbers,
                         double* log_z, double* sums, const SmallChainCounts& counts);

}  // namespace tagloom
