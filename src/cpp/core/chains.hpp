// The words of a corpus, for taggers that learn by counting. Each word has a chain of attributes,
// one for each template, from what it shares with all words to what it shares with none:
//
//   bias → short_shape → short_shape & suffix(1) → … → short_shape & suffix(n) → word
//
// Rare words tell what words are like that were never seen: each attribute of their chains counts
// the labels that they have. A batch here is one sentence, in which every word stands once.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/extract.hpp"
#include "core/index.hpp"
#include "core/words.hpp"

namespace tagloom {

// Labels of words, counted: row w of [V, Y].
struct LabelCounts {
    const double* counts;
    std::size_t V, Y;

    const double* row(std::size_t w) const { return counts + w * Y; }
};

// Words that differ in capitals only.
struct Alike {
    std::vector<int32_t> group_of;    // [V] the group of each word, -1 if it was not chosen
    std::vector<double> sums;         // [groups, Y]
    std::vector<int32_t> variant_of;  // [M] the group of each variant
};
// Puts chosen words together, and adds to the words how each group is written without capitals and
// with one at its front, where that is new: the variants. `lower` and `capitalise` write words that
// are not ASCII.
using Rewrite = std::function<Word(const Word&)>;
Alike find_alike(Words& words, LabelCounts labels, const bool* chosen, const Rewrite& lower,
                 const Rewrite& capitalise);

struct Chains {
    Index index;  // [A] first the S spellings by template, then words, then variants
    std::vector<int32_t> parent;    // [A] the attribute before each in its chain; that of 0 is 0
    std::vector<int64_t> ends;      // [templates - 1] where the spellings of each template end
    std::vector<double> counts;     // [S, Y] of the rare words that have each spelling
    std::vector<int32_t> words;     // [V + M] the attribute that is the word, -1 if it is not known
    std::vector<int32_t> spelling;  // [V + M] the last attribute before it
};
// The batch has V words, then M variants; of the words some are rare and some are known, of the
// variants all are known and none is rare. Needs featurise().
Chains make_chains(const Program& program, const Batch& batch, LabelCounts labels,
                   const bool* is_rare, const bool* is_known);

}  // namespace tagloom
