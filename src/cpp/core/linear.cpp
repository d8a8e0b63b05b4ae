#include "core/linear.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/chain.hpp"
#include "core/dense.hpp"
#include "core/dispatch.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

template <class In>
constexpr In kInfinity = std::numeric_limits<In>::infinity();

constexpr int64_t kFull = 4;                // a full row for 1/4 of the labels
constexpr int64_t kManyWeights = 1 << 20;   // beyond, fewer shards: each has a gradient to add
constexpr int64_t kBlockBytes = 192 << 10;  // of scores in a block
constexpr int64_t kLanes = 32;              // sentences in a block come in multiples of this
constexpr int64_t kWindow = 2048;           // sentences sorted by length together
constexpr int64_t kMostParts = 4;           // of the tokens, when rows are laid out
constexpr int64_t kBitsBytes = 64 << 20;    // of what attributes were seen with, at a time
constexpr int64_t kPiece = 1 << 14;         // weights per piece of work
constexpr int64_t kWorthThreads = 200'000;  // additions below which one thread is as fast

// Where the shards end, in 32nds of the tokens. The last are short ones, so that threads that take
// one after another end at about the same time, be they two, three or four.
constexpr int64_t kShardEnds[] = {5, 10, 15, 20, 23, 26, 29, 31, 32};
constexpr int64_t kFewShardEnds[] = {8, 16, 24, 29, 32};

[[noreturn]] void fail(const std::string& what) { throw std::invalid_argument(what); }

void check_attributes(const Attributes& x, int64_t T, int64_t width, const std::string& prefix) {
    if (x.indptr[0] != 0 || x.indptr[T] != x.nnz)
        fail(prefix + "indptr must run from 0 to len(" + prefix +
             "ids) = " + std::to_string(x.nnz) + "; it runs from " + std::to_string(x.indptr[0]) +
             " to " + std::to_string(x.indptr[T]) + ".");
    for (int64_t t = 0; t < T; ++t)
        if (x.indptr[t] > x.indptr[t + 1])
            fail(prefix + "indptr must not decrease; it does at token " + std::to_string(t) + ".");
    for (int64_t j = 0; j < x.nnz; ++j) {
        if (x.ids[j] < 0 || x.ids[j] >= x.n)
            fail(prefix + "ids[" + std::to_string(j) + "] is " + std::to_string(x.ids[j]) +
                 "; attributes are numbered 0 to " + std::to_string(x.n - 1) + ".");
        if (x.values && !std::isfinite(x.values[j]))
            fail(prefix + "values[" + std::to_string(j) + "] is not a finite number.");
    }
    for (int64_t k = 0; k < x.n_known; ++k)
        if (x.known[k] < 0 || x.known[k] >= x.n || x.known_cols[k] >= width)
            fail(prefix + "known[" + std::to_string(k) + "] is not a weight of an attribute.");
}

void check(const Examples& x) {
    if (x.Y < 1 || x.Y > 65535)
        fail("the number of labels must be 1 to 65535; got " + std::to_string(x.Y) + ".");
    if (x.edges.indptr && x.Y > 256)
        fail("edge attributes need at most 256 labels; got " + std::to_string(x.Y) + ".");
    if (x.nodes.n < 0 || x.edges.n < 0) fail("the number of attributes must not be negative.");
    if (x.N < 0 || x.offsets[0] != 0 || x.offsets[x.N] != x.T)
        fail("offsets must run from 0 to the number of tokens.");
    for (int64_t i = 0; i < x.N; ++i) {
        if (x.offsets[i] > x.offsets[i + 1])
            fail("offsets must not decrease; they do at sentence " + std::to_string(i) + ".");
        if (x.weight && !(x.weight[i] >= 0 && std::isfinite(x.weight[i])))
            fail("weight[" + std::to_string(i) + "] must be finite and not negative.");
    }
    for (int64_t t = 0; t < x.T; ++t)
        if (x.gold[t] < -x.n_sets || x.gold[t] >= x.Y)
            fail("gold[" + std::to_string(t) + "] is " + std::to_string(x.gold[t]) +
                 "; labels are numbered 0 to " + std::to_string(x.Y - 1) + ", sets of them -1 to " +
                 std::to_string(-x.n_sets) + ".");
    for (int64_t t = 0; x.allowed && t < x.T; ++t)
        if (x.allowed[t] < -x.n_sets || x.allowed[t] >= 0)
            fail("allowed[" + std::to_string(t) + "] is not a set of labels.");
    if (x.space && x.space->Y() != x.Y) fail("the state space has another number of labels.");
    check_attributes(x.nodes, x.T, x.Y, "");
    if (x.edges.indptr) check_attributes(x.edges, x.T, x.Y * x.Y, "edge_");
}

