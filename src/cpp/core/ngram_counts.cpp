#include "core/ngram_counts.hpp"

#include <algorithm>
#include <stdexcept>

#include "core/threads.hpp"

namespace tagloom {
namespace {

void check_size(int64_t nodes) {
    if (nodes > kMaxNodes)
        throw std::length_error("the text has more than 2^31 distinct n-grams. Lower the order.");
}

// One level of a trie under construction.
struct Level {
    std::vector<int32_t> word, n_children;
    std::vector<int64_t> count;

    void add(int32_t w, int64_t n) {
        word.push_back(w);
        count.push_back(n);
        n_children.push_back(0);
    }
};

// Sorts the windows that begin with a range of words, and adds the n-grams below those words.
class Windows {
  public:
    Windows(std::span<const int32_t> text, int64_t order, std::vector<Level>& levels)
        : text_(text), order_(order), levels_(levels) {}

    // All windows at `at` begin with the same n words. Returns the number of distinct next words.
    int32_t extend(int64_t n, std::span<uint32_t> at) {
        if (n == order_ || text_[at[0] + n - 1] == kEnd) return 0;
        Level& level = levels_[n + 1];
        if (at.size() == 1) {
            level.add(text_[at[0] + n], 1);
            const std::size_t child = level.word.size() - 1;
            level.n_children[child] = extend(n + 1, at);
            return 1;
        }
        keys_.resize(at.size());
        for (std::size_t i = 0; i < at.size(); i++)
            keys_[i] = static_cast<uint64_t>(text_[at[i] + n]) << 32 | at[i];
        std::sort(keys_.begin(), keys_.end());
        for (std::size_t i = 0; i < at.size(); i++) at[i] = static_cast<uint32_t>(keys_[i]);
        int32_t n_children = 0;
        for (std::size_t lo = 0, hi; lo < at.size(); lo = hi, n_children++) {
            const int32_t w = text_[at[lo] + n];
            for (hi = lo + 1; hi < at.size() && text_[at[hi] + n] == w; hi++) {
            }
            level.add(w, static_cast<int64_t>(hi - lo));
            const std::size_t child = level.word.size() - 1;
            const int32_t below = extend(n + 1, at.subspan(lo, hi - lo));
            level.n_children[child] = below;
        }
        return n_children;
    }

