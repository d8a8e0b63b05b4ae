#include "core/automaton.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <unordered_map>

#include "core/dispatch.hpp"

namespace tagloom {
namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

// The log of the sum of exp(x[i]); x becomes exp(x[i] - its maximum).
double log_sum_exp(double* x, int64_t n) {
    double m = kMinusInf;
    for (int64_t i = 0; i < n; ++i) m = std::max(m, x[i]);
    if (m == kMinusInf) return m;
    for (int64_t i = 0; i < n; ++i) x[i] -= m;
    kernels().exp(x, n);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += x[i];
    return m + std::log(sum);
}

// Scores become probabilities that sum to one. At every position the scores of all states, and of
// all moves, sum to log_z; their own sum is used instead, because it cannot be off by rounding of
// log_z.
void normalise(std::vector<double>& scores) {
    log_sum_exp(scores.data(), scores.size());
    double sum = 0;
    for (double x : scores) sum += x;
    for (double& x : scores) x /= sum;
}

// The fold of term(0) .. term(n - 1): their maximum, or the log of the sum of their exponentials.
template <class Term>
double fold_terms(Fold fold, int64_t n, const Term& term) {
    if (fold == Fold::max) {
        double m = kMinusInf;
        for (int64_t i = 0; i < n; ++i) m = std::max(m, term(i));
        return m;
    }
    thread_local std::vector<double> terms;
    if (static_cast<int64_t>(terms.size()) < n) terms.resize(n);
    for (int64_t i = 0; i < n; ++i) terms[i] = term(i);
    return log_sum_exp(terms.data(), n);
}

// Score of move m into position t, without the emission there.
template <class In>
double move_score(const Automaton& a, const Sequence<In>& x, int64_t t, int64_t m) {
    if (!x.edge) return a.score[m];
    return a.score[m] + x.edge[(t * a.Y + a.label[a.src[m]]) * a.Y + a.label[a.dst[m]]];
}

template <class In>
double emission(const Automaton& a, const Sequence<In>& x, int64_t t, int64_t s) {
    return x.emit[t * a.Y + a.label[s]];
}

// alpha[t] from alpha[t - 1].
template <class In>
void forward_step(const Automaton& a, const Sequence<In>& x, Fold fold, int64_t t,
                  const double* before, double* alpha) {
    for (int64_t s = 0; s < a.states(); ++s) {
        const double emit = emission(a, x, t, s);
        if (emit == kMinusInf) {
            alpha[s] = kMinusInf;
            continue;
        }
        const int64_t m0 = a.into[s];
        alpha[s] = emit + fold_terms(fold, a.into[s + 1] - m0, [&](int64_t i) {
                       return before[a.src[m0 + i]] + move_score(a, x, t, m0 + i);
                   });
    }
}

template <class In>
void forward_start(const Automaton& a, const Sequence<In>& x, double* alpha) {
    for (int64_t s = 0; s < a.states(); ++s) alpha[s] = a.start[s] + emission(a, x, 0, s);
}

double forward_total(const Automaton& a, Fold fold, const double* alpha) {
    return fold_terms(fold, a.states(), [&](int64_t s) { return alpha[s] + a.stop[s]; });
}

}  // namespace

void Automaton::index() {
    const int64_t S = states(), M = moves();
    into.assign(S + 1, 0);
    out_of.assign(S + 1, 0);
    by_src.resize(M);
    for (int64_t m = 0; m < M; ++m) {
        ++into[dst[m] + 1];
        ++out_of[src[m] + 1];
    }
    for (int64_t s = 0; s < S; ++s) {
        into[s + 1] += into[s];
        out_of[s + 1] += out_of[s];
    }
    std::vector<int64_t> next(out_of.begin(), out_of.end() - 1);
    for (int64_t m = 0; m < M; ++m) by_src[next[src[m]]++] = m;
}

template <class In>
double forward(const Automaton& a, const Sequence<In>& x, Fold fold, double* alpha) {
    const int64_t S = a.states();
    forward_start(a, x, alpha);
    for (int64_t t = 1; t < x.T; ++t)
        forward_step(a, x, fold, t, alpha + (t - 1) * S, alpha + t * S);
    return forward_total(a, fold, alpha + (x.T - 1) * S);
}

