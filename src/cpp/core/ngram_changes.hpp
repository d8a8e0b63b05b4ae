// Pruning and mixtures of models. Both determine the explicit n-grams and their probabilities;
// back-off weights follow from these, so that the probabilities given any history sum to 1.
#pragma once

#include <cstdint>
#include <span>

#include "core/ngram_smoothing.hpp"

namespace tagloom {

// Relative-entropy pruning (Stolcke 1998): drops each n-gram whose removal raises the perplexity of
// the model's own distribution by a factor below 1 + threshold, longest first. Prefixes and
// suffixes of longer n-grams that remain are kept.
NGramArrays prune_ngrams(const NGramTable& table, double threshold, int64_t threads);

// A model as part of a mixture.
struct MixturePart {
    const NGramTable& table;
    std::span<const int32_t> to_merged;  // [its words] their numbers in the mixture's vocabulary
    double weight;
};

// Linear interpolation: the n-grams of all parts, each with the weighted mean of its probabilities.
// A word that a part lacks has probability 0 there. All parts have the same order.
NGramArrays mix_ngrams(std::span<const MixturePart> parts, int64_t n_words, int64_t threads);

}  // namespace tagloom
