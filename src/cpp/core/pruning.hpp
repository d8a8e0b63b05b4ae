// Which labels are candidates at a position: those whose probability by the scores of the position
// alone is at least `least` times that of the best label,
//
//   exp(emit[t, y] - max_y emit[t, y]) >= least,
//
// and of these the `most` best; of equal ones, the lower labels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace tagloom {

struct Pruning {
    double least = 0;  // from 0, which keeps every label, to 1
    int64_t most = 0;  // 0: any number
};

// The candidates of consecutive positions; see CandidateBatch.
template <class In>
class CandidateLists {
  public:
    std::vector<int64_t> rows{0};  // [T + 1]
    std::vector<int32_t> label;    // [C]
    std::vector<In> score;         // [C]

    explicit CandidateLists(const Pruning& pruning)
        : log_least_(std::log(pruning.least)), most_(pruning.most) {}

    void clear() {
        rows.resize(1);
        label.clear();
        score.clear();
    }
    // Appends a position with the scores emit [Y]. The label `kept` is a candidate in any case,
    // beside the `most` best; -1: none. -inf forbids a label.
    void add(const In* emit, int64_t Y, int32_t kept = -1) {
        add(emit, Y, [](int64_t y) { return static_cast<int32_t>(y); }, kept);
    }
    // The same with the scores of n labels label_of(0) < label_of(1) < ...
    template <class LabelOf>
    void add(const In* emit, int64_t n, const LabelOf& label_of, int32_t kept = -1) {
        const In least = static_cast<In>(double(largest(emit, n)) + log_least_);
        for (int64_t j = 0; j < n; ++j) {
            if (!(emit[j] >= least) && label_of(j) != kept) continue;
            if (emit[j] == -std::numeric_limits<In>::infinity()) continue;
            label.push_back(label_of(j));
            score.push_back(emit[j]);
        }
        if (most_ > 0 && std::ssize(label) - rows.back() > most_) limit(kept);
        rows.push_back(static_cast<int64_t>(label.size()));
    }

  private:
    // Leaves the `most` best of the last position.
    void limit(int32_t kept) {
        const int64_t first = rows.back(), n = std::ssize(label);
        sorted_.assign(score.begin() + first, score.end());
        std::nth_element(sorted_.begin(), sorted_.begin() + (most_ - 1), sorted_.end(),
                         std::greater<In>());
        const In lowest = sorted_[most_ - 1];
        int64_t equal = most_ - std::count_if(sorted_.begin(), sorted_.begin() + most_,
                                              [&](In x) { return x > lowest; });
        int64_t end = first;
        for (int64_t j = first; j < n; ++j) {
            const bool is_best = score[j] > lowest || (score[j] == lowest && equal-- > 0);
            if (!is_best && label[j] != kept) continue;
            label[end] = label[j];
            score[end++] = score[j];
        }
        label.resize(end);
        score.resize(end);
    }

    static In largest(const In* emit, int64_t n) {
        constexpr int64_t kLanes = 16;  // independent maxima, which the compiler puts into vectors
        In best[kLanes];
        for (In& one : best) one = -std::numeric_limits<In>::infinity();
        int64_t j = 0;
        for (; j + kLanes <= n; j += kLanes)
            for (int64_t k = 0; k < kLanes; ++k)
                best[k] = emit[j + k] > best[k] ? emit[j + k] : best[k];
        for (; j < n; ++j) best[0] = emit[j] > best[0] ? emit[j] : best[0];
        for (int64_t k = 1; k < kLanes; ++k) best[0] = best[k] > best[0] ? best[k] : best[0];
        return best[0];
    }

    double log_least_;  // -inf keeps everything
    int64_t most_;
    std::vector<In> sorted_;  // [at least `most`] partly, the best first
};

}  // namespace tagloom
