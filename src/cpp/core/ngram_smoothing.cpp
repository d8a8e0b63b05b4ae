#include "core/ngram_smoothing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/threads.hpp"

namespace tagloom {
namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();
constexpr int64_t kPiece = 1 << 12;  // nodes that one thread takes at once

template <class Work>
void for_nodes(int64_t lo, int64_t hi, int64_t threads, const Work& work) {
    parallel_for((hi - lo + kPiece - 1) / kPiece, threads, [&](int64_t p, int64_t) {
        const int64_t end = std::min(hi, lo + (p + 1) * kPiece);
        for (int64_t i = lo + p * kPiece; i < end; i++) work(i);
    });
}

// The n-grams of each length that begin a sentence: a range of nodes [order + 1].
std::vector<std::pair<int64_t, int64_t>> sentence_starts(const NGramCounts& counts) {
    std::vector<std::pair<int64_t, int64_t>> ranges(counts.order + 1);
    ranges[1] = {1 + kStart, 2 + kStart};
    for (int64_t n = 1; n < counts.order; n++)
        ranges[n + 1] = {counts.first[ranges[n].first], counts.first[ranges[n].second]};
    return ranges;
}

// Adjusted counts: the number of distinct words before each n-gram, except where occurrences count.
std::vector<int64_t> adjust_counts(const NGramCounts& counts, std::span<const int32_t> suffix) {
    std::vector<int64_t> adjusted(counts.count);
    const auto starts = sentence_starts(counts);
    for (int64_t n = 1; n < counts.order; n++) {
        const auto [lo, hi] = starts[n];
        const int64_t begin = counts.level[n], end = counts.level[n + 1];
        std::fill(adjusted.begin() + begin, adjusted.begin() + lo, 0);
        std::fill(adjusted.begin() + hi, adjusted.begin() + end, 0);
        // An n-gram that begins a sentence has nothing before it, so no suffix leads there.
        for (int64_t c = end; c < counts.level[n + 2]; c++) adjusted[suffix[c]]++;
    }
    return adjusted;
}

NGramDiscounts estimate_discounts(const NGramCounts& counts, std::span<const int64_t> adjusted,
                                  int64_t n, Smoothing kind) {
    double N[5] = {};  // N[r]: n-grams with count r
    for (int64_t i = counts.level[n]; i < counts.level[n + 1]; i++)
        if (adjusted[i] < 5 && i != 1 + kStart) N[adjusted[i]]++;
    NGramDiscounts result;
    // In float, rounded step by step as in lmplz: where a discount is nearly the whole count, such
    // as 1.86 of 2, its last digit shows in the sixth digit of log p.
    const auto f = [](double x) { return static_cast<float>(x); };
    const float Y = f(N[1]) / f(N[1] + 2 * N[2]);
    if (kind == Smoothing::modified_kneser_ney) {
        for (int r = 1; r <= 3; r++) {
            result.amount[r] = f(r) - f(r + 1) * Y * f(N[r + 1]) / f(N[r]);
            if (!(result.amount[r] >= 0 && result.amount[r] <= r)) result.is_fallback = true;
        }
        if (result.is_fallback) result.amount = {0, 0.5, 1, 1.5};
    } else {
        result.is_fallback = N[1] == 0 || N[2] == 0;
        const double D = result.is_fallback ? 0.5 : Y;
        result.amount = {0, D, D, D};
    }
    return result;
}

class Smoother {
  public:
    Smoother(const NGramCounts& counts, const SmoothingOptions& options, int64_t threads,
             std::vector<NGramDiscounts>& discounts)
        : counts_(counts), options_(options), threads_(threads), discounts_(discounts) {}

    NGramArrays run() {
        NGramArrays model{counts_.order,
                          counts_.level,
                          counts_.word,
                          counts_.first,
                          link_suffixes(counts_.level, counts_.word, counts_.first, threads_),
                          {},
                          {}};
        const bool by_neighbours = options_.kind == Smoothing::modified_kneser_ney ||
                                   options_.kind == Smoothing::kneser_ney;
        adjusted_ = by_neighbours ? adjust_counts(counts_, model.suffix) : counts_.count;
        adjusted_[1 + kStart] = 0;  // never predicted
        starts_ = sentence_starts(counts_);
        discounts_.assign(counts_.order, {});
        if (by_neighbours || options_.kind == Smoothing::absolute)
            for (int64_t n = 1; n <= counts_.order; n++)
                discounts_[n - 1] = estimate_discounts(counts_, adjusted_, n, options_.kind);
        vocabulary_ = static_cast<double>(counts_.n_words() - 1 - options_.is_closed);
        prob_.assign(counts_.nodes(), 0);
        gamma_.assign(counts_.histories(), 1);
        prob_[0] = 1 / vocabulary_;  // the uniform distribution; root's suffix is root
        for (int64_t n = 1; n <= counts_.order; n++)
            for_nodes(counts_.level[n - 1], counts_.level[n], threads_,
                      [&](int64_t h) { smooth_history(n, h, model.suffix); });
        model.log_prob.resize(prob_.size());
        model.backoff.resize(gamma_.size());
        for_nodes(1, std::ssize(prob_), threads_,
                  [&](int64_t i) { model.log_prob[i] = std::min(std::log(prob_[i]), 0.0); });
        for_nodes(1, std::ssize(gamma_), threads_,
                  [&](int64_t h) { model.backoff[h] = std::log(gamma_[h]); });
        model.log_prob[1 + kStart] = kMinusInf;
        if (options_.is_closed) model.log_prob[1 + kUnknown] = kMinusInf;
        return cut_off(std::move(model));
    }

