#include "core/dense.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "core/dispatch.hpp"
#include "core/scratch.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();
constexpr int64_t kBlock = 1024;              // rows of alpha that Viterbi keeps of a long sequence
constexpr int64_t kLongestInLanes = 256;      // beyond, rounding makes too many paths unsure
constexpr int64_t kLaneBytes = 4 << 20;       // scratch per thread above which lanes are not used
constexpr int64_t kWorthThreads = 1'000'000;  // moves below which one thread is as fast
constexpr int64_t kWindow = 512;              // sequences sorted by length together
constexpr int64_t kMostLanes = 64;            // of any instruction set
constexpr int64_t kShards = 16;               // partial sums, whatever the number of threads

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Matrices with rows of `stride` elements, padded with `pad`, in the kernels' arithmetic.
template <class R>
std::vector<R> padded(const double* m, int64_t rows, int64_t Y, int64_t stride, double pad) {
    std::vector<R> out(rows * stride, static_cast<R>(pad));
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < Y; ++c) out[r * stride + c] = static_cast<R>(m[r * Y + c]);
    return out;
}

// A Moves<R> together with the memory that it points to.
template <class R>
struct OwnedMoves {
    std::vector<R> matrices, start, stop;
    Moves<R> view;

    OwnedMoves() = default;
    template <class In>
    OwnedMoves(const DenseBatch<In>& batch, const double* matrices_, const double* stop_,
               int64_t stride, double pad)
        : matrices(padded<R>(matrices_, batch.levels * batch.G * batch.Y, batch.Y, stride, pad)),
          start(batch.start, batch.start + batch.Y),
          stop(stop_, stop_ + batch.Y),
          view{batch.Y, batch.G, batch.levels, stride, matrices.data(), start.data(), stop.data()} {
    }
};

// How a batch is cut: groups of lanes first, then single sequences by descending length. Sequences
// are sorted by length within a window only, so that a group's are not far apart in memory.
struct Plan {
    std::vector<int64_t> order;   // sequences that are not empty
    std::vector<int64_t> groups;  // group i is order[groups[i]] .. order[groups[i + 1]]
    int64_t singles = 0;          // the first group that is a single sequence
    int64_t threads = 1;

    int64_t items() const { return static_cast<int64_t>(groups.size()) - 1; }
    template <class It>
    void add_group(It begin, It end) {
        order.insert(order.end(), begin, end);
        groups.push_back(order.size());
    }
};

template <class In>
Plan make_plan(const DenseBatch<In>& batch, int64_t lanes, int64_t longest) {
    Plan plan;
    plan.order.reserve(batch.N);
    plan.groups.reserve(batch.N + 1);
    plan.groups.push_back(0);
    auto length = [&](int64_t i) { return batch.offsets[i + 1] - batch.offsets[i]; };
    std::vector<int64_t> window, singles;
    std::vector<int64_t> place;  // in the window, of the next sequence of each length
    for (int64_t begin = 0; begin < batch.N; begin += kWindow) {
        const int64_t end = std::min(begin + kWindow, batch.N);
        auto in_lanes = [&](int64_t i) {
            return lanes > 1 && length(i) > 0 && length(i) <= longest;
        };
        place.clear();
        for (int64_t i = begin; i < end; ++i) {
            if (in_lanes(i)) {
                if (length(i) >= std::ssize(place)) place.resize(length(i) + 1);
                ++place[length(i)];
            } else if (length(i) > 0) {
                singles.push_back(i);
            }
        }
        int64_t n = 0;
        for (auto count = place.rbegin(); count != place.rend(); ++count)  // the longest first
            n += std::exchange(*count, n);
        window.resize(n);
        for (int64_t i = begin; i < end; ++i)
            if (in_lanes(i)) window[place[length(i)]++] = i;
        auto at = window.begin();
        while (window.end() - at >= std::max<int64_t>(lanes / 4, 2)) {
            const auto last = at + std::min<int64_t>(lanes, window.end() - at);
            plan.add_group(at, last);
            at = last;
        }
        singles.insert(singles.end(), at, window.end());  // too few for lanes to pay
    }
    plan.singles = plan.items();
    if (singles.size() > 1)
        std::stable_sort(singles.begin(), singles.end(),
                         [&](int64_t a, int64_t b) { return length(a) > length(b); });
    for (auto at = singles.begin(); at != singles.end(); ++at) plan.add_group(at, at + 1);
    const int64_t moves = batch.offsets[batch.N] * batch.G * batch.Y * batch.Y;
    plan.threads = moves < kWorthThreads ? 1 : std::max<int64_t>(batch.threads, 1);
    return plan;
}

