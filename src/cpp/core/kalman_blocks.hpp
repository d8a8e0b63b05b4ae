// Rows of components with independent noise, as the kernels take them (KalmanBlocks), from
// observations whose noise may be correlated and of which some components may be missing.
#pragma once

#include <cstdint>
#include <vector>

#include "core/dense_matrix.hpp"
#include "core/kalman_kernels.hpp"

namespace tagloom {

// The rows of a block for an observed subset of components: their noise made independent by the
// factors R = L D L' of its covariance, c = L^-1 C, r = D, y = L^-1 (y - d).
struct NoiseRows {
    std::vector<int64_t> components;
    SemiFactor noise;
    bool is_diagonal = true;

    // R is [m, m], observed [m].
    NoiseRows(const double* R, int64_t m, const uint8_t* observed);

    // C is [m, n]. to is [m, n] and r [m]; rows that are not observed are 0, their noise is 1.
    void write_matrix(const double* C, int64_t n, int64_t m, double* to, double* r) const;
    // y, d and to are [m]; what is not observed is 0.
    void write_observation(const double* y, const double* d, int64_t m, double* to) const;
};

// Blocks for the patterns of missing components, or for the steps of a sequence.
struct BlockTable {
    std::vector<NoiseRows> rows;
    std::vector<double> C, r;  // [blocks, m, n], [blocks, m]
    std::vector<int32_t> n_rows;

    void add(const double* C_step, const double* R_step, int64_t n, int64_t m,
             const uint8_t* observed);
    KalmanBlocks blocks() const { return {C.data(), r.data(), n_rows.data()}; }
};

}  // namespace tagloom
