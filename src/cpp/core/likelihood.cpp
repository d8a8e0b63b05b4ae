// The loss of a linear-chain model over a corpus, and its gradient:
//
//   loss = sum_i weight_i * (log_z_i - log_z_i(gold))
//
// where log_z sums over all paths and log_z(gold) over the paths that the gold labels permit: the
// score of the gold path, unless labels are open. With the features phi expected over either set,
//
//   d loss / d theta_j = sum_i weight_i * (E_i[phi_j] - E_i[phi_j | gold]).
//
// A block of sentences goes through four stages, each a method of LinearObjective::Block:
//
//   score            emit[t, y] = sum over t's attributes a of value * theta[a, y]; edge likewise
//   sum_paths        alpha, beta → log_z, gamma [T, Y], xi [T, Y, Y] and counts of the tail
//   subtract_gold    gamma, xi −= the same over the paths of the gold labels: the residuals
//   add_gradient     grad[a, y] += value * weight_i * gamma[t, y]; edges likewise with xi
//
// The recursions are in core/*_kernels.cpp (dense) and core/automaton.cpp; see also chain.hpp.

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "core/chain.hpp"
#include "core/dense.hpp"
#include "core/dispatch.hpp"
#include "core/linear.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

constexpr int64_t kPiece = 1 << 14;         // weights per piece of work
constexpr int64_t kWorthThreads = 200'000;  // additions below which one thread is as fast

template <class T>
void grow(std::vector<T>& vector, int64_t size) {
    if (static_cast<int64_t>(vector.size()) < size) vector.resize(size);
}

// The kernels of rows.hpp for either type.
void sum_rows(const RowSum<float>& task) { kernels().rows().sum_f32(task); }
void sum_rows(const RowSum<double>& task) { kernels().rows().sum_f64(task); }
void add_rows(const RowAdd<float>& task) { kernels().rows().add_f32(task); }
void add_rows(const RowAdd<double>& task) { kernels().rows().add_f64(task); }

// Calls work(lo, hi) for pieces of [0, n), on many threads.
template <class Work>
void in_pieces(int64_t n, int64_t threads, const Work& work) {
    parallel_for((n + kPiece - 1) / kPiece, threads,
                 [&](int64_t p, int64_t) { work(p * kPiece, std::min(n, (p + 1) * kPiece)); });
}

}  // namespace

// Memory kept between evaluations. Gradients and counts are zero between calls.
template <class In>
struct LinearObjective::Workspace {
    std::vector<In> weights;                        // [slots + slack] sums of weights
    std::vector<double> gradient;                   // [slots + slack] by them, unless in the result
    std::vector<In> of_groups;                      // [groups, Y] that of the sums of groups
    std::vector<std::vector<double>> gradients;     // [window][slots + slack] of shards in progress
    std::vector<std::vector<double>> counts;        // [K][tail]
    std::vector<std::vector<double>> dense_counts;  // [K][levels, G, Y, Y]; not first order
    std::vector<double> trans;                      // [levels, G, Y, Y] if the space is dense
    std::vector<double> start, stop;                // [Y]
};

// Scratch of one thread.
template <class In>
struct LinearObjective::Worker {
    std::vector<In> emit, edge, marginals, pairs;
    std::vector<In> closed, observed, observed_pairs;  // of sentences with open labels
    std::vector<double> wide_row, log_z, weight, starts, stops;
    std::vector<int64_t> offsets;
    std::unique_ptr<bool[]> ok;
    std::unique_ptr<Chain<In>> chain;  // for this theta, created when first needed
    std::unique_ptr<SegmentChain<In>> segments;
};

// One block in progress: n sentences from `lo` on in work order, whose tokens begin at `first`.
template <class In>
class LinearObjective::Block {
  public:
    Block(const LinearObjective& objective_, Workspace<In>& work_, Worker<In>& worker_,
          const double* tail_, int64_t shard_, int64_t block)
        : objective(objective_),
          work(work_),
          worker(worker_),
          tail(tail_),
          shard(shard_),
          lo(objective.blocks[block]),
          n(objective.blocks[block + 1] - lo),
          first(objective.starts[lo]),
          tokens(objective.starts[lo + n] - first),
          Y(objective.Y),
          YY(objective.has_edges() ? Y * Y : 0) {}

    // Returns the loss of the block, and adds its gradient to that of the rows unless it is null.
    double run(double* gradient) {
        if (tokens == 0) return 0;
        make_room();
        score();
        with_counts = gradient;
        if (objective.segments) return run_segments(gradient);
        sum_paths(worker.emit.data(), objective.weight.data() + lo, gamma(), xi());
        double loss = 0;
        subtract_gold(loss);
        subtract_open(loss);
        if (gradient) add_gradient(gradient);
        return loss;
    }

