#include "core/linear.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>

#include "core/threads.hpp"

namespace tagloom {
namespace {

constexpr int64_t kFull = 4;                // full row if an attribute has 1/4 of the labels
constexpr int64_t kManyWeights = 1 << 18;   // beyond, fewer shards: each adds a whole gradient
constexpr int64_t kBlockBytes = 192 << 10;  // of scores in a block
constexpr int64_t kLanes = 32;              // sentences in a block come in multiples of this
constexpr int64_t kWindow = 2048;           // sentences sorted by length together
constexpr int64_t kMostParts = 4;           // of the tokens, when rows are laid out
constexpr int64_t kBitsBytes = 64 << 20;    // of the bit table of attributes and labels
constexpr int64_t kWorthThreads = 200'000;  // additions below which one thread is as fast

// Where the shards end, in 32nds of the tokens. The last shards are short, so that two, three or
// four threads, each taking the next shard when free, finish at about the same time.
constexpr int64_t kShardEnds[] = {5, 10, 15, 20, 23, 26, 29, 31, 32};
constexpr int64_t kFewShardEnds[] = {8, 16, 24, 29, 32};

[[noreturn]] void fail(const std::string& what) { throw std::invalid_argument(what); }

// Appends the row of an attribute that occurs with the columns whose bits are set.
void add_row(const uint64_t* bits, WeightPattern& rows) {
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

// columns(t, see) calls see(column) for each column that the attributes of token t occur with.
template <class Columns>
WeightPattern make_pattern(const Attributes& x, int64_t T, int64_t width, bool all, int64_t threads,
                           const Columns& columns) {
    WeightPattern rows;
    rows.width = width;
    rows.ptr.reserve(x.n + 1);
    if (all) {
        for (int64_t a = 1; a <= x.n; ++a) rows.ptr.push_back(a * width);
        rows.cols.resize(x.n * width);
        for (int64_t j = 0; j < rows.size(); ++j) rows.cols[j] = static_cast<uint16_t>(j % width);
        rows.is_free.assign(rows.size(), 1);
        return rows;
    }
    // One bit per attribute and column, for as many attributes at a time as fit kBitsBytes. Each
    // part of the tokens sets its own bits; the number of parts is limited so that joining them
    // does not dominate.
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
        for (int64_t k = 0; k < x.n_extra; ++k) set(0, x.extra[k], x.extra_cols[k]);
        for (int64_t a = 0; a < n; ++a) {
            uint64_t* own = bits[0].data() + a * words;
            for (int64_t p = 1; p < parts; ++p)
                for (int64_t i = 0; i < words; ++i) own[i] |= bits[p][a * words + i];
            add_row(own, rows);
        }
    }
    return rows;
}

// The lists of all tokens. tokens(work) calls work(place, t) for each token with attributes, on
// many threads; place is its position in work order. slots [A] is the first slot of an attribute,
// or -1 if it is not listed; without, rows begin at slot `base`, and attributes of value 0 are
// listed.
template <class Tokens>
OwnedLists make_lists(const Attributes& x, const std::vector<int64_t>& slots,
                      const WeightPattern& rows, int64_t base, int64_t T, const Tokens& tokens) {
    const bool all = slots.empty();
    const auto is_full = [&](int64_t a) {
        return a + 1 >= std::ssize(rows.ptr) || rows.is_full(a);
    };
    const auto is_dropped = [&](int64_t j) {
        return !all && (slots[x.ids[j]] < 0 || (x.values && x.values[j] == 0));
    };
    OwnedLists lists;
    lists.valued = x.values && std::any_of(x.values, x.values + x.nnz, [&](float value) {
                       return value != 1 && (all || value != 0);
                   });
    lists.full_ptr.assign(T + 1, 0);
    lists.single_ptr.assign(T + 1, 0);
    tokens([&](int64_t place, int64_t t) {
        int64_t n_full = 0, n_single = 0;
        for (int64_t j = x.indptr[t]; j < x.indptr[t + 1]; ++j) {
            if (is_dropped(j)) continue;
            const int64_t a = x.ids[j];
            n_full += is_full(a);
            n_single += is_full(a) ? 0 : rows.ptr[a + 1] - rows.ptr[a];
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
    if (lists.valued) {
        lists.full_value = PagedArray<float>(n_full);
        lists.single_value = PagedArray<float>(n_single);
    }
    tokens([&](int64_t place, int64_t t) {
        int64_t full = lists.full_ptr[place], single = lists.single_ptr[place];
        float square = 0;
        for (int64_t j = x.indptr[t]; j < x.indptr[t + 1]; ++j) {
            if (is_dropped(j)) continue;
            const int64_t a = x.ids[j], slot = all ? base + rows.ptr[a] : slots[a];
            square += x.values ? x.values[j] * x.values[j] : 1;
            if (is_full(a)) {
                if (lists.valued) lists.full_value[full] = x.values[j];
                lists.full[full++] = static_cast<uint32_t>(slot);
                continue;
            }
            for (int64_t w = 0; w < rows.ptr[a + 1] - rows.ptr[a]; ++w) {
                if (lists.valued) lists.single_value[single] = x.values[j];
                lists.column[single] = rows.cols[rows.ptr[a] + w];
                lists.single[single++] = static_cast<uint32_t>(slot + w);
            }
        }
        lists.square[place] = square;
    });
    return lists;
}

}  // namespace

LinearObjective::LinearObjective(const Examples& x, int64_t threads) : Corpus(x) {
    if (x.nodes.nnz + x.edges.nnz < kWorthThreads) threads = 1;
    lay_out_rows(x, threads);
    order_sentences(x);
    copy_labels(x);
    observed.assign(n_tail(), 0.0);
    free_rows_and_ties(x.all_combinations);
    if (x.segments)
        copy_segments(x);
    else
        count_gold();
    of_theta.n = of_theta.n_slots = trans_at;
    of_theta.is_free = is_free.data();
    if (x.pattern_only) return;
    const bool is_huge = std::max(T, 2 * x.nodes.n) > std::numeric_limits<int32_t>::max();
    if (x.batches_only && !is_huge) share_slots(x);
    lay_out_lists(x, threads);
    find_reach(threads);
}

void LinearObjective::each_row(const UseRow& use) const {
    auto each = [&](const WeightPattern& of, int64_t base) {
        for (size_t a = 0; a + 1 < of.ptr.size(); ++a)
            use(base + of.ptr[a], of.ptr[a + 1] - of.ptr[a], of.is_full(a));
    };
    each(nodes, 0);
    each(edges, edges_at);
    each(of_subtags, subtags_at);
}

// Determines the weights and their places in theta.
void LinearObjective::lay_out_rows(const Examples& x, int64_t threads) {
    nodes = make_pattern(x.nodes, T, Y, x.all_combinations, threads,
                         [&](int64_t t, const auto& see) { each_seen(x.gold[t], see); });
    edges_at = nodes.size();
    if (x.edges.indptr) {
        std::vector<uint8_t> is_first(T + 1, 0);
        for (int64_t i = 0; i < N; ++i) is_first[x.offsets[i]] = 1;
        edges = make_pattern(x.edges, T, Y * Y, x.all_combinations, threads,
                             [&](int64_t t, const auto& see) {
                                 if (is_first[t]) return;
                                 each_seen(x.gold[t - 1], [&](int64_t y_prev) {
                                     each_seen(x.gold[t], [&](int64_t y) { see(y_prev * Y + y); });
                                 });
                             });
    }
    subtags_at = edges_at + edges.size();
    if (subtags.S > 0)
        of_subtags =
            make_pattern(x.nodes, T, subtags.S, true, threads, [](int64_t, const auto&) {});
    trans_at = subtags_at + of_subtags.size();
    if (size() > int64_t(std::numeric_limits<uint32_t>::max()))
        fail("the model would have " + std::to_string(size()) +
             " weights; at most 4294967295 are possible. Drop rare attributes.");
}

// Gives the attributes of a bundle the same slots; the first slots are for groups of attributes.
void LinearObjective::share_slots(const Examples& x) {
    of_theta.slot.reserve(trans_at);
    int64_t next = 0;
    auto share = [&](const Attributes& of, const WeightPattern& rows,
                     const std::vector<int32_t>& leaders, std::vector<int64_t>& slots) {
        for (int64_t a = 0; a < of.n; ++a) {
            const int64_t n = rows.ptr[a + 1] - rows.ptr[a], leader = leaders[a];
            slots.push_back(leader == a ? next : -1);
            if (leader == a) next += n;
            of_theta.is_shared |= leader != a;
            for (int64_t w = 0; w < n; ++w)
                of_theta.slot.push_back(static_cast<uint32_t>(slots[leader] + w));
        }
    };
    const std::vector<int32_t> leaders = find_bundles(x.nodes, T, nodes, is_free.data());
    groups = find_groups(x.nodes, T, nodes, leaders);
    if (groups.size() > 0) next = groups.size() * Y + kRowSlack;
    if (next + trans_at > int64_t(std::numeric_limits<uint32_t>::max())) groups = {}, next = 0;
    share(x.nodes, nodes, leaders, node_slots);
    for (int64_t g = 0; g < groups.size(); ++g) node_slots.push_back(g * Y);
    if (x.edges.indptr)
        share(x.edges, edges, find_bundles(x.edges, T, edges, is_free.data() + edges_at),
              edge_slots);
    of_theta.n_slots = next;
}

// Cuts the sentences into shards, sorts them by length within windows, and cuts them into blocks.
void LinearObjective::order_sentences(const Examples& x) {
    const std::span<const int64_t> ends =
        trans_at > kManyWeights ? std::span<const int64_t>(kFewShardEnds) : kShardEnds;
    const int64_t K = std::ssize(ends);
    order.resize(N);
    std::iota(order.begin(), order.end(), 0);
    auto length = [&](int64_t i) { return x.offsets[i + 1] - x.offsets[i]; };
    const int64_t scores = Y + (x.edges.indptr ? Y * Y : 0), bytes = float32 ? 4 : 8;
    const int64_t room = std::max<int64_t>(kBlockBytes / (scores * bytes), 1);
    const int64_t together = x.edges.indptr ? 1 : kLanes;  // edge scores use no lanes
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
}

void LinearObjective::free_rows_and_ties(bool all_combinations) {
    is_free.assign(size(), all_combinations);
    nodes.take_free(is_free.data());
    edges.take_free(is_free.data() + edges_at);
    std::fill(is_free.begin() + subtags_at, is_free.begin() + trans_at, 1);
    // Tied weights, and those of sub-tags, are always free.
    std::fill(is_free.begin() + trans_at + space.ties_at(boundaries), is_free.end(), 1);
}

// The counts of the gold paths, whose transitions are free.
void LinearObjective::count_gold() {
    for (int64_t i = 0; i < N; ++i)
        if (!is_open[i] && starts[i] < starts[i + 1])
            space.each_of_path(gold.data() + starts[i], starts[i + 1] - starts[i], boundaries,
                               [&](int64_t j) { observed[j] += weight[i]; });
    mark_seen(is_free.data() + trans_at);
}

// The rows of segments in work order; the counts and the free weights of the gold segmentations.
void LinearObjective::copy_segments(const Examples& x) {
    const SegmentShape& from = *x.segments;
    segments = std::make_unique<SegmentShape>(from);
    SegmentShape& to = *segments;
    for (auto* of : {&to.begin, &to.length, &to.gold}) of->clear();
    to.n_tokens.clear();
    for (const int64_t i : order) {
        const int64_t lo = x.offsets[i], hi = x.offsets[i + 1];
        to.n_tokens.push_back(from.n_tokens[i]);
        to.begin.insert(to.begin.end(), from.begin.begin() + lo, from.begin.begin() + hi);
        to.length.insert(to.length.end(), from.length.begin() + lo, from.length.begin() + hi);
        to.gold.insert(to.gold.end(), from.gold.begin() + lo, from.gold.begin() + hi);
    }
    const SegmentChain<double> chain(to, Y, boundaries);
    for (int64_t i = 0; i < N; ++i)
        chain.each_of_gold(starts[i], to.n_tokens[i], [&](int64_t j) {
            observed[j] += weight[i];
            is_free[trans_at + j] = 1;
        });
}

// The weights of each token's attributes, in work order.
void LinearObjective::lay_out_lists(const Examples& x, int64_t threads) {
    const auto tokens_from = [&](int64_t first, const auto& work) {  // of each sentence
        parallel_for(blocks.size() - 1, threads, [&](int64_t b, int64_t) {
            for (int64_t s = blocks[b]; s < blocks[b + 1]; ++s)
                for (int64_t t = first; t < starts[s + 1] - starts[s]; ++t)
                    work(starts[s] + t, x.offsets[order[s]] + t);
        });
    };
    Attributes listed = x.nodes;
    if (groups.size() > 0) {
        listed = {groups.indptr.data(), groups.ids.data()};
        const Attributes members{groups.members_ptr.data(), groups.members.data()};
        group_lists =
            make_lists(members, node_slots, nodes, 0, groups.size(), [&](const auto& work) {
                for (int64_t g = 0; g < groups.size(); ++g) work(g, g);
            });
    }
    node_lists = make_lists(listed, node_slots, nodes, 0, T,
                            [&](const auto& work) { tokens_from(0, work); });
    n_groups = groups.size();
    groups = {};
    if (x.edges.indptr)  // a first token has no edge
        edge_lists = make_lists(x.edges, edge_slots, edges, edges_at, T,
                                [&](const auto& work) { tokens_from(1, work); });
    if (subtags.S > 0)
        subtag_lists = make_lists(x.nodes, {}, of_subtags, subtags_at, T,
                                  [&](const auto& work) { tokens_from(0, work); });
}

void LinearObjective::find_reach(int64_t threads) {
    const int64_t K = static_cast<int64_t>(shards.size()) - 1;
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
        extend(subtag_lists, subtags.S);
        reach[k] = last;
    });
}

BundledObjective::BundledObjective(const LinearObjective& of) : objective(of) {
    const Coordinates& theta = of.of_theta;
    std::vector<uint32_t> n_weights(theta.n_slots, 0), n_free(theta.n_slots, 0);
    for (int64_t j = 0; j < theta.n; ++j) {
        const int64_t slot = theta.is_plain() ? j : theta.slot[j];
        ++n_weights[slot];
        n_free[slot] += of.is_free[j];
    }
    rows.n_slots = theta.n_slots;
    for (int64_t slot = 0; slot < theta.n_slots; ++slot) {
        if (n_free[slot] == 0) continue;
        if (n_free[slot] < n_weights[slot]) fail("only some weights of a bundle are free.");
        rows.slot.push_back(static_cast<uint32_t>(slot));
        rows.scale.push_back(std::sqrt(static_cast<double>(n_free[slot])));
    }
    rows.n = std::ssize(rows.slot);
    free.assign(size(), 1);
    std::copy_n(of.is_free.begin() + of.trans_at, of.n_tail(), free.begin() + rows.n);
}

void BundledObjective::expand(const double* v, double* theta) const {
    const Coordinates& all = objective.of_theta;
    std::vector<double> weights(rows.n_slots, 0.0);
    for (int64_t k = 0; k < rows.n; ++k) weights[rows.slot[k]] = v[k] / rows.scale[k];
    for (int64_t j = 0; j < all.n; ++j) theta[j] = weights[all.is_plain() ? j : all.slot[j]];
    std::copy_n(v + rows.n, objective.n_tail(), theta + all.n);
}

}  // namespace tagloom