template <class In>
double backward(const Automaton& a, const Sequence<In>& x, Fold fold, double* beta) {
    const int64_t S = a.states();
    std::copy(a.stop.begin(), a.stop.end(), beta + (x.T - 1) * S);
    for (int64_t t = x.T - 1; t > 0; --t)
        for (int64_t s = 0; s < S; ++s) {
            const int64_t* out = &a.by_src[a.out_of[s]];
            beta[(t - 1) * S + s] = fold_terms(fold, a.out_of[s + 1] - a.out_of[s], [&](int64_t i) {
                const int64_t m = out[i], to = a.dst[m];
                return move_score(a, x, t, m) + emission(a, x, t, to) + beta[t * S + to];
            });
        }
    return fold_terms(fold, S,
                      [&](int64_t s) { return a.start[s] + emission(a, x, 0, s) + beta[s]; });
}

namespace {

// Sums over paths on probabilities instead of logarithms, many times as fast. At every position the
// largest is 1, and a step multiplies by no less than exp(-kWidest): as long as nothing falls below
// kLeast, no number has lost a digit to underflow. Otherwise log space must answer.
constexpr double kLeast = 1e-130, kWidest = 390;  // kLeast * exp(-390) = 1e-299

template <class In>
class Scaled {
  public:
    Scaled(const Automaton& a, const Sequence<In>& x) : a_(a), x_(x), S_(a.states()), Y_(a.Y) {
        is_ok_ = prepare();
    }

    // False where it cannot answer. log_z is -inf where there is no path. Only backward() needs
    // what is kept of every position.
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
                if (!(emits + moves_ <= kWidest)) return is_ok_ = false;
                for (int64_t s = 0; s < S_; ++s) {
                    double sums[4] = {};  // four at a time: an addition waits for the one before
                    int64_t m = a_.into[s];
                    for (; m + 4 <= a_.into[s + 1]; m += 4)
                        for (int64_t j = 0; j < 4; ++j)
                            sums[j] += before[a_.src[m + j]] * prob[m + j];
                    for (; m < a_.into[s + 1]; ++m) sums[0] += before[a_.src[m]] * prob[m];
                    now[s] = (sums[0] + sums[1] + sums[2] + sums[3]) * emit[a_.label[s]];
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
        // Starts and stops can both be there with nothing in common.
        if (total > 0 && total < kLeast) return false;
        log_z = total > 0 ? log_scale + std::log(total) : kMinusInf;
        return true;
    }

