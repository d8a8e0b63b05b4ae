// The steps of the recursions over an automaton in log space, shared by the files automaton*.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/automaton.hpp"
#include "core/dispatch.hpp"

namespace tagloom::steps {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

// The log of the sum of exp(x[i]); x becomes exp(x[i] - its maximum).
inline double log_sum_exp(double* x, int64_t n) {
    double m = kMinusInf;
    for (int64_t i = 0; i < n; ++i) m = std::max(m, x[i]);
    if (m == kMinusInf) return m;
    for (int64_t i = 0; i < n; ++i) x[i] -= m;
    kernels().exp(x, n);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += x[i];
    return m + std::log(sum);
}

// Turns scores into probabilities that sum to one. At every position the scores of all states, and
// of all transitions, log-sum to log_z; dividing by their actual sum avoids the rounding error of
// log_z.
inline void normalise(std::vector<double>& scores) {
    log_sum_exp(scores.data(), scores.size());
    double sum = 0;
    for (double x : scores) sum += x;
    for (double& x : scores) x /= sum;
}

// The fold of term(0) .. term(n - 1): their maximum, or the log of the sum of their exponentials.
template <class Term>
double fold_terms(Fold fold, int64_t n, const Term& term) {
    if (fold == Fold::max) {
        double m = kMinusInf;
        for (int64_t i = 0; i < n; ++i) m = std::max(m, term(i));
        return m;
    }
    thread_local std::vector<double> terms;
    if (static_cast<int64_t>(terms.size()) < n) terms.resize(n);
    for (int64_t i = 0; i < n; ++i) terms[i] = term(i);
    return log_sum_exp(terms.data(), n);
}

// Score of transition m into position t, without the emission there.
template <class In>
double transition_score(const Automaton& a, const Sequence<In>& x, int64_t t, int64_t m) {
    if (!x.edge) return a.score[m];
    return a.score[m] + x.edge[(t * a.Y() + a.label(a.src(m))) * a.Y() + a.label(a.dst(m))];
}

template <class In>
double emission(const Automaton& a, const Sequence<In>& x, int64_t t, int64_t s) {
    return x.emit[t * a.Y() + a.label(s)];
}

// alpha[t, s] = emit[t, y(s)] + fold over m into s of (alpha[t-1, src(m)] + score_t(m)).
template <class In>
void forward_step(const Automaton& a, const Sequence<In>& x, Fold fold, int64_t t,
                  const double* before, double* alpha) {
    for (int64_t s = 0; s < a.states(); ++s) {
        const double emit = emission(a, x, t, s);
        if (emit == kMinusInf) {
            alpha[s] = kMinusInf;
            continue;
        }
        const int64_t m0 = a.into(s);
        alpha[s] = emit + fold_terms(fold, a.into(s + 1) - m0, [&](int64_t i) {
                       return before[a.src(m0 + i)] + transition_score(a, x, t, m0 + i);
                   });
    }
}

template <class In>
void forward_start(const Automaton& a, const Sequence<In>& x, double* alpha) {
    for (int64_t s = 0; s < a.states(); ++s) alpha[s] = a.start[s] + emission(a, x, 0, s);
}

inline double forward_total(const Automaton& a, Fold fold, const double* alpha) {
    return fold_terms(fold, a.states(), [&](int64_t s) { return alpha[s] + a.stop[s]; });
}

}  // namespace tagloom::steps
