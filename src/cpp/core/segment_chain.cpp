#include "core/segment_chain.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace tagloom {
namespace {

template <class T>
void grow(std::vector<T>& vector, int64_t size) {
    if (static_cast<int64_t>(vector.size()) < size) vector.resize(size);
}

void require(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
}

}  // namespace

int64_t SegmentShape::max_length() const {
    return longest.empty() ? 1 : *std::max_element(longest.begin(), longest.end());
}

void SegmentShape::check(int64_t Y, const int64_t* starts, int64_t N) const {
    const size_t S = single.size();
    require(S > 0 && first.size() == S && inside.size() == S && last.size() == S &&
                longest.size() == S && is_span.size() == S,
            "the columns of segment labels must have one entry for each label");
    const auto is_column = [&](int32_t c) { return c >= 0 && c < Y; };
    for (size_t y = 0; y < S; ++y)
        require(is_column(single[y]) && is_column(first[y]) && longest[y] >= 1 &&
                    (longest[y] < 2 || is_column(last[y])) &&
                    (longest[y] < 3 || is_column(inside[y])),
                "a segment label needs a column for every token of its longest segment");
    const int64_t rows = starts[N];
    require(int64_t(n_tokens.size()) == N && int64_t(begin.size()) == rows &&
                int64_t(length.size()) == rows && int64_t(gold.size()) == rows,
            "begin, length and gold must have one entry for each row");
    for (int64_t i = 0; i < N; ++i) {
        const int64_t row = starts[i], T = n_tokens[i], n = starts[i + 1] - row;
        require(T >= 0 && T <= n, "a sentence has a row for each token");
        for (int64_t r = row + T; r < row + n; ++r)
            require(begin[r] >= 0 && length[r] >= 1 && begin[r] + length[r] <= T &&
                        length[r] <= max_length(),
                    "a segment row must lie in its sentence");
        for (int64_t t = 0; t < T;) {
            const int64_t y = gold[row + t];
            require(y >= 0 && y < int64_t(S), "gold must begin with a segment label");
            int64_t e = t + 1;
            while (e < T && gold[row + e] == int64_t(S)) ++e;
            require(e - t <= longest[y], "a gold segment is longer than its label allows");
            t = e;
        }
    }
}

template <class In, class Out>
void token_scores(const SegmentShape& shape, int64_t T, int64_t Y, int64_t L, const In* emit,
                  Out* score) {
    const int64_t S = shape.labels();
    std::fill_n(score, T * L * S, -std::numeric_limits<Out>::infinity());
    for (int64_t t = 0; t < T; ++t)
        for (int64_t y = 0; y < S; ++y) {
            Out* to = score + t * L * S + y;
            to[0] = static_cast<Out>(emit[t * Y + shape.single[y]]);
            const int64_t most = std::min<int64_t>(shape.longest[y], T - t);
            if (most < 2) continue;
            Out before = static_cast<Out>(emit[t * Y + shape.first[y]]);
            for (int64_t l = 1; l < most; ++l) {
                const In* at = emit + (t + l) * Y;
                to[l * S] = before + static_cast<Out>(at[shape.last[y]]);
                if (l + 1 < most) before += static_cast<Out>(at[shape.inside[y]]);
            }
        }
}

template void token_scores(const SegmentShape&, int64_t, int64_t, int64_t, const float*, float*);
template void token_scores(const SegmentShape&, int64_t, int64_t, int64_t, const float*, double*);
template void token_scores(const SegmentShape&, int64_t, int64_t, int64_t, const double*, double*);

template <class In>
SegmentChain<In>::SegmentChain(const SegmentShape& shape_, int64_t Y_, bool boundaries_)
    : shape(shape_),
      Y(Y_),
      S(shape.labels()),
      L(shape.max_length()),
      boundaries(boundaries_),
      model(L, S),
      sum(model),
      trans(S * S),
      start(S),
      stop(S),
      trans_count(S * S),
      start_count(S),
      stop_count(S) {}

template <class In>
void SegmentChain<In>::set(const double* tail_) {
    tail = tail_;
    for (int64_t p = 0; p < S; ++p) {
        for (int64_t y = 0; y < S; ++y)
            trans[p * S + y] = tail[int64_t{shape.first[p]} * Y + shape.first[y]];
        if (!boundaries) continue;
        start[p] = tail[Y * Y + shape.first[p]];
        stop[p] = tail[Y * Y + Y + shape.first[p]];
    }
    model.set(trans.data(), start.data(), stop.data());
}

