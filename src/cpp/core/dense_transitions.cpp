#include "core/dense_transitions.hpp"

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

void Probabilities::add_up(int64_t G, int64_t Y) {
    sums.assign(levels_ * Y, 0.0);
    std::vector<double> sum(Y);
    for (int64_t block = 0; block < levels_ * G; ++block) {
        std::fill(sum.begin(), sum.end(), 0.0);
        for (int64_t a = 0; a < Y; ++a)
            for (int64_t c = 0; c < Y; ++c) sum[c] += matrices[(block * Y + a) * Y + c];
        double* most = &sums[block / G * Y];
        for (int64_t c = 0; c < Y; ++c) most[c] = std::max(most[c], sum[c]);
    }
}

}  // namespace tagloom