    // After forward(true, ...) has found a path. `expected` is written only where this is true.
    bool backward(double weight, const AutomatonExpected<In>& expected) {
        std::vector<double> beta(stop_), before(S_), ahead(S_), gamma(Y_);
        std::vector<double> xi(expected.pairs ? Y_ * Y_ : 0);
        counts_.assign(expected.moves ? a_.moves() : 0, 0.0);
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
                gamma[a_.label[s]] += p;
                if (t == 0) starts_[s] = weight * p;
                if (t == x_.T - 1) stops_[s] = weight * p;
            }
            if (expected.marginals)
                for (int64_t y = 0; y < Y_; ++y)
                    expected.marginals[t * Y_ + y] = static_cast<In>(gamma[y]);
            if (t == 0) break;
            // All moves into t together weigh total * scale[t].
            const double *prob = step(t), *emit = &emit_[t * Y_], *earlier = alpha - S_;
            const double share = 1 / (total * scale_[t]);
            for (int64_t s = 0; s < S_; ++s) ahead[s] = beta[s] * emit[a_.label[s]];
            std::fill(before.begin(), before.end(), 0.0);
            std::fill(xi.begin(), xi.end(), 0.0);
            for (int64_t s = 0; s < S_; ++s) {
                if (ahead[s] == 0) continue;
                for (int64_t m = a_.into[s]; m < a_.into[s + 1]; ++m) {
                    const double onward = prob[m] * ahead[s];
                    before[a_.src[m]] += onward;
                    const double p = earlier[a_.src[m]] * onward * share;
                    if (expected.moves) counts_[m] += weight * p;
                    if (expected.pairs) xi[a_.label[a_.src[m]] * Y_ + a_.label[s]] += p;
                }
            }
            if (expected.pairs)
                for (int64_t j = 0; j < Y_ * Y_; ++j)
                    expected.pairs[t * Y_ * Y_ + j] = static_cast<In>(xi[j]);
            beta.swap(before);
            rescale(beta.data());
            if (!is_ok_) return false;
        }
        for (size_t m = 0; m < counts_.size(); ++m) expected.moves[m] += counts_[m];
        for (int64_t s = 0; s < S_; ++s) {
            if (expected.start) expected.start[s] += starts_[s];
            if (expected.stop) expected.stop[s] += stops_[s];
        }
        return true;
    }

  private:
    // exp(x - its largest) in place; returns how far apart the finite ones were.
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
        moves_ = exponentials(prob_.data(), a_.moves(), step_top_);
        return true;
    }

    // The probabilities of the moves into t, less exp(step_top_); moves_ tells how far apart they
    // are.
    const double* step(int64_t t) {
        if (!x_.edge) return prob_.data();
        for (int64_t m = 0; m < a_.moves(); ++m) prob_[m] = move_score(a_, x_, t, m);
        moves_ = exponentials(prob_.data(), a_.moves(), step_top_);
        return prob_.data();
    }

    // The largest becomes 1; returns what it was. Not ok if another one came near underflow.
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
    double step_top_ = 0, start_top_ = 0, stop_top_ = 0, moves_ = 0;
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
    const int64_t S = a.states(), Y = a.Y, T = x.T;
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
            gamma[a.label[s]] += p;
            if (t == 0 && expected.start) expected.start[s] += weight * p;
            if (t == T - 1 && expected.stop) expected.stop[s] += weight * p;
        }
        if (expected.marginals)
            for (int64_t y = 0; y < Y; ++y)
                expected.marginals[t * Y + y] = static_cast<In>(gamma[y]);
        if (t == 0 || !(expected.pairs || expected.moves)) continue;
        std::fill(xi.begin(), xi.end(), 0.0);
        probs.resize(a.moves());
        for (int64_t m = 0; m < a.moves(); ++m) {
            const int64_t s = a.dst[m];
            probs[m] = alpha[(t - 1) * S + a.src[m]] + move_score(a, x, t, m) +
                       emission(a, x, t, s) + beta[t * S + s];
        }
        normalise(probs);
        for (int64_t m = 0; m < a.moves(); ++m) {
            if (expected.moves) expected.moves[m] += weight * probs[m];
            if (expected.pairs) xi[a.label[a.src[m]] * Y + a.label[a.dst[m]]] += probs[m];
        }
        if (expected.pairs)
            for (int64_t j = 0; j < Y * Y; ++j)
                expected.pairs[t * Y * Y + j] = static_cast<In>(xi[j]);
    }
    return log_z;
}

template <class In>
void distant_pairs(const Automaton& a, const Sequence<In>& x, int64_t distance, In* pairs) {
    const int64_t S = a.states(), Y = a.Y, M = a.moves(), T = x.T;
    std::fill_n(pairs, T * Y * Y, In(0));
    if (distance >= T) return;
    std::vector<double> alpha(T * S), beta(T * S);
    const double log_z = forward(a, x, Fold::log_sum, alpha.data());
    if (log_z == kMinusInf) return;
    backward(a, x, Fold::log_sum, beta.data());
    // K[t][m] = Pr(move m into t | its source at t - 1): a chain of true probabilities, so products
    // of any number of them are stable. The last `distance` of them are kept.
    std::vector<double> ring(distance * M), joint(Y * S), next(Y * S), gamma(S);
    for (int64_t t = 1; t < T; ++t) {
        double* K = &ring[t % distance * M];
        for (int64_t m = 0; m < M; ++m) {
            const double from = beta[(t - 1) * S + a.src[m]];
            K[m] =
                from == kMinusInf
                    ? 0
                    : std::exp(std::min(0.0, move_score(a, x, t, m) + emission(a, x, t, a.dst[m]) +
                                                 beta[t * S + a.dst[m]] - from));
        }
        const int64_t first = t - distance;
        if (first < 0) continue;
        // joint[y, s] = Pr(label y at `first`, state s now), carried from `first` to t.
        std::fill(joint.begin(), joint.end(), 0.0);
        for (int64_t s = 0; s < S; ++s) gamma[s] = alpha[first * S + s] + beta[first * S + s];
        normalise(gamma);
        for (int64_t s = 0; s < S; ++s) joint[a.label[s] * S + s] = gamma[s];
        for (int64_t u = first + 1; u <= t; ++u) {
            std::fill(next.begin(), next.end(), 0.0);
            const double* step = &ring[u % distance * M];
            for (int64_t y = 0; y < Y; ++y)
                for (int64_t m = 0; m < M; ++m)
                    next[y * S + a.dst[m]] += joint[y * S + a.src[m]] * step[m];
            joint.swap(next);
        }
        for (int64_t y = 0; y < Y; ++y) {
            std::vector<double> sum(Y, 0.0);
            for (int64_t s = 0; s < S; ++s) sum[a.label[s]] += joint[y * S + s];
            for (int64_t c = 0; c < Y; ++c) pairs[(t * Y + y) * Y + c] = static_cast<In>(sum[c]);
        }
    }
}

