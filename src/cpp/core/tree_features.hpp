// Features of arcs and of their labels for a dependency parser, hashed to the weights of a table.
//
// A feature is a sum of 64-bit random numbers, one for each of its parts: what the template takes
// of the head, what it takes of the dependent, and their direction and distance. The highest bits
// of the sum are the place of its weight. So the numbers of heads and of dependents are computed
// once per word, and an arc costs two additions and a shift per feature.
#pragma once

#include <cstdint>
#include <vector>

#include "core/hashed_weights.hpp"

namespace tagloom {

// What the parser reads of a word: numbers that stand for strings.
enum ParserAtom : int64_t { kWord, kTag, kCoarse, kSuffix, kShape, kClass, kParserAtoms };
// Classes of words whose number between head and dependent is a feature.
enum ParserClass : uint32_t { kOther, kVerb, kPunctuation, kConjunction };

// Sentences in a row.
struct ParserSentences {
    int64_t N;
    const int64_t* offsets;  // [N + 1]
    const uint32_t* atoms;   // [T, kParserAtoms]

    int64_t length(int64_t i) const { return offsets[i + 1] - offsets[i]; }
};

// The features of one sentence. Nodes are 0 (the root) and 1 to T.
class ParserFeatures {
  public:
    // bits: the logarithm of the number of weights.
    explicit ParserFeatures(int bits) : shift_(64 - bits) {}

    void read(const ParserSentences& sentences, int64_t i);
    int64_t T() const { return T_; }

    // Scores of all arcs [T, H], by dependent and head.
    void score(const float* theta, int64_t H, double* arcs) const;

    // Calls each(weight) for every feature of the arc h -> d.
    template <class Each>
    void for_each_of_arc(int64_t h, int64_t d, const Each& each) const;

    // Calls each(s) for every adjacent sibling that the arc h -> d may have on its side: h itself
    // for none, then the words from h to d. A single root has none.
    template <class Each>
    static void for_each_sibling(int64_t h, int64_t d, bool single_root, const Each& each);
    // Calls each(weight) for every feature of the arc h -> d with its sibling s.
    template <class Each>
    void for_each_of_sibling(int64_t h, int64_t d, int64_t s, const Each& each) const;
    // Scores of siblings [T, H, H], by dependent, head and sibling; others are not written.
    void score_siblings(const float* theta, int64_t H, bool single_root, double* siblings) const;

    // The features of the arc into d for its label, given the tree [T]: add the number of a label
    // with `label_weight` to find a weight.
    void of_label(int64_t d, const int32_t* heads, std::vector<uint64_t>& features) const;
    uint64_t label_weight(uint64_t feature, int64_t label) const {
        return place(feature + label_key(label));
    }
    uint64_t place(uint64_t feature) const { return feature >> shift_; }
    // The features of the arc h -> d for its label, without the tree around it.
    void of_arc_label(int64_t h, int64_t d, std::vector<uint64_t>& features) const;
    // What the labels that an arc may have depend on: coarse tags and direction.
    uint64_t label_context(int64_t h, int64_t d) const;

    static constexpr int64_t kTemplates = 34;  // per arc, each with two kinds of distance
    static constexpr int64_t kSiblingTemplates = 10;

  private:
    uint64_t atom(int64_t i, ParserAtom a) const {  // from -1 to T + 2
        return atoms_[(i + 1) * kParserAtoms + a];
    }
    // The two numbers of direction and distance.
    struct Ways {
        uint64_t direction, distance;
    };
    static Ways ways(int64_t h, int64_t d);
    uint64_t counts_between(int64_t l, int64_t r) const;
    template <class Each>
    void for_each_between(int64_t h, int64_t d, const Each& each) const;

    const int shift_;
    int64_t T_ = 0;
    std::vector<uint64_t> atoms_;         // [T + 4, kParserAtoms] from two before the first word on
    std::vector<uint64_t> as_head_;       // [T + 1, kTemplates]
    std::vector<uint64_t> as_dependent_;  // [T + 1, kTemplates]
    // [T + 2, 3, kSiblingTemplates] of a word as head, dependent and sibling; row T + 1 is no
    // sibling
    std::vector<uint64_t> sibling_parts_;
    std::vector<uint64_t> between_;  // [T + 1, 3] numbers of a word as head, dependent, in between
    std::vector<int32_t> before_;    // [T + 2, 4] words of each class before a word
    std::vector<int32_t> previous_;  // [T + 1] the last word before with the same tag, or 0
};

// Calls each(label, score) for every label that the arc h -> d may have; `features` is scratch.
template <class Each>
void for_each_arc_label(const ParserFeatures& of, int64_t h, int64_t d, const float* theta,
                        const LabelChoices& choices, std::vector<uint64_t>& features,
                        const Each& each) {
    of.of_arc_label(h, d, features);
    choices.for_each(of.label_context(h, d), [&](int64_t label) {
        const uint64_t key = label_key(label);
        float score = 0;
        for (uint64_t f : features) score += theta[of.place(f + key)];
        each(label, double(score));
    });
}

template <class Each>
void ParserFeatures::for_each_between(int64_t h, int64_t d, const Each& each) const {
    const int64_t l = h < d ? h : d, r = h < d ? d : h;
    const uint64_t way = ways(h, d).direction;
    const uint64_t both = between_[h * 3] + between_[d * 3 + 1] + way;
    for (int64_t b = l + 1; b < r; ++b)
        if (previous_[b] <= l) each((both + between_[b * 3 + 2]) >> shift_);  // each tag once
    each((both + counts_between(l, r)) >> shift_);
}

template <class Each>
void ParserFeatures::for_each_sibling(int64_t h, int64_t d, bool single_root, const Each& each) {
    each(h);
    if (single_root && h == 0) return;
    const int64_t step = h < d ? 1 : -1;
    for (int64_t s = h + step; s != d; s += step) each(s);
}

template <class Each>
void ParserFeatures::for_each_of_sibling(int64_t h, int64_t d, int64_t s, const Each& each) const {
    const int64_t K = kSiblingTemplates, none = T_ + 1;
    const uint64_t* head = sibling_parts_.data() + h * 3 * K;
    const uint64_t* dependent = sibling_parts_.data() + (d * 3 + 1) * K;
    const uint64_t* sibling = sibling_parts_.data() + ((s == h ? none : s) * 3 + 2) * K;
    // Direction, and the distance between the siblings.
    const Ways way = ways(s, d);
    for (int64_t k = 0; k < K; ++k)
        each((head[k] + dependent[k] + sibling[k] + (k % 2 ? way.distance : way.direction)) >>
             shift_);
}

template <class Each>
void ParserFeatures::for_each_of_arc(int64_t h, int64_t d, const Each& each) const {
    const Ways way = ways(h, d);
    const uint64_t* head = as_head_.data() + h * kTemplates;
    const uint64_t* dependent = as_dependent_.data() + d * kTemplates;
    for (int64_t k = 0; k < kTemplates; ++k) {
        const uint64_t both = head[k] + dependent[k];
        each((both + way.direction) >> shift_);
        each((both + way.distance) >> shift_);
    }
    for_each_between(h, d, each);
}

}  // namespace tagloom
