#include "core/lbfgs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "core/dispatch.hpp"
#include "core/history.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

constexpr int64_t kPiece = 2048;     // weights per piece; their history fits the cache
constexpr double kDecrease = 1e-4;   // Wolfe: sufficient decrease, relative to the initial slope
constexpr double kCurvature = 0.9;   // Wolfe: curvature, relative to the initial slope
constexpr int64_t kMostTrials = 20;  // per line search
constexpr int64_t kWorthThreads = 200'000;
constexpr double kExact = 1e-10;  // an objective with less rounding has a history in double

// Eight partial sums, which compilers vectorise.
template <class A, class B>
double dot(const A* a, const B* b, int64_t n) {
    double sum[8] = {};
    int64_t j = 0;
    for (; j + 8 <= n; j += 8)
        for (int w = 0; w < 8; ++w) sum[w] += static_cast<double>(a[j + w]) * b[j + w];
    for (; j < n; ++j) sum[0] += static_cast<double>(a[j]) * b[j];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

// The loops of history.hpp, for either type of history.
void add_history(const float* s, const float* y, double of_s, double of_y, int64_t n, double* out) {
    kernels().history().add({s, y, of_s, of_y, n, out});
}
void add_history(const double* s, const double* y, double of_s, double of_y, int64_t n,
                 double* out) {
    for (int64_t j = 0; j < n; ++j) out[j] += of_s * s[j] + of_y * y[j];
}
void dot_history(const float* s, const float* y, const float* new_s, const float* new_y,
                 const double* grad, int64_t n, double* sums) {
    kernels().history().dots({s, y, new_s, new_y, grad, n, sums});
}
void dot_history(const double* s, const double* y, const double* new_s, const double* new_y,
                 const double* grad, int64_t n, double* sums) {
    sums[0] = dot(s, new_y, n);
    sums[1] = dot(y, new_s, n);
    sums[2] = dot(y, new_y, n);
    sums[3] = dot(s, grad, n);
    sums[4] = dot(y, grad, n);
}

double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

// The minimum of the cubic through two points with slopes, kept well inside the interval.
double cubic_minimum(double a, double fa, double da, double b, double fb, double db) {
    const double low = std::min(a, b), high = std::max(a, b), width = high - low;
    double x = 0.5 * (a + b);
    if (std::isfinite(fb) && std::isfinite(db)) {
        const double d1 = da + db - 3 * (fa - fb) / (a - b);
        const double square = d1 * d1 - da * db;
        if (square >= 0) {
            const double d2 = (b > a ? 1 : -1) * std::sqrt(square);
            x = b - (b - a) * (db + d2 - d1) / (db - da + 2 * d2);
        }
    }
    if (!std::isfinite(x)) x = 0.5 * (a + b);
    return std::clamp(x, low + 0.1 * width, high - 0.1 * width);
}

}  // namespace

Lbfgs::Lbfgs(int64_t n_, Penalty penalty_, int64_t memory_, const uint8_t* mask_, double rounding_)
    : memory(memory_), penalty(penalty_), n(n_), rounding(rounding_) {
    for (auto* vector : {&state.theta, &state.grad, &trial, &trial_grad, &direction})
        vector->assign(n, 0.0);
    if (mask_) mask.assign(mask_, mask_ + n);
    if (rounding < kExact) state.history = LbfgsPairs<double>{};
}

std::vector<double> Lbfgs::add_pieces(
    int64_t columns, int64_t threads,
    const std::function<void(int64_t lo, int64_t hi, double* sums)>& piece) const {
    const int64_t pieces = (n + kPiece - 1) / kPiece;
    std::vector<double> partial(pieces * columns, 0.0), total(columns, 0.0);
    parallel_for(pieces, n < kWorthThreads ? 1 : threads, [&](int64_t p, int64_t) {
        piece(p * kPiece, std::min(n, (p + 1) * kPiece), partial.data() + p * columns);
    });
    for (int64_t p = 0; p < pieces; ++p)
        for (int64_t c = 0; c < columns; ++c) total[c] += partial[p * columns + c];
    return total;
}

