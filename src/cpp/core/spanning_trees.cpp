// All trees, projective or not: the best by contraction of cycles, sums by the matrix-tree theorem,
// samples by random walks.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/random.hpp"
#include "core/tree_charts.hpp"

namespace tagloom {
namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

// ---------------------------------------------------------------------------------------------
// Best tree

// A score in an order in which arcs from the root count first: with rank -1 for each, the best tree
// has as few of them as possible. Chu and Liu's algorithm requires no more of scores than that they
// are added and compared.
struct Weight {
    int32_t rank;
    double score;
    bool operator<(const Weight& other) const {
        return rank != other.rank ? rank < other.rank : score < other.score;
    }
    Weight operator-(const Weight& other) const { return {rank - other.rank, score - other.score}; }
};
// An arc of the contracted graph, with the arc of the sentence that it stands for.
struct Arc {
    Weight weight;
    int32_t head = -1, word = -1;
    bool exists() const { return head >= 0; }
    bool is_better(const Arc& other) const {
        if (!other.exists()) return exists();
        return exists() && other.weight < weight;
    }
};

// Follows best incoming arcs from a node until it reaches the tree or closes a cycle, which is then
// contracted to one node (Tarjan 1977; Camerini, Fratta and Maffioli 1979). A node is entered into
// the path once and each contraction removes nodes, so the time is O(T^2).
class Contraction {
  public:
    Contraction(int64_t T, int64_t H, const double* arcs, bool single_root)
        : n_(T + 1), arcs_(n_ * n_), parent_(2 * n_, -1), node_(n_), is_done_(n_), on_path_(n_) {
        for (int64_t d = 1; d < n_; ++d)
            for (int64_t h = 0; h < n_; ++h) {
                const double score = arcs[(d - 1) * H + h];
                if (h == d || score == kMinusInf) continue;
                at(h, d) = {{single_root && h == 0 ? -1 : 0, score}, int32_t(h), int32_t(d)};
            }
        entered_.resize(2 * n_);
        children_.resize(2 * n_);
        for (int64_t v = 0; v < n_; ++v) node_[v] = v;
        is_alive_.assign(n_, true);
        is_done_[0] = true;
    }

    bool solve(int32_t* heads) {
        for (int64_t start = 1; start < n_; ++start)
            if (is_alive_[start] && !is_done_[start] && !grow(start)) return false;
        expand(heads);
        return true;
    }

  private:
    Arc& at(int64_t h, int64_t d) { return arcs_[h * n_ + d]; }

    // Slots 1 to T hold the nodes of the contracted graph; node_[slot] is a word or a contraction.
    bool grow(int64_t v) {
        std::vector<int64_t> path;  // slots, each entered from the next
        for (;;) {
            path.push_back(v);
            on_path_[v] = true;
            int64_t from = -1;
            for (int64_t u = 0; u < n_; ++u)
                if (is_alive_[u] && u != v && (from < 0 || at(u, v).is_better(at(from, v))))
                    from = u;
            if (from < 0 || !at(from, v).exists()) return false;
            entered_[node_[v]] = at(from, v);
            if (is_done_[from]) break;
            v = on_path_[from] ? contract(path, from) : from;
        }
        for (int64_t slot : path) {
            is_done_[slot] = true;
            on_path_[slot] = false;
        }
        return true;
    }

    // The cycle from the last of the path back to `first`, which becomes the contracted node and is
    // removed from the path.
    int64_t contract(std::vector<int64_t>& path, int64_t first) {
        const int64_t made = next_++;
        std::vector<int64_t> cycle;
        do {
            cycle.push_back(path.back());
            path.pop_back();
        } while (cycle.back() != first);
        for (int64_t c : cycle) {
            parent_[node_[c]] = made;
            children_[made].push_back(node_[c]);
            on_path_[c] = false;
        }
        std::vector<Arc> into(n_), out(n_);
        for (int64_t u = 0; u < n_; ++u) {
            if (!is_alive_[u] || std::find(cycle.begin(), cycle.end(), u) != cycle.end()) continue;
            for (int64_t c : cycle) {
                Arc enter = at(u, c);
                enter.weight = enter.weight - entered_[node_[c]].weight;
                if (enter.is_better(into[u])) into[u] = enter;
                if (at(c, u).is_better(out[u])) out[u] = at(c, u);
            }
        }
        for (int64_t c : cycle) is_alive_[c] = c == first;
        for (int64_t u = 0; u < n_; ++u) {
            at(u, first) = into[u];
            at(first, u) = out[u];
        }
        node_[first] = made;
        return first;
    }

