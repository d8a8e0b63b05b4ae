// Models made from models: smaller ones and mixtures. Both choose which n-grams are explicit and
// what their probabilities are; back-off weights follow from these, so that the probabilities given
// any history sum to 1.
#pragma once

#include <cstdint>
#include <span>

#include "core/ngram_smoothing.hpp"

namespace tagloom {

// Drops n-grams without which the perplexity of the model's own distribution grows by a factor
// below 1 + threshold each (Stolcke 1998), longest first; those that longer ones need stay.
NGramArrays prune_ngrams(const NGramTable& table, double threshold, int64_t threads);

// A model as part of a mixture.
struct MixturePart {
    const NGramTable& table;
    std::span<const int32_t> to_merged;  // [its words] their numbers in the mixture's vocabulary
    double weight;
};

// The n-grams of all parts, each with the weighted mean of its probabilities; a word that a part
// does not have has probability 0 there. The parts have the same order.
NGramArrays mix_ngrams(std::span<const MixturePart> parts, int64_t n_words, int64_t threads);

}  // namespace tagloom
