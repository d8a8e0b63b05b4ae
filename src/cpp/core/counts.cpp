#include "core/counts.hpp"

namespace tagloom {
namespace {

double weight_of(const LabelledTokens& tokens, int64_t i) {
    return tokens.weight ? tokens.weight[i] : 1.0;
}

}  // namespace

void count_words(const LabelledTokens& tokens, const int32_t* words, double* counts) {
    for (int64_t i = 0; i < tokens.N; i++) {
        const double weight = weight_of(tokens, i);
        for (int64_t t = tokens.offsets[i]; t < tokens.offsets[i + 1]; t++)
            counts[words[t] * tokens.Y + tokens.gold[t]] += weight;
    }
}

void add_rows(const WeightedRows& rows, double* sums) {
    for (int64_t t = 0; t < rows.T; t++) {
        const double weight = rows.weight ? rows.weight[t] : 1.0;
        const double* value = rows.values + t * rows.Y;
        double* sum = sums + rows.ids[t] * rows.Y;
        for (int64_t y = 0; y < rows.Y; y++) sum[y] += weight * value[y];
    }
}

void count_ngrams(const LabelledTokens& tokens, int64_t k, double* counts) {
    const int64_t base = tokens.Y + 1;
    int64_t histories = 1;  // (Y + 1)^k
    for (int64_t j = 0; j < k; j++) histories *= base;
    for (int64_t i = 0; i < tokens.N; i++) {
        const double weight = weight_of(tokens, i);
        int64_t history = histories - 1;  // k times Y, as digits of this base
        const int64_t first = tokens.offsets[i];
        for (int64_t t = first; t < tokens.offsets[i + 1]; t++) {
            const int64_t gram = history * base + tokens.gold[t];
            counts[gram] += weight;
            const int64_t oldest = t - k < first ? tokens.Y : tokens.gold[t - k];
            history = gram - oldest * histories;
        }
        counts[history * base + tokens.Y] += weight;
    }
}

}  // namespace tagloom
