// The back-off attributes of a vocabulary, for taggers that learn by counting. Each template
// refines the one before it, so these attributes form a tree, and those of a word a path from its
// root:
//
//   bias → short_shape → short_shape & suffix(1) → … → short_shape & suffix(n) → word
//
// Rare words stand in for unknown words: each attribute on their paths, a *spelling*, counts their
// labels. A batch here is one sentence that contains every word once.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/extract.hpp"
#include "core/index.hpp"
#include "core/words.hpp"

namespace tagloom {

// Counts of labels by word: [V, Y].
struct LabelCounts {
    const double* counts;
    std::size_t V, Y;

    const double* row(std::size_t w) const { return counts + w * Y; }
};

// Groups of words that differ only in case.
struct CaseGroups {
    std::vector<int32_t> group_of;    // [V] the group of each word, -1 if not chosen
    std::vector<double> sums;         // [groups, Y]
    std::vector<int32_t> variant_of;  // [M] the group of each variant
};
// Groups the chosen words, and adds to the words the lower-case and the capitalised form of each
// group where those are new: the variants. `lower` and `capitalise` rewrite words that are not
// ASCII.
using Rewrite = std::function<Word(const Word&)>;
CaseGroups group_by_case(Words& words, LabelCounts labels, const bool* chosen, const Rewrite& lower,
                         const Rewrite& capitalise);

// A word whose fingerprint collides with that of another attribute counts as unknown.
struct SpellingTree {
    Index index;                    // [A]: the S spellings by template, then words, then variants
    std::vector<int32_t> parent;    // [A] parent of each attribute; that of the root 0 is 0
    std::vector<int64_t> ends;      // [templates - 1] where the spellings of each template end
    std::vector<double> counts;     // [S, Y] labels of the rare words below each spelling
    std::vector<int32_t> words;     // [V + M] its attribute S, S + 1, …, or -1 if unknown
    std::vector<int32_t> spelling;  // [V + M] its longest spelling, the parent of its attribute
};
// The batch has V words, then M variants. Some words are rare and some are known; all variants are
// known and none is rare. Needs featurise().
SpellingTree make_spelling_tree(const Program& program, const Batch& batch, LabelCounts labels,
                                const bool* is_rare, const bool* is_known);

}  // namespace tagloom
