#include "core/score.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "core/dispatch.hpp"
#include "core/threads.hpp"

namespace tagloom {

template <class Col>
std::string RowArrays<Col>::fault() const {
    if (row_ptr[0] != 0 || row_ptr[A] != W) {
        return "row_ptr must rise from 0 to the number of weights, " + std::to_string(W) +
               "; it goes from " + std::to_string(row_ptr[0]) + " to " + std::to_string(row_ptr[A]);
    }
    for (int64_t a = 0; a < A; a++) {
        if (row_ptr[a] > row_ptr[a + 1] || row_ptr[a + 1] > W) {
            return "row_ptr decreases after attribute " + std::to_string(a);
        }
    }
    Col largest = 0;
    for (int64_t w = 0; w < W; w++) largest = std::max(largest, cols[w]);
    if (W > 0 && static_cast<int64_t>(largest) >= K) {
        return "cols must be below K = " + std::to_string(K) + "; one is " +
               std::to_string(largest);
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
                   " weights, but not one per output in order";
        }
    }
    return "";
}

namespace {

constexpr int64_t kFullShare = 4;  // rows with K / kFullShare weights are stored in full

// Most rows have one or two weights, for which a loop is faster than memcpy.
template <class To, class From>
void copy(const From* from, std::size_t n, std::byte* to) {
    auto* out = reinterpret_cast<To*>(to);
    for (std::size_t i = 0; i < n; i++) out[i] = static_cast<To>(from[i]);
}

}  // namespace

template <class Col>
WeightRows::WeightRows(const RowArrays<Col>& arrays)
    : K(arrays.K), by_id(static_cast<std::size_t>(arrays.A)) {
    const std::size_t col_bytes = is_wide() ? 4 : 2;
    uint64_t units = 0;
    for (int64_t a = 0; a < arrays.A; a++) {
        const int64_t n = arrays.row_ptr[a + 1] - arrays.row_ptr[a];
        const bool is_full = n * kFullShare >= K;
        if (n == 1 && !is_full && !is_wide()) {
            const int64_t w = arrays.row_ptr[a];
            by_id[a] = {std::bit_cast<uint32_t>(arrays.weights[w]),
                        static_cast<uint32_t>(arrays.cols[w]) | kSingle};
            continue;
        }
        by_id[a] = {static_cast<uint32_t>(units), static_cast<uint32_t>(is_full ? K : n)};
        units += is_full ? K : n + (n * col_bytes + 3) / 4;
        if (units >> 32 != 0) throw std::length_error("the weights need more than 16 GB");
    }
    data = PagedArray<std::byte>(units * 4);
    for (int64_t a = 0; a < arrays.A; a++) {
        if ((by_id[a].n & kSingle) != 0) continue;
        std::byte* to = data.data() + std::size_t{by_id[a].begin} * 4;
        const auto n = static_cast<std::size_t>(arrays.row_ptr[a + 1] - arrays.row_ptr[a]);
        const float* weights = arrays.weights + arrays.row_ptr[a];
        const Col* cols = arrays.cols + arrays.row_ptr[a];
        if (by_id[a].n == n) {
            copy<float>(weights, n, to);
            if (static_cast<int64_t>(n) == K) continue;
            is_wide() ? copy<uint32_t>(cols, n, to + n * 4) : copy<uint16_t>(cols, n, to + n * 4);
        } else {
            auto* out = reinterpret_cast<float*>(to);
            std::fill_n(out, K, 0.0f);
            for (std::size_t i = 0; i < n; i++) out[cols[i]] += weights[i];
        }
    }
}

template struct RowArrays<uint8_t>;
template struct RowArrays<uint16_t>;
template struct RowArrays<uint32_t>;
template WeightRows::WeightRows(const RowArrays<uint8_t>&);
template WeightRows::WeightRows(const RowArrays<uint16_t>&);
template WeightRows::WeightRows(const RowArrays<uint32_t>&);

