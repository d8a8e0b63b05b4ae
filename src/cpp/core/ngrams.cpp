#include "core/ngrams.hpp"

#include <cmath>
#include <limits>

namespace tagloom {
namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

// A log-probability, or the logarithm of a weight that may be above 1.
bool is_log(double x, double most) { return x <= most; }  // false for NaN

std::string at_node(int64_t node, const char* fault) {
    return "n-gram " + std::to_string(node) + " " + fault;
}

}  // namespace

std::string NGramTable::find_fault() const {
    if (order < 1 || order > kMaxOrder) return "the order must be 1 to 7";
    if (std::ssize(level) != order + 2 || level[0] != 0 || level[1] != 1)
        return "the levels do not begin with the empty n-gram";
    for (int64_t n = 1; n <= order; n++)
        if (level[n + 1] < level[n]) return "the levels are not in order";
    const int64_t M = level[order + 1], H = level[order];
    if (M > kMaxNodes) return "there are too many n-grams";
    if (level[2] < 1 + kSpecialWords) return "the words <unk>, <s> and </s> are missing";
    if (std::ssize(word) != M || std::ssize(suffix) != M || std::ssize(log_prob) != M ||
        std::ssize(backoff) != H || std::ssize(first) != H + 1)
        return "the arrays do not fit the levels";
    if (first[0] != 1 || first[H] != M) return "the children do not cover the n-grams";
    for (int64_t n = 0; n < order; n++)
        if (first[level[n]] != level[n + 1]) return "children are not one word longer";
    for (int64_t i = 0; i < H; i++)
        if (first[i + 1] < first[i]) return at_node(i, "has its children out of order");
    for (int64_t w = 0; w < n_words(); w++)
        if (word[1 + w] != w || suffix[1 + w] != 0) return at_node(1 + w, "is not its word");
    for (int64_t i = 1; i < H; i++)
        for (int64_t c = first[i]; c < first[i + 1]; c++) {
            if (word[c] < 0 || word[c] >= n_words()) return at_node(c, "has an unknown word");
            if (c > first[i] && word[c] <= word[c - 1]) return at_node(c, "is out of order");
            // Checked already for shorter n-grams, so the suffix of i has children.
            const int32_t s = suffix[i];
            if (suffix[c] < first[s] || suffix[c] >= first[s + 1] || word[suffix[c]] != word[c])
                return at_node(c, "has a wrong suffix");
        }
    for (int64_t i = 1; i < M; i++)
        if (!is_log(log_prob[i], 0)) return at_node(i, "has no log-probability");
    for (int64_t i = 0; i < H; i++)
        if (!is_log(backoff[i], 700)) return at_node(i, "has no back-off weight");
    return "";
}

double score_sentence(const NGramTable& table, std::span<const int32_t> words, bool starts,
                      bool ends, const TokenScores& out) {
    int32_t history = starts ? table.history_after(1 + kStart) : 0;
    double sum = 0;
    const auto score = [&](int32_t w, int64_t t) {
        double log_p = 0;
        int32_t node = 0;
        if (w < 0) {
            log_p = kMinusInf;
            history = 0;
        } else {
            node = table.arrive(history, w, log_p);
            history = table.history_after(node);
        }
        sum += log_p;
        if (out.log_probs) out.log_probs[t] = log_p;
        if (out.lengths) out.lengths[t] = node ? static_cast<int8_t>(table.length(node)) : 0;
    };
    const int64_t T = std::ssize(words);
    for (int64_t t = 0; t < T; t++) score(words[t], t);
    if (ends) score(kEnd, T);
    return sum;
}

int32_t history_of(const NGramTable& table, std::span<const int32_t> words, bool starts) {
    int32_t history = starts ? table.history_after(1 + kStart) : 0;
    for (const int32_t w : words) {
        double log_p = 0;
        history = w < 0 ? 0 : table.history_after(table.arrive(history, w, log_p));
    }
    return history;
}

void score_words(const NGramTable& table, int32_t history, double* log_p) {
    // From the shortest history to the longest: add its back-off weight to all words, then
    // overwrite those that are explicit.
    int32_t histories[kMaxOrder + 1];
    int64_t n = 0;
    for (int32_t h = history; h != 0; h = table.suffix[h]) histories[n++] = h;
    const int64_t V = table.n_words();
    for (int64_t w = 0; w < V; w++) log_p[w] = table.log_prob[1 + w];
    while (n-- > 0) {
        const int32_t h = histories[n];
        if (const double bow = table.backoff[h]; bow != 0)
            for (int64_t w = 0; w < V; w++) log_p[w] += bow;
        for (int32_t c = table.first[h]; c < table.first[h + 1]; c++)
            log_p[table.word[c]] = table.log_prob[c];
    }
}

}  // namespace tagloom
