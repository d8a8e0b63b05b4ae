// Expectations of a Markov chain with probabilities and few labels, in double: the E-step of a
// hidden Markov model of up to 8 states. The forward and the backward pass run at once, labels
// across the vector; for one long sequence that is several times as fast as the general kernels.
#pragma once

#include <cstdint>

#include "core/small_chain_kernels.hpp"

namespace tagloom {

struct SmallChainBatch {
    int64_t Y, N;
    const double* emit;      // [T, Y] scores
    const int64_t* offsets;  // [N + 1]
    const double* trans;     // [Y, Y] log-probabilities
    const double* start;     // [Y]
    const double* stop;      // [Y]
    const double* weight;    // [N] of each sequence in the counts, or null
    int64_t threads;
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

}  // namespace tagloom
