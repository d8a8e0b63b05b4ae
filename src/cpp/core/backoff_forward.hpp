// One step forwards over back-off arcs; the formulas are in backoff.hpp. Shared by the files
// backoff*.
//
// A step goes by pairs, each state with each candidate, where there are few of them; otherwise by
// sources, over all arcs of all histories in use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/backoff_passers.hpp"

namespace tagloom::backoff {

template <class A>
class Forward {
  public:
    using Value = typename A::Value;

    explicit Forward(Passing<A>& p)
        : p_(p), arcs_(p.arcs), table_(p.table), h_(p.h), w_(p.work), V_(p.V) {}

    // layers[t] from layers[t - 1].
    void step(int64_t t, const Layer& before, const Candidates& slot, Layer& after) {
        p_.t = t;
        p_.offset = 0;
        if constexpr (A::subtracts)
            p_.offset = *std::max_element(before.score.begin(), before.score.end());
        if (h_.is_direct(before, slot)) {
            after.clear();
            by_pairs(before, slot);
        } else {
            w_.word_out.resize(V_);
            bool is_done = false;
            if constexpr (std::is_same_v<A, Best>) is_done = by_words(before, slot);
            if (!is_done) by_sources(before, slot);
            store_words(slot, after);
        }
        store_listed(slot, after);
    }

  private:
    // ---- what was reached ---------------------------------------------------------------------

    // All that reaches a state comes by its label, so emissions are added at the end.
    void reach(int32_t c, const Value& value) {
        if (p_.is_zero(value)) return;
        const int32_t state = table_.history_after(c);
        if (w_.out.is_zero(state)) h_.reached.push_back(state);
        w_.out.set(state, p_.sum_of(w_.out[state], value));
    }
    // The same where single words have a column.
    void reach_word(int32_t word, const Value& value) {
        w_.word_out.set(word, p_.sum_of(w_.word_out[word], value));
    }
    // The values of all candidates were set; those of other words are left from earlier steps.
    void store_words(const Candidates& slot, Layer& after) {
        after.n_words = V_;
        after.state.clear();
        after.score.resize(V_);
        const double offset = p_.offset;
        double* score = after.score.data();
        const auto store = [&](int64_t i, double emit) {
            score[i] = A::log(w_.word_out[i]) + emit + offset;
            if constexpr (std::is_same_v<A, Expectation>) w_.word_out.second[i] += emit;
        };
        if (slot.is_range()) {
            const int64_t lo = slot.labels.front(), n = slot.size();
            std::fill(score, score + lo, kMinusInf);
            std::fill(score + lo + n, score + V_, kMinusInf);
            for (int64_t k = 0; k < n; k++) store(lo + k, slot.scores[k]);
        } else {
            std::fill(score, score + V_, kMinusInf);
            for (int64_t k = 0; k < slot.size(); k++) store(slot.labels[k], slot.scores[k]);
        }
        if constexpr (std::is_same_v<A, Best>) after.from.swap(w_.word_out.second);
        if constexpr (std::is_same_v<A, Expectation>) after.mean.swap(w_.word_out.second);
    }
    void store_listed(const Candidates& slot, Layer& after) {
        if (h_.reached.empty()) return;
        for (int64_t k = 0; k < slot.size(); k++) h_.emit[slot.labels[k]] = slot.scores[k];
        for (const int32_t state : h_.reached) {
            const Value value = w_.out.take(state);
            const double emit = h_.emit[arcs_.label(state)];
            if (emit == kMinusInf) continue;
            after.state.push_back(state);
            after.score.push_back(A::log(value) + emit + p_.offset);
            if constexpr (std::is_same_v<A, Best>) after.from.push_back(value.second);
            if constexpr (std::is_same_v<A, Expectation>) after.mean.push_back(value.second + emit);
        }
        h_.reached.clear();
        for (const int32_t label : slot.labels) h_.emit[label] = kMinusInf;
    }

    // ---- by pairs -----------------------------------------------------------------------------

    void by_pairs(const Layer& before, const Candidates& slot) {
        const bool is_marked = h_.needs_marks(before);
        if constexpr (A::subtracts) p_.load_words(before);
        for (const int32_t label : slot.labels) {
            if (is_marked) h_.mark_label(label);
            for (std::size_t k = 0; k < before.state.size(); k++) {
                Value value = p_.load(before, before.n_words + static_cast<int64_t>(k));
                const int32_t c = h_.serve(before.state[k], label, is_marked, [&](int32_t h) {
                    value = A::times(value, A::back(arcs_, h));
                });
                reach(c, A::times(value, A::arc(arcs_, c)));
            }
            if (before.n_words > 0) use_marked_words(before, label);
        }
        if constexpr (A::subtracts) p_.clear_words(before);
    }
    // The words with an arc for the marked label, and then all others together. At order 2 all of
    // it leads to the same state.
    void use_marked_words(const Layer& before, int32_t label) {
        Value same = A::zero();
        for (const int32_t h : h_.marked_words) {
            if (before.score[h - 1] == kMinusInf) continue;
            const int32_t c = h_.served[h];
            const Value value = A::times(p_.load(before, h - 1), A::arc(arcs_, c));
            if (table_.order == 2)
                same = p_.sum_of(same, value);
            else
                reach(c, value);
        }
        const Value others = A::times(p_.pass_unmarked(before), A::arc(arcs_, 1 + label));
        reach(1 + label, p_.sum_of(same, others));
    }