RowTable::RowTable(std::span<const uint64_t> keys, const PagedArray<WeightRow>& by_id)
    : buckets_(std::bit_ceil(keys.size() * 2 / kBucketSlots + 1)), mask_(buckets_.size() - 1) {
    static_assert(kBucketSlots == 4);
    constexpr std::size_t kAhead = 32;  // keys whose buckets are prefetched
    for (std::size_t i = 0; i < keys.size(); i++) {
        if (i + kAhead < keys.size()) prefetch(keys[i + kAhead]);
        const uint64_t key = keys[i];
        if (key == 0) throw std::invalid_argument("a key is 0");
        for (uint64_t b = key & mask_;; b = (b + 1) & mask_) {
            auto& [slots, rows] = buckets_[b];
            // Slots are filled in order. Without branches: how many are is unpredictable.
            if ((slots[0] == key) | (slots[1] == key) | (slots[2] == key) | (slots[3] == key)) {
                throw std::invalid_argument("a duplicate key");
            }
            const int n = (slots[0] != 0) + (slots[1] != 0) + (slots[2] != 0) + (slots[3] != 0);
            if (n == kBucketSlots) continue;
            slots[n] = key;
            rows[n] = std::bit_cast<uint64_t>(by_id[i]);
            break;
        }
    }
}

void RowTable::find(const uint64_t* keys, int64_t n, WeightRow* out) const {
    kernels().rows().find_rows({keys, n, buckets_.data(), mask_, out});
}

namespace {

constexpr int64_t kWordsAtOnce = 32, kTokensAtOnce = 32;  // prefetched together
static_assert(kTokensAtOnce <= static_cast<int64_t>(Column::kSlack));
constexpr int64_t kItemsAtOnce = 8;  // tokens with features of the user, which have more rows
constexpr int64_t kWordsPerItem = 512, kTokensPerItem = 2048;  // work items of threads

// The rows to be added. One per thread, reused by all calls.
class Hits {
  public:
    // Not inlined, so that the thread-local address is computed once.
    [[gnu::noinline]] static Hits& of_this_thread(const WeightRows& rows) {
        thread_local Hits hits;
        hits.rows_ = &rows;
        return hits;
    }

    // Room for n more hits, and for n fingerprints.
    void reserve(std::size_t n) {
        if (fingerprints.size() < n) fingerprints.resize(n);
        if (found.size() < n) found.resize(n);
        for (std::vector<Hit>& hits : hits_) {
            if (hits.size() < n + 1) hits.resize(n + 1);  // push_all() writes before it counts
        }
    }
    // Without branches: whether a row is empty or full is unpredictable.
    void push(float* out, WeightRow row, float value) {
        prefetch(rows_->data.data(), row);
        const bool is_full = row.n == static_cast<std::size_t>(rows_->K);
        write(&hits_[is_full][n_[is_full]], out, row, value);
        n_[is_full] += row.n > 0;
    }
    // The same for found [steps, kTokensAtOnce] of `tokens` tokens with the scores `out`, token by
    // token, where the fingerprint is not 0. value_of(token, step) -> float.
    template <class ValueOf>
    void push_all(int64_t tokens, std::size_t steps, float* out, const ValueOf& value_of) {
        const std::byte* data = rows_->data.data();
        const auto K = static_cast<std::size_t>(rows_->K);
        Hit *sparse = hits_[0].data(), *full = hits_[1].data();
        for (int64_t i = 0; i < tokens; i++, out += K) {
            for (std::size_t s = 0; s < steps; s++) {
                const WeightRow row = found[s * kTokensAtOnce + i];
                prefetch(data, row);
                const float value = value_of(i, s);
                write(sparse, out, row, value);
                write(full, out, row, value);
                sparse += (row.n > 0) & (row.n != K);
                full += row.n == K;
            }
        }
        n_[0] = static_cast<std::size_t>(sparse - hits_[0].data());
        n_[1] = static_cast<std::size_t>(full - hits_[1].data());
    }
    // Adds full rows first, then the others, each in the order of push().
    void add() {
        kernels().rows().add_hits({hits_[1].data(), hits_[0].data(), static_cast<int64_t>(n_[1]),
                                   static_cast<int64_t>(n_[0]), rows_->K, rows_->data.data(),
                                   rows_->is_wide()});
        n_[0] = n_[1] = 0;
    }

    std::vector<uint64_t> fingerprints;  // of a block of words or tokens
    std::vector<WeightRow> found;        // of a block of tokens, [steps, kTokensAtOnce] or [hits]
    std::vector<uint64_t> hashes;        // [atoms, words of a block]
    std::vector<GroupSum::Group> sums;   // [groups]

  private:
    // Field by field: compilers assemble a whole Hit in memory and read it again, which stalls.
    static void write(Hit* hit, float* out, WeightRow row, float value) {
        hit->out = out;
        hit->row = row;
        hit->value = value;
    }
    static void prefetch(const std::byte* data, WeightRow row) {
        const bool is_single = (row.n & kSingle) != 0;
        const std::byte* at = data + (is_single ? 0 : std::size_t{row.begin} * 4);
        __builtin_prefetch(at);
        // The cols, which may be in the next cache line.
        __builtin_prefetch(at + (is_single ? 0 : std::size_t{row.n} * 4));
    }