  private:
    std::span<const int32_t> text_;
    const int64_t order_;
    std::vector<Level>& levels_;
    std::vector<uint64_t> keys_;  // scratch: word and place of each window
};

// Concatenates the pieces of each level into a trie.
NGramCounts join_levels(int64_t order, std::span<std::vector<Level>> pieces, int64_t threads) {
    NGramCounts all{order, {0}, {}, {}, {}};
    for (int64_t n = 0; n <= order; n++) {
        int64_t size = all.level.back();
        for (const auto& levels : pieces) size += std::ssize(levels[n].word);
        check_size(size);
        all.level.push_back(size);
    }
    all.word.resize(all.nodes());
    all.count.resize(all.nodes());
    all.first.resize(all.histories() + 1);
    // The children of a level begin where the next one does.
    parallel_for(order + 1, threads, [&](int64_t n, int64_t) {
        int64_t node = all.level[n], child = all.level[n + 1];
        for (const auto& levels : pieces) {
            const Level& level = levels[n];
            std::copy(level.word.begin(), level.word.end(), all.word.begin() + node);
            std::copy(level.count.begin(), level.count.end(), all.count.begin() + node);
            for (std::size_t i = 0; i < level.word.size(); i++, node++) {
                if (n == order) continue;
                all.first[node] = static_cast<int32_t>(child);
                child += level.n_children[i];
            }
        }
    });
    all.first.back() = static_cast<int32_t>(all.nodes());
    return all;
}

}  // namespace

NGramCounts count_ngrams_of(std::span<const int32_t> text, int64_t order, int64_t n_words,
                            int64_t threads) {
    std::vector<int64_t> begin(n_words + 1);  // windows by their first word
    for (const int32_t w : text) begin[w + 1]++;
    for (int64_t w = 0; w < n_words; w++) begin[w + 1] += begin[w];
    std::vector<uint32_t> at(text.size());
    {
        std::vector<int64_t> next(begin.begin(), begin.end() - 1);
        for (std::size_t i = 0; i < text.size(); i++)
            at[next[text[i]]++] = static_cast<uint32_t>(i);
    }
    // Pieces of about the same number of windows, cut between words, by a rule that does not
    // depend on the number of threads.
    std::vector<int64_t> cuts{0};
    const int64_t piece = std::max<int64_t>(std::ssize(text) / 64, 1 << 12);
    for (int64_t w = 0; w < n_words; w++)
        if (begin[w + 1] - begin[cuts.back()] >= piece || w + 1 == n_words) cuts.push_back(w + 1);
    std::vector<std::vector<Level>> pieces(cuts.size());
    for (auto& levels : pieces) levels.resize(order + 1);
    pieces[0][0].add(-1, std::ssize(text));  // the empty n-gram
    pieces[0][0].n_children[0] = static_cast<int32_t>(n_words);
    parallel_for(std::ssize(cuts) - 1, threads, [&](int64_t p, int64_t) {
        std::vector<Level>& levels = pieces[p + 1];
        Windows windows(text, order, levels);
        for (int64_t w = cuts[p]; w < cuts[p + 1]; w++) {
            const int64_t n = begin[w + 1] - begin[w];
            levels[1].add(static_cast<int32_t>(w), n);
            if (n == 0) continue;
            const auto same = std::span(at).subspan(begin[w], n);
            levels[1].n_children.back() = windows.extend(1, same);
        }
    });
    return join_levels(order, pieces, threads);
}

NGramCounts merge_counts(std::span<const NGramCounts* const> counts, const int32_t* rename,
                         int64_t n_words) {
    // A node of an input trie. A node of the result merges at most one of each trie, or with
    // `rename` any number.
    struct Source {
        int32_t word;
        int32_t trie;
        int64_t node;
    };
    const int64_t order = counts[0]->order;
    std::vector<std::vector<Level>> pieces(1, std::vector<Level>(order + 1));
    std::vector<Level>& levels = pieces[0];
    std::vector<Source> sources, next;          // those of level n and n + 1
    std::vector<int64_t> begin{0}, next_begin;  // of each node of the level
    levels[0].add(-1, 0);
    for (std::size_t k = 0; k < counts.size(); k++) {
        sources.push_back({-1, static_cast<int32_t>(k), 0});
        levels[0].count[0] += counts[k]->count[0];
    }
    begin.push_back(std::ssize(sources));
    std::vector<Source> children;
    for (int64_t n = 0; n < order; n++) {
        next.clear();
        next_begin.assign(1, 0);
        const auto add = [&](std::size_t node, int32_t w, std::size_t lo, std::size_t hi) {
            int64_t count = 0;
            for (std::size_t i = lo; i < hi; i++) {
                count += counts[children[i].trie]->count[children[i].node];
                next.push_back(children[i]);
            }
            next_begin.push_back(std::ssize(next));
            levels[n + 1].add(w, count);
            levels[n].n_children[node]++;
        };
        for (std::size_t node = 0; node < levels[n].word.size(); node++) {
            children.clear();
            for (int64_t i = begin[node]; i < begin[node + 1]; i++) {
                const NGramCounts& from = *counts[sources[i].trie];
                const int64_t at = sources[i].node;
                for (int64_t c = from.first[at]; c < from.first[at + 1]; c++) {
                    const int32_t w = rename ? rename[from.word[c]] : from.word[c];
                    children.push_back({w, sources[i].trie, c});
                }
            }
            if (rename || begin[node + 1] - begin[node] > 1)
                std::stable_sort(children.begin(), children.end(),
                                 [](const Source& a, const Source& b) { return a.word < b.word; });
            int32_t unused = 0;  // next word of the vocabulary without a node
            for (std::size_t lo = 0, hi; lo < children.size(); lo = hi) {
                const int32_t w = children[lo].word;
                for (hi = lo + 1; hi < children.size() && children[hi].word == w; hi++) {
                }
                for (; n == 0 && unused < w; unused++) add(node, unused, 0, 0);
                add(node, w, lo, hi);
                unused = w + 1;
            }
            for (; n == 0 && unused < n_words; unused++) add(node, unused, 0, 0);
        }
        check_size(std::ssize(next));
        sources.swap(next);
        begin.swap(next_begin);
    }
    return join_levels(order, pieces, 1);
}

std::vector<int32_t> link_suffixes(std::span<const int64_t> level, std::span<const int32_t> word,
                                   std::span<const int32_t> first, int64_t threads) {
    std::vector<int32_t> suffix(word.size(), 0);
    constexpr int64_t kPiece = 1 << 12;
    for (std::size_t n = 1; n + 2 < level.size(); n++) {
        const int64_t lo = level[n], size = level[n + 1] - lo;
        parallel_for((size + kPiece - 1) / kPiece, threads, [&](int64_t p, int64_t) {
            const int64_t end = lo + std::min(size, (p + 1) * kPiece);
            for (int64_t i = lo + p * kPiece; i < end; i++)
                for (int32_t c = first[i]; c < first[i + 1]; c++)
                    suffix[c] = find_child(word.data(), first.data(), suffix[i], word[c]);
        });
    }
    return suffix;
}

void NGramCounter::flush(int64_t n_words) {
    if (text_.empty()) return;
    parts_.push_back(count_ngrams_of(text_, order_, n_words, threads_));
    text_.clear();
    // Like a binary counter: each n-gram is merged a logarithmic number of times.
    while (parts_.size() > 1 && parts_.end()[-2].nodes() < 2 * parts_.back().nodes()) {
        const NGramCounts* last[] = {&parts_.end()[-2], &parts_.back()};
        NGramCounts merged = merge_counts(last, nullptr, n_words);
        parts_.pop_back();
        parts_.back() = std::move(merged);
    }
}

NGramCounts NGramCounter::take(int64_t n_words) {
    flush(n_words);
    if (parts_.empty()) return count_ngrams_of({}, order_, n_words, 1);
    if (parts_.size() > 1 || parts_[0].n_words() < n_words) {
        std::vector<const NGramCounts*> all;
        for (const NGramCounts& part : parts_) all.push_back(&part);
        NGramCounts merged = merge_counts(all, nullptr, n_words);
        parts_.clear();
        return merged;
    }
    NGramCounts only = std::move(parts_[0]);
    parts_.clear();
    return only;
}

}  // namespace tagloom
