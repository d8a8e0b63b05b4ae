// The kernels of kalman_kernels.hpp for one instruction set; see kernels.cpp for how that works. No
// standard library in here; see vectors.hpp for the reason.

#include "core/kalman_kernels.hpp"

#include "core/kalman_backward.hpp"
#include "core/kalman_forward.hpp"
#include "core/kalman_lanes.hpp"
#include "core/kalman_rows.hpp"

namespace tagloom {
namespace {

static_assert(W <= kKalmanLanes);

int64_t workspace(int64_t n, int64_t m) {
    const int64_t S = Shape<0>(n).S(), slack = 16 * W;
    const int64_t forward = 9 * n * S + 5 * m * S + m * m + 2 * m + n + 8 * S + slack;
    const int64_t backward = (15 + 2 * W) * n * S + 8 * S + 3 * n + slack;
    const int64_t lanes = m * (n + 1) * W + slack;
    const int64_t rows = forward > backward ? forward : backward;
    return rows > lanes ? rows : lanes;
}

// Calls run with the number of states as a constant, if it is at most kMostFixed, or 0.
template <class Run>
void with_size(int64_t n, const Run& run) {
    static_assert(kMostFixed == 8);
    switch (n) {
        case 1:
            return run.template operator()<1>();
        case 2:
            return run.template operator()<2>();
        case 3:
            return run.template operator()<3>();
        case 4:
            return run.template operator()<4>();
        case 5:
            return run.template operator()<5>();
        case 6:
            return run.template operator()<6>();
        case 7:
            return run.template operator()<7>();
        case 8:
            return run.template operator()<8>();
        default:
            return run.template operator()<0>();
    }
}

void forward(KalmanForward& task) {
    with_size(task.n, [&]<int N>() { ForwardPass<N>(task).run(); });
}

void forward_lanes(KalmanLanes& task) {
    with_size(task.n, [&]<int N>() {
        if constexpr (N > 0 && N <= kMostInLanes) LanePass<N>(task).run();
    });
}

void backward(const KalmanBackward& task) {
    with_size(task.n, [&]<int N>() { BackwardPass<N>(task).run(); });
}

void gain(const KalmanGain& task) {
    const Shape<0> s(task.n);
    const int64_t n = s.n();
    RowSpace space{task.workspace};
    V *A, *At, *Q, *P, *Jt, *M;
    V** matrices[] = {&A, &At, &Q, &P, &Jt, &M};
    for (V** matrix : matrices) *matrix = space.rows(n * s.K());
    pad(task.A, n, s, A);
    pad_transposed(task.A, s, At);
    pad(task.Q, n, s, Q);
    pad(task.cov, n, s, P);
    StepGain<0>(s, space).compute(A, At, Q, P, Jt, M);
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) task.J[i * n + j] = numbers(Jt)[j * s.S() + i];
    unpad(M, n, s, task.M);
}

}  // namespace

#define TL_JOIN_(a, b) a##b
#define TL_JOIN(a, b) TL_JOIN_(a, b)

const KalmanKernels& TL_JOIN(kalman_kernels_, TL_ISA)() {
    static constexpr KalmanKernels table = {W, workspace, forward, forward_lanes, backward, gain};
    return table;
}

}  // namespace tagloom
