#include "core/dense_moves.hpp"

namespace tagloom {

double Probabilities::exponentials(const double* score, int64_t n, double* prob) {
    double low = std::numeric_limits<double>::infinity(), high = kMinusInf;
    for (int64_t i = 0; i < n; ++i) {
        if (score[i] == kMinusInf) {
            complete = false;
        } else {
            low = std::min(low, score[i]);
            high = std::max(high, score[i]);
        }
    }
    if (high == kMinusInf) high = 0;
    for (int64_t i = 0; i < n; ++i) prob[i] = std::exp(score[i] - high);
    if (low < high) range = std::max(range, high - low);
    return high;
}

}  // namespace tagloom