// Appends the row of an attribute that was seen with the columns whose bits are set.
void add_row(const uint64_t* bits, Rows& rows) {
    const int64_t words = (rows.width + 63) / 64, first = rows.size();
    for (int64_t i = 0; i < words; ++i)
        for (uint64_t rest = bits[i]; rest != 0; rest &= rest - 1)
            rows.cols.push_back(static_cast<uint16_t>(64 * i + std::countr_zero(rest)));
    const int64_t seen = rows.size() - first;
    if (seen > 0 && seen * kFull >= rows.width) {
        rows.cols.resize(first + rows.width);
        std::iota(rows.cols.begin() + first, rows.cols.end(), 0);
        for (int64_t c = 0; c < rows.width; ++c) rows.is_free.push_back(bits[c / 64] >> c % 64 & 1);
    }
    rows.is_free.resize(rows.size(), 1);
    rows.ptr.push_back(rows.size());
}

// columns(t, see) calls see(column) for what an attribute of token t is seen with.
template <class Columns>
Rows make_rows(const Attributes& x, int64_t T, int64_t width, bool all, int64_t threads,
               const Columns& columns) {
    Rows rows;
    rows.width = width;
    rows.ptr.reserve(x.n + 1);
    if (all) {
        for (int64_t a = 1; a <= x.n; ++a) rows.ptr.push_back(a * width);
        rows.cols.resize(x.n * width);
        for (int64_t j = 0; j < rows.size(); ++j) rows.cols[j] = static_cast<uint16_t>(j % width);
        rows.is_free.assign(rows.size(), 1);
        return rows;
    }
    // A bit for each column, of so many attributes at a time that their bits take little room. Each
    // thread sets bits of its own, of some of the tokens; to join them must not take longer.
    const int64_t words = (width + 63) / 64, bits_to_join = std::max<int64_t>(x.n * words, 1);
    const int64_t parts =
        std::clamp<int64_t>(std::min(threads, x.indptr[T] / bits_to_join), 1, kMostParts);
    const int64_t room = std::max<int64_t>(kBitsBytes / 8 / words / parts, 1);
    std::vector<std::vector<uint64_t>> bits(parts);
    for (int64_t first = 0; first < x.n; first += room) {
        const int64_t n = std::min(room, x.n - first);
        auto set = [&](int64_t part, int64_t attribute, int64_t c) {
            const int64_t a = attribute - first;
            if (a >= 0 && a < n) bits[part][a * words + c / 64] |= uint64_t{1} << c % 64;
        };
        parallel_for(parts, threads, [&](int64_t p, int64_t) {
            bits[p].assign(n * words, 0);
            for (int64_t t = T * p / parts; t < T * (p + 1) / parts; ++t)
                columns(t, [&](int64_t c) {
                    for (int64_t j = x.indptr[t]; j < x.indptr[t + 1]; ++j) set(p, x.ids[j], c);
                });
        });
        for (int64_t k = 0; k < x.n_known; ++k) set(0, x.known[k], x.known_cols[k]);
        for (int64_t a = 0; a < n; ++a) {
            uint64_t* own = bits[0].data() + a * words;
            for (int64_t p = 1; p < parts; ++p)
                for (int64_t i = 0; i < words; ++i) own[i] |= bits[p][a * words + i];
            add_row(own, rows);
        }
    }
    return rows;
}

