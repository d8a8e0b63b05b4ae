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

// Adds to counts [Y + 1, ..., Y + 1], of k + 1 dimensions, how often a label follows each history
// of k labels, from the oldest to what follows. In a history Y means that the sentence had not
// begun; as what follows, that it ends.
void count_ngrams(const LabelledTokens& tokens, int64_t k, double* counts);

}  // namespace tagloom
