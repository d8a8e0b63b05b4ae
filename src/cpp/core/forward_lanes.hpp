// The forward pass of sum-times in lanes. In the symbols of the loops, for each lane:
//
//   row[t, y]         = exp(emit[t, y] - m[t]) * scale[t-1],  m[t] = max_y emit[t, y]
//   alpha[0, y]       = row[0, y]                             (emit[0] has start added to it)
//   alpha[t, g*Y + c] = row[t, c] * sum_a alpha[t-1, a*G + g] * P[g, a, c]
//   scale[t]          = 2^-e[t],  e[t] the exponent of peak[t] = max_s alpha[t, s]
//   log_z             = log sum_s alpha[T-1, s] * stop[s] + sum_t m[t] + ln 2 * sum_{t < T-1} e[t]
//                       + the offsets of P and stop
//
// Rescaling by a power of two is exact, and no logarithm is taken before the end.
#pragma once

#include "core/lanes.hpp"
#include "core/losses.hpp"

namespace tagloom {
namespace {

template <class In, class R>
class ForwardLanes {
    using V = Vector<R>;

  public:
    explicit ForwardLanes(const LaneForward<In, R>& task)
        : task_(task),
          transitions_(*task.transitions),
          Y_(transitions_.Y),
          S_(transitions_.states()),
          guard_(sizeof(R) == 8 && task.guard.is_on) {}

    // begin() is called before the first position, step(t, before, row, alpha, finish) fills
    // alpha[t], t > 0, and passes each sum over a through finish(c, v, sum): vector v of a state of
    // label c. end(l, alpha) is called where the sequence of lane l ends. All three are called
    // twice where delta has to be followed for each state.
    template <class Begin, class Step, class End>
    void run(const Begin& begin, const Step& step, const End& end) {
        if constexpr (sizeof(R) == 8) {
            if (guard_) {
                pass<true, false>(begin, step, end);
                if (unproven_) pass<true, true>(begin, step, end);
                return;
            }
        }
        pass<false, false>(begin, step, end);
    }
    void run() {
        run([] {},
            [&](int64_t t, const R* before, const R*, R* alpha, const auto& finish)
                TL_INLINE { lane_forward<SumTimes>(transitions_, t, before, alpha, finish); },
            [](int64_t, const R*) {});
    }

    R* row_of(int64_t t) const { return task_.rows + (task_.keep_rows ? t : 0) * Y_ * L<R>; }
    R* alpha_of(int64_t t) const {
        return task_.alpha + (task_.keep_alpha ? t : t % 2) * S_ * L<R>;
    }
    // Of a state; first order avoids the slow division.
    R stop(int64_t s) const { return transitions_.stop[transitions_.G == 1 ? s : s % Y_]; }

  private:
    template <bool guard, bool each, class Begin, class Step, class End>
    void pass(const Begin& begin, const Step& step, const End& end) {
        reset();
        for (int64_t i = 0; each && i < 2 * S_ * L<R>; ++i) task_.guard.delta[i] = 0;
        begin();
        int64_t active = task_.n;
        for (int64_t t = 0; t < task_.length[0]; ++t) {
            while (task_.length[active - 1] <= t) --active;
            R* row = row_of(t);
            R* alpha = alpha_of(t);
            fill_row<guard>(t, active, row);
            V peak[NV] = {}, low[NV];  // the largest of all, the smallest that is not 0
            for (int v = 0; v < NV; ++v) low[v] = broadcast<R>(1);
            const Ahead<In, L<R>> ahead([&](int64_t l) { return row_to_come(l, t + 2); }, Y_,
                                        active);
            auto finish = [&](int64_t c, int v, V x) TL_INLINE {
                if (v == 0) ahead.ask(c);
                x *= load(row + c * L<R> + v * W<R>);
                peak[v] = max<V>(peak[v], x);
                if constexpr (guard) {
                    const V reachable = x > R(0) ? x : broadcast<R>(1);
                    low[v] = reachable < low[v] ? reachable : low[v];
                }
                return x;
            };
            if (t == 0)
                start(alpha, finish);
            else
                step(t, alpha_of(t - 1), row, alpha, finish);
            if constexpr (guard)
                if (any_small()) follow_losses<each>(t, row);
            Bits<R> e[NV];
            for (int v = 0; v < NV; ++v) {
                scale_[v] = scale_of<R>(peak[v], e[v]);
                // alpha[t] is rescaled only by row[t + 1]: until then its sums must not vanish
                // either.
                if constexpr (guard)
                    small_[v] |= cast_bits<Bits<R>>((low[v] * scale_[v] < R(tiny)) |
                                                    (scale_[v] > R(1 / tiny)));
            }
            for (int64_t l = active - 1; l >= 0 && task_.length[l] == t + 1; --l) {
                const double z = total(l, t, alpha);
                task_.ok[l] = z > 0;
                if (guard && z > 0 && small_[l / W<R>][l % W<R>])
                    task_.ok[l] = prove<each>(l, t, z, peak[l / W<R>][l % W<R>]);
                end(l, alpha);
            }
            for (int v = 0; v < NV; ++v) exponent_[v] += peak[v] > R(0) ? e[v] : Bits<R>{};
        }
    }

