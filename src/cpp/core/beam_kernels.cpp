// The loops of beam sampling for one instruction set; see kernels.cpp for how the table works. A
// comparison masks the transitions below the slice: lists of those above it would be shorter, but
// each would end at a branch that no processor predicts.

#include "core/beam_kernels.hpp"

#include "core/vectors.hpp"

namespace tagloom {
namespace {

using V = Vector<double>;
constexpr int64_t W = TL_VECTOR_BYTES / sizeof(double);
constexpr int kMost = 8;  // vectors that are summed in registers at a time

inline double total(V x) {
    double sum = 0;
    for (int w = 0; w < W; ++w) sum += x[w];
    return sum;
}

// N vectors of states, from state k on.
template <int N>
V step_block(const BeamStep& task, int64_t k) {
    V sums[N] = {};
    for (int64_t i = 0; i < task.n_active; ++i) {
        const int64_t j = task.active[i];
        const double* row = task.rows + j * task.P + k;
        const V weight = broadcast<double>(task.before[j]);
        for (int v = 0; v < N; ++v) sums[v] += load(row + v * W) > task.slice ? weight : V{};
    }
    V all = {};
    for (int v = 0; v < N; ++v) {
        const int64_t at = k + v * W;
        sums[v] *= load(task.emit + at) * load(task.factor + at);
        store(task.now + at, sums[v]);
        all += sums[v];
    }
    return all;
}

double step(const BeamStep& task) {
    V all = {};
    int64_t k = 0;
    for (; k + kMost * W <= task.P; k += kMost * W) all += step_block<kMost>(task, k);
    for (; k + 4 * W <= task.P; k += 4 * W) all += step_block<4>(task, k);
    for (; k + 2 * W <= task.P; k += 2 * W) all += step_block<2>(task, k);
    for (; k < task.P; k += W) all += step_block<1>(task, k);
    return total(all);
}

inline double block(const double* w) {
    return ((w[0] + w[1]) + (w[2] + w[3])) + ((w[4] + w[5]) + (w[6] + w[7]));
}

// The first state whose cumulative weight exceeds `uniform` times the sum: first its block.
int32_t choose(const BeamChoice& task) {
    double* x = task.scratch;
    for (int64_t k = 0; k < task.P; k += W)
        store(x + k, load(task.incoming + k) > task.slice ? load(task.weights + k) : V{});
    double sum = 0;
    for (int64_t k = 0; k < task.P; k += kBeamPadding) sum += block(x + k);
    double limit = task.uniform * sum;
    int64_t k = 0, last = -1;
    for (; k + kBeamPadding < task.P; k += kBeamPadding) {
        const double part = block(x + k);
        if (limit < part) break;
        limit -= part;
    }
    for (double below = 0; k < task.P; ++k) {
        if (!(x[k] > 0)) continue;
        last = k;
        if ((below += x[k]) > limit) break;
    }
    if (last >= 0) return int32_t(last);
    k = task.P - 1;  // rounding moved the limit beyond the last positive weight
    while (k > 0 && !(x[k] > 0)) --k;
    return int32_t(k);
}

void powers(double* x, int64_t n, double power) {
    for (int64_t i = 0; i < n; i += W) store(x + i, exp<double>(log_each(load(x + i)) * power));
}

}  // namespace

#define TL_JOIN_(a, b) a##b
#define TL_JOIN(a, b) TL_JOIN_(a, b)

const BeamKernels& TL_JOIN(beam_kernels_, TL_ISA)() {
    static constexpr BeamKernels table = {step, choose, powers};
    return table;
}

}  // namespace tagloom
