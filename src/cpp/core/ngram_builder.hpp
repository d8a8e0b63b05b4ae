// Builds the trie of ngrams.hpp from n-grams in any order.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ngram_smoothing.hpp"

namespace tagloom {

// The n-grams of one length, with a hash table over their words.
class NGramSet {
  public:
    explicit NGramSet(int64_t n) : n_(n), slots_(64, -1) {}

    int64_t n() const { return n_; }
    int64_t size() const { return static_cast<int64_t>(log_prob.size()); }
    const int32_t* words(int64_t i) const { return ids_.data() + i * n_; }
    // False, without any change, if the n-gram is present already.
    bool add(const int32_t* words, double p, double bow);

    std::vector<double> log_prob, backoff;  // [size]

  private:
    std::size_t slot_of(const int32_t* words) const;  // where the n-gram is or belongs

    int64_t n_;
    std::vector<int32_t> ids_;    // [size, n]
    std::vector<int32_t> slots_;  // -1 where empty
};

// In place of a missing probability: back-off determines it.
extern const double kBackedOff;

// sets[n - 1] has the n-grams of length n; sets[0] has every word, in order. Missing prefixes and
// suffixes are added.
NGramArrays build_ngrams(std::vector<NGramSet> sets, int64_t threads);

}  // namespace tagloom
