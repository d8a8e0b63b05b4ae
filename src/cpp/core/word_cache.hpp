// The word cache of a scorer: for each word met before, a block of numbers that depends on its text
// alone, so results do not depend on earlier calls. Any number of threads look up and add words at
// once, without locks: a word is complete before its slot is set, and is never removed. A full
// cache takes no new words; the ten thousand or so words that come first make up nine tenths of the
// tokens.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/hash.hpp"
#include "core/pages.hpp"

namespace tagloom {

// A word is contiguous in memory: this header, its text, its block.
struct CachedWord {
    uint64_t hash;  // of the text
    uint64_t size;  // of the text in bytes

    bool is(std::string_view other, uint64_t other_hash) const {
        return hash == other_hash && size == other.size() && is_same(text(), other, hash);
    }
    std::string_view text() const { return {reinterpret_cast<const char*>(this + 1), size}; }
    const uint64_t* block() const {
        return reinterpret_cast<const uint64_t*>(this + 1) + (size + 7) / 8;
    }
    // Units of 8 bytes that a word needs without its block.
    static std::size_t units_of(std::string_view text) {
        return sizeof(CachedWord) / 8 + (text.size() + 7) / 8;
    }
    // Writes header and text; returns where the block begins.
    static uint64_t* write(std::string_view text, uint64_t hash, uint64_t* to);
};

class WordCache {
  public:
    static constexpr std::size_t kLongest = 64;  // bytes of text; longer words are not cached

    explicit WordCache(std::size_t most);  // capacity in words
    ~WordCache();
    WordCache(const WordCache&) = delete;
    WordCache& operator=(const WordCache&) = delete;

    // Null if the word is not in the cache.
    const CachedWord* find(std::string_view text, uint64_t hash) const {
        for (std::size_t slot = hash & mask_;; slot = (slot + 1) & mask_) {
            const CachedWord* word = slots_[slot].load(std::memory_order_acquire);
            if (!word || word->is(text, hash)) return word;
        }
    }
    // Prefetch what find() will read, in two steps.
    void prefetch_slot(uint64_t hash) const { __builtin_prefetch(&slots_[hash & mask_]); }
    void prefetch_word(uint64_t hash) const {
        __builtin_prefetch(slots_[hash & mask_].load(std::memory_order_acquire));
    }

    // Reserves room for up to n new words; returns the number that the caller may add.
    std::size_t claim(std::size_t n);
    // Adds words and takes over their memory.
    void add(const std::vector<const CachedWord*>& words, PagedArray<uint64_t> memory);

    // Blocks of the padding, in the order of add_boundaries; set by make_word_cache().
    std::vector<const uint64_t*> outside;
    std::unique_ptr<uint64_t[]> outside_blocks;

  private:
    struct Chunk {
        PagedArray<uint64_t> memory;
        Chunk* next;
    };
    using Slot = std::atomic<const CachedWord*>;

    const std::size_t most_, mask_;
    const std::unique_ptr<Slot[]> slots_;  // at most half are used, so that a probe ends
    std::atomic<std::size_t> claimed_{0};
    std::atomic<Chunk*> chunks_{nullptr};
};

}  // namespace tagloom
