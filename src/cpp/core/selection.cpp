#include "core/selection.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <unordered_map>

#include "core/dag_nbest.hpp"

namespace tagloom {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

// Nodes are numbered by boundary, and within one in the order in which they are reached: sources
// come before targets. The last node is the end, which accepting states of the last boundary reach.
Selection::Selection(const std::vector<LabelAutomaton>& automata, int64_t labels,
                     const std::vector<Candidate>& candidates)
    : n_candidates_(std::ssize(candidates)) {
    double room = 1;
    for (const LabelAutomaton& one : automata) room *= double(one.states);
    if (room > 1e18) throw std::invalid_argument("the constraints have too many states together");
    std::vector<int32_t> boundaries{0};
    for (const Candidate& c : candidates) {
        boundaries.push_back(c.start);
        boundaries.push_back(c.end);
    }
    std::sort(boundaries.begin(), boundaries.end());
    boundaries.erase(std::unique(boundaries.begin(), boundaries.end()), boundaries.end());
    const int64_t B = std::ssize(boundaries);
    const auto index_of = [&](int32_t position) {
        return std::lower_bound(boundaries.begin(), boundaries.end(), position) -
               boundaries.begin();
    };
    std::vector<std::vector<int32_t>> starting(B);
    for (int32_t c = 0; c < n_candidates_; ++c)
        if (candidates[c].score > -kInfinity) starting[index_of(candidates[c].start)].push_back(c);

    struct Layer {
        std::vector<uint64_t> states;                // of its nodes, in the order reached
        std::unordered_map<uint64_t, int64_t> node;  // state -> place in `states`
        int64_t reach(uint64_t state) {
            const auto [it, is_new] = node.try_emplace(state, std::ssize(states));
            if (is_new) states.push_back(state);
            return it->second;
        }
    };
    struct Built {
        int64_t from, place, to, target;  // boundaries, and places in their layers
        double score;
        int32_t candidate;
    };
    // A product state is a number in mixed radix, the first automaton varying fastest.
    const auto follow = [&](uint64_t state, int64_t label, uint64_t& next) {
        uint64_t radix = 1;
        next = 0;
        for (const LabelAutomaton& one : automata) {
            const int32_t to = one.next[int64_t(state % one.states) * labels + label];
            if (to < 0) return false;
            next += uint64_t(to) * radix;
            radix *= one.states;
            state /= one.states;
        }
        return true;
    };
    const auto accepts = [&](uint64_t state) {
        for (const LabelAutomaton& one : automata) {
            if (!one.is_final[state % one.states]) return false;
            state /= one.states;
        }
        return true;
    };
    std::vector<Layer> layers(B);
    std::vector<Built> built;
    layers[0].reach(0);
    for (int64_t b = 0; b < B; ++b)
        for (int64_t k = 0; k < std::ssize(layers[b].states); ++k) {
            const uint64_t state = layers[b].states[k];
            if (b + 1 < B) built.push_back({b, k, b + 1, layers[b + 1].reach(state), 0.0, -1});
            for (const int32_t c : starting[b]) {
                uint64_t next = 0;
                if (!follow(state, candidates[c].label, next)) continue;
                const int64_t to = index_of(candidates[c].end);
                built.push_back({b, k, to, layers[to].reach(next), candidates[c].score, c});
            }
        }

    std::vector<int64_t> first(B + 1, 0);
    for (int64_t b = 0; b < B; ++b) first[b + 1] = first[b] + std::ssize(layers[b].states);
    const int64_t end = first[B];
    for (int64_t k = 0; k < std::ssize(layers[B - 1].states); ++k)
        if (accepts(layers[B - 1].states[k])) {
            built.push_back({B - 1, k, B, 0, 0.0, -1});
            has_path_ = true;
        }
    ptr_.assign(end + 2, 0);
    for (const Built& arc : built) ++ptr_[first[arc.to] + arc.target + 1];
    for (int64_t v = 0; v <= end; ++v) ptr_[v + 1] += ptr_[v];
    arcs_.resize(built.size());
    std::vector<int64_t> at(ptr_.begin(), ptr_.end() - 1);
    for (const Built& arc : built)
        arcs_[at[first[arc.to] + arc.target]++] = {first[arc.from] + arc.place, arc.score,
                                                   arc.candidate};
}

// The graph in the form of DagNBest; node 0 is the start.
struct SelectionGraph {
    const Selection& s;
    std::vector<double> best_;

    explicit SelectionGraph(const Selection& selection)
        : s(selection), best_(selection.ptr_.size() - 1, -kInfinity) {
        best_[0] = 0;
        for (size_t v = 1; v < best_.size(); ++v)
            for (int64_t j = s.ptr_[v]; j < s.ptr_[v + 1]; ++j)
                best_[v] = std::max(best_[v], best_[s.arcs_[j].source] + s.arcs_[j].score);
    }
    int64_t final_node() const { return std::ssize(best_) - 1; }
    bool is_first(int64_t node) const { return node == 0; }
    double best(int64_t node) const { return best_[node]; }
    template <class Visit>
    void arrivals(int64_t node, const Visit& visit) const {
        for (int64_t j = s.ptr_[node]; j < s.ptr_[node + 1]; ++j)
            visit(s.arcs_[j].source, s.arcs_[j].score);
    }
};

void Selection::nbest(int64_t n, std::vector<uint8_t>& chosen, std::vector<double>& scores) const {
    const SelectionGraph graph(*this);
    DagNBest<SelectionGraph> search(graph);
    for (int64_t k = 0; has_path_ && k < n && search.ensure(k); ++k) {
        const int64_t row = std::ssize(chosen);
        chosen.resize(row + n_candidates_, 0);
        double score = 0;
        int64_t node = graph.final_node();
        search.read(k, [&](int64_t source, int32_t arc) {
            const Arc& taken = arcs_[ptr_[node] + arc];
            if (taken.candidate >= 0) chosen[row + taken.candidate] = 1;
            score += taken.score;
            node = source;
        });
        scores.push_back(score);
    }
}

double Selection::sum(double* marginals) const {
    const int64_t V = std::ssize(ptr_) - 1;
    if (marginals) std::fill_n(marginals, n_candidates_, 0.0);
    if (!has_path_) return -kInfinity;
    std::vector<double> alpha(V, -kInfinity), prob(V, 0.0);
    alpha[0] = 0;
    for (int64_t v = 1; v < V; ++v) {
        double top = -kInfinity, total = 0;
        for (int64_t j = ptr_[v]; j < ptr_[v + 1]; ++j)
            top = std::max(top, alpha[arcs_[j].source] + arcs_[j].score);
        if (top == -kInfinity) continue;
        for (int64_t j = ptr_[v]; j < ptr_[v + 1]; ++j)
            total += std::exp(alpha[arcs_[j].source] + arcs_[j].score - top);
        alpha[v] = top + std::log(total);
    }
    if (!marginals) return alpha[V - 1];
    prob[V - 1] = 1;
    for (int64_t v = V - 1; v > 0; --v) {
        if (prob[v] == 0) continue;
        for (int64_t j = ptr_[v]; j < ptr_[v + 1]; ++j) {
            const Arc& arc = arcs_[j];
            const double p = prob[v] * std::exp(alpha[arc.source] + arc.score - alpha[v]);
            prob[arc.source] += p;
            if (arc.candidate >= 0) marginals[arc.candidate] += p;
        }
    }
    return alpha[V - 1];
}

}  // namespace tagloom
