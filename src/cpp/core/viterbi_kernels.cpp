// The best path, in lanes and of one sequence, for one instruction set.
//
//   alpha[0, y]       = start[y] + emit[0, y]
//   alpha[t, g*Y + c] = emit[t, c] + max_a alpha[t-1, a*G + g] + transitions[g, a, c]
//
// A maximum is subtracted from alpha at each position, so that numbers stay small in long
// sequences. The backward pass finds the a that gave the maximum at each position, which is cheaper
// than to store it for every state.

// Here inlined steps would take 1.6 times as long for 50 labels.
#define TL_INLINE_STEP

#include "core/kernel_functions.hpp"
#include "core/lanes.hpp"
#include "core/one.hpp"

namespace tagloom {
namespace {

// ---------------------------------------------------------------------------------------------
// Lanes

// Whether a number of any lane is below 0.
inline bool lane_any_negative(const Vector<int32_t>* x) {
    Vector<int32_t> all = {};
    for (int v = 0; v < NV; ++v) all |= x[v];
    int32_t sign = 0;
    for (int w = 0; w < W<int32_t>; ++w) sign |= all[w];
    return sign < 0;
}

// In each lane, the first of the largest of n values, value(i, vector); `sure` turns false where
// another is within `slack` of it. A lane where none is reachable gets n.
template <class Value>
inline void lane_first(int64_t n, const Value& value, const int32_t* slack, int64_t* arg,
                       bool* sure, int64_t lanes) {
    using R = int32_t;
    using V = Vector<R>;
    V first[NV], top[NV], second[NV];
    for (int v = 0; v < NV; ++v) {
        first[v] = broadcast<R>(static_cast<R>(n));
        top[v] = second[v] = broadcast<R>(minus_inf<R>);
    }
    for (int64_t i = n - 1; i >= 0; --i)
        for (int v = 0; v < NV; ++v) {
            const V x = value(i, v);
            first[v] = top[v] > x ? first[v] : broadcast<R>(static_cast<R>(i));
            const V less = top[v] > x ? x : top[v];
            second[v] = max<V>(second[v], less);
            top[v] = max<V>(top[v], x);
        }
    for (int64_t l = 0; l < lanes; ++l) {
        const R best = top[l / W<R>][l % W<R>];
        const bool reached = best > Fixed::reachable;
        arg[l] = reached ? first[l / W<R>][l % W<R>] : n;
        if (reached && second[l / W<R>][l % W<R>] >= best - slack[l]) sure[l] = false;
    }
}

// The lanes compute with integers (see Fixed) and report whether the rounding of the scores
// could have changed the path; the driver decodes those few sequences again in double.
//
// Most scores forbid nothing. Then no state is dead, none falls far behind, and it is enough to
// check the emissions: the first -inf among them invalidates the run.
template <class In, bool forbids>
class ViterbiLanes {
    using R = int32_t;
    using V = Vector<R>;
    using F = Vector<float>;
    static_assert(__builtin_bit_cast(R, minus_inf<float>) -
                      __builtin_bit_cast(R, Types<float>::magic) ==
                  Fixed::no_emission);

  public:
    explicit ViterbiLanes(const LaneViterbi<In>& task)
        : task_(task),
          transitions_(*task.transitions),
          Y_(transitions_.Y),
          G_(transitions_.G),
          S_(transitions_.states()),
          T_(task.length[0]) {}