    const WeightRows* rows_ = nullptr;
    std::vector<Hit> hits_[2];   // [is full]
    std::size_t n_[2] = {0, 0};  // of hits that wait
};

float* sum_in(uint64_t* block, const Plan::Local& local) {
    return reinterpret_cast<float*>(block + local.unit);
}

// Keeps, for each of n words, only the last of its fingerprints [locals, n] with a row.
void keep_last(const Scoring& scoring, std::size_t n, std::size_t locals, uint64_t* fingerprints) {
    for (std::size_t i = 0; i < n; i++) {
        bool is_found = false;
        for (std::size_t k = locals; k-- > 0;) {
            uint64_t& h = fingerprints[k * n + i];
            if (is_found || h == kNone || scoring.table.find(h).n == 0) {
                h = kNone;
            } else {
                is_found = true;
            }
        }
    }
}

// Fills the blocks of n words of column c.
void score_words(const Scoring& scoring, std::size_t c, const Word* const* words,
                 uint64_t* const* blocks, std::size_t n, Hits& hits) {
    const Program& program = scoring.program;
    const Plan::Block& plan = scoring.plan.blocks[c];
    hits.hashes.resize(program.of[c].size() * n);
    hits.reserve(plan.locals.size() * n);
    const uint64_t* hashes = hits.hashes.data();
    featurise(program, c, words, n, hits.hashes.data());
    uint64_t* h = hits.fingerprints.data();
    for (const Plan::Local& local : plan.locals) {
        const Template& one = program.templates[local.k];
        for (std::size_t i = 0; i < n; i++, h++) {
            *h = fingerprint(one, [&](const Factor& f) { return hashes[f.place * n + i]; });
            scoring.table.prefetch(*h);
        }
    }
    for (std::size_t i = 0; i < n; i++) {
        std::memset(blocks[i], 0, plan.units * 8);  // zero bits are also 0.0f
        uint64_t* to = blocks[i];
        for (const Plan::Head& head : plan.heads) {
            const uint64_t value = hashes[head.place * n + i];
            if (value != kNone) *to = fold_part(head.start, value, head.then);
            to++;
        }
        for (const uint32_t place : plan.values) *to++ = hashes[place * n + i];
    }
    if (scoring.takes_last) keep_last(scoring, n, plan.locals.size(), hits.fingerprints.data());
    h = hits.fingerprints.data();
    for (const Plan::Local& local : plan.locals) {
        for (std::size_t i = 0; i < n; i++, h++) {
            if (*h == kNone) continue;
            const WeightRow row = scoring.table.find(*h);
            if (!local.is_summed) {
                std::memcpy(blocks[i] + local.unit, &row, sizeof row);
            } else {
                hits.push(sum_in(blocks[i], local), row, 1.0f);
            }
        }
    }
    hits.add();
}

}  // namespace

Plan::Plan(const Program& program, int64_t K) : blocks(program.columns) {
    // A block holds heads, then values, then rows, then sums, so these are laid out in turn.
    for (const Template& one : program.templates) {
        if (one.local) continue;
        const Factor& first = one.factors[0];
        std::vector<Head>& heads = blocks[first.column].heads;
        Step step{{first.column, first.offset, static_cast<uint32_t>(heads.size())},
                  false,
                  {},
                  one.numeric};
        heads.push_back({first.place, one.start, first.then});
        steps.push_back(std::move(step));
    }
    std::size_t at = 0;  // in steps
    for (const Template& one : program.templates) {
        if (one.local) continue;
        for (std::size_t i = 1; i < one.factors.size(); i++) {
            const Factor& factor = one.factors[i];
            Block& block = blocks[factor.column];
            auto place = std::find(block.values.begin(), block.values.end(), factor.place);
            if (place == block.values.end()) {
                place = block.values.insert(place, factor.place);
            }
            const auto unit =
                block.heads.size() + static_cast<std::size_t>(place - block.values.begin());
            steps[at].values.push_back(
                {factor.column, factor.offset, static_cast<uint32_t>(unit), factor.then});
        }
        at++;
    }
    for (Block& block : blocks) block.units = block.heads.size() + block.values.size();
    const auto is_summed = [K](const Template& one) { return one.numeric < 0 && K <= kMostSummed; };
    at = 0;
    for (uint32_t k = 0; k < program.templates.size(); k++) {
        const Template& one = program.templates[k];
        if (one.local && !is_summed(one)) {
            const auto c = static_cast<std::size_t>(one.column);
            const auto unit = static_cast<uint32_t>(blocks[c].units++);
            blocks[c].locals.push_back({k, unit, false});
            steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(at),
                         {{c, one.offset, unit}, true, {}, one.numeric});
        }
        if (!one.local || !is_summed(one)) at++;
    }
    for (uint32_t k = 0; k < program.templates.size(); k++) {
        const Template& one = program.templates[k];
        if (!one.local || !is_summed(one)) continue;
        const auto c = static_cast<std::size_t>(one.column);
        auto sum = std::find_if(sums.begin(), sums.end(), [&](const Part& part) {
            return part.column == c && part.offset == one.offset;
        });
        if (sum == sums.end()) {
            sum = sums.insert(sum, {c, one.offset, static_cast<uint32_t>(blocks[c].units)});
            blocks[c].units += static_cast<std::size_t>((K + 3) / 4 * 2);
        }
        blocks[c].locals.push_back({k, sum->unit, true});
    }
}