// Returns the loss with penalties; grad becomes the gradient of its smooth part. Also computes
// norms and slope for the line search, in the same pass over memory.
double Lbfgs::add_penalties(double loss, const std::vector<double>& theta,
                            std::vector<double>& grad, int64_t threads) {
    const auto sums = add_pieces(4, threads, [&](int64_t lo, int64_t hi, double* sum) {
        double pseudo[kPiece];
        for (int64_t j = lo; j < hi; ++j) grad[j] += 2 * penalty.l2 * theta[j];
        pseudo_gradients(theta, grad, lo, hi, pseudo);
        sum[0] = dot(theta.data() + lo, theta.data() + lo, hi - lo);
        sum[1] = dot(pseudo, pseudo, hi - lo);
        if (penalty.l1 == 0) {
            sum[2] = dot(grad.data() + lo, direction.data() + lo, hi - lo);
        } else {
            for (int64_t j = lo; j < hi; ++j) sum[3] += std::abs(theta[j]);
        }
    });
    trial_norm = std::sqrt(sums[0]);
    trial_grad_norm = std::sqrt(sums[1]);
    derivative = sums[2];
    return loss + penalty.l2 * sums[0] + penalty.l1 * sums[3];
}

// The pseudo-gradient of F in one weight. At 0, where |theta| is not differentiable, it is the
// one-sided derivative on the side where F decreases, or 0 if it decreases on neither.
double Lbfgs::pseudo_gradient(double theta, double grad) const {
    if (penalty.l1 == 0) return grad;
    if (theta != 0) return grad + penalty.l1 * sign(theta);
    return grad > penalty.l1 ? grad - penalty.l1 : grad < -penalty.l1 ? grad + penalty.l1 : 0;
}

void Lbfgs::pseudo_gradients(const std::vector<double>& theta, const std::vector<double>& grad,
                             int64_t lo, int64_t hi, double* out) const {
    if (penalty.l1 == 0) {
        std::copy(grad.data() + lo, grad.data() + hi, out);
    } else {
        for (int64_t j = lo; j < hi; ++j) *out++ = pseudo_gradient(theta[j], grad[j]);
    }
}

void Lbfgs::clear_history() {
    std::visit(
        [](auto& pairs) {
            pairs.s.clear();
            pairs.y.clear();
        },
        state.history);
    state.sy.clear();
    state.yy.clear();
    state.s_dot_grad.clear();
    state.y_dot_grad.clear();
}

Iteration Lbfgs::step(const Objective& objective, int64_t threads) {
    while (const double* point = ask(threads))
        if (tell(objective.evaluate(point, gradient(), threads), threads)) break;
    return iteration;
}

const double* Lbfgs::ask(int64_t threads) {
    if (is_complete) iteration = {};
    is_complete = false;
    if (!state.evaluated) {
        for (int64_t j = 0; j < static_cast<int64_t>(mask.size()); ++j)
            if (!mask[j]) state.theta[j] = 0;
        clear_history();
        has_point = true;
        return state.theta.data();
    }
    if (!is_searching) {
        find_direction(threads);
        is_searching = begin_search(threads) || begin_again(threads);
        if (!is_searching) finish(false, threads);
    }
    has_point = is_searching;
    return is_searching ? trial.data() : nullptr;
}

double* Lbfgs::gradient() { return (state.evaluated ? trial_grad : state.grad).data(); }

bool Lbfgs::tell(double loss, const double* grad, int64_t threads) {
    double* own = gradient();
    std::copy_n(grad, n, own);
    for (int64_t j = 0; j < static_cast<int64_t>(mask.size()); ++j)
        if (!mask[j]) own[j] = 0;
    return tell(loss, threads);
}

