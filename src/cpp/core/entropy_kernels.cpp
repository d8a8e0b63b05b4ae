// The entropy of the distribution over paths, in lanes and of one sequence, for one instruction
// set. h[t, s] is the entropy of the path up to t, given that it is in state s there. In the
// symbols of the loops, with q[a] = alpha[t-1, a*G + g] * P[g, a, c] / s, the probability that a*G
// + g came before g*Y + c:
//
//   h[0, s]       = 0
//   h[t, g*Y + c] = sum_a q[a] * (h[t-1, a*G + g] - log q[a]) = log s + (v - w) / s
//   s = sum_a alpha[t-1, a*G + g] * P[g, a, c]
//   v = sum_a u[a*G + g] * P[g, a, c],  u = alpha[t-1] * (h[t-1] - log alpha[t-1])
//   w = sum_a alpha[t-1, a*G + g] * P[g, a, c] * log P[g, a, c]
//
// Three vector-times-matrix steps and a few logarithms per state, instead of a logarithm per
// transition. All terms are those of one position, rescaled, so that none grows with the length of
// the sequence or with the size of its scores. In double throughout.

#include "core/forward_lanes.hpp"
#include "core/forward_one.hpp"
#include "core/kernel_functions.hpp"

namespace tagloom {
namespace {

// alpha * (h - log alpha), 0 where alpha is.
inline Vector<double> weigh(Vector<double> alpha, Vector<double> h) {
    return alpha > 0.0 ? alpha * (h - log_each(alpha)) : Vector<double>{};
}
// h from s, v and w; 0 for a state that no path reaches, and never below 0 by rounding.
inline Vector<double> conditional(Vector<double> s, Vector<double> v, Vector<double> w) {
    const Vector<double> h = log_each(s) + (v - w) / s;
    return (s > 0.0) & (h > 0.0) ? h : Vector<double>{};
}

// The entropy over all paths, from alpha[T-1], h[T-1] and stop: elements `step` apart.
template <class Stop>
inline double mixed(int64_t S, const double* alpha, const double* h, int64_t step,
                    const Stop& stop) {
    double z = 0, sum = 0;
    for (int64_t s = 0; s < S; ++s) z += alpha[s * step] * stop(s);
    if (!(z > 0)) return 0;
    for (int64_t s = 0; s < S; ++s) {
        const double q = alpha[s * step] * stop(s) / z;
        if (q > 0) sum += q * (h[s * step] - (q < 1 ? log(q) : 0));
    }
    return sum;
}

constexpr auto as_it_is = [](int64_t, int, Vector<double> x) { return x; };

}  // namespace

namespace TL_ISA {

template <class In>
void entropy_lanes(const LaneEntropy<In>& task) {
    using V = Vector<double>;
    constexpr int64_t lanes = L<double>, width = W<double>;
    const Transitions<double>& transitions = *task.transitions;
    const int64_t Y = transitions.Y, size = transitions.states() * lanes;
    double *u = task.sums, *s = task.sums, *v = s + size, *w = v + size, *h = task.h;
    ForwardLanes<In, double> forward(task);
    auto begin = [&] {
        for (int64_t i = 0; i < size; ++i) h[i] = 0;
    };
    auto step = [&](int64_t t, const double* before, const double*, double* alpha,
                    const auto& finish) {
        for (int64_t i = 0; i < size; i += width)
            store(u + i, weigh(load(before + i), load(h + i)));
        lane_forward<SumTimes>(transitions, t, u, v, as_it_is);
        lane_forward<SumTimes>(*task.log_transitions, t, before, w, as_it_is);
        lane_forward<SumTimes>(transitions, t, before, s, as_it_is);  // u is not needed any more
        for (int64_t block = 0; block < size; block += Y * lanes)
            for (int64_t c = 0; c < Y; ++c)
                for (int i = 0; i < NV; ++i) {
                    const int64_t at = block + c * lanes + i * width;
                    const V sum = load(s + at);
                    store(h + at, conditional(sum, load(v + at), load(w + at)));
                    store(alpha + at, finish(c, i, sum));
                }
    };
    auto end = [&](int64_t l, const double* alpha) {
        task.entropy[l] = mixed(transitions.states(), alpha + l, h + l, lanes,
                                [&](int64_t state) { return forward.stop(state); });
    };
    forward.run(begin, step, end);
}

template <class In>
void entropy_one(const OneEntropy<In>& task) {
    const Transitions<double>& transitions = *task.transitions;
    const int64_t Y = transitions.Y, G = transitions.G, S = transitions.states(), width = S + 8;
    double *u = task.sums, *v = u + width, *w = v + width, *h = task.h;
    for (int64_t y = 0; y < Y + 8; ++y) task.ones[y] = 1;
    auto ones = [&](int64_t) { return task.ones; };
    ForwardOne<In> forward(task);
    auto begin = [&] {
        for (int64_t i = 0; i < width; ++i) h[i] = 0;
    };
    auto step = [&](int64_t t, double* before, double* alpha) {
        const double* log_P = task.log_transitions->matrix(t);
        if (task.edge && G == 1) {
            for (int64_t i = 0; i < Y * transitions.stride; i += WD) {
                const D p = load(forward.P() + i);
                store(task.log_matrix + i, p > 0.0 ? p * log_each(p) : D{});
            }
            log_P = task.log_matrix;
        }
        for (int64_t i = S; i < width; ++i) before[i] = 0;
        for (int64_t i = 0; i < S; i += WD) store(u + i, weigh(load(before + i), load(h + i)));
        one_forward<SumTimes>(transitions, forward.P(), u, ones, v);
        one_forward<SumTimes>(transitions, log_P, before, ones, w);
        one_forward<SumTimes>(transitions, forward.P(), before, ones, alpha);
        for (int64_t i = S; i < width; ++i) alpha[i] = 0;
        for (int64_t i = 0; i < S; i += WD)
            store(h + i, conditional(load(alpha + i), load(v + i), load(w + i)));
        for (int64_t g = 0; g < G; ++g)
            for (int64_t c = 0; c < Y; ++c) alpha[g * Y + c] *= forward.row(g)[c];
    };
    forward.run(begin, step);
    *task.entropy = mixed(S, forward.alpha_of(task.T - 1), h, 1,
                          [&](int64_t state) { return forward.stop(state); });
}

template void entropy_lanes<float>(const LaneEntropy<float>&);
template void entropy_lanes<double>(const LaneEntropy<double>&);
template void entropy_one<float>(const OneEntropy<float>&);
template void entropy_one<double>(const OneEntropy<double>&);

}  // namespace TL_ISA
}  // namespace tagloom
