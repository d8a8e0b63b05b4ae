#include "core/pruned_chain.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tagloom {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// x becomes exp(x) / sum, all zero if every x is -inf; returns the log of the sum.
double normalise(double* x, int64_t n) {
    double top = -kInfinity, sum = 0;
    for (int64_t i = 0; i < n; ++i) top = std::max(top, x[i]);
    if (top == -kInfinity) {
        std::fill_n(x, n, 0.0);
        return top;
    }
    for (int64_t i = 0; i < n; ++i) sum += x[i] = std::exp(x[i] - top);
    for (int64_t i = 0; i < n; ++i) x[i] /= sum;
    return top + std::log(sum);
}

}  // namespace

template <class In>
PrunedChain<In>::PrunedChain(int64_t Y_, bool boundaries_, const Trigrams& trigrams_,
                             const Subtags& subtags_, const Pruning& pruning)
    : Y(Y_),
      boundaries(boundaries_),
      trigrams(trigrams_),
      subtags(subtags_),
      trigrams_at(Y * Y + (boundaries ? 2 * Y : 0)),
      between_at(trigrams_at + trigrams.size()),
      lists(pruning) {}

template <class In>
double PrunedChain<In>::transition(const double* tail, int64_t y_prev, int64_t y) const {
    const double own = tail[y_prev * Y + y];
    return subtags.S == 0 ? own : own + subtags.between(tail + between_at, y_prev, y);
}

template <class In>
void PrunedChain<In>::count(int64_t y_prev, int64_t y, double amount, SparseCounts& counts) const {
    counts.add(y_prev * Y + y, amount);
    if (subtags.S == 0) return;
    subtags.each(y_prev, [&](int64_t r) {
        subtags.each(y, [&](int64_t s) { counts.add(between_at + r * subtags.S + s, amount); });
    });
}

template <class In>
double PrunedChain<In>::sum(const double* tail, int64_t order, double weight, In* gamma,
                            SparseCounts& counts) {
    gammas.assign(lists.score.begin(), lists.score.end());
    const double log_z = order == 0   ? sum_positions()
                         : order == 1 ? sum_paths(tail)
                                      : sum_pairs(tail, weight, counts);
    if (log_z == -kInfinity) return log_z;
    if (order == 1) go_back(weight, counts);
    if (order > 0) count_boundaries(weight, counts);
    for (int64_t t = 0; t < length(); ++t)
        for (int64_t j = lists.rows[t]; j < lists.rows[t + 1]; ++j)
            gamma[t * Y + lists.label[j]] += static_cast<In>(weight * gammas[j]);
    return log_z;
}

template <class In>
double PrunedChain<In>::sum_positions() {
    double log_z = 0;
    for (int64_t t = 0; t < length(); ++t)
        log_z += normalise(&gammas[lists.rows[t]], lists.rows[t + 1] - lists.rows[t]);
    return log_z;
}

// Forwards: alpha, given, and gamma of the last position.
template <class In>
double PrunedChain<In>::sum_paths(const double* tail) {
    const double *start = tail + Y * Y, *stop = start + Y;
    const std::vector<int64_t>& rows = lists.rows;
    const std::vector<int32_t>& label = lists.label;
    const int64_t T = length(), C = rows[T];
    alpha = gammas;
    given.clear();
    given_at.resize(C);
    for (int64_t j = 0; boundaries && j < rows[1]; ++j) alpha[j] += start[label[j]];
    for (int64_t t = 1; t < T; ++t) {
        const int64_t before = rows[t - 1], n = rows[t] - before;
        for (int64_t j = rows[t]; j < rows[t + 1]; ++j) {
            given_at[j] = static_cast<int64_t>(given.size());
            for (int64_t i = before; i < rows[t]; ++i)
                given.push_back(alpha[i] + transition(tail, label[i], label[j]));
            alpha[j] += normalise(&given[given_at[j]], n);
        }
    }
    for (int64_t j = rows[T - 1]; j < C; ++j)
        gammas[j] = alpha[j] + (boundaries ? stop[label[j]] : 0.0);
    return normalise(&gammas[rows[T - 1]], C - rows[T - 1]);
}