bool Lbfgs::tell(double loss, int64_t threads) {
    if (!std::exchange(has_point, false))
        throw std::invalid_argument("tell() needs a point from ask() first");
    ++iteration.evaluations;
    if (!state.evaluated) {
        state.loss = add_penalties(loss, state.theta, state.grad, threads);
        state.evaluated = true;
        return false;
    }
    iteration.loss = add_penalties(loss, trial, trial_grad, threads);
    switch (judge(iteration.loss)) {
        case Verdict::again:
            try_step(search.step, threads);
            return false;
        case Verdict::failed:
            if (begin_again(threads)) return false;
            finish(false, threads);
            return true;
        case Verdict::found:
            remember(iteration.loss, threads);
            finish(true, threads);
            return true;
    }
    return true;
}

void Lbfgs::finish(bool moved, int64_t threads) {
    iteration.moved = moved;
    if (moved) {
        iteration.norm = trial_norm;  // of the last trial, now theta
        iteration.grad_norm = trial_grad_norm;
    } else {
        const auto square = add_pieces(1, threads, [&](int64_t lo, int64_t hi, double* sum) {
            sum[0] = dot(state.theta.data() + lo, state.theta.data() + lo, hi - lo);
        });
        iteration.norm = std::sqrt(square[0]);
        iteration.grad_norm = grad_norm;
    }
    iteration.loss = state.loss;
    is_searching = false;
    is_complete = true;
}

void Lbfgs::start_from(const double* theta) {
    std::copy_n(theta, n, state.theta.begin());
    state.evaluated = false;
    is_searching = has_point = false;
    is_complete = true;
}

void Lbfgs::restore(LbfgsState from) {
    state = std::move(from);
    is_searching = has_point = false;
    is_complete = true;
}

// direction = -H * pseudo-gradient, as a linear combination of the gradient and all s_i and y_i.
// The two-loop recursion runs on the coefficients only; the sum follows.
void Lbfgs::find_direction(int64_t threads) {
    const int64_t k = state.pairs();
    std::vector<double> of_s(k, 0.0), of_y(k, 0.0), alpha(k, 0.0);
    double of_grad = -1;
    for (int64_t i = k - 1; i >= 0; --i) {  // q -= alpha_i y_i
        double sq = of_grad * state.s_dot_grad[i];
        for (int64_t j = 0; j < k; ++j) sq += of_y[j] * state.sy[i * k + j];
        alpha[i] = sq / state.sy[i * k + i];
        of_y[i] -= alpha[i];
    }
    if (k > 0) {
        const double scale = state.sy[k * k - 1] / state.yy[k * k - 1];
        of_grad *= scale;
        for (double& c : of_y) c *= scale;
    }
    for (int64_t i = 0; i < k; ++i) {  // q += (alpha_i - beta) s_i
        double yq = of_grad * state.y_dot_grad[i];
        for (int64_t j = 0; j < k; ++j)
            yq += of_y[j] * state.yy[i * k + j] + of_s[j] * state.sy[j * k + i];
        of_s[i] += alpha[i] - yq / state.sy[i * k + i];
    }
    const auto sums = add_pieces(2, threads, [&](int64_t lo, int64_t hi, double* sum) {
        double grad[kPiece];
        double* d = direction.data();
        pseudo_gradients(state.theta, state.grad, lo, hi, grad);
        for (int64_t j = lo; j < hi; ++j) d[j] = of_grad * grad[j - lo];
        std::visit(
            [&](const auto& pairs) {
                for (int64_t i = 0; i < k; ++i)
                    add_history(pairs.s[i].data() + lo, pairs.y[i].data() + lo, of_s[i], of_y[i],
                                hi - lo, d + lo);
            },
            state.history);
        if (penalty.l1 > 0)  // only components that descend along the pseudo-gradient
            for (int64_t j = lo; j < hi; ++j) d[j] = d[j] * grad[j - lo] < 0 ? d[j] : 0;
        sum[0] = dot(d + lo, grad, hi - lo);
        sum[1] = dot(grad, grad, hi - lo);
    });
    slope = sums[0];
    grad_norm = std::sqrt(sums[1]);
}