namespace {

// Best paths to every state at every position, less their maximum there, with the move that each
// took. Ties go to the path whose labels are lowest, compared from the end.
struct BestPaths {
    std::vector<double> alpha;     // [T, S]
    std::vector<double> offset;    // [T] what was taken off
    std::vector<int32_t> arrival;  // [T, S] move into s, -1 at the start or where there is none

    template <class In>
    BestPaths(const Automaton& a, const Sequence<In>& x);
};

// Whether the best path to s comes before the one to r at position t, when both score the same.
bool tie_before(const Automaton& a, const std::vector<int32_t>& arrival, int64_t t, int64_t s,
                int64_t r) {
    const int64_t S = a.states();
    for (; s != r; --t) {
        if (a.label[s] != a.label[r]) return a.label[s] < a.label[r];
        if (t == 0) return s < r;
        s = a.src[arrival[t * S + s]];
        r = a.src[arrival[t * S + r]];
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
            for (int64_t m = a.into[s]; m < a.into[s + 1]; ++m) {
                const double score = before[a.src[m]] + move_score(a, x, t, m);
                if (score > best || (score == best && arg >= 0 &&
                                     tie_before(a, arrival, t - 1, a.src[m], a.src[arg])))
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
        path[t] = a.label[state];
        if (t == 0) return true;
        state = a.src[best.arrival[t * S + state]];
    }
}

namespace {

// Lazy n-best (Huang and Chiang 2005, algorithm 3, for a chain). The best path to every state is
// known; further ones are made only where a longer path asks for them. A derivation says: arrive by
// this move from the rank-th best path to its source.
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
            path[t] = a_.label[s];
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
        s = a_.src[move];
        rank = r;
    }

    // Order of two derivations at t: by score, then by their labels from the end.
    bool before(int64_t t, const Derivation& p, const Derivation& q) const {
        if (p.score != q.score) return p.score > q.score;
        int64_t s = source(t, p.move), r = source(t, q.move), i = p.rank, j = q.rank;
        for (--t; s != r; --t) {
            if (a_.label[s] != a_.label[r]) return a_.label[s] < a_.label[r];
            if (t == 0) return s < r;
            step_back(t, s, i);
            step_back(t, r, j);
        }
        return i < j;
    }

    int64_t source(int64_t t, int64_t move) const { return t == x_.T ? move : a_.src[move]; }

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
        const int64_t lo = t == x_.T ? 0 : a_.into[s], hi = t == x_.T ? S_ : a_.into[s + 1];
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

    // Puts the pending derivation among the waiting ones; false if its source must be asked first.
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

template <class In>
bool sample(const Automaton& a, const Sequence<In>& x, int64_t n, const double* uniform,
            int64_t row_stride, int32_t* paths) {
    const int64_t S = a.states(), T = x.T;
    std::vector<double> alpha(T * S);
    const double log_z = forward(a, x, Fold::log_sum, alpha.data());
    if (log_z == kMinusInf) return false;
    std::vector<double> weight;
    // Index i with probability proportional to exp(weight[i]); never one whose weight is -inf.
    auto draw = [&](double u) {
        log_sum_exp(weight.data(), weight.size());
        double sum = 0;
        for (double w : weight) sum += w;
        double rest = u * sum;
        int64_t last = 0;
        for (size_t i = 0; i < weight.size(); ++i) {
            if (weight[i] == 0) continue;
            last = i;
            rest -= weight[i];
            if (rest < 0) break;
        }
        return last;
    };
    for (int64_t k = 0; k < n; ++k) {
        const double* u = uniform + k * row_stride;
        int32_t* path = paths + k * row_stride;
        weight.resize(S);
        for (int64_t s = 0; s < S; ++s) weight[s] = alpha[(T - 1) * S + s] + a.stop[s];
        int64_t state = draw(u[T - 1]);
        for (int64_t t = T - 1;; --t) {
            path[t] = a.label[state];
            if (t == 0) break;
            const int64_t m0 = a.into[state];
            weight.resize(a.into[state + 1] - m0);
            for (size_t i = 0; i < weight.size(); ++i)
                weight[i] = alpha[(t - 1) * S + a.src[m0 + i]] + move_score(a, x, t, m0 + i);
            state = a.src[m0 + draw(u[t - 1])];
        }
    }
    return true;
}

template <class In>
double entropy(const Automaton& a, const Sequence<In>& x) {
    // h[s] = entropy of the path so far, given that it is in s now:
    // h[t, s] = sum over moves m into s of q (h[t-1, src] - log q), q = Pr(m | s at t): a sum of
    // terms that are not negative, so nothing cancels.
    const int64_t S = a.states(), T = x.T;
    std::vector<double> alpha(2 * S), h(2 * S, 0.0), log_q, q;
    // sum_i q_i (before_i - log q_i) for q_i proportional to exp(term_i); those of weight 0 add
    // nothing.
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
            const int64_t m0 = a.into[s];
            now_h[s] = mix(
                a.into[s + 1] - m0,
                [&](int64_t i) { return old[a.src[m0 + i]] + move_score(a, x, t, m0 + i); },
                [&](int64_t i) { return old_h[a.src[m0 + i]]; });
        }
    }
    const double *last = &alpha[(T - 1) % 2 * S], *last_h = &h[(T - 1) % 2 * S];
    return mix(
        S, [&](int64_t s) { return last[s] + a.stop[s]; }, [&](int64_t s) { return last_h[s]; });
}