  private:
    double run_segments(double* gradient);
    void make_room();
    void score();
    void add_up(const OwnedLists& lists, int64_t width, In* out);
    void sum_paths(const In* emit, const double* weights, In* marginals, In* pairs);
    void sum_dense(const In* emit, const double* weights, In* marginals, In* pairs);
    void sum_one(int64_t i, const In* emit, const double* weights, In* marginals, In* pairs);
    void subtract_gold(double& loss);
    void subtract_open(double& loss);
    void add_gradient(double* gradient);
    void spread(const OwnedLists& lists, int64_t width, const In* rows, double* gradient);

    bool with_edges() const { return YY > 0; }
    int64_t begin(int64_t i) const { return worker.offsets[i]; }  // of sentence lo + i
    int64_t length(int64_t i) const { return worker.offsets[i + 1] - worker.offsets[i]; }
    double weight(int64_t i) const { return objective.weight[lo + i]; }
    bool is_open(int64_t i) const { return objective.is_open[lo + i]; }
    const In* edge() const { return with_edges() ? worker.edge.data() : nullptr; }
    In* gamma() { return worker.marginals.data(); }
    In* xi() { return with_edges() ? worker.pairs.data() : nullptr; }
    double* counts() { return work.counts[shard].data(); }

    const LinearObjective& objective;
    Workspace<In>& work;
    Worker<In>& worker;
    const double* tail;                                // weights
    const int64_t shard, lo, n, first, tokens, Y, YY;  // YY: Y * Y, or 0 without edges
    bool with_counts = false;
};

// The same for segments, sentence by sentence; see segment_chain.hpp.
template <class In>
double LinearObjective::Block<In>::run_segments(double* gradient) {
    if (!worker.segments) {
        worker.segments =
            std::make_unique<SegmentChain<In>>(*objective.segments, Y, objective.boundaries);
        worker.segments->set(tail);
    }
    double loss = 0;
    for (int64_t i = 0; i < n; ++i) {
        const int64_t at = begin(i);
        if (length(i) == 0) continue;
        loss += weight(i) * worker.segments->residuals(
                                lo + i, first + at, length(i), worker.emit.data() + at * Y,
                                weight(i), gradient ? gamma() + at * Y : nullptr, counts());
    }
    if (gradient) add_gradient(gradient);
    return loss;
}

template <class In>
void LinearObjective::Block<In>::make_room() {
    grow(worker.wide_row, std::max(Y, YY) + kRowSlack);
    grow(worker.emit, tokens * Y + kRowSlack);
    grow(worker.marginals, tokens * Y);
    grow(worker.edge, tokens * YY + kRowSlack);
    grow(worker.pairs, tokens * YY);
    if (static_cast<int64_t>(worker.log_z.size()) < n) {
        worker.log_z.resize(n);
        worker.ok = std::make_unique<bool[]>(n);
    }
    worker.offsets.resize(n + 1);
    for (int64_t i = 0; i <= n; ++i) worker.offsets[i] = objective.starts[lo + i] - first;
}

// emit[t, y] = sum over the attributes a of t of value * theta[a, y]; −inf where y is not allowed.
// edge[t, y_prev, y] likewise.
template <class In>
void LinearObjective::Block<In>::score() {
    add_up(objective.node_lists, Y, worker.emit.data());
    objective.forbid(first, tokens, worker.emit.data());
    if (with_edges()) add_up(objective.edge_lists, YY, worker.edge.data());
}

template <class In>
void LinearObjective::Block<In>::add_up(const OwnedLists& lists, int64_t width, In* out) {
    sum_rows(RowSum<In>{lists.view(), first, tokens, width, work.weights.data(), out});
}

