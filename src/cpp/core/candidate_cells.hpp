// Expected counts of sequences whose candidate labels share scores: the scores are cells of a table
// [R, Y], one row for each word, and a tag dictionary leaves each word with few of them. Sums over
// paths, look-up and counts are one pass over each sequence, which stays in the cache; nothing of
// the size of the batch is written.
#pragma once

#include <cstdint>

namespace tagloom {

struct CandidateCells {
    int64_t Y, K;
    const double* trans;     // [Y, Y] scores
    const double* start;     // [Y]
    const double* stop;      // [Y]
    const int64_t* rows;     // [T + 1] the candidates of position t are rows[t] .. rows[t + 1]
    const int32_t* label;    // [C]
    const int32_t* cell;     // [C] 0 .. K - 1
    const int64_t* place;    // [K] row * Y + label, ascending
    const double* score;     // [K]
    const int64_t* offsets;  // [N + 1] positions
    int64_t N;
    int64_t threads;
};

struct CellCounts {
    double* cells;        // [K] += weight * expected number
    double* transitions;  // [Y, Y] +=
    double* start;        // [Y] +=
    double* stop;         // [Y] +=
};

// log_z [N], and counts of all sequences with ok[i]. The others, whose probabilities are too small
// for this pass or which have no path, are left to `sum` of candidates.hpp. Each sequence counts
// weight[i] times (null: once). The same bits for any number of threads.
void expect(const CandidateCells& batch, const double* weight, const CellCounts& counts,
            double* log_z, bool* ok);

}  // namespace tagloom
