// The tasks of small_chain_kernels.cpp, plain data: this header is included by files built for
// different machines.
#pragma once

#include <cstdint>

namespace tagloom {

constexpr int64_t kSmallChain = 8;  // most labels; rows of scratch arrays are this long

// One sequence of a Markov chain with probabilities and at most 8 labels; see small_chain.hpp.
struct SmallChain {
    int64_t Y, T;            // T > 0
    const double* emit;      // [T, Y]
    const double* forward;   // [8, 8] P[a, c]; 0 beyond Y, as in all rows of 8
    const double* backward;  // [8, 8] P[a, c] in row c
    const double* start;     // [8] probabilities
    const double* stop;      // [8]
    double* rows;            // [T, 8] scratch; may be the marginals if Y is 8
    double* alpha;           // [T, 8] scratch
    double* beta;            // [T, 8] scratch
    double* factor;          // [T] scratch
    double* marginals;       // [T, Y]
    double* pairs;           // [8, 8] sum over t of Pr(a, c) / P[a, c]
    double offset;           // log_z = offset + ln 2 * exponent + log z
    double exponent;
    double z;
    bool ok;  // false where underflow may have cost precision
};

struct SmallChainKernels {
    void (*sum)(SmallChain&);
};

const SmallChainKernels& small_chain_kernels_baseline();
const SmallChainKernels& small_chain_kernels_avx2();
const SmallChainKernels& small_chain_kernels_avx512();

}  // namespace tagloom