// Backwards: gamma, and the counts of transitions.
template <class In>
void PrunedChain<In>::go_back(double weight, SparseCounts& counts) {
    const std::vector<int64_t>& rows = lists.rows;
    const std::vector<int32_t>& label = lists.label;
    const int64_t T = length();
    std::fill(gammas.begin(), gammas.begin() + rows[T - 1], 0.0);
    for (int64_t t = T - 1; t > 0; --t)
        for (int64_t j = rows[t]; j < rows[t + 1]; ++j) {
            const double* from = &given[given_at[j]];
            for (int64_t i = rows[t - 1]; i < rows[t]; ++i) {
                const double xi = gammas[j] * *from++;
                gammas[i] += xi;
                if (xi > 0) count(label[i], label[j], weight * xi, counts);
            }
        }
}

// gammas, and the counts of transitions and trigrams.
template <class In>
double PrunedChain<In>::sum_pairs(const double* tail, double weight, SparseCounts& counts) {
    const double *start = tail + Y * Y, *stop = start + Y;
    const std::vector<int32_t>& label = lists.label;
    pairs.set(
        trigrams, tail + trigrams_at, length(), lists.rows.data(), label.data(), lists.score.data(),
        [&](int32_t y_prev, int32_t y) { return transition(tail, y_prev, y); },
        [&](int32_t y) { return boundaries ? start[y] : 0.0; },
        [&](int32_t y) { return boundaries ? stop[y] : 0.0; });
    const double log_z = pairs.sum();
    if (log_z == -kInfinity) return log_z;
    const std::vector<double>& gamma = pairs.expect([&](int64_t k, double expected) {
        if (expected > 0) counts.add(trigrams_at + k, weight * expected);
    });
    std::fill(gammas.begin(), gammas.end(), 0.0);
    for (int64_t t = 0; t < length(); ++t)
        for (int64_t v = pairs.begin(t); v < pairs.end(t); ++v) {
            const int64_t j = pairs.newer(t, v), i = pairs.older(t, v);
            gammas[j] += gamma[v];
            if (i >= 0 && gamma[v] > 0) count(label[i], label[j], weight * gamma[v], counts);
        }
    return log_z;
}

template <class In>
void PrunedChain<In>::count_boundaries(double weight, SparseCounts& counts) const {
    const std::vector<int64_t>& rows = lists.rows;
    const std::vector<int32_t>& label = lists.label;
    const int64_t T = length();
    if (!boundaries) return;
    for (int64_t j = 0; j < rows[1]; ++j) counts.add(Y * Y + label[j], weight * gammas[j]);
    for (int64_t j = rows[T - 1]; j < rows[T]; ++j)
        counts.add(Y * Y + Y + label[j], weight * gammas[j]);
}

template <class In>
double PrunedChain<In>::follow(const double* tail, int64_t order, const In* emit,
                               const int32_t* path, double weight, SparseCounts& counts) const {
    const int64_t T = length();
    double score = 0;
    for (int64_t t = 0; t < T; ++t) score += emit[t * Y + path[t]];
    if (order == 0) return score;
    for (int64_t t = 1; t < T; ++t) {
        score += transition(tail, path[t - 1], path[t]);
        count(path[t - 1], path[t], weight, counts);
        if (order < 2 || t < 2) continue;
        const int64_t k = trigrams.find(path[t - 2], path[t - 1], path[t]);
        if (k < 0) continue;
        score += tail[trigrams_at + k];
        counts.add(trigrams_at + k, weight);
    }
    if (!boundaries) return score;
    counts.add(Y * Y + path[0], weight);
    counts.add(Y * Y + Y + path[T - 1], weight);
    return score + tail[Y * Y + path[0]] + tail[Y * Y + Y + path[T - 1]];
}

template class PrunedChain<float>;
template class PrunedChain<double>;

}  // namespace tagloom
