#include "core/linear.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/automaton.hpp"
#include "core/dense.hpp"
#include "core/dispatch.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

constexpr int64_t kFull = 4;                // a full row for 1/4 of the labels
constexpr int64_t kManyWeights = 1 << 20;   // beyond, fewer shards: each has a gradient
constexpr int64_t kBlockBytes = 192 << 10;  // of scores in a block
constexpr int64_t kLanes = 32;              // sentences in a block come in multiples of this
constexpr int64_t kPiece = 1 << 14;         // weights per piece of work
constexpr int64_t kWorthThreads = 200'000;  // additions below which one thread is as fast

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
        if (x.gold[t] < 0 || x.gold[t] >= x.Y)
            fail("gold[" + std::to_string(t) + "] is " + std::to_string(x.gold[t]) +
                 "; labels are numbered 0 to " + std::to_string(x.Y - 1) + ".");
    check_attributes(x.nodes, x.T, x.Y, "");
    if (x.edges.indptr) check_attributes(x.edges, x.T, x.Y * x.Y, "edge_");
}

// column(t) is what an attribute of token t is seen with, or -1 where it has no say.
template <class Column>
Rows make_rows(const Attributes& x, int64_t T, int64_t width, bool all, const Column& column) {
    Rows rows;
    rows.width = width;
    rows.ptr.assign(x.n + 1, 0);
    if (all) {
        for (int64_t a = 0; a <= x.n; ++a) rows.ptr[a] = a * width;
        rows.cols.resize(x.n * width);
        for (int64_t j = 0; j < rows.size(); ++j) rows.cols[j] = static_cast<uint16_t>(j % width);
        rows.is_free.assign(rows.size(), 1);
        return rows;
    }
    // The columns of each attribute's occurrences side by side, then each once.
    std::vector<int64_t> at(x.n + 1, 0);
    for (int64_t t = 0; t < T; ++t)
        for (int64_t j = x.indptr[t]; column(t) >= 0 && j < x.indptr[t + 1]; ++j) ++at[x.ids[j]];
    for (int64_t k = 0; k < x.n_known; ++k) ++at[x.known[k]];
    int64_t total = 0;
    for (int64_t& n : at) total += std::exchange(n, total);
    std::vector<uint16_t> seen(total);
    for (int64_t t = 0; t < T; ++t)
        for (int64_t j = x.indptr[t]; column(t) >= 0 && j < x.indptr[t + 1]; ++j)
            seen[at[x.ids[j]]++] = static_cast<uint16_t>(column(t));
    for (int64_t k = 0; k < x.n_known; ++k) seen[at[x.known[k]]++] = x.known_cols[k];
    std::vector<uint8_t> has(width, 0);
    for (int64_t a = 0, lo = 0; a < x.n; lo = at[a], ++a) {
        auto first = seen.begin() + lo, last = seen.begin() + at[a];
        std::vector<uint16_t> own;
        for (auto c = first; c != last; ++c)
            if (!std::exchange(has[*c], 1)) own.push_back(*c);
        if (!own.empty() && static_cast<int64_t>(own.size()) * kFull >= width) {
            for (int64_t c = 0; c < width; ++c) {
                rows.cols.push_back(static_cast<uint16_t>(c));
                rows.is_free.push_back(has[c]);
            }
        } else {
            std::sort(own.begin(), own.end());
            rows.cols.insert(rows.cols.end(), own.begin(), own.end());
            rows.is_free.resize(rows.cols.size(), 1);
        }
        for (uint16_t c : own) has[c] = 0;
        rows.ptr[a + 1] = rows.size();
    }
    return rows;
}

