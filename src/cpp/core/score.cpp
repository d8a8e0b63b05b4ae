#include "core/score.hpp"

#include <algorithm>
#include <cstring>

#include "core/threads.hpp"

namespace tagloom {

template <class Col>
std::string Rows<Col>::fault() const {
    if (row_ptr[0] != 0 || row_ptr[A] != W) {
        return "row_ptr goes from " + std::to_string(row_ptr[0]) + " to " +
               std::to_string(row_ptr[A]) + ", not from 0 to the number of weights, " +
               std::to_string(W);
    }
    for (int64_t a = 0; a < A; a++) {
        if (row_ptr[a] > row_ptr[a + 1] || row_ptr[a + 1] > W) {
            return "row_ptr falls after attribute " + std::to_string(a);
        }
    }
    Col largest = 0;
    for (int64_t w = 0; w < W; w++) largest = std::max(largest, cols[w]);
    if (W > 0 && static_cast<int64_t>(largest) >= K) {
        return "a weight is for output " + std::to_string(largest) + " of " + std::to_string(K);
    }
    for (int64_t a = 0; a < A; a++) {
        if (row_ptr[a + 1] - row_ptr[a] < K) continue;
        bool dense = row_ptr[a + 1] - row_ptr[a] == K;
        for (int64_t k = 0; dense && k < K; k++) {
            dense = static_cast<int64_t>(cols[row_ptr[a] + k]) == k;
        }
        if (!dense) {
            return "attribute " + std::to_string(a) + " has " +
                   std::to_string(row_ptr[a + 1] - row_ptr[a]) +
                   " weights that are not one for each output in order";
        }
    }
    return "";
}

namespace {

// Above this, a sum per word costs more memory than it saves time.
constexpr int64_t kMostSummed = 64;
constexpr int64_t kWordsAtOnce = 32, kTokensAtOnce = 32;       // probes in flight together
constexpr int64_t kWordsPerItem = 512, kTokensPerItem = 2048;  // a thread's share at a time

struct Hit {
    float* out;  // [K]
    int32_t id;
    float value;
};

inline void add(float* __restrict out, const float* __restrict from, int64_t K) {
    for (int64_t k = 0; k < K; k++) out[k] += from[k];
}

// Adds the rows of the hits, one after another, asking memory for those that come next.
template <class Col>
void add_rows(const Rows<Col>& rows, const std::vector<Hit>& hits) {
    constexpr std::size_t kFar = 16, kNear = 8;
    const std::size_t n = hits.size();
    for (std::size_t i = 0; i < n; i++) {
        if (i + kFar < n) __builtin_prefetch(rows.row_ptr + hits[i + kFar].id);
        if (i + kNear < n) {
            const int64_t begin = rows.row_ptr[hits[i + kNear].id];
            __builtin_prefetch(rows.cols + begin);
            __builtin_prefetch(rows.weights + begin);
        }
        const Hit hit = hits[i];
        const int64_t begin = rows.row_ptr[hit.id], m = rows.row_ptr[hit.id + 1] - begin;
        const float* __restrict weights = rows.weights + begin;
        float* __restrict out = hit.out;
        if (m == rows.K) {
            for (int64_t k = 0; k < m; k++) out[k] += hit.value * weights[k];
        } else {
            const Col* cols = rows.cols + begin;
            for (int64_t k = 0; k < m; k++) out[cols[k]] += hit.value * weights[k];
        }
    }
}

// What the words of a column give, for the tokens to look up.
struct Known {
    std::vector<int32_t> ids;  // [words, local templates of the column]; -1: none
    std::vector<float> sums;   // [words, groups of the column, K]
};

struct Scratch {  // of one thread
    std::vector<uint64_t> fingerprints;
    std::vector<Hit> hits;
};

template <class Col>
void score_words(const Program& program, const Plan& plan, const Table& table,
                 const Rows<Col>& rows, std::size_t c, Column& column, std::size_t first,
                 std::size_t last, Known& known, Scratch& scratch) {
    const std::size_t n_atoms = program.of[c].size(), n_local = program.local[c].size();
    featurise(program, c, column, first, last);
    scratch.fingerprints.resize((last - first) * n_local);
    uint64_t* h = scratch.fingerprints.data();
    for (std::size_t w = first; w < last; w++) {
        const uint64_t* hashes = column.hashes.data() + w * n_atoms;
        for (const uint32_t k : program.local[c]) {
            *h = fingerprint_of(program, hashes, program.templates[k]);
            table.prefetch(*h++);
        }
    }
    h = scratch.fingerprints.data();
    for (std::size_t i = first * n_local; i < last * n_local; i++, h++) {
        known.ids[i] = *h == kNone ? -1 : table.find(*h);
    }
    scratch.hits.clear();
    for (std::size_t w = first; w < last; w++) {
        for (const Plan::Group& group : plan.groups) {
            if (group.column != c) continue;
            float* sum = known.sums.data() +
                         static_cast<int64_t>(w * plan.n_groups[c] + group.place) * rows.K;
            for (const uint32_t slot : group.slots) {
                const int32_t id = known.ids[w * n_local + slot];
                if (id >= 0) scratch.hits.push_back({sum, id, 1.0f});
            }
        }
    }
    add_rows(rows, scratch.hits);
}

template <class Col>
void score_tokens(const Program& program, const Plan& plan, const Batch& batch, const Table& table,
                  const Rows<Col>& rows, const std::vector<Known>& known, int64_t first,
                  int64_t last, float* out, Scratch& scratch) {
    const int64_t K = rows.K;
    const auto sentence = std::upper_bound(batch.offsets.begin(), batch.offsets.end(), first) - 1;
    int64_t n = sentence - batch.offsets.begin();
    std::array<int64_t, kTokensAtOnce> positions;
    for (int64_t begin = first; begin < last; begin += kTokensAtOnce) {
        const int64_t m = std::min(kTokensAtOnce, last - begin);
        scratch.fingerprints.clear();
        for (int64_t i = 0; i < m; i++) {
            while (batch.offsets[n + 1] <= begin + i) n++;
            positions[i] = padded(program, batch, n) + begin + i - batch.offsets[n];
            for (const uint32_t k : plan.each) {
                if (program.templates[k].local) continue;
                const uint64_t h =
                    fingerprint_at(program, batch, program.templates[k], positions[i]);
                table.prefetch(h);
                scratch.fingerprints.push_back(h);
            }
        }
        scratch.hits.clear();
        const uint64_t* h = scratch.fingerprints.data();
        for (int64_t i = 0; i < m; i++) {
            float* row = out + (begin + i) * K;
            bool is_first = true;
            for (const Plan::Group& group : plan.groups) {
                const std::size_t c = group.column;
                const auto word =
                    static_cast<std::size_t>(batch.columns[c].tokens[positions[i] + group.offset]);
                const float* sum = known[c].sums.data() +
                                   static_cast<int64_t>(word * plan.n_groups[c] + group.place) * K;
                if (is_first) {
                    std::copy(sum, sum + K, row);
                } else {
                    add(row, sum, K);
                }
                is_first = false;
            }
            if (is_first) std::fill(row, row + K, 0.0f);
            for (const uint32_t k : plan.each) {
                const Template& one = program.templates[k];
                int32_t id;
                if (one.local) {
                    const auto c = static_cast<std::size_t>(one.column);
                    const auto word = static_cast<std::size_t>(
                        batch.columns[c].tokens[positions[i] + one.offset]);
                    id = known[c].ids[word * program.local[c].size() + one.slot];
                } else {
                    id = *h == kNone ? -1 : table.find(*h);
                    h++;
                }
                if (id < 0) continue;
                const float value = one.numeric < 0
                                        ? 1.0f
                                        : static_cast<float>(batch.numeric[one.numeric][begin + i]);
                scratch.hits.push_back({row, id, value});
            }
        }
        add_rows(rows, scratch.hits);
    }
}

}  // namespace

Plan::Plan(const Program& program, int64_t K) : n_groups(program.columns) {
    for (uint32_t k = 0; k < program.templates.size(); k++) {
        const Template& one = program.templates[k];
        if (!one.local || one.numeric >= 0 || K > kMostSummed) {
            each.push_back(k);
            continue;
        }
        const auto c = static_cast<std::size_t>(one.column);
        auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
            return g.column == c && g.offset == one.offset;
        });
        if (group == groups.end()) {
            groups.push_back({c, one.offset, {}, n_groups[c]++});
            group = groups.end() - 1;
        }
        group->slots.push_back(one.slot);
    }
}

