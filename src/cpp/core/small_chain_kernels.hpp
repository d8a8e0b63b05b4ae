// The tasks of small_chain_kernels.cpp, plain data: this header is included by files built for
// different machines.
#pragma once

#include <cstdint>

namespace tagloom {

constexpr int64_t kSmallChain = 8;         // most labels; rows of scratch arrays are this long
constexpr int64_t kSmallChainBlock = 128;  // positions whose expectations are computed at a time

// Scores that are linear in features of D numbers, and the sums of these features. With
// z = z[t], the P features are, in this order,
//
//   z_d * z_d for all d, or, if `products`, z_i * z_j for all i <= j;   z_d for all d;   1
struct QuadraticScores {
    int64_t D;
    bool products;
    const double* z;        // [T, D] this sequence
    const double* weights;  // [P, 8] score[t, y] = sum_p weights[p, y] * feature_p; -inf beyond Y
    double* sums;           // [P, 8] += sum_t marginal[t, y] * feature_p

    int64_t size() const { return (products ? D * (D + 1) / 2 : D) + D + 1; }
};

// One sequence of a Markov chain with probabilities and at most 8 labels; see small_chain.hpp.
struct SmallChain {
    int64_t Y, T;        // T > 0
    const double* emit;  // [T, Y]; null for quadratic scores
    const QuadraticScores* quadratic;
    const double* forward;   // [8, 8] P[a, c]; 0 beyond Y, as in all rows of 8
    const double* backward;  // [8, 8] P[a, c] in row c
    const double* start;     // [8] probabilities
    const double* stop;      // [8]
    double* rows;            // [T, 8] scratch; may be the marginals if Y is 8
    double* alpha;           // [T, 8] scratch
    double* beta;            // [T, 8] scratch
    double* factor;          // [T] scratch
    double* marginals;       // [T, Y]; [128, 8] scratch with quadratic scores
    double* ends;            // [2, 8] the marginals of the first and of the last position
    double* pairs;           // [8, 8] sum over t of Pr(a, c) / P[a, c]
    double offset;           // log_z = offset + ln 2 * exponent + log z
    double exponent;
    double z;
    bool ok;  // false where underflow may have cost precision
};

struct SmallChainKernels {
    void (*sum)(SmallChain&);
    // Two sequences in less time than one after the other; the same results.
    void (*sum_two)(SmallChain&, SmallChain&);
};

const SmallChainKernels& small_chain_kernels_baseline();
const SmallChainKernels& small_chain_kernels_avx2();
const SmallChainKernels& small_chain_kernels_avx512();

}  // namespace tagloom
