// The positions of a search over back-off arcs, and its scratch memory over the histories of the
// model. Nothing here depends on the semiring. Shared by the files backoff*.
//
// Single words are the histories that nearly all others back off to, and after a position where any
// word may stand all of them are in use: a layer can hold them as a column [V] in the order of
// their labels. Longer histories are listed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "core/backoff.hpp"

namespace tagloom::backoff {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

using BestNode = std::pair<double, int32_t>;  // score of a path, and a node of the layer before

// What has reached the states of one position. Node i < n_words is the state of word i; the others
// are listed. A score of -inf is a word that nothing has reached.
struct Layer {
    int64_t n_words = 0;         // 0 or V
    std::vector<int32_t> state;  // [A - n_words]
    std::vector<double> score;   // [A] logarithms
    std::vector<int32_t> from;   // [A] best node of the layer before; maxima only
    std::vector<double> mean;    // [A] expected score of the paths so far; expectations only

    int64_t size() const { return n_words + std::ssize(state); }
    int32_t state_of(int64_t i) const {
        return i < n_words ? static_cast<int32_t>(1 + i) : state[i - n_words];
    }
    bool is_empty() const {
        return std::all_of(score.begin(), score.end(), [](double x) { return x == kMinusInf; });
    }
    void clear() {
        n_words = 0;
        state.clear();
        score.clear();
        from.clear();
        mean.clear();
    }
};

// The candidates of a position.
struct Candidates {
    std::span<const int32_t> labels;
    std::span<const double> scores;
    int64_t size() const { return std::ssize(labels); }
    // Whether the labels are consecutive, as those of a gap are: such loops run on vectors.
    bool is_range() const {
        return !labels.empty() && labels.back() - labels.front() + 1 == size();
    }
};

// Scratch memory that all semirings share.
struct Histories {
    explicit Histories(const BackoffArcs& arcs)
        : touched(arcs.table.order),
          stamp(arcs.states(), 0),
          head(arcs.states(), -1),
          next(arcs.states(), -1),
          marked(arcs.states(), 0),
          served(arcs.states(), 0),
          lost(arcs.table.word.size(), 0),
          emit(arcs.table.n_words(), kMinusInf),
          arcs_(arcs) {}

    std::vector<std::vector<int32_t>> touched;  // [order, ...] listed histories in use, by length
    std::vector<uint32_t> stamp;                // [H] now where a history is in use
    uint32_t now = 0;
    std::vector<int32_t> head, next;  // [H] lists of the longer histories that pass on to each
    std::vector<uint32_t> marked;     // [H] mark where a history has an arc for the label
    std::vector<int32_t> served;      // [H] that arc
    uint32_t mark = 0;
    std::vector<int32_t> marked_words;  // those of them that are single words
    std::vector<int32_t> pending;       // of mark_label()
    std::vector<uint8_t> lost;     // [M] which of the largest passers have a longer arc; 0 before
                                   //   and after a step
    std::vector<double> emit;      // [V] -inf before and after a step
    std::vector<int32_t> reached;  // listed states with something in Work::out

    // Marks all histories that have an arc for a label, the empty one among them.
    void mark_label(int32_t label) {
        if (++mark == 0) {
            std::fill(marked.begin(), marked.end(), 0);
            mark = 1;
        }
        marked_words.clear();
        marked[0] = mark;
        served[0] = 1 + label;
        pending.assign(1, 1 + label);
        while (!pending.empty()) {
            const int32_t c = pending.back();
            pending.pop_back();
            for (int32_t j = arcs_.longer_from[c]; j < arcs_.longer_from[c + 1]; j++) {
                const int32_t d = arcs_.longer[j], h = arcs_.parent[d];
                marked[h] = mark;
                served[h] = d;
                if (c == 1 + label) marked_words.push_back(h);
                if (d < arcs_.states()) pending.push_back(d);
            }
        }
    }
    // The arc of a history for a label; back(h) is called for each failure arc before it.
    template <class Back>
    int32_t serve(int32_t h, int32_t label, bool is_marked, const Back& back) const {
        const NGramTable& table = arcs_.table;
        int32_t c;
        if (!is_marked) {
            for (; (c = table.find(h, label)) < 0; h = table.suffix[h]) back(h);
            return c;
        }
        for (; marked[h] != mark; h = table.suffix[h]) back(h);
        return served[h];
    }
    // Puts the listed histories and all that they can back off to into `touched`, by length.
    void touch(const Layer& layer) {
        if (++now == 0) {
            std::fill(stamp.begin(), stamp.end(), 0);
            now = 1;
        }
        for (auto& nodes : touched) nodes.clear();
        for (const int32_t state : layer.state)
            for (int32_t h = state; h != 0 && stamp[h] != now; h = arcs_.table.suffix[h]) {
                stamp[h] = now;
                head[h] = -1;
                touched[arcs_.length[h]].push_back(h);
            }
    }
    // Whether a step goes by pairs: each state with each candidate.
    bool is_direct(const Layer& before, const Candidates& slot) const {
        if (arcs_.direct_limit >= 0) return slot.size() <= arcs_.direct_limit;
        const NGramTable& table = arcs_.table;
        const int64_t V = table.n_words(), listed = std::ssize(before.state);
        const int64_t each = listed > arcs_.few_states ? 2 : 8;  // with marks, or looked up
        const int64_t pairs = slot.size() * (each * listed + before.n_words / 2 + 1);
        if (pairs < V) return true;
        int64_t n_arcs = before.n_words ? table.level[3] : V;
        for (const int32_t h : before.state) n_arcs += table.first[h + 1] - table.first[h];
        return pairs < n_arcs;
    }
    // Whether enough histories are looked up that marking them first is faster.
    bool needs_marks(const Layer& layer) const {
        return layer.n_words > 0 || std::ssize(layer.state) > arcs_.few_states;
    }

