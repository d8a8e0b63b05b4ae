// The best path through an automaton, and the n best.
#include <algorithm>
#include <vector>

#include "core/automaton.hpp"
#include "core/automaton_steps.hpp"
#include "core/lazy_nbest.hpp"

namespace tagloom {

using namespace steps;

namespace {

// Scores of the best paths to every state at every position, less their maximum there, with the
// last transition of each. Ties go to the path whose labels are lowest, compared from the end.
struct BestPaths {
    std::vector<double> alpha;   // [T, S]
    std::vector<double> offset;  // [T] the maximum that was subtracted
    std::vector<int32_t>
        arrival;  // [T, S] transition into s, -1 at the start or where there is none

    template <class In>
    BestPaths(const Automaton& a, const Sequence<In>& x);
};

// Whether the best path to s comes before the one to r at position t, when both score the same.
bool tie_before(const Automaton& a, const std::vector<int32_t>& arrival, int64_t t, int64_t s,
                int64_t r) {
    const int64_t S = a.states();
    for (; s != r; --t) {
        if (a.label(s) != a.label(r)) return a.label(s) < a.label(r);
        if (t == 0) return s < r;
        s = a.src(arrival[t * S + s]);
        r = a.src(arrival[t * S + r]);
    }
    return false;
}

template <class In>
BestPaths::BestPaths(const Automaton& a, const Sequence<In>& x) {
    const int64_t S = a.states(), T = x.T;
    alpha.resize(T * S);
    offset.assign(T, 0.0);
    arrival.assign(T * S, -1);
    for (int64_t t = 0; t < T; ++t) {
        double* now = &alpha[t * S];
        if (t == 0) forward_start(a, x, now);
        for (int64_t s = 0; t > 0 && s < S; ++s) {
            const double* before = now - S;
            double best = kMinusInf;
            int64_t arg = -1;
            for (int64_t m = a.into(s); m < a.into(s + 1); ++m) {
                const double score = before[a.src(m)] + transition_score(a, x, t, m);
                if (score > best || (score == best && arg >= 0 &&
                                     tie_before(a, arrival, t - 1, a.src(m), a.src(arg))))
                    best = score, arg = m;
            }
            now[s] = best + emission(a, x, t, s);
            if (now[s] > kMinusInf) arrival[t * S + s] = static_cast<int32_t>(arg);
        }
        const double m = *std::max_element(now, now + S);
        if (m == kMinusInf) continue;
        offset[t] = m;
        for (int64_t s = 0; s < S; ++s) now[s] -= m;
    }
}

}  // namespace

template <class In>
bool viterbi(const Automaton& a, const Sequence<In>& x, int32_t* path) {
    const int64_t S = a.states(), T = x.T;
    const BestPaths best(a, x);
    double top = kMinusInf;
    int64_t state = -1;
    for (int64_t s = 0; s < S; ++s) {
        const double score = best.alpha[(T - 1) * S + s] + a.stop[s];
        if (score > top ||
            (score == top && state >= 0 && tie_before(a, best.arrival, T - 1, s, state)))
            top = score, state = s;
    }
    if (state < 0) {
        std::fill_n(path, T, -1);
        return false;
    }
    for (int64_t t = T - 1;; --t) {
        path[t] = a.label(state);
        if (t == 0) return true;
        state = a.src(best.arrival[t * S + state]);
    }
}

namespace {

// The states of each position as the layers of a graph; scores are less the maximum of their layer.
template <class In>
struct StateGraph {
    const Automaton& a;
    const Sequence<In>& x;
    const BestPaths& paths;

    int64_t length() const { return x.T; }
    double best(int64_t t, int32_t s) const { return paths.alpha[t * a.states() + s]; }
    int32_t source(int64_t t, int32_t s) const {
        return static_cast<int32_t>(a.src(paths.arrival[t * a.states() + s]));
    }
    int32_t label(int64_t, int32_t s) const { return static_cast<int32_t>(a.label(s)); }
    template <class Visit>
    void arrivals(int64_t t, int32_t s, const Visit& visit) const {
        if (t == x.T) {
            for (int32_t r = 0; r < a.states(); ++r) visit(r, a.stop[r]);
            return;
        }
        const double emit = emission(a, x, t, s) - paths.offset[t];
        for (int64_t m = a.into(s); m < a.into(s + 1); ++m)
            visit(static_cast<int32_t>(a.src(m)), transition_score(a, x, t, m) + emit);
    }
};

}  // namespace

template <class In>
int64_t nbest(const Automaton& a, const Sequence<In>& x, int64_t n, std::vector<int32_t>& paths) {
    const BestPaths best(a, x);
    const StateGraph<In> graph{a, x, best};
    LazyNBest<StateGraph<In>> search(graph);
    paths.clear();
    int64_t found = 0;
    for (; found < n && search.ensure(found); ++found) {
        paths.resize((found + 1) * x.T);
        int32_t* path = &paths[found * x.T];
        search.read(found, path);
        for (int64_t t = 0; t < x.T; ++t) path[t] = graph.label(t, path[t]);
    }
    return found;
}

#define TL_INSTANTIATE(In)                                                      \
    template bool viterbi<In>(const Automaton&, const Sequence<In>&, int32_t*); \
    template int64_t nbest<In>(const Automaton&, const Sequence<In>&, int64_t,  \
                               std::vector<int32_t>&);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)

}  // namespace tagloom
