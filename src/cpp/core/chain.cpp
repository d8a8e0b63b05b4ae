#include "core/chain.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/dispatch.hpp"

namespace tagloom {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

template <class T>
void grow(std::vector<T>& vector, int64_t size) {
    if (static_cast<int64_t>(vector.size()) < size) vector.resize(size);
}

}  // namespace

template <class In>
Chain<In>::Chain(const Space& space_, bool boundaries_, bool with_edges, bool separate_)
    : space(space_),
      boundaries(boundaries_),
      separate(separate_),
      is_dense(!separate && (space.levels == 1 || (space.levels > 1 && !with_edges))),
      Y(space.Y),
      stride(round_up(Y, 8)),
      rows(is_dense ? space.levels * space.G * Y : 0),
      scores(rows * stride, -kInfinity),
      start(Y),
      stop(Y),
      probs(rows * stride),
      probs_stop(round_up(Y, 8)),
      offsets(std::max<int64_t>(space.levels, 1)),
      row(Y + 8),
      matrix(is_dense ? Y * stride : 0),
      automaton(space) {}

template <class In>
void Chain<In>::set(const double* tail_) {
    tail = tail_;
    is_scored = false;
    if (separate) return;
    if (!is_dense) {
        score_transitions();
        return;
    }
    const double* tied = tail + space.ties_at(boundaries);
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < Y; ++c)
            scores[r * stride + c] = space.transition_score(tail, tied, space.dense[r * Y + c]);
    if (!boundaries) return;
    std::copy_n(tail + Y * Y, Y, start.begin());
    std::copy_n(tail + Y * Y + Y, Y, stop.begin());
}

template <class In>
void Chain<In>::score_transitions() {
    if (!is_scored) space.score(tail, boundaries, automaton);
    is_scored = true;
}

template <class In>
double Chain<In>::sum(const In* emit, const In* edge, int64_t T, double weight, In* marginals,
                      In* pairs, double* counts) {
    if (separate) return sum_token(emit, marginals);
    double log_z = 0;
    if (is_dense && sum_dense(emit, edge, T, weight, marginals, pairs, counts, log_z)) return log_z;
    score_transitions();
    transitions.assign(automaton.transitions(), 0.0);
    starts.assign(automaton.states(), 0.0);
    stops.assign(automaton.states(), 0.0);
    const AutomatonExpected<In> expected{marginals, pairs, transitions.data(), starts.data(),
                                         stops.data()};
    log_z = expectations(automaton, Sequence<In>{emit, edge, T}, weight, expected);
    space.spread(transitions.data(), starts.data(), stops.data(), boundaries, counts);
    return log_z;
}

// log_z = log sum_y exp(emit[y]), marginals[y] = exp(emit[y] - log_z).
template <class In>
double Chain<In>::sum_token(const In* emit, In* marginals) {
    const double high = *std::max_element(emit, emit + Y);
    if (!(high > -kInfinity)) {
        std::fill_n(marginals, Y, In(0));
        return high;
    }
    for (int64_t y = 0; y < Y; ++y) row[y] = emit[y] - high;
    kernels().exp(row.data(), Y);
    double sum = 0;
    for (int64_t y = 0; y < Y; ++y) sum += row[y];
    for (int64_t y = 0; y < Y; ++y) marginals[y] = static_cast<In>(row[y] / sum);
    return high + std::log(sum);
}

// -1 if no label has a score.
template <class In>
int32_t Chain<In>::best_label(const In* emit) const {
    const In* best = std::max_element(emit, emit + Y);
    return *best > -kInfinity ? static_cast<int32_t>(best - emit) : -1;
}