// Begins the search for a step that satisfies the Wolfe conditions (with l1: sufficient decrease
// within the orthant); false if the direction does not descend. The accepted step ends up in trial,
// trial_grad and iteration.loss.
bool Lbfgs::begin_search(int64_t threads) {
    if (!(grad_norm > 0) || !(slope < 0)) return false;
    search = {};
    search.f0 = search.f_low = state.loss;
    search.d0 = search.d_low = slope;
    search.high = std::numeric_limits<double>::infinity();
    search.step = state.pairs() == 0 ? 1 / grad_norm : 1;
    try_step(search.step, threads);
    return true;
}

// Restarts along the gradient, without the history. False if that already was the direction.
bool Lbfgs::begin_again(int64_t threads) {
    if (!(grad_norm > 0) || state.pairs() == 0) return false;
    clear_history();
    find_direction(threads);
    return begin_search(threads);
}

// trial = theta + step * direction; with l1, weights that would leave the orthant become 0.
void Lbfgs::try_step(double step, int64_t threads) {
    const auto moved = add_pieces(1, threads, [&](int64_t lo, int64_t hi, double* sum) {
        for (int64_t j = lo; j < hi; ++j) trial[j] = state.theta[j] + step * direction[j];
        if (penalty.l1 == 0) return;
        for (int64_t j = lo; j < hi; ++j) {
            const double theta = state.theta[j];
            const double grad = pseudo_gradient(theta, state.grad[j]);
            const double orthant = theta != 0 ? sign(theta) : -sign(grad);
            if (trial[j] * orthant <= 0) trial[j] = 0;
            sum[0] += grad * (trial[j] - theta);
        }
    });
    search.expected = moved[0];
}

// Judges the trial by its loss: accept it, fail, or try search.step next.
Lbfgs::Verdict Lbfgs::judge(double loss) {
    if (search.settles) return Verdict::found;
    return penalty.l1 > 0 ? judge_orthant(loss) : judge_wolfe(loss);
}

Lbfgs::Verdict Lbfgs::judge_orthant(double f) {
    const double decrease = kDecrease * search.expected;
    const double noise = rounding * std::abs(search.f0);
    if (f <= search.f0 + decrease + noise && decrease < 0) return Verdict::found;
    search.step *= 0.5;
    return ++search.trials < kMostTrials ? Verdict::again : Verdict::failed;
}

Lbfgs::Verdict Lbfgs::judge_wolfe(double f) {
    auto& [a, f0, d0, expected, low, f_low, d_low, high, f_high, d_high, trials, settles] = search;
    const double decrease = kDecrease * (a * d0), noise = rounding * std::abs(f0);
    if (!(f <= f0 + decrease + noise) || (low > 0 && f > f_low + noise)) {
        high = a, f_high = f, d_high = derivative;
    } else {
        if (std::abs(derivative) <= -kCurvature * d0) return Verdict::found;
        if (derivative * (std::isfinite(high) ? high - low : 1) >= 0)
            high = low, f_high = f_low, d_high = d_low;
        low = a, f_low = f, d_low = derivative;
    }
    const bool is_bracketed = std::isfinite(high);
    const bool is_narrow = is_bracketed && std::abs(high - low) <= 1e-12 * std::max(high, low);
    if (++trials < kMostTrials && !is_narrow) {
        a = is_bracketed ? cubic_minimum(low, f_low, d_low, high, f_high, d_high) : a * 4;
        return Verdict::again;
    }
    if (low == 0) return Verdict::failed;
    a = low;  // violates the Wolfe conditions, but lowers the loss
    settles = true;
    return Verdict::again;
}