// For all sentences of the block, with scores `emit` [tokens, Y]:
//
//   alpha[t, y] = emit[t, y] + log sum_{y_prev} exp(alpha[t-1, y_prev] + s_t(y_prev, y))
//   beta[t, y]  = log sum_{y_next} exp(s_{t+1}(y, y_next) + emit[t+1, y_next] + beta[t+1, y_next])
//   log_z       = log sum_y exp(alpha[T-1, y] + stop[y])
//   gamma[t, y] = exp(alpha[t, y] + beta[t, y] − log_z)
//   xi[t, y_prev, y] = exp(alpha[t-1, y_prev] + s_t(y_prev, y) + emit[t, y] + beta[t, y] − log_z)
//   counts[y_prev, y] += weights[i] * sum_t xi[t, y_prev, y]; starts, stops and ties likewise
//
// with s_t(y_prev, y) = trans[y_prev, y] + edge[t, y_prev, y] + ties, alpha[0] = start + emit[0]
// and beta[T-1] = stop. First all sentences together, in lanes of scaled probabilities; then, one
// by one, those that could underflow there and those of other state spaces.
template <class In>
void LinearObjective::Block<In>::sum_paths(const In* emit, const double* weights, In* marginals,
                                           In* pairs) {
    std::fill_n(worker.ok.get(), n, false);
    const int64_t levels = objective.space.levels;
    const bool is_dense = levels == 1 || (levels > 1 && !with_edges());
    if (is_dense && !objective.is_separate()) sum_dense(emit, weights, marginals, pairs);
    for (int64_t i = 0; i < n; ++i)
        if (!worker.ok[i] && length(i) > 0) sum_one(i, emit, weights, marginals, pairs);
}

template <class In>
void LinearObjective::Block<In>::sum_dense(const In* emit, const double* weights, In* marginals,
                                           In* pairs) {
    const Space& space = objective.space;
    worker.starts.assign(Y, 0.0);
    worker.stops.assign(Y, 0.0);
    Expected<In> expected{};
    if (with_counts)
        expected = {marginals, pairs,
                    space.is_first_order() ? counts() : work.dense_counts[shard].data(),
                    worker.starts.data(), worker.stops.data()};
    const DenseBatch<In> batch{Y,
                               space.G,
                               space.levels,
                               work.trans.data(),
                               work.start.data(),
                               work.stop.data(),
                               emit,
                               edge(),
                               worker.offsets.data(),
                               n,
                               1};
    sum(batch, weights, expected, worker.log_z.data(), worker.ok.get());
    for (int64_t y = 0; objective.boundaries && y < Y; ++y) {
        counts()[Y * Y + y] += worker.starts[y];
        counts()[Y * Y + Y + y] += worker.stops[y];
    }
}

template <class In>
void LinearObjective::Block<In>::sum_one(int64_t i, const In* emit, const double* weights,
                                         In* marginals, In* pairs) {
    if (!worker.chain) {
        worker.chain = std::make_unique<Chain<In>>(objective.space, objective.boundaries,
                                                   with_edges(), objective.is_separate());
        worker.chain->set(tail);
    }
    const int64_t at = begin(i);
    worker.log_z[i] = worker.chain->sum(emit + at * Y, with_edges() ? edge() + at * YY : nullptr,
                                        length(i), weights[i], marginals + at * Y,
                                        with_edges() ? pairs + at * YY : nullptr, counts());
}

// loss += weight_i * (log_z_i − score(gold_i)), and gamma[t, gold_t] −= 1, xi[t, gold_{t-1},
// gold_t] −= 1, for sentences without open labels. The others follow in subtract_open().
template <class In>
void LinearObjective::Block<In>::subtract_gold(double& loss) {
    for (int64_t i = 0; i < n; ++i) {
        const int64_t at = begin(i), T = length(i);
        if (T == 0) continue;
        loss += weight(i) * worker.log_z[i];
        if (is_open(i)) continue;
        const int32_t* path = objective.gold.data() + first + at;
        double score = 0;
        objective.space.each_of_path(path, T, objective.boundaries,
                                     [&](int64_t j) { score += tail[j]; });
        for (int64_t t = 0; t < T; ++t) {
            score += worker.emit[(at + t) * Y + path[t]];
            gamma()[(at + t) * Y + path[t]] -= In(1);
            if (!with_edges() || t == 0) continue;
            score += edge()[((at + t) * Y + path[t - 1]) * Y + path[t]];
            xi()[((at + t) * Y + path[t - 1]) * Y + path[t]] -= In(1);
        }
        loss -= weight(i) * score;
    }
}