  private:
    const BackoffArcs& arcs_;
};

// What all words of a layer without a mark pass on to the empty history: the best of them, and the
// lowest label among equals.
inline BestNode best_unmarked(const BackoffArcs& arcs, const Histories& h, const Layer& layer) {
    constexpr int64_t kBlock = 8;  // compared at once: nearly always none is better
    const double *score = layer.score.data(), *back = arcs.table.backoff.data() + 1;
    const uint32_t *marked = h.marked.data() + 1, mark = h.mark;
    BestNode best = {kMinusInf, -1};
    const auto look = [&](int64_t i) {
        if (score[i] + back[i] > best.first && marked[i] != mark)
            best = {score[i] + back[i], static_cast<int32_t>(i)};
    };
    int64_t i = 0;
    for (; i + kBlock <= layer.n_words; i += kBlock) {
        int n_better = 0;
        for (int64_t j = i; j < i + kBlock; j++) n_better += score[j] + back[j] > best.first;
        for (int64_t j = i; n_better > 0 && j < i + kBlock; j++) look(j);
    }
    for (; i < layer.n_words; i++) look(i);
    return best;
}

// The layers of a sequence, and the best paths through them.
class Layers {
  public:
    // A node whose predecessor is computed on demand: between two layers of words that is faster
    // than storing it for every word.
    static constexpr int32_t kLater = -2;

    Layers(const BackoffArcs& arcs, Histories& h) : arcs_(arcs), h_(h) {}

    Layer& operator[](int64_t t) { return layers_[t]; }
    const Layer& operator[](int64_t t) const { return layers_[t]; }
    void grow(int64_t n) {
        if (std::ssize(layers_) < n) layers_.resize(n);
    }
    int32_t label(int64_t t, int64_t i) const { return arcs_.label(layers_[t].state_of(i)); }

    // The node of layer t - 1 on the best path to node i of layer t.
    int32_t source(int64_t t, int32_t i) {
        int32_t& from = layers_[t].from[i];
        if (from == kLater) from = find_source(layers_[t - 1], i);
        return from;
    }
    // Order of the best paths to two nodes, when they score the same: by labels, from the end.
    bool comes_before(int64_t t, int32_t i, int32_t j) {
        for (; i != j && t >= 0; t--) {
            const int32_t a = label(t, i), b = label(t, j);
            if (a != b) return a < b;
            i = source(t, i);
            j = source(t, j);
        }
        return false;
    }

  private:
    // Both layers have a column of words, and nothing else.
    int32_t find_source(const Layer& before, int32_t label) {
        h_.mark_label(label);
        BestNode best = best_unmarked(arcs_, h_, before);
        best.first += arcs_.table.log_prob[1 + label];
        for (const int32_t h : h_.marked_words) {
            const double score = before.score[h - 1] + arcs_.table.log_prob[h_.served[h]];
            if (score > best.first || (score == best.first && h - 1 < best.second))
                best = {score, h - 1};
        }
        return best.second;
    }

    const BackoffArcs& arcs_;
    Histories& h_;
    std::vector<Layer> layers_;  // [T + 1]; the start is the first
};

}  // namespace tagloom::backoff