    void reset() {
        unproven_ = false;
        for (int64_t l = 0; l < L<R>; ++l) offset_[l] = 0;
        for (int v = 0; v < NV; ++v) {
            exponent_[v] = Bits<R>{};
            small_[v] =
                Bits<R>{} - (task_.guard.small_transitions ? 1 : 0);  // all bits set, or none
            delta_[v] = V{};
            scale_[v] = broadcast<R>(1);
        }
    }

    // The number of the row of scores of lane l at t.
    int64_t row_number(int64_t l, int64_t t) const {
        const int64_t token = task_.first[l] + t;
        return task_.shared.ids ? task_.shared.ids[token] : token;
    }

    // Where lane l reads at t, for prefetching; of another type with shared rows of wider numbers.
    const In* row_to_come(int64_t l, int64_t t) const {
        if (!task_.shared.ids) return task_.emit + (task_.first[l] + t) * Y_;
        const int64_t last = task_.length[l] - 1;
        const R* row = task_.shared.probs + row_number(l, t < last ? t : last) * Y_;
        return reinterpret_cast<const In*>(row);
    }

    // row[t] from exponentials that were taken before.
    template <bool guard>
    void fill_shared_row(int64_t t, int64_t active, R* row) {
        const SharedRows<R>& shared = task_.shared;
        rows_to_lanes([&](int64_t l) { return shared.probs + row_number(l, t) * Y_; }, Y_, active,
                      row);
        for (int64_t i = 0; i < Y_ * L<R>; i += L<R>)
            for (int v = 0; v < NV; ++v)
                store(row + i + v * W<R>, load(row + i + v * W<R>) * scale_[v]);
        for (int64_t l = 0; l < active; ++l) {
            const int64_t number = row_number(l, t);
            offset_[l] += shared.top[number];
            if (guard && shared.is_low[number]) small_[l / W<R>][l % W<R>] = -1;
        }
    }

    template <bool guard>
    void fill_row(int64_t t, int64_t active, R* row) {
        if (task_.shared.ids && t > 0) return fill_shared_row<guard>(t, active, row);
        R top[L<R>];
        V m[NV];
        rows_to_lanes([&](int64_t l) { return task_.emit + row_number(l, t) * Y_; }, Y_, active,
                      row, top);
        for (int v = 0; v < NV; ++v) m[v] = load(top + v * W<R>);
        if (t == 0) {
            for (int64_t y = 0; y < Y_; ++y)
                for (int v = 0; v < NV; ++v) {
                    R* p = row + y * L<R> + v * W<R>;
                    store(p, load(p) + transitions_.start[y]);
                }
            lane_max(row, Y_, m);
        }
        for (int v = 0; v < NV; ++v) m[v] = m[v] == minus_inf<R> ? V{} : m[v];
        for (int64_t l = 0; l < active; ++l) offset_[l] += m[l / W<R>][l % W<R>];
        Bits<R> low[NV] = {};
        auto exponentials = [&](R* p, auto labels) {
            constexpr int n = labels.value * NV;
            V x[n];
            for (int i = 0; i < n; ++i) x[i] = load(p + i * W<R>) - m[i % NV];
            if constexpr (guard)
                for (int i = 0; i < n; ++i)
                    low[i % NV] |= cast_bits<Bits<R>>((x[i] > minus_inf<R>)&(x[i] < R(log_tiny)));
            exp_each<R>(x);
            for (int i = 0; i < n; ++i) store(p + i * W<R>, x[i] * scale_[i % NV]);
        };
        int64_t y = 0;
        for (; y + 2 <= Y_; y += 2) exponentials(row + y * L<R>, Size<2>{});
        if (y < Y_) exponentials(row + y * L<R>, Size<1>{});
        if constexpr (guard)
            for (int v = 0; v < NV; ++v) small_[v] |= low[v];
    }

