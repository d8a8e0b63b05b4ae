#include "core/wide.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tagloom {
namespace {

// Calls body(feature, token, value) for all features of value other than 0.
template <class Body>
void each_feature(const TokenFeatures& features, Body&& body) {
    for (int64_t t = 0; t < features.T; ++t)
        for (int64_t i = features.indptr[t]; i < features.indptr[t + 1]; ++i) {
            const float value = features.values ? features.values[i] : 1.0f;
            if (value != 0) body(int64_t(features.ids[i]), t, value);
        }
}

}  // namespace

void sum_rows(const TokenFeatures& features, const float* weight, int64_t Y, float* out) {
    std::fill_n(out, features.T * Y, 0.0f);
    each_feature(features, [&](int64_t f, int64_t t, float value) {
        const float* row = weight + f * Y;
        float* to = out + t * Y;
        for (int64_t y = 0; y < Y; ++y) to[y] += value * row[y];
    });
}

void step_rows(const TokenFeatures& features, const float* grad, int64_t Y, float eta,
               float* weight, float* squares) {
    struct Place {
        int32_t feature, token;
        float value;
    };
    std::vector<Place> places;
    places.reserve(features.indptr[features.T]);
    each_feature(features, [&](int64_t f, int64_t t, float value) {
        places.push_back({int32_t(f), int32_t(t), value});
    });
    std::stable_sort(places.begin(), places.end(),
                     [](const Place& a, const Place& b) { return a.feature < b.feature; });
    std::vector<float> g(Y);
    for (size_t i = 0; i < places.size();) {
        const int64_t f = places[i].feature;
        std::fill(g.begin(), g.end(), 0.0f);
        for (; i < places.size() && places[i].feature == f; ++i) {
            const float* row = grad + places[i].token * Y;
            const float value = places[i].value;
            for (int64_t y = 0; y < Y; ++y) g[y] += value * row[y];
        }
        float *w = weight + f * Y, *sums = squares + f * Y;
        for (int64_t y = 0; y < Y; ++y) {
            sums[y] += g[y] * g[y];
            w[y] -= eta * g[y] / (std::sqrt(sums[y]) + 1e-10f);
        }
    }
}

}  // namespace tagloom
