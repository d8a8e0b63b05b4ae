// The hot recursions over dense transitions, compiled once per instruction set (*_kernels.cpp) and
// reached through one table. Two layouts of the same recursion:
//
//   lanes   many sequences at once, one in each lane of a few vectors: hides latency, best for
//           batches of short sequences; in int32 or float where that is provably enough;
//   one     one sequence, labels across the vector, always in double: for few or long sequences.
//
// Order k > 1 runs in blocks. A state is a history of k labels, (h_1 .. h_k), numbered in base Y.
// With G = Y^(k-1), the transition from state a*G + g to state g*Y + c appends label c to the
// suffix g, so the transitions are G matrices [Y, Y] and one step costs G*Y*Y = Y^(k+1). First
// order is G = 1. Before position k the missing labels count as 0. All paths at t have histories of
// the same length, so two different histories never share a state; `levels` matrices hold scores of
// short histories.
//
// Everything here is plain data: this header is included by files built for different machines.
#pragma once

#include <cstdint>

#include "core/history.hpp"
#include "core/kalman_kernels.hpp"
#include "core/rows.hpp"

namespace tagloom {

// Scores (max-plus) or probabilities (sum-times) shared by all sequences of a batch.
template <class R>
struct Transitions {
    int64_t Y = 0;                // labels
    int64_t G = 1;                // blocks
    int64_t levels = 1;           // the transition into t uses matrix min(t, levels) - 1
    int64_t stride = 0;           // elements in a row of a matrix, >= Y
    const R* matrices = nullptr;  // [levels, G, Y, stride] from a to c
    const R* start = nullptr;     // [Y] always scores
    const R* stop = nullptr;      // [Y]

    int64_t states() const { return G * Y; }
    int64_t level(int64_t t) const { return (t < levels ? t : levels) - 1; }
    const R* matrix(int64_t t) const { return matrices + level(t) * G * Y * stride; }
};

// Sum-times works on exp(score - offset); log_z adds these offsets again.
struct Offsets {
    const double* levels = nullptr;  // [levels]
    double stop = 0;
};

// How sum-times detects underflow, see losses.hpp. It is off where the driver has proven that
// underflow cannot matter.
template <class R>
struct Guard {
    bool is_on = false;
    bool small_transitions = false;  // whether a transition or a stop is below `tiny`
    const R* sums = nullptr;         // [levels, Y] largest over g of sum_a P[g, a, c]
    R* delta = nullptr;              // [2, S, lanes] or [2, S + 8] scratch
};

// Results of a sum-times run besides log_z; null for results that are not needed.
template <class In>
struct Expected {
    In* marginals = nullptr;        // [tokens, Y], whole batch
    In* pairs = nullptr;            // [tokens, Y, Y], whole batch; `one` only
    double* transitions = nullptr;  // [levels, G, Y, Y] += weight * expected transitions
    double* start = nullptr;        // [Y] +=
    double* stop = nullptr;         // [Y] +=
};

// Viterbi in lanes works on integers, score * scale rounded: adding and comparing them is exact,
// and twice as fast as with floats. `forbidden` represents -inf, `no_emission` an emission of -inf:
// the bits of -inf, less those of the number added for rounding. A value below `reachable` contains
// one of them, or else belongs to a path `far` behind, and the lane is not sure.
struct Fixed {
    static constexpr int32_t forbidden = -(400 << 20), reachable = -(1 << 28);
    static constexpr int32_t no_emission = int32_t(0xff800000) - 0x4b400000;
    static constexpr int32_t far = -(1 << 27);   // paths further behind need the other kernel
    static constexpr int32_t largest = 1 << 22;  // of scaled emissions and transitions together