// loss −= weight_i * log_z_i(gold), gamma −= gamma(gold) and xi −= xi(gold), for sentences whose
// labels are open: the same sums with emit = −inf where the labels do not permit y.
template <class In>
void LinearObjective::Block<In>::subtract_open(double& loss) {
    const auto* open = objective.is_open.data() + lo;
    if (std::none_of(open, open + n, [](uint8_t is_open) { return is_open; })) return;
    objective.close(first, tokens, worker.emit.data(), worker.closed);
    grow(worker.observed, tokens * Y);
    grow(worker.observed_pairs, tokens * YY);
    worker.weight.resize(n);
    for (int64_t i = 0; i < n; ++i) worker.weight[i] = is_open(i) ? -weight(i) : 0.0;
    In *kept = worker.observed.data(),
       *kept_pairs = with_edges() ? worker.observed_pairs.data() : nullptr;
    sum_paths(worker.closed.data(), worker.weight.data(), kept, kept_pairs);
    for (int64_t i = 0; i < n; ++i) {
        if (!is_open(i)) continue;
        loss -= weight(i) * worker.log_z[i];
        const int64_t end = begin(i + 1);
        for (int64_t j = begin(i) * Y; j < end * Y; ++j) gamma()[j] -= kept[j];
        for (int64_t j = begin(i) * YY; j < end * YY; ++j) xi()[j] -= kept_pairs[j];
    }
}

// grad[a, y] += value * weight_i * gamma[t, y] for the attributes a of token t; edges likewise with
// xi[t, y_prev, y], which is zero at a first token.
template <class In>
void LinearObjective::Block<In>::add_gradient(double* gradient) {
    for (int64_t i = 0; i < n; ++i) {
        const int64_t at = begin(i), end = begin(i + 1);
        if (at == end) continue;
        std::fill_n(worker.pairs.data() + at * YY, YY, In(0));
        const In factor = static_cast<In>(weight(i));
        if (factor == In(1)) continue;
        for (int64_t j = at * Y; j < end * Y; ++j) gamma()[j] *= factor;
        for (int64_t j = at * YY; j < end * YY; ++j) xi()[j] *= factor;
    }
    spread(objective.node_lists, Y, gamma(), gradient);
    if (with_edges()) spread(objective.edge_lists, YY, xi(), gradient);
}

template <class In>
void LinearObjective::Block<In>::spread(const OwnedLists& lists, int64_t width, const In* rows,
                                        double* gradient) {
    add_rows(
        RowAdd<In>{lists.view(), first, tokens, width, rows, gradient, worker.wide_row.data()});
}

double LinearObjective::evaluate(const double* theta, double* grad, int64_t threads) const {
    return evaluate(of_theta, theta, grad, threads);
}

double LinearObjective::evaluate(const Coordinates& rows, const double* x, double* grad,
                                 int64_t threads) const {
    if (is_pattern()) throw std::invalid_argument("a pattern cannot be evaluated");
    if (pruning) throw std::invalid_argument("with pruning the loss is not a fixed function");
    std::lock_guard lock(mutex);
    return float32 ? run(space32, rows, x, grad, threads) : run(space64, rows, x, grad, threads);
}

// Runs the shards on many threads; losses and gradients are added in the order of the shards.
template <class In>
double LinearObjective::run(std::shared_ptr<Workspace<In>>& kept, const Coordinates& rows,
                            const double* x, double* grad, int64_t threads) const {
    const int64_t K = static_cast<int64_t>(shards.size()) - 1;
    const int64_t additions =
        static_cast<int64_t>(node_lists.full.size()) * Y + T * Y * (separate ? 1 : Y);
    threads = additions < kWorthThreads ? 1 : std::max<int64_t>(threads, 1);
    // Moved out while in use: after an exception a new one is created.
    std::shared_ptr<Workspace<In>> work = std::move(kept);
    if (!work) work = make_workspace<In>();
    load(*work, rows, x, threads);
    if (grad && !rows.is_plain()) grow(work->gradient, rows.n_slots + kRowSlack);
    double* gradient = !grad ? nullptr : rows.is_plain() ? grad : work->gradient.data();
    if (grad)
        in_pieces(rows.n_slots, threads,
                  [&](int64_t lo, int64_t hi) { std::fill(gradient + lo, gradient + hi, 0.0); });

    const int64_t at_once = std::min(threads, K);
    std::vector<Worker<In>> workers(at_once);
    std::vector<double> loss(K, 0.0);
    // One spare gradient, so that a thread that is ahead can continue.
    const int64_t window = at_once > 1 ? at_once + 1 : 1;
    while (grad && static_cast<int64_t>(work->gradients.size()) < window)
        work->gradients.emplace_back(of_theta.n_slots + kRowSlack, 0.0);
    InOrder in_order(K, window);
    parallel_for(K, at_once, [&](int64_t k, int64_t w) {
        InOrder::Item item(in_order, k);
        if (!item.begin()) return;
        double* of_shard = grad ? work->gradients[k % window].data() : nullptr;
        for (int64_t b = shards[k]; b < shards[k + 1]; ++b)
            loss[k] += Block<In>(*this, *work, workers[w], x + rows.n, k, b).run(of_shard);
        if (grad && !work->dense_counts.empty())
            space.spread_dense(work->dense_counts[k].data(), boundaries, work->counts[k].data());
        item.finish([&](int64_t next) {
            if (!grad) return;
            double* from = work->gradients[next % window].data();
            for (int64_t j = 0; j < reach[next]; ++j) gradient[j] += std::exchange(from[j], 0.0);
        });
    });
    finish(*work, rows, grad, threads);
    kept = std::move(work);
    return std::accumulate(loss.begin(), loss.end(), 0.0);
}

