#include "core/trees.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/random.hpp"
#include "core/threads.hpp"
#include "core/tree_charts.hpp"

namespace tagloom {
namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

// Walks down from the top item of a lane. choose(item) returns the edge to follow.
template <class Choose>
void walk_down(const TreeCharts& charts, int64_t lane, const Choose& choose, int32_t* heads,
               std::vector<TreeItem>& stack) {
    stack.assign(1, charts.top(lane));
    while (!stack.empty()) {
        const TreeItem item = stack.back();
        stack.pop_back();
        if (item.span == Span::complete && item.a == item.b) continue;
        if (item.span == Span::incomplete) heads[item.b - 1] = int32_t(item.a);
        const TreeEdge edge = choose(item);
        stack.push_back(edge.left);
        if (edge.is_pair) stack.push_back(edge.right);
    }
}

double edge_value(const TreeCharts& charts, int64_t lane, const TreeEdge& edge) {
    const double left = charts.value(lane, edge.left);
    return edge.is_pair ? edge.score + (left + charts.value(lane, edge.right)) : edge.score + left;
}

TreeEdge best_edge(const TreeCharts& charts, int64_t lane, const TreeItem& item) {
    TreeEdge best{};
    double top = kMinusInf;
    charts.for_each_edge(lane, item, [&](const TreeEdge& edge) {
        const double value = edge_value(charts, lane, edge);
        if (value > top) {
            top = value;
            best = edge;
        }
    });
    return best;
}

// An edge at random: exp(value - that of the item) is its probability.
TreeEdge draw_edge(const TreeCharts& charts, int64_t lane, const TreeItem& item, Random& random) {
    const double z = charts.value(lane, item);
    double left = random.uniform();
    TreeEdge chosen{};
    bool is_decided = false;
    charts.for_each_edge(lane, item, [&](const TreeEdge& edge) {
        if (is_decided) return;
        const double p = std::exp(edge_value(charts, lane, edge) - z);
        if (p == 0) return;
        chosen = edge;  // the last possible one, if rounding leaves a rest
        left -= p;
        is_decided = left < 0;
    });
    return chosen;
}

// Calls work(charts, group) for each group of sentences, on all threads.
template <class Work>
void for_each_group(const TreeBatch& batch, const Work& work) {
    const auto groups = tree_groups(batch);
    const int64_t n = std::ssize(groups);
    const int64_t threads = std::clamp<int64_t>(batch.threads, 1, std::max<int64_t>(n, 1));
    std::vector<TreeCharts> charts(threads);
    parallel_for(n, threads, [&](int64_t g, int64_t worker) {
        charts[worker].load(batch, groups[g].data(), int64_t(groups[g].size()));
        work(charts[worker]);
    });
}

void best_projective_trees(const TreeBatch& batch, int32_t* heads, double* scores) {
    for_each_group(batch, [&](TreeCharts& charts) {
        charts.best();
        std::vector<TreeItem> stack;
        for (int64_t lane = 0; lane < charts.count(); ++lane) {
            const int64_t i = charts.sentence(lane);
            int32_t* out = heads + batch.offsets[i];
            if (charts.value(lane, charts.top(lane)) == kMinusInf) {
                std::fill_n(out, batch.length(i), -1);
                scores[i] = kMinusInf;
                continue;
            }
            walk_down(
                charts, lane, [&](const TreeItem& item) { return best_edge(charts, lane, item); },
                out, stack);
            scores[i] = tree_score(batch, i, out);
        }
    });
}

}  // namespace

double tree_score(const TreeBatch& batch, int64_t i, const int32_t* heads) {
    const int64_t T = batch.length(i), H = batch.H;
    const double* arcs = batch.arcs_of(i);
    double score = 0;
    for (int64_t t = 0; t < T; ++t) score += arcs[t * H + heads[t]];
    if (!batch.siblings) return score;
    const double* siblings = batch.siblings + batch.offsets[i] * H * H;
    for (int64_t t = 0; t < T; ++t) {
        const int64_t h = heads[t], d = t + 1, step = h < d ? 1 : -1;
        int64_t s = d - step;  // the next dependent of h towards it
        while (s != h && heads[s - 1] != h) s -= step;
        score += siblings[(t * H + h) * H + s];
    }
    return score;
}

void best_trees(const TreeBatch& batch, int32_t* heads, double* scores) {
    if (batch.projective) return best_projective_trees(batch, heads, scores);
    parallel_for(batch.N, batch.threads, [&](int64_t i, int64_t) {
        int32_t* out = heads + batch.offsets[i];
        const int64_t T = batch.length(i);
        if (best_spanning_tree(T, batch.H, batch.arcs_of(i), batch.single_root, out)) {
            scores[i] = tree_score(batch, i, out);
        } else {
            std::fill_n(out, T, -1);
            scores[i] = kMinusInf;
        }
    });
}

void sum_trees(const TreeBatch& batch, double* log_z, double* marginals, double* siblings) {
    if (!batch.projective) {
        parallel_for(batch.N, batch.threads, [&](int64_t i, int64_t) {
            log_z[i] =
                sum_spanning_trees(batch.length(i), batch.H, batch.arcs_of(i), batch.single_root,
                                   marginals ? marginals + batch.offsets[i] * batch.H : nullptr);
        });
        return;
    }
    for_each_group(batch, [&](TreeCharts& charts) {
        charts.sum();
        for (int64_t lane = 0; lane < charts.count(); ++lane)
            log_z[charts.sentence(lane)] = charts.log_z(lane);
        if (marginals) charts.outside(marginals, siblings);
    });
}

void sample_trees(const TreeBatch& batch, int64_t draws, const uint64_t* seeds, int32_t* heads,
                  double* log_z) {
    const int64_t all = batch.offsets[batch.N];
    std::fill_n(heads, draws * all, -1);
    if (!batch.projective) {
        parallel_for(batch.N, batch.threads, [&](int64_t i, int64_t) {
            log_z[i] =
                sample_spanning_trees(batch.length(i), batch.H, batch.arcs_of(i), batch.single_root,
                                      draws, seeds[i], heads + batch.offsets[i], all);
        });
        return;
    }
    for_each_group(batch, [&](TreeCharts& charts) {
        charts.inside();
        std::vector<TreeItem> stack;
        for (int64_t lane = 0; lane < charts.count(); ++lane) {
            const int64_t i = charts.sentence(lane);
            log_z[i] = charts.value(lane, charts.top(lane));
            if (log_z[i] == kMinusInf) continue;
            for (int64_t j = 0; j < draws; ++j) {
                Random random(seeds[i], uint64_t(j));
                walk_down(
                    charts, lane,
                    [&](const TreeItem& item) { return draw_edge(charts, lane, item, random); },
                    heads + j * all + batch.offsets[i], stack);
            }
        }
    });
}

std::vector<std::vector<Tree>> nbest_trees(const TreeBatch& batch, int64_t n) {
    std::vector<std::vector<Tree>> results(batch.N);
    parallel_for(batch.N, batch.threads, [&](int64_t i, int64_t) {
        results[i] = batch.projective ? nbest_projective_trees(batch, i, n)
                                      : nbest_spanning_trees(batch, i, n);
    });
    return results;
}

}  // namespace tagloom