    // The sum of a state, a transition and an emission that are all forbidden fits.
    static_assert(int64_t(no_emission) + 2 * forbidden - 2 * largest > INT32_MIN);
    // A forbidden value stays below `reachable` even if the best value has fallen to `far`,
    static_assert(forbidden - far + 2 * largest < reachable);
    // and a path that was not far behind stays above it.
    static_assert(far - 2 * largest > reachable);
};

template <class In>
struct LaneViterbi {
    const Transitions<int32_t>* transitions;
    const int32_t* transposed;  // [levels, G, Y, Y] the same matrices, to -> from
    float scale;                // a power of two
    const In* emit;             // [tokens, Y], whole batch
    const int64_t* first;       // [n] first token of the sequence in each lane
    const int64_t* length;      // [n] positive, descending
    int64_t n;                  // lanes in use
    int32_t* alpha;             // [length[0], S, lanes] scratch
    int32_t* candidates;        // [Y, lanes] scratch
    float* row;                 // [Y, lanes] scratch
    bool forbids;               // whether anything may be forbidden, by a transition or an emission
    int32_t* path;              // [tokens], whole batch; -1 throughout a sequence without a path
    bool* sure;                 // [n] false where rounding could have changed the path
};

// Tokens that share rows of scores: exponentials are taken once for each row, not for each token.
template <class R>
struct SharedRows {
    const int32_t* ids = nullptr;  // [tokens] the row of each token; null if each has its own
    const R* probs = nullptr;      // [rows, Y] exp(score - top)
    const double* top = nullptr;   // [rows] the largest score of the row; 0 if all are -inf
    const bool* is_low =
        nullptr;  // [rows] whether a possible label is below `tiny`, see losses.hpp
};

// The forward pass of sum-times, which sums, samples and entropies share.
template <class In, class R>
struct LaneForward {
    const Transitions<R>* transitions;
    Offsets offsets;
    Guard<R> guard;
    const In* emit;  // [tokens, Y], whole batch; [rows, Y] with shared rows
    SharedRows<R> shared;
    const int64_t* first;
    const int64_t* length;
    int64_t n;
    bool keep_alpha, keep_rows;  // whether to keep those of every position
    R* alpha;                    // [T, S, lanes] scratch, T = length[0]; [2, S, lanes] if not kept
    R* rows;                     // [T, Y, lanes] scratch; [1, Y, lanes] if not kept
    double* log_z;               // [n]
    bool* ok;                    // [n] false where underflow may have cost precision
};

// `expected` is filled if and only if alpha, and in lanes rows, are kept.
template <class In, class R>
struct LaneSum : LaneForward<In, R> {
    const double* weight;  // [n] of each sequence, for the sums of `expected`
    const int64_t* place;  // [n] first row of each sequence in the marginals of `expected`
    R* beta;               // [S, lanes] scratch
    R* gamma;              // [Y, lanes] scratch
    R* b;                  // [T, S, lanes] scratch; one row unless there are transitions
    Expected<In> expected;
};

template <class In, class R>
struct LaneSample : LaneForward<In, R> {  // alpha is kept
    const R* transposed;                  // [levels, G, Y, Y] the matrices, to -> from
    int64_t draws;                        // of each sequence
    const double* uniform;                // [tokens, draws] in [0, 1), whole batch
    int64_t path_stride;                  // from one draw to the next
    R* weights;                           // [S, lanes] scratch
    int32_t* paths;                       // [draws, tokens], whole batch
};

template <class In>
struct LaneEntropy : LaneForward<In, double> {
    const Transitions<double>* log_transitions;  // P log P in place of P
    double* h;                                   // [S, lanes] scratch
    double* sums;                                // [3, S, lanes] scratch
    double* entropy;                             // [n]
};

template <class In>
struct OneViterbi {
    const Transitions<double>* transitions;
    const In* emit;  // [T, Y] this sequence
    const In* edge;  // [T, Y, Y] this sequence, or null
    int64_t T;
    int64_t block;        // rows of alpha kept; the rest is computed again from checkpoints
    double* alpha;        // [block, S + 8] scratch
    double* checkpoints;  // [ceil(T / block), S + 8] scratch
    double* row;          // [Y + 8] scratch
    double* matrix;       // [Y, stride] scratch, with edge
    int32_t* path;        // [T] this sequence; -1 throughout when there is no path
};

// Sequences over the labels that no other dominates, see dominance.hpp. Rows of tables have a
// stride of whole cache lines, padded with -inf.
struct DominanceViterbi {
    int64_t Y;              // at most 64
    const float* trans;     // [Y, stride]
    const float* into;      // [Y, stride] the same, to -> from
    const float* lead;      // [Y, stride]
    const float* start;     // [stride]
    const float* stop;      // [stride]
    const float* emit;      // [tokens, Y], whole batch; a row is read as [stride]
    const int64_t* first;   // [n] first token of each sequence
    const int64_t* length;  // [n] positive
    int64_t n, longest;
    float margin;   // of dominance
    float error;    // of the difference of two paths, for each position, start and stop included
    float* rows;    // [2, longest, stride] scratch
    int32_t* path;  // [tokens], whole batch
    bool* sure;     // [n] false where rounding could have changed the path
    mutable int64_t remaining;  // labels, summed over all positions
};

// out[y] = max over the rows i of rows[i, y] - rows[i, column].
struct LargestDifferences {
    const double* rows;  // [n, stride], a multiple of the widest vector
    int64_t n, stride, column;
    double* out;  // [stride]
};

// The scores of the best paths to every state, for the n best paths.
template <class In>
struct OneBest {
    const Transitions<double>* transitions;
    const In* emit;
    const In* edge;
    int64_t T;
    double* row;     // [Y + 8] scratch
    double* matrix;  // [Y, stride] scratch, with edge
    double* alpha;   // [T, S + 8] less the best at each position
    double* offset;  // [T] that best, on top of those before
};

template <class In>
struct OneForward {
    const Transitions<double>*
        transitions;  // scores, not probabilities, when edge is given and G is 1
    Offsets offsets;
    Guard<double> guard;
    const In* emit;  // [T, Y] this sequence
    const In* edge;  // [T, Y, Y] this sequence, or null
    int64_t T;
    bool keep_alpha;
    double* alpha;   // [T or 2, S + 8] scratch
    double* row;     // [Y + 8] scratch
    double* matrix;  // [Y, stride] scratch, with edge
    double* log_z;   // one
    bool* ok;        // one
};

template <class In>
struct OneSum : OneForward<In> {
    int64_t token;  // first token of this sequence, where `expected` arrays are written
    double weight;
    double* beta;  // [S + 8] scratch
    double* b;     // [S + 8] scratch
    Expected<In> expected;
};

template <class In>
struct OneSample : OneForward<In> {  // alpha is kept
    int64_t draws;
    const double* uniform;  // [T, draws] this sequence
    int64_t path_stride;
    double* weights;  // [S] scratch
    int64_t* states;  // [draws] scratch
    int32_t* paths;   // [draws, T] this sequence
};

template <class In>
struct OneEntropy : OneForward<In> {
    const Transitions<double>*
        log_transitions;  // P log P in place of P; not read with edge and G = 1
    double* log_matrix;   // [Y, stride] scratch, with edge and G = 1
    double* h;            // [S + 8] scratch
    double* sums;         // [3, S + 8] scratch
    double* ones;         // [Y + 8] scratch
    double* entropy;      // one
};

struct Kernels {
    const char* name;
    int64_t lanes32, lanes64;  // sequences per group, for float and double arithmetic
    bool (*viterbi_f32)(const LaneViterbi<float>&);  // false if `forbids` is wrong
    bool (*viterbi_f64)(const LaneViterbi<double>&);
    void (*sum_f32)(const LaneSum<float, float>&);
    void (*sum_f32_in_f64)(const LaneSum<float, double>&);
    void (*sum_f64)(const LaneSum<double, double>&);
    void (*one_viterbi_f32)(const OneViterbi<float>&);
    void (*one_viterbi_f64)(const OneViterbi<double>&);
    void (*one_sum_f32)(const OneSum<float>&);
    void (*one_sum_f64)(const OneSum<double>&);
    void (*sample_f32)(const LaneSample<float, float>&);
    void (*sample_f32_in_f64)(const LaneSample<float, double>&);
    void (*sample_f64)(const LaneSample<double, double>&);
    void (*one_sample_f32)(const OneSample<float>&);
    void (*one_sample_f64)(const OneSample<double>&);
    void (*entropy_f32)(const LaneEntropy<float>&);
    void (*entropy_f64)(const LaneEntropy<double>&);
    void (*one_entropy_f32)(const OneEntropy<float>&);
    void (*one_entropy_f64)(const OneEntropy<double>&);
    void (*one_best_f32)(const OneBest<float>&);
    void (*one_best_f64)(const OneBest<double>&);
    void (*dominance)(const DominanceViterbi&);
    void (*largest_differences)(const LargestDifferences&);
    void (*exp)(double* x, int64_t n);  // in place, for x <= 0; -inf gives a true zero
    void (*add_f32)(const float* x, double weight, int64_t n, double* to);  // to += weight * x
    void (*add_f64)(const double* x, double weight, int64_t n, double* to);
    float (*largest_f32)(const float* x, int64_t n);  // |x|, -inf aside; NaN if there is a NaN
    double (*largest_f64)(const double* x, int64_t n);
    const RowKernels& (*rows)();         // sums over attributes, see rows.hpp
    const HistoryKernels& (*history)();  // of L-BFGS, see history.hpp
    const KalmanKernels& (*kalman)();    // of Gaussian states, see kalman_kernels.hpp
};

// One per instruction set that was compiled in; see dispatch.cpp.
const Kernels& kernels_baseline();
const Kernels& kernels_avx2();
const Kernels& kernels_avx512();

}  // namespace tagloom