// Lanes of a group: where each sequence starts, how long it is.
struct Group {
    int64_t first[kMostLanes], length[kMostLanes];
    const int64_t* sequence;  // their numbers
    int64_t n;

    template <class In>
    Group(const DenseBatch<In>& batch, const Plan& plan, int64_t item)
        : sequence(plan.order.data() + plan.groups[item]),
          n(plan.groups[item + 1] - plan.groups[item]) {
        for (int64_t l = 0; l < n; ++l) {
            first[l] = batch.offsets[sequence[l]];
            length[l] = batch.offsets[sequence[l] + 1] - first[l];
        }
    }
};

// Cuts memory of this thread into the arrays of one task.
template <class R>
class Pieces {
  public:
    explicit Pieces(int64_t n) : taken_(scratch().take(static_cast<std::size_t>(n))) {}
    R* take(int64_t n) { return std::exchange(taken_.data, taken_.data + n); }

  private:
    static Scratch<R>& scratch() {
        thread_local Scratch<R> of_this_thread;
        return of_this_thread;
    }
    typename Scratch<R>::Taken taken_;
};

template <class In>
void viterbi_single(const DenseBatch<In>& batch, const Moves<double>& moves, int64_t i,
                    int32_t* path) {
    const int64_t Y = batch.Y, S = batch.G * Y;
    const int64_t first = batch.offsets[i], T = batch.offsets[i + 1] - first;
    OneViterbi<In> task{};
    task.moves = &moves;
    task.emit = batch.emit + first * Y;
    task.edge = batch.edge ? batch.edge + first * Y * Y : nullptr;
    task.T = T;
    task.block = std::max<int64_t>(std::min(T, kBlock), 2);
    const int64_t alpha = task.block * (S + 8), row = Y + 8;
    const int64_t checkpoints = (T + task.block - 1) / task.block * (S + 8);
    const int64_t matrix = batch.edge ? Y * moves.stride : 0;
    Pieces<double> scratch(alpha + checkpoints + row + matrix);
    task.alpha = scratch.take(alpha);
    task.checkpoints = scratch.take(checkpoints);
    task.row = scratch.take(row);
    task.matrix = scratch.take(matrix);
    task.path = path + first;
    if constexpr (sizeof(In) == 4)
        kernels().one_viterbi_f32(task);
    else
        kernels().one_viterbi_f64(task);
}

// The score of sequence i's path, in double; -inf if the path is -1.
template <class In>
double score_of(const DenseBatch<In>& batch, int64_t i, const int32_t* path) {
    const int64_t Y = batch.Y, G = batch.G, first = batch.offsets[i],
                  T = batch.offsets[i + 1] - first;
    int64_t state = path[first];
    if (state < 0) return kMinusInf;
    double sum = batch.start[state] + batch.emit[first * Y + state];
    double moved = 0;  // apart from sum: two additions can go on at once
    for (int64_t t = 1; t < T; ++t) {
        const int64_t c = path[first + t];
        const int64_t a = G == 1 ? state : state / G, g = G == 1 ? 0 : state % G;
        const int64_t level = std::min(t, batch.levels) - 1;
        sum += batch.emit[(first + t) * Y + c];
        moved += batch.moves[((level * G + g) * Y + a) * Y + c];
        if (batch.edge) moved += batch.edge[((first + t) * Y + state % Y) * Y + c];
        state = g * Y + c;
    }
    return sum + moved + batch.stop[state % Y];
}

