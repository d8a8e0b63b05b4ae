// The chart of Eisner's algorithm for groups of sentences, one in each lane, and the parts from
// which each of its items is built. tree_kernels.hpp has the recursion.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/aligned.hpp"
#include "core/tree_kernels.hpp"
#include "core/trees.hpp"

namespace tagloom {

const TreeKernels& tree_kernels();  // of the instruction set in use

// An item of the chart: one of three kinds of span, by its two ends.
enum class Span { complete, incomplete, split };
struct TreeItem {
    Span span;
    int64_t a, b;  // complete: head, end; incomplete: head, dependent; split: left, right
};
// One way to build an item: from one or two others, plus a score.
struct TreeEdge {
    TreeItem left, right;
    bool is_pair;  // whether there is a right item
    double score;
};

class TreeCharts {
  public:
    // Lays out some sentences of a batch, at most `lanes`, for the kernels. They should be of
    // similar length.
    void load(const TreeBatch& batch, const int64_t* sentences, int64_t count);

    void best() { tree_kernels().best(task_); }
    void inside() { tree_kernels().inside(task_); }
    // Sums over trees: on weights where that is exact, otherwise as `inside`.
    void sum();
    double log_z(int64_t lane) const;
    // After sum: probabilities of arcs and of siblings of each lane are added to the arrays
    // [T, H] and [T, H, H] of the batch; siblings may be null.
    void outside(double* marginals, double* siblings);

    int64_t count() const { return int64_t(sentences_.size()); }
    int64_t nodes(int64_t lane) const { return nodes_[lane]; }
    int64_t sentence(int64_t lane) const { return sentences_[lane]; }
    // Where the derivation of a whole tree begins.
    TreeItem top(int64_t lane) const { return {Span::complete, 0, nodes_[lane] - 1}; }

    double value(int64_t lane, const TreeItem& item) const {
        const AlignedVector<double>& table = item.span == Span::complete     ? complete_
                                             : item.span == Span::incomplete ? incomplete_
                                                                             : split_;
        return table[(item.a * task_.n + item.b) * lanes_ + lane];
    }

    // Calls each(edge) for all ways to build an item, in a fixed order.
    template <class Each>
    void for_each_edge(int64_t lane, const TreeItem& item, const Each& each) const;

  private:
    double sibling(int64_t lane, int64_t d, int64_t h, int64_t s) const {
        return siblings_[lane][((d - 1) * task_.H + h) * task_.H + s];
    }

    bool sum_weights();

    TreeChart task_ = {};
    bool is_linear_ = false;        // whether arcs and tables hold weights
    AlignedVector<double> shifts_;  // [lanes] what was subtracted from the scores of each tree
    int64_t lanes_ = 0;
    const TreeBatch* batch_ = nullptr;
    std::vector<int64_t> sentences_, nodes_;
    AlignedVector<double> arcs_, weights_, complete_, incomplete_, split_, terms_;
    AlignedVector<double> bar_complete_, bar_incomplete_, bar_split_;
    std::vector<double> none_;         // [n] scores of a word without arcs
    std::vector<const double*> rows_;  // [lanes] scores of the arcs to one word
    std::vector<double> unwanted_;     // [n] probabilities that nobody reads
    std::vector<double*> out_rows_;    // [lanes] where those of the arcs to one word go
    std::vector<const double*> siblings_;
    std::vector<double*> bar_siblings_;
};

template <class Each>
void TreeCharts::for_each_edge(int64_t lane, const TreeItem& item, const Each& each) const {
    const int64_t h = item.a, e = item.b;
    const bool one_root = task_.single_root && h == 0;
    if (item.span == Span::complete) {
        const int64_t first = h < e ? h + 1 : e, last = h < e ? e : h - 1;
        for (int64_t k = first; k <= last; ++k)
            each(TreeEdge{{Span::incomplete, h, k}, {Span::complete, k, e}, true, 0.0});
    } else if (item.span == Span::split) {
        for (int64_t k = h; k < (one_root ? h + 1 : e); ++k)
            each(TreeEdge{{Span::complete, h, k}, {Span::complete, e, k + 1}, true, 0.0});
    } else {
        const double arc = arcs_[(h * task_.n + e) * lanes_ + lane];
        if (!task_.siblings) {
            each(TreeEdge{{Span::split, std::min(h, e), std::max(h, e)}, {}, false, arc});
            return;
        }
        const int64_t step = h < e ? 1 : -1;
        each(TreeEdge{{Span::complete, e, h + step}, {}, false, arc + sibling(lane, e, h, h)});
        if (one_root) return;
        for (int64_t s = h + step; s != e; s += step)
            each(TreeEdge{{Span::incomplete, h, s},
                          {Span::split, std::min(s, e), std::max(s, e)},
                          true,
                          arc + sibling(lane, e, h, s)});
    }
}

// Sentences of a batch in groups of similar length, at most `lanes` in each.
std::vector<std::vector<int64_t>> tree_groups(const TreeBatch& batch);

}  // namespace tagloom