std::unique_ptr<WordCache> make_word_cache(const Scoring& scoring, std::size_t c, bool keeps) {
    constexpr std::size_t kBytes = std::size_t{16} << 20, kMost = (1 << 15) - 1;  // of a column
    const std::size_t units = scoring.plan.blocks[c].units;
    const std::size_t each = (units + 8) * 8;  // with header, text and slots
    auto cache = std::make_unique<WordCache>(keeps ? std::min(kBytes / each, kMost) : 0);
    Column column(0);
    add_boundaries(scoring.program, column);
    const std::size_t n = column.words.all.size();
    cache->outside_blocks = std::make_unique<uint64_t[]>(n * units);
    Hits& hits = Hits::of_this_thread(scoring.rows);
    for (std::size_t i = 0; i < n; i++) {
        const Word* word = &column.words.all[i];
        uint64_t* block = cache->outside_blocks.get() + i * units;
        score_words(scoring, c, &word, &block, 1, hits);
        cache->outside.push_back(block);
    }
    return cache;
}

void ScoredWords::score_fresh(Batch& batch, std::span<const std::unique_ptr<WordCache>> caches,
                              int64_t threads, Role role) {
    struct Item {
        std::size_t column, first, last;
    };
    const Scoring& scoring = scoring_;
    const std::size_t columns = scoring.program.columns;
    std::vector<Item> items;
    std::vector<PagedArray<uint64_t>> memory(columns);  // of words to be cached
    std::vector<std::vector<const CachedWord*>> cached(columns);
    std::vector<std::size_t> room(columns);  // words that the cache of a column takes
    const auto is_kept = [&](const Word& word, std::size_t c, std::size_t i) {
        return i < room[c] && word.text.size() <= WordCache::kLongest;
    };
    std::size_t rest = 0;  // units for the other words
    for (std::size_t c = 0; c < columns; c++) {
        const Column& column = batch.columns[c];
        const std::size_t n = column.fresh.size(), units = scoring.plan.blocks[c].units;
        for (std::size_t first = 0; first < n; first += kWordsPerItem) {
            items.push_back({c, first, std::min<std::size_t>(n, first + kWordsPerItem)});
        }
        room[c] = caches[c]->claim(n);
        std::size_t size = 0;
        for (std::size_t i = 0; i < n; i++) {
            const Word& word = column.words.all[static_cast<std::size_t>(column.fresh[i])];
            if (is_kept(word, c, i)) {
                size += CachedWord::units_of(word.text) + units;
            } else {
                rest += units;
            }
        }
        if (size > 0) memory[c] = PagedArray<uint64_t>(size);
    }
    thread_local Scratch<uint64_t> scratch[2];
    rest_ = scratch[role].take(rest);
    uint64_t* next = rest_.data;
    for (std::size_t c = 0; c < columns; c++) {
        const std::size_t units = scoring.plan.blocks[c].units;
        Column& column = batch.columns[c];
        uint64_t* kept = memory[c].data();
        for (std::size_t i = 0; i < column.fresh.size(); i++) {
            Word& word = column.words.all[static_cast<std::size_t>(column.fresh[i])];
            if (is_kept(word, c, i)) {
                cached[c].push_back(reinterpret_cast<const CachedWord*>(kept));
                kept = CachedWord::write(word.text, word.hash, kept);
                word.block = kept;
                kept += units;
            } else {
                word.block = next;
                next += units;
            }
        }
    }
    threads = std::min(threads, batch.offsets.back() / kTokensPerItem + 1);
    parallel_for(static_cast<int64_t>(items.size()), threads, [&](int64_t i, int64_t) {
        const auto [c, first, last] = items[i];
        std::array<const Word*, kWordsAtOnce> words;
        std::array<uint64_t*, kWordsAtOnce> blocks;
        for (std::size_t w = first; w < last; w += kWordsAtOnce) {
            const std::size_t n = std::min<std::size_t>(last - w, kWordsAtOnce);
            for (std::size_t j = 0; j < n; j++) {
                const Column& column = batch.columns[c];
                words[j] = &column.words.all[static_cast<std::size_t>(column.fresh[w + j])];
                blocks[j] = const_cast<uint64_t*>(words[j]->block);  // ours, see above
            }
            score_words(scoring, c, words.data(), blocks.data(), n,
                        Hits::of_this_thread(scoring.rows));
        }
    });
    for (std::size_t c = 0; c < columns; c++) {
        if (memory[c].size() > 0) caches[c]->add(cached[c], std::move(memory[c]));
    }
}