double largest_finite(const double* x, int64_t n) {
    double m = 0;
    for (int64_t i = 0; i < n; ++i)
        if (std::isfinite(x[i])) m = std::max(m, std::abs(x[i]));
    return m;
}

// Scores as whole numbers, see Fixed.
std::vector<int32_t> rounded(const double* x, int64_t n, double scale) {
    std::vector<int32_t> out(n, Fixed::forbidden);
    for (int64_t i = 0; i < n; ++i)
        if (x[i] > kMinusInf) out[i] = static_cast<int32_t>(std::lround(x[i] * scale));
    return out;
}

}  // namespace

template <class In>
void viterbi(const DenseBatch<In>& batch, int32_t* path, double* score) {
    const Kernels& k = kernels();
    const int64_t Y = batch.Y, S = batch.G * Y;
    const int64_t lanes = batch.edge || !(batch.largest_emit < 1e30) ? 1 : k.lanes32;
    const int64_t longest = std::min(kLaneBytes / 4 / (S * lanes), kLongestInLanes);
    const Plan plan = make_plan(batch, lanes, longest);
    if (score) std::fill_n(score, batch.N, 0.0);  // of empty sequences

    const int64_t n_moves = batch.levels * S * Y;
    const OwnedMoves<double> one(batch, batch.moves, batch.stop, round_up(Y, 8), kMinusInf);
    double scale = 1;
    std::vector<int32_t> whole, transposed, start, stop;
    Moves<int32_t> many{Y, batch.G, batch.levels, Y, nullptr, nullptr, nullptr};
    std::atomic<bool> forbids = false;
    if (plan.singles > 0) {
        // With orders above the first, states of long histories are forbidden at the beginning.
        auto any_forbidden = [](const double* x, int64_t n) {
            return std::count(x, x + n, kMinusInf) > 0;
        };
        forbids = batch.G > 1 || any_forbidden(batch.moves, n_moves) ||
                  any_forbidden(batch.start, Y) || any_forbidden(batch.stop, Y);
        // Whole numbers for the lanes: the largest power of two that keeps all scores small enough.
        const double largest = batch.largest_emit + std::max({largest_finite(batch.moves, n_moves),
                                                              largest_finite(batch.stop, Y),
                                                              largest_finite(batch.start, Y)});
        const int room = std::ilogb(double(Fixed::largest)) - 1;
        scale = std::ldexp(1.0, std::min(20, room - std::ilogb(std::max(largest, 1e-300))));
        whole = rounded(batch.moves, n_moves, scale);
        start = rounded(batch.start, Y, scale);
        stop = rounded(batch.stop, Y, scale);
        transposed.resize(n_moves);
        for (int64_t j = 0; j < n_moves; ++j)
            transposed[j / (Y * Y) * (Y * Y) + j % Y * Y + j / Y % Y] = whole[j];
        many.matrices = whole.data();
        many.start = start.data();
        many.stop = stop.data();
    }
    parallel_for(plan.items(), plan.threads, [&](int64_t item, int64_t) {
        if (item >= plan.singles) {
            const int64_t i = plan.order[plan.groups[item]];
            viterbi_single(batch, one.view, i, path);
            if (score) score[i] = score_of(batch, i, path);
            return;
        }
        const Group group(batch, plan, item);
        const int64_t alpha = group.length[0] * S * lanes;
        Pieces<int32_t> scratch(alpha + Y * lanes);
        Pieces<float> row_scratch(Y * lanes);
        bool sure[kMostLanes];
        LaneViterbi<In> task{};
        task.moves = &many;
        task.transposed = transposed.data();
        // Not 0, which would make a NaN of -inf; the smallest float rounds all emissions to 0 as
        // well.
        task.scale = std::max(static_cast<float>(scale), std::numeric_limits<float>::min());
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
                return k.viterbi_f32(task);
            else
                return k.viterbi_f64(task);
        };
        task.forbids = forbids.load(std::memory_order_relaxed);
        if (!run()) {
            forbids = task.forbids = true;  // an emission is; others will be
            run();
        }
        // Lanes say where rounding could have decided; those are decoded again in double.
        for (int64_t l = 0; l < group.n; ++l) {
            const int64_t i = group.sequence[l];
            if (!sure[l]) viterbi_single(batch, one.view, i, path);
            if (score) score[i] = score_of(batch, i, path);
        }
    });
}

