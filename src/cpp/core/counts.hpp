// Counts for taggers that learn by counting: labels of words, and n-grams of labels. Sentence i has
// tokens offsets[i] .. offsets[i + 1] and counts weight[i] times, or once without weights.
#pragma once

#include <cstdint>

namespace tagloom {

struct LabelledTokens {
    int64_t N, Y;
    const int64_t* offsets;  // [N + 1]
    const int32_t* gold;     // [T] labels
    const double* weight;    // [N] or null
};

// counts[words[t], gold[t]] += weight of t's sentence; words [T], counts [V, Y].
void count_words(const LabelledTokens& tokens, const int32_t* words, double* counts);

// sums[ids[t], y] += weight[t] * values[t, y]; sums [n, Y]. If values are probabilities of labels,
// these are expected counts of words.
struct WeightedRows {
    int64_t T, Y;
    const int32_t* ids;    // [T]
    const double* values;  // [T, Y]
    const double* weight;  // [T] or null
};
void add_rows(const WeightedRows& rows, double* sums);

// counts[y_{t-k}, ..., y_{t-1}, y_t] += weight of the sentence; counts has k + 1 dimensions of size
// Y + 1. In the history, Y stands for positions before the sentence; as y_t, for its end.
void count_ngrams(const LabelledTokens& tokens, int64_t k, double* counts);

}  // namespace tagloom
