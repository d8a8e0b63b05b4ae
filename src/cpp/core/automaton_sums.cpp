// Sums over the paths of an automaton: in scaled probabilities, or in log space where those could
// underflow.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/automaton.hpp"
#include "core/automaton_steps.hpp"

namespace tagloom {

using namespace steps;

namespace {

// Sums over paths on probabilities instead of logarithms, many times as fast. Each position is
// scaled so that its largest value is 1, and a step multiplies by at least exp(-kWidest). As long
// as no value falls below kLeast, none has lost precision to underflow. Otherwise the sums are
// repeated in log space.
//
//   alpha[t, s]  = emit[t, y(s)] * sum_{m into s} alpha[t-1, src(m)] * prob[m],         then scaled
//   beta[t-1, p] = sum_{m out of p} prob[m] * emit[t, y(dst(m))] * beta[t, dst(m)],     then scaled
constexpr double kLeast = 1e-130, kWidest = 390;  // kLeast * exp(-390) = 1e-299

template <class In>
class Scaled {
  public:
    Scaled(const Automaton& a, const Sequence<In>& x) : a_(a), x_(x), S_(a.states()), Y_(a.Y()) {
        is_ok_ = prepare();
    }

    // False if precision could be lost. log_z is -inf if there is no path. `keep` stores the values
    // of every position, which backward() needs.
    bool forward(bool keep, double& log_z) {
        if (!is_ok_) return false;
        alpha_.resize((keep ? x_.T : 2) * S_);
        emit_.resize((keep ? x_.T : 1) * Y_);
        scale_.resize(keep ? x_.T : 1);
        double log_scale = start_top_ + stop_top_;
        for (int64_t t = 0; t < x_.T; ++t) {
            double* now = &alpha_[(keep ? t : t % 2) * S_];
            if (t == 0) {
                std::copy(start_.begin(), start_.end(), now);
            } else {
                const double* before = &alpha_[(keep ? t - 1 : (t - 1) % 2) * S_];
                double *emit = &emit_[keep ? t * Y_ : 0], emit_top;
                std::copy_n(x_.emit + t * Y_, Y_, emit);
                const double emits = exponentials(emit, Y_, emit_top);
                const double* prob = step(t);
                if (!(emits + range_ <= kWidest)) return is_ok_ = false;
                for (int64_t s = 0; s < S_; ++s) {
                    double sums[4] = {};  // independent sums hide the latency of additions
                    int64_t m = a_.into(s);
                    for (; m + 4 <= a_.into(s + 1); m += 4)
                        for (int64_t j = 0; j < 4; ++j)
                            sums[j] += before[a_.src(m + j)] * prob[m + j];
                    for (; m < a_.into(s + 1); ++m) sums[0] += before[a_.src(m)] * prob[m];
                    now[s] = (sums[0] + sums[1] + sums[2] + sums[3]) * emit[a_.label(s)];
                }
                log_scale += step_top_ + emit_top;
            }
            double& scale = scale_[keep ? t : 0];
            scale = rescale(now);
            if (scale == 0) {
                log_z = kMinusInf;
                return is_ok_;
            }
            if (!is_ok_) return false;
            log_scale += std::log(scale);
        }
        const double* last = &alpha_[(keep ? x_.T - 1 : (x_.T - 1) % 2) * S_];
        double total = 0;
        for (int64_t s = 0; s < S_; ++s) total += last[s] * stop_[s];
        // alpha is large only where stop is tiny: the sum may have lost precision.
        if (total > 0 && total < kLeast) return false;
        log_z = total > 0 ? log_scale + std::log(total) : kMinusInf;
        return true;
    }

