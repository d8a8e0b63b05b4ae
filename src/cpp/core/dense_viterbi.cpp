#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "core/dense.hpp"
#include "core/dense_transitions.hpp"
#include "core/dispatch.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

constexpr int64_t kBlock = 1024;          // rows of alpha that Viterbi keeps of a long sequence
constexpr int64_t kLongestInLanes = 256;  // beyond, rounding makes too many paths unsure

template <class In>
void viterbi_single(const DenseBatch<In>& batch, const Transitions<double>& transitions, int64_t i,
                    int32_t* path) {
    const int64_t Y = batch.Y, width = batch.G * Y + 8;
    OneViterbi<In> task{};
    task.transitions = &transitions;
    task.emit = batch.emit_of(i);
    task.edge = batch.edge_of(i);
    task.T = batch.length(i);
    task.block = std::max<int64_t>(std::min(task.T, kBlock), 2);
    const int64_t alpha = task.block * width, row = Y + 8;
    const int64_t checkpoints = (task.T + task.block - 1) / task.block * width;
    const int64_t matrix = batch.edge ? Y * transitions.stride : 0;
    Pieces<double> scratch(alpha + checkpoints + row + matrix);
    task.alpha = scratch.take(alpha);
    task.checkpoints = scratch.take(checkpoints);
    task.row = scratch.take(row);
    task.matrix = scratch.take(matrix);
    task.path = path + batch.offsets[i];
    if constexpr (sizeof(In) == 4)
        kernels().one_viterbi_f32(task);
    else
        kernels().one_viterbi_f64(task);
}

// Whether no label depends on another: every transition has the same finite score.
template <class In>
bool is_independent(const DenseBatch<In>& batch) {
    if (batch.edge || batch.levels != 1 || batch.G != 1) return false;
    const double same = batch.transitions[0];
    return std::isfinite(same) &&
           std::all_of(batch.transitions + 1, batch.transitions + batch.Y * batch.Y,
                       [&](double score) { return score == same; });
}

// path[t] = argmax_y emit[t, y], with start at the first position and stop at the last, in O(T Y).
template <class In>
void best_labels(const DenseBatch<In>& batch, int64_t i, int32_t* path) {
    const int64_t Y = batch.Y, T = batch.length(i);
    for (int64_t t = 0; t < T; ++t) {
        const In* emit = batch.emit_of(i) + t * Y;
        double best = kMinusInf;
        int32_t label = -1;
        for (int64_t y = 0; y < Y; ++y) {
            double score = emit[y];
            if (t == 0) score += batch.start[y];
            if (t == T - 1) score += batch.stop[y];
            if (score > best) best = score, label = static_cast<int32_t>(y);
        }
        path[t] = label;
        if (label < 0) {
            std::fill_n(path, T, -1);
            return;
        }
    }
}

double largest_finite(const double* x, int64_t n) {
    double m = 0;
    for (int64_t i = 0; i < n; ++i)
        if (std::isfinite(x[i])) m = std::max(m, std::abs(x[i]));
    return m;
}

// Transitions as integers for the lanes, see Fixed: score * scale, with the largest power of two
// that keeps all scores small enough.
struct WholeTransitions {
    double scale;
    std::vector<int32_t> matrices, into, start, stop;
    Transitions<int32_t> view;
    bool forbids;  // any of them

    template <class In>
    explicit WholeTransitions(const DenseBatch<In>& batch) {
        const int64_t Y = batch.Y, n = batch.levels * batch.G * Y * Y;
        // With orders above the first, states of long histories are forbidden at the beginning.
        auto any_forbidden = [](const double* x, int64_t n) {
            return std::count(x, x + n, kMinusInf) > 0;
        };
        forbids = batch.G > 1 || any_forbidden(batch.transitions, n) ||
                  any_forbidden(batch.start, Y) || any_forbidden(batch.stop, Y);
        const double largest = batch.largest_emit + std::max({largest_finite(batch.transitions, n),
                                                              largest_finite(batch.stop, Y),
                                                              largest_finite(batch.start, Y)});
        const int room = std::ilogb(double(Fixed::largest)) - 1;
        scale = std::ldexp(1.0, std::min(20, room - std::ilogb(std::max(largest, 1e-300))));
        matrices = rounded(batch.transitions, n);
        start = rounded(batch.start, Y);
        stop = rounded(batch.stop, Y);
        into = transposed(matrices.data(), batch.levels * batch.G, Y);
        view = {Y, batch.G, batch.levels, Y, matrices.data(), start.data(), stop.data()};
    }
    WholeTransitions(const WholeTransitions&) = delete;

  private:
    std::vector<int32_t> rounded(const double* x, int64_t n) const {
        std::vector<int32_t> out(n, Fixed::forbidden);
        for (int64_t i = 0; i < n; ++i)
            if (x[i] > kMinusInf) out[i] = static_cast<int32_t>(std::lround(x[i] * scale));
        return out;
    }
};

