// What taggers that learn by counting count: labels of words, and labels after labels. Sentence i
// has tokens offsets[i] .. offsets[i + 1], and counts weight[i] times, or once without weights.
#pragma once

#include <cstdint>

namespace tagloom {

struct LabelledTokens {
    int64_t N, Y;
    const int64_t* offsets;  // [N + 1]
    const int32_t* gold;     // [T] labels
    const double* weight;    // [N] or null
};

// Adds to counts [V, Y] how often each word has each label; words [T].
void count_words(const LabelledTokens& tokens, const int32_t* words, double* counts);

// Adds to sums [n, Y] the rows of values [T, Y], each times its weight, to the row that ids [T]
// names: expected counts of words, where values are probabilities of labels.
struct WeightedRows {
    int64_t T, Y;
    const int32_t* ids;    // [T]
    const double* values;  // [T, Y]
    const double* weight;  // [T] or null
};
void add_rows(const WeightedRows& rows, double* sums);

// Adds to counts [Y + 1, ..., Y + 1], of k + 1 dimensions, how often a label follows each history
// of k labels, from the oldest to what follows. In a history Y means that the sentence had not
// begun; as what follows, that it ends.
void count_ngrams(const LabelledTokens& tokens, int64_t k, double* counts);

}  // namespace tagloom
