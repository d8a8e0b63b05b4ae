// Counting for evaluation: labels as small integers in, counts out. What a span is comes in as the
// tables of tagloom/schemes.py, so this file knows no scheme; resampling knows no metric, it
// only adds up rows of counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tagloom {

constexpr int kLetters = 5;  // O B I E S

// One reading of labels as spans.
struct Reading {
    const uint8_t* action;   // [2, 5, 5] by same type, previous and current letter: see below
    const uint8_t* closing;  // [5] may a span end with this letter?
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

// Spans of N sentences that lie one after another, sentence n from offsets[n] to offsets[n + 1].
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

// Randomisation: sums[r, s] = sum over n of heads[n] * rows[n, s], where heads[n] counts the heads
// of copies[n] tossed coins: equal rows are tossed together, 64 coins to a random word.
void toss(const int32_t* rows, const int64_t* copies, int64_t N, int64_t S, int64_t R,
          uint64_t seed, int64_t* sums);

}  // namespace tagloom