// The lists of all tokens; tokens(work) calls work(t) for each in the order of work.
template <class Tokens>
OwnedLists make_lists(const Attributes& x, const Rows& rows, int64_t base, int64_t T,
                      const Tokens& tokens) {
    OwnedLists lists;
    lists.valued = x.values;
    for (auto* ptr : {&lists.full_ptr, &lists.single_ptr}) {
        ptr->reserve(T + 1);
        ptr->push_back(0);
    }
    int64_t n_full = 0, n_single = 0;
    tokens([&](int64_t t, bool counts) {
        for (int64_t j = x.indptr[t]; counts && j < x.indptr[t + 1]; ++j)
            if (rows.is_full(x.ids[j]))
                ++n_full;
            else
                n_single += rows.ptr[x.ids[j] + 1] - rows.ptr[x.ids[j]];
    });
    lists.full.reserve(n_full + kListSlack);
    lists.single.reserve(n_single + kListSlack);
    lists.column.reserve(n_single);
    if (x.values) {
        lists.full_value.reserve(n_full + 1);
        lists.single_value.reserve(n_single + 1);
    }
    tokens([&](int64_t t, bool counts) {
        for (int64_t j = x.indptr[t]; counts && j < x.indptr[t + 1]; ++j) {
            const int64_t a = x.ids[j];
            if (rows.is_full(a)) {
                lists.full.push_back(static_cast<uint32_t>(base + rows.ptr[a]));
                if (x.values) lists.full_value.push_back(x.values[j]);
                continue;
            }
            for (int64_t w = rows.ptr[a]; w < rows.ptr[a + 1]; ++w) {
                lists.single.push_back(static_cast<uint32_t>(base + w));
                lists.column.push_back(rows.cols[w]);
                if (x.values) lists.single_value.push_back(x.values[j]);
            }
        }
        lists.full_ptr.push_back(lists.full.size());
        lists.single_ptr.push_back(lists.single.size());
    });
    lists.full.resize(lists.full.size() + kListSlack, 0);
    lists.single.resize(lists.single.size() + kListSlack, 0);
    if (x.values) {  // never empty: a null pointer stands for values of 1
        lists.full_value.push_back(0);
        lists.single_value.push_back(0);
    }
    return lists;
}

}  // namespace

// What evaluations need again and again. The gradients of the shards are zero between calls.
template <class In>
struct Problem::Workspace {
    std::vector<In> weights;                     // theta of the rows, in the kernels' arithmetic
    std::vector<std::vector<double>> gradients;  // [K][reach + slack]
    std::vector<std::vector<double>> counts;     // [K][Y * Y + 2 * Y]
    std::vector<double> start, stop;             // [Y]
    Automaton automaton;                         // the same model in log space
};

// Scratch of one thread.
template <class In>
struct Problem::Worker {
    std::vector<In> emit, edge, marginals, pairs, row;
    std::vector<double> wide_row, log_z;
    std::vector<int64_t> offsets;
    std::unique_ptr<bool[]> ok;
};