// The lists of all tokens; tokens(work) calls work(place, t) for each that has attributes, at its
// place in the order of work, on many threads.
template <class Tokens>
OwnedLists make_lists(const Attributes& x, const Rows& rows, int64_t base, int64_t T,
                      const Tokens& tokens) {
    OwnedLists lists;
    lists.valued = x.values;
    lists.full_ptr.assign(T + 1, 0);
    lists.single_ptr.assign(T + 1, 0);
    tokens([&](int64_t place, int64_t t) {
        int64_t n_full = 0, n_single = 0;
        for (int64_t j = x.indptr[t]; j < x.indptr[t + 1]; ++j) {
            const int64_t a = x.ids[j];
            n_full += rows.is_full(a);
            n_single += rows.is_full(a) ? 0 : rows.ptr[a + 1] - rows.ptr[a];
        }
        lists.full_ptr[place + 1] = n_full;
        lists.single_ptr[place + 1] = n_single;
    });
    for (auto* ptr : {&lists.full_ptr, &lists.single_ptr})
        std::partial_sum(ptr->begin(), ptr->end(), ptr->begin());
    const int64_t n_full = lists.full_ptr[T], n_single = lists.single_ptr[T];
    lists.full = PagedArray<uint32_t>(n_full + kListSlack);
    lists.single = PagedArray<uint32_t>(n_single + kListSlack);
    lists.column = PagedArray<uint16_t>(n_single);
    lists.square.assign(T, 0);
    if (x.values) {
        lists.full_value = PagedArray<float>(n_full);
        lists.single_value = PagedArray<float>(n_single);
    }
    tokens([&](int64_t place, int64_t t) {
        int64_t full = lists.full_ptr[place], single = lists.single_ptr[place];
        float square = 0;
        for (int64_t j = x.indptr[t]; j < x.indptr[t + 1]; ++j) {
            const int64_t a = x.ids[j];
            square += x.values ? x.values[j] * x.values[j] : 1;
            if (rows.is_full(a)) {
                if (x.values) lists.full_value[full] = x.values[j];
                lists.full[full++] = static_cast<uint32_t>(base + rows.ptr[a]);
                continue;
            }
            for (int64_t w = rows.ptr[a]; w < rows.ptr[a + 1]; ++w) {
                if (x.values) lists.single_value[single] = x.values[j];
                lists.column[single] = rows.cols[w];
                lists.single[single++] = static_cast<uint32_t>(base + w);
            }
        }
        lists.square[place] = square;
    });
    return lists;
}

}  // namespace

// What evaluations need again and again. Gradients and counts are zero between calls.
template <class In>
struct Problem::Workspace {
    std::vector<In> weights;                        // theta of the rows, in the kernels' arithmetic
    std::vector<std::vector<double>> gradients;     // [window][rows + slack] of shards at work
    std::vector<std::vector<double>> counts;        // [K][tail]
    std::vector<std::vector<double>> dense_counts;  // [K][levels, G, Y, Y]; not first order
    std::vector<double> moves;                      // [levels, G, Y, Y] where the space is dense
    std::vector<double> start, stop;                // [Y]
};

// Scratch of one thread.
template <class In>
struct Problem::Worker {
    std::vector<In> emit, edge, marginals, pairs;
    std::vector<In> closed, observed, observed_pairs;  // of sentences whose labels are left open
    std::vector<double> wide_row, log_z, weight, starts, stops;
    std::vector<int64_t> offsets;
    std::unique_ptr<bool[]> ok;
    std::unique_ptr<Chain<In>> chain;  // of this theta, made where it is needed
};