    // From the contracted graph to words: where an arc enters a contraction, the cycle is broken.
    void expand(int32_t* heads) {
        std::vector<int64_t> open;
        for (int64_t slot = 1; slot < n_; ++slot)
            if (is_alive_[slot]) open.push_back(node_[slot]);
        while (!open.empty()) {
            const int64_t node = open.back();
            open.pop_back();
            const Arc arc = entered_[node];
            if (node < n_) {
                heads[node - 1] = arc.head;
                continue;
            }
            int64_t inner = arc.word;
            while (parent_[inner] != node) inner = parent_[inner];
            entered_[inner] = arc;
            for (int64_t child : children_[node]) open.push_back(child);
        }
    }

    const int64_t n_;
    std::vector<Arc> arcs_;        // [n, n] of the contracted graph, by slots
    std::vector<int64_t> parent_;  // [2 n] the contraction that contains a node
    std::vector<int64_t> node_;    // [n] the node in a slot
    std::vector<char> is_done_, on_path_, is_alive_;
    std::vector<Arc> entered_;  // [2 n] the best arc into a node
    std::vector<std::vector<int64_t>> children_;
    int64_t next_ = n_;
};

// ---------------------------------------------------------------------------------------------
// Sums

struct Summation {
    std::vector<double> w, rank, kept, shares, column, marginals;

    double run(int64_t T, int64_t H, const double* arcs, bool single_root, bool wants_marginals) {
        constexpr double no_rank = 1e9;
        const int64_t P = (T + 7) / 8 * 8;
        w.assign((T + 1) * P, kMinusInf);
        if (single_root) rank.assign((T + 1) * P, no_rank);
        for (int64_t d = 0; d < T; ++d)
            for (int64_t h = 0; h <= T; ++h) {
                const double score = arcs[d * H + h];
                if (h == d + 1 || score == kMinusInf) continue;
                w[h * P + d] = score;
                if (single_root) rank[h * P + d] = h == 0;
            }
        shares.resize(T * (T + 1));
        column.resize(T + 9);
        if (wants_marginals) {
            kept.resize(T * (T + 1) / 2 * P);
            marginals.assign((T + 1) * P, 0.0);
        }
        const TreeElimination task{T,
                                   P,
                                   w.data(),
                                   single_root ? rank.data() : nullptr,
                                   wants_marginals ? kept.data() : nullptr,
                                   shares.data(),
                                   column.data(),
                                   marginals.data()};
        const double log_z = tree_kernels().eliminate(task);
        if (wants_marginals && log_z > kMinusInf) tree_kernels().restore(task);
        return log_z;
    }
};

// ---------------------------------------------------------------------------------------------
// Samples

int64_t draw(const std::vector<double>& weights, double total, Random& random) {
    double left = random.uniform() * total;
    int64_t chosen = -1;
    for (size_t i = 0; i < weights.size(); ++i) {
        if (weights[i] <= 0) continue;
        chosen = int64_t(i);
        left -= weights[i];
        if (left < 0) break;
    }
    return chosen;
}

// Wilson's algorithm (1996): a walk from each word to its head, drawn in proportion to the weights,
// until the walk meets the tree; where it returns to a word, that word draws again. If one root is
// required, its word is drawn from the marginal distribution and takes the root's place.
//
// A walk can be long where words strongly prefer each other. The number of steps is independent of
// the tree that results (Propp and Wilson 1998: the cycles that are erased do not depend on what is
// below them), so giving up after a number of steps and drawing the tree in another way is exact.
class Sampler {
  public:
    Sampler(int64_t T, int64_t H, const double* arcs, bool single_root, uint64_t seed)
        : T_(T), H_(H), arcs_(arcs), single_root_(single_root), seed_(seed) {
        log_z_ = sums_.run(T, H, arcs, single_root, single_root);
        if (log_z_ == kMinusInf || T == 0) return;
        if (single_root_) {
            roots_.assign(sums_.marginals.begin(), sums_.marginals.begin() + T);
        }
        weights_.resize(T);
        totals_.resize(T);
        for (int64_t d = 0; d < T; ++d) {
            weights_[d].assign(T + 1, 0.0);
            double top = kMinusInf;
            for (int64_t h = single_root_; h <= T; ++h)
                if (h != d + 1) top = std::max(top, arcs_[d * H_ + h]);
            if (top == kMinusInf) continue;  // only the root can be its head
            for (int64_t h = single_root_; h <= T; ++h)
                if (h != d + 1) totals_[d] += weights_[d][h] = std::exp(arcs_[d * H_ + h] - top);
        }
    }
    double log_z() const { return log_z_; }

