// Which labels are candidates at a position: those whose probability by the scores of the position
// alone is at least `least` times that of the best label,
//
//   exp(emit[t, y] - max_y emit[t, y]) >= least.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace tagloom {

struct Pruning {
    double least = 0;     // from 0, which keeps every label, to 1
    int64_t warm_up = 1;  // training: epochs of order 0, in which transitions are not used
};

// The candidates of consecutive positions; see CandidateBatch.
template <class In>
class CandidateLists {
  public:
    std::vector<int64_t> rows{0};  // [T + 1]
    std::vector<int32_t> label;    // [C]
    std::vector<In> score;         // [C]

    explicit CandidateLists(double least) : log_least_(std::log(least)) {}

    void clear() {
        rows.resize(1);
        label.clear();
        score.clear();
    }
    // Appends a position with the scores emit [Y]. The label `kept` is a candidate in any case; -1:
    // none. -inf forbids a label.
    void add(const In* emit, int64_t Y, int32_t kept = -1) {
        const In least = static_cast<In>(double(largest(emit, Y)) + log_least_);
        for (int64_t y = 0; y < Y; ++y) {
            if (!(emit[y] >= least) && y != kept) continue;
            if (emit[y] == -std::numeric_limits<In>::infinity()) continue;
            label.push_back(static_cast<int32_t>(y));
            score.push_back(emit[y]);
        }
        rows.push_back(static_cast<int64_t>(label.size()));
    }

  private:
    static In largest(const In* emit, int64_t Y) {
        constexpr int64_t kLanes = 16;  // independent maxima, which the compiler puts into vectors
        In best[kLanes];
        for (In& one : best) one = -std::numeric_limits<In>::infinity();
        int64_t y = 0;
        for (; y + kLanes <= Y; y += kLanes)
            for (int64_t k = 0; k < kLanes; ++k)
                best[k] = emit[y + k] > best[k] ? emit[y + k] : best[k];
        for (; y < Y; ++y) best[0] = emit[y] > best[0] ? emit[y] : best[0];
        for (int64_t k = 1; k < kLanes; ++k) best[0] = best[k] > best[0] ? best[k] : best[0];
        return best[0];
    }

    double log_least_;  // -inf keeps everything
};

}  // namespace tagloom
