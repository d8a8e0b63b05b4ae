#include "core/ngram_builder.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "core/hash.hpp"

namespace tagloom {

const double kBackedOff = std::numeric_limits<double>::quiet_NaN();

std::size_t NGramSet::slot_of(const int32_t* words) const {
    uint64_t hash = kSeed;
    for (int64_t k = 0; k < n_; k++) hash = scramble(hash ^ static_cast<uint64_t>(words[k]));
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = hash & mask;
    while (slots_[slot] >= 0 && !std::equal(words, words + n_, this->words(slots_[slot])))
        slot = (slot + 1) & mask;
    return slot;
}

bool NGramSet::add(const int32_t* words, double p, double bow) {
    if (2 * static_cast<std::size_t>(size() + 1) > slots_.size()) {
        slots_.assign(2 * slots_.size(), -1);
        for (int64_t i = 0; i < size(); i++)
            slots_[slot_of(this->words(i))] = static_cast<int32_t>(i);
    }
    const std::size_t slot = slot_of(words);
    if (slots_[slot] >= 0) return false;
    if (size() >= kMaxNodes) throw std::length_error("there are more than 2^31 n-grams");
    slots_[slot] = static_cast<int32_t>(size());
    ids_.insert(ids_.end(), words, words + n_);
    log_prob.push_back(p);
    backoff.push_back(bow);
    return true;
}

namespace {

std::vector<int64_t> sorted_order(const NGramSet& set) {
    std::vector<int64_t> order(set.size());
    std::iota(order.begin(), order.end(), 0);
    const auto before = [&](int64_t a, int64_t b) {
        return std::lexicographical_compare(set.words(a), set.words(a) + set.n(), set.words(b),
                                            set.words(b) + set.n());
    };
    if (!std::is_sorted(order.begin(), order.end(), before))
        std::sort(order.begin(), order.end(), before);
    return order;
}

}  // namespace

NGramArrays build_ngrams(std::vector<NGramSet> sets, int64_t threads) {
    for (std::size_t n = sets.size(); n-- > 2;)
        for (int64_t i = 0; i < sets[n].size(); i++)
            for (int64_t from = 0; from < 2; from++)
                sets[n - 1].add(sets[n].words(i) + from, kBackedOff, 0);
    NGramArrays model;
    model.order = std::ssize(sets);
    model.level = {0, 1};
    model.word = {-1};
    model.log_prob = {0};
    model.backoff = {0};
    model.first = {1};
    std::vector<int64_t> shorter{0};  // the n-grams one word shorter, in order
    for (const NGramSet& set : sets) {
        const int64_t n = set.n(), histories = model.level[n - 1];
        std::vector<int64_t> order = sorted_order(set);
        if (model.level.back() + set.size() > kMaxNodes)
            throw std::length_error("there are more than 2^31 n-grams");
        std::size_t parent = 0;  // in `shorter`; both are in order, so it only transitions on
        for (const int64_t i : order) {
            while (n > 1 && !std::equal(set.words(i), set.words(i) + n - 1,
                                        sets[n - 2].words(shorter[parent])))
                model.first[histories + ++parent] = static_cast<int32_t>(model.word.size());
            model.word.push_back(set.words(i)[n - 1]);
            model.log_prob.push_back(set.log_prob[i]);
            if (n < model.order) model.backoff.push_back(set.backoff[i]);
        }
        const auto end = static_cast<int32_t>(model.word.size());
        while (++parent < shorter.size()) model.first[histories + parent] = end;
        model.level.push_back(end);
        if (n < model.order) model.first.resize(end, end);
        shorter.swap(order);
    }
    model.first.push_back(static_cast<int32_t>(model.word.size()));
    model.suffix = link_suffixes(model.level, model.word, model.first, threads);
    for (int64_t h = 1; h < model.level[model.order]; h++)
        for (int32_t c = model.first[h]; c < model.first[h + 1]; c++)
            if (std::isnan(model.log_prob[c]))
                model.log_prob[c] =
                    std::min(model.backoff[h] + model.log_prob[model.suffix[c]], 0.0);
    return model;
}

}  // namespace tagloom
