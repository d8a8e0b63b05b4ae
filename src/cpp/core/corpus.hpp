// Encoded sentences with their gold labels, laid out for training, without weights.
//
// Labels may be open: a token then has a set of labels instead of one.
//
// Sentences are copied in *work order*, which a subclass chooses. For each token, lists have the
// weights of its attributes; see rows.hpp. Where these lie is also up to the subclass.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/pages.hpp"
#include "core/pruned_chain.hpp"
#include "core/rows.hpp"
#include "core/segment_chain.hpp"
#include "core/space.hpp"
#include "core/subtags.hpp"
#include "core/trigrams.hpp"

namespace tagloom {

// Attributes of token t are ids[indptr[t]] .. ids[indptr[t + 1]].
struct Attributes {
    const int64_t* indptr = nullptr;  // [T + 1]; null: no attributes
    const int32_t* ids = nullptr;
    const float* values = nullptr;  // null: all are 1
    int64_t nnz = 0;                // length of ids
    int64_t n = 0;                  // number of attributes
    // Pairs that get a weight even if they do not occur here, such as those of an earlier model.
    const int32_t* extra = nullptr;        // [n_extra] attributes
    const uint16_t* extra_cols = nullptr;  // [n_extra]
    int64_t n_extra = 0;
};

struct Examples {
    int64_t N, T, Y;
    const int64_t* offsets;  // [N + 1]
    Attributes nodes, edges;
    const int32_t* gold;            // [T] label, or -1 - k: any label of set k
    const double* weight;           // [N] or null
    bool all_combinations;          // a weight for every attribute and label
    bool boundaries;                // start and stop weights
    bool float32;                   // arithmetic of scores and marginals; sums are always double
    const uint8_t* sets = nullptr;  // [n_sets, Y] the labels of each set
    int64_t n_sets = 0;
    const int32_t* allowed = nullptr;  // [T] or null: the set of labels that paths may take
    const Space* space = nullptr;      // null: first order
    // Rows of a segment model instead of tokens, in the order of the sentences; see
    // segment_chain.hpp. `gold` then only chooses the weights: a set of all labels has none.
    const SegmentShape* segments = nullptr;
    // Whether the objective is only evaluated, never learned online. Attributes that occur together
    // are then one, see bundles.hpp, and those of value 0 are left out, having got their weights.
    // It changes no sum; but an online learner updates each weight whenever it meets the attribute.
    bool batches_only = false;
    bool pattern_only = false;  // find the weights, but do not prepare for learning
    // Many labels: candidates at each position, see pruned_chain.hpp; without edges and state
    // space. Trigrams with weights make it second order. Labels may then share the weights of
    // sub-tags, one for every attribute and sub-tag.
    const Pruning* pruning = nullptr;
    int64_t warm_up = 1;  // with pruning: epochs of order 0, and then of order 1 before order 2
    const Trigrams* trigrams = nullptr;
    const Subtags* subtags = nullptr;
};

// The Lists of rows.hpp with their memory, in work order.
struct OwnedLists {
    std::vector<int64_t> full_ptr, single_ptr;
    PagedArray<uint32_t> full, single;
    PagedArray<uint16_t> column;
    PagedArray<float> full_value, single_value;
    std::vector<float> square;  // [T] sum of the squared values of the token's attributes
    bool valued = false;

    Lists view() const {
        return {full_ptr.data(),
                single_ptr.data(),
                full.data(),
                single.data(),
                column.data(),
                valued ? full_value.data() : nullptr,
                valued ? single_value.data() : nullptr};
    }
};

class Corpus {
  public:
    // Whether no sentence has a transition or a boundary, so that the tail is never used and every
    // sum over paths is one over labels.
    bool is_separate() const { return separate; }
    bool has_edges() const { return !edge_lists.full_ptr.empty(); }
    int64_t n_tail() const {
        return space.tail_size(boundaries) + trigrams.size() + subtags.S * subtags.S;
    }

    // Whether y is the label, or in the set of labels, of an entry of `gold` or `allowed`.
    bool permits(int32_t labels, int64_t y) const {
        return labels >= 0 ? labels == y : sets[(-1 - labels) * Y + y];
    }
    // Sets emit [n, Y] of the tokens from `first` on to -inf where paths may not go.
    template <class In>
    void forbid(int64_t first, int64_t n, In* emit) const;
    // Copies emit, with -inf where the gold labels do not permit y.
    template <class In>
    void close(int64_t first, int64_t n, const In* emit, std::vector<In>& closed) const;
    // Calls see(label) for the label or labels of a token; not at all if every label is permitted.
    template <class See>
    void each_seen(int32_t label, const See& see) const;
    // Sets the entries of `tail` for the transitions, starts and stops of the gold labels to 1.
    void mark_seen(uint8_t* tail) const;

    int64_t N, T, Y;
    bool boundaries, float32, separate = false;
    Space space;
    std::vector<uint8_t> sets;   // [n_sets, Y]
    std::vector<int64_t> order;  // [N] the sentence at each place of the work order
    // In work order:
    std::vector<int64_t> starts;   // [N + 1] first token of each sentence
    std::vector<int32_t> gold;     // [T]
    std::vector<int32_t> allowed;  // [T] or empty
    std::vector<uint8_t> is_open;  // [N] whether a sentence has open labels
    std::vector<double> weight;    // [N]
    OwnedLists node_lists, edge_lists, subtag_lists;
    std::unique_ptr<SegmentShape> segments;  // in work order; null: a chain
    std::unique_ptr<Pruning> pruning;        // null: every label is a candidate
    int64_t warm_up = 0;                     // see Examples
    Trigrams trigrams;
    Subtags subtags;

  protected:
    // Checks the examples, std::invalid_argument if they are inconsistent, and copies the state
    // space and the sets. The subclass sets order, starts and lists, and calls copy_labels().
    explicit Corpus(const Examples& examples);
    ~Corpus() = default;
    void keep_order(const Examples& x);  // the work order is the given one
    void copy_labels(const Examples& x);
};

template <class See>
void Corpus::each_seen(int32_t label, const See& see) const {
    if (label >= 0) return see(label);
    const uint8_t* set = sets.data() + (-1 - label) * Y;
    int64_t n = 0;
    for (int64_t y = 0; y < Y; ++y) n += set[y];
    for (int64_t y = 0; n < Y && y < Y; ++y)
        if (set[y]) see(y);
}

}  // namespace tagloom
