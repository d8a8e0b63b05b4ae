// The log-likelihood of labelled sequences under a first-order chain and its gradient, in one call:
// the loss of a neural network whose emissions are scores of labels. The dense kernels do the sums;
// this file adds the score of the labels, partial labels, and the padded layout of a network.
#pragma once

#include <cstdint>
#include <vector>

namespace tagloom {

// Scores of transitions, shared by all sequences.
struct ChainScores {
    int64_t Y;
    const double* trans;  // [Y, Y]
    const double* start;  // [Y]
    const double* stop;   // [Y]
};

// Labels of T positions: an id at each position, negative for unknown, or a set of allowed labels.
struct ChainLabels {
    const int64_t* ids = nullptr;   // [T] or null
    const bool* allowed = nullptr;  // [T, Y] or null
};

// The gradient of Σ_i weight[i]·llh[i]; all null, or none.
template <class In>
struct ChainGradient {
    In* emit = nullptr;       // [T, Y] overwritten
    double* trans = nullptr;  // [Y, Y] overwritten
    double* start = nullptr;  // [Y]
    double* stop = nullptr;   // [Y]

    explicit operator bool() const { return emit != nullptr; }
};

// llh[i] = log Σ_{paths that the labels allow} exp(score) − log Σ_{all paths} exp(score).
// Without labels (both null) llh[i] is the log-partition itself. weight [N], or null for 1. Returns
// false if scaled probabilities are not proven for some sequence: then the results are undefined,
// and log space must answer.
template <class In>
bool chain_loss(const ChainScores& scores, const In* emit, const int64_t* offsets, int64_t N,
                const ChainLabels& labels, const double* weight, int64_t threads,
                const ChainGradient<In>& grad, double* llh);

// Positions of a padded batch [B, L]: where each unmasked one lies, and the ragged batch that they
// form. Holes are skipped, so that their neighbours become adjacent.
struct PaddedRows {
    std::vector<int64_t> place;    // [T] b·L + t of each unmasked position
    std::vector<int64_t> offsets;  // [B + 1]
    bool is_full;                  // no position is masked

    // mask [B, L] with strides in bytes, or null.
    PaddedRows(int64_t B, int64_t L, const bool* mask, int64_t batch_stride, int64_t time_stride);
    int64_t T() const { return static_cast<int64_t>(place.size()); }
};

// An array [B, L, width] whose last axis is contiguous; strides in elements.
template <class E>
struct Padded {
    E* data;
    int64_t batch_stride, time_stride, width;

    E* at(int64_t place, int64_t L) const {
        return data + place / L * batch_stride + place % L * time_stride;
    }
};

// Copies the unmasked rows to rows [T, width].
template <class E>
void gather(const PaddedRows& rows, const Padded<const E>& from, int64_t L, E* to);
// Copies rows [T, width] back; masked rows become zero.
template <class E>
void scatter(const PaddedRows& rows, const E* from, int64_t B, int64_t L, const Padded<E>& to);

}  // namespace tagloom
