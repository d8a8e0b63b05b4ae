// The n best paths of an acyclic graph, found lazily (Huang and Chiang 2005, algorithm 3): a node
// finds its next best path only when another node needs it. The stack is explicit, so a long path
// is harmless.
//
// Graph has
//   int64_t final_node()
//   bool is_first(node)            whether paths begin there
//   double best(node)              the score of the best path to it
//   void arrivals(node, visit)     visit(source, score) for every arc into it
//
// Among equal scores the arc that `arrivals` visits first wins, then the path to its source.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

namespace tagloom {

template <class Graph>
class DagNBest {
  public:
    explicit DagNBest(const Graph& graph) : graph_(graph) {}

    // Makes sure that the final node has rank + 1 paths, if there are that many.
    bool ensure(int64_t rank) { return ensure(graph_.final_node(), rank); }

    // Calls use(source, arc) for the arcs of a path from the final node back; arc counts those that
    // `arrivals` visits, from 0.
    template <class Use>
    void read(int64_t rank, const Use& use) {
        for (int64_t node = graph_.final_node(); !graph_.is_first(node);) {
            ensure(node, rank);  // the best path to a node may not have been needed so far
            const Derivation d = nodes_.at(node).ranked[rank];
            use(d.source, d.arc);
            node = d.source;
            rank = d.rank;
        }
    }

  private:
    bool ensure(int64_t target, int64_t rank) {
        stack_.push_back({target, rank});
        while (!stack_.empty()) {
            const Request want = stack_.back();
            Node& node = node_at(want.node);
            if (std::ssize(node.ranked) > want.rank || node.is_exhausted) {
                stack_.pop_back();
                continue;
            }
            if (node.has_pending && !release_pending(node)) continue;
            if (node.waiting.empty()) {
                node.is_exhausted = true;
                continue;
            }
            std::pop_heap(node.waiting.begin(), node.waiting.end(), is_later);
            node.ranked.push_back(node.waiting.back());
            node.waiting.pop_back();
            node.has_pending = true;
        }
        return std::ssize(node_at(target).ranked) > rank;
    }

    struct Derivation {
        double score;    // of the whole path so far
        double arrival;  // of its last arc alone
        int64_t source;
        int32_t arc;
        int64_t rank;  // of the path to the source
    };
    struct Node {
        std::vector<Derivation> ranked;   // in order
        std::vector<Derivation> waiting;  // heap
        bool has_pending = false;         // whether the successor of the last ranked is to be added
        bool is_exhausted = false;
    };
    struct Request {
        int64_t node, rank;
    };

    static bool is_later(const Derivation& p, const Derivation& q) {
        if (p.score != q.score) return p.score < q.score;
        if (p.arc != q.arc) return p.arc > q.arc;
        return p.rank > q.rank;
    }

    Node& node_at(int64_t id) {
        auto [it, is_new] = nodes_.try_emplace(id);
        Node& node = it->second;
        if (!is_new) return node;
        if (graph_.is_first(id)) {
            node.ranked.push_back({graph_.best(id), 0.0, -1, 0, 0});
            node.is_exhausted = true;
            return node;
        }
        int32_t arc = 0;
        graph_.arrivals(id, [&](int64_t source, double arrival) {
            const double score = graph_.best(source) + arrival;
            if (score > -std::numeric_limits<double>::infinity())
                node.waiting.push_back({score, arrival, source, arc, 0});
            ++arc;
        });
        std::make_heap(node.waiting.begin(), node.waiting.end(), is_later);
        return node;
    }

    // Adds the successor of the last ranked path to the waiting ones; false if its source must find
    // another path first.
    bool release_pending(Node& node) {
        Derivation next = node.ranked.back();
        ++next.rank;
        Node& source = node_at(next.source);  // references into an unordered_map stay valid
        if (std::ssize(source.ranked) <= next.rank) {
            if (!source.is_exhausted) {
                stack_.push_back({next.source, next.rank});
                return false;
            }
            node.has_pending = false;
            return true;
        }
        node.has_pending = false;
        next.score = source.ranked[next.rank].score + next.arrival;
        node.waiting.push_back(next);
        std::push_heap(node.waiting.begin(), node.waiting.end(), is_later);
        return true;
    }

    const Graph& graph_;
    std::unordered_map<int64_t, Node> nodes_;
    std::vector<Request> stack_;
};

}  // namespace tagloom
