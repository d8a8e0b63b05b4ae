// Any automaton over labels, in double: the answer where the scaled probabilities of the dense
// kernels underflow, and the only layout for pruned and user-made state spaces. Sums over paths are
// taken on scaled probabilities too, and in log space where those would lose digits.
#pragma once

#include <cstdint>
#include <vector>

namespace tagloom {

// Moves sorted by the state they lead to (CSR), with a second index by the state they leave.
struct Automaton {
    int64_t Y = 0;                    // labels
    std::vector<int32_t> label;       // [S] of each state
    std::vector<int32_t> src, dst;    // [M] sorted by dst
    std::vector<double> score;        // [M]
    std::vector<double> start, stop;  // [S] -inf where a path may not start or stop
    std::vector<int64_t> into;        // [S + 1] moves into s are into[s] .. into[s + 1]
    std::vector<int64_t> out_of;      // [S + 1] moves out of s are by_src[out_of[s]] ...
    std::vector<int64_t> by_src;      // [M]

    int64_t states() const { return static_cast<int64_t>(label.size()); }
    int64_t moves() const { return static_cast<int64_t>(src.size()); }
    void index();  // fills into, out_of and by_src; moves must be sorted by dst
};

// One sequence. In is float or double; all arithmetic is double.
template <class In>
struct Sequence {
    const In* emit;  // [T, Y]
    const In* edge;  // [T, Y, Y] or null; row 0 is not read
    int64_t T;
};

enum class Fold { max, log_sum };

// alpha [T, S] and beta [T, S]; return the total over all paths. T > 0.
template <class In>
double forward(const Automaton& a, const Sequence<In>& x, Fold fold, double* alpha);
template <class In>
double backward(const Automaton& a, const Sequence<In>& x, Fold fold, double* beta);

// The total in O(S + M) memory.
template <class In>
double log_partition(const Automaton& a, const Sequence<In>& x);

// Expectations of one sequence, each counted `weight` times; null for what is not wanted.
template <class In>
struct AutomatonExpected {
    In* marginals = nullptr;  // [T, Y] this sequence
    In* pairs = nullptr;      // [T, Y, Y] this sequence, row 0 zero
    double* moves = nullptr;  // [M] +=
    double* start = nullptr;  // [S] +=
    double* stop = nullptr;   // [S] +=
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

// n exact draws [n, T] (rows `row_stride` apart), steered by uniform numbers [n, T] in [0, 1).
template <class In>
bool sample(const Automaton& a, const Sequence<In>& x, int64_t n, const double* uniform,
            int64_t row_stride, int32_t* paths);

// Entropy of the distribution over paths, in nats; 0 when there is no path.
template <class In>
double entropy(const Automaton& a, const Sequence<In>& x);

// The first position that no path reaches; T if only the stop is out of reach; -1 if all is well.
template <class In>
int64_t first_dead_position(const Automaton& a, const Sequence<In>& x);

// Score of a path of labels; -inf if the automaton does not allow it.
template <class In>
double path_score(const Automaton& a, const Sequence<In>& x, const int32_t* path);

}  // namespace tagloom