namespace {

// Probabilities exp(score - offset) for sum-times, and whether they are safe. Without forbidden
// moves, the backward values of two states differ by at most the range of the moves' scores, so
// a state that underflows next to another cannot matter later when that range is small: no guard
// is needed. With forbidden moves, or a wide range, the kernels watch for underflow instead.
struct Probabilities {
    std::vector<double> matrices, stop, offset;
    double stop_offset = 0;
    double range = 0;  // of the finite scores
    bool complete = true;

    template <class In>
    explicit Probabilities(const DenseBatch<In>& batch) : offset(batch.levels) {
        const int64_t size = batch.G * batch.Y * batch.Y;
        matrices.resize(batch.levels * size);
        stop.resize(batch.Y);
        for (int64_t l = 0; l < batch.levels; ++l)
            offset[l] = exponentials(batch.moves + l * size, size, &matrices[l * size]);
        stop_offset = exponentials(batch.stop, batch.Y, stop.data());
        range *= batch.levels;  // histories of k labels meet again after k moves
    }

    double exponentials(const double* score, int64_t n, double* prob) {
        double low = std::numeric_limits<double>::infinity(), high = kMinusInf;
        for (int64_t i = 0; i < n; ++i) {
            if (score[i] == kMinusInf) {
                complete = false;
            } else {
                low = std::min(low, score[i]);
                high = std::max(high, score[i]);
            }
        }
        if (high == kMinusInf) high = 0;
        for (int64_t i = 0; i < n; ++i) prob[i] = std::exp(score[i] - high);
        if (low < high) range = std::max(range, high - low);
        return high;
    }
};

// The expected counts of one run, kept apart until the run is known to be ok: a sequence that
// underflowed must leave no trace in the sums.
template <class In>
struct Trial {
    const Expected<In>& goal;
    Expected<In> own;
    std::vector<double> counts;
    int64_t n_transitions, Y;

