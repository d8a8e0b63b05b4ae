// The sweep of gibbs.hpp, compiled once per instruction set. Plain data only: this header is
// included by files built for different machines.
#pragma once

#include <cstdint>

namespace tagloom {

struct GibbsSweep {
    int64_t Y, P;            // labels; the same rounded up to a multiple of 8
    int64_t N;               // sequences
    const int64_t* offsets;  // [N + 1]
    const int32_t* symbol;   // [T], -1 if missing
    const int64_t* rows;     // [T + 1], or null if every label is allowed everywhere
    const int32_t* candidate;
    uint64_t seed;
    double beta;
    bool stops;
    int32_t* label;         // [T]
    int32_t* emitted;       // [V, P] counts
    double* emitted_total;  // [P] counts + V beta
    double* from;           // [Y + 1, P] counts + prior of a -> k; row Y is the start
    double* into;           // [Y + 1, P] of k -> b in row b; row Y is the stop, or equals `left`
    double* left;           // [P] counts + prior of all transitions out of k
    double* inverse;        // [P] 1 / (emitted_total * left), 0 beyond Y
    double* weights;        // [P] scratch
};

struct GibbsKernels {
    int64_t (*sweep)(const GibbsSweep&);  // returns how many labels changed
};

const GibbsKernels& gibbs_kernels_baseline();
const GibbsKernels& gibbs_kernels_avx2();
const GibbsKernels& gibbs_kernels_avx512();

}  // namespace tagloom
