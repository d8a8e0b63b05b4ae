// One step backwards over back-off arcs: what follows each history. Shared by the files backoff*.
//
// With ahead(c) what follows an arc, the arc included, and h' the suffix of h:
//
//   B(h) = sum of ahead(c) over the arcs c of h
//          + backoff(h) (B(h') - sum of ahead(c') over the arcs c' of h' for the same labels)
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/backoff_passers.hpp"

namespace tagloom::backoff {

// A is Real or Log.
template <class A>
class Backward {
  public:
    using Value = typename A::Value;

    Backward(const BackoffArcs& arcs, Histories& h, Work<A>& work)
        : arcs_(arcs), table_(arcs.table), h_(h), w_(work), V_(table_.n_words()) {}

    // What follows each node of the layer before, from what follows those of the layer after,
    // emissions there included: logarithms by node.
    void step(const Layer& before, const Candidates& slot, const Layer& after,
              const std::vector<double>& follows, std::vector<double>& precedes) {
        offset_ = *std::max_element(follows.begin(), follows.end());
        precedes.assign(before.size(), kMinusInf);
        if (offset_ == kMinusInf) return;
        w_.word_out.assign(V_);
        for (int64_t i = 0; i < after.size(); i++) {
            const int32_t state = after.state_of(i);
            const Value value = A::lift(follows[i] - offset_);
            if (arcs_.length[state] == 1)
                w_.word_out.set(state - 1, value);
            else
                w_.out.set(state, value);
        }
        if (h_.is_direct(before, slot))
            by_pairs(before, slot, precedes);
        else
            by_sources(before, slot, precedes);
        for (const int32_t state : after.state) w_.out.set(state, A::zero());
    }

  private:
    // What follows an arc, the arc included.
    Value ahead(int32_t c) const {
        const int32_t state = table_.history_after(c);
        const Value value = arcs_.length[state] == 1 ? w_.word_out[state - 1] : w_.out[state];
        return A::times(value, A::arc(arcs_, c));
    }

    void by_pairs(const Layer& before, const Candidates& slot, std::vector<double>& precedes) {
        const bool is_marked = h_.needs_marks(before);
        std::vector<Value> sums(before.size(), A::zero());
        for (const int32_t label : slot.labels) {
            if (is_marked) h_.mark_label(label);
            for (int64_t i = 0; i < before.size(); i++) {
                if (before.score[i] == kMinusInf) continue;
                double factor = A::one;
                const int32_t c = h_.serve(before.state_of(i), label, is_marked, [&](int32_t h) {
                    factor = A::compose(factor, A::back(arcs_, h));
                });
                sums[i] = A::plus(sums[i], A::times(ahead(c), factor));
            }
        }
        for (int64_t i = 0; i < before.size(); i++) precedes[i] = A::log(sums[i]) + offset_;
    }

    // B(h), shortest histories first, goes into word_sum and sum; the difference in it into
    // word_passed and passed.
    void by_sources(const Layer& before, const Candidates& slot, std::vector<double>& precedes) {
        h_.touch(before);
        const RootArcs root(*this, slot);
        for (int64_t i = 0; i < V_; i++) {
            const auto h = static_cast<int32_t>(1 + i);
            const bool is_used = i < before.n_words && before.score[i] > kMinusInf;
            if (!is_used && h_.stamp[h] != h_.now) continue;
            const Value rest = root.without_arcs_of(h);
            w_.word_passed.set(i, rest);
            w_.word_sum.set(i, A::plus(own_arcs(h), A::times(rest, A::back(arcs_, h))));
        }
        for (std::size_t n = 2; n < h_.touched.size(); n++)
            for (const int32_t h : h_.touched[n]) {
                const Value rest = without_arcs_of(h, n);
                w_.passed.set(h, rest);
                w_.sum.set(h, A::plus(own_arcs(h), A::times(rest, A::back(arcs_, h))));
            }
        for (int64_t i = 0; i < before.size(); i++) {
            if (before.score[i] == kMinusInf) continue;
            const int32_t state = before.state_of(i);
            const Value value = state == 0                 ? root.whole()
                                : arcs_.length[state] == 1 ? w_.word_sum[state - 1]
                                                           : w_.sum[state];
            precedes[i] = A::log(value) + offset_;
        }
        clear();
    }
    void clear() {
        w_.word_sum.assign(V_);
        w_.word_passed.assign(V_);
        for (std::size_t n = 2; n < h_.touched.size(); n++)
            for (const int32_t h : h_.touched[n]) {
                w_.sum.set(h, A::zero());
                w_.passed.set(h, A::zero());
            }
    }