    // alpha[t], less the maximum at t - 1; false if something is forbidden.
    bool forward() {
        const V magic = cast_bits<V>(broadcast<float>(Types<float>::magic));
        const F scale = broadcast<float>(task_.scale);
        V low[NV] =
            {};  // the lowest alpha that is reachable, or bits of an emission: 0 unless -inf
        V peak[NV] = {};  // the maximum at the position before
        int64_t active = task_.n;
        for (int64_t t = 0; t < T_; ++t) {
            while (task_.length[active - 1] <= t) --active;
            gather<In, float>(task_.emit, Y_, t, task_.first, active, task_.row);
            R* alpha = task_.alpha + t * S_ * L<R>;
            V shift[NV];
            for (int v = 0; v < NV; ++v) {
                shift[v] = peak[v] + magic;
                peak[v] = broadcast<R>(Fixed::forbidden);
            }
            const Ahead<In, L<R>> ahead(
                [&](int64_t l) { return task_.emit + (task_.first[l] + t + 2) * Y_; }, Y_, active);
            auto finish = [&](int64_t c, int v, V x) {
                if (v == 0) ahead.ask(c);
                // To the nearest integer; the bits of -inf come out far below
                // Fixed::reachable.
                const F emit = load(task_.row + c * L<R> + v * W<R>) * scale + Types<float>::magic;
                const V bits = cast_bits<V>(emit);
                x += bits - shift[v];
                if constexpr (forbids) {
                    const V dead = x < Fixed::reachable;
                    x = dead ? broadcast<R>(Fixed::forbidden) : x;
                    const V alive = dead ? V{} : x;
                    low[v] = low[v] < alive ? low[v] : alive;
                } else {
                    low[v] = low[v] < bits ? low[v] : bits;
                }
                peak[v] = max<V>(peak[v], x);
                return x;
            };
            if (t == 0)
                start(alpha, finish);
            else
                lane_forward<MaxPlus>(transitions_, t, alpha - S_ * L<R>, alpha, finish);
            for (int v = 0; v < NV; ++v) peak[v] = peak[v] < Fixed::reachable ? V{} : peak[v];
            if (!forbids && lane_any_negative(low)) return false;  // before the numbers grow large
        }
        for (int64_t l = 0; l < task_.n; ++l) {
            // A transition and an emission are each off by at most 3/4, at every position, so two
            // paths by at most three units a position, start and stop included, one each way.
            slack_[l] = static_cast<R>(3 * (task_.length[l] + 2));
            task_.sure[l] = low[l / W<R>][l % W<R>] > Fixed::far;
        }
        return true;
    }

    void trace() {
        int64_t active = 0;  // lanes whose sequence reaches t + 1, in state_[l] there
        for (int64_t t = T_ - 1; t >= 0; --t) {
            if (active > 0) step_back(t, active);
            const int64_t going = active;
            while (active < task_.n && task_.length[active] == t + 1) ++active;
            if (active > going) begin(t, going, active);
        }
        for (int64_t l = 0; l < task_.n; ++l)
            for (int64_t t = 0; dead_[l] && t < task_.length[l]; ++t)
                task_.path[task_.first[l] + t] = -1;
    }

  private:
    template <class Finish>
    void start(R* alpha, const Finish& finish) {
        for (int64_t s = 0; s < S_; ++s)
            for (int v = 0; v < NV; ++v)
                store(alpha + s * L<R> + v * W<R>,
                      s < Y_ ? finish(s, v, broadcast<R>(transitions_.start[s]))
                             : broadcast<R>(Fixed::forbidden));
    }

    // From the states at t + 1 to the best ones before them: arg max over a of
    // alpha[t, a*G + g] + transitions[g, a, c].
    void step_back(int64_t t, int64_t active) {
        const R* alpha = task_.alpha + t * S_ * L<R>;
        const R* into = task_.transposed + (transitions_.matrix(t + 1) - transitions_.matrices);
        R* candidates = task_.candidates;
        if (t > 0) prefetch(alpha - S_ * L<R>, S_ * L<R>);
        rows_to_lanes([&](int64_t l) { return into + state_[l] * Y_; }, Y_, active, candidates);
        for (int64_t l = 0; G_ > 1 && l < active; ++l) {
            const R* from = alpha + suffix(state_[l]) * L<R> + l;
            for (int64_t a = 0; a < Y_; ++a) candidates[a * L<R> + l] += from[a * G_ * L<R>];
        }
        auto candidate = [&](int64_t a, int v) {
            const int64_t at = a * L<R> + v * W<R>;
            return G_ > 1 ? load(candidates + at) : load(candidates + at) + load(alpha + at);
        };
        int64_t arg[L<R>];
        lane_first(Y_, candidate, slack_, arg, task_.sure, active);
        for (int64_t l = 0; l < active; ++l)  // without a path: state 0, and -1 in the end
            go_to(l, t, arg[l] < Y_ ? arg[l] * G_ + suffix(state_[l]) : 0);
    }

