// Patterns of missing components; see KalmanSequences in kalman.hpp.

#include <algorithm>
#include <cmath>
#include <map>

#include "core/kalman.hpp"

namespace tagloom {

KalmanSequences::KalmanSequences(const double* y, int64_t m, const int64_t* offsets, int64_t N)
    : y(y), m(m), N(N), offsets(offsets, offsets + N + 1), is_uneven(N) {
    observed.assign(m, 1);
    observed.resize(2 * m, 0);
    counts = {m, 0};
    const int64_t steps = this->offsets.back();
    bool is_complete = true;
    for (int64_t i = 0; i < steps * m; ++i) is_complete &= !std::isnan(y[i]);
    if (is_complete) return;
    which.resize(steps);
    std::map<std::vector<uint8_t>, int32_t> patterns = {{std::vector<uint8_t>(m, 1), 0},
                                                        {std::vector<uint8_t>(m, 0), 1}};
    std::vector<uint8_t> pattern(m);
    for (int64_t i = 0; i < N; ++i) {
        int64_t changes = 0;
        for (int64_t t = offsets[i]; t < offsets[i + 1]; ++t) {
            bool is_last = t > offsets[i];  // as at the step before
            for (int64_t j = 0; j < m; ++j) {
                const uint8_t here = !std::isnan(y[t * m + j]);
                is_last &= here == pattern[j];
                pattern[j] = here;
            }
            if (is_last) {
                which[t] = which[t - 1];
                continue;
            }
            ++changes;
            const auto [found, is_new] = patterns.try_emplace(pattern, int32_t(counts.size()));
            if (is_new) {
                observed.insert(observed.end(), pattern.begin(), pattern.end());
                counts.push_back(std::count(pattern.begin(), pattern.end(), 1));
            }
            which[t] = found->second;
        }
        is_uneven[i] = changes * 64 > offsets[i + 1] - offsets[i];
    }
}

}  // namespace tagloom
