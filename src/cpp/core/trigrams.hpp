// Trigrams of labels that have weights, few of all: those that occur in training.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace tagloom {

class Trigrams {
  public:
    Trigrams() = default;
    // Trigram k is labels[3 k] .. labels[3 k + 2], of Y labels; they rise in the order of their
    // labels.
    Trigrams(int64_t Y, std::span<const int32_t> labels) : first(Y + 1) {
        int32_t oldest = -1;
        for (std::size_t k = 0; k + 2 < labels.size(); k += 3) {
            if (labels[k] != oldest || labels[k + 1] != second.back()) {
                second.push_back(labels[k + 1]);
                begin.push_back(size());
                for (; oldest < labels[k]; ++oldest) first[oldest + 1] = std::ssize(second) - 1;
            }
            third.push_back(labels[k + 2]);
        }
        for (; oldest < Y; ++oldest) first[oldest + 1] = std::ssize(second);
        begin.push_back(size());
    }

    int64_t n_labels() const { return std::ssize(first) - 1; }
    int64_t size() const { return std::ssize(third); }
    // The number of the trigram a, b, c; -1 if it has no weight.
    int64_t find(int32_t a, int32_t b, int32_t c) const {
        int64_t found = -1;
        each(a, b, &c, 1, [&](int64_t, int64_t k) { found = k; });
        return found;
    }
    // Calls use(j, k) for each trigram k of a, b and label[j], one of n ascending labels.
    template <class Use>
    void each(int32_t a, int32_t b, const int32_t* label, int64_t n, const Use& use) const {
        const auto row = second.begin();
        const auto at = std::lower_bound(row + first[a], row + first[a + 1], b);
        if (at == row + first[a + 1] || *at != b) return;
        const int32_t* of_pair = third.data();
        int64_t k = begin[at - row], j = 0;
        const int64_t end = begin[at - row + 1];
        while (j < n && k < end) {
            if (of_pair[k] == label[j]) {
                use(j++, k++);
            } else if (of_pair[k] < label[j]) {
                k = std::lower_bound(of_pair + k, of_pair + end, label[j]) - of_pair;
            } else {
                j = std::lower_bound(label + j, label + n, of_pair[k]) - label;
            }
        }
    }

  private:
    std::vector<int64_t> first{0};  // [Y + 1] pairs that begin with a: first[a] .. first[a + 1]
    std::vector<int32_t> second;    // [P]
    std::vector<int64_t> begin;     // [P + 1] trigrams that begin with a pair
    std::vector<int32_t> third;     // [K]
};

struct TrigramScores {
    Trigrams trigrams;
    std::vector<double> weights;  // [K]
};

}  // namespace tagloom