// Makes trial the new theta, and extends the history and its table of dot products.
void Lbfgs::remember(double loss, int64_t threads) {
    std::swap(state.theta, trial);
    std::swap(state.grad, trial_grad);
    state.loss = loss;
    const std::vector<double>&before = trial, &grad_before = trial_grad;
    if (memory == 0) return;
    make_room();
    const int64_t k = state.pairs();
    auto extend = [&]<class T>(LbfgsPairs<T>& pairs, int64_t lo, int64_t hi, double* sum) {
        T *s = pairs.s.back().data(), *y = pairs.y.back().data();
        double grad[kPiece];
        pseudo_gradients(state.theta, state.grad, lo, hi, grad);
        for (int64_t j = lo; j < hi; ++j) {
            s[j] = static_cast<T>(state.theta[j] - before[j]);
            y[j] = static_cast<T>(state.grad[j] - grad_before[j]);
        }
        for (int64_t i = 0; i < k; ++i)
            dot_history(pairs.s[i].data() + lo, pairs.y[i].data() + lo, s + lo, y + lo, grad,
                        hi - lo, sum + kHistoryDots * i);
    };
    const auto sums =
        add_pieces(kHistoryDots * k, threads, [&](int64_t lo, int64_t hi, double* sum) {
            std::visit([&](auto& pairs) { extend(pairs, lo, hi, sum); }, state.history);
        });
    state.s_dot_grad.resize(k);
    state.y_dot_grad.resize(k);
    for (int64_t i = 0; i < k; ++i) {
        const double* of_pair = sums.data() + kHistoryDots * i;
        state.sy[i * k + k - 1] = of_pair[0];
        state.sy[(k - 1) * k + i] = of_pair[1];
        state.yy[i * k + k - 1] = state.yy[(k - 1) * k + i] = of_pair[2];
        state.s_dot_grad[i] = of_pair[3];
        state.y_dot_grad[i] = of_pair[4];
    }
    // A pair without positive curvature (OWL-QN does not ensure it) would spoil the direction.
    if (!(state.sy[k * k - 1] > 1e-12 * state.yy[k * k - 1])) drop_newest();
}

// Makes room for one more pair at the end of the history.
void Lbfgs::make_room() {
    if (state.pairs() == memory) {  // drop the oldest pair, reuse its memory
        const int64_t k = memory;
        std::visit(
            [](auto& pairs) {
                std::rotate(pairs.s.begin(), pairs.s.begin() + 1, pairs.s.end());
                std::rotate(pairs.y.begin(), pairs.y.begin() + 1, pairs.y.end());
            },
            state.history);
        for (auto* table : {&state.sy, &state.yy})
            for (int64_t i = 0; i + 1 < k; ++i)
                for (int64_t j = 0; j + 1 < k; ++j)
                    (*table)[i * k + j] = (*table)[(i + 1) * k + j + 1];
    } else {
        const int64_t k = state.pairs() + 1;
        std::visit(
            [&](auto& pairs) {
                pairs.s.emplace_back(n);
                pairs.y.emplace_back(n);
            },
            state.history);
        for (auto* table : {&state.sy, &state.yy}) {
            std::vector<double> wider(k * k, 0.0);
            for (int64_t i = 0; i + 1 < k; ++i)
                for (int64_t j = 0; j + 1 < k; ++j) wider[i * k + j] = (*table)[i * (k - 1) + j];
            *table = std::move(wider);
        }
    }
}

void Lbfgs::drop_newest() {
    const int64_t k = state.pairs();
    for (auto* table : {&state.sy, &state.yy}) {
        std::vector<double> narrower;
        for (int64_t i = 0; i + 1 < k; ++i)
            narrower.insert(narrower.end(), table->begin() + i * k, table->begin() + i * k + k - 1);
        *table = std::move(narrower);
    }
    std::visit(
        [](auto& pairs) {
            pairs.s.pop_back();
            pairs.y.pop_back();
        },
        state.history);
    state.s_dot_grad.pop_back();
    state.y_dot_grad.pop_back();
}

}  // namespace tagloom
