// The hot recursions over dense moves, compiled once per instruction set (kernels.cpp) and reached
// through one table. Two layouts of the same recursion:
//
//   lanes   many sequences at once, one in each lane of a few vectors: no latency to wait for, best
//           for batches of short sequences; in int32 or float where that is provably enough;
//   one     one sequence, labels across the vector, always in double: for few or long sequences.
//
// Order k > 1 runs in blocks. A state is a history of k labels, (h_1 .. h_k), numbered in base Y.
// With G = Y^(k-1), the move from state a*G + g to state g*Y + c appends label c to the suffix g,
// so the moves are G matrices [Y, Y] and one step costs G*Y*Y = Y^(k+1). First order is G = 1.
// Before position k the missing labels are read as 0: all paths at t share their history's length,
// so no two meet by mistake, and `levels` matrices hold the scores for short histories.
//
// Everything here is plain data: this header is included by files built for different machines.
#pragma once

#include <cstdint>

#include "core/history.hpp"
#include "core/rows.hpp"

namespace tagloom {

// Scores (max-plus) or probabilities (sum-times) shared by all sequences of a batch.
template <class R>
struct Moves {
    int64_t Y = 0;                // labels
    int64_t G = 1;                // blocks
    int64_t levels = 1;           // the move into t uses matrix min(t, levels) - 1
    int64_t stride = 0;           // elements in a row of a matrix, >= Y
    const R* matrices = nullptr;  // [levels, G, Y, stride] from a to c
    const R* start = nullptr;     // [Y] always scores
    const R* stop = nullptr;      // [Y]

    int64_t states() const { return G * Y; }
    const R* matrix(int64_t t) const {
        return matrices + ((t < levels ? t : levels) - 1) * G * Y * stride;
    }
};

// Sum-times works on exp(score - offset); these offsets come back when log_z is put together.
struct Offsets {
    const double* levels = nullptr;  // [levels]
    double stop = 0;
};

// What a sum-times run writes besides log_z; null for what is not wanted.
template <class In>
struct Expected {
    In* marginals = nullptr;        // [tokens, Y], whole batch
    In* pairs = nullptr;            // [tokens, Y, Y], whole batch; `one` with G = 1 only
    double* transitions = nullptr;  // [levels, G, Y, Y] += weight * expected moves
    double* start = nullptr;        // [Y] +=
    double* stop = nullptr;         // [Y] +=
};

// Viterbi in lanes works on whole numbers, score * scale rounded, because adding and comparing them
// is twice as fast as with floats, and exact. `forbidden` stands for -inf, `no_emission` for that
// of an emission: the bits of -inf, less those of the number that rounds. Whatever is below
// `reachable` contains one of them, or else is a path `far` behind, and the lane is not sure.
struct Fixed {
    static constexpr int32_t forbidden = -(400 << 20), reachable = -(1 << 28);
    static constexpr int32_t no_emission = int32_t(0xff800000) - 0x4b400000;
    static constexpr int32_t far = -(1 << 27);   // paths so far behind are left to the other kernel
    static constexpr int32_t largest = 1 << 22;  // of scaled emissions and moves together

    // A state, a move and an emission that are all forbidden still fit.
    static_assert(int64_t(no_emission) + 2 * forbidden - 2 * largest > INT32_MIN);
    // What is forbidden stays below `reachable` even after the best of all has fallen to `far`,
    static_assert(forbidden - far + 2 * largest < reachable);
    // and a path that was not far behind stays above it.
    static_assert(far - 2 * largest > reachable);
};

template <class In>
struct LaneViterbi {
    const Moves<int32_t>* moves;
    const int32_t* transposed;  // [levels, G, Y, Y] the same matrices, to -> from
    float scale;                // a power of two
    const In* emit;             // [tokens, Y], whole batch
    const int64_t* first;       // [n] first token of the sequence in each lane
    const int64_t* length;      // [n] positive, descending
    int64_t n;                  // lanes in use
    int32_t* alpha;             // [length[0], S, lanes] scratch
    int32_t* candidates;        // [Y, lanes] scratch
    float* row;                 // [Y, lanes] scratch
    bool forbids;               // whether anything may be forbidden, by a move or an emission
    int32_t* path;              // [tokens], whole batch; -1 throughout a sequence without a path
    bool* sure;                 // [n] false where rounding could have changed the path
};

template <class In, class R>
struct LaneSum {
    const Moves<R>* moves;
    Offsets offsets;
    bool guard;  // watch for underflow; without it the driver vouches that none can matter
    const In* emit;
    const int64_t* first;
    const int64_t* length;
    int64_t n;
    const double* weight;  // [n] of each sequence, for the sums of `expected`
    bool backward;         // whether `expected` is wanted at all
    R* alpha;       // [T + 1, S, lanes] scratch, T = length[0]; [2, S, lanes] if not backward
    R* rows;        // [T + 1, Y, lanes] scratch; [1, Y, lanes] if not backward
    R* b;           // [T, S, lanes] scratch, backward only; one row unless there are transitions
    double* log_z;  // [n]
    bool* ok;       // [n] false where underflow may have cost precision
    Expected<In> expected;
};

template <class In>
struct OneViterbi {
    const Moves<double>* moves;
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

template <class In>
struct OneSum {
    const Moves<double>* moves;  // scores, not probabilities, when edge is given
    Offsets offsets;
    bool guard;
    const In* emit;
    const In* edge;
    int64_t T;
    int64_t token;  // first token of this sequence, where `expected` arrays are written
    double weight;
    bool backward;
    double* alpha;   // [T or 2, S + 8] scratch
    double* beta;    // [S + 8] scratch
    double* b;       // [S + 8] scratch
    double* row;     // [Y + 8] scratch
    double* matrix;  // [Y, stride] scratch, with edge
    double* log_z;   // one
    bool* ok;        // one
    Expected<In> expected;
};

struct Kernels {
    const char* name;
    int64_t lanes32, lanes64;  // sequences per group, for float and double arithmetic
    bool (*viterbi_f32)(const LaneViterbi<float>&);  // false if it met what `forbids` denies
    bool (*viterbi_f64)(const LaneViterbi<double>&);
    void (*sum_f32)(const LaneSum<float, float>&);
    void (*sum_f32_in_f64)(const LaneSum<float, double>&);
    void (*sum_f64)(const LaneSum<double, double>&);
    void (*one_viterbi_f32)(const OneViterbi<float>&);
    void (*one_viterbi_f64)(const OneViterbi<double>&);
    void (*one_sum_f32)(const OneSum<float>&);
    void (*one_sum_f64)(const OneSum<double>&);
    void (*exp)(double* x, int64_t n);  // in place, for x <= 0; -inf gives a true zero
    float (*largest_f32)(const float* x, int64_t n);  // |x|, -inf aside; NaN if there is a NaN
    double (*largest_f64)(const double* x, int64_t n);
    const RowKernels& (*rows)();         // sums over attributes, see rows.hpp
    const HistoryKernels& (*history)();  // of L-BFGS, see history.hpp
};

// One per instruction set that was compiled in; see dispatch.cpp.
const Kernels& kernels_baseline();
const Kernels& kernels_avx2();
const Kernels& kernels_avx512();

}  // namespace tagloom
