// Numbers the attributes: fingerprint -> id in [0, size), by open addressing with linear probing.
//
//   keys [capacity]  fingerprints, 0 where a slot is empty      capacity is a power of two
//   ids  [capacity]  the number of the attribute in that slot
//
// A Table is a read-only view of the two arrays; an Index owns a table and grows it, together with
// the name and count of each attribute. Tables are shared, copy-on-write: an Index that grows first
// copies a table that others hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/hash.hpp"
#include "core/pages.hpp"
#include "core/threads.hpp"

namespace tagloom {

struct Table {
    const uint64_t* keys = nullptr;  // [mask + 1]
    const uint32_t* ids = nullptr;   // [mask + 1]
    uint64_t mask = 0;
    std::size_t size = 0;               // attributes; at most mask, so that a probe ends
    std::shared_ptr<const void> owner;  // of both arrays

    // The fingerprint 0 would look like an empty slot.
    static uint64_t key(uint64_t fingerprint) { return fingerprint ? fingerprint : 1; }

    // The slot of an attribute, -1 if it is not in the table.
    int64_t slot(uint64_t fingerprint) const {
        const uint64_t wanted = key(fingerprint);
        for (uint64_t slot = wanted & mask;; slot = (slot + 1) & mask) {
            if (keys[slot] == wanted) return static_cast<int64_t>(slot);
            if (keys[slot] == 0) return -1;
        }
    }
    // The id of an attribute, -1 if it is not in the table.
    int32_t find(uint64_t fingerprint) const {
        const int64_t found = slot(fingerprint);
        return found < 0 ? -1 : static_cast<int32_t>(ids[found]);
    }

    // Prefetches the slot that slot() will read; a cache miss takes some 50 ns.
    void prefetch(uint64_t fingerprint) const { __builtin_prefetch(keys + (fingerprint & mask)); }
    // The same for find(), which also reads the id.
    void prefetch_id(uint64_t fingerprint) const {
        prefetch(fingerprint);
        __builtin_prefetch(ids + (fingerprint & mask));
    }
};

class Index {
  public:
    static constexpr std::size_t max_size = 0x7fffffff;  // ids are also held as int32

    Index();
    // The attributes with these fingerprints, numbered in order. Without names it cannot grow.
    // std::invalid_argument for a key that is 0 or a duplicate, as in a damaged file.
    explicit Index(std::span<const uint64_t> keys);
    // The same with names, so that it can grow: blob[offsets[i], offsets[i + 1]) is that of id i.
    Index(std::span<const uint64_t> keys, std::string blob, std::vector<int64_t> offsets);

    std::size_t size() const { return table_.size; }
    const Table& table() const { return table_; }
    std::vector<uint64_t> keys() const;  // [size] fingerprints by id
    bool can_grow() const { return !offsets_.empty(); }
    const std::vector<int64_t>& counts() const { return counts_; }    // [size] additions of each
    const std::string& names() const { return names_; }               // one after another, UTF-8
    const std::vector<int64_t>& offsets() const { return offsets_; }  // [size + 1] into names
    std::string_view name(std::size_t id) const {
        return std::string_view(names_).substr(offsets_[id], offsets_[id + 1] - offsets_[id]);
    }

    // The id of an attribute, added if it is new; counts one more occurrence.
    // `make_name(std::string& out)` appends the readable name to `out`; it is called for new
    // attributes only. The fingerprint of several parts is the fold of mix() over their
    // hash_part(), starting at kSeed (hash.hpp). Not thread-safe; needs can_grow().
    template <class MakeName>
    int32_t add(uint64_t fingerprint, const MakeName& make_name) {
        const std::size_t before = size();
        const int32_t id = add_nameless(fingerprint);
        if (size() > before) {
            make_name(names_);
            offsets_.push_back(static_cast<int64_t>(names_.size()));
        }
        return id;
    }
    // The same without a name: add_names() must follow before any other use of the index.
    int32_t add_nameless(uint64_t fingerprint) {
        const uint64_t wanted = Table::key(fingerprint);
        uint64_t slot = wanted & table_.mask;
        for (; table_.keys[slot] != 0; slot = (slot + 1) & table_.mask) {
            if (table_.keys[slot] == wanted) {
                counts_[table_.ids[slot]]++;
                return static_cast<int32_t>(table_.ids[slot]);
            }
        }
        if (table_.size >= limit_ || !own_) slot = make_room(wanted);
        const auto id = static_cast<uint32_t>(table_.size++);
        slots_->keys[slot] = wanted;
        slots_->ids[slot] = id;
        counts_.push_back(1);
        return static_cast<int32_t>(id);
    }
    // Names all attributes without a name, on many threads: make_name(id, std::string& out).
    template <class MakeName>
    void add_names(int64_t threads, const MakeName& make_name) {
        constexpr int64_t kPiece = 1 << 12;
        const int64_t first = std::ssize(offsets_) - 1, end = static_cast<int64_t>(size());
        std::vector<std::string> texts((end - first + kPiece - 1) / kPiece);
        offsets_.resize(end + 1);
        parallel_for(std::ssize(texts), threads, [&](int64_t p, int64_t) {
            const int64_t lo = first + p * kPiece;
            for (int64_t id = lo; id < std::min(lo + kPiece, end); id++) {
                make_name(id, texts[p]);
                offsets_[id + 1] = std::ssize(texts[p]);  // relative to its piece, for now
            }
        });
        int64_t at = offsets_[first];
        for (int64_t p = 0; p < std::ssize(texts); p++) {
            const int64_t lo = first + p * kPiece;
            for (int64_t id = lo; id < std::min(lo + kPiece, end); id++) offsets_[id + 1] += at;
            at += std::ssize(texts[p]);
        }
        names_.reserve(at);
        for (const std::string& text : texts) names_ += text;
    }
    // Removes the attributes from id n on, as if they had never been added.
    void truncate(std::size_t n) noexcept;
    // Counts more occurrences of an id that add() returned.
    void count(int32_t id, int64_t more) { counts_[static_cast<std::size_t>(id)] += more; }

    // Adds the attributes of another index in order, with their counts but without their names;
    // returns their ids here. add_names() must follow.
    std::vector<int32_t> join(const Index& other);

    // Call before add() once table() has been copied: checks whether the arrays are shared.
    void begin_growing();

    // Only the attributes with mask[id], renumbered in their old order. mask is [size].
    Index keep(const bool* mask) const;

  private:
    struct Slots {
        PagedArray<uint64_t> keys;
        PagedArray<uint32_t> ids;
    };
    void rebuild(std::size_t capacity);
    uint64_t make_room(uint64_t wanted);  // -> an empty slot for `wanted`

    Table table_;
    std::shared_ptr<Slots> slots_;  // what table_ points to, where it can grow
    bool own_ = true;               // slots_ are not shared
    std::size_t limit_ = 0;         // most attributes before the table grows
    std::string names_;
    std::vector<int64_t> offsets_, counts_;
};

// Attributes of several shards, numbered as if one shard had them all, one after another.
struct MergedKeys {
    std::vector<uint64_t> keys;             // [size] fingerprints, by number
    std::vector<int64_t> counts;            // [size]
    std::vector<std::vector<int32_t>> ids;  // [shards] the number of each attribute of a shard
};

// keys[s] and counts[s] are those of shard s, and have the same length.
MergedKeys merge_keys(std::span<const std::span<const uint64_t>> keys,
                      std::span<const std::span<const int64_t>> counts);

}  // namespace tagloom