template <class In>
double SegmentChain<In>::residuals(int64_t i, int64_t row, int64_t n_rows, const In* emit,
                                   double weight, In* gamma, double* counts) {
    const int64_t T = shape.n_tokens[i];
    add_up(row, T, n_rows, emit);
    const double log_z = sum.forward({score.data(), T});
    const double loss = log_z - gold_score(row, T);
    if (!gamma || log_z == -std::numeric_limits<double>::infinity()) return loss;
    for (auto* of : {&trans_count, &start_count, &stop_count}) std::fill(of->begin(), of->end(), 0);
    grow(prob, T * L * S);
    sum.expectations(weight,
                     {prob.data(), trans_count.data(), start_count.data(), stop_count.data()});
    for (int64_t p = 0; p < S; ++p) {
        for (int64_t y = 0; y < S; ++y)
            counts[int64_t{shape.first[p]} * Y + shape.first[y]] += trans_count[p * S + y];
        if (!boundaries) continue;
        counts[Y * Y + shape.first[p]] += start_count[p];
        counts[Y * Y + Y + shape.first[p]] += stop_count[p];
    }
    each_gold_segment(row, T,
                      [&](int64_t t, int64_t l, int64_t y) { prob[(t * L + l - 1) * S + y] -= 1; });
    spread(row, T, n_rows, gamma);
    return loss;
}

// score [T, L, S] of all segments.
template <class In>
void SegmentChain<In>::add_up(int64_t row, int64_t T, int64_t n_rows, const In* emit) {
    grow(score, T * L * S);
    token_scores(shape, T, Y, L, emit, score.data());
    for (int64_t r = T; r < n_rows; ++r) {
        double* to = score.data() + (shape.begin[row + r] * L + shape.length[row + r] - 1) * S;
        for (int64_t y = 0; y < S; ++y)
            if (shape.is_span[y]) to[y] += emit[r * Y + shape.first[y]];
    }
}

template <class In>
template <class Use>
void SegmentChain<In>::each_gold_segment(int64_t row, int64_t T, const Use& use) const {
    for (int64_t t = 0; t < T;) {
        int64_t e = t + 1;
        while (e < T && shape.gold[row + e] == S) ++e;
        use(t, e - t, int64_t{shape.gold[row + t]});
        t = e;
    }
}

template <class In>
double SegmentChain<In>::gold_score(int64_t row, int64_t T) const {
    double total = 0;
    each_gold_segment(
        row, T, [&](int64_t t, int64_t l, int64_t y) { total += score[(t * L + l - 1) * S + y]; });
    each_of_gold(row, T, [&](int64_t j) { total += tail[j]; });
    return total;
}

// gamma[t, column] = sum of prob over the segments that put t into this column.
template <class In>
void SegmentChain<In>::spread(int64_t row, int64_t T, int64_t n_rows, In* gamma) const {
    std::fill_n(gamma, n_rows * Y, In(0));
    for (int64_t t = 0; t < T; ++t)
        for (int64_t y = 0; y < S; ++y) {
            const double* of = prob.data() + t * L * S + y;
            gamma[t * Y + shape.single[y]] += static_cast<In>(of[0]);
            double longer = 0;  // probability of the segments that are longer than l
            for (int64_t l = std::min<int64_t>(shape.longest[y], T - t) - 1; l > 0; --l) {
                In* at = gamma + (t + l) * Y;
                at[shape.last[y]] += static_cast<In>(of[l * S]);
                if (longer != 0) at[shape.inside[y]] += static_cast<In>(longer);
                longer += of[l * S];
            }
            if (longer != 0) gamma[t * Y + shape.first[y]] += static_cast<In>(longer);
        }
    for (int64_t r = T; r < n_rows; ++r) {
        const double* of = prob.data() + (shape.begin[row + r] * L + shape.length[row + r] - 1) * S;
        for (int64_t y = 0; y < S; ++y)
            if (shape.is_span[y] && shape.length[row + r] <= shape.longest[y])
                gamma[r * Y + shape.first[y]] += static_cast<In>(of[y]);
    }
}

template class SegmentChain<float>;
template class SegmentChain<double>;

}  // namespace tagloom
