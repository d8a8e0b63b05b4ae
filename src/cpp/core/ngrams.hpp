// N-gram language models: the trie of n-grams and the probabilities in it. Words are numbers.
//
// All n-grams lie in one trie, numbered level by level and, within a level, in the order of their
// words:
//
//   node 0          the empty n-gram
//   nodes 1 .. V    single words: node 1 + w is the word w
//   then            all bigrams, all trigrams, ... ; level[n] is the first n-gram of length n
//
//   word   [M]      last word of the n-gram
//   first  [H + 1]  children of node i, its extensions by one word, are first[i] up to, without,
//                   first[i + 1], in the order of their words; H nodes are shorter than the order
//   suffix [M]      the n-gram without its first word, to which it backs off
//
// The trie is closed under suffixes: a word that follows a history explicitly also follows the
// shorter one. log_prob and backoff are natural logarithms:
//
//   log p(w | h) = log_prob[h w]                    if the trie has h w
//                = backoff[h] + log p(w | suffix h) otherwise
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tagloom {

// Every model has these words: the unknown word, the start and the end of a sentence.
constexpr int32_t kUnknown = 0, kStart = 1, kEnd = 2, kSpecialWords = 3;
constexpr int64_t kMaxOrder = 7;
constexpr int64_t kMaxNodes = 0x7fffffff;  // nodes are numbered with int32

// Returns the node of history and word, -1 if there is none.
inline int32_t find_child(const int32_t* word, const int32_t* first, int32_t node, int32_t w) {
    if (node == 0) return 1 + w;  // single words are never searched for
    const int32_t* at = word + first[node];
    int64_t n = first[node + 1] - first[node];
    if (n == 0) return -1;
    while (n > 1) {  // without branches: which half holds the word cannot be predicted
        const int64_t half = n / 2;
        at = at[half] <= w ? at + half : at;
        n -= half;
    }
    return *at == w ? static_cast<int32_t>(at - word) : -1;
}

// A read-only view of a model. The arrays belong to others, such as a mapped file.
struct NGramTable {
    int64_t order = 0;
    std::span<const int64_t> level;    // [order + 2]; level[0] = 0, the last is M
    std::span<const int32_t> word;     // [M]
    std::span<const int32_t> first;    // [H + 1]
    std::span<const int32_t> suffix;   // [M]
    std::span<const double> log_prob;  // [M]
    std::span<const double> backoff;   // [H]

    int64_t n_words() const { return level[2] - 1; }
    int64_t histories() const { return static_cast<int64_t>(backoff.size()); }
    int32_t find(int32_t node, int32_t w) const {
        return find_child(word.data(), first.data(), node, w);
    }
    // The history after an n-gram: itself, or its suffix if no longer n-gram extends it.
    int32_t history_after(int32_t node) const { return node < histories() ? node : suffix[node]; }
    // The node that scores w after a history; adds the back-off on the way to log_p.
    int32_t arrive(int32_t history, int32_t w, double& log_p) const {
        int32_t node;
        while ((node = find(history, w)) < 0) {
            log_p += backoff[history];
            history = suffix[history];
        }
        log_p += log_prob[node];
        return node;
    }
    int64_t length(int32_t node) const {
        int64_t n = 1;
        while (node >= level[n + 1]) n++;
        return n;
    }
    // What is wrong with the arrays, as in a damaged file. If it is empty, no function here reads
    // out of bounds or runs forever.
    std::string find_fault() const;
};

// Scores of the words of one sentence and, with `ends`, of its end.
struct TokenScores {
    double* log_probs;  // [T + ends] or null
    int8_t* lengths;    // [T + ends] length of the n-gram used; or null
};
// Returns the sum; a word of -1, which the model does not contain, has log-probability -inf.
double score_sentence(const NGramTable& table, std::span<const int32_t> words, bool starts,
                      bool ends, const TokenScores& out);

// The history after some words, at the start of a sentence or without context.
int32_t history_of(const NGramTable& table, std::span<const int32_t> words, bool starts);

// log p(w | history) for every word [V].
void score_words(const NGramTable& table, int32_t history, double* log_p);

}  // namespace tagloom