template <class In>
int64_t first_dead_position(const Automaton& a, const Sequence<In>& x) {
    const int64_t S = a.states();
    std::vector<double> alpha(2 * S);
    for (int64_t t = 0; t < x.T; ++t) {
        double* now = &alpha[t % 2 * S];
        if (t == 0)
            forward_start(a, x, now);
        else
            forward_step(a, x, Fold::max, t, &alpha[(t - 1) % 2 * S], now);
        if (*std::max_element(now, now + S) == kMinusInf) return t;
    }
    const double total = x.T ? forward_total(a, Fold::max, &alpha[(x.T - 1) % 2 * S]) : 0.0;
    return total == kMinusInf ? x.T : -1;
}

template <class In>
double path_score(const Automaton& a, const Sequence<In>& x, const int32_t* path) {
    if (x.T == 0) return 0;
    int64_t state = 0;
    while (state < a.states() && !(a.label[state] == path[0] && a.start[state] > kMinusInf))
        ++state;
    if (state == a.states()) return kMinusInf;
    double sum = a.start[state] + emission(a, x, 0, state);
    for (int64_t t = 1; t < x.T; ++t) {
        int64_t i = a.out_of[state];
        while (i < a.out_of[state + 1] && a.label[a.dst[a.by_src[i]]] != path[t]) ++i;
        if (i == a.out_of[state + 1]) return kMinusInf;
        const int64_t m = a.by_src[i];
        state = a.dst[m];
        sum += move_score(a, x, t, m) + emission(a, x, t, state);
    }
    return sum + a.stop[state];
}

#define TL_INSTANTIATE(In)                                                                  \
    template double forward<In>(const Automaton&, const Sequence<In>&, Fold, double*);      \
    template double backward<In>(const Automaton&, const Sequence<In>&, Fold, double*);     \
    template double log_partition<In>(const Automaton&, const Sequence<In>&);               \
    template double expectations<In>(const Automaton&, const Sequence<In>&, double,         \
                                     const AutomatonExpected<In>&);                         \
    template void distant_pairs<In>(const Automaton&, const Sequence<In>&, int64_t, In*);   \
    template bool viterbi<In>(const Automaton&, const Sequence<In>&, int32_t*);             \
    template int64_t nbest<In>(const Automaton&, const Sequence<In>&, int64_t,              \
                               std::vector<int32_t>&);                                      \
    template bool sample<In>(const Automaton&, const Sequence<In>&, int64_t, const double*, \
                             int64_t, int32_t*);                                            \
    template double entropy<In>(const Automaton&, const Sequence<In>&);                     \
    template int64_t first_dead_position<In>(const Automaton&, const Sequence<In>&);        \
    template double path_score<In>(const Automaton&, const Sequence<In>&, const int32_t*);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)

}  // namespace tagloom
