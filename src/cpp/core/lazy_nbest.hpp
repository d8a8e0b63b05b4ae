// The n best paths through a layered graph, lazily (Huang and Chiang 2005, algorithm 3, for a
// chain). The best path to every node is known; further ones are computed only when a longer path
// needs them. A derivation arrives from the rank-th best path to its source.
//
// Graph has
//   int64_t length()            layers 0 .. length() - 1; one stop follows the last layer
//   double best(t, i)           score of the best path to node i of layer t
//   int32_t source(t, i)        node of layer t - 1 on that path, t > 0
//   int32_t label(t, i)         of node i
//   void arrivals(t, i, visit)  visit(source, score) for every way into node i of layer t > 0; for
//                               t = length() into the stop, where i is 0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "core/interrupts.hpp"

namespace tagloom {

template <class Graph>
class LazyNBest {
  public:
    explicit LazyNBest(const Graph& graph) : graph_(graph), T_(graph.length()) {}

    // Makes sure that the stop has rank + 1 derivations, if there are that many.
    bool ensure(int64_t rank) {
        stack_.push_back({T_, 0, rank});
        while (!stack_.empty()) {
            poll_.step();
            const Request want = stack_.back();
            Node& node = node_at(want.t, want.i);
            if (std::ssize(node.ranked) > want.rank || node.is_exhausted) {
                stack_.pop_back();
                continue;
            }
            if (node.pending.rank > 0 && !release_pending(want.t, node)) continue;
            if (node.waiting.empty()) {
                node.is_exhausted = true;
                continue;
            }
            std::pop_heap(node.waiting.begin(), node.waiting.end(), Later{this, want.t});
            const Derivation next = node.waiting.back();
            node.waiting.pop_back();
            node.ranked.push_back(next);
            node.pending = next;
            node.pending.rank++;
        }
        return std::ssize(node_at(T_, 0).ranked) > rank;
    }

    // The nodes of a path [length()].
    void read(int64_t rank, int32_t* path) const {
        const Derivation& last = nodes_.at(key(T_, 0)).ranked[rank];
        int32_t i = last.source, r = last.rank;
        for (int64_t t = T_ - 1; t >= 0; --t) {
            path[t] = i;
            if (t > 0) step_back(t, i, r);
        }
    }

  private:
    struct Derivation {
        double score;    // of the whole path so far
        double arrival;  // of its last step alone
        int32_t source;  // node of the layer before
        int32_t rank;    // of the path to it
    };
    struct Node {
        std::vector<Derivation> ranked;          // in order
        std::vector<Derivation> waiting;         // heap
        Derivation pending = {0.0, 0.0, -1, 0};  // follows the last of `ranked`, once its
        bool is_exhausted = false;               // source has a path of that rank
    };
    struct Request {
        int64_t t;
        int32_t i;
        int64_t rank;
    };
    struct Later {
        const LazyNBest* search;
        int64_t t;
        bool operator()(const Derivation& p, const Derivation& q) const {
            return search->before(t, q, p);
        }
    };

    static uint64_t key(int64_t t, int32_t i) {
        return static_cast<uint64_t>(t) << 32 | static_cast<uint32_t>(i);
    }

    // Node i and rank of layer t become those of layer t - 1 on the same path.
    void step_back(int64_t t, int32_t& i, int32_t& rank) const {
        if (rank == 0) {
            i = graph_.source(t, i);
            return;
        }
        const Derivation& d = nodes_.at(key(t, i)).ranked[rank];
        i = d.source;
        rank = d.rank;
    }

    // Order of two derivations at t: by score, then by their labels from the end.
    bool before(int64_t t, const Derivation& p, const Derivation& q) const {
        if (p.score != q.score) return p.score > q.score;
        int32_t i = p.source, j = q.source, rank_i = p.rank, rank_j = q.rank;
        for (--t; i != j; --t) {
            if (graph_.label(t, i) != graph_.label(t, j))
                return graph_.label(t, i) < graph_.label(t, j);
            if (t == 0) return i < j;
            step_back(t, i, rank_i);
            step_back(t, j, rank_j);
        }
        return rank_i < rank_j;
    }

    Node& node_at(int64_t t, int32_t i) {
        auto [it, is_new] = nodes_.try_emplace(key(t, i));
        Node& node = it->second;
        if (!is_new) return node;
        if (t == 0) {
            node.ranked.push_back({graph_.best(0, i), 0.0, -1, 0});
            node.is_exhausted = true;
            return node;
        }
        // step_back() may have used the best path of this node before the node was visited: it
        // stays the one of the graph, even where rounding makes another path look as good.
        const int32_t best_source = t < T_ ? graph_.source(t, i) : -1;
        graph_.arrivals(t, i, [&](int32_t source, double arrival) {
            const double score = graph_.best(t - 1, source) + arrival;
            if (score == -std::numeric_limits<double>::infinity()) return;
            const Derivation next{score, arrival, source, 0};
            if (source == best_source) {
                node.ranked.push_back(next);
                node.pending = next;
                node.pending.rank = 1;
            } else {
                node.waiting.push_back(next);
            }
        });
        std::make_heap(node.waiting.begin(), node.waiting.end(), Later{this, t});
        return node;
    }

    // Transitions the pending derivation to the waiting ones; false if its source must be extended
    // first.
    bool release_pending(int64_t t, Node& node) {
        Derivation next = node.pending;
        Node& source = node_at(t - 1, next.source);  // references into an unordered_map stay valid
        if (std::ssize(source.ranked) <= next.rank) {
            if (!source.is_exhausted) {
                stack_.push_back({t - 1, next.source, next.rank});
                return false;
            }
            node.pending.rank = 0;
            return true;
        }
        node.pending.rank = 0;
        next.score = source.ranked[next.rank].score + next.arrival;
        node.waiting.push_back(next);
        std::push_heap(node.waiting.begin(), node.waiting.end(), Later{this, t});
        return true;
    }

    const Graph& graph_;
    const int64_t T_;
    std::unordered_map<uint64_t, Node> nodes_;
    InterruptPoll poll_;
    std::vector<Request> stack_;
};

}  // namespace tagloom