    // The last states of the sequences that end at t: arg max over s of alpha[t, s] + stop[s].
    void begin(int64_t t, int64_t going, int64_t active) {
        const R* alpha = task_.alpha + t * S_ * L<R>;
        bool end_sure[L<R>] = {};  // stop does not concern sequences that go on
        for (int64_t l = going; l < active; ++l) end_sure[l] = task_.sure[l];
        auto ending = [&](int64_t s, int v) {
            return load(alpha + s * L<R> + v * W<R>) + transitions_.stop[label(s)];
        };
        int64_t arg[L<R>];
        lane_first(S_, ending, slack_, arg, end_sure, active);
        for (int64_t l = going; l < active; ++l) {
            task_.sure[l] = end_sure[l];
            dead_[l] = arg[l] == S_;
            go_to(l, t, dead_[l] ? 0 : arg[l]);
        }
    }

    void go_to(int64_t l, int64_t t, int64_t state) {
        state_[l] = state;
        task_.path[task_.first[l] + t] = static_cast<int32_t>(label(state));
    }

    // Of the state g*Y + c; first order avoids the slow division.
    int64_t suffix(int64_t s) const { return G_ == 1 ? 0 : s / Y_; }
    int64_t label(int64_t s) const { return G_ == 1 ? s : s % Y_; }

    const LaneViterbi<In>& task_;
    const Transitions<R>& transitions_;
    const int64_t Y_, G_, S_, T_;
    R slack_[L<R>] = {};
    bool dead_[L<R>] = {};  // sequences without a path
    int64_t state_[L<R>];
};

template <class In, bool forbids>
bool run_lanes(const LaneViterbi<In>& task) {
    ViterbiLanes<In, forbids> lanes(task);
    if (!lanes.forward()) return false;
    lanes.trace();
    return true;
}

// ---------------------------------------------------------------------------------------------
// One sequence

// Rows of alpha, each less its maximum. Task is OneViterbi or OneBest.
template <class In, class Task>
class BestOne {
  public:
    explicit BestOne(const Task& task)
        : task_(task),
          transitions_(*task.transitions),
          Y_(transitions_.Y),
          G_(transitions_.G),
          S_(transitions_.states()) {}

    // alpha[t] from alpha[t-1]; returns the maximum that was subtracted.
    double advance(int64_t t, const double* before, double* alpha) const {
        const In* emit = task_.emit + t * Y_;
        for (int64_t y = 0; y < Y_; ++y) task_.row[y] = emit[y];
        if (t == 0)
            for (int64_t s = 0; s < S_; ++s)
                alpha[s] = s < Y_ ? transitions_.start[s] + task_.row[s] : minus_inf<double>;
        else
            step(t, before, alpha);
        const double m = one_max(alpha, S_);
        if (m == minus_inf<double>) return 0;
        for (int64_t s = 0; s < S_; ++s) alpha[s] -= m;
        return m;
    }

    // The last state of the best path; -1 if there is none.
    int64_t last_state(const double* alpha) const {
        double best = minus_inf<double>;
        int64_t state = -1;
        for (int64_t i = 0; i < S_; ++i) {
            const int64_t s = by_last_label(i, Y_, S_);
            const double score = alpha[s] + transitions_.stop[G_ == 1 ? s : s % Y_];
            if (score > best) best = score, state = s;
        }
        return state;
    }

