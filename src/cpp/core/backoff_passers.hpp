// What is passed on to one history, without the passers that have an arc of their own for a label:
// a failure arc is taken only where no explicit arc exists. Shared by the files backoff*.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/backoff_passing.hpp"

namespace tagloom::backoff {

// A sum whose largest terms are kept apart, so that what is left of it without some terms can be
// computed by subtraction and keeps its digits.
template <class A>
class LargestTerms {
  public:
    using Value = typename A::Value;
    static constexpr int kLargest = 8;  // bits of uint8_t

    void insert(int32_t key, const Value& value) {
        int at = n_;
        while (at > 0 && values_[at - 1].first < value.first) at--;
        if (at == kLargest) {
            tail_ = A::plus(tail_, value);
            return;
        }
        if (n_ == kLargest) tail_ = A::plus(tail_, values_[--n_]);
        for (int i = n_++; i > at; i--) {
            values_[i] = values_[i - 1];
            keys_[i] = keys_[i - 1];
        }
        values_[at] = value;
        keys_[at] = key;
    }
    int size() const { return n_; }
    int32_t key(int i) const { return keys_[i]; }
    // The place of a key among the largest, or size().
    int find(int32_t key) const {
        return static_cast<int>(std::find(keys_.begin(), keys_.begin() + n_, key) - keys_.begin());
    }
    Value whole() const {
        Value sum = tail_;
        for (int i = 0; i < n_; i++) sum = A::plus(sum, values_[i]);
        return sum;
    }
    // The sum without the largest terms whose bits are set and without `light`, which other terms
    // add up to; false if the difference lost digits.
    bool subtract(unsigned lost, const Value& light, Value& rest) const {
        rest = A::minus(tail_, light);
        for (int i = 0; i < n_; i++)
            if (!(lost >> i & 1)) rest = A::plus(rest, values_[i]);
        return light.first == A::zero().first || A::is_safe(rest, tail_);
    }

  private:
    std::array<int32_t, kLargest> keys_{};
    std::array<Value, kLargest> values_{};  // the largest first
    int n_ = 0;
    Value tail_ = A::zero();
};

// The sum of what is passed on to a history, without the passers that have an arc for a label.
template <class A>
class SumOfPassers {
  public:
    using Value = typename A::Value;

    SumOfPassers(Passing<A>& p, int32_t suffix) : p_(p), suffix_(suffix) {
        p.for_passers(suffix, [&](int32_t g, const Value& value) { terms_.insert(g, value); });
        whole_ = terms_.whole();
        p.for_passers(suffix, [&](int32_t g, const Value& value) { exclude(g, value); });
    }
    // Of those without an arc for the label of c, an arc of the history. Each c once.
    Value without(int32_t c) {
        const uint8_t lost = std::exchange(p_.h.lost[c], 0);
        const Value light = p_.work.without.take(c);
        if (lost == 0 && p_.is_zero(light)) return whole_;
        Value rest;
        if (terms_.subtract(lost, light, rest)) return rest;
        rest = A::zero();
        const int32_t label = p_.table.word[c];
        p_.for_passers(suffix_, [&](int32_t g, const Value& value) {
            if (p_.table.find(g, label) < 0) rest = A::plus(rest, value);
        });
        return rest;
    }

  private:
    void exclude(int32_t g, const Value& value) {
        const int at = terms_.find(g);
        const NGramTable& table = p_.table;
        for (int32_t d = table.first[g]; d < table.first[g + 1]; d++) {
            const int32_t c = table.suffix[d];
            if (at < terms_.size())
                p_.h.lost[c] |= static_cast<uint8_t>(1 << at);
            else
                p_.work.without.set(c, A::plus(p_.work.without[c], value));
        }
    }

    Passing<A>& p_;
    const int32_t suffix_;
    LargestTerms<A> terms_;
    Value whole_;
};

// The same for maxima: the best passer without an arc for a label. Nearly always it is the first or
// second best of all.
template <class A>
class BestOfPassers {
  public:
    using Value = typename A::Value;

    // For the empty history; the caller inserts what is passed on, from a layer of words alone or
    // from the columns.
    explicit BestOfPassers(Passing<A>& p, const Layer* words = nullptr)
        : p_(p), suffix_(0), words_(words) {
        values_[0] = A::zero();
    }
    BestOfPassers(Passing<A>& p, int32_t suffix) : p_(p), suffix_(suffix) {
        values_[0] = A::zero();
        p.for_passers(suffix, [&](int32_t g, const Value& value) { insert(g, value); });
        for_arcs_of_best([&](int32_t d) { p.h.lost[p.table.suffix[d]] = 1; });
    }
    Value best() const { return values_[0]; }
    // Whether no label gets less than by backing off from the best: its arcs are not worse than
    // that. For single words that are passers of the empty history.
    bool is_floor() const { return n_ > 0 && p_.arcs.dominates[best_[0]]; }
    // What a value must exceed to be among the best; equals come later and stay behind.
    double least() const { return n_ < kBest ? kMinusInf : values_[kBest - 1].first; }
    Value without(int32_t c) {
        if (!std::exchange(p_.h.lost[c], 0)) return values_[0];
        return next_best(p_.table.word[c]);
    }
    // Calls visit(label, value) for the labels that the best has an arc for.
    template <class Visit>
    void for_lost(const Visit& visit) {
        for_arcs_of_best([&](int32_t d) { visit(p_.table.word[d], next_best(p_.table.word[d])); });
    }
    void insert(int32_t g, const Value& value) {
        int at = n_;
        while (at > 0 && p_.is_better(value, values_[at - 1])) at--;
        if (at == kBest) return;
        n_ = std::min(n_ + 1, kBest);
        for (int i = n_ - 1; i > at; i--) {
            values_[i] = values_[i - 1];
            best_[i] = best_[i - 1];
        }
        values_[at] = value;
        best_[at] = g;
    }

  private:
    static constexpr int kBest = 32;

    template <class Visit>
    void for_arcs_of_best(const Visit& visit) const {
        if (n_ == 0) return;
        for (int32_t d = p_.table.first[best_[0]]; d < p_.table.first[best_[0] + 1]; d++) visit(d);
    }
    Value next_best(int32_t label) {
        for (int i = 1; i < n_; i++)
            if (p_.table.find(best_[i], label) < 0) return values_[i];
        if (n_ < kBest) return A::zero();
        p_.h.mark_label(label);
        if (words_) return p_.pass_unmarked(*words_);
        Value best = A::zero();
        p_.for_passers(suffix_, [&](int32_t g, const Value& value) {
            if (p_.h.marked[g] != p_.h.mark && p_.is_better(value, best)) best = value;
        });
        return best;
    }

    Passing<A>& p_;
    const int32_t suffix_;
    const Layer* words_ = nullptr;
    std::array<int32_t, kBest> best_;
    std::array<Value, kBest> values_;
    int n_ = 0;
};

template <class A>
using Passers = std::conditional_t<A::subtracts, SumOfPassers<A>, BestOfPassers<A>>;

}  // namespace tagloom::backoff
