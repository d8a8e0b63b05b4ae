// One sentence in training through a model with many labels: candidates at each position, and sums
// over their paths, which are exact. Order 2 is in candidate_pairs.hpp. The idea of a cascade of
// orders is that of Mueller, Schmid and Schuetze, Efficient Higher-Order CRFs for Morphological
// Tagging, EMNLP 2013. Here one model prunes for itself: by its scores of a position, which its
// first epochs learn without transitions.
//
// Sums run in log space. With the candidates i of position t-1 and j of position t,
//
//   into[i]     = alpha[i] + trans[y_i, y_j]
//   alpha[j]    = score[j] + log sum_i exp(into[i])
//   given[i, j] = Pr(i at t-1 | j at t) = exp(into[i]) / sum_i exp(into[i])
//   xi[i, j]    = gamma[j] * given[i, j],  gamma[i] = sum_j xi[i, j]
#pragma once

#include <cstdint>
#include <vector>

#include "core/candidate_pairs.hpp"
#include "core/pruning.hpp"
#include "core/subtags.hpp"

namespace tagloom {

// Sums by place, and the places that have one.
class SparseCounts {
  public:
    explicit SparseCounts(int64_t size) : sums_(size), stamps_(size) {}

    void clear() {
        ++now_;
        places_.clear();
    }
    void add(int64_t place, double amount) {
        if (stamps_[place] != now_) {
            stamps_[place] = now_;
            sums_[place] = 0;
            places_.push_back(static_cast<uint32_t>(place));
        }
        sums_[place] += amount;
    }
    const std::vector<uint32_t>& places() const { return places_; }
    double operator[](int64_t place) const { return sums_[place]; }

  private:
    std::vector<double> sums_;
    std::vector<uint64_t> stamps_;  // the clear() after which each sum began
    std::vector<uint32_t> places_;
    uint64_t now_ = 0;
};

template <class In>
class PrunedChain {
  public:
    // The tail is [trans Y*Y][start Y][stop Y][trigrams K][between S*S]; start and stop only with
    // boundaries.
    PrunedChain(int64_t Y, bool boundaries, const Trigrams& trigrams, const Subtags& subtags,
                const Pruning& pruning);

    // Lists the candidates of emit [T, Y]; kept(t) is one in any case.
    template <class Kept>
    void choose(const In* emit, int64_t T, const Kept& kept) {
        lists.clear();
        for (int64_t t = 0; t < T; ++t) lists.add(emit + t * Y, Y, kept(t));
    }
    // Lists those of `all` that permits(t, y).
    template <class Permits>
    PrunedChain& restrict(const PrunedChain& all, const Permits& permits);

    // log_z over the candidates; gamma [T, Y] and counts of the tail += weight * expected.
    // Of order 0 to 2; 0 has no transitions, so that every position is for itself.
    double sum(const double* tail, int64_t order, double weight, In* gamma, SparseCounts& counts);
    // The score of a path; counts of the tail += weight * its features.
    double follow(const double* tail, int64_t order, const In* emit, const int32_t* path,
                  double weight, SparseCounts& counts) const;

  private:
    int64_t length() const { return static_cast<int64_t>(lists.rows.size()) - 1; }
    double transition(const double* tail, int64_t y_prev, int64_t y) const;
    void count(int64_t y_prev, int64_t y, double amount, SparseCounts& counts) const;
    double sum_positions();
    double sum_paths(const double* tail);
    void go_back(double weight, SparseCounts& counts);
    double sum_pairs(const double* tail, double weight, SparseCounts& counts);
    void count_boundaries(double weight, SparseCounts& counts) const;

    const int64_t Y;
    const bool boundaries;
    const Trigrams& trigrams;
    const Subtags& subtags;
    const int64_t trigrams_at, between_at;  // in the tail
    CandidateLists<In> lists;
    std::vector<double> alpha, gammas;  // [C]
    std::vector<double> given;          // for each candidate, one for each of the position before
    std::vector<int64_t> given_at;      // [C]
    CandidatePairs pairs;
};

template <class In>
template <class Permits>
PrunedChain<In>& PrunedChain<In>::restrict(const PrunedChain& all, const Permits& permits) {
    lists.clear();
    for (int64_t t = 0; t < all.length(); ++t) {
        for (int64_t j = all.lists.rows[t]; j < all.lists.rows[t + 1]; ++j) {
            if (!permits(t, all.lists.label[j])) continue;
            lists.label.push_back(all.lists.label[j]);
            lists.score.push_back(all.lists.score[j]);
        }
        lists.rows.push_back(static_cast<int64_t>(lists.label.size()));
    }
    return *this;
}

}  // namespace tagloom
