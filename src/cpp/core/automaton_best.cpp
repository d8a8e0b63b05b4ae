// The best path through an automaton, and the n best.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "core/automaton.hpp"
#include "core/automaton_steps.hpp"

namespace tagloom {

using namespace steps;

namespace {

// Scores of the best paths to every state at every position, less their maximum there, with the
// last move of each. Ties go to the path whose labels are lowest, compared from the end.
struct BestPaths {
    std::vector<double> alpha;     // [T, S]
    std::vector<double> offset;    // [T] the maximum that was subtracted
    std::vector<int32_t> arrival;  // [T, S] move into s, -1 at the start or where there is none

    template <class In>
    BestPaths(const Automaton& a, const Sequence<In>& x);
};

// Whether the best path to s comes before the one to r at position t, when both score the same.
bool tie_before(const Automaton& a, const std::vector<int32_t>& arrival, int64_t t, int64_t s,
                int64_t r) {
    const int64_t S = a.states();
    for (; s != r; --t) {
        if (a.label(s) != a.label(r)) return a.label(s) < a.label(r);
        if (t == 0) return s < r;
        s = a.src(arrival[t * S + s]);
        r = a.src(arrival[t * S + r]);
    }
    return false;
}

template <class In>
BestPaths::BestPaths(const Automaton& a, const Sequence<In>& x) {
    const int64_t S = a.states(), T = x.T;
    alpha.resize(T * S);
    offset.assign(T, 0.0);
    arrival.assign(T * S, -1);
    for (int64_t t = 0; t < T; ++t) {
        double* now = &alpha[t * S];
        if (t == 0) forward_start(a, x, now);
        for (int64_t s = 0; t > 0 && s < S; ++s) {
            const double* before = now - S;
            double best = kMinusInf;
            int64_t arg = -1;
            for (int64_t m = a.into(s); m < a.into(s + 1); ++m) {
                const double score = before[a.src(m)] + move_score(a, x, t, m);
                if (score > best || (score == best && arg >= 0 &&
                                     tie_before(a, arrival, t - 1, a.src(m), a.src(arg))))
                    best = score, arg = m;
            }
            now[s] = best + emission(a, x, t, s);
            if (now[s] > kMinusInf) arrival[t * S + s] = static_cast<int32_t>(arg);
        }
        const double m = *std::max_element(now, now + S);
        if (m == kMinusInf) continue;
        offset[t] = m;
        for (int64_t s = 0; s < S; ++s) now[s] -= m;
    }
}

}  // namespace

template <class In>
bool viterbi(const Automaton& a, const Sequence<In>& x, int32_t* path) {
    const int64_t S = a.states(), T = x.T;
    const BestPaths best(a, x);
    double top = kMinusInf;
    int64_t state = -1;
    for (int64_t s = 0; s < S; ++s) {
        const double score = best.alpha[(T - 1) * S + s] + a.stop[s];
        if (score > top ||
            (score == top && state >= 0 && tie_before(a, best.arrival, T - 1, s, state)))
            top = score, state = s;
    }
    if (state < 0) {
        std::fill_n(path, T, -1);
        return false;
    }
    for (int64_t t = T - 1;; --t) {
        path[t] = a.label(state);
        if (t == 0) return true;
        state = a.src(best.arrival[t * S + state]);
    }
}

namespace {

// Lazy n-best (Huang and Chiang 2005, algorithm 3, for a chain). The best path to every state is
// known; further ones are computed only when a longer path needs them. A derivation arrives by a
// move from the rank-th best path to its source.
struct Derivation {
    double score;  // of the path so far, without the emission and offset that all share
    int32_t move;  // at the stop: the last state
    int32_t rank;
};

template <class In>
class NBestSearch {
  public:
    NBestSearch(const Automaton& a, const Sequence<In>& x)
        : a_(a), x_(x), best_(a, x), S_(a.states()) {}

    // Makes sure that the stop has rank + 1 derivations, if there are that many.
    bool ensure(int64_t rank) {
        stack_.push_back({x_.T, 0, rank});
        while (!stack_.empty()) {
            const Request want = stack_.back();
            Node& node = node_at(want.t, want.s);
            if (static_cast<int64_t>(node.found.size()) > want.rank || node.exhausted) {
                stack_.pop_back();
                continue;
            }
            if (node.pending.rank > 0 && !release_pending(want.t, node)) continue;
            if (node.waiting.empty()) {
                node.exhausted = true;
                continue;
            }
            const auto later = [&](const Derivation& p, const Derivation& q) {
                return before(want.t, q, p);
            };
            std::pop_heap(node.waiting.begin(), node.waiting.end(), later);
            const Derivation d = node.waiting.back();
            node.waiting.pop_back();
            node.found.push_back(d);
            node.pending = {0.0, d.move, d.rank + 1};
        }
        return static_cast<int64_t>(node_at(x_.T, 0).found.size()) > rank;
    }