    Trial(const DenseBatch<In>& batch, const Expected<In>& goal_, bool guard)
        : goal(goal_),
          own(goal_),
          n_transitions(batch.levels * batch.G * batch.Y * batch.Y),
          Y(batch.Y) {
        if (!guard || !(goal.transitions || goal.start || goal.stop)) return;
        counts.assign(n_transitions + 2 * Y, 0.0);
        if (goal.transitions) own.transitions = counts.data();
        own.start = counts.data() + n_transitions;
        own.stop = own.start + Y;
    }
    bool apart() const { return !counts.empty(); }
    void forget() { std::fill(counts.begin(), counts.end(), 0.0); }
    void keep() {
        if (!apart()) return;
        if (goal.transitions)
            for (int64_t j = 0; j < n_transitions; ++j) goal.transitions[j] += counts[j];
        for (int64_t y = 0; y < Y; ++y) {
            if (goal.start) goal.start[y] += own.start[y];
            if (goal.stop) goal.stop[y] += own.stop[y];
        }
    }
};

// What the runs of one call share.
template <class In>
struct SumCall {
    const DenseBatch<In>& batch;
    const double* weight;  // [N] or null
    Offsets offsets;
    bool guard, backward;
    int64_t lanes;
    double* log_z;  // [N]
    bool* ok;       // [N]
};

template <class In>
void sum_single(const SumCall<In>& call, const Moves<double>& moves, int64_t i,
                const Expected<In>& expected) {
    const DenseBatch<In>& batch = call.batch;
    const int64_t Y = batch.Y, S = batch.G * Y, width = S + 8;
    OneSum<In> task{};
    task.moves = &moves;
    task.offsets = call.offsets;
    task.guard = call.guard || batch.edge;
    task.token = batch.offsets[i];
    task.T = batch.offsets[i + 1] - task.token;
    task.emit = batch.emit + task.token * Y;
    task.edge = batch.edge ? batch.edge + task.token * Y * Y : nullptr;
    task.weight = call.weight ? call.weight[i] : 1.0;
    task.backward = call.backward;
    const int64_t rows = call.backward ? task.T : 2, matrix = batch.edge ? Y * moves.stride : 0;
    Pieces<double> scratch(rows * width + 2 * width + Y + 8 + matrix);
    task.alpha = scratch.take(rows * width);
    task.beta = scratch.take(width);
    task.b = scratch.take(width);
    task.row = scratch.take(Y + 8);
    task.matrix = scratch.take(matrix);
    task.log_z = call.log_z + i;
    task.ok = call.ok + i;
    Trial<In> trial(batch, expected, task.guard);
    task.expected = trial.own;
    if constexpr (sizeof(In) == 4)
        kernels().one_sum_f32(task);
    else
        kernels().one_sum_f64(task);
    if (*task.ok) trial.keep();
}

// Runs one group in lanes of type R; with the guard on, again without the sequences that failed.
template <class In, class R, class Run>
void sum_group(const SumCall<In>& call, const Moves<R>& moves, Group group,
               const Expected<In>& expected, Run run) {
    const DenseBatch<In>& batch = call.batch;
    const int64_t Y = batch.Y, S = batch.G * Y, T = group.length[0], lanes = call.lanes;
    double log_z[kMostLanes], weight[kMostLanes];
    bool ok[kMostLanes];
    const int64_t alpha = (call.backward ? T + 1 : 2) * S * lanes;
    const int64_t rows = (call.backward ? T + 1 : 1) * Y * lanes;
    const int64_t b = call.backward ? (expected.transitions ? T : 1) * S * lanes : 0;
    Pieces<R> scratch(alpha + rows + b);
    Trial<In> trial(batch, expected, call.guard);
    LaneSum<In, R> task{};
    task.moves = &moves;
    task.offsets = call.offsets;
    task.guard = call.guard;
    task.emit = batch.emit;
    task.first = group.first;
    task.length = group.length;
    task.weight = weight;
    task.backward = call.backward;
    task.alpha = scratch.take(alpha);
    task.rows = scratch.take(rows);
    task.b = scratch.take(b);
    task.log_z = log_z;
    task.ok = ok;
    task.expected = trial.own;
    std::vector<int64_t> sequence(group.sequence, group.sequence + group.n);
    while (!sequence.empty()) {
        task.n = sequence.size();
        for (int64_t l = 0; l < task.n; ++l)
            weight[l] = call.weight ? call.weight[sequence[l]] : 1.0;
        run(task);
        int64_t kept = 0;
        for (int64_t l = 0; l < task.n; ++l) {
            call.log_z[sequence[l]] = log_z[l];
            call.ok[sequence[l]] = ok[l];
            if (!ok[l]) continue;
            sequence[kept] = sequence[l];
            group.first[kept] = group.first[l];
            group.length[kept] = group.length[l];
            ++kept;
        }
        if (kept == task.n || !trial.apart()) break;
        sequence.resize(kept);
        trial.forget();
    }
    trial.keep();
}

// The sums of one shard of the batch.
struct Partial {
    std::vector<double> transitions, start, stop;
};

}  // namespace