ScoredWords::ScoredWords(const Scoring& scoring, Batch& batch,
                         std::span<const std::unique_ptr<WordCache>> caches, int64_t threads,
                         Role role)
    : scoring_(scoring), batch_(batch) {
    const auto has_fresh = [](const Column& column) { return !column.fresh.empty(); };
    if (std::any_of(batch.columns.begin(), batch.columns.end(), has_fresh)) {
        score_fresh(batch, caches, threads, role);
    }
    for (Column& column : batch.columns) {
        for (const auto& [position, word] : column.missed) {
            column.blocks[position] = column.words.all[static_cast<std::size_t>(word)].block;
        }
        blocks_.push_back(column.blocks.data());
    }
}

// The fingerprints of a step at n tokens from a padded position on: 0 where a factor has no value.
// Each loop runs over tokens, as what to do is the same for all of them.
void ScoredWords::hash(const Plan::Step& step, int64_t position, int64_t n, uint64_t* out) const {
    const auto at = [&](const Plan::Part& part) {
        return blocks_[part.column] + position + part.offset;
    };
    const uint64_t* const* heads = at(step.first);
    for (int64_t i = 0; i < n; i++) out[i] = heads[i][step.first.unit];
    for (const Plan::Part& part : step.values) {
        const uint64_t* const* values = at(part);
        for (int64_t i = 0; i < n; i++) {
            const uint64_t value = values[i][part.unit];
            const uint64_t some = -uint64_t{out[i] != 0 && value != kNone};
            out[i] = fold_part(out[i], value, part.then) & some;
        }
    }
    for (int64_t i = 0; i < n; i++) scoring_.table.prefetch(out[i]);
}

