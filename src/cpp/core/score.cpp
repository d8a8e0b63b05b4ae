#include "core/score.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "core/threads.hpp"

namespace tagloom {

template <class Col>
std::string RowArrays<Col>::fault() const {
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

template <class Col>
Rows::Rows(const RowArrays<Col>& arrays) : K(arrays.K), by_id(static_cast<std::size_t>(arrays.A)) {
    const std::size_t col_bytes = is_wide() ? 4 : 2;
    uint64_t units = 0;
    for (int64_t a = 0; a < arrays.A; a++) {
        const auto n = static_cast<uint64_t>(arrays.row_ptr[a + 1] - arrays.row_ptr[a]);
        by_id[a] = {static_cast<uint32_t>(units), static_cast<uint32_t>(n)};
        units += n;
        if (static_cast<int64_t>(n) < K) units += (n * col_bytes + 3) / 4;
        if (units >> 32 != 0) throw std::length_error("the weights need more than 16 GB");
    }
    data.resize(units * 4);
    for (int64_t a = 0; a < arrays.A; a++) {
        const std::size_t n = by_id[a].n;
        std::byte* to = data.data() + std::size_t{by_id[a].begin} * 4;
        if (n > 0) std::memcpy(to, arrays.weights + arrays.row_ptr[a], n * 4);
        if (static_cast<int64_t>(n) == K) continue;
        to += n * 4;
        for (std::size_t i = 0; i < n; i++, to += col_bytes) {
            const uint32_t col = arrays.cols[arrays.row_ptr[a] + static_cast<int64_t>(i)];
            std::memcpy(to, &col, col_bytes);  // little-endian: see hash.hpp
        }
    }
}

template struct RowArrays<uint16_t>;
template struct RowArrays<uint32_t>;
template Rows::Rows(const RowArrays<uint16_t>&);
template Rows::Rows(const RowArrays<uint32_t>&);

RowTable::RowTable(const Table& table, const std::vector<Row>& by_id)
    : slots_(std::bit_ceil(2 * table.size + 1)), mask_(slots_.size() - 1) {
    for (std::size_t i = 0; i <= table.mask; i++) {
        const uint64_t key = table.keys[i];
        if (key == 0) continue;
        uint64_t slot = key & mask_;
        while (slots_[slot].key != 0) slot = (slot + 1) & mask_;
        slots_[slot] = {key, by_id[table.ids[i]]};
    }
}

namespace {

// Above this, a sum per word costs more memory than it saves time.
constexpr int64_t kMostSummed = 64;
constexpr int64_t kWordsAtOnce = 32, kTokensAtOnce = 32;       // probes in flight together
constexpr int64_t kWordsPerItem = 512, kTokensPerItem = 2048;  // a thread's share at a time

struct Hit {
    float* out;  // [K]
    Row row;
    float value;
};

template <class Col>
void add_rows(const Rows& rows, const Hit* hits, std::size_t n_hits) {
    for (const Hit* hit = hits; hit < hits + n_hits; hit++) {
        const std::byte* data = rows.data.data() + std::size_t{hit->row.begin} * 4;
        const auto* __restrict weights = reinterpret_cast<const float*>(data);
        const std::size_t n = hit->row.n;
        float* __restrict out = hit->out;
        const float value = hit->value;
        if (static_cast<int64_t>(n) == rows.K) {
            for (std::size_t k = 0; k < n; k++) out[k] += value * weights[k];
        } else {
            const auto* cols = reinterpret_cast<const Col*>(data + n * 4);
            for (std::size_t k = 0; k < n; k++) out[cols[k]] += value * weights[k];
        }
    }
}

// The rows that are to be added, in the order of addition; one for each thread.
class Hits {
  public:
    explicit Hits(const Rows& rows) : rows_(rows) {}

    // Room for n more hits, and for n fingerprints.
    void reserve(std::size_t n) {
        if (fingerprints.size() < n) fingerprints.resize(n);
        if (hits_.size() < n) hits_.resize(n);
    }
    void push(float* out, Row row, float value) {
        const std::byte* data = rows_.data.data() + std::size_t{row.begin} * 4;
        __builtin_prefetch(data);
        __builtin_prefetch(data + row.n * 4);  // the cols of a row that goes on in the next line
        hits_[n_++] = {out, row, value};
    }
    void add() {
        rows_.is_wide() ? add_rows<uint32_t>(rows_, hits_.data(), n_)
                        : add_rows<uint16_t>(rows_, hits_.data(), n_);
        n_ = 0;
    }

    std::vector<uint64_t> fingerprints;  // of a block of words or tokens

  private:
    const Rows& rows_;
    std::vector<Hit> hits_;
    std::size_t n_ = 0;
};

// What the words of a column give, for the tokens to look up.
struct Known {
    std::vector<Row> rows;    // [words, local templates of the column]
    PagedVector<float> sums;  // [words, groups of the column, stride_of(K)]
};
// Sums are padded to whole vectors of four.
constexpr int64_t stride_of(int64_t K) { return (K + 3) / 4 * 4; }

void score_words(const Program& program, const Plan& plan, const RowTable& table, int64_t K,
                 std::size_t c, Column& column, std::size_t first, std::size_t last, Known& known,
                 Hits& hits) {
    const std::vector<uint32_t>& local = program.local[c];
    featurise(program, c, column, first, last);
    hits.reserve((last - first) * local.size());
    uint64_t* h = hits.fingerprints.data();
    for (std::size_t w = first; w < last; w++) {
        for (const uint32_t k : local) {
            *h = fingerprint_of(column, w, program.templates[k]);
            table.prefetch(*h++);
        }
    }
    h = hits.fingerprints.data();
    for (std::size_t w = first; w < last; w++) {
        Row* rows = known.rows.data() + w * local.size();
        for (std::size_t slot = 0; slot < local.size(); slot++, h++) {
            if (*h != kNone) rows[slot] = table.find(*h);
        }
        for (const Plan::Group& group : plan.groups) {
            if (group.column != c) continue;
            float* sum = known.sums.data() +
                         static_cast<int64_t>(w * plan.n_groups[c] + group.place) * stride_of(K);
            for (const uint32_t slot : group.slots) {
                if (rows[slot].n > 0) hits.push(sum, rows[slot], 1.0f);
            }
        }
    }
    hits.add();
}

void score_tokens(const Program& program, const Plan& plan, const Batch& batch,
                  const RowTable& table, int64_t K, const std::vector<Known>& known, int64_t first,
                  int64_t last, float* out, Hits& hits) {
    const auto sentence = std::upper_bound(batch.offsets.begin(), batch.offsets.end(), first) - 1;
    int64_t n = sentence - batch.offsets.begin();
    std::array<int64_t, kTokensAtOnce> positions;
    const int64_t stride = stride_of(K);
    hits.reserve(kTokensAtOnce * plan.each.size());
    const auto sum_of = [&](const Plan::Group& group, int64_t position) {
        const std::size_t c = group.column;
        const auto word =
            static_cast<std::size_t>(batch.columns[c].tokens[position + group.offset]);
        return known[c].sums.data() +
               static_cast<int64_t>(word * plan.n_groups[c] + group.place) * stride;
    };
    for (int64_t begin = first; begin < last; begin += kTokensAtOnce) {
        const int64_t m = std::min(kTokensAtOnce, last - begin);
        uint64_t* h = hits.fingerprints.data();
        for (int64_t i = 0; i < m; i++) {
            while (batch.offsets[n + 1] <= begin + i) n++;
            positions[i] = padded(program, batch, n) + begin + i - batch.offsets[n];
            for (const uint32_t k : plan.each) {
                if (program.templates[k].local) continue;
                *h = fingerprint_at(batch, program.templates[k], positions[i]);
                table.prefetch(*h++);
            }
            for (const Plan::Group& group : plan.groups) {
                const float* sum = sum_of(group, positions[i]);
                __builtin_prefetch(sum);
                __builtin_prefetch(sum + K - 1);
            }
        }
        h = hits.fingerprints.data();
        for (int64_t i = 0; i < m; i++) {
            float* row = out + (begin + i) * K;
            for (const uint32_t k : plan.each) {
                const Template& one = program.templates[k];
                Row found;
                if (one.local) {
                    const auto c = static_cast<std::size_t>(one.column);
                    const auto word = static_cast<std::size_t>(
                        batch.columns[c].tokens[positions[i] + one.offset]);
                    found = known[c].rows[word * program.local[c].size() + one.slot];
                } else if (*h++ != kNone) {
                    found = table.find(h[-1]);
                }
                if (found.n == 0) continue;
                hits.push(row, found,
                          one.numeric < 0
                              ? 1.0f
                              : static_cast<float>(batch.numeric[one.numeric][begin + i]));
            }
            if (plan.groups.empty()) {
                std::fill(row, row + K, 0.0f);
                continue;
            }
            alignas(16) std::array<float, kMostSummed> total{};  // [stride]
            for (const Plan::Group& group : plan.groups) {
                const float* sum = sum_of(group, positions[i]);
                for (int64_t k = 0; k < stride; k += 4) {
                    for (int64_t lane = k; lane < k + 4; lane++) total[lane] += sum[lane];
                }
            }
            std::copy_n(total.data(), K, row);
        }
        hits.add();
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

void score(const Program& program, const Plan& plan, Batch& batch, const RowTable& table,
           const Rows& rows, int64_t threads, float* out) {
    struct Item {
        std::size_t column, first, last;
    };
    prepare_hashes(program, batch);
    std::vector<Item> items;
    std::vector<Known> known(program.columns);
    for (std::size_t c = 0; c < program.columns; c++) {
        const std::size_t n = batch.columns[c].words.all.size();
        known[c].rows.resize(n * program.local[c].size());
        known[c].sums.resize(n * plan.n_groups[c] * static_cast<std::size_t>(stride_of(rows.K)));
        for (std::size_t first = 0; first < n; first += kWordsPerItem) {
            items.push_back({c, first, std::min<std::size_t>(n, first + kWordsPerItem)});
        }
    }
    const int64_t T = batch.offsets.back();
    const int64_t token_items = (T + kTokensPerItem - 1) / kTokensPerItem;
    threads = std::min(threads, std::max<int64_t>(token_items, 1));
    std::vector<Hits> hits(static_cast<std::size_t>(threads), Hits(rows));
    parallel_for(static_cast<int64_t>(items.size()), threads, [&](int64_t i, int64_t worker) {
        const auto [c, first, last] = items[i];
        for (std::size_t w = first; w < last; w += kWordsAtOnce) {
            score_words(program, plan, table, rows.K, c, batch.columns[c], w,
                        std::min<std::size_t>(last, w + kWordsAtOnce), known[c], hits[worker]);
        }
    });
    parallel_for(token_items, threads, [&](int64_t i, int64_t worker) {
        score_tokens(program, plan, batch, table, rows.K, known, i * kTokensPerItem,
                     std::min(T, (i + 1) * kTokensPerItem), out, hits[worker]);
    });
}

void score_encoded(const int64_t* indptr, const int32_t* ids, const float* values, int64_t T,
                   const Rows& rows, int64_t threads, float* out) {
    const int64_t items = (T + kTokensPerItem - 1) / kTokensPerItem;
    threads = std::min(threads, std::max<int64_t>(items, 1));
    std::vector<Hits> hits(static_cast<std::size_t>(threads), Hits(rows));
    constexpr int64_t kAhead = 32;  // ids whose rows are asked for before they are needed
    parallel_for(items, threads, [&](int64_t item, int64_t worker) {
        const int64_t last = std::min(T, (item + 1) * kTokensPerItem);
        Hits& mine = hits[worker];
        for (int64_t begin = item * kTokensPerItem; begin < last; begin += kTokensAtOnce) {
            const int64_t end = std::min(last, begin + kTokensAtOnce);
            mine.reserve(static_cast<std::size_t>(indptr[end] - indptr[begin]));
            for (int64_t t = begin; t < end; t++) {
                float* row = out + t * rows.K;
                std::fill(row, row + rows.K, 0.0f);
                for (int64_t i = indptr[t]; i < indptr[t + 1]; i++) {
                    if (i + kAhead < indptr[T]) {
                        __builtin_prefetch(rows.by_id.data() + ids[i + kAhead]);
                    }
                    const Row found = rows.by_id[static_cast<std::size_t>(ids[i])];
                    if (found.n > 0) mine.push(row, found, values ? values[i] : 1.0f);
                }
            }
            mine.add();
        }
    });
}

}  // namespace tagloom
