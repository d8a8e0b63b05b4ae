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

namespace tagloom {

struct KnownWord {
    uint64_t hash;  // of the text
    std::string_view text;
    const uint64_t* block;
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
            if (!known || (known->hash == hash && known->text == text)) return known;
        }
    }

    // How many of n new words there is room for. Whoever claims room may add so many.
    std::size_t claim(std::size_t n);
    // Takes the blocks over, which hold those of the words; copies the texts.
    void add(std::vector<KnownWord> words, std::unique_ptr<uint64_t[]> blocks);

    // Blocks of the positions outside a sentence, in the order of add_boundaries; set by the maker.
    std::vector<const uint64_t*> outside;
    std::unique_ptr<uint64_t[]> outside_blocks;

  private:
    struct Chunk {
        std::vector<KnownWord> words;
        std::unique_ptr<uint64_t[]> blocks;
        std::unique_ptr<char[]> texts;
        Chunk* next;
    };
    using Slot = std::atomic<const KnownWord*>;

    const std::size_t most_, mask_;
    const std::unique_ptr<Slot[]> slots_;  // at most half of them are used, so that a probe ends
    std::atomic<std::size_t> claimed_{0};
    std::atomic<Chunk*> chunks_{nullptr};
};

}  // namespace tagloom
