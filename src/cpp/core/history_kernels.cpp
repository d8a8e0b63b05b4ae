// The loops of history.hpp for one instruction set; see kernels.cpp for how that works. The build
// disables fused multiply-add in this file.

#include "core/history.hpp"
#include "core/vectors.hpp"

namespace tagloom {
namespace {

using V = Vector<double>;
constexpr int64_t W = TL_VECTOR_BYTES / sizeof(double);
constexpr int kVectors = 8 / W;  // eight partial sums, whatever the width

inline V widen(const float* p) {
    float __attribute__((vector_size(W * sizeof(float)))) x;
    __builtin_memcpy(&x, p, sizeof x);
    return __builtin_convertvector(x, V);
}

inline double total(const V* lanes) {
    double sum[8];
    __builtin_memcpy(sum, lanes, sizeof sum);
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

void dots(const HistoryDots& task) {
    V sums[kHistoryDots][kVectors] = {};
    int64_t j = 0;
    for (; j + 8 <= task.n; j += 8)
        for (int v = 0; v < kVectors; ++v) {
            const int64_t at = j + v * W;
            const V s = widen(task.s + at), y = widen(task.y + at);
            const V new_s = widen(task.new_s + at), new_y = widen(task.new_y + at);
            const V grad = load(task.grad + at);
            sums[0][v] += s * new_y;
            sums[1][v] += y * new_s;
            sums[2][v] += y * new_y;
            sums[3][v] += s * grad;
            sums[4][v] += y * grad;
        }
    // The remainder goes to the first partial sum.
    for (; j < task.n; ++j) {
        const double s = task.s[j], y = task.y[j], new_s = task.new_s[j], new_y = task.new_y[j];
        sums[0][0][0] += s * new_y;
        sums[1][0][0] += y * new_s;
        sums[2][0][0] += y * new_y;
        sums[3][0][0] += s * task.grad[j];
        sums[4][0][0] += y * task.grad[j];
    }
    for (int i = 0; i < kHistoryDots; ++i) task.sums[i] = total(sums[i]);
}

void add(const HistoryAdd& task) {
    int64_t j = 0;
    for (; j + W <= task.n; j += W) {
        const V x = task.of_s * widen(task.s + j) + task.of_y * widen(task.y + j);
        store(task.direction + j, load(task.direction + j) + x);
    }
    for (; j < task.n; ++j) task.direction[j] += task.of_s * task.s[j] + task.of_y * task.y[j];
}

}  // namespace

#define TL_JOIN_(a, b) a##b
#define TL_JOIN(a, b) TL_JOIN_(a, b)

const HistoryKernels& TL_JOIN(history_kernels_, TL_ISA)() {
    static constexpr HistoryKernels table = {dots, add};
    return table;
}

}  // namespace tagloom