void ScoredWords::score(int64_t first, int64_t last, float* out) const {
    if (first == last) return;
    const Program& program = scoring_.program;
    const Plan& plan = scoring_.plan;
    const WeightRows& rows = scoring_.rows;
    Hits& hits = Hits::of_this_thread(rows);
    const auto sentence = std::upper_bound(batch_.offsets.begin(), batch_.offsets.end(), first) - 1;
    int64_t n = sentence - batch_.offsets.begin();
    std::array<int64_t, kTokensAtOnce> positions;
    const std::size_t groups = plan.sums.size(), steps = plan.steps.size();
    hits.reserve(kTokensAtOnce * steps);
    hits.sums.resize(groups);
    for (int64_t begin = first; begin < last; begin += kTokensAtOnce) {
        const int64_t m = std::min(kTokensAtOnce, last - begin);
        float* to = out + (begin - first) * rows.K;
        uint64_t* const fingerprints = hits.fingerprints.data();  // [steps, kTokensAtOnce]
        for (int64_t i = 0, run = 0; i < m; i += run) {           // tokens of one sentence
            while (batch_.offsets[n + 1] <= begin + i) n++;
            run = std::min(m - i, batch_.offsets[n + 1] - begin - i);
            const int64_t position = padded(program, batch_, n) + begin + i - batch_.offsets[n];
            for (int64_t j = 0; j < run; j++) positions[i + j] = position + j;
            for (std::size_t c = 0; c < blocks_.size(); c++) {
                const uint64_t* const* ahead = blocks_[c] + position + kTokensAtOnce;
                for (std::size_t unit = 0; unit < plan.blocks[c].units; unit += 8) {
                    for (int64_t j = 0; j < run; j++) __builtin_prefetch(ahead[j] + unit);
                }
            }
            for (std::size_t g = 0; g < groups; g++) {
                const Plan::Part& part = plan.sums[g];
                hits.sums[g] = {blocks_[part.column] + position + part.offset, part.unit};
            }
            for (std::size_t s = 0; s < steps; s++) {
                if (plan.steps[s].is_row) continue;
                hash(plan.steps[s], position, run, fingerprints + s * kTokensAtOnce + i);
            }
            const auto n_groups = static_cast<int64_t>(groups);
            kernels().rows().sum_groups({hits.sums.data(), run, n_groups, rows.K, to + i * rows.K});
        }
        for (std::size_t s = 0; s < steps; s++) {
            const Plan::Step& step = plan.steps[s];
            WeightRow* found = hits.found.data() + s * kTokensAtOnce;
            if (!step.is_row) {
                scoring_.table.find(fingerprints + s * kTokensAtOnce, m, found);
                continue;
            }
            const uint64_t* const* blocks = blocks_[step.first.column] + step.first.offset;
            for (int64_t i = 0; i < m; i++) {
                found[i] = std::bit_cast<WeightRow>(blocks[positions[i]][step.first.unit]);
            }
        }
        hits.push_all(m, steps, to, [&](int64_t i, std::size_t s) {
            const int32_t column = plan.steps[s].numeric;
            return column < 0 ? 1.0f : static_cast<float>(batch_.numeric[column][begin + i]);
        });
        hits.add();
    }
}

void score(const Scoring& scoring, Batch& batch, std::span<const std::unique_ptr<WordCache>> caches,
           int64_t threads, float* out) {
    const ScoredWords words(scoring, batch, caches, threads);
    const int64_t T = batch.offsets.back(), items = (T + kTokensPerItem - 1) / kTokensPerItem;
    parallel_for(items, threads, [&](int64_t i, int64_t) {
        const int64_t first = i * kTokensPerItem;
        words.score(first, std::min(T, first + kTokensPerItem), out + first * scoring.rows.K);
    });
}

void score_encoded(const int64_t* indptr, const int32_t* ids, const float* values, int64_t T,
                   const WeightRows& rows, int64_t threads, float* out) {
    const int64_t items = (T + kTokensPerItem - 1) / kTokensPerItem;
    threads = std::min(threads, std::max<int64_t>(items, 1));
    constexpr int64_t kAhead = 32;  // ids whose rows are prefetched
    parallel_for(items, threads, [&](int64_t item, int64_t) {
        const int64_t last = std::min(T, (item + 1) * kTokensPerItem);
        Hits& mine = Hits::of_this_thread(rows);
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
                    const WeightRow found = rows.by_id[static_cast<std::size_t>(ids[i])];
                    mine.push(row, found, values ? values[i] : 1.0f);
                }
            }
            mine.add();
        }
    });
}

void score_fingerprints(const FingerprintRows& tokens, int64_t first, int64_t last,
                        const RowTable& table, const WeightRows& rows, float* out) {
    const auto& [indptr, fingerprints, values] = tokens;
    Hits& hits = Hits::of_this_thread(rows);
    std::fill_n(out, (last - first) * rows.K, 0.0f);
    int64_t ahead = indptr[first];  // attributes whose slots have been prefetched
    for (int64_t begin = first; begin < last; begin += kItemsAtOnce) {
        const int64_t end = std::min(last, begin + kItemsAtOnce);
        const int64_t next = indptr[std::min(last, end + kItemsAtOnce)];
        // Not in a function: GCC 12 removes calls of functions that only prefetch.
        for (; ahead < next; ahead++) table.prefetch(fingerprints[ahead]);
        const int64_t n = indptr[end] - indptr[begin];
        hits.reserve(static_cast<std::size_t>(n));
        table.find(fingerprints.data() + indptr[begin], n, hits.found.data());
        const WeightRow* found = hits.found.data();
        for (int64_t t = begin; t < end; t++) {
            float* row = out + (t - first) * rows.K;
            for (int64_t i = indptr[t]; i < indptr[t + 1]; i++) {
                hits.push(row, *found++, values.empty() ? 1.0f : values[i]);
            }
        }
        hits.add();
    }
}

}  // namespace tagloom