    // Call after forward(true, ...) with a finite log_z. If it returns false, nothing has been
    // added to the counts of `expected`.
    bool backward(double weight, const AutomatonExpected<In>& expected) {
        std::vector<double> beta(stop_), before(S_), ahead(S_), gamma(Y_);
        std::vector<double> xi(expected.pairs ? Y_ * Y_ : 0);
        counts_.assign(expected.transitions ? a_.transitions() : 0, 0.0);
        starts_.assign(S_, 0.0);
        stops_.assign(S_, 0.0);
        for (int64_t t = x_.T - 1; t >= 0; --t) {
            const double* alpha = &alpha_[t * S_];
            double total = 0;
            for (int64_t s = 0; s < S_; ++s) total += alpha[s] * beta[s];
            if (!(total >= kLeast)) return false;
            std::fill(gamma.begin(), gamma.end(), 0.0);
            for (int64_t s = 0; s < S_; ++s) {
                const double p = alpha[s] * beta[s] / total;
                gamma[a_.label(s)] += p;
                if (t == 0) starts_[s] = weight * p;
                if (t == x_.T - 1) stops_[s] = weight * p;
            }
            if (expected.marginals)
                for (int64_t y = 0; y < Y_; ++y)
                    expected.marginals[t * Y_ + y] = static_cast<In>(gamma[y]);
            if (t == 0) break;
            // The transitions into t sum to total * scale[t].
            const double *prob = step(t), *emit = &emit_[t * Y_], *earlier = alpha - S_;
            const double share = 1 / (total * scale_[t]);
            for (int64_t s = 0; s < S_; ++s) ahead[s] = beta[s] * emit[a_.label(s)];
            std::fill(before.begin(), before.end(), 0.0);
            std::fill(xi.begin(), xi.end(), 0.0);
            for (int64_t s = 0; s < S_; ++s) {
                if (ahead[s] == 0) continue;
                for (int64_t m = a_.into(s); m < a_.into(s + 1); ++m) {
                    const double onward = prob[m] * ahead[s];
                    before[a_.src(m)] += onward;
                    const double p = earlier[a_.src(m)] * onward * share;
                    if (expected.transitions) counts_[m] += weight * p;
                    if (expected.pairs) xi[a_.label(a_.src(m)) * Y_ + a_.label(s)] += p;
                }
            }
            if (expected.pairs)
                for (int64_t j = 0; j < Y_ * Y_; ++j)
                    expected.pairs[t * Y_ * Y_ + j] = static_cast<In>(xi[j]);
            beta.swap(before);
            rescale(beta.data());
            if (!is_ok_) return false;
        }
        for (size_t m = 0; m < counts_.size(); ++m) expected.transitions[m] += counts_[m];
        for (int64_t s = 0; s < S_; ++s) {
            if (expected.start) expected.start[s] += starts_[s];
            if (expected.stop) expected.stop[s] += stops_[s];
        }
        return true;
    }

  private:
    // x becomes exp(x - top), top being its maximum; returns the range of the finite values.
    static double exponentials(double* x, int64_t n, double& top) {
        double low = std::numeric_limits<double>::infinity(), high = kMinusInf;
        for (int64_t i = 0; i < n; ++i) {
            high = std::max(high, x[i]);
            if (x[i] > kMinusInf) low = std::min(low, x[i]);
        }
        top = high == kMinusInf ? 0 : high;
        for (int64_t i = 0; i < n; ++i) x[i] -= top;
        kernels().exp(x, n);
        return high == kMinusInf ? 0 : high - low;
    }

    bool prepare() {
        const double widest = -std::log(kLeast);
        start_.resize(S_);
        for (int64_t s = 0; s < S_; ++s) start_[s] = a_.start[s] + emission(a_, x_, 0, s);
        stop_ = a_.stop;
        if (!(exponentials(start_.data(), S_, start_top_) <= widest) ||
            !(exponentials(stop_.data(), S_, stop_top_) <= widest))
            return false;
        prob_ = a_.score;
        range_ = exponentials(prob_.data(), a_.transitions(), step_top_);
        return true;
    }

    // exp(score - step_top_) of the transitions into t; sets range_, the range of their scores.
    const double* step(int64_t t) {
        if (!x_.edge) return prob_.data();
        for (int64_t m = 0; m < a_.transitions(); ++m) prob_[m] = transition_score(a_, x_, t, m);
        range_ = exponentials(prob_.data(), a_.transitions(), step_top_);
        return prob_.data();
    }

    // Divides by the largest value and returns it. Clears is_ok_ if another value is near
    // underflow.
    double rescale(double* x) {
        double top = 0;
        for (int64_t s = 0; s < S_; ++s) top = std::max(top, x[s]);
        if (top == 0) return 0;
        const double factor = 1 / top;
        double least = 1;
        for (int64_t s = 0; s < S_; ++s) {
            x[s] *= factor;
            if (x[s] > 0) least = std::min(least, x[s]);
        }
        if (least < kLeast) is_ok_ = false;
        return top;
    }