Problem::Problem(const Examples& x)
    : N(x.N), T(x.T), Y(x.Y), boundaries(x.boundaries), float32(x.float32) {
    check(x);
    nodes =
        make_rows(x.nodes, T, Y, x.all_combinations, [&](int64_t t) { return int64_t(x.gold[t]); });
    edges_at = nodes.size();
    std::vector<uint8_t> is_first(T + 1, 0);
    for (int64_t i = 0; i < N; ++i) is_first[x.offsets[i]] = 1;
    if (x.edges.indptr)
        edges = make_rows(x.edges, T, Y * Y, x.all_combinations, [&](int64_t t) {
            return is_first[t] ? -1 : x.gold[t - 1] * Y + x.gold[t];
        });
    trans_at = edges_at + edges.size();
    start_at = trans_at + Y * Y;
    stop_at = start_at + (boundaries ? Y : 0);
    if (n_weights() > int64_t(std::numeric_limits<uint32_t>::max()))
        fail("the model would have " + std::to_string(n_weights()) +
             " weights; at most 4294967295 are possible. Drop rare attributes.");

    // Shards in the order given, each sorted by length and cut into blocks.
    const int64_t K = std::max<int64_t>(1, std::min<int64_t>(trans_at > kManyWeights ? 4 : 8, N));
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
        const int64_t lo = i, end = T * (k + 1) / K;
        while (i < N && (k + 1 == K || x.offsets[i + 1] <= end)) ++i;
        std::stable_sort(order.begin() + lo, order.begin() + i,
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

    observed.assign(Y * Y + 2 * Y, 0.0);
    mask.assign(n_weights(), x.all_combinations);
    std::copy(nodes.is_free.begin(), nodes.is_free.end(), mask.begin());
    std::copy(edges.is_free.begin(), edges.is_free.end(), mask.begin() + edges_at);
    gold.reserve(T);
    weight.reserve(N);
    for (const int64_t i : order) {
        weight.push_back(x.weight ? x.weight[i] : 1.0);
        const int64_t lo = x.offsets[i], hi = x.offsets[i + 1];
        gold.insert(gold.end(), x.gold + lo, x.gold + hi);
        if (lo == hi) continue;
        for (int64_t t = lo + 1; t < hi; ++t) {
            observed[x.gold[t - 1] * Y + x.gold[t]] += weight.back();
            mask[trans_at + x.gold[t - 1] * Y + x.gold[t]] = 1;
        }
        observed[Y * Y + x.gold[lo]] += weight.back();
        observed[Y * Y + Y + x.gold[hi - 1]] += weight.back();
        if (boundaries) mask[start_at + x.gold[lo]] = mask[stop_at + x.gold[hi - 1]] = 1;
    }
    auto tokens = [&](const auto& work) {
        for (const int64_t i : order)
            for (int64_t t = x.offsets[i]; t < x.offsets[i + 1]; ++t) work(t, true);
    };
    auto inner = [&](const auto& work) {  // an edge needs a label before it
        for (const int64_t i : order)
            for (int64_t t = x.offsets[i]; t < x.offsets[i + 1]; ++t) work(t, t > x.offsets[i]);
    };
    node_lists = make_lists(x.nodes, nodes, 0, T, tokens);
    if (x.edges.indptr) edge_lists = make_lists(x.edges, edges, edges_at, T, inner);

    for (int64_t k = 0; k < K; ++k) {
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
        reach.push_back(last);
    }
}

Problem::~Problem() = default;

double Problem::evaluate(const double* theta, double* grad, int64_t threads) const {
    std::lock_guard lock(mutex);
    return float32 ? run(space32, theta, grad, threads) : run(space64, theta, grad, threads);
}

template <class In>
double Problem::run(std::unique_ptr<Workspace<In>>& kept, const double* theta, double* grad,
                    int64_t threads) const {
    const int64_t K = static_cast<int64_t>(shards.size()) - 1, W = trans_at, C = Y * Y + 2 * Y;
    const int64_t additions = static_cast<int64_t>(node_lists.full.size()) * Y + T * Y * Y;
    threads = additions < kWorthThreads ? 1 : std::max<int64_t>(threads, 1);
    // Moved out while in use: after an exception it is gone and will be made anew.
    std::unique_ptr<Workspace<In>> space = std::move(kept);
    if (!space) {
        space = std::make_unique<Workspace<In>>();
        space->weights.assign(W + kRowSlack, In(0));
        space->gradients.resize(K);
        for (int64_t k = 0; k < K; ++k) space->gradients[k].assign(reach[k] + kRowSlack, 0.0);
        space->counts.assign(K, std::vector<double>(C, 0.0));
        space->start.assign(Y, 0.0);
        space->stop.assign(Y, 0.0);
        Automaton& a = space->automaton;
        a.Y = Y;
        for (int32_t y = 0; y < Y; ++y) {
            a.label.push_back(y);
            for (int32_t y_prev = 0; y_prev < Y; ++y_prev) {
                a.src.push_back(y_prev);
                a.dst.push_back(y);
            }
        }
        a.score.assign(Y * Y, 0.0);
        a.index();
    }
    const int64_t pieces = (W + kPiece - 1) / kPiece;
    parallel_for(pieces, threads, [&](int64_t p, int64_t) {
        for (int64_t j = p * kPiece; j < std::min(W, (p + 1) * kPiece); ++j)
            space->weights[j] = static_cast<In>(theta[j]);
    });
    if (boundaries) {
        std::copy_n(theta + start_at, Y, space->start.begin());
        std::copy_n(theta + stop_at, Y, space->stop.begin());
    }
    for (int64_t m = 0; m < Y * Y; ++m)
        space->automaton.score[m] = theta[trans_at + m % Y * Y + m / Y];
    space->automaton.start = space->start;
    space->automaton.stop = space->stop;

    std::vector<Worker<In>> workers(std::min(threads, K));
    std::vector<double> loss(K, 0.0);
    parallel_for(K, threads, [&](int64_t k, int64_t w) {
        double* own = grad ? space->gradients[k].data() : nullptr;
        for (int64_t b = shards[k]; b < shards[k + 1]; ++b)
            loss[k] += run_block(*space, workers[w], theta, b, own, space->counts[k].data());
    });

    if (grad) {
        parallel_for(pieces, threads, [&](int64_t p, int64_t) {
            const int64_t lo = p * kPiece, hi = std::min(W, lo + kPiece);
            std::fill(grad + lo, grad + hi, 0.0);
            for (int64_t k = 0; k < K; ++k) {
                double* own = space->gradients[k].data();
                const int64_t end = std::min(hi, reach[k]);
                for (int64_t j = lo; j < end; ++j) {
                    grad[j] += own[j];
                    own[j] = 0;
                }
            }
            for (int64_t j = lo; j < hi; ++j) grad[j] = mask[j] ? grad[j] : 0.0;
        });
        for (int64_t j = 0; j < n_weights() - W; ++j) {
            double sum = -observed[j];
            for (const auto& counts : space->counts) sum += counts[j];
            grad[W + j] = mask[W + j] ? sum : 0.0;
        }
        for (auto& counts : space->counts) std::fill(counts.begin(), counts.end(), 0.0);
    }
    kept = std::move(space);
    return std::accumulate(loss.begin(), loss.end(), 0.0);
}

// Scores, sums and the gradient of one block; returns its loss.
template <class In>
double Problem::run_block(const Workspace<In>& space, Worker<In>& worker, const double* theta,
                          int64_t block, double* grad, double* counts) const {
    const int64_t lo = blocks[block], n = blocks[block + 1] - lo, first = starts[lo];
    const int64_t tokens = starts[lo + n] - first;
    if (tokens == 0) return 0;
    const RowKernels& kernel = kernels().rows();
    const bool with_edges = !edge_lists.full_ptr.empty();
    auto grow = [](auto& vector, int64_t size) {
        if (static_cast<int64_t>(vector.size()) < size) vector.resize(size);
    };
    grow(worker.row, (with_edges ? Y * Y : Y) + kRowSlack);
    grow(worker.wide_row, (with_edges ? Y * Y : Y) + kRowSlack);
    grow(worker.emit, tokens * Y);
    if (static_cast<int64_t>(worker.log_z.size()) < n) {
        worker.log_z.resize(n);
        worker.ok = std::make_unique<bool[]>(n);
    }
    worker.offsets.resize(n + 1);
    for (int64_t i = 0; i <= n; ++i) worker.offsets[i] = starts[lo + i] - first;

    auto add_up = [&](const OwnedLists& lists, int64_t width, In* out) {
        const RowSum<In> task{lists.view(),         first, tokens,           width,
                              space.weights.data(), out,   worker.row.data()};
        if constexpr (sizeof(In) == 4)
            kernel.sum_f32(task);
        else
            kernel.sum_f64(task);
    };
    add_up(node_lists, Y, worker.emit.data());
    if (with_edges) {
        grow(worker.edge, tokens * Y * Y);
        add_up(edge_lists, Y * Y, worker.edge.data());
    }
    const In* edge = with_edges ? worker.edge.data() : nullptr;

    Expected<In> expected{};
    if (grad) {
        grow(worker.marginals, tokens * Y);
        expected.marginals = worker.marginals.data();
        expected.transitions = counts;
        expected.start = counts + Y * Y;
        expected.stop = expected.start + Y;
        if (with_edges) {
            grow(worker.pairs, tokens * Y * Y);
            expected.pairs = worker.pairs.data();
        }
    }
    const DenseBatch<In> batch{Y,
                               1,
                               1,
                               theta + trans_at,
                               space.start.data(),
                               space.stop.data(),
                               worker.emit.data(),
                               edge,
                               worker.offsets.data(),
                               n,
                               1};
    sum(batch, weight.data() + lo, expected, worker.log_z.data(), worker.ok.get());

    double loss = 0;
    const double* trans = theta + trans_at;
    std::vector<double> moves;  // of the automaton, sorted by where they lead
    for (int64_t i = 0; i < n; ++i) {
        const int64_t at = worker.offsets[i], length = worker.offsets[i + 1] - at;
        if (length == 0) continue;
        const In* emit = worker.emit.data() + at * Y;
        const In* moved = edge ? edge + at * Y * Y : nullptr;
        const int32_t* path = gold.data() + first + at;
        if (!worker.ok[i]) {
            const Sequence<In> sequence{emit, moved, length};
            AutomatonExpected<In> own;
            if (grad) {
                moves.assign(Y * Y, 0.0);
                own.marginals = worker.marginals.data() + at * Y;
                own.pairs = edge ? worker.pairs.data() + at * Y * Y : nullptr;
                own.moves = moves.data();
                own.start = counts + Y * Y;
                own.stop = own.start + Y;
                worker.log_z[i] = expectations(space.automaton, sequence, weight[lo + i], own);
                for (int64_t m = 0; m < Y * Y; ++m) counts[m % Y * Y + m / Y] += moves[m];
            } else {
                worker.log_z[i] = log_partition(space.automaton, sequence);
            }
        }
        double score = space.start[path[0]] + space.stop[path[length - 1]];
        for (int64_t t = 0; t < length; ++t) {
            score += emit[t * Y + path[t]];
            if (t == 0) continue;
            score += trans[path[t - 1] * Y + path[t]];
            if (moved) score += moved[(t * Y + path[t - 1]) * Y + path[t]];
        }
        loss += weight[lo + i] * (worker.log_z[i] - score);
        if (!grad) continue;
        // Marginals become residuals: expected minus observed.
        const In factor = static_cast<In>(weight[lo + i]);
        In* gamma = worker.marginals.data() + at * Y;
        for (int64_t t = 0; t < length; ++t) gamma[t * Y + path[t]] -= In(1);
        if (factor != In(1))
            for (int64_t j = 0; j < length * Y; ++j) gamma[j] *= factor;
        if (!moved) continue;
        In* xi = worker.pairs.data() + at * Y * Y;
        std::fill_n(xi, Y * Y, In(0));
        for (int64_t t = 1; t < length; ++t) xi[(t * Y + path[t - 1]) * Y + path[t]] -= In(1);
        if (factor != In(1))
            for (int64_t j = 0; j < length * Y * Y; ++j) xi[j] *= factor;
    }
    if (!grad) return loss;

    auto spread = [&](const OwnedLists& lists, int64_t width, const In* rows) {
        const RowAdd<In> task{lists.view(),          first, tokens, width, rows, grad,
                              worker.wide_row.data()};
        if constexpr (sizeof(In) == 4)
            kernel.add_f32(task);
        else
            kernel.add_f64(task);
    };
    spread(node_lists, Y, worker.marginals.data());
    if (with_edges) spread(edge_lists, Y * Y, worker.pairs.data());
    return loss;
}

}  // namespace tagloom
