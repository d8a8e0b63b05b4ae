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

// An automaton over the labels that remain: states without a way to a final state are -1, states
// with the same future are the first of them.
std::vector<int32_t> merge_states(const LabelAutomaton& one, int64_t labels,
                                  const std::vector<int32_t>& remaining) {
    const auto next = [&](int64_t q, int32_t label) { return one.next[q * labels + label]; };
    std::vector<int32_t> classes(one.states, -1);
    for (int64_t q = 0; q < one.states; ++q)
        if (one.is_final[q]) classes[q] = 1;
    for (bool grows = true; grows;) {  // states that reach a final state
        grows = false;
        for (int64_t q = 0; q < one.states; ++q)
            for (int32_t label : remaining)
                if (classes[q] < 0 && next(q, label) >= 0 && classes[next(q, label)] >= 0) {
                    classes[q] = 0;
                    grows = true;
                }
    }
    for (int64_t n_before = -1;;) {  // refine until states of a class have the same transitions
        std::vector<std::vector<int32_t>> signatures;
        std::vector<int32_t> refined(one.states, -1);
        for (int64_t q = 0; q < one.states; ++q) {
            if (classes[q] < 0) continue;
            std::vector<int32_t> signature{classes[q]};
            for (int32_t label : remaining)
                signature.push_back(next(q, label) < 0 ? -1 : classes[next(q, label)]);
            const auto at = std::find(signatures.begin(), signatures.end(), signature);
            refined[q] = int32_t(at - signatures.begin());
            if (at == signatures.end()) signatures.push_back(std::move(signature));
        }
        classes = std::move(refined);
        if (std::ssize(signatures) == n_before) break;
        n_before = std::ssize(signatures);
    }
    std::vector<int32_t> merged(one.states, -1);
    for (int64_t q = 0; q < one.states; ++q)
        if (classes[q] >= 0)
            merged[q] =
                int32_t(std::find(classes.begin(), classes.end(), classes[q]) - classes.begin());
    return merged;
}

// Whether every string that an automaton accepts is still accepted without its letters `label`:
// whatever is accepted after one is accepted without it. Over the labels that remain.
bool is_free_to_drop(const LabelAutomaton& one, int64_t labels, int32_t label,
                     const std::vector<int32_t>& remaining) {
    const int64_t n = one.states;
    std::vector<uint8_t> within(n * n, 1);  // [a, b] what a accepts, b accepts
    for (bool changes = true; changes;) {
        changes = false;
        for (int64_t a = 0; a < n; ++a)
            for (int64_t b = 0; b < n; ++b) {
                bool holds = !one.is_final[a] || one.is_final[b];
                for (int32_t l : remaining) {
                    const int32_t to = one.next[a * labels + l], other = one.next[b * labels + l];
                    holds = holds && (to < 0 || (other >= 0 && within[to * n + other]));
                }
                if (within[a * n + b] && !holds) {
                    within[a * n + b] = 0;
                    changes = true;
                }
            }
    }
    for (int64_t q = 0; q < n; ++q) {
        const int32_t to = one.next[q * labels + label];
        if (to >= 0 && !within[to * n + q]) return false;
    }
    return true;
}

std::vector<int32_t> labels_of(const std::vector<Candidate>& candidates) {
    std::vector<int32_t> labels;
    for (const Candidate& c : candidates) labels.push_back(c.label);
    std::sort(labels.begin(), labels.end());
    labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
    return labels;
}

// The labels of a list that change a state of an automaton.
std::vector<int32_t> active_labels(const LabelAutomaton& one, int64_t labels,
                                   const std::vector<int32_t>& present) {
    std::vector<int32_t> active;
    for (int32_t label : present)
        for (int32_t q = 0; q < one.states; ++q)
            if (one.next[q * labels + label] != q) {
                active.push_back(label);
                break;
            }
    return active;
}

}  // namespace

double best_selection(const std::vector<LabelAutomaton>& automata, int64_t labels,
                      const std::vector<Candidate>& candidates, std::vector<uint8_t>& chosen) {
    std::vector<Candidate> kept(candidates);
    std::vector<int32_t> place(candidates.size());  // of each kept candidate
    for (size_t c = 0; c < place.size(); ++c) place[c] = int32_t(c);
    for (bool shrinks = true; shrinks;) {
        const std::vector<int32_t> present = labels_of(kept);
        std::vector<uint8_t> is_free(labels, 1);
        for (const LabelAutomaton& one : automata) {
            const std::vector<int32_t> active = active_labels(one, labels, present);
            for (int32_t label : active)
                if (!is_free_to_drop(one, labels, label, active)) is_free[label] = 0;
        }
        size_t n = 0;
        for (size_t c = 0; c < kept.size(); ++c)
            if (kept[c].score >= 0 || (kept[c].score > -kInfinity && !is_free[kept[c].label])) {
                kept[n] = kept[c];
                place[n++] = place[c];
            }
        shrinks = n < kept.size();
        kept.resize(n);
        place.resize(n);
    }
    std::vector<uint8_t> of_kept;
    std::vector<double> scores;
    Selection(automata, labels, kept).nbest(1, of_kept, scores);
    chosen.assign(candidates.size(), 0);
    if (scores.empty()) return -kInfinity;
    for (size_t c = 0; c < kept.size(); ++c) chosen[place[c]] = of_kept[c];
    return scores[0];
}

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
    // merged[b][k]: the states of automaton k as they are told apart at a boundary.
    const std::vector<int32_t> present = labels_of(candidates);
    std::vector<int64_t> last_start(labels, -1);  // the last boundary at which a label begins
    for (const Candidate& c : candidates)
        if (c.score > -kInfinity)
            last_start[c.label] = std::max<int64_t>(last_start[c.label], index_of(c.start));
    std::vector<std::vector<std::vector<int32_t>>> merged(B);
    for (const LabelAutomaton& one : automata) {
        const std::vector<int32_t> active = active_labels(one, labels, present);
        std::vector<int32_t> remaining, before;
        for (int64_t b = 0; b < B; ++b) {
            remaining.clear();
            for (int32_t label : active)
                if (last_start[label] >= b) remaining.push_back(label);
            if (b > 0 && remaining == before)
                merged[b].push_back(merged[b - 1].back());
            else
                merged[b].push_back(merge_states(one, labels, remaining));
            before = remaining;
        }
    }
    // A product state is a number in mixed radix, the first automaton varying fastest. The next
    // state at boundary b after a label; label -1 stays.
    const auto follow = [&](uint64_t state, int64_t label, int64_t b, uint64_t& next) {
        uint64_t radix = 1;
        next = 0;
        for (size_t k = 0; k < automata.size(); ++k) {
            const LabelAutomaton& one = automata[k];
            const int64_t from = int64_t(state % one.states);
            int32_t to = label < 0 ? int32_t(from) : one.next[from * labels + label];
            if (to >= 0) to = merged[b][k][to];
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
    uint64_t next = 0;
    if (follow(0, -1, 0, next)) layers[0].reach(next);
    for (int64_t b = 0; b < B; ++b)
        for (int64_t k = 0; k < std::ssize(layers[b].states); ++k) {
            const uint64_t state = layers[b].states[k];
            if (b + 1 < B && follow(state, -1, b + 1, next))
                built.push_back({b, k, b + 1, layers[b + 1].reach(next), 0.0, -1});
            for (const int32_t c : starting[b]) {
                const int64_t to = index_of(candidates[c].end);
                if (!follow(state, candidates[c].label, to, next)) continue;
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
