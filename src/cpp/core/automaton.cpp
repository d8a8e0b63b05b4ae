// Forward and backward scores, exact draws, and scores of given paths, in log space.
#include "core/automaton.hpp"

#include <algorithm>
#include <vector>

#include "core/automaton_steps.hpp"

namespace tagloom {

using namespace steps;

template <class In>
double forward(const Automaton& a, const Sequence<In>& x, Fold fold, double* alpha) {
    const int64_t S = a.states();
    forward_start(a, x, alpha);
    for (int64_t t = 1; t < x.T; ++t)
        forward_step(a, x, fold, t, alpha + (t - 1) * S, alpha + t * S);
    return forward_total(a, fold, alpha + (x.T - 1) * S);
}

template <class In>
double backward(const Automaton& a, const Sequence<In>& x, Fold fold, double* beta) {
    const int64_t S = a.states();
    std::copy(a.stop.begin(), a.stop.end(), beta + (x.T - 1) * S);
    for (int64_t t = x.T - 1; t > 0; --t)
        for (int64_t s = 0; s < S; ++s) {
            const int64_t lo = a.space->out_of[s], hi = a.space->out_of[s + 1];
            beta[(t - 1) * S + s] = fold_terms(fold, hi - lo, [&](int64_t i) {
                const int64_t m = a.space->by_src[lo + i], to = a.dst(m);
                return transition_score(a, x, t, m) + emission(a, x, t, to) + beta[t * S + to];
            });
        }
    return fold_terms(fold, S,
                      [&](int64_t s) { return a.start[s] + emission(a, x, 0, s) + beta[s]; });
}

template <class In>
int64_t first_dead_position(const Automaton& a, const Sequence<In>& x) {
    const int64_t S = a.states();
    std::vector<double> alpha(2 * S);
    for (int64_t t = 0; t < x.T; ++t) {
        double* now = &alpha[t % 2 * S];
        if (t == 0)
            forward_start(a, x, now);
        else
            forward_step(a, x, Fold::max, t, &alpha[(t - 1) % 2 * S], now);
        if (*std::max_element(now, now + S) == kMinusInf) return t;
    }
    const double total = x.T ? forward_total(a, Fold::max, &alpha[(x.T - 1) % 2 * S]) : 0.0;
    return total == kMinusInf ? x.T : -1;
}

template <class In>
double path_score(const Automaton& a, const Sequence<In>& x, const int32_t* path) {
    if (x.T == 0) return 0;
    const Space& space = *a.space;
    const auto is_label = [&](int32_t y) { return y >= 0 && y < space.Y; };
    if (!is_label(path[0]) || space.first_state[path[0]] < 0) return kMinusInf;
    int64_t state = space.first_state[path[0]];
    double sum = a.start[state] + emission(a, x, 0, state);
    for (int64_t t = 1; t < x.T; ++t) {
        const int64_t m = is_label(path[t]) ? space.transition_of[state * space.Y + path[t]] : -1;
        if (m < 0) return kMinusInf;
        state = space.dst[m];
        sum += transition_score(a, x, t, m) + emission(a, x, t, state);
    }
    return sum + a.stop[state];
}

template <class In>
bool sample(const Automaton& a, const Sequence<In>& x, int64_t n, const double* uniform,
            int64_t row_stride, int32_t* paths) {
    const int64_t S = a.states(), T = x.T;
    std::vector<double> alpha(T * S);
    const double log_z = forward(a, x, Fold::log_sum, alpha.data());
    if (log_z == kMinusInf) return false;
    std::vector<double> weight;
    // Draws index i with probability proportional to exp(weight[i]); never one with weight -inf.
    auto draw = [&](double u) {
        log_sum_exp(weight.data(), weight.size());
        double sum = 0;
        for (double w : weight) sum += w;
        double rest = u * sum;
        int64_t last = 0;
        for (size_t i = 0; i < weight.size(); ++i) {
            if (weight[i] == 0) continue;
            last = i;
            rest -= weight[i];
            if (rest < 0) break;
        }
        return last;
    };
    for (int64_t k = 0; k < n; ++k) {
        const double* u = uniform + k * row_stride;
        int32_t* path = paths + k * row_stride;
        weight.resize(S);
        for (int64_t s = 0; s < S; ++s) weight[s] = alpha[(T - 1) * S + s] + a.stop[s];
        int64_t state = draw(u[T - 1]);
        for (int64_t t = T - 1;; --t) {
            path[t] = a.label(state);
            if (t == 0) break;
            const int64_t m0 = a.into(state);
            weight.resize(a.into(state + 1) - m0);
            for (size_t i = 0; i < weight.size(); ++i)
                weight[i] = alpha[(t - 1) * S + a.src(m0 + i)] + transition_score(a, x, t, m0 + i);
            state = a.src(m0 + draw(u[t - 1]));
        }
    }
    return true;
}

#define TL_INSTANTIATE(In)                                                                  \
    template double forward<In>(const Automaton&, const Sequence<In>&, Fold, double*);      \
    template double backward<In>(const Automaton&, const Sequence<In>&, Fold, double*);     \
    template bool sample<In>(const Automaton&, const Sequence<In>&, int64_t, const double*, \
                             int64_t, int32_t*);                                            \
    template int64_t first_dead_position<In>(const Automaton&, const Sequence<In>&);        \
    template double path_score<In>(const Automaton&, const Sequence<In>&, const int32_t*);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)

}  // namespace tagloom
