// Exact draws from the distribution over paths, in lanes and of one sequence, for one instruction
// set: forward sums, then backward draws. The last state is s with probability proportional to
//
//   alpha[T-1, s] * stop[s],
//
// and the state before g*Y + c at t+1 is a*G + g with probability proportional to
//
//   alpha[t, a*G + g] * P[g, a, c].
//
// A draw takes one uniform number u in [0, 1): the first i whose cumulative weight exceeds u times
// the total. Such an i has a weight above 0, so that nothing forbidden is ever drawn. All draws of
// a sequence share its forward pass.

#include "core/forward_lanes.hpp"
#include "core/forward_one.hpp"
#include "core/kernel_functions.hpp"

namespace tagloom {
namespace {

// u as R, below 1 also after rounding.
template <class R>
inline R below_one(double u) {
    constexpr R most = sizeof(R) == 4 ? R(0x1.fffffep-1) : R(0x1.fffffffffffffp-1);
    return R(u) < most ? R(u) : most;
}

// ---------------------------------------------------------------------------------------------
// Lanes

template <class In, class R>
class DrawLanes {
    using V = Vector<R>;

  public:
    DrawLanes(const LaneSample<In, R>& task, const ForwardLanes<In, R>& forward)
        : task_(task),
          forward_(forward),
          transitions_(*task.transitions),
          Y_(transitions_.Y),
          G_(transitions_.G),
          S_(transitions_.states()) {}

    void run(int64_t draw) {
        int64_t active = 0;  // lanes whose sequence reaches t + 1, in state_[l] there
        for (int64_t t = task_.length[0] - 1; t >= 0; --t) {
            if (active > 0) step_back(draw, t, active);
            const int64_t going = active;
            while (active < task_.n && task_.length[active] == t + 1) ++active;
            if (active > going) begin(draw, t, going, active);
        }
    }

  private:
    void begin(int64_t draw, int64_t t, int64_t going, int64_t active) {
        const R* alpha = forward_.alpha_of(t);
        Bits<R> chosen[NV];
        choose(draw, t, S_, active, chosen, [&](int64_t s, int v) {
            return load(alpha + s * L<R> + v * W<R>) * forward_.stop(s);
        });
        for (int64_t l = going; l < active; ++l)
            go_to(draw, l, t, chosen[l / W<R>][l % W<R>], S_, [](int64_t s) { return s; });
    }

    void step_back(int64_t draw, int64_t t, int64_t active) {
        const R* alpha = forward_.alpha_of(t);
        const R* into = task_.transposed + (transitions_.matrix(t + 1) - transitions_.matrices);
        R* weights = task_.weights;
        rows_to_lanes([&](int64_t l) { return into + state_[l] * Y_; }, Y_, active, weights);
        for (int64_t l = 0; G_ > 1 && l < active; ++l) {
            const R* from = alpha + state_[l] / Y_ * L<R> + l;
            for (int64_t a = 0; a < Y_; ++a) weights[a * L<R> + l] *= from[a * G_ * L<R>];
        }
        Bits<R> chosen[NV];
        choose(draw, t, Y_, active, chosen, [&](int64_t a, int v) {
            const int64_t at = a * L<R> + v * W<R>;
            return G_ > 1 ? load(weights + at) : load(weights + at) * load(alpha + at);
        });
        for (int64_t l = 0; l < active; ++l)
            go_to(draw, l, t, chosen[l / W<R>][l % W<R>], Y_,
                  [&](int64_t a) { return G_ == 1 ? a : a * G_ + state_[l] / Y_; });
    }

