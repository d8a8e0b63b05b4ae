// A state space with scores, in double: the layout for pruned and user-defined state spaces, and
// for sequences where the scaled probabilities of the dense kernels underflow. Sums over paths use
// scaled probabilities where these lose no precision, and log space elsewhere.
#pragma once

#include <cstdint>
#include <vector>

#include "core/space.hpp"

namespace tagloom {

// The space is not copied: it must outlive the automaton.
struct Automaton {
    explicit Automaton(const Space& s)
        : space(&s), score(s.transitions(), 0.0), start(s.states(), 0.0), stop(s.states(), 0.0) {}

    const Space* space;
    std::vector<double> score;        // [M]
    std::vector<double> start, stop;  // [S] -inf where a path may not start or stop

    int64_t Y() const { return space->Y; }
    int64_t states() const { return space->states(); }
    int64_t transitions() const { return space->transitions(); }
    int32_t label(int64_t s) const { return space->label[s]; }
    int32_t src(int64_t m) const { return space->src[m]; }
    int32_t dst(int64_t m) const { return space->dst[m]; }
    int64_t into(int64_t s) const { return space->into[s]; }
};

// One sequence. In is float or double; all arithmetic is double.
template <class In>
struct Sequence {
    const In* emit;  // [T, Y]
    const In* edge;  // [T, Y, Y] or null; row 0 is not read
    int64_t T;
};

enum class Fold { max, log_sum };

// alpha [T, S] and beta [T, S]; both return the total over all paths. T > 0. With ⊕ the fold,
//
//   alpha[t, s]   = emit[t, y(s)] + ⊕_{m into s} (alpha[t-1, src(m)] + score_t(m))
//   beta[t-1, p]  = ⊕_{m out of p} (score_t(m) + emit[t, y(dst(m))] + beta[t, dst(m)])
template <class In>
double forward(const Automaton& a, const Sequence<In>& x, Fold fold, double* alpha);
template <class In>
double backward(const Automaton& a, const Sequence<In>& x, Fold fold, double* beta);

// The total in O(S + M) memory.
template <class In>
double log_partition(const Automaton& a, const Sequence<In>& x);

// Expected counts of one sequence, times `weight`; null for results that are not needed.
template <class In>
struct AutomatonExpected {
    In* marginals = nullptr;        // [T, Y] this sequence
    In* pairs = nullptr;            // [T, Y, Y] this sequence, row 0 zero
    double* transitions = nullptr;  // [M] +=
    double* start = nullptr;        // [S] +=
    double* stop = nullptr;         // [S] +=
};
template <class In>
double expectations(const Automaton& a, const Sequence<In>& x, double weight,
                    const AutomatonExpected<In>& expected);

// pairs[t, y, y'] = Pr(label y at t - distance, y' at t); rows before `distance` are zero.
template <class In>
void distant_pairs(const Automaton& a, const Sequence<In>& x, int64_t distance, In* pairs);

// Best path; false, and -1 throughout, when there is none.
template <class In>
bool viterbi(const Automaton& a, const Sequence<In>& x, int32_t* path);

// Up to n best paths [n, T] in order; returns how many.
template <class In>
int64_t nbest(const Automaton& a, const Sequence<In>& x, int64_t n, std::vector<int32_t>& paths);

// n exact draws [n, T] (rows `row_stride` apart) from uniform numbers [n, T] in [0, 1).
template <class In>
bool sample(const Automaton& a, const Sequence<In>& x, int64_t n, const double* uniform,
            int64_t row_stride, int32_t* paths);

// Entropy of the distribution over paths, in nats; 0 when there is no path.
template <class In>
double entropy(const Automaton& a, const Sequence<In>& x);

// The first position that no path reaches; T if only the stop is unreachable; -1 if a path exists.
template <class In>
int64_t first_dead_position(const Automaton& a, const Sequence<In>& x);

// Score of a path of labels; -inf if the automaton does not allow it.
template <class In>
double path_score(const Automaton& a, const Sequence<In>& x, const int32_t* path);

}  // namespace tagloom
