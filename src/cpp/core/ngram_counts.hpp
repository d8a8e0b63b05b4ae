// Counts the n-grams of a text, in the trie of ngrams.hpp. A text is read in chunks: sorting the
// windows of a chunk yields a trie with counts, and tries are merged level by level. So the text
// may have any size; only its distinct n-grams must fit into memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ngrams.hpp"

namespace tagloom {

// As in ngrams.hpp; every word of the vocabulary has a node, even if its count is 0.
struct NGramCounts {
    int64_t order = 0;
    std::vector<int64_t> level;  // [order + 2]
    std::vector<int32_t> word;   // [M]
    std::vector<int32_t> first;  // [H + 1]
    std::vector<int64_t> count;  // [M] occurrences; of the empty n-gram: words, starts and ends

    int64_t nodes() const { return level.back(); }
    int64_t histories() const { return level[order]; }
    int64_t n_words() const { return level[2] - 1; }
};

// Counts concatenated sentences, each kStart, its words, kEnd. The result is the same for any
// number of threads.
NGramCounts count_ngrams_of(std::span<const int32_t> text, int64_t order, int64_t n_words,
                            int64_t threads);

// The sum of several counts. `rename` [words of the largest vocabulary], or null, replaces each
// word by another one, such as kUnknown; n_words is the size of the new vocabulary.
NGramCounts merge_counts(std::span<const NGramCounts* const> counts, const int32_t* rename,
                         int64_t n_words);

// suffix [M] of every n-gram of a trie that is closed under suffixes.
std::vector<int32_t> link_suffixes(std::span<const int64_t> level, std::span<const int32_t> word,
                                   std::span<const int32_t> first, int64_t threads);

// Counts a text that grows sentence by sentence.
class NGramCounter {
  public:
    // A chunk of this many words is counted at once: 12 bytes of scratch memory for each.
    static constexpr int64_t kChunk = 1 << 23;

    NGramCounter(int64_t order, int64_t threads, int64_t chunk = kChunk)
        : order_(order), threads_(threads), chunk_(chunk) {}

    void begin_sentence() { text_.push_back(kStart); }
    void add(int32_t w) { text_.push_back(w); }
    // n_words is the size of the vocabulary so far.
    void end_sentence(int64_t n_words) {
        text_.push_back(kEnd);
        if (std::ssize(text_) >= chunk_) flush(n_words);
    }
    // Drops the words since begin_sentence().
    void cancel_sentence() {
        while (text_.back() != kStart) text_.pop_back();
        text_.pop_back();
    }
    // Returns all counts; the counter is empty afterwards.
    NGramCounts take(int64_t n_words);

  private:
    void flush(int64_t n_words);

    const int64_t order_, threads_, chunk_;
    std::vector<int32_t> text_;
    std::vector<NGramCounts> parts_;  // each at least twice as large as the next
};

}  // namespace tagloom
