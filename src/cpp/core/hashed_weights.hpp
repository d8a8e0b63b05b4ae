// Weights of hashed features, as the parser and the role labeller learn them.
//
// A feature is a 64-bit random number; with a label added, its highest bits are the place of its
// weight. The weights to predict with are the means over all steps.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "core/hash.hpp"
#include "core/random.hpp"

namespace tagloom {

// A random number for a list of values, the first of which names the template.
inline uint64_t feature_key(std::initializer_list<uint64_t> values) {
    uint64_t z = 0;
    for (uint64_t value : values) z = mix_bits(z * 3 + value + kGolden);
    return z;
}

inline uint64_t label_key(int64_t label) { return mix_bits(uint64_t(label + 1) * kGolden); }

// Weights with their running mean: mean = theta - total / steps.
struct AveragedWeights {
    std::vector<float> theta, square;  // square: of AdaGrad, or empty
    std::vector<double> total;

    void resize(size_t n, bool has_squares) {
        theta.assign(n, 0.0f);
        total.assign(n, 0.0);
        square.assign(has_squares ? n : 0, 1.0f);
    }
    void add(uint64_t i, double step, double now) {
        theta[i] += float(step);
        total[i] += step * now;
    }
    // A step of AdaGrad.
    void ascend(uint64_t i, double gradient, double eta, double now) {
        square[i] += float(gradient * gradient);
        add(i, eta * gradient / std::sqrt(square[i]), now);
    }
    std::vector<float> mean(double steps) const;
};

// The labels that a part may have, by its context; all labels for other contexts.
struct LabelChoices {
    int64_t L;                       // labels
    std::vector<uint64_t> contexts;  // [K] in ascending order
    std::vector<int64_t> indptr;     // [K + 1]
    std::vector<int32_t> labels;     // of each context

    // Calls each(label) for every label that a context may have.
    template <class Each>
    void for_each(uint64_t context, const Each& each) const {
        const auto place = std::lower_bound(contexts.begin(), contexts.end(), context);
        if (place == contexts.end() || *place != context) {
            for (int64_t l = 0; l < L; ++l) each(l);
            return;
        }
        const auto k = place - contexts.begin();
        for (int64_t j = indptr[k]; j < indptr[k + 1]; ++j) each(labels[j]);
    }
};

}  // namespace tagloom