    const Automaton& a_;
    const Sequence<In>& x_;
    const int64_t S_, Y_;
    std::vector<double> prob_, emit_, start_, stop_, alpha_, scale_;
    std::vector<double> counts_, starts_, stops_;
    double step_top_ = 0, start_top_ = 0, stop_top_ = 0, range_ = 0;
    bool is_ok_ = true;
};

}  // namespace

template <class In>
double log_partition(const Automaton& a, const Sequence<In>& x) {
    double log_z;
    if (x.T > 0 && Scaled<In>(a, x).forward(false, log_z)) return log_z;
    const int64_t S = a.states();
    std::vector<double> alpha(2 * S);
    forward_start(a, x, alpha.data());
    for (int64_t t = 1; t < x.T; ++t)
        forward_step(a, x, Fold::log_sum, t, &alpha[(t - 1) % 2 * S], &alpha[t % 2 * S]);
    return forward_total(a, Fold::log_sum, &alpha[(x.T - 1) % 2 * S]);
}

template <class In>
double expectations(const Automaton& a, const Sequence<In>& x, double weight,
                    const AutomatonExpected<In>& expected) {
    const int64_t S = a.states(), Y = a.Y(), T = x.T;
    if (expected.marginals) std::fill_n(expected.marginals, T * Y, In(0));
    if (expected.pairs) std::fill_n(expected.pairs, T * Y * Y, In(0));
    Scaled<In> scaled(a, x);
    double log_z;
    if (scaled.forward(true, log_z) && (log_z == kMinusInf || scaled.backward(weight, expected)))
        return log_z;
    std::vector<double> alpha(T * S), beta(T * S);
    log_z = forward(a, x, Fold::log_sum, alpha.data());
    if (log_z == kMinusInf) return log_z;
    backward(a, x, Fold::log_sum, beta.data());
    std::vector<double> gamma(Y), xi(expected.pairs ? Y * Y : 0), probs;
    for (int64_t t = 0; t < T; ++t) {
        std::fill(gamma.begin(), gamma.end(), 0.0);
        probs.resize(S);
        for (int64_t s = 0; s < S; ++s) probs[s] = alpha[t * S + s] + beta[t * S + s];
        normalise(probs);
        for (int64_t s = 0; s < S; ++s) {
            const double p = probs[s];
            gamma[a.label(s)] += p;
            if (t == 0 && expected.start) expected.start[s] += weight * p;
            if (t == T - 1 && expected.stop) expected.stop[s] += weight * p;
        }
        if (expected.marginals)
            for (int64_t y = 0; y < Y; ++y)
                expected.marginals[t * Y + y] = static_cast<In>(gamma[y]);
        if (t == 0 || !(expected.pairs || expected.transitions)) continue;
        std::fill(xi.begin(), xi.end(), 0.0);
        probs.resize(a.transitions());
        for (int64_t m = 0; m < a.transitions(); ++m) {
            const int64_t s = a.dst(m);
            probs[m] = alpha[(t - 1) * S + a.src(m)] + transition_score(a, x, t, m) +
                       emission(a, x, t, s) + beta[t * S + s];
        }
        normalise(probs);
        for (int64_t m = 0; m < a.transitions(); ++m) {
            if (expected.transitions) expected.transitions[m] += weight * probs[m];
            if (expected.pairs) xi[a.label(a.src(m)) * Y + a.label(a.dst(m))] += probs[m];
        }
        if (expected.pairs)
            for (int64_t j = 0; j < Y * Y; ++j)
                expected.pairs[t * Y * Y + j] = static_cast<In>(xi[j]);
    }
    return log_z;
}

template <class In>
void distant_pairs(const Automaton& a, const Sequence<In>& x, int64_t distance, In* pairs) {
    const int64_t S = a.states(), Y = a.Y(), M = a.transitions(), T = x.T;
    std::fill_n(pairs, T * Y * Y, In(0));
    if (distance >= T) return;
    std::vector<double> alpha(T * S), beta(T * S);
    const double log_z = forward(a, x, Fold::log_sum, alpha.data());
    if (log_z == kMinusInf) return;
    backward(a, x, Fold::log_sum, beta.data());
    // K[t][m] = Pr(transition m into t | its source at t - 1). These are conditional probabilities,
    // so products of any number of them are stable. The last `distance` of them are kept.
    std::vector<double> ring(distance * M), joint(Y * S), next(Y * S), gamma(S);
    for (int64_t t = 1; t < T; ++t) {
        double* K = &ring[t % distance * M];
        for (int64_t m = 0; m < M; ++m) {
            const double from = beta[(t - 1) * S + a.src(m)];
            K[m] = from == kMinusInf ? 0
                                     : std::exp(std::min(0.0, transition_score(a, x, t, m) +
                                                                  emission(a, x, t, a.dst(m)) +
                                                                  beta[t * S + a.dst(m)] - from));
        }
        const int64_t first = t - distance;
        if (first < 0) continue;
        // joint[y, s] = Pr(label y at `first`, state s now), carried from `first` to t.
        std::fill(joint.begin(), joint.end(), 0.0);
        for (int64_t s = 0; s < S; ++s) gamma[s] = alpha[first * S + s] + beta[first * S + s];
        normalise(gamma);
        for (int64_t s = 0; s < S; ++s) joint[a.label(s) * S + s] = gamma[s];
        for (int64_t u = first + 1; u <= t; ++u) {
            std::fill(next.begin(), next.end(), 0.0);
            const double* step = &ring[u % distance * M];
            for (int64_t y = 0; y < Y; ++y)
                for (int64_t m = 0; m < M; ++m)
                    next[y * S + a.dst(m)] += joint[y * S + a.src(m)] * step[m];
            joint.swap(next);
        }
        for (int64_t y = 0; y < Y; ++y) {
            std::vector<double> sum(Y, 0.0);
            for (int64_t s = 0; s < S; ++s) sum[a.label(s)] += joint[y * S + s];
            for (int64_t c = 0; c < Y; ++c) pairs[(t * Y + y) * Y + c] = static_cast<In>(sum[c]);
        }
    }
}

template <class In>
double entropy(const Automaton& a, const Sequence<In>& x) {
    // h[t, s], the entropy of the path up to t given that it is in s at t:
    //
    //   h[t, s] = sum_{m into s} q(m) * (h[t-1, src(m)] - log q(m)),   q(m) = Pr(m | s at t)
    //
    // No term is negative, so nothing cancels.
    const int64_t S = a.states(), T = x.T;
    std::vector<double> alpha(2 * S), h(2 * S, 0.0), log_q, q;
    // sum_i q_i (before_i - log q_i) with q_i proportional to exp(term_i); q_i = 0 adds nothing.
    auto mix = [&](int64_t n, const auto& term, const auto& before) {
        log_q.resize(n);
        for (int64_t i = 0; i < n; ++i) log_q[i] = term(i);
        q = log_q;
        const double total = log_sum_exp(q.data(), n);
        double norm = 0, sum = 0;
        for (int64_t i = 0; i < n; ++i) norm += q[i];
        for (int64_t i = 0; i < n; ++i)
            if (q[i] > 0) sum += q[i] * (before(i) - std::min(0.0, log_q[i] - total));
        return total == kMinusInf ? 0 : sum / norm;
    };
    forward_start(a, x, alpha.data());
    for (int64_t t = 1; t < T; ++t) {
        const double *old = &alpha[(t - 1) % 2 * S], *old_h = &h[(t - 1) % 2 * S];
        double *now = &alpha[t % 2 * S], *now_h = &h[t % 2 * S];
        forward_step(a, x, Fold::log_sum, t, old, now);
        for (int64_t s = 0; s < S; ++s) {
            const int64_t m0 = a.into(s);
            now_h[s] = mix(
                a.into(s + 1) - m0,
                [&](int64_t i) { return old[a.src(m0 + i)] + transition_score(a, x, t, m0 + i); },
                [&](int64_t i) { return old_h[a.src(m0 + i)]; });
        }
    }
    const double *last = &alpha[(T - 1) % 2 * S], *last_h = &h[(T - 1) % 2 * S];
    return mix(
        S, [&](int64_t s) { return last[s] + a.stop[s]; }, [&](int64_t s) { return last_h[s]; });
}

#define TL_INSTANTIATE(In)                                                                \
    template double log_partition<In>(const Automaton&, const Sequence<In>&);             \
    template double expectations<In>(const Automaton&, const Sequence<In>&, double,       \
                                     const AutomatonExpected<In>&);                       \
    template void distant_pairs<In>(const Automaton&, const Sequence<In>&, int64_t, In*); \
    template double entropy<In>(const Automaton&, const Sequence<In>&);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)

}  // namespace tagloom
