// Paths of second order over the candidate labels of one sequence. A node is a pair: candidate j of
// position t and candidate i of t-1; at t = 0 a candidate alone.
//
//   score[i, j] = score[j] + trans[y_i, y_j], with start and stop at the ends
//   from [h, i] to [i, j]: the weight of the trigram y_h, y_i, y_j, which few trigrams have
//
// Nodes that share i have the same nodes before them, a *block*: the nodes [h, i] for all h. Nodes
// without a trigram also share what follows from the block: its sum, or its best node. So the cost
// of a position is that of its pairs, and for a node with trigrams that of its block.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/trigrams.hpp"

namespace tagloom {

class CandidatePairs {
  public:
    // Sets the sequence whose candidates of position t are rows[t] .. rows[t + 1], less rows[0].
    // transition(y_prev, y), start(y) and stop(y) are scores of labels.
    template <class In, class Transition, class Start, class Stop>
    void set(const Trigrams& trigrams, const double* weights, int64_t T, const int64_t* rows,
             const int32_t* label, const In* score, const Transition& transition,
             const Start& start, const Stop& stop);

    int64_t length() const { return T_; }
    int64_t begin(int64_t t) const { return first_[t]; }  // nodes
    int64_t end(int64_t t) const { return first_[t + 1]; }
    int64_t size() const { return first_[T_]; }
    // The newer candidate of a node of position t, and the older one; -1 at t = 0.
    int64_t newer(int64_t t, int64_t v) const { return row(t) + (v - first_[t]) / width(t); }
    int64_t older(int64_t t, int64_t v) const {
        return t == 0 ? -1 : row(t - 1) + (v - first_[t]) % width(t);
    }
    // The nodes before node v of position t > 0: block(t, v) .. block(t, v) + width(t - 1).
    int64_t block(int64_t t, int64_t v) const {
        return first_[t - 1] + (v - first_[t]) % width(t) * width(t - 1);
    }
    int64_t width(int64_t t) const { return t == 0 ? 1 : rows_[t] - rows_[t - 1]; }

    // ---- the best paths, as numbers of candidates --------------------------------------------

    // candidates [T]; false if no path has a score.
    bool best(int64_t* candidates);
    // Appends up to n paths, the best first; returns how many.
    int64_t nbest(int64_t n, std::vector<int64_t>& candidates);

    // ---- sums over paths -----------------------------------------------------------------------

    // log_z; what follows needs it to be finite.
    double sum();
    // Pr(the last node is begin(T-1) + k).
    std::span<const double> last() const { return last_; }
    // Pr(node block(t, v) + k at t-1 | v at t), t > 0.
    std::span<const double> before(int64_t t, int64_t v) const {
        const double* of = own_at_[v] < 0 ? &share_[block(t, v)] : &own_[own_at_[v]];
        return {of, static_cast<std::size_t>(width(t - 1))};
    }
    // gamma[v], the probability of each node; count(k, expected number) for the trigrams.
    template <class Count>
    const std::vector<double>& expect(const Count& count);
    // Of the distribution over paths, in nats.
    double entropy();

  private:
    struct Arc {
        int32_t from;  // place in the block
        int64_t trigram;
    };
    struct Found {
        int64_t node;  // that it leads to
        Arc arc;
    };
    // On the rank-th best path to node `from`.
    struct Arrival {
        double score;
        int64_t from, rank;
    };

    int64_t row(int64_t t) const { return rows_[t] - rows_[0]; }
    bool has_arcs(int64_t v) const { return arc_ptr_[v] < arc_ptr_[v + 1]; }
    std::span<const Arc> arcs(int64_t v) const {
        return {arcs_.data() + arc_ptr_[v], arcs_.data() + arc_ptr_[v + 1]};
    }
    void list_arcs(const Trigrams& trigrams, const int32_t* label);
    double weight(const Arc& arc) const { return weights_[arc.trigram]; }
    // values[k] of the block before v, with the weights of trigrams.
    void add_arcs(int64_t t, int64_t v, std::vector<double>& values) const;
    void collect(int64_t first, int64_t last, int64_t n, std::span<const Arc> extra,
                 std::vector<Arrival>& out);
    double rescale(int64_t t);

    int64_t T_ = 0;
    const int64_t* rows_ = nullptr;
    const double* weights_ = nullptr;
    std::vector<int64_t> first_;    // [T + 1] nodes
    std::vector<double> score_;     // [nodes]
    std::vector<int64_t> arc_ptr_;  // [nodes + 1]
    std::vector<Arc> arcs_;         // by node, and within a node by `from`
    std::vector<Found> found_;      // the same before they are sorted

    std::vector<double> alpha_;              // [nodes]
    std::vector<int32_t> from_;              // [nodes] best: place in the block before
    std::vector<double> share_;              // [nodes] Pr(node | its block)
    std::vector<int64_t> own_at_;            // [nodes] place in own_, -1 without trigrams
    std::vector<double> own_;                // distributions over blocks, of nodes with trigrams
    std::vector<double> last_, gamma_;       // [nodes of the last position], [nodes]
    std::vector<double> of_block_, values_;  // [candidates before], [width]
    std::vector<int32_t> best_of_block_;
    std::vector<std::vector<Arrival>> arrivals_, block_arrivals_;
};

// ---------------------------------------------------------------------------------------------

template <class In, class Transition, class Start, class Stop>
void CandidatePairs::set(const Trigrams& trigrams, const double* weights, int64_t T,
                         const int64_t* rows, const int32_t* label, const In* score,
                         const Transition& transition, const Start& start, const Stop& stop) {
    T_ = T;
    rows_ = rows;
    weights_ = weights;
    first_.assign(1, 0);
    score_.clear();
    for (int64_t t = 0; t < T; ++t) {
        for (int64_t j = row(t); j < row(t + 1); ++j) {
            double own = score[j];
            if (t == 0) own += start(label[j]);
            if (t + 1 == T) own += stop(label[j]);
            if (t == 0) {
                score_.push_back(own);
                continue;
            }
            for (int64_t i = row(t - 1); i < row(t); ++i)
                score_.push_back(own + transition(label[i], label[j]));
        }
        first_.push_back(static_cast<int64_t>(score_.size()));
    }
    list_arcs(trigrams, label);
}

template <class Count>
const std::vector<double>& CandidatePairs::expect(const Count& count) {
    gamma_.assign(size(), 0.0);
    std::copy(last_.begin(), last_.end(), gamma_.begin() + begin(T_ - 1));
    for (int64_t t = T_ - 1; t > 0; --t) {
        const int64_t w = width(t - 1);
        of_block_.assign(width(t), 0.0);
        for (int64_t v = begin(t); v < end(t); ++v) {
            const double g = gamma_[v];
            if (!(g > 0)) continue;
            if (own_at_[v] < 0) {
                of_block_[(v - first_[t]) % width(t)] += g;
                continue;
            }
            const double* own = &own_[own_at_[v]];
            double* to = &gamma_[block(t, v)];
            for (int64_t k = 0; k < w; ++k) to[k] += g * own[k];
            for (const Arc& arc : arcs(v)) count(arc.trigram, g * own[arc.from]);
        }
        for (int64_t i = 0; i < width(t); ++i)
            for (int64_t u = first_[t - 1] + i * w; u < first_[t - 1] + (i + 1) * w; ++u)
                gamma_[u] += of_block_[i] * share_[u];
    }
    return gamma_;
}

}  // namespace tagloom
