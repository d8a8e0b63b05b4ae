// Segments in training: the scores of segments from the rows of a linear model, and the residuals
// of those rows.
//
// A sentence of a segment model has a row for each token and, after these, one for each candidate
// segment with attributes of its own. All rows have the columns of token labels, such as B-X and
// I-X. A segment label y has four of these columns, for its first, inner and last token and for a
// single one; in BIO they are B, I, I, B. The score of the segment of length l from t is
//
//   emit[t, first] + emit[t + 1, inside] + ... + emit[t + l - 1, last]  (emit[t, single] if l = 1)
//     + emit[r, first]  if there is a row r for the segment, and y is the label of a span
//
// and transitions between segments use the weights of the transitions first → first.
#pragma once

#include <cstdint>
#include <vector>

#include "core/segments.hpp"

namespace tagloom {

struct SegmentShape {
    // ---- labels ----
    std::vector<int32_t> single, first, inside, last;  // [S] columns; -1: too short to have one
    std::vector<int32_t> longest;                      // [S] largest length
    std::vector<uint8_t> is_span;                      // [S] whether segment rows count for it
    // ---- rows, in work order ----
    std::vector<int64_t> n_tokens;       // [N] of each sentence
    std::vector<int32_t> begin, length;  // [rows] of segment rows, begin within the sentence
    std::vector<int32_t> gold;  // [rows] of token rows: label where a segment begins, else S

    int64_t labels() const { return static_cast<int64_t>(single.size()); }
    int64_t max_length() const;
    // std::invalid_argument if labels and rows do not fit; rows of the sentences are starts[i] ...
    void check(int64_t Y, const int64_t* starts, int64_t N) const;
};

template <class In>
class SegmentChain {
  public:
    SegmentChain(const SegmentShape& shape, int64_t Y, bool boundaries);

    void set(const double* tail);  // [Y * Y + 2 Y], see space.hpp
    // The loss log_z - score(gold) of sentence i, whose rows begin at `row`, with scores emit
    // [rows, Y]. Writes the residuals gamma [rows, Y] (null: not needed), and adds weight *
    // expected to the counts of the tail.
    double residuals(int64_t i, int64_t row, int64_t n_rows, const In* emit, double weight,
                     In* gamma, double* counts);
    // Calls use(weight of the tail) for the gold segmentation.
    template <class Use>
    void each_of_gold(int64_t row, int64_t T, const Use& use) const {
        int64_t y_prev = -1;
        for (int64_t t = 0; t < T; ++t) {
            const int64_t y = shape.gold[row + t];
            if (y == shape.labels()) continue;
            if (y_prev >= 0)
                use(int64_t{shape.first[y_prev]} * Y + shape.first[y]);
            else if (boundaries)
                use(Y * Y + shape.first[y]);
            y_prev = y;
        }
        if (boundaries && y_prev >= 0) use(Y * Y + Y + shape.first[y_prev]);
    }

  private:
    void add_up(int64_t row, int64_t T, int64_t n_rows, const In* emit);
    double gold_score(int64_t row, int64_t T) const;
    void spread(int64_t row, int64_t T, int64_t n_rows, In* gamma) const;
    template <class Use>
    void each_gold_segment(int64_t row, int64_t T, const Use& use) const;

    const SegmentShape& shape;
    const int64_t Y, S, L;
    const bool boundaries;
    const double* tail = nullptr;
    SegmentModel model;
    SegmentSum<double> sum;
    std::vector<double> score, prob;         // [T, L, S]
    std::vector<double> trans, start, stop;  // [S, S], [S]
    std::vector<double> trans_count, start_count, stop_count;
};

// Scores of segments [T, L, S] of one sentence, -inf where a label is not that long; and without
// segment rows.
template <class In, class Out>
void token_scores(const SegmentShape& shape, int64_t T, int64_t Y, int64_t L, const In* emit,
                  Out* score);

}  // namespace tagloom