    void sample(int64_t number, int32_t* heads) {
        Random random(seed_, uint64_t(number));
        std::fill_n(heads, T_, -1);
        std::vector<char> in_tree(T_ + 1);
        if (single_root_) {
            double total = 0;
            for (double p : roots_) total += p;
            const int64_t root = draw(roots_, total, random);
            heads[root] = 0;
            in_tree[root + 1] = true;
        } else {
            in_tree[0] = true;
        }
        if (!walk(heads, in_tree, random)) choose_in_turn(heads, random);
    }

  private:
    bool walk(int32_t* heads, std::vector<char>& in_tree, Random& random) {
        std::vector<int32_t> next(heads, heads + T_);
        int64_t steps = 0;
        for (int64_t start = 1; start <= T_; ++start) {
            for (int64_t u = start; !in_tree[u]; u = next[u - 1]) {
                if (++steps > kMostSteps * (T_ + 1)) return false;
                next[u - 1] = int32_t(draw(weights_[u - 1], totals_[u - 1], random));
                if (next[u - 1] < 0) return false;
            }
            for (int64_t u = start; !in_tree[u]; u = next[u - 1]) in_tree[u] = true;
        }
        std::copy(next.begin(), next.end(), heads);
        return true;
    }

    // Draws one head after another, each given those before: O(T^4).
    void choose_in_turn(int32_t* heads, Random& random) {
        std::vector<double> arcs(arcs_, arcs_ + T_ * H_), p(T_ + 1);
        const int64_t P = (T_ + 7) / 8 * 8;
        for (int64_t t = 0; t < T_; ++t) {
            if (heads[t] < 0) {
                for (int64_t u = 0; u < t; ++u) keep_only(arcs, u, heads[u]);
                for (int64_t u = t + 1; u < T_; ++u)
                    if (heads[u] >= 0) keep_only(arcs, u, heads[u]);
                sums_.run(T_, H_, arcs.data(), single_root_, true);
                double total = 0;
                for (int64_t h = 0; h <= T_; ++h) total += p[h] = sums_.marginals[h * P + t];
                heads[t] = int32_t(draw(p, total, random));
            }
        }
    }
    void keep_only(std::vector<double>& arcs, int64_t t, int64_t head) const {
        for (int64_t h = 0; h <= T_; ++h)
            if (h != head) arcs[t * H_ + h] = kMinusInf;
    }

    static constexpr int64_t kMostSteps = 200;  // per word
    const int64_t T_, H_;
    const double* arcs_;
    const bool single_root_;
    const uint64_t seed_;
    double log_z_ = 0;
    Summation sums_;
    std::vector<double> roots_;                 // [T] probability of each word to be the root
    std::vector<std::vector<double>> weights_;  // [T][T + 1] of heads
    std::vector<double> totals_;                // [T]
};

}  // namespace

bool best_spanning_tree(int64_t T, int64_t H, const double* arcs, bool single_root,
                        int32_t* heads) {
    if (!Contraction(T, H, arcs, single_root).solve(heads)) return false;
    return !single_root || T == 0 || std::count(heads, heads + T, 0) == 1;
}

double sum_spanning_trees(int64_t T, int64_t H, const double* arcs, bool single_root,
                          double* marginals) {
    thread_local Summation sums;
    const double log_z = sums.run(T, H, arcs, single_root, marginals != nullptr);
    if (!marginals) return log_z;
    const int64_t P = (T + 7) / 8 * 8;
    for (int64_t d = 0; d < T; ++d)
        for (int64_t h = 0; h <= T; ++h)
            marginals[d * H + h] =
                h == d + 1 || log_z == kMinusInf ? 0.0 : sums.marginals[h * P + d];
    return log_z;
}

double sample_spanning_trees(int64_t T, int64_t H, const double* arcs, bool single_root,
                             int64_t draws, uint64_t seed, int32_t* heads, int64_t stride) {
    Sampler sampler(T, H, arcs, single_root, seed);
    if (sampler.log_z() == kMinusInf || T == 0) return sampler.log_z();
    for (int64_t j = 0; j < draws; ++j) sampler.sample(j, heads + j * stride);
    return sampler.log_z();
}

}  // namespace tagloom