template <class In>
std::shared_ptr<LinearObjective::Workspace<In>> LinearObjective::make_workspace() const {
    const int64_t K = static_cast<int64_t>(shards.size()) - 1, n_dense = space.dense.size();
    auto work = std::make_shared<Workspace<In>>();
    work->weights.assign(of_theta.n_slots + kRowSlack, In(0));
    work->counts.assign(K, std::vector<double>(space.tail_size(boundaries), 0.0));
    if (!space.is_first_order()) work->dense_counts.assign(K, std::vector<double>(n_dense, 0.0));
    work->trans.assign(n_dense, 0.0);
    work->start.assign(Y, 0.0);
    work->stop.assign(Y, 0.0);
    return work;
}

// Adds up the weights of each slot in the kernels' type.
template <class In>
void LinearObjective::load(Workspace<In>& work, const Coordinates& rows, const double* x,
                           int64_t threads) const {
    In* sums = work.weights.data();
    const auto slot = [&](int64_t k) { return rows.slot.empty() ? k : int64_t{rows.slot[k]}; };
    const auto scale = [&](int64_t k) { return rows.scale.empty() ? 1.0 : rows.scale[k]; };
    if (!rows.is_plain()) std::fill_n(sums, rows.n_slots, In(0));
    // Weights that share a slot are added in their order.
    in_pieces(rows.n, rows.is_shared ? 1 : threads, [&](int64_t lo, int64_t hi) {
        if (rows.is_shared)
            for (int64_t k = lo; k < hi; ++k) sums[slot(k)] += static_cast<In>(scale(k) * x[k]);
        else
            for (int64_t k = lo; k < hi; ++k) sums[slot(k)] = static_cast<In>(scale(k) * x[k]);
    });
    if (n_groups > 0) sum_rows(RowSum<In>{group_lists.view(), 0, n_groups, Y, sums, sums});
    const double *tail = x + rows.n, *tied = tail + space.ties_at(boundaries);
    for (size_t j = 0; j < space.dense.size(); ++j)
        work.trans[j] = space.transition_score(tail, tied, space.dense[j]);
    if (!boundaries) return;
    std::copy_n(tail + Y * Y, Y, work.start.begin());
    std::copy_n(tail + Y * Y + Y, Y, work.stop.begin());
}

// Adds the gradient of the sum of each group to that of its rows.
template <class In>
void LinearObjective::spread_groups(Workspace<In>& work) const {
    if (n_groups == 0) return;
    std::vector<double> scratch(Y + kRowSlack);
    work.of_groups.assign(work.gradient.begin(), work.gradient.begin() + n_groups * Y);
    add_rows(RowAdd<In>{group_lists.view(), 0, n_groups, Y, work.of_groups.data(),
                        work.gradient.data(), scratch.data()});
}

// Writes the gradient of the coordinates, with the mask, and that of the tail: expected minus
// observed counts.
template <class In>
void LinearObjective::finish(Workspace<In>& work, const Coordinates& rows, double* grad,
                             int64_t threads) const {
    if (grad) {
        spread_groups(work);
        const double* of_slot = rows.is_plain() ? grad : work.gradient.data();
        in_pieces(rows.n, threads, [&](int64_t lo, int64_t hi) {
            for (int64_t k = lo; k < hi; ++k) {
                const double sum = of_slot[rows.slot.empty() ? k : int64_t{rows.slot[k]}];
                grad[k] = rows.scale.empty() ? sum : rows.scale[k] * sum;
                if (rows.is_free && !rows.is_free[k]) grad[k] = 0;
            }
        });
        for (int64_t j = 0; j < space.tail_size(boundaries); ++j) {
            double sum = -observed[j];
            for (const auto& counts : work.counts) sum += counts[j];
            grad[rows.n + j] = is_free[trans_at + j] ? sum : 0.0;
        }
    }
    // Also without a gradient: sum_one() adds to the counts in any case.
    for (auto& counts : work.counts) std::fill(counts.begin(), counts.end(), 0.0);
}

}  // namespace tagloom
