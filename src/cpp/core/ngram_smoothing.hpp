// From counts to probabilities. All smoothing methods share one form, which is also that of ARPA
// files. With a(h w) an n-gram's count or adjusted count, and h' the history without its first
// word,
//
//   p(w | h) = (a(h w) - D(a(h w))) / n(h) + gamma(h) p(w | h')   for n-grams in the model
//            = gamma(h) p(w | h')                                 for all others
//
//                        a                n(h)          n(h) gamma(h)
//   modified Kneser-Ney  left neighbours  sum of a      D1 N1 + D2 N2 + D3 N3+
//   Kneser-Ney           left neighbours  sum of a      D N
//   absolute             occurrences      sum of a      D N
//   Witten-Bell          occurrences      sum of a + N  N              (D = 0)
//   add-k                occurrences      sum of a + kV kV             (D = 0, h' uniform)
//
// N is the number of distinct words after h. Counts of n-grams below min_counts go to gamma.
// Unigrams back off to the uniform distribution over the vocabulary without <s>. The longest
// n-grams and those that begin a sentence keep their occurrences as adjusted counts, as in KenLM's
// lmplz. Modified Kneser-Ney gives the same probabilities as lmplz (Heafield et al. 2013; Chen and
// Goodman 1998, equations 26 and 27).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/ngram_counts.hpp"

namespace tagloom {

enum class Smoothing { modified_kneser_ney, kneser_ney, absolute, witten_bell, add_k };

struct SmoothingOptions {
    Smoothing kind = Smoothing::modified_kneser_ney;
    double k = 1;                     // of add-k
    bool is_closed = false;           // no probability for <unk>
    std::vector<int64_t> min_counts;  // [order] least occurrences of an n-gram; not decreasing
};

// The discounts of counts of 1, 2, and 3 or more; amount[0] is 0.
struct NGramDiscounts {
    std::array<double, 4> amount{};
    bool is_fallback = false;  // defaults, because there were too few counts to estimate them
};

// A model that owns its arrays; their meaning is that of NGramTable.
struct NGramArrays {
    int64_t order = 0;
    std::vector<int64_t> level;
    std::vector<int32_t> word, first, suffix;
    std::vector<double> log_prob, backoff;

    NGramTable table() const { return {order, level, word, first, suffix, log_prob, backoff}; }
    // The model with only some n-grams; with an n-gram, keep its prefixes and suffixes too.
    NGramArrays keep(const std::vector<bool>& is_kept) const;
};

// discounts [order] are an output.
NGramArrays smooth(const NGramCounts& counts, const SmoothingOptions& options, int64_t threads,
                   std::vector<NGramDiscounts>& discounts);

}  // namespace tagloom