Problem::Problem(const Examples& x, int64_t threads)
    : N(x.N), T(x.T), Y(x.Y), boundaries(x.boundaries), float32(x.float32) {
    check(x);
    if (x.nodes.nnz + x.edges.nnz < kWorthThreads) threads = 1;
    space = x.space ? *x.space : Space::first_order(Y);
    sets.assign(x.sets, x.sets + x.n_sets * Y);
    // The labels that a token was seen with; one that may have any label says nothing.
    auto labels = [&](int64_t t, const auto& see) {
        if (x.gold[t] >= 0) return see(x.gold[t]);
        const uint8_t* set = sets.data() + (-1 - x.gold[t]) * Y;
        if (std::count(set, set + Y, 1) == Y) return;
        for (int64_t y = 0; y < Y; ++y)
            if (set[y]) see(y);
    };
    nodes = make_rows(x.nodes, T, Y, x.all_combinations, threads, labels);
    edges_at = nodes.size();
    std::vector<uint8_t> is_first(T + 1, 0);
    for (int64_t i = 0; i < N; ++i) is_first[x.offsets[i]] = 1;
    if (x.edges.indptr)
        edges = make_rows(
            x.edges, T, Y * Y, x.all_combinations, threads, [&](int64_t t, const auto& see) {
                if (is_first[t]) return;
                labels(t - 1,
                       [&](int64_t y_prev) { labels(t, [&](int64_t y) { see(y_prev * Y + y); }); });
            });
    trans_at = edges_at + edges.size();
    if (n_weights() > int64_t(std::numeric_limits<uint32_t>::max()))
        fail("the model would have " + std::to_string(n_weights()) +
             " weights; at most 4294967295 are possible. Drop rare attributes.");

    // Shards in the order given, sorted by length a window at a time, and cut into blocks.
    const std::span<const int64_t> ends =
        trans_at > kManyWeights ? std::span<const int64_t>(kFewShardEnds) : kShardEnds;
    const int64_t K = std::ssize(ends);
    order.resize(N);
    std::iota(order.begin(), order.end(), 0);
    auto length = [&](int64_t i) { return x.offsets[i + 1] - x.offsets[i]; };
    const int64_t scores = Y + (x.edges.indptr ? Y * Y : 0), bytes = float32 ? 4 : 8;
    const int64_t room = std::max<int64_t>(kBlockBytes / (scores * bytes), 1);
    const int64_t together = x.edges.indptr ? 1 : kLanes;  // with edge scores there are no lanes
    blocks.push_back(0);
    shards.push_back(0);
    starts.push_back(0);
    for (int64_t k = 0, i = 0; k < K; ++k) {
        const int64_t lo = i, end = T * ends[k] / ends.back();
        while (i < N && (k + 1 == K || x.offsets[i + 1] <= end)) ++i;
        for (int64_t w = lo; w < i; w += kWindow)
            std::stable_sort(order.begin() + w, order.begin() + std::min(w + kWindow, i),
                             [&](int64_t a, int64_t b) { return length(a) > length(b); });
        int64_t tokens = 0, n = 0;
        for (int64_t s = lo; s < i; ++s) {
            tokens += length(order[s]);
            ++n;
            starts.push_back(starts.back() + length(order[s]));
            if (s + 1 == i || (tokens >= room && n % together == 0) || tokens >= 8 * room) {
                blocks.push_back(s + 1);
                tokens = n = 0;
            }
        }
        shards.push_back(static_cast<int64_t>(blocks.size()) - 1);
    }

    observed.assign(space.tail_size(boundaries), 0.0);
    mask.assign(n_weights(), x.all_combinations);
    std::copy(nodes.is_free.begin(), nodes.is_free.end(), mask.begin());
    std::copy(edges.is_free.begin(), edges.is_free.end(), mask.begin() + edges_at);
    // Weights that the state space ties to its moves are there because it wants them.
    std::fill(mask.begin() + trans_at + space.ties_at(boundaries), mask.end(), 1);
    gold.reserve(T);
    weight.reserve(N);
    for (const int64_t i : order) {
        weight.push_back(x.weight ? x.weight[i] : 1.0);
        const int64_t lo = x.offsets[i], hi = x.offsets[i + 1];
        gold.insert(gold.end(), x.gold + lo, x.gold + hi);
        if (x.allowed) allowed.insert(allowed.end(), x.allowed + lo, x.allowed + hi);
        is_open.push_back(std::any_of(x.gold + lo, x.gold + hi, [](int32_t g) { return g < 0; }));
        if (lo == hi) continue;
        if (!is_open.back() &&
            !space.each_of_path(x.gold + lo, hi - lo, boundaries,
                                [&](int64_t j) { observed[j] += weight.back(); }))
            fail("sentence " + std::to_string(i) + ": the state space refuses its labels.");
        for (int64_t t = lo + 1; t < hi; ++t)
            labels(t - 1, [&](int64_t y_prev) {
                labels(t, [&](int64_t y) { mask[trans_at + y_prev * Y + y] = 1; });
            });
        if (!boundaries) continue;
        labels(lo, [&](int64_t y) { mask[trans_at + Y * Y + y] = 1; });
        labels(hi - 1, [&](int64_t y) { mask[trans_at + Y * Y + Y + y] = 1; });
    }
    const auto tokens_from = [&](int64_t first, const auto& work) {  // of each sentence
        parallel_for(blocks.size() - 1, threads, [&](int64_t b, int64_t) {
            for (int64_t s = blocks[b]; s < blocks[b + 1]; ++s)
                for (int64_t t = first; t < length(order[s]); ++t)
                    work(starts[s] + t, x.offsets[order[s]] + t);
        });
    };
    node_lists = make_lists(x.nodes, nodes, 0, T, [&](const auto& work) { tokens_from(0, work); });
    if (x.edges.indptr)  // an edge needs a label before it
        edge_lists = make_lists(x.edges, edges, edges_at, T,
                                [&](const auto& work) { tokens_from(1, work); });

    reach.resize(K);
    parallel_for(K, threads, [&](int64_t k, int64_t) {
        const int64_t lo = starts[blocks[shards[k]]], hi = starts[blocks[shards[k + 1]]];
        int64_t last = 0;
        auto extend = [&](const OwnedLists& lists, int64_t width) {
            if (lists.full_ptr.empty()) return;
            for (int64_t j = lists.full_ptr[lo]; j < lists.full_ptr[hi]; ++j)
                last = std::max(last, lists.full[j] + width);
            for (int64_t j = lists.single_ptr[lo]; j < lists.single_ptr[hi]; ++j)
                last = std::max<int64_t>(last, lists.single[j] + 1);
        };
        extend(node_lists, Y);
        extend(edge_lists, Y * Y);
        reach[k] = last;
    });
}