  private:
    bool is_kept(int64_t n, int64_t node) const {
        return n == 1 || counts_.count[node] >= options_.min_counts[n - 1];
    }

    // The n-grams of length n that extend one history.
    void smooth_history(int64_t n, int64_t h, std::span<const int32_t> suffix) {
        const int64_t lo = counts_.first[h], hi = counts_.first[h + 1];
        if (lo == hi) return;
        int64_t kept[4] = {}, total = 0, dropped = 0, types = 0;
        for (int64_t c = lo; c < hi; c++) {
            const int64_t a = adjusted_[c];
            total += a;
            types += a > 0;
            if (is_kept(n, c))
                kept[std::min<int64_t>(a, 3)]++;
            else
                dropped += a;
        }
        double norm = static_cast<double>(total), rest = static_cast<double>(dropped);
        const auto& D = discounts_[n - 1].amount;
        bool is_uniform = false;  // whether to ignore counts
        switch (options_.kind) {
            case Smoothing::witten_bell:
                // Reserve no mass for new words if there are none: unigrams of a closed vocabulary.
                if (n == 1 && static_cast<double>(types) == vocabulary_) types = 0;
                norm += static_cast<double>(types);
                rest += static_cast<double>(types);
                break;
            case Smoothing::add_k:
                // Only full histories use counts: those of full length or from a sentence start.
                is_uniform =
                    n < counts_.order && !(h >= starts_[n - 1].first && h < starts_[n - 1].second);
                norm += options_.k * vocabulary_;
                rest += options_.k * vocabulary_;
                break;
            default:
                for (int r = 1; r <= 3; r++) rest += D[r] * static_cast<double>(kept[r]);
        }
        const double gamma = is_uniform || norm == 0 ? 1 : rest / norm;
        if (h != 0) gamma_[h] = gamma;
        const double scale = is_uniform || norm == 0 ? 0 : 1 / norm;
        for (int64_t c = lo; c < hi; c++) {
            const int64_t a = adjusted_[c];
            const double lower = n == 1 ? prob_[0] : prob_[suffix[c]];
            prob_[c] =
                (static_cast<double>(a) - D[std::min<int64_t>(a, 3)]) * scale + gamma * lower;
        }
    }

    NGramArrays cut_off(NGramArrays model) const {
        std::vector<bool> kept(counts_.nodes(), true);
        bool all = true;
        for (int64_t n = 2; n <= counts_.order; n++)
            for (int64_t i = counts_.level[n]; i < counts_.level[n + 1]; i++)
                if (!is_kept(n, i)) kept[i] = all = false;
        return all ? std::move(model) : model.keep(kept);
    }

    const NGramCounts& counts_;
    const SmoothingOptions& options_;
    const int64_t threads_;
    std::vector<NGramDiscounts>& discounts_;           // [order]
    std::vector<int64_t> adjusted_;                    // [M]
    std::vector<std::pair<int64_t, int64_t>> starts_;  // [order + 1]
    std::vector<double> prob_;                         // [M]
    std::vector<double> gamma_;                        // [H]
    double vocabulary_ = 0;                            // words that can be predicted
};

}  // namespace

NGramArrays smooth(const NGramCounts& counts, const SmoothingOptions& options, int64_t threads,
                   std::vector<NGramDiscounts>& discounts) {
    return Smoother(counts, options, threads, discounts).run();
}

NGramArrays NGramArrays::keep(const std::vector<bool>& is_kept) const {
    NGramArrays result;
    result.order = order;
    std::vector<int32_t> number(is_kept.size());  // [M] new numbers
    int32_t n_kept = 0;
    for (int64_t n = 0; n <= order; n++) {
        result.level.push_back(n_kept);
        for (int64_t i = level[n]; i < level[n + 1]; i++)
            if (is_kept[i]) number[i] = n_kept++;
    }
    result.level.push_back(n_kept);
    const int64_t H = level[order];
    for (std::size_t i = 0; i < is_kept.size(); i++) {
        if (!is_kept[i]) continue;
        result.word.push_back(word[i]);
        result.suffix.push_back(number[suffix[i]]);
        result.log_prob.push_back(log_prob[i]);
        if (static_cast<int64_t>(i) >= H) continue;
        result.backoff.push_back(backoff[i]);
        // The children of earlier nodes come first.
        int32_t before = first[i];
        while (before < level[order + 1] && before < first[i + 1] && !is_kept[before]) before++;
        result.first.push_back(before < first[i + 1] ? number[before] : -1);
    }
    result.first.push_back(n_kept);
    for (std::size_t i = result.first.size() - 1; i-- > 0;)
        if (result.first[i] < 0) result.first[i] = result.first[i + 1];
    return result;
}

}  // namespace tagloom