template <class Col>
void score(const Program& program, const Plan& plan, Batch& batch, const Table& table,
           const Rows<Col>& rows, int64_t threads, float* out) {
    struct Item {
        std::size_t column, first, last;
    };
    std::vector<Item> items;
    std::vector<Known> known(program.columns);
    for (std::size_t c = 0; c < program.columns; c++) {
        Column& column = batch.columns[c];
        const std::size_t n = column.words.all.size();
        column.hashes.resize(n * program.of[c].size());
        known[c].ids.resize(n * program.local[c].size());
        known[c].sums.resize(n * plan.n_groups[c] * static_cast<std::size_t>(rows.K));
        for (std::size_t first = 0; first < n; first += kWordsPerItem) {
            items.push_back({c, first, std::min<std::size_t>(n, first + kWordsPerItem)});
        }
    }
    const int64_t T = batch.offsets.back(), token_items = (T + kTokensPerItem - 1) / kTokensPerItem;
    threads = std::min(threads, std::max<int64_t>(token_items, 1));
    std::vector<Scratch> scratch(static_cast<std::size_t>(threads));
    parallel_for(static_cast<int64_t>(items.size()), threads, [&](int64_t i, int64_t worker) {
        const auto [c, first, last] = items[i];
        for (std::size_t w = first; w < last; w += kWordsAtOnce) {
            score_words(program, plan, table, rows, c, batch.columns[c], w,
                        std::min<std::size_t>(last, w + kWordsAtOnce), known[c], scratch[worker]);
        }
    });
    parallel_for(token_items, threads, [&](int64_t i, int64_t worker) {
        score_tokens(program, plan, batch, table, rows, known, i * kTokensPerItem,
                     std::min(T, (i + 1) * kTokensPerItem), out, scratch[worker]);
    });
}

