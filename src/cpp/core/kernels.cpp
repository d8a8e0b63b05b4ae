// The table of one instruction set: TL_ISA names it, TL_VECTOR_BYTES is the width of its vectors.
// The recursions are in the other *_kernels.cpp files; two small loops are here. No standard
// library in any of them; see vectors.hpp for the reason.

#include "core/kernel_functions.hpp"
#include "core/lanes.hpp"

namespace tagloom {
namespace {

// The largest |x|, -inf aside; NaN if there is a NaN.
template <class R>
R largest_of(const R* x, int64_t n) {
    using V = Vector<R>;
    V top = {};
    auto good = top == top;
    auto add = [&](V y) {
        y = y == minus_inf<R> ? V{} : y;
        y = y < R(0) ? -y : y;
        good &= y == y;
        top = max<V>(y, top);  // a NaN is not larger
    };
    constexpr int64_t ahead = 2048 / sizeof(R), line = 64 / sizeof(R);
    int64_t i = 0;
    for (; i + line <= n; i += line) {
        __builtin_prefetch(x + i + ahead);  // earlier than the hardware does
        for (int64_t j = 0; j < line; j += W<R>) add(load(x + i + j));
    }
    for (; i + W<R> <= n; i += W<R>) add(load(x + i));
    V rest = {};
    for (int64_t w = 0; i + w < n; ++w) rest[w] = x[i + w];
    add(rest);
    R largest = 0;
    for (int w = 0; w < W<R>; ++w) {
        if (!good[w]) return __builtin_nan("");
        largest = top[w] > largest ? top[w] : largest;
    }
    return largest;
}

void exp_all(double* x, int64_t n) {
    using D = Vector<double>;
    constexpr int64_t WD = W<double>;
    int64_t i = 0;
    for (; i + WD <= n; i += WD) store(x + i, exp<double>(load(x + i)));
    if (i == n) return;
    D rest = {};
    for (int64_t w = 0; i + w < n; ++w) rest[w] = x[i + w];
    rest = exp<double>(rest);
    for (int64_t w = 0; i + w < n; ++w) x[i + w] = rest[w];
}

template <class In>
void add_scaled(const In* x, double weight, int64_t n, double* to) {
    for (int64_t i = 0; i < n; ++i) to[i] += weight * x[i];
}

}  // namespace

#define TL_QUOTE_(x) #x
#define TL_QUOTE(x) TL_QUOTE_(x)
#define TL_JOIN_(a, b) a##b
#define TL_JOIN(a, b) TL_JOIN_(a, b)

const Kernels& TL_JOIN(kernels_, TL_ISA)() {
    static constexpr Kernels table = {
        TL_QUOTE(TL_ISA),
        L<float>,
        L<double>,
        TL_ISA::viterbi_lanes<float>,
        TL_ISA::viterbi_lanes<double>,
        TL_ISA::sum_lanes<float, float>,
        TL_ISA::sum_lanes<float, double>,
        TL_ISA::sum_lanes<double, double>,
        TL_ISA::viterbi_one<float>,
        TL_ISA::viterbi_one<double>,
        TL_ISA::sum_one<float>,
        TL_ISA::sum_one<double>,
        TL_ISA::sample_lanes<float, float>,
        TL_ISA::sample_lanes<float, double>,
        TL_ISA::sample_lanes<double, double>,
        TL_ISA::sample_one<float>,
        TL_ISA::sample_one<double>,
        TL_ISA::entropy_lanes<float>,
        TL_ISA::entropy_lanes<double>,
        TL_ISA::entropy_one<float>,
        TL_ISA::entropy_one<double>,
        TL_ISA::best_one<float>,
        TL_ISA::best_one<double>,
        TL_ISA::viterbi_dominance,
        TL_ISA::largest_differences,
        exp_all,
        add_scaled<float>,
        add_scaled<double>,
        largest_of<float>,
        largest_of<double>,
        TL_JOIN(row_kernels_, TL_ISA),
        TL_JOIN(history_kernels_, TL_ISA),
        TL_JOIN(kalman_kernels_, TL_ISA),
    };
    return table;
}

}  // namespace tagloom
