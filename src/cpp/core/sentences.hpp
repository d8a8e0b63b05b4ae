// The sentences of a linear objective one at a time, under weights that change after each: the
// interface between models and online learners. Calls are grouped by cost, as in CRFsuite's
// tag_encoder; with T tokens, A attributes per token and Y labels,
//
//   choose                                O(T A Y)  emit and edge of a sentence, its scores
//   path_score, each_feature, each_difference, add_to_wrong
//                                         O(T A), O(T Y) of one or two paths
//   viterbi, right_path                   O(T Y^2)  the best path
//   residuals                             O(T Y^2)  forward-backward: expected minus observed
//                                         both O(Y) for single tokens without boundaries
//   update                                O(T A Y)  weights -= rate * residuals
//
// Weights are the rows [n_rows] of attributes, in the kernels' type, and the tail [n_tail] of
// transitions, starts, stops and ties, in double; see linear.hpp and space.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/chain.hpp"
#include "core/linear.hpp"

namespace tagloom {

template <class In>
class Sentences {
  public:
    Sentences(const Corpus& corpus, const RowMap& map);  // both must outlive it

    // ---- of the corpus ---------------------------------------------------------------------

    int64_t size() const { return corpus.N; }
    int64_t n_labels() const { return Y; }
    int64_t n_tail() const { return corpus.n_tail(); }
    bool uses_tail() const { return !corpus.is_separate(); }
    bool is_free(int64_t weight) const {
        return weight < W ? free_rows[weight] : free_tail[weight - W];
    }
    bool has_open() const;  // whether any sentence has open labels
    // The place of a sentence in work order, by which the calls below number sentences.
    int64_t place(int64_t sentence) const { return places[sentence]; }
    int64_t length(int64_t place) const { return corpus.starts[place + 1] - corpus.starts[place]; }

    // ---- one sentence ----------------------------------------------------------------------

    void choose(int64_t place, const In* rows, const double* tail);  // both must outlive it
    // With pruning, the number of epochs so far decides the order; see Examples::warm_up.
    void set_epoch(int64_t epoch) {
        const int64_t most = corpus.is_separate() ? 0 : corpus.trigrams.size() > 0 ? 2 : 1;
        order = corpus.warm_up == 0 ? most : std::min(most, epoch / corpus.warm_up);
    }

    int64_t length() const { return T; }
    double weight() const { return corpus.weight[at]; }
    const int32_t* gold() const { return corpus.gold.data() + first; }  // see Examples
    double path_score(const int32_t* path) const;
    // emit[t, y] += amount(t, y) for every wrong label y.
    template <class Amount>
    void add_to_wrong(const Amount& amount);
    // Half of the margin that one update adds if token t alone is wrong.
    double update_size(int64_t t) const;
    // Calls use(weight, value) for the features of a path, except those of masked weights.
    template <class Use>
    void each_feature(const int32_t* path, const Use& use) const;
    // The same for features(right) - features(wrong), where the two paths differ.
    template <class Use>
    void each_difference(const int32_t* right, const int32_t* wrong, const Use& use) const;

    // std::overflow_error if no path has a finite score.
    void viterbi(std::vector<int32_t>& path);
    // The gold labels; if they are open, the best path that they permit under the present weights.
    const int32_t* right_path();

    // The loss -log Pr(gold); its gradient times the sentence's weight is kept for update().
    // std::overflow_error if the loss is not finite.
    double residuals();
    // [n_tail + slack] if the tail is used
    const double* tail_residuals() const { return counts.data(); }
    // With pruning: the residuals of the tail that are not zero. Otherwise null.
    const SparseCounts* sparse_residuals() const { return few_counts.get(); }
    // Applies the residuals of nodes, edges and sub-tags. The caller sets all of the task but lists
    // and rows.
    void update(RowUpdate<In> task) const;

  private:
    void add_up(const OwnedLists& lists, int64_t width, In* out) const;
    void subtract_gold();
    double subtract_open();
    double pruned_residuals();
    void sum_subtags();
    void apply(const OwnedLists& lists, int64_t width, const In* residuals, int64_t lo, int64_t n,
               RowUpdate<In> task) const;
    void decode(const In* scores, int32_t* path);
    template <class Use>
    void each_of_token(const OwnedLists& lists, int64_t t, int64_t column, const Use& use) const;
    template <class Use>
    void each_of_token(const OwnedLists& lists, int64_t t, int64_t right, int64_t wrong,
                       const Use& use) const;
    template <class Use>
    void each_of_transitions(const int32_t* right, const int32_t* wrong, const Use& use) const;

    const In* edges() const { return YY > 0 ? edge.data() : nullptr; }
    In* pairs_or_null(std::vector<In>& of) const { return YY > 0 ? of.data() : nullptr; }

