#include "core/index.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace tagloom {
namespace {

constexpr std::size_t kSmallest = 64;
constexpr std::size_t kAhead = 16;  // keys prefetched ahead

// At a load of two thirds, an absent key costs five probes on average, mostly in one cache line.
constexpr std::size_t limit_of(std::size_t capacity) { return capacity / 3 * 2; }

std::size_t capacity_for(std::size_t size) {
    std::size_t capacity = kSmallest;
    while (limit_of(capacity) < size) capacity *= 2;
    return capacity;
}

}  // namespace

Index::Index() : offsets_{0} { rebuild(kSmallest); }

Index::Index(std::span<const uint64_t> keys) {
    if (keys.size() > max_size) throw std::invalid_argument("too many keys");
    rebuild(capacity_for(keys.size()));
    for (std::size_t i = 0; i < keys.size(); i++) {
        if (i + kAhead < keys.size()) table_.prefetch(keys[i + kAhead]);
        const uint64_t key = keys[i];
        if (key == 0) throw std::invalid_argument("a key is 0");
        uint64_t slot = key & table_.mask;
        for (; slots_->keys[slot] != 0; slot = (slot + 1) & table_.mask) {
            if (slots_->keys[slot] == key) throw std::invalid_argument("a duplicate key");
        }
        slots_->keys[slot] = key;
        slots_->ids[slot] = static_cast<uint32_t>(table_.size++);
    }
}

Index::Index(std::span<const uint64_t> keys, std::string blob, std::vector<int64_t> offsets)
    : Index(keys) {
    names_ = std::move(blob);
    offsets_ = std::move(offsets);
    counts_.resize(keys.size());
}

std::vector<uint64_t> Index::keys() const {
    std::vector<uint64_t> keys(size());
    for (uint64_t slot = 0; slot <= table_.mask; slot++) {
        if (table_.keys[slot] != 0) keys[table_.ids[slot]] = table_.keys[slot];
    }
    return keys;
}

void Index::rebuild(std::size_t capacity) {
    auto fresh = std::make_shared<Slots>(
        Slots{PagedArray<uint64_t>(capacity), PagedArray<uint32_t>(capacity)});
    const uint64_t mask = capacity - 1;
    if (table_.keys) {
        for (uint64_t old = 0; old <= table_.mask; old++) {
            const uint64_t key = table_.keys[old];
            if (key == 0) continue;
            uint64_t slot = key & mask;
            while (fresh->keys[slot] != 0) slot = (slot + 1) & mask;
            fresh->keys[slot] = key;
            fresh->ids[slot] = table_.ids[old];
        }
    }
    slots_ = std::move(fresh);
    table_ = {slots_->keys.data(), slots_->ids.data(), mask, table_.size, slots_};
    limit_ = limit_of(capacity);
    own_ = true;
}

void Index::begin_growing() {
    own_ = slots_.use_count() == 2;  // slots_ and table_.owner
}

uint64_t Index::make_room(uint64_t wanted) {
    if (table_.size >= max_size) throw std::length_error("an Index holds at most 2^31 - 1 names");
    rebuild(table_.size < limit_ ? table_.mask + 1 : (table_.mask + 1) * 2);
    uint64_t slot = wanted & table_.mask;
    while (table_.keys[slot] != 0) slot = (slot + 1) & table_.mask;
    return slot;
}

void Index::truncate(std::size_t n) noexcept {
    if (size() > n) {  // implies that slots_ are not shared
        auto& [keys, ids] = *slots_;
        const uint64_t mask = table_.mask;
        uint64_t empty = 0;
        while (keys[empty] != 0) empty++;
        for (uint64_t slot = 0; slot <= mask; slot++)
            if (ids[slot] >= n) keys[slot] = 0;
        for (uint64_t i = 1; i <= mask; i++) {  // reinsert the others, closing the gaps
            const uint64_t slot = (empty + i) & mask, key = std::exchange(keys[slot], 0);
            if (key == 0) continue;
            uint64_t to = key & mask;
            while (keys[to] != 0) to = (to + 1) & mask;
            keys[to] = key;
            ids[to] = ids[slot];
        }
        table_.size = n;
    }
    if (counts_.size() > n) counts_.resize(n);
    if (offsets_.size() > n + 1) offsets_.resize(n + 1);
    names_.resize(static_cast<std::size_t>(offsets_[n]));
}

std::vector<int32_t> Index::join(const Index& other) {
    const std::vector<uint64_t> keys = other.keys();
    std::vector<int32_t> numbers(keys.size());
    for (std::size_t id = 0; id < keys.size(); id++) {
        if (id + kAhead < keys.size()) table_.prefetch(keys[id + kAhead]);
        numbers[id] = add_nameless(keys[id]);
        count(numbers[id], other.counts_[id] - 1);
    }
    return numbers;
}

Index Index::keep(const bool* mask) const {
    if (std::all_of(mask, mask + size(), std::identity())) return *this;  // shares the table
    const std::vector<uint64_t> keys = this->keys();
    Index kept;
    kept.rebuild(capacity_for(static_cast<std::size_t>(std::count(mask, mask + size(), true))));
    for (std::size_t id = 0; id < size(); id++) {
        if (!mask[id]) continue;
        kept.add(keys[id], [&](std::string& out) {
            if (can_grow()) out.append(name(id));
        });
        kept.counts_.back() = can_grow() ? counts_[id] : 0;
    }
    if (!can_grow()) {
        kept.offsets_.clear();
        kept.counts_.clear();
    }
    return kept;
}

MergedKeys merge_keys(std::span<const std::span<const uint64_t>> keys,
                      std::span<const std::span<const int64_t>> counts) {
    Index index;
    MergedKeys merged;
    merged.ids.resize(keys.size());
    for (std::size_t s = 0; s < keys.size(); s++) {
        merged.ids[s].resize(keys[s].size());
        for (std::size_t i = 0; i < keys[s].size(); i++) {
            if (i + kAhead < keys[s].size()) index.table().prefetch(keys[s][i + kAhead]);
            const int32_t id = index.add_nameless(keys[s][i]);
            index.count(id, counts[s][i] - 1);
            merged.ids[s][i] = id;
        }
    }
    merged.keys = index.keys();
    merged.counts = index.counts();
    return merged;
}

}  // namespace tagloom
