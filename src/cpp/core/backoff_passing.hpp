// What histories pass on to their suffixes in one step: alpha, A and M of backoff.hpp, by columns
// of single words and by longer histories. Shared by the files backoff*.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/backoff_arithmetic.hpp"
#include "core/backoff_layers.hpp"

namespace tagloom::backoff {

// Scratch memory of one arithmetic; zero() before and after a step.
template <class A>
struct Work {
    explicit Work(const BackoffArcs& arcs)
        : word_alpha(arcs.table.n_words()),
          word_sum(arcs.table.n_words()),
          word_passed(arcs.table.n_words()),
          word_out(arcs.table.n_words()),
          alpha(arcs.states()),
          sum(arcs.states()),
          passed(arcs.states()),
          out(arcs.states()),
          without(A::subtracts ? std::ssize(arcs.table.word) : 0) {}

    // Of single words [V], and of longer histories [H]: what reached a history itself, what was
    // passed on to it, what it passes on to its suffix, and what reaches it next.
    ValueColumn<A> word_alpha, word_sum, word_passed, word_out;
    ValueColumn<A> alpha, sum, passed, out;
    ValueColumn<A> without;  // [M] the part of `sum` that does not use an arc
};

// The histories of one layer and what each passes on.
template <class A>
struct Passing {
    using Value = typename A::Value;

    Passing(const BackoffArcs& arcs, Layers& layers, Histories& h)
        : arcs(arcs), table(arcs.table), layers(layers), h(h), work(arcs), V(table.n_words()) {}

    const BackoffArcs& arcs;
    const NGramTable& table;
    Layers& layers;
    Histories& h;
    Work<A> work;
    const int64_t V;
    int64_t t = 0;      // the position that the step leads to
    double offset = 0;  // values are relative to exp(offset)
    Value root_alpha = A::zero();
    bool has_columns = false;  // all words may be in use as histories

    static bool is_zero(const Value& a) { return a.first == A::zero().first; }
    bool is_better(const Value& a, const Value& b) const {
        if constexpr (std::is_same_v<A, Best>)
            return a.first > b.first || (a.first == b.first && a.first > kMinusInf &&
                                         layers.comes_before(t - 1, a.second, b.second));
        else
            return a.first > b.first;
    }
    Value sum_of(const Value& a, const Value& b) const {
        if constexpr (std::is_same_v<A, Best>)
            return is_better(b, a) ? b : a;
        else
            return A::plus(a, b);
    }
    Value load(const Layer& layer, int64_t i) const { return A::load(layer, i, offset); }

    // word_alpha and word_passed of a layer whose words have a column.
    void load_words(const Layer& layer) {
        if (layer.n_words == 0) return;
        for (int64_t i = 0; i < V; i++) {
            if (layer.score[i] == kMinusInf) continue;
            const Value value = load(layer, i);
            work.word_alpha.set(i, value);
            work.word_passed.set(i, A::times(value, A::back(arcs, static_cast<int32_t>(1 + i))));
        }
    }
    void clear_words(const Layer& layer) {
        if (layer.n_words == 0) return;
        work.word_alpha.assign(V);
        work.word_passed.assign(V);
    }
    // What all words of a layer without a mark pass on to the empty history.
    Value pass_unmarked(const Layer& layer) const {
        if constexpr (std::is_same_v<A, Best>) {
            return best_unmarked(arcs, h, layer);
        } else {
            Value sum = A::zero();
            for (int64_t i = 0; i < V; i++)
                if (h.marked[1 + i] != h.mark) sum = A::plus(sum, work.word_passed[i]);
            return sum;
        }
    }

    // alpha of all histories, and what each passes on to its suffix, longest first.
    void pass_on(const Layer& layer) {
        h.touch(layer);
        has_columns = layer.n_words > 0;
        load_words(layer);
        for (std::size_t k = 0; k < layer.state.size(); k++) {
            const int32_t state = layer.state[k];
            const Value value = load(layer, layer.n_words + static_cast<int64_t>(k));
            if (state == 0)
                root_alpha = value;
            else if (arcs.length[state] == 1)
                work.word_alpha.set(state - 1, value);
            else
                work.alpha.set(state, value);
        }
        for (std::size_t n = h.touched.size(); n-- > 2;)
            for (const int32_t g : h.touched[n]) {
                const int32_t suffix = table.suffix[g];
                const Value all = A::times(sum_of(work.alpha[g], work.sum[g]), A::back(arcs, g));
                work.passed.set(g, all);
                h.next[g] = std::exchange(h.head[suffix], g);
                ValueColumn<A>& sums = n == 2 ? work.word_sum : work.sum;
                const int64_t at = n == 2 ? suffix - 1 : suffix;
                sums.set(at, sum_of(sums[at], all));
            }
        for (const int32_t g : h.touched[1]) {
            const Value all = sum_of(work.word_alpha[g - 1], work.word_sum[g - 1]);
            work.word_passed.set(g - 1, A::times(all, A::back(arcs, g)));
        }
    }
    void clear() {
        for_words([&](int64_t i) {
            work.word_alpha.set(i, A::zero());
            work.word_passed.set(i, A::zero());
            work.word_sum.set(i, A::zero());
        });
        root_alpha = A::zero();
        for (std::size_t n = 2; n < h.touched.size(); n++)
            for (const int32_t g : h.touched[n]) {
                work.alpha.set(g, A::zero());
                work.passed.set(g, A::zero());
                work.sum.set(g, A::zero());
            }
    }

    bool has_passers(int32_t g) const { return h.stamp[g] == h.now && h.head[g] >= 0; }
    // Calls visit(g, what g passes on) for each history g whose suffix this is.
    template <class Visit>
    void for_passers(int32_t suffix, const Visit& visit) const {
        if (suffix != 0) {
            for (int32_t g = h.head[suffix]; g >= 0; g = h.next[g]) visit(g, work.passed[g]);
            return;
        }
        for_words([&](int64_t i) {
            if (!work.word_passed.is_zero(i))
                visit(static_cast<int32_t>(1 + i), work.word_passed[i]);
        });
    }
    // Calls visit(i) for each word that may be in use as a history.
    template <class Visit>
    void for_words(const Visit& visit) const {
        if (has_columns)
            for (int64_t i = 0; i < V; i++) visit(i);
        else
            for (const int32_t g : h.touched[1]) visit(g - 1);
    }
};

}  // namespace tagloom::backoff
