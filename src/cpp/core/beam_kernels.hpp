// The loops of beam.hpp over states, compiled once per instruction set. Plain data only: this
// header is included by files built for different machines.
#pragma once

#include <cstdint>

namespace tagloom {

constexpr int64_t kBeamPadding = 8;  // rows of states are padded to a multiple of it, with zeros

// One step of the forward pass. With pi[j] in row j of `rows`,
//
//   now[k] = emit[k] * factor[k] * sum of before[j] over active j with pi[j, k] > slice.
struct BeamStep {
    int64_t P;              // states, padded
    const double* rows;     // [K, P]
    const double* before;   // [K]
    const int32_t* active;  // [n_active]
    int64_t n_active;
    double slice;
    const double* emit;    // [P]
    const double* factor;  // [P]
    double* now;           // [P]
};

// A draw of j with probability proportional to weights[j], among those with incoming[j] > slice.
struct BeamChoice {
    int64_t P;
    const double* weights;   // [P]
    const double* incoming;  // [P]
    double slice;
    double uniform;   // in [0, 1)
    double* scratch;  // [P]
};

struct BeamKernels {
    double (*step)(const BeamStep&);  // returns the sum of now
    int32_t (*choose)(const BeamChoice&);
    // x ^ power for x in (0, 1], in place; n a multiple of kBeamPadding
    void (*powers)(double* x, int64_t n, double power);
};

const BeamKernels& beam_kernels_baseline();
const BeamKernels& beam_kernels_avx2();
const BeamKernels& beam_kernels_avx512();

}  // namespace tagloom
