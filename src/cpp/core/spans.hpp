// Counting for evaluation: from labels, as small integers, to counts. The tables of
// tagloom/schemes.py define spans, so this file does not depend on any scheme. Resampling only sums
// rows of counts and does not depend on any metric.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tagloom {

constexpr int kLetters = 5;  // O B I E S

// One reading of labels as spans.
struct Reading {
    const uint8_t* action;   // [2, 5, 5] by same type, previous and current letter: see below
    const uint8_t* closing;  // [5] whether a span may end with this letter
    const uint8_t* letter;   // [Y] letter of each label
    const int32_t* type;     // [Y] type of each label; any two O have the same
};
enum Action : uint8_t { kNone = 0, kOpen = 1, kContinue = 2 };

struct Span {
    int64_t start, end;  // end not included
    int32_t type;
    bool operator==(const Span&) const = default;
};

// Appends the spans of one sentence of T labels, in order.
void read_spans(const int32_t* labels, int64_t T, const Reading& reading, std::vector<Span>& out);

// Spans of N concatenated sentences; sentence n is offsets[n] .. offsets[n + 1].
struct SpanCounts {
    int64_t* by_type;      // [K, 3] gold, predicted, correct; added to
    int32_t* by_sentence;  // [N, 3] the same; overwritten
};
void count_spans(const int32_t* gold, const int32_t* predicted, const int64_t* offsets, int64_t N,
                 const Reading& gold_reading, const Reading& predicted_reading, SpanCounts counts);

// confusion[g, p] += tokens with gold label g and predicted label p, [Y, Y]; correct[n] = tokens of
// sentence n that agree.
void count_tokens(const int32_t* gold, const int32_t* predicted, const int64_t* offsets, int64_t N,
                  int64_t Y, int64_t* confusion, int32_t* correct);

// Bootstrap: sums[r, s] = sum of rows[n, s] over N rows n drawn with replacement. rows is [N, S]
// with S at most 8, sums [R, S].
void resample(const int32_t* rows, int64_t N, int64_t S, int64_t R, uint64_t seed, int64_t* sums);

// Randomisation test: sums[r, s] = sum over n of heads[n] * rows[n, s], where heads[n] is the
// number of heads among copies[n] coin tosses. Equal rows are tossed together, 64 coins per random
// word.
void toss(const int32_t* rows, const int64_t* copies, int64_t N, int64_t S, int64_t R,
          uint64_t seed, int64_t* sums);

}  // namespace tagloom
