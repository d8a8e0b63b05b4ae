// Words that a scorer has met before, and what it worked out about each: a block of numbers that
// only the text decides, so that nobody can tell from a result what was asked before. Any number of
// threads look up and add words at once, without locks: a word is written in full before its slot
// is set, and stays until the end. When there is no more room, new words are no longer taken in;
// the first some ten thousand words of a language are nine tenths of its tokens.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/hash.hpp"

namespace tagloom {

// A word lies in one piece: this, its text, and its block.
struct KnownWord {
    uint64_t hash;  // of the text
    uint64_t size;  // of the text in bytes

    bool is(std::string_view other, uint64_t other_hash) const {
        return hash == other_hash && size == other.size() && is_same(text(), other, hash);
    }
    std::string_view text() const { return {reinterpret_cast<const char*>(this + 1), size}; }
    const uint64_t* block() const {
        return reinterpret_cast<const uint64_t*>(this + 1) + (size + 7) / 8;
    }
    // How many units of 8 bytes a word needs besides its block.
    static std::size_t units_of(std::string_view text) {
        return sizeof(KnownWord) / 8 + (text.size() + 7) / 8;
    }
    // Writes all but the block, and returns where that is.
    static uint64_t* write(std::string_view text, uint64_t hash, uint64_t* to);
};

class KnownWords {
  public:
    static constexpr std::size_t kLongest = 64;  // bytes of text; a longer word is not kept

    explicit KnownWords(std::size_t most);  // words; 0: it keeps none
    ~KnownWords();
    KnownWords(const KnownWords&) = delete;
    KnownWords& operator=(const KnownWords&) = delete;

    // Null if the word is not known.
    const KnownWord* find(std::string_view text, uint64_t hash) const {
        for (std::size_t slot = hash & mask_;; slot = (slot + 1) & mask_) {
            const KnownWord* known = slots_[slot].load(std::memory_order_acquire);
            if (!known || known->is(text, hash)) return known;
        }
    }
    // Asks memory for what find() will read, in two steps.
    void prefetch_slot(uint64_t hash) const { __builtin_prefetch(&slots_[hash & mask_]); }
    void prefetch_word(uint64_t hash) const {
        __builtin_prefetch(slots_[hash & mask_].load(std::memory_order_acquire));
    }

    // How many of n new words there is room for. Whoever claims room may add so many.
    std::size_t claim(std::size_t n);
    // Takes over the memory in which these words lie.
    void add(const std::vector<const KnownWord*>& words, std::unique_ptr<uint64_t[]> memory);

    // Blocks of the positions outside a sentence, in the order of add_boundaries; set by the maker.
    std::vector<const uint64_t*> outside;
    std::unique_ptr<uint64_t[]> outside_blocks;

  private:
    struct Chunk {
        std::unique_ptr<uint64_t[]> memory;
        Chunk* next;
    };
    using Slot = std::atomic<const KnownWord*>;

    const std::size_t most_, mask_;
    const std::unique_ptr<Slot[]> slots_;  // at most half of them are used, so that a probe ends
    std::atomic<std::size_t> claimed_{0};
    std::atomic<Chunk*> chunks_{nullptr};
};

}  // namespace tagloom