    Value own_arcs(int32_t h) const {
        Value sum = A::zero();
        for (int32_t c = table_.first[h]; c < table_.first[h + 1]; c++)
            sum = A::plus(sum, ahead(c));
        return sum;
    }

    // What the suffix of h, a history of n words, gives for the labels that h has no arc for.
    Value without_arcs_of(int32_t h, std::size_t n) const {
        const int32_t suffix = table_.suffix[h];
        const Value whole = n == 2 ? w_.word_sum[suffix - 1] : w_.sum[suffix];
        Value light = A::zero();
        for (int32_t c = table_.first[h]; c < table_.first[h + 1]; c++)
            light = A::plus(light, ahead(table_.suffix[c]));
        const Value rest = A::minus(whole, light);
        if (light.first == A::zero().first || A::is_safe(rest, whole)) return rest;
        const Value below = n == 2 ? w_.word_passed[suffix - 1] : w_.passed[suffix];
        Value sum = A::times(below, A::back(arcs_, suffix));
        int32_t c = table_.first[h];
        for (int32_t d = table_.first[suffix]; d < table_.first[suffix + 1]; d++) {
            while (c < table_.first[h + 1] && table_.word[c] < table_.word[d]) c++;
            if (c == table_.first[h + 1] || table_.word[c] != table_.word[d])
                sum = A::plus(sum, ahead(d));
        }
        return sum;
    }

    // The same for the empty history, whose arcs are the candidates.
    class RootArcs {
      public:
        RootArcs(const Backward& s, const Candidates& slot) : s_(s), slot_(slot) {
            for (const int32_t label : slot.labels) terms_.insert(1 + label, s.ahead(1 + label));
            for (int i = 0; i < terms_.size(); i++)
                s.h_.lost[terms_.key(i)] = static_cast<uint8_t>(1 + i);
        }
        ~RootArcs() {
            for (int i = 0; i < terms_.size(); i++) s_.h_.lost[terms_.key(i)] = 0;
        }
        RootArcs(const RootArcs&) = delete;
        RootArcs& operator=(const RootArcs&) = delete;

        Value whole() const { return terms_.whole(); }
        // What it gives for the labels that h, a single word, has no arc for.
        Value without_arcs_of(int32_t h) const {
            const NGramTable& table = s_.table_;
            unsigned lost = 0;
            Value light = A::zero();
            for (int32_t c = table.first[h]; c < table.first[h + 1]; c++) {
                const int32_t below = table.suffix[c];
                if (const uint8_t rank = s_.h_.lost[below])
                    lost |= 1u << (rank - 1);
                else
                    light = A::plus(light, s_.ahead(below));
            }
            Value rest;
            if (terms_.subtract(lost, light, rest)) return rest;
            rest = A::zero();
            int32_t c = table.first[h];
            for (const int32_t label : slot_.labels) {
                while (c < table.first[h + 1] && table.word[c] < label) c++;
                if (c == table.first[h + 1] || table.word[c] != label)
                    rest = A::plus(rest, s_.ahead(1 + label));
            }
            return rest;
        }

      private:
        const Backward& s_;
        const Candidates& slot_;
        LargestTerms<A> terms_;
    };

    const BackoffArcs& arcs_;
    const NGramTable& table_;
    Histories& h_;
    Work<A>& w_;
    const int64_t V_;
    double offset_ = 0;
};

}  // namespace tagloom::backoff
