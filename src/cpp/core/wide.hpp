// The wide part of a network: weights of features [F, Y], summed for each token, and learned by
// AdaGrad. A step touches only the rows of features that occur in its batch.
#pragma once

#include <cstdint>

namespace tagloom {

// The features of T tokens: token t has ids[indptr[t]] .. ids[indptr[t + 1]].
struct TokenFeatures {
    int64_t T;
    const int64_t* indptr;  // [T + 1]
    const int32_t* ids;
    const float* values;  // null if all are 1; a feature of value 0 is left out
};

// out[t, y] = sum of value * weight[f, y] over the features of t.
void sum_rows(const TokenFeatures& features, const float* weight, int64_t Y, float* out);

// One step along the gradient of the sums [T, Y], of g for the weights of a feature:
//   squares += g²,  weight -= eta g / sqrt(squares)
void step_rows(const TokenFeatures& features, const float* grad, int64_t Y, float eta,
               float* weight, float* squares);

}  // namespace tagloom
