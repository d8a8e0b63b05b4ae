#include "core/resident.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "core/threads.hpp"

namespace tagloom {
namespace {

constexpr int64_t kTokensPerItem = 512;  // scored by one thread at a time

}  // namespace

// Sentences whose lists refer to the rows of a resident model.
class Resident::Part final : public Corpus {
  public:
    Part(const Resident& model, const Examples& x) : Corpus(x) {
        keep_order(x);
        copy_labels(x);
        std::vector<const std::vector<uint32_t>*> sections;
        for (size_t s = 0; s + 1 < model.begins.size(); ++s) sections.push_back(&model.begins[s]);
        node_lists = full_lists(x.nodes, sections, 0);
        if (x.edges.indptr) edge_lists = full_lists(x.edges, {&model.begins.back()}, 1);
    }

    // A section and a number in it -> where the row begins.
    template <class Use>
    static void each(const Attributes& x, int64_t t,
                     const std::vector<const std::vector<uint32_t>*>& sections, const Use& use) {
        for (int64_t j = x.indptr[t]; j < x.indptr[t + 1]; ++j) {
            int64_t a = x.ids[j];
            size_t s = 0;
            while (a >= std::ssize(*sections[s])) a -= std::ssize(*sections[s++]);
            use(j, (*sections[s])[a]);
        }
    }

