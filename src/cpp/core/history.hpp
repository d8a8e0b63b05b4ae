// Kernels over the history of L-BFGS, compiled once per instruction set (history_kernels.cpp). All
// sets give the same bits: they use the same eight partial sums and no fused multiply-add.
//
// Everything here is plain data: this header is included by files built for different machines.
#pragma once

#include <cstdint>

namespace tagloom {

// The dot products of one pair of the history with the newest pair and with the gradient:
// s * new_y, y * new_s, y * new_y, s * grad, y * grad.
constexpr int kHistoryDots = 5;
struct HistoryDots {
    const float *s, *y;          // [n]
    const float *new_s, *new_y;  // [n]
    const double* grad;          // [n]
    int64_t n;
    double* sums;  // [kHistoryDots]
};

// direction += of_s * s + of_y * y
struct HistoryAdd {
    const float *s, *y;  // [n]
    double of_s, of_y;
    int64_t n;
    double* direction;  // [n]
};

struct HistoryKernels {
    void (*dots)(const HistoryDots&);
    void (*add)(const HistoryAdd&);
};

const HistoryKernels& history_kernels_baseline();
const HistoryKernels& history_kernels_avx2();
const HistoryKernels& history_kernels_avx512();

}  // namespace tagloom