template <class In>
void sum(const DenseBatch<In>& batch, const double* weight, const Expected<In>& expected,
         double* log_z, bool* ok) {
    for (int64_t i = 0; i < batch.N; ++i) {
        log_z[i] = 0;
        ok[i] = true;
    }
    const Kernels& k = kernels();
    const int64_t Y = batch.Y, S = batch.G * Y;
    const bool backward = expected.marginals || expected.pairs || expected.transitions ||
                          expected.start || expected.stop;
    const Probabilities probabilities(batch);
    // 40 leaves float32 47 of its 87 units of range, 300 leaves double more than it needs.
    const bool guard = !probabilities.complete || probabilities.range > 300;
    const bool narrow = sizeof(In) == 4 && probabilities.complete && probabilities.range <= 40;
    if (guard && probabilities.range > 230) {  // beyond what the guard's products can hold
        for (int64_t i = 0; i < batch.N; ++i) ok[i] = batch.offsets[i] == batch.offsets[i + 1];
        return;
    }
    const int64_t lanes = batch.edge || expected.pairs ? 1 : narrow ? k.lanes32 : k.lanes64;
    const int64_t longest =
        kLaneBytes / (narrow ? 4 : 8) / ((backward ? 3 : 1) * S * std::max<int64_t>(lanes, 1));
    const Plan plan = make_plan(batch, lanes, longest);

    // With edge scores the exponentials differ at every position: the kernel takes them.
    const double* matrices = batch.edge ? batch.moves : probabilities.matrices.data();
    const double* stop = probabilities.stop.data();
    const OwnedMoves<double> one(batch, matrices, stop, round_up(Y, 8),
                                 batch.edge ? kMinusInf : 0.0);
    OwnedMoves<In> many;
    OwnedMoves<double> wide;
    if (plan.singles > 0 && narrow)
        many = OwnedMoves<In>(batch, matrices, stop, Y, 0.0);
    else if (plan.singles > 0)
        wide = OwnedMoves<double>(batch, matrices, stop, Y, 0.0);
    const SumCall<In> call{
        batch, weight,   {probabilities.offset.data(), probabilities.stop_offset},
        guard, backward, lanes,
        log_z, ok};

    // Items go to a fixed number of shards with sums of their own, so that the order of additions,
    // and with it every bit, is the same for any number of threads.
    const bool counting = expected.transitions || expected.start || expected.stop;
    const int64_t shards = counting ? std::min(kShards, plan.items()) : plan.items();
    std::vector<Partial> partial(counting ? shards : 0);
    parallel_for(shards, plan.threads, [&](int64_t shard, int64_t) {
        Expected<In> own = expected;
        if (counting) {
            Partial& p = partial[shard];
            if (expected.transitions) p.transitions.assign(batch.levels * S * Y, 0.0);
            p.start.assign(Y, 0.0);
            p.stop.assign(Y, 0.0);
            own.transitions = expected.transitions ? p.transitions.data() : nullptr;
            own.start = p.start.data();
            own.stop = p.stop.data();
        }
        for (int64_t item = shard; item < plan.items(); item += shards) {
            if (item >= plan.singles) {
                sum_single(call, one.view, plan.order[plan.groups[item]], own);
                continue;
            }
            const Group group(batch, plan, item);
            if constexpr (sizeof(In) == 8)
                sum_group(call, wide.view, group, own, k.sum_f64);
            else if (narrow)
                sum_group(call, many.view, group, own, k.sum_f32);
            else
                sum_group(call, wide.view, group, own, k.sum_f32_in_f64);
        }
    });
    for (const Partial& p : partial) {
        for (size_t j = 0; j < p.transitions.size(); ++j)
            expected.transitions[j] += p.transitions[j];
        for (int64_t y = 0; y < Y; ++y) {
            if (expected.start) expected.start[y] += p.start[y];
            if (expected.stop) expected.stop[y] += p.stop[y];
        }
    }
}

#define TL_INSTANTIATE(In)                                                                    \
    template void viterbi<In>(const DenseBatch<In>&, int32_t*, double*);                      \
    template void sum<In>(const DenseBatch<In>&, const double*, const Expected<In>&, double*, \
                          bool*);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)

}  // namespace tagloom
