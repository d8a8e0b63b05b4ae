// Inference on a ragged batch with dense transitions. The drivers, one dense_*.cpp file each, cut
// the batch into groups of lanes and single sequences, run the kernels on all threads, and combine
// their results in an order that does not depend on the number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "core/batch_plan.hpp"
#include "core/kernels.hpp"

namespace tagloom {

template <class In>
struct DenseBatch {
    int64_t Y, G, levels;
    const double* transitions;  // [levels, G, Y, Y] scores, see kernels.hpp
    const double* start;        // [Y]
    const double* stop;         // [Y]
    const In* emit;             // [tokens, Y]
    const In* edge;             // [tokens, Y, Y] or null
    const int64_t* offsets;     // [N + 1]
    int64_t N;
    int64_t threads;
    double largest_emit = 0;  // largest finite |emit|; Viterbi only

    int64_t length(int64_t i) const { return offsets[i + 1] - offsets[i]; }
    const In* emit_of(int64_t i) const { return emit + offsets[i] * Y; }
    const In* edge_of(int64_t i) const { return edge ? edge + offsets[i] * Y * Y : nullptr; }
    // Cuts the batch into items; sequences of up to `longest` positions run in lanes.
    BatchPlan plan(int64_t lanes, int64_t longest) const {
        return BatchPlan({offsets, N}, lanes, longest, G * Y * Y, threads);
    }
    Group group(const BatchPlan& plan, int64_t item) const {
        return Group({offsets, N}, plan, item);
    }
};

// path [tokens], -1 throughout a sequence without a path; score [N], -inf there, or null.
template <class In>
void viterbi(const DenseBatch<In>& batch, int32_t* path, double* score);

// The score of a path [T] of sequence i, in double; -inf if the path is -1.
template <class In>
double score_of(const DenseBatch<In>& batch, int64_t i, const int32_t* path);

// The n best paths of each sequence, the best first. Ties go to the lowest label at the last
// position, then at each position before it. There may be fewer than n.
struct NBestPaths {
    std::vector<int64_t> count;  // [N] paths of each sequence
    std::vector<int32_t> paths;  // [count[i], T_i] of one sequence after another
    std::vector<double> scores;  // [sum of count]
};
template <class In>
NBestPaths nbest(const DenseBatch<In>& batch, int64_t n);

// Where scaled probabilities are not proven, the following set ok [N] to false: log space must
// answer for that sequence. It is true for a sequence of no positions, and false for one that has
// no path.

// log_z [N] and the results in `expected`, each sequence counted weight[i] times (null: once).
// Nothing of a sequence that is not ok is in the sums; its marginals and pairs are undefined.
template <class In>
void sum(const DenseBatch<In>& batch, const double* weight, const Expected<In>& expected,
         double* log_z, bool* ok);

// The same for tokens that share rows of scores: batch.emit is a table [n_rows, Y], and `ids`
// [tokens] numbers the row of each token. The marginals of all tokens of a row are added to
// row_counts [n_rows, Y], weight[i] times; they are never stored for the whole batch.
template <class In>
void sum_rows(const DenseBatch<In>& batch, const int32_t* ids, int64_t n_rows, const double* weight,
              const Expected<In>& expected, double* row_counts, double* log_z, bool* ok);

// `draws` exact draws of each sequence, as paths [draws, tokens] and log_z [N]. Draw k uses
// uniform[t, k] in [0, 1) at position t, and draws of one sequence do not depend on other
// sequences. Paths of a sequence that is not ok are -1.
template <class In>
void sample(const DenseBatch<In>& batch, int64_t draws, const double* uniform, int32_t* paths,
            double* log_z, bool* ok);

// Entropy [N] of the distribution over paths, in nats, and log_z [N].
template <class In>
void entropy(const DenseBatch<In>& batch, double* entropy, double* log_z, bool* ok);

}  // namespace tagloom