// Runs a group in lanes; sure [group.n] is false where rounding could have decided. `forbids` is
// shared by all groups: once an emission is forbidden, others will be.
template <class In>
void viterbi_group(const DenseBatch<In>& batch, const WholeTransitions& transitions,
                   const Group& group, int64_t lanes, std::atomic<bool>& forbids, int32_t* path,
                   bool* sure) {
    const int64_t Y = batch.Y, alpha = group.length[0] * batch.G * Y * lanes;
    Pieces<int32_t> scratch(alpha + Y * lanes);
    Pieces<float> row_scratch(Y * lanes);
    LaneViterbi<In> task{};
    task.transitions = &transitions.view;
    task.transposed = transitions.into.data();
    // Not 0, as 0 * -inf is NaN; the smallest float rounds all emissions to 0 as well.
    task.scale = std::max(static_cast<float>(transitions.scale), std::numeric_limits<float>::min());
    task.emit = batch.emit;
    task.first = group.first;
    task.length = group.length;
    task.n = group.n;
    task.alpha = scratch.take(alpha);
    task.candidates = scratch.take(Y * lanes);
    task.row = row_scratch.take(Y * lanes);
    task.path = path;
    task.sure = sure;
    auto run = [&] {
        if constexpr (sizeof(In) == 4)
            return kernels().viterbi_f32(task);
        else
            return kernels().viterbi_f64(task);
    };
    task.forbids = forbids.load(std::memory_order_relaxed);
    if (!run()) {
        forbids = task.forbids = true;
        run();
    }
}

}  // namespace

template <class In>
double score_of(const DenseBatch<In>& batch, int64_t i, const int32_t* path) {
    const int64_t Y = batch.Y, G = batch.G, first = batch.offsets[i], T = batch.length(i);
    int64_t state = path[0];
    if (state < 0) return kMinusInf;
    double sum = batch.start[state] + batch.emit[first * Y + state];
    double along = 0;  // apart from sum: two additions overlap
    for (int64_t t = 1; t < T; ++t) {
        const int64_t c = path[t];
        const int64_t a = G == 1 ? state : state / G, g = G == 1 ? 0 : state % G;
        const int64_t level = std::min(t, batch.levels) - 1;
        sum += batch.emit[(first + t) * Y + c];
        along += batch.transitions[((level * G + g) * Y + a) * Y + c];
        if (batch.edge) along += batch.edge[((first + t) * Y + state % Y) * Y + c];
        state = g * Y + c;
    }
    return sum + along + batch.stop[state % Y];
}

template <class In>
void viterbi(const DenseBatch<In>& batch, int32_t* path, double* score) {
    const int64_t lanes = batch.edge || !(batch.largest_emit < 1e30) ? 1 : kernels().lanes32;
    const int64_t longest = std::min(kLaneBytes / 4 / (batch.G * batch.Y * lanes), kLongestInLanes);
    const BatchPlan plan = batch.plan(lanes, longest);
    if (score) std::fill_n(score, batch.N, 0.0);  // of empty sequences
    if (is_independent(batch)) {
        parallel_for(batch.N, plan.threads, [&](int64_t i, int64_t) {
            if (batch.length(i) == 0) return;
            best_labels(batch, i, path + batch.offsets[i]);
            if (score) score[i] = score_of(batch, i, path + batch.offsets[i]);
        });
        return;
    }
    const OwnedTransitions<double> one(batch, batch.transitions, batch.stop, round_up(batch.Y, 8),
                                       kMinusInf);
    std::optional<WholeTransitions> many;
    if (plan.singles > 0) many.emplace(batch);
    std::atomic<bool> forbids = many && many->forbids;
    parallel_for(plan.items(), plan.threads, [&](int64_t item, int64_t) {
        if (plan.is_single(item)) {
            const int64_t i = plan.sequence(item);
            viterbi_single(batch, one.view, i, path);
            if (score) score[i] = score_of(batch, i, path + batch.offsets[i]);
            return;
        }
        const Group group = batch.group(plan, item);
        bool sure[kMostLanes];
        viterbi_group(batch, *many, group, lanes, forbids, path, sure);
        for (int64_t l = 0; l < group.n; ++l) {
            const int64_t i = group.sequence[l];
            if (!sure[l]) viterbi_single(batch, one.view, i, path);
            if (score) score[i] = score_of(batch, i, path + batch.offsets[i]);
        }
    });
}

#define TL_INSTANTIATE(In)                                                        \
    template double score_of<In>(const DenseBatch<In>&, int64_t, const int32_t*); \
    template void viterbi<In>(const DenseBatch<In>&, int32_t*, double*);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)

}  // namespace tagloom
