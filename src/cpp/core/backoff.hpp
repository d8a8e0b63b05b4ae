// Paths of labels through an n-gram model, with candidates and scores for each position: the layout
// of the trellis whose transitions back off. Labels are the words of the model; a state is a
// history.
//
// From history h a label w transitions by the arc (h, w) if the trie has it, and otherwise by the
// failure arc to the suffix of h, with the score backoff[h], and on from there. A failure arc is
// taken only where no explicit arc exists, in every semiring. The other layouts (dense.hpp,
// automaton.hpp) store one transition for each pair of state and label: V^2 of them for a bigram
// model, which is what this one avoids. For most labels all histories back off to the same few
// nodes, whose total is shared, less the histories that have an explicit arc.
//
// Shared with the other layouts: the answers and their meaning (ties, n-best without duplicates,
// -1 for no path), the lazy n-best search (lazy_nbest.hpp, also used by the automaton), and in
// Python the Structure interface with batches, sampling and checks. Only the step from one position
// to the next is written here, once for all semirings (backoff_forward.hpp, backoff_backward.hpp).
//
// Let alpha(h) be what has reached h, and A(h) = alpha(h) + sum of backoff(g) A(g) over the
// histories g whose suffix is h. The trie is closed under suffixes, so a g without an arc for w has
// no longer history with one, and the arc (h, w) is used by
//
//   M(h, w) = alpha(h) + sum of backoff(g) A(g) over those g that have no arc for w
//
// One step costs O(arcs of the histories in use + labels). Sums are taken by subtraction where that
// keeps its digits, term by term elsewhere; maxima try the best g first.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/ngrams.hpp"

namespace tagloom {

struct RankedArc {
    double log_prob;
    float gain;  // rounded up
    int32_t word;
};

struct BackoffArcs {
    // Up to few_states states are looked up one by one. Up to direct_limit candidates are tried
    // state by state; -1 decides by estimated cost. Tests set both.
    explicit BackoffArcs(const NGramTable& model, int64_t few_states = 32,
                         int64_t direct_limit = -1);

    int64_t states() const { return table.histories(); }
    // The label that leads to a state.
    int32_t label(int32_t state) const { return table.word[state]; }

    const int64_t few_states, direct_limit;
    NGramTable table;                  // of order 2 or more, so that a state determines its label
    std::vector<int32_t> parent;       // [M] the n-gram without its last word
    std::vector<int32_t> longer_from;  // [H + 1] n-grams whose suffix is h are
    std::vector<int32_t> longer;       //   longer[longer_from[h]] .. longer[longer_from[h + 1]]
    std::vector<int8_t> length;        // [H] words of a history
    std::vector<double> prob, weight;  // [M], [H] exp of log_prob and backoff
    // Bigrams of a model of order 2 once more, those of each history by falling gain over the
    // single word, log_prob[h w] - log_prob[w]: an arc that gains less than others back off for is
    // not taken, and neither are those after it.
    std::vector<RankedArc> ranked;   // [M]; those of h are first[h] .. first[h + 1] - 1
    std::vector<float> top_gain;     // [H] that of the first arc of h; -inf without arcs
    std::vector<uint8_t> dominates;  // [H] whether no arc of h scores less than backing off would
    double width = 0;                // the least log_prob, after the least back-off, as a distance

  private:
    void rank_arcs();

    // A model of single words becomes one of order 2 without bigrams.
    std::vector<int64_t> level_;
    std::vector<int32_t> first_;
    std::vector<double> backoff_;
};

// Candidates: slot k may have labels[from[k]] .. labels[from[k + 1]], in order, each once.
struct Slots {
    std::span<const int64_t> from;    // [K + 1]
    std::span<const int32_t> labels;  // [candidates]
    std::span<const double> scores;   // [candidates]

    int64_t size(int32_t k) const { return from[k + 1] - from[k]; }
};

// One sequence: the slot of each position, the state before the first, and the label after the
// last, which counts but is not part of the path; -1 for none.
struct SlotSequence {
    const Slots& slots;
    std::span<const int32_t> slot;
    int32_t start;
    int32_t stop;
};

// Scratch memory of one thread; it may be used for any number of sequences of one model. After an
// exception it must not be used again.
class BackoffSearch {
  public:
    explicit BackoffSearch(const BackoffArcs& arcs);
    ~BackoffSearch();
    BackoffSearch(const BackoffSearch&) = delete;
    BackoffSearch& operator=(const BackoffSearch&) = delete;

    // Score of the best path and, where there is one, the path [T]. Ties go to the lowest labels,
    // compared from the end.
    double viterbi(const SlotSequence& x, int32_t* path);
    // Up to n best paths [k, T] in order, with scores [k].
    void nbest(const SlotSequence& x, int64_t n, std::vector<int32_t>& paths,
               std::vector<double>& scores);
    double log_partition(const SlotSequence& x);
    // Probability of each candidate, position after position; zeros if there is no path. Returns
    // the log-partition.
    double marginals(const SlotSequence& x, double* probs);
    // Entropy of the distribution over paths, in nats; 0 if there is none. Sets the log-partition.
    double entropy(const SlotSequence& x, double& log_z);
    // n draws [n, T], rows `stride` apart, steered by uniform numbers [n, T] in [0, 1).
    bool sample(const SlotSequence& x, int64_t n, const double* uniform, int64_t stride,
                int32_t* paths);
    // The first position that no path reaches; T if only the stop is out of reach; -1 if there is a
    // path.
    int64_t first_dead_position(const SlotSequence& x);
    // Score of a path; -inf if a label is not among the candidates.
    double path_score(const SlotSequence& x, const int32_t* path) const;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tagloom
