// Kernels of a linear model at every token, compiled once per instruction set (row_kernels.cpp):
// sum the weights of the token's attributes, and later add the token's residual to the gradient of
// the same weights. Weight rows are stored one after another in one array. An attribute with a
// weight for every label has a *full* row, which vectors run over; the weights of the other
// attributes are *single*, in a flat list with the label of each weight.
//
// Everything here is plain data: this header is included by files built for different machines.
#pragma once

#include <cstdint>

namespace tagloom {

// Padding after the last entry: kernels read lists and rows beyond their end by up to this much.
constexpr int64_t kListSlack = 32, kRowSlack = 16;

struct Lists {
    const int64_t* full_ptr;    // [n + 1] full rows of token t are full[full_ptr[t]] ...
    const int64_t* single_ptr;  // [n + 1] and its single weights single[single_ptr[t]] ...
    const uint32_t* full;       // first weight of the row
    const uint32_t* single;     // the weight
    const uint16_t* column;     // and its label
    const float* full_value;    // value of the attribute; null: all are 1
    const float* single_value;
};

// out[t, c] = sum over the attributes of token first + t of value * weight, t < n.
template <class R>
struct RowSum {
    Lists lists;
    int64_t first, n, width;
    const R* weights;
    R* out;  // [n, width], and kRowSlack more that may be written
};

// grad[weight of attribute and c] += value * rows[t, c].
template <class R>
struct RowAdd {
    Lists lists;
    int64_t first, n, width;
    const R* rows;    // [n, width]
    double* grad;     // like weights
    double* scratch;  // [width + kRowSlack]
};

// Online learning: weights -= rate * residuals, token by token. The penalty on a weight is applied
// lazily, when an update next touches it, for all steps since the last time.
template <class R>
struct RowUpdate {
    Lists lists;
    int64_t first, n, width;
    const R* rows;  // [n, width] residuals
    R* weights;
    R* squares;      // AdaGrad: sum of squared gradients, infinite if masked; SGD: 1, 0 if masked
    double* sums;    // of (steps averaged before) * change, or null
    uint32_t* last;  // step of the last update, a full row's at its first weight; null: lambda is 0
    const double* horizon;  // [steps + 1] accumulated penalty at each step
    uint32_t now;
    bool adagrad;
    R eta, lambda;    // rate; strength of the penalty
    double averaged;  // steps averaged before this one
};

// Tagging: out[t, c] = sum over g of row(g, t)[c], in the order of g, or 0. The rows are parts of
// the blocks of words, see score.hpp. The width is at most kMostSummed.
constexpr int64_t kMostSummed = 64;
struct GroupSum {
    struct Group {
        const uint64_t* const* blocks;  // [n]
        int64_t unit;                   // of the block, where the row begins
    };
    const Group* of;  // [groups]
    int64_t n, groups, width;
    float* out;  // [n, width]
};

// Weights of one attribute in a flat array, of which `begin` counts units of 4 bytes: n weights,
// then, unless n is the width and the row is full, their n columns of 16 bits (32 where the width
// needs them). Most rows have one weight: with columns of 16 bits, such a row is in place of its
// address, the bits of the weight in `begin`, and the column, marked by kSingle, in `n`.
struct WeightRow {
    uint32_t begin = 0, n = 0;
};
constexpr uint32_t kSingle = uint32_t{1} << 31;

// Part of a table from fingerprints to rows, one cache line. Keys are 0 in empty slots, which come
// last.
constexpr int kBucketSlots = 4;
struct alignas(64) RowBucket {
    uint64_t keys[kBucketSlots];
    uint64_t rows[kBucketSlots];  // the bits of a WeightRow
};

// Tagging: out[i] is the row of the attribute with fingerprints[i], empty if it has none or is 0.
// The table has mask + 1 buckets; its search starts at (fingerprint & mask).
struct RowSearch {
    const uint64_t* fingerprints;
    int64_t n;
    const RowBucket* buckets;
    uint64_t mask;
    WeightRow* out;
};

// A row to be added to the scores of a token: out[column] += value * weight.
struct Hit {
    float* out;  // [width]
    WeightRow row;
    float value;
};

// Tagging: adds full rows, then the others, each in their order.
struct HitSum {
    const Hit *full, *sparse;
    int64_t n_full, n_sparse, width;
    const void* data;  // of the rows
    bool is_wide;      // columns have 32 bits
};

// Tagging: out[i] is the fingerprint of names[i], a name of one part, as in hash.hpp. Names and
// output have room for a multiple of kNamesAtOnce; names beyond n are empty. The kBeforeName bytes
// before each text can be read.
constexpr int64_t kNamesAtOnce = 8, kBeforeName = 8;
struct Name {
    const char* text;
    int64_t size;
};
struct NameHash {
    const Name* names;
    int64_t n;
    uint64_t* out;
};

struct RowKernels {
    void (*sum_f32)(const RowSum<float>&);
    void (*sum_f64)(const RowSum<double>&);
    void (*add_f32)(const RowAdd<float>&);
    void (*add_f64)(const RowAdd<double>&);
    void (*update_f32)(const RowUpdate<float>&);
    void (*update_f64)(const RowUpdate<double>&);
    void (*sum_groups)(const GroupSum&);
    void (*find_rows)(const RowSearch&);
    void (*add_hits)(const HitSum&);
    void (*hash_names)(const NameHash&);
};

const RowKernels& row_kernels_baseline();
const RowKernels& row_kernels_avx2();
const RowKernels& row_kernels_avx512();

}  // namespace tagloom