// False where probabilities may underflow; see core/dense.hpp.
template <class In>
bool Chain<In>::sum_dense(const In* emit, const In* edge, int64_t T, double weight, In* marginals,
                          In* pairs, double* counts, double& log_z) {
    const int64_t per_level = space.G * Y, S = per_level, width = S + 8;
    double stop_offset = 0;
    double range = exponentials(stop.data(), probs_stop.data(), 1, stop_offset);
    for (int64_t l = 0; l < space.levels; ++l)
        range = std::max(range, double(space.levels) * exponentials(&scores[l * per_level * stride],
                                                                    &probs[l * per_level * stride],
                                                                    per_level, offsets[l]));
    if (!(range <= 300)) return false;
    grow(memory, (T + 4) * width);
    const int64_t n_transitions = rows * Y;
    transitions.assign(n_transitions, 0.0);
    starts.assign(Y, 0.0);
    stops.assign(Y, 0.0);
    const Transitions<double> view{Y,
                                   space.G,
                                   space.levels,
                                   stride,
                                   edge ? scores.data() : probs.data(),
                                   start.data(),
                                   probs_stop.data()};
    bool ok = false;
    OneSum<In> task{};
    task.transitions = &view;
    task.offsets = {offsets.data(), stop_offset};
    task.guard.is_on = edge;
    task.guard.small_transitions = range > 230;
    task.emit = emit;
    task.edge = edge;
    task.T = T;
    task.weight = weight;
    task.keep_alpha = true;
    task.alpha = memory.data();
    task.beta = task.alpha + T * width;
    task.b = task.beta + width;
    task.guard.delta = task.b + width;
    task.row = row.data();
    task.matrix = matrix.data();
    task.log_z = &log_z;
    task.ok = &ok;
    task.expected = {marginals, pairs, transitions.data(), starts.data(), stops.data()};
    if constexpr (sizeof(In) == 4)
        kernels().one_sum_f32(task);
    else
        kernels().one_sum_f64(task);
    if (!ok) return false;
    if (space.is_first_order())
        for (int64_t j = 0; j < n_transitions; ++j) counts[j] += transitions[j];
    else
        space.spread_dense(transitions.data(), boundaries, counts);
    if (boundaries)
        for (int64_t y = 0; y < Y; ++y) {
            counts[Y * Y + y] += starts[y];
            counts[Y * Y + Y + y] += stops[y];
        }
    return true;
}

template <class In>
void Chain<In>::viterbi(const In* emit, const In* edge, int64_t T, int32_t* path) {
    if (separate) {
        path[0] = best_label(emit);
        return;
    }
    if (!is_dense) {
        tagloom::viterbi(automaton, Sequence<In>{emit, edge, T}, path);
        return;
    }
    const int64_t width = space.G * Y + 8;
    const Transitions<double> view{
        Y, space.G, space.levels, stride, scores.data(), start.data(), stop.data()};
    OneViterbi<In> task{};
    task.transitions = &view;
    task.emit = emit;
    task.edge = edge;
    task.T = T;
    task.block = std::clamp<int64_t>(T, 2, 1024);
    const int64_t checkpoints = (T + task.block - 1) / task.block;
    grow(memory, (task.block + checkpoints) * width);
    task.alpha = memory.data();
    task.checkpoints = task.alpha + task.block * width;
    task.row = row.data();
    task.matrix = matrix.data();
    task.path = path;
    if constexpr (sizeof(In) == 4)
        kernels().one_viterbi_f32(task);
    else
        kernels().one_viterbi_f64(task);
}

template <class In>
double Chain<In>::path_score(const In* emit, const In* edge, int64_t T, const int32_t* path) const {
    double score = 0;
    const bool accepted =
        space.each_of_path(path, T, boundaries, [&](int64_t j) { score += tail[j]; });
    if (!accepted) return -kInfinity;
    for (int64_t t = 0; t < T; ++t) {
        score += emit[t * Y + path[t]];
        if (edge && t > 0) score += edge[(t * Y + path[t - 1]) * Y + path[t]];
    }
    return score;
}

// exp(x - offset) with offset the largest; returns the range of the scores. The padding of a row is
// -inf and becomes 0.
template <class In>
double Chain<In>::exponentials(const double* x, double* prob, int64_t n_rows,
                               double& offset) const {
    double low = kInfinity, high = -kInfinity;
    for (int64_t r = 0; r < n_rows; ++r)
        for (int64_t c = 0; c < Y; ++c) {
            low = std::min(low, x[r * stride + c]);
            high = std::max(high, x[r * stride + c]);
        }
    // A single row has no padding.
    const int64_t n = n_rows == 1 ? Y : n_rows * stride;
    for (int64_t j = 0; j < n; ++j) prob[j] = x[j] - high;
    kernels().exp(prob, n);
    offset = high;
    return high - low;
}

template class Chain<float>;
template class Chain<double>;

}  // namespace tagloom
