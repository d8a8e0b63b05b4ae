#include "core/ngram_changes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/ngram_builder.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

template <class Work>
void for_nodes(int64_t lo, int64_t hi, int64_t threads, const Work& work) {
    constexpr int64_t kPiece = 1 << 10;
    parallel_for((hi - lo + kPiece - 1) / kPiece, threads, [&](int64_t p, int64_t) {
        const int64_t end = std::min(hi, lo + (p + 1) * kPiece);
        for (int64_t i = lo + p * kPiece; i < end; i++) work(i);
    });
}

// The total probability of the words that are not explicit after h: given h, and given its suffix.
struct Left {
    double here, below;
};

Left left_of(const NGramTable& table, int64_t h) {
    const int32_t lo = table.first[h], hi = table.first[h + 1];
    Left left{1, 1};
    for (int32_t c = lo; c < hi; c++) {
        left.here -= std::exp(table.log_prob[c]);
        left.below -= std::exp(table.log_prob[table.suffix[c]]);
    }
    if (left.below >= 1e-3) return left;
    // The explicit words have nearly all the mass, so the difference suffers from cancellation. Sum
    // the other words instead.
    std::vector<double> log_p(table.n_words());
    score_words(table, table.suffix[h], log_p.data());
    for (int32_t c = lo; c < hi; c++) log_p[table.word[c]] = kMinusInf;
    left.below = 0;
    for (const double x : log_p) left.below += std::exp(x);
    return left;
}

// Back-off weights from the probabilities of the explicit n-grams.
void normalise_backoffs(NGramArrays& model, int64_t threads) {
    const NGramTable table = model.table();
    // Shorter histories first: longer ones back off to them.
    for (int64_t n = 1; n < model.order; n++)
        for_nodes(model.level[n], model.level[n + 1], threads, [&](int64_t h) {
            if (model.first[h] == model.first[h + 1]) {
                model.backoff[h] = 0;
                return;
            }
            const Left left = left_of(table, h);
            const bool is_open = left.here > 0 && left.below > 0;
            model.backoff[h] = is_open ? std::log(left.here) - std::log(left.below) : kMinusInf;
        });
}

// log P(h) of every history, as a product of its words' probabilities [H].
std::vector<double> history_probs(const NGramTable& table) {
    std::vector<double> log_p(table.histories(), 0.0);
    for (int64_t h = 0; h < table.level[table.order - 1]; h++)
        for (int32_t c = table.first[h]; c < table.first[h + 1]; c++)
            // Sentences start as often as they end.
            log_p[c] = log_p[h] + table.log_prob[c == 1 + kStart ? 1 + kEnd : c];
    return log_p;
}

}  // namespace

NGramArrays prune_ngrams(const NGramTable& table, double threshold, int64_t threads) {
    const int64_t M = std::ssize(table.word);
    const std::vector<double> log_history = history_probs(table);
    std::vector<char> is_kept(M, true), is_needed(M, false);
    for (int64_t n = table.order; n >= 2; n--) {
        for_nodes(table.level[n - 1], table.level[n], threads, [&](int64_t h) {
            const int32_t lo = table.first[h], hi = table.first[h + 1];
            if (lo == hi) return;
            const Left left = left_of(table, h);
            const double P = std::exp(log_history[h]);
            for (int32_t c = lo; c < hi; c++) {
                if (is_needed[c]) continue;
                // The back-off weight without this n-gram, and the relative entropy between the
                // distributions with and without it.
                const double p = std::exp(table.log_prob[c]);
                const double log_below = table.log_prob[table.suffix[c]];
                const double log_bow =
                    std::log(left.here + p) - std::log(left.below + std::exp(log_below));
                const double loss =
                    P * (p * (table.log_prob[c] - log_below - log_bow) +
                         left.here * (left.here > 0 ? table.backoff[h] - log_bow : 0));
                if (std::expm1(loss) < threshold) is_kept[c] = false;
            }
        });
        for (int64_t h = table.level[n - 1]; h < table.level[n]; h++)
            for (int32_t c = table.first[h]; c < table.first[h + 1]; c++)
                if (is_kept[c]) is_needed[h] = is_needed[table.suffix[c]] = true;
    }
    NGramArrays model{table.order,
                      {table.level.begin(), table.level.end()},
                      {table.word.begin(), table.word.end()},
                      {table.first.begin(), table.first.end()},
                      {table.suffix.begin(), table.suffix.end()},
                      {table.log_prob.begin(), table.log_prob.end()},
                      {table.backoff.begin(), table.backoff.end()}};
    model = model.keep({is_kept.begin(), is_kept.end()});
    normalise_backoffs(model, threads);
    return model;
}

NGramArrays mix_ngrams(std::span<const MixturePart> parts, int64_t n_words, int64_t threads) {
    const int64_t order = parts[0].table.order;
    std::vector<NGramSet> sets;
    for (int64_t n = 1; n <= order; n++) sets.emplace_back(n);
    for (int32_t w = 0; w < n_words; w++) sets[0].add(&w, 0, 0);
    std::vector<std::vector<int32_t>> from_merged;  // [parts, n_words] -1: not there
    for (const MixturePart& part : parts) {
        const NGramTable& table = part.table;
        from_merged.emplace_back(n_words, -1);
        for (std::size_t w = 0; w < part.to_merged.size(); w++)
            from_merged.back()[part.to_merged[w]] = static_cast<int32_t>(w);
        std::vector<int32_t> words(std::ssize(table.word) * order);  // [M, order] of each n-gram
        for (int64_t n = 1; n <= order; n++)
            for (int64_t h = table.level[n - 1]; h < table.level[n]; h++)
                for (int32_t c = table.first[h]; c < table.first[h + 1]; c++) {
                    int32_t* to = &words[c * order];
                    std::copy_n(&words[h * order], n - 1, to);
                    to[n - 1] = part.to_merged[table.word[c]];
                    sets[n - 1].add(to, 0, 0);
                }
    }
    NGramArrays model = build_ngrams(std::move(sets), threads);
    // Each part follows the histories of the mixture as far as it can.
    std::vector<double> prob(model.word.size(), 0.0);
    for (std::size_t k = 0; k < parts.size(); k++) {
        const NGramTable& table = parts[k].table;
        std::vector<int32_t> at(model.word.size(), 0);  // [M] the part's history
        for (int64_t h = 0; h < model.level[order]; h++)
            for (int32_t c = model.first[h]; c < model.first[h + 1]; c++) {
                const int32_t w = from_merged[k][model.word[c]];
                double log_p = 0;
                const int32_t node = table.arrive(at[h], w < 0 ? kUnknown : w, log_p);
                at[c] = table.history_after(node);
                if (w >= 0) prob[c] += parts[k].weight * std::exp(log_p);
            }
    }
    for (std::size_t i = 1; i < prob.size(); i++)
        model.log_prob[i] = std::min(std::log(prob[i]), 0.0);
    normalise_backoffs(model, threads);
    return model;
}

}  // namespace tagloom