    const Corpus& corpus;
    const int64_t Y, YY, W;  // YY: Y * Y, or 0 without edges; W: where the tail begins
    const uint8_t *free_rows, *free_tail;
    std::vector<int64_t> places;  // [N] place of each sentence in work order
    Chain<In> chain;
    std::unique_ptr<SegmentChain<In>> segments;  // instead of the chain, for a segment model
    std::unique_ptr<PrunedChain<In>> pruned, permitted;  // instead of the chain, with pruning
    std::unique_ptr<SparseCounts> few_counts;
    const double* tail_weights = nullptr;
    int64_t order = 0;                 // with pruning: of this epoch
    int64_t at = 0, first = 0, T = 0;  // the chosen sentence: place, first token, length
    const In* rows = nullptr;
    std::vector<In> emit, edge;                        // [T, Y], [T, Y, Y]
    std::vector<In> gamma, xi;                         // residuals like emit and edge
    std::vector<In> sub, sub_gamma;                    // [T, S] of sub-tags
    std::vector<In> sub_sums;                          // see Subtags::spread
    std::vector<uint8_t> is_residual;                  // [T] with pruning: gamma is not all zero
    std::vector<In> closed, observed, observed_pairs;  // of a sentence with open labels
    std::vector<double> counts;                        // [n_tail + slack]
    std::vector<int32_t> completed;                    // [T]
};

// ---------------------------------------------------------------------------------------------

template <class In>
template <class Amount>
void Sentences<In>::add_to_wrong(const Amount& amount) {
    for (int64_t t = 0; t < T; ++t)
        for (int64_t y = 0; y < Y; ++y)
            if (!corpus.permits(gold()[t], y)) emit[t * Y + y] += static_cast<In>(amount(t, y));
}

template <class In>
template <class Use>
void Sentences<In>::each_feature(const int32_t* path, const Use& use) const {
    for (int64_t t = 0; t < T; ++t) {
        each_of_token(corpus.node_lists, t, path[t], use);
        if (YY > 0 && t > 0) each_of_token(corpus.edge_lists, t, path[t - 1] * Y + path[t], use);
    }
    corpus.space.each_of_path(path, T, corpus.boundaries, [&](int64_t j) {
        if (is_free(W + j)) use(W + j, 1.0);
    });
}

template <class In>
template <class Use>
void Sentences<In>::each_difference(const int32_t* right, const int32_t* wrong,
                                    const Use& use) const {
    bool was_same = true;  // of the previous label
    for (int64_t t = 0; t < T; ++t) {
        const bool is_same = right[t] == wrong[t];
        if (!is_same) each_of_token(corpus.node_lists, t, right[t], wrong[t], use);
        if (YY > 0 && t > 0 && !(is_same && was_same))
            each_of_token(corpus.edge_lists, t, right[t - 1] * Y + right[t],
                          wrong[t - 1] * Y + wrong[t], use);
        was_same = is_same;
    }
    each_of_transitions(right, wrong, use);
}

template <class In>
template <class Use>
void Sentences<In>::each_of_token(const OwnedLists& lists, int64_t t, int64_t column,
                                  const Use& use) const {
    const int64_t token = first + t;
    auto give = [&](int64_t weight, double value) {
        if (is_free(weight)) use(weight, value);
    };
    for (int64_t j = lists.full_ptr[token]; j < lists.full_ptr[token + 1]; ++j)
        give(lists.full[j] + column, lists.valued ? lists.full_value[j] : 1.0);
    for (int64_t j = lists.single_ptr[token]; j < lists.single_ptr[token + 1]; ++j)
        if (lists.column[j] == column)
            give(lists.single[j], lists.valued ? lists.single_value[j] : 1.0);
}

template <class In>
template <class Use>
void Sentences<In>::each_of_token(const OwnedLists& lists, int64_t t, int64_t right, int64_t wrong,
                                  const Use& use) const {
    const int64_t token = first + t;
    auto give = [&](int64_t weight, double value) {
        if (is_free(weight)) use(weight, value);
    };
    for (int64_t j = lists.full_ptr[token]; j < lists.full_ptr[token + 1]; ++j) {
        const double value = lists.valued ? lists.full_value[j] : 1.0;
        give(lists.full[j] + right, value);
        give(lists.full[j] + wrong, -value);
    }
    for (int64_t j = lists.single_ptr[token]; j < lists.single_ptr[token + 1]; ++j) {
        const int64_t column = lists.column[j];
        if (column != right && column != wrong) continue;
        const double value = lists.valued ? lists.single_value[j] : 1.0;
        give(lists.single[j], column == right ? value : -value);
    }
}

// The weights of transitions, start and stop where the two state paths differ.
template <class In>
template <class Use>
void Sentences<In>::each_of_transitions(const int32_t* right, const int32_t* wrong,
                                        const Use& use) const {
    const Space& space = corpus.space;
    const bool bounds = corpus.boundaries;
    auto give = [&](double value) {
        return [&, value](int64_t j) {
            if (is_free(W + j)) use(W + j, value);
        };
    };
    const auto more = give(1.0), less = give(-1.0);
    int64_t r = space.first_state[right[0]], w = space.first_state[wrong[0]];
    if (r != w) {
        space.each_of_start(r, bounds, more);
        space.each_of_start(w, bounds, less);
    }
    for (int64_t t = 1; t < T; ++t) {
        const int64_t to_right = space.transition_of[r * Y + right[t]],
                      to_wrong = space.transition_of[w * Y + wrong[t]];
        r = space.dst[to_right];
        w = space.dst[to_wrong];
        if (to_right == to_wrong) continue;
        space.each_of_transition(to_right, bounds, more);
        space.each_of_transition(to_wrong, bounds, less);
    }
    if (r == w) return;
    space.each_of_stop(r, bounds, more);
    space.each_of_stop(w, bounds, less);
}

}  // namespace tagloom