Problem::~Problem() = default;

double Problem::evaluate(const double* theta, double* grad, int64_t threads) const {
    std::lock_guard lock(mutex);
    return float32 ? run(space32, theta, grad, threads) : run(space64, theta, grad, threads);
}

template <class In>
void Problem::forbid(int64_t first, int64_t n, In* emit) const {
    if (allowed.empty()) return;
    for (int64_t t = 0; t < n; ++t)
        for (int64_t y = 0; y < Y; ++y)
            if (!permits(allowed[first + t], y)) emit[t * Y + y] = -kInfinity<In>;
}

template <class In>
void Problem::close(int64_t first, int64_t n, const In* emit, std::vector<In>& closed) const {
    closed.assign(emit, emit + n * Y);
    for (int64_t t = 0; t < n; ++t)
        for (int64_t y = 0; y < Y; ++y)
            if (!permits(gold[first + t], y)) closed[t * Y + y] = -kInfinity<In>;
}

template void Problem::forbid(int64_t, int64_t, float*) const;
template void Problem::forbid(int64_t, int64_t, double*) const;
template void Problem::close(int64_t, int64_t, const float*, std::vector<float>&) const;
template void Problem::close(int64_t, int64_t, const double*, std::vector<double>&) const;

template <class In>
double Problem::run(std::unique_ptr<Workspace<In>>& kept, const double* theta, double* grad,
                    int64_t threads) const {
    const int64_t K = static_cast<int64_t>(shards.size()) - 1, W = trans_at;
    const int64_t tail_size = space.tail_size(boundaries), n_dense = space.dense.size();
    const int64_t additions = static_cast<int64_t>(node_lists.full.size()) * Y + T * Y * Y;
    threads = additions < kWorthThreads ? 1 : std::max<int64_t>(threads, 1);
    // Moved out while in use: after an exception it is gone and will be made anew.
    std::unique_ptr<Workspace<In>> work = std::move(kept);
    if (!work) {
        work = std::make_unique<Workspace<In>>();
        work->weights.assign(W + kRowSlack, In(0));
        work->counts.assign(K, std::vector<double>(tail_size, 0.0));
        if (!space.is_first_order())
            work->dense_counts.assign(K, std::vector<double>(n_dense, 0.0));
        work->moves.assign(n_dense, 0.0);
        work->start.assign(Y, 0.0);
        work->stop.assign(Y, 0.0);
    }
    const auto in_pieces = [&](const auto& work_on) {
        parallel_for((W + kPiece - 1) / kPiece, threads, [&](int64_t p, int64_t) {
            work_on(p * kPiece, std::min(W, (p + 1) * kPiece));
        });
    };
    in_pieces([&](int64_t lo, int64_t hi) {
        for (int64_t j = lo; j < hi; ++j) work->weights[j] = static_cast<In>(theta[j]);
        if (grad) std::fill(grad + lo, grad + hi, 0.0);
    });
    const double *tail = theta + W, *tied = tail + space.ties_at(boundaries);
    for (int64_t j = 0; j < n_dense; ++j)
        work->moves[j] = space.move_score(tail, tied, space.dense[j]);
    if (boundaries) {
        std::copy_n(tail + Y * Y, Y, work->start.begin());
        std::copy_n(tail + Y * Y + Y, Y, work->stop.begin());
    }

    threads = std::min(threads, K);
    std::vector<Worker<In>> workers(threads);
    std::vector<double> loss(K, 0.0);
    // Gradients of shards are added in their order. A thread that is ahead has one to go on with.
    const int64_t window = threads > 1 ? threads + 1 : 1;
    while (grad && static_cast<int64_t>(work->gradients.size()) < window)
        work->gradients.emplace_back(W + kRowSlack, 0.0);
    InOrder in_order(K, window);
    parallel_for(K, threads, [&](int64_t k, int64_t w) {
        InOrder::Item item(in_order, k);
        if (!item.begin()) return;
        double* own = grad ? work->gradients[k % window].data() : nullptr;
        for (int64_t b = shards[k]; b < shards[k + 1]; ++b)
            loss[k] += run_block(*work, workers[w], theta, k, b, own);
        if (grad && !work->dense_counts.empty())
            space.spread_dense(work->dense_counts[k].data(), boundaries, work->counts[k].data());
        item.leave([&](int64_t next) {
            if (!grad) return;
            double* from = work->gradients[next % window].data();
            for (int64_t j = 0; j < reach[next]; ++j) grad[j] += std::exchange(from[j], 0.0);
        });
    });

    if (grad) {
        in_pieces([&](int64_t lo, int64_t hi) {
            for (int64_t j = lo; j < hi; ++j) grad[j] = mask[j] ? grad[j] : 0.0;
        });
        for (int64_t j = 0; j < tail_size; ++j) {
            double sum = -observed[j];
            for (const auto& counts : work->counts) sum += counts[j];
            grad[W + j] = mask[W + j] ? sum : 0.0;
        }
    }
    // Without a gradient the counts of sentences that took the long way are there all the same.
    for (auto& counts : work->counts) std::fill(counts.begin(), counts.end(), 0.0);
    kept = std::move(work);
    return std::accumulate(loss.begin(), loss.end(), 0.0);
}