    // The best state before g*Y + c at t.
    int64_t state_before(int64_t t, const double* before, int64_t g, int64_t c) const {
        const double* m = transitions_.matrix(t) + g * Y_ * transitions_.stride + c;
        // With G > 1 the edge scores are the same for all a.
        const In* edge = task_.edge && G_ == 1 ? task_.edge + t * Y_ * Y_ + c : nullptr;
        for (int64_t a = 0; a < Y_; ++a) {
            double transition = m[a * transitions_.stride];
            if (edge) transition += edge[a * Y_];
            task_.row[a] = before[a * G_ + g] + transition;
        }
        const double top = one_max(task_.row, Y_);
        int64_t a = 0;
        while (task_.row[a] != top) ++a;
        return a * G_ + g;
    }

  private:
    void step(int64_t t, const double* before, double* alpha) const {
        const bool by_block = task_.edge && G_ > 1;  // a block has one label before
        const double* m = by_block ? transitions_.matrix(t)
                                   : one_scores(transitions_, task_.edge, t, task_.matrix);
        auto row = [&](int64_t g) -> const double* {
            if (!by_block) return task_.row;
            const In* edge = task_.edge + (t * Y_ + g % Y_) * Y_;
            for (int64_t y = 0; y < Y_; ++y) task_.matrix[y] = task_.row[y] + edge[y];
            return task_.matrix;
        };
        one_forward<MaxPlus>(transitions_, m, before, row, alpha);
    }

    const Task& task_;
    const Transitions<double>& transitions_;
    const int64_t Y_, G_, S_;
};

}  // namespace

namespace TL_ISA {

template <class In>
bool viterbi_lanes(const LaneViterbi<In>& task) {
    return task.forbids ? run_lanes<In, true>(task) : run_lanes<In, false>(task);
}

template <class In>
void viterbi_one(const OneViterbi<In>& task) {
    const BestOne<In, OneViterbi<In>> best(task);
    const int64_t Y = task.transitions->Y, S = task.transitions->states(), T = task.T,
                  width = S + 8;
    // Divisions are slow; most sequences have one block, and most models one history.
    auto in_block = [&](int64_t t) { return t < task.block ? t : t % task.block; };
    auto row_of = [&](int64_t t) { return task.alpha + in_block(t) * width; };
    for (int64_t t = 0; t < T; ++t) {
        // The first row of a block is written where the last block's first row was; the row before
        // is still there, as every block has at least two rows.
        best.advance(t, t > 0 ? row_of(t - 1) : nullptr, row_of(t));
        if (in_block(t) == 0)
            __builtin_memcpy(task.checkpoints + t / task.block * width, row_of(t),
                             S * sizeof(double));
    }
    int64_t state = best.last_state(row_of(T - 1));
    if (state < 0) {
        for (int64_t t = 0; t < T; ++t) task.path[t] = -1;
        return;
    }
    for (int64_t t = T - 1;; --t) {
        const int64_t g = S == Y ? 0 : state / Y, c = state - g * Y;
        task.path[t] = static_cast<int32_t>(c);
        if (t == 0) break;
        if (in_block(t) == 0) {  // the row before lies in an earlier block: compute that again
            int64_t u = t - task.block;
            __builtin_memcpy(row_of(u), task.checkpoints + u / task.block * width,
                             S * sizeof(double));
            for (++u; u < t; ++u) best.advance(u, row_of(u - 1), row_of(u));
        }
        state = best.state_before(t, row_of(t - 1), g, c);
    }
}

template <class In>
void best_one(const OneBest<In>& task) {
    const BestOne<In, OneBest<In>> best(task);
    const int64_t width = task.transitions->states() + 8;
    for (int64_t t = 0; t < task.T; ++t) {
        double* alpha = task.alpha + t * width;
        task.offset[t] = best.advance(t, t > 0 ? alpha - width : nullptr, alpha);
    }
}

template bool viterbi_lanes<float>(const LaneViterbi<float>&);
template bool viterbi_lanes<double>(const LaneViterbi<double>&);
template void viterbi_one<float>(const OneViterbi<float>&);
template void viterbi_one<double>(const OneViterbi<double>&);
template void best_one<float>(const OneBest<float>&);
template void best_one<double>(const OneBest<double>&);

}  // namespace TL_ISA
}  // namespace tagloom