    // In each lane, the first of n whose cumulative weight(i, vector) exceeds u times the total.
    template <class Weight>
    void choose(int64_t draw, int64_t t, int64_t n, int64_t active, Bits<R>* chosen,
                const Weight& weight) {
        V sum[NV] = {}, limit[NV];
        for (int64_t i = 0; i < n; ++i)
            for (int v = 0; v < NV; ++v) {
                sum[v] += weight(i, v);
                store(task_.weights + i * L<R> + v * W<R>, sum[v]);
            }
        R u[L<R>] = {};
        for (int64_t l = 0; l < active; ++l)
            u[l] = below_one<R>(task_.uniform[(task_.first[l] + t) * task_.draws + draw]);
        for (int v = 0; v < NV; ++v) {
            limit[v] = load(u + v * W<R>) * sum[v];
            chosen[v] = Bits<R>{};
        }
        for (int64_t i = 0; i < n; ++i)
            for (int v = 0; v < NV; ++v)  // a comparison that holds is -1
                chosen[v] -= load(task_.weights + i * L<R> + v * W<R>) <= limit[v];
    }

    // In a lane without a path `chosen` is n; the driver discards it.
    template <class StateOf>
    void go_to(int64_t draw, int64_t l, int64_t t, int64_t chosen, int64_t n,
               const StateOf& state) {
        state_[l] = chosen < n ? state(chosen) : 0;
        task_.paths[draw * task_.path_stride + task_.first[l] + t] =
            static_cast<int32_t>(G_ == 1 ? state_[l] : state_[l] % Y_);
    }

    const LaneSample<In, R>& task_;
    const ForwardLanes<In, R>& forward_;
    const Transitions<R>& transitions_;
    const int64_t Y_, G_, S_;
    int64_t state_[L<R>];
};

// ---------------------------------------------------------------------------------------------
// One sequence

// The first of n weights whose cumulative sum exceeds u times the total; some weight is positive.
inline int64_t choose_one(double* weights, int64_t n, double u) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) weights[i] = sum += weights[i];
    const double limit = below_one<double>(u) * sum;
    int64_t i = 0;
    while (weights[i] <= limit) ++i;
    return i;
}

template <class In>
void draw_one(const OneSample<In>& task, ForwardOne<In>& forward) {
    const Transitions<double>& transitions = *task.transitions;
    const int64_t Y = transitions.Y, G = transitions.G, S = transitions.states(), T = task.T;
    for (int64_t t = T - 1; t >= 0; --t) {
        const double* alpha = forward.alpha_of(t);
        Sum ignored;
        if (t < T - 1 && task.edge && G == 1)
            forward.fill(t + 1, ignored);  // P differs by position
        const double* P = task.edge && G == 1 ? forward.P() : transitions.matrix(t + 1);
        for (int64_t k = 0; k < task.draws; ++k) {
            const double u = task.uniform[t * task.draws + k];
            int64_t& state = task.states[k];
            if (t == T - 1) {
                for (int64_t s = 0; s < S; ++s) task.weights[s] = alpha[s] * forward.stop(s);
                state = choose_one(task.weights, S, u);
            } else {
                const int64_t g = G == 1 ? 0 : state / Y, c = state - g * Y;
                const double* into = P + g * Y * transitions.stride + c;
                for (int64_t a = 0; a < Y; ++a)
                    task.weights[a] = alpha[a * G + g] * into[a * transitions.stride];
                state = choose_one(task.weights, Y, u) * G + g;
            }
            task.paths[k * task.path_stride + t] = static_cast<int32_t>(G == 1 ? state : state % Y);
        }
    }
}

}  // namespace

namespace TL_ISA {

template <class In, class R>
void sample_lanes(const LaneSample<In, R>& task) {
    ForwardLanes<In, R> forward(task);
    forward.run();
    DrawLanes<In, R> lanes(task, forward);
    for (int64_t draw = 0; draw < task.draws; ++draw) lanes.run(draw);
}

template <class In>
void sample_one(const OneSample<In>& task) {
    ForwardOne<In> forward(task);
    forward.run();
    if (*task.ok) draw_one(task, forward);
}

template void sample_lanes<float, float>(const LaneSample<float, float>&);
template void sample_lanes<float, double>(const LaneSample<float, double>&);
template void sample_lanes<double, double>(const LaneSample<double, double>&);
template void sample_one<float>(const OneSample<float>&);
template void sample_one<double>(const OneSample<double>&);

}  // namespace TL_ISA
}  // namespace tagloom