    template <class Finish>
    void start(R* alpha, const Finish& finish) {
        for (int64_t s = 0; s < S_; ++s)
            for (int v = 0; v < NV; ++v)
                store(alpha + s * L<R> + v * W<R>, s < Y_ ? finish(s, v, broadcast<R>(1)) : V{});
    }

    bool any_small() const {
        Bits<R> all = {};
        for (int v = 0; v < NV; ++v) all |= small_[v];
        bool any = false;
        for (int w = 0; w < W<R>; ++w) any |= all[w] != 0;
        return any;
    }

    // delta[t], before scale_ becomes that of t. Lanes where nothing is small have lost nothing.
    template <bool each>
    void follow_losses(int64_t t, const R* row) {
        V added[NV], largest[NV] = {};
        for (int v = 0; v < NV; ++v)
            added[v] = small_[v] ? newly_lost<V>(Y_, scale_[v], delta_[v]) : V{};
        if constexpr (each) {
            R* now = task_.guard.delta + t % 2 * S_ * L<R>;
            auto finish = [&](int64_t c, int v, V x) TL_INLINE {
                x = x * load(row + c * L<R> + v * W<R>) + added[v];
                largest[v] = max<V>(largest[v], x);
                return x;
            };
            if (t == 0)
                for (int64_t i = 0; i < S_ * L<R>; i += L<R>)
                    for (int v = 0; v < NV; ++v) store(now + i + v * W<R>, largest[v] = added[v]);
            else
                lane_forward<SumTimes>(transitions_, t, task_.guard.delta + (t - 1) % 2 * S_ * L<R>,
                                       now, finish);
        } else {
            const R* sums = task_.guard.sums + (t > 0 ? transitions_.level(t) * Y_ : 0);
            for (int64_t y = 0; t > 0 && y < Y_; ++y)
                for (int v = 0; v < NV; ++v)
                    largest[v] = max<V>(largest[v], load(row + y * L<R> + v * W<R>) * sums[y]);
            for (int v = 0; v < NV; ++v) largest[v] = largest[v] * delta_[v] + added[v];
        }
        for (int v = 0; v < NV; ++v) delta_[v] = largest[v];
    }

    // Whether z is proven for lane l, whose largest alpha is `peak`.
    template <bool each>
    bool prove(int64_t l, int64_t t, double z, double peak) {
        const double largest = delta_[l / W<R>][l % W<R>];
        const R* delta = task_.guard.delta + t % 2 * S_ * L<R> + l;
        double lost = 0;
        for (int64_t s = 0; s < S_; ++s) lost += (each ? delta[s * L<R>] : largest) * stop(s);
        const bool proven = is_proven(z, lost, S_, peak, largest);
        unproven_ |= !proven;
        return proven;
    }

    // z of the sequence in lane l, which ends at t; also log_z.
    double total(int64_t l, int64_t t, const R* alpha) {
        double z = 0;
        for (int64_t s = 0; s < S_; ++s) z += double(alpha[s * L<R> + l]) * stop(s);
        double log_z =
            offset_[l] + ln2 * exponent_[l / W<R>][l % W<R>] + task_.offsets.stop + log(z);
        for (int64_t u = 1; u <= t; ++u) {
            if (u >= transitions_.levels) {
                log_z += (t - u + 1) * task_.offsets.levels[transitions_.levels - 1];
                break;
            }
            log_z += task_.offsets.levels[u - 1];
        }
        task_.log_z[l] = log_z;
        return z;
    }

    const LaneForward<In, R>& task_;
    const Transitions<R>& transitions_;
    const int64_t Y_, S_;
    const bool guard_;
    double offset_[L<R>];   // sum of m
    Bits<R> exponent_[NV];  // sum of e
    V scale_[NV];
    Bits<R> small_[NV];      // lanes that have met a number below `tiny`
    V delta_[NV];            // max_s delta[t, s]
    bool unproven_ = false;  // whether some lane is
};

}  // namespace
}  // namespace tagloom
