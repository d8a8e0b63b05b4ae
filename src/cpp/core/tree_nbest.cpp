// The n best trees. Projective ones by lazy enumeration of derivations (Huang and Chiang 2005,
// algorithm 3), all trees by splitting what is left after each into subproblems (Lawler 1972).

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <queue>
#include <tuple>

#include "core/tree_charts.hpp"

namespace tagloom {
namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

// The derivations of the items of one chart, best first, found when they are asked for.
class Derivations {
  public:
    explicit Derivations(const TreeCharts& charts) : charts_(charts) {}

    // The score of derivation k of an item; -inf if it has fewer.
    double score(const TreeItem& item, int64_t k) {
        if (item.span == Span::complete && item.a == item.b) return k == 0 ? 0 : kMinusInf;
        List& list = list_of(item);
        while (int64_t(list.sorted.size()) <= k) {
            if (list.n_followed < list.sorted.size())
                push_next(list, Derivation(list.sorted[list.n_followed++]));
            if (list.queue.empty()) return kMinusInf;
            list.sorted.push_back(list.queue.top());
            list.queue.pop();
        }
        return list.sorted[k].score;
    }

    void heads(const TreeItem& item, int64_t k, int32_t* out) {
        if (item.span == Span::complete && item.a == item.b) return;
        if (item.span == Span::incomplete) out[item.b - 1] = int32_t(item.a);
        score(item, k);  // the best derivation of a part may not have been asked for yet
        const List& list = list_of(item);
        const Derivation derivation = list.sorted[k];
        const TreeEdge edge = list.edges[derivation.edge];
        heads(edge.left, derivation.left, out);
        if (edge.is_pair) heads(edge.right, derivation.right, out);
    }

  private:
    struct Derivation {
        double score;
        int64_t edge, left, right;  // which edge; which derivations of its two items
        bool operator<(const Derivation& other) const {
            if (score != other.score) return score < other.score;
            return std::tie(edge, left, right) > std::tie(other.edge, other.left, other.right);
        }
    };
    struct List {
        std::vector<TreeEdge> edges;
        std::vector<Derivation> sorted;
        size_t n_followed = 0;  // sorted derivations whose successors are in the queue
        std::priority_queue<Derivation> queue;
    };

    List& list_of(const TreeItem& item) {
        const auto [place, is_new] = lists_.try_emplace({int64_t(item.span), item.a, item.b});
        List& list = place->second;
        if (!is_new) return list;
        charts_.for_each_edge(0, item, [&](const TreeEdge& edge) { list.edges.push_back(edge); });
        for (size_t e = 0; e < list.edges.size(); ++e) {
            const TreeEdge& edge = list.edges[e];  // the first derivations are those of the chart
            const double right = edge.is_pair ? charts_.value(0, edge.right) : 0;
            push(list, int64_t(e), 0, 0, edge.score + (charts_.value(0, edge.left) + right));
        }
        return list;
    }

    // Each pair (left, right) follows exactly one other: (left, right - 1), or (left - 1, 0).
    void push_next(List& list, const Derivation& last) {
        const TreeEdge edge = list.edges[last.edge];
        if (edge.is_pair)
            push(list, last.edge, last.left, last.right + 1,
                 edge.score + (score(edge.left, last.left) + score(edge.right, last.right + 1)));
        if (last.right == 0) {
            const double right = edge.is_pair ? score(edge.right, 0) : 0;
            push(list, last.edge, last.left + 1, 0,
                 edge.score + (score(edge.left, last.left + 1) + right));
        }
    }
    static void push(List& list, int64_t edge, int64_t left, int64_t right, double score) {
        if (score > kMinusInf) list.queue.push({score, edge, left, right});
    }

    const TreeCharts& charts_;
    std::map<std::tuple<int64_t, int64_t, int64_t>, List> lists_;  // stable addresses
};

}  // namespace

std::vector<Tree> nbest_projective_trees(const TreeBatch& batch, int64_t i, int64_t n) {
    TreeCharts charts;
    charts.load(batch, &i, 1);
    charts.best();
    Derivations derivations(charts);
    std::vector<Tree> trees;
    for (int64_t k = 0; k < n; ++k) {
        if (derivations.score(charts.top(0), k) == kMinusInf) break;
        Tree tree{0, std::vector<int32_t>(batch.length(i))};
        derivations.heads(charts.top(0), k, tree.heads.data());
        tree.score = tree_score(batch, i, tree.heads.data());
        trees.push_back(std::move(tree));
    }
    return trees;
}

std::vector<Tree> nbest_spanning_trees(const TreeBatch& batch, int64_t i, int64_t n) {
    const int64_t T = batch.length(i), H = batch.H;
    // The best tree among those that agree with another on its first words, and not on the next.
    struct Part {
        Tree tree;
        int64_t fixed;             // words whose heads are given
        std::vector<double> arcs;  // [T, H] of the subproblem
        bool operator<(const Part& other) const {
            if (tree.score != other.tree.score) return tree.score < other.tree.score;
            return tree.heads > other.tree.heads;
        }
    };
    std::priority_queue<Part> queue;
    const auto add = [&](std::vector<double>&& arcs, int64_t fixed) {
        Tree tree{0, std::vector<int32_t>(T)};
        if (!best_spanning_tree(T, H, arcs.data(), batch.single_root, tree.heads.data())) return;
        tree.score = tree_score(batch, i, tree.heads.data());
        queue.push({std::move(tree), fixed, std::move(arcs)});
    };
    add(std::vector<double>(batch.arcs_of(i), batch.arcs_of(i) + T * H), 0);
    std::vector<Tree> trees;
    while (!queue.empty()) {
        const Part part = queue.top();
        queue.pop();
        trees.push_back(part.tree);
        if (int64_t(trees.size()) == n) break;
        std::vector<double> arcs = part.arcs;
        for (int64_t t = part.fixed; t < T; ++t) {
            const int64_t head = part.tree.heads[t];
            std::vector<double> other = arcs;
            other[t * H + head] = kMinusInf;
            add(std::move(other), t);
            for (int64_t h = 0; h < H; ++h)
                if (h != head) arcs[t * H + h] = kMinusInf;
        }
    }
    return trees;
}

}  // namespace tagloom