  private:
    // The lists of the tokens from `first` of each sentence on.
    OwnedLists full_lists(const Attributes& x,
                          const std::vector<const std::vector<uint32_t>*>& sections,
                          int64_t first) const {
        OwnedLists lists;
        lists.valued = x.values;
        lists.full_ptr.assign(T + 1, 0);
        lists.single_ptr.assign(T + 1, 0);
        lists.square.assign(T, 0);
        lists.full = PagedArray<uint32_t>(x.nnz + kListSlack);
        lists.single = PagedArray<uint32_t>(kListSlack);
        if (x.values) lists.full_value = PagedArray<float>(x.nnz);
        int64_t n = 0;
        for (int64_t i = 0; i < N; ++i)
            for (int64_t t = starts[i]; t < starts[i + 1]; ++t) {
                if (t >= starts[i] + first)
                    each(x, t, sections, [&](int64_t j, uint32_t begin) {
                        if (x.values) lists.full_value[n] = x.values[j];
                        lists.full[n++] = begin;
                        lists.square[t] += x.values ? x.values[j] * x.values[j] : 1;
                    });
                lists.full_ptr[t + 1] = n;
            }
        return lists;
    }
};

Resident::Resident(const OnlineOptions& options_, int64_t n_node_sections, int64_t n_labels,
                   bool float32_)
    : Y(n_labels),
      float32(float32_),
      options(options_),
      begins(n_node_sections + 1),
      online(Online::make(*this, 0, 0, float32, options)) {}

Resident::Resident(const Resident& other, const OnlineOptions& options_)
    : Y(other.Y),
      float32(other.float32),
      options(options_),
      begins(other.begins),
      n_weights(other.n_weights),
      n_tail(other.n_tail),
      n_seen(other.n_seen),
      free(other.free),
      tail_free(other.tail_free),
      online(Online::make(*this, n_weights, n_tail, float32, options)) {
    OnlineState state = other.online->state();
    if (options.average != other.options.average) {  // averaging begins, or ends
        state.sums.assign(options.average ? state.theta.size() : 0, 0.0);
        state.averaged = 0;
    }
    online->restore(state);
}

void Resident::each_row(const UseRow& use) const {
    for (int64_t s = 0; s < n_sections(); ++s)
        for (const uint32_t begin : begins[s]) use(begin, width(s), true);
}

void Resident::set_labels(int64_t n_labels, std::span<const int64_t> place,
                          std::span<const std::vector<int64_t>> ids) {
    const int64_t old_Y = std::exchange(Y, n_labels);
    std::vector<int64_t> before(Y, -1);  // [Y] the old label, or -1
    for (int64_t y = 0; y < old_Y; ++y) before[place[y]] = y;
    std::vector<int64_t> from;
    std::vector<uint8_t> is_free;
    auto add = [&](int64_t old, uint8_t if_new) {
        from.push_back(old);
        is_free.push_back(old < 0 ? if_new : free[old]);
    };
    for (int64_t s = 0; s < n_sections(); ++s) {
        const std::vector<uint32_t> old_begins = std::exchange(begins[s], {});
        const bool renumbers = !ids[s].empty(), is_edges = s + 1 == n_sections();
        const int64_t n = std::ssize(renumbers ? ids[s] : std::vector<int64_t>(old_begins.size()));
        for (int64_t a = 0; a < n; ++a) {
            const int64_t old = renumbers ? ids[s][a] : a;
            const int64_t row = old < 0 ? -1 : int64_t{old_begins[old]};
            // A new label is free for an attribute of which every weight is.
            const int64_t old_width = is_edges ? old_Y * old_Y : old_Y;
            const uint8_t if_new =
                row < 0 || std::all_of(
                               free.begin() + row, free.begin() + row + old_width,
                               [](uint8_t f) { return f; });
            begins[s].push_back(static_cast<uint32_t>(from.size()));
            for (int64_t c = 0; c < width(s); ++c) {
                const int64_t y = before[c % Y], y_prev = is_edges ? before[c / Y] : 0;
                const bool is_new = row < 0 || y < 0 || y_prev < 0;
                add(is_new ? -1 : row + y_prev * old_Y + y, if_new);
            }
        }
    }
    n_weights = std::ssize(from);
    if (n_weights >= tail_at()) throw std::length_error("the model has too many weights");
    free = std::move(is_free);
    online->remap(n_weights, from.data(), n_tail, nullptr);
}

void Resident::set_tail(std::span<const int64_t> from, std::span<const uint8_t> is_free) {
    const std::vector<uint8_t> before = std::exchange(tail_free, {is_free.begin(), is_free.end()});
    for (size_t j = 0; j < from.size(); ++j)
        if (from[j] >= 0) tail_free[j] |= before[from[j]];
    n_tail = std::ssize(is_free);
    online->remap(n_weights, nullptr, n_tail, from.data());
}

void Resident::grow(std::span<const int64_t> sizes, bool all) {
    for (int64_t s = 0; s < n_sections(); ++s) {
        const int64_t more = std::max<int64_t>(sizes[s] - n_attributes(s), 0);
        if (n_weights + more * width(s) >= tail_at())
            throw std::length_error("the model has too many weights");
        for (int64_t i = 0; i < more; ++i) {
            begins[s].push_back(static_cast<uint32_t>(n_weights));
            n_weights += width(s);
        }
    }
    free.resize(n_weights, all);
    online->remap(n_weights, nullptr, n_tail, nullptr);
}

void Resident::start_from(int64_t section, std::span<const int32_t> attributes,
                          std::span<const int32_t> columns, std::span<const double> weights) {
    OnlineState state = online->state();
    for (size_t j = 0; j < weights.size(); ++j) {
        const int64_t weight = begins[section][attributes[j]] + columns[j];
        if (!std::exchange(free[weight], 1)) online->release(weight);
        state.theta[weight] = weights[j];
    }
    const OnlineState released = online->state();
    state.squares = released.squares;
    online->restore(state);
}

void Resident::start_tail_from(std::span<const double> weights, int64_t steps) {
    OnlineState state = online->state();
    std::copy(weights.begin(), weights.end(), state.theta.end() - n_tail);
    state.steps = n_seen = state.corpus = steps;
    online->restore(state);
}

Epoch Resident::learn(const Examples& x, const int64_t* permutation, std::vector<double> cost,
                      bool frees_seen) {
    const Part part(*this, x);
    if (part.n_tail() != n_tail) throw std::invalid_argument("set_tail() has not been called");
    auto release = [&](int64_t weight) {
        if (!std::exchange(free[weight], 1)) online->release(weight);
    };
    auto release_seen = [&](const OwnedLists& lists, int64_t t, int64_t column) {
        for (int64_t j = lists.full_ptr[t]; j < lists.full_ptr[t + 1]; ++j)
            release(lists.full[j] + column);
    };
    for (int64_t i = 0; i < part.N; ++i)
        for (int64_t t = part.starts[i]; t < part.starts[i + 1]; ++t) {
            part.each_seen(part.gold[t], [&](int64_t y) {
                release_seen(part.node_lists, t, y);
                if (part.has_edges() && t > part.starts[i])
                    part.each_seen(part.gold[t - 1], [&](int64_t y_prev) {
                        release_seen(part.edge_lists, t, y_prev * Y + y);
                    });
            });
        }
    if (frees_seen) {
        const std::vector<uint8_t> before = tail_free;
        part.mark_seen(tail_free.data());
        for (int64_t j = 0; j < n_tail; ++j)
            if (tail_free[j] && !before[j]) online->release(tail_at() + j);
    }
    online->set_cost(std::move(cost));
    n_seen += part.N;
    online->begin(part.N, n_seen);
    online->attach(part);
    const Epoch epoch = online->visit(permutation, part.N);
    online->end();
    return epoch;
}

void Resident::score(int64_t section, int64_t group, const Attributes& x, int64_t T, float least,
                     int64_t threads, float* out) const {
    const int64_t K = width(section), items = (T + kTokensPerItem - 1) / kTokensPerItem;
    std::fill_n(out, T * group * K, 0.0f);
    parallel_for(items, threads, [&](int64_t item, int64_t) {
        std::vector<float> row(K);
        const int64_t last = std::min(T, (item + 1) * kTokensPerItem);
        for (int64_t t = item * kTokensPerItem; t < last; ++t)
            for (int64_t j = x.indptr[t]; j < x.indptr[t + 1]; ++j)
                for (int64_t g = 0; g < group; ++g) {
                    online->read_rows(begins[section][x.ids[j] * group + g], K, row.data());
                    const float value = x.values ? x.values[j] : 1.0f;
                    float* to = out + (t * group + g) * K;
                    for (int64_t c = 0; c < K; ++c)
                        to[c] += std::abs(row[c]) >= least ? value * row[c] : 0.0f;
                }
    });
}

void Resident::read(int64_t section, float* out) const {
    const int64_t K = width(section);
    for (int64_t a = 0; a < n_attributes(section); ++a)
        online->read_rows(begins[section][a], K, out + a * K);
}

std::vector<double> Resident::tail() const { return online->read_tail(); }

}  // namespace tagloom
