// Arguments of a predicate: candidate spans from a dependency tree, and their features.
//
// The candidates of a predicate p are runs of words beside it that hang together in the tree:
//
//     - the subtrees of the dependents of p, of each ancestor of p, and of the siblings of p;
//     - an ancestor with its own dependents, without the branch that leads to p: the antecedent of
//       a relative clause, the noun after a copula; also without some of its outer dependents;
//     - two neighbouring dependents of p of which the second is a complement: "make [it available]"
//
// with unpaired punctuation at the edges removed. A feature is a 64-bit number; see
// hashed_weights.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "core/hashed_weights.hpp"

namespace tagloom {

// What the labeller reads of a word: numbers that stand for strings, and bits of its class.
enum RoleAtom : int64_t {
    kRoleWord,
    kRoleTag,
    kRoleCoarse,
    kRoleRelation,
    kRoleSuffix,
    kRoleClass,
    kRoleAtoms
};

// Bits of kRoleClass: punctuation, and classes of relations to the head.
enum RoleClass : uint32_t {
    kIsPunctuation = 1 << 0,
    kOpens = 1 << 1,  // a bracket
    kCloses = 1 << 2,
    kQuotes = 1 << 3,       // both opens and closes
    kMarks = 1 << 4,        // case, mark: function words before a phrase
    kCoordinates = 1 << 5,  // conj, cc
    kClausal = 1 << 6,      // acl, advcl, appos, list, parataxis: what may hang on loosely
    kSubject = 1 << 7,
    kObject = 1 << 8,
    kComplement = 1 << 9,  // xcomp, ccomp
    kPassive = 1 << 10,    // aux:pass, nsubj:pass
    kAuxiliary = 1 << 11,  // aux, cop
};

// Sentences in a row, with their trees.
struct RoleSentences {
    int64_t N;
    const int64_t* offsets;  // [N + 1]
    const uint32_t* atoms;   // [T, kRoleAtoms]
    const int32_t* heads;    // [T] 0: the root, h: word h of the sentence

    int64_t length(int64_t i) const { return offsets[i + 1] - offsets[i]; }
};

// A predicate of a sentence.
struct RoleFrame {
    int64_t sentence, predicate;  // the predicate from 0
    uint32_t lemma, roleset;      // numbers; roleset 0 if it is not known
};

struct RoleSpan {
    int32_t start, end;  // words start .. end - 1
    int32_t head;        // the word on which the others depend
    int32_t kind;        // how it was found
};

// The candidates of one frame after another, with their features.
class RoleFeatures {
  public:
    // Reads a frame; consecutive frames of one sentence share the work on its tree.
    void read(const RoleSentences& sentences, const RoleFrame& frame);
    const std::vector<RoleSpan>& candidates() const { return candidates_; }

    // The features of a candidate.
    void features(const RoleSpan& span, std::vector<uint64_t>& out) const;
    // What the roles that a candidate may have depend on: relation, kind, side, class of p.
    uint64_t context(const RoleSpan& span) const;

  private:
    void read_tree(const RoleSentences& sentences, int64_t i);
    void read_predicate(const RoleFrame& frame);
    void find_candidates();
    void add(int64_t start, int64_t end, int64_t head, int32_t kind);
    void add_dependents(int64_t a, int64_t branch, int32_t kind);
    void add_ancestor(int64_t a, int64_t branch, int32_t kind);
    bool is_paired(int64_t t, int64_t start, int64_t end) const;
    int64_t core_end(int64_t a, int64_t end) const;
    uint64_t path_key(int64_t t, bool with_tags) const;

    uint64_t atom(int64_t t, RoleAtom a) const {
        return t < 0 ? 2 : t >= T_ ? 3 : words_[t * kRoleAtoms + a];
    }
    uint32_t flags(int64_t t) const { return words_[t * kRoleAtoms + kRoleClass]; }
    const int32_t* children(int64_t t) const { return children_.data() + child_ptr_[t]; }
    int64_t n_children(int64_t t) const { return child_ptr_[t + 1] - child_ptr_[t]; }

    const RoleSentences* of_ = nullptr;
    int64_t sentence_ = -1, T_ = 0, p_ = 0;
    const uint32_t* words_ = nullptr;
    const int32_t* heads_ = nullptr;
    std::vector<int32_t> child_ptr_, children_;  // [T + 1], of each word in order
    std::vector<int32_t> first_, last_, depth_;  // [T] extent of each subtree; depth from 0
    std::vector<int32_t> chain_;                 // p and its ancestors
    std::vector<RoleSpan> candidates_;
    uint64_t lemma_ = 0, roleset_ = 0, subcategories_ = 0, arguments_ = 0;
    bool is_passive_ = false;
    uint64_t marker_of(int64_t t) const;
};

}  // namespace tagloom