template <class Col>
void score_encoded(const int64_t* indptr, const int32_t* ids, const float* values, int64_t T,
                   const Rows<Col>& rows, int64_t threads, float* out) {
    const int64_t items = (T + kTokensPerItem - 1) / kTokensPerItem;
    threads = std::min(threads, std::max<int64_t>(items, 1));
    std::vector<Scratch> scratch(static_cast<std::size_t>(threads));
    parallel_for(items, threads, [&](int64_t item, int64_t worker) {
        const int64_t last = std::min(T, (item + 1) * kTokensPerItem);
        std::vector<Hit>& hits = scratch[worker].hits;
        hits.clear();
        for (int64_t t = item * kTokensPerItem; t < last; t++) {
            std::fill(out + t * rows.K, out + (t + 1) * rows.K, 0.0f);
            for (int64_t i = indptr[t]; i < indptr[t + 1]; i++) {
                hits.push_back({out + t * rows.K, ids[i], values ? values[i] : 1.0f});
            }
        }
        add_rows(rows, hits);
    });
}

#define TL_FOR(Col)                                                                          \
    template struct Rows<Col>;                                                               \
    template void score(const Program&, const Plan&, Batch&, const Table&, const Rows<Col>&, \
                        int64_t, float*);                                                    \
    template void score_encoded(const int64_t*, const int32_t*, const float*, int64_t,       \
                                const Rows<Col>&, int64_t, float*);
TL_FOR(uint16_t)
TL_FOR(uint32_t)
#undef TL_FOR

}  // namespace tagloom
