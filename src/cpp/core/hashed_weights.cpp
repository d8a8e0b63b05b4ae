#include "core/hashed_weights.hpp"

namespace tagloom {

std::vector<float> AveragedWeights::mean(double steps) const {
    std::vector<float> values(theta);
    if (steps > 0)
        for (size_t i = 0; i < values.size(); ++i)
            if (total[i] != 0) values[i] = float(theta[i] - total[i] / steps);
    return values;
}

}  // namespace tagloom