    // ---- by sources ---------------------------------------------------------------------------

    void by_sources(const Layer& before, const Candidates& slot) {
        p_.pass_on(before);
        use_root(slot);
        p_.for_words([&](int64_t i) {
            const auto h = static_cast<int32_t>(1 + i);
            if (p_.has_passers(h))
                use_with_passers(h, w_.word_alpha[i]);
            else if (!w_.word_alpha.is_zero(i))
                use_alone(h, w_.word_alpha[i]);
        });
        for (std::size_t n = 2; n < h_.touched.size(); n++)
            for (const int32_t h : h_.touched[n]) {
                if (p_.has_passers(h))
                    use_with_passers(h, w_.alpha[h]);
                else
                    use_alone(h, w_.alpha[h]);
            }
        p_.clear();
    }
    // Nothing is passed on to h.
    void use_alone(int32_t h, const Value& alpha) {
        if (p_.is_zero(alpha)) return;
        const int32_t lo = table_.first[h], hi = table_.first[h + 1];
        if (table_.order == 2) {
            for (int32_t c = lo; c < hi; c++)
                reach_word(table_.word[c], A::times(alpha, A::arc(arcs_, c)));
            return;
        }
        for (int32_t c = lo; c < hi; c++) reach(c, A::times(alpha, A::arc(arcs_, c)));
    }
    void use_with_passers(int32_t h, const Value& alpha) {
        Passers<A> passers(p_, h);
        for (int32_t c = table_.first[h]; c < table_.first[h + 1]; c++)
            reach(c, A::times(p_.sum_of(passers.without(c), alpha), A::arc(arcs_, c)));
    }
    void use_root(const Candidates& slot) {
        if constexpr (A::subtracts) {
            Passers<A> passers(p_, 0);
            for (const int32_t label : slot.labels)
                set_word(label, p_.sum_of(passers.without(1 + label), p_.root_alpha));
            // SumOfPassers also filled the entries of words that are not candidates.
            std::fill_n(h_.lost.begin() + 1, V_, 0);
            std::fill_n(w_.without.first.begin() + 1, V_, A::zero().first);
        } else {
            Passers<A> passers(p_);
            p_.for_passers(0, [&](int32_t g, const Value& value) { passers.insert(g, value); });
            const Value best = p_.sum_of(passers.best(), p_.root_alpha);
            set_words(slot, best.first);
            std::fill(w_.word_out.second.begin(), w_.word_out.second.end(), best.second);
            passers.for_lost([&](int32_t label, const Value& value) {
                set_word(label, p_.sum_of(value, p_.root_alpha));
            });
        }
    }
    // What the empty history has for a label, on to the state of that word.
    void set_word(int32_t label, const Value& value) {
        w_.word_out.set(label, A::times(value, A::arc(arcs_, 1 + label)));
    }
    // The same score of the empty history for all candidates; maxima only.
    void set_words(const Candidates& slot, double score) {
        const double* arc = table_.log_prob.data() + 1;
        double* out = w_.word_out.first.data();
        if (slot.is_range()) {
            const int32_t lo = slot.labels.front(), hi = slot.labels.back() + 1;
            for (int32_t w = lo; w < hi; w++) out[w] = score + arc[w];
        } else {
            for (const int32_t w : slot.labels) out[w] = score + arc[w];
        }
    }

    // The same as by_sources for maxima over single words, all of which may be in use: without
    // columns, and without the nodes that paths come from.
    bool by_words(const Layer& before, const Candidates& slot) {
        if (table_.order > 2 || before.n_words == 0) return false;
        const double *score = before.score.data(), *arc = table_.log_prob.data() + 1;
        double* out = w_.word_out.first.data();
        Passers<A> passers(p_, &before);
        for (int32_t i = 0; i < V_; i++) {
            const double passed = score[i] + table_.backoff[1 + i];
            if (passed > passers.least()) passers.insert(1 + i, {passed, i});
        }
        set_words(slot, passers.best().first);
        passers.for_lost(
            [&](int32_t label, const Value& value) { out[label] = value.first + arc[label]; });
        // Where backing off from the best passer is the least that any label gets, an arc is worth
        // looking at only if it gains more over the single word than the best passer is ahead.
        const double floor = passers.is_floor() ? passers.best().first - kSlack : kMinusInf;
        const float* top_gain = arcs_.top_gain.data() + 1;
        for (int32_t i = 0; i < V_; i++) {
            const double alpha = score[i];
            const auto least = static_cast<float>(floor - alpha);
            if (!(top_gain[i] >= least)) continue;  // also where alpha is -inf
            const RankedArc* end = arcs_.ranked.data() + table_.first[2 + i];
            for (const RankedArc* a = arcs_.ranked.data() + table_.first[1 + i];
                 a < end && a->gain >= least; a++)
                out[a->word] = std::max(out[a->word], alpha + a->log_prob);
        }
        std::fill(w_.word_out.second.begin(), w_.word_out.second.end(), Layers::kLater);
        return true;
    }

    static constexpr double kSlack = 1e-3;  // more than rounding to float takes away

    Passing<A>& p_;
    const BackoffArcs& arcs_;
    const NGramTable& table_;
    Histories& h_;
    Work<A>& w_;
    const int64_t V_;
};

}  // namespace tagloom::backoff
