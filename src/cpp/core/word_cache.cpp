#include "core/word_cache.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace tagloom {

uint64_t* CachedWord::write(std::string_view text, uint64_t hash, uint64_t* to) {
    *to++ = hash;
    *to++ = text.size();
    if (!text.empty()) std::memcpy(to, text.data(), text.size());
    return to + (text.size() + 7) / 8;
}

WordCache::WordCache(std::size_t most)
    : most_(most),
      mask_(std::bit_ceil(2 * most + 2) - 1),
      slots_(std::make_unique<Slot[]>(mask_ + 1)) {}

WordCache::~WordCache() {
    for (Chunk* chunk = chunks_; chunk;) delete std::exchange(chunk, chunk->next);
}

std::size_t WordCache::claim(std::size_t n) {
    std::size_t claimed = claimed_, granted;
    do granted = std::min(n, most_ - claimed);
    while (granted > 0 && !claimed_.compare_exchange_weak(claimed, claimed + granted));
    return granted;
}

void WordCache::add(const std::vector<const CachedWord*>& words, PagedArray<uint64_t> memory) {
    auto chunk = std::make_unique<Chunk>(Chunk{std::move(memory), chunks_});
    for (const CachedWord* word : words) {
        for (std::size_t slot = word->hash & mask_;; slot = (slot + 1) & mask_) {
            const CachedWord* there = nullptr;
            if (slots_[slot].compare_exchange_strong(there, word, std::memory_order_acq_rel)) break;
            if (there->is(word->text(), word->hash)) break;  // another thread added it first
        }
    }
    while (!chunks_.compare_exchange_weak(chunk->next, chunk.get())) {
    }
    chunk.release();
}

}  // namespace tagloom