// Scores, sums and the gradient of one block, added to `gradient` unless that is null; returns its
// loss.
template <class In>
double Problem::run_block(Workspace<In>& work, Worker<In>& worker, const double* theta,
                          int64_t shard, int64_t block, double* gradient) const {
    const int64_t lo = blocks[block], n = blocks[block + 1] - lo, first = starts[lo];
    const int64_t tokens = starts[lo + n] - first;
    if (tokens == 0) return 0;
    const RowKernels& kernel = kernels().rows();
    const bool with_edges = has_edges(), with_grad = gradient;
    double* counts = work.counts[shard].data();
    auto grow = [](auto& vector, int64_t size) {
        if (static_cast<int64_t>(vector.size()) < size) vector.resize(size);
    };
    grow(worker.wide_row, (with_edges ? Y * Y : Y) + kRowSlack);
    grow(worker.emit, tokens * Y + kRowSlack);
    grow(worker.marginals, tokens * Y);
    if (static_cast<int64_t>(worker.log_z.size()) < n) {
        worker.log_z.resize(n);
        worker.ok = std::make_unique<bool[]>(n);
    }
    worker.offsets.resize(n + 1);
    for (int64_t i = 0; i <= n; ++i) worker.offsets[i] = starts[lo + i] - first;

    auto add_up = [&](const OwnedLists& lists, int64_t width, In* out) {
        const RowSum<In> task{lists.view(), first, tokens, width, work.weights.data(), out};
        if constexpr (sizeof(In) == 4)
            kernel.sum_f32(task);
        else
            kernel.sum_f64(task);
    };
    add_up(node_lists, Y, worker.emit.data());
    forbid(first, tokens, worker.emit.data());
    if (with_edges) {
        grow(worker.edge, tokens * Y * Y + kRowSlack);
        grow(worker.pairs, tokens * Y * Y);
        add_up(edge_lists, Y * Y, worker.edge.data());
    }
    const In* edge = with_edges ? worker.edge.data() : nullptr;

    // log_z, marginals and pairs of all sentences, and their part in the counts.
    auto sum_up = [&](const In* emit, const double* weights, In* marginals, In* pairs) {
        const bool is_dense = space.levels == 1 || (space.levels > 1 && !with_edges);
        std::fill_n(worker.ok.get(), n, false);
        if (is_dense) {
            worker.starts.assign(Y, 0.0);
            worker.stops.assign(Y, 0.0);
            Expected<In> expected{};
            if (with_grad)
                expected = {marginals, pairs,
                            space.is_first_order() ? counts : work.dense_counts[shard].data(),
                            worker.starts.data(), worker.stops.data()};
            const DenseBatch<In> batch{Y,
                                       space.G,
                                       space.levels,
                                       work.moves.data(),
                                       work.start.data(),
                                       work.stop.data(),
                                       emit,
                                       edge,
                                       worker.offsets.data(),
                                       n,
                                       1};
            sum(batch, weights, expected, worker.log_z.data(), worker.ok.get());
            for (int64_t y = 0; boundaries && y < Y; ++y) {
                counts[Y * Y + y] += worker.starts[y];
                counts[Y * Y + Y + y] += worker.stops[y];
            }
        }
        for (int64_t i = 0; i < n; ++i) {
            const int64_t at = worker.offsets[i], length = worker.offsets[i + 1] - at;
            if (worker.ok[i] || length == 0) continue;
            if (!worker.chain) {
                worker.chain = std::make_unique<Chain<In>>(space, boundaries, with_edges);
                worker.chain->set(theta + trans_at);
            }
            worker.log_z[i] = worker.chain->sum(emit + at * Y, edge ? edge + at * Y * Y : nullptr,
                                                length, weights[i], marginals + at * Y,
                                                pairs ? pairs + at * Y * Y : nullptr, counts);
        }
    };
    In *gamma = worker.marginals.data(), *xi = with_edges ? worker.pairs.data() : nullptr;
    sum_up(worker.emit.data(), weight.data() + lo, gamma, xi);

    double loss = 0;
    const bool some_open = std::any_of(is_open.begin() + lo, is_open.begin() + lo + n,
                                       [](uint8_t open) { return open; });
    for (int64_t i = 0; i < n; ++i) {
        const int64_t at = worker.offsets[i], length = worker.offsets[i + 1] - at;
        if (length == 0) continue;
        loss += weight[lo + i] * worker.log_z[i];
        if (is_open[lo + i]) continue;
        const int32_t* path = gold.data() + first + at;
        double score = 0;
        space.each_of_path(path, length, boundaries,
                           [&](int64_t j) { score += theta[trans_at + j]; });
        for (int64_t t = 0; t < length; ++t) {
            score += worker.emit[(at + t) * Y + path[t]];
            gamma[(at + t) * Y + path[t]] -= In(1);
            if (!with_edges || t == 0) continue;
            score += edge[((at + t) * Y + path[t - 1]) * Y + path[t]];
            xi[((at + t) * Y + path[t - 1]) * Y + path[t]] -= In(1);
        }
        loss -= weight[lo + i] * score;
    }
    if (some_open) {  // the same sums over what their labels leave, to be taken off
        close(first, tokens, worker.emit.data(), worker.closed);
        grow(worker.observed, tokens * Y);
        if (with_edges) grow(worker.observed_pairs, tokens * Y * Y);
        worker.weight.resize(n);
        for (int64_t i = 0; i < n; ++i) worker.weight[i] = is_open[lo + i] ? -weight[lo + i] : 0.0;
        In *kept = worker.observed.data(),
           *kept_pairs = with_edges ? worker.observed_pairs.data() : nullptr;
        sum_up(worker.closed.data(), worker.weight.data(), kept, kept_pairs);
        for (int64_t i = 0; i < n; ++i) {
            if (!is_open[lo + i]) continue;
            loss -= weight[lo + i] * worker.log_z[i];
            for (int64_t j = worker.offsets[i] * Y; j < worker.offsets[i + 1] * Y; ++j)
                gamma[j] -= kept[j];
            for (int64_t j = worker.offsets[i] * Y * Y;
                 with_edges && j < worker.offsets[i + 1] * Y * Y; ++j)
                xi[j] -= kept_pairs[j];
        }
    }
    if (!with_grad) return loss;

    // Residuals, expected minus observed, times the weight of the sentence.
    for (int64_t i = 0; i < n; ++i) {
        const int64_t at = worker.offsets[i], length = worker.offsets[i + 1] - at;
        if (length == 0) continue;
        if (with_edges) std::fill_n(xi + at * Y * Y, Y * Y, In(0));
        const In factor = static_cast<In>(weight[lo + i]);
        if (factor == In(1)) continue;
        for (int64_t j = at * Y; j < (at + length) * Y; ++j) gamma[j] *= factor;
        for (int64_t j = at * Y * Y; with_edges && j < (at + length) * Y * Y; ++j) xi[j] *= factor;
    }
    auto spread = [&](const OwnedLists& lists, int64_t width, const In* rows) {
        const RowAdd<In> task{lists.view(),          first, tokens, width, rows, gradient,
                              worker.wide_row.data()};
        if constexpr (sizeof(In) == 4)
            kernel.add_f32(task);
        else
            kernel.add_f64(task);
    };
    spread(node_lists, Y, gamma);
    if (with_edges) spread(edge_lists, Y * Y, xi);
    return loss;
}

}  // namespace tagloom