    void read(int64_t rank, int32_t* path) const {
        const Derivation& last = nodes_.at(x_.T * S_).found[rank];
        int64_t s = last.move, r = last.rank;
        for (int64_t t = x_.T - 1; t >= 0; --t) {
            path[t] = a_.label(s);
            if (t > 0) step_back(t, s, r);
        }
    }

  private:
    struct Node {
        std::vector<Derivation> found;      // in order
        std::vector<Derivation> waiting;    // heap
        Derivation pending = {0.0, -1, 0};  // follows found.back(), once its source has that rank
        bool exhausted = false;
    };
    struct Request {
        int64_t t, s, rank;
    };

    // s and rank at t become its predecessor's at t - 1.
    void step_back(int64_t t, int64_t& s, int64_t& rank) const {
        int64_t move = best_.arrival[t * S_ + s], r = 0;
        if (rank > 0) {
            const Derivation& d = nodes_.at(t * S_ + s).found[rank];
            move = d.move;
            r = d.rank;
        }
        s = a_.src(move);
        rank = r;
    }

    // Order of two derivations at t: by score, then by their labels from the end.
    bool before(int64_t t, const Derivation& p, const Derivation& q) const {
        if (p.score != q.score) return p.score > q.score;
        int64_t s = source(t, p.move), r = source(t, q.move), i = p.rank, j = q.rank;
        for (--t; s != r; --t) {
            if (a_.label(s) != a_.label(r)) return a_.label(s) < a_.label(r);
            if (t == 0) return s < r;
            step_back(t, s, i);
            step_back(t, r, j);
        }
        return i < j;
    }

    int64_t source(int64_t t, int64_t move) const { return t == x_.T ? move : a_.src(move); }

    // Score of arriving at t by a move from the rank-th best path to its source.
    double arrive(int64_t t, int64_t move, int64_t rank) const {
        const int64_t s = source(t, move);
        double score = best_.alpha[(t - 1) * S_ + s];
        if (rank > 0)
            score = nodes_.at((t - 1) * S_ + s).found[rank].score + emission(a_, x_, t - 1, s) -
                    best_.offset[t - 1];
        return score + (t == x_.T ? a_.stop[s] : move_score(a_, x_, t, move));
    }

    Node& node_at(int64_t t, int64_t s) {
        auto [it, is_new] = nodes_.try_emplace(t * S_ + s);
        Node& node = it->second;
        if (!is_new) return node;
        if (t == 0) {
            if (best_.alpha[s] > kMinusInf) node.found.push_back({0.0, -1, 0});
            node.exhausted = true;
            return node;
        }
        const int64_t lo = t == x_.T ? 0 : a_.into(s), hi = t == x_.T ? S_ : a_.into(s + 1);
        for (int64_t m = lo; m < hi; ++m) {
            const double score = arrive(t, m, 0);
            if (score > kMinusInf) node.waiting.push_back({score, static_cast<int32_t>(m), 0});
        }
        const auto later = [&](const Derivation& p, const Derivation& q) {
            return before(t, q, p);
        };
        std::make_heap(node.waiting.begin(), node.waiting.end(), later);
        return node;
    }

    // Moves the pending derivation to the waiting ones; false if its source must be extended first.
    bool release_pending(int64_t t, Node& node) {
        const Derivation next = node.pending;
        const int64_t s = source(t, next.move);
        Node& before_it = node_at(t - 1, s);  // references into an unordered_map stay valid
        if (static_cast<int64_t>(before_it.found.size()) <= next.rank) {
            if (!before_it.exhausted) {
                stack_.push_back({t - 1, s, next.rank});
                return false;
            }
            node.pending.rank = 0;
            return true;
        }
        node.pending.rank = 0;
        node.waiting.push_back({arrive(t, next.move, next.rank), next.move, next.rank});
        const auto later = [&](const Derivation& p, const Derivation& q) {
            return before(t, q, p);
        };
        std::push_heap(node.waiting.begin(), node.waiting.end(), later);
        return true;
    }

    const Automaton& a_;
    const Sequence<In>& x_;
    const BestPaths best_;
    const int64_t S_;
    std::unordered_map<int64_t, Node> nodes_;  // by t * S + s; t = T is the stop
    std::vector<Request> stack_;
};

}  // namespace

template <class In>
int64_t nbest(const Automaton& a, const Sequence<In>& x, int64_t n, std::vector<int32_t>& paths) {
    NBestSearch<In> search(a, x);
    paths.clear();
    int64_t found = 0;
    for (; found < n && search.ensure(found); ++found) {
        paths.resize((found + 1) * x.T);
        search.read(found, &paths[found * x.T]);
    }
    return found;
}

#define TL_INSTANTIATE(In)                                                      \
    template bool viterbi<In>(const Automaton&, const Sequence<In>&, int32_t*); \
    template int64_t nbest<In>(const Automaton&, const Sequence<In>&, int64_t,  \
                               std::vector<int32_t>&);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)

}  // namespace tagloom
