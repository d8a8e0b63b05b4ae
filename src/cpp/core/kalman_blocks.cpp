#include "core/kalman_blocks.hpp"

#include <algorithm>

namespace tagloom {
namespace {

std::vector<int64_t> listed(const uint8_t* observed, int64_t m) {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < m; ++i)
        if (observed[i]) out.push_back(i);
    return out;
}

DenseMatrix picked(const double* R, int64_t m, const std::vector<int64_t>& components) {
    const int64_t rows = int64_t(components.size());
    DenseMatrix out(rows, rows);
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < rows; ++j) out(i, j) = R[components[i] * m + components[j]];
    return out;
}

}  // namespace

NoiseRows::NoiseRows(const double* R, int64_t m, const uint8_t* observed)
    : components(listed(observed, m)), noise(picked(R, m, components)) {
    for (int64_t i = 0; i < noise.L.rows; ++i)
        for (int64_t j = 0; j < i; ++j) is_diagonal &= noise.L(i, j) == 0;
}

void NoiseRows::write_matrix(const double* C, int64_t n, int64_t m, double* to, double* r) const {
    std::fill_n(to, m * n, 0.0);
    std::fill_n(r, m, 1.0);
    for (int64_t i = 0; i < int64_t(components.size()); ++i) {
        std::copy_n(C + components[i] * n, n, to + i * n);
        for (int64_t k = 0; k < i; ++k)
            for (int64_t j = 0; j < n; ++j) to[i * n + j] -= noise.L(i, k) * to[k * n + j];
        r[i] = noise.D[i];
    }
}

void NoiseRows::write_observation(const double* y, const double* d, int64_t m, double* to) const {
    const int64_t rows = int64_t(components.size());
    for (int64_t i = 0; i < rows; ++i) {
        to[i] = y[components[i]] - d[components[i]];
        for (int64_t k = 0; k < i && !is_diagonal; ++k) to[i] -= noise.L(i, k) * to[k];
    }
    std::fill(to + rows, to + m, 0.0);
}

void BlockTable::add(const double* C_step, const double* R_step, int64_t n, int64_t m,
                     const uint8_t* observed) {
    rows.emplace_back(R_step, m, observed);
    n_rows.push_back(int32_t(rows.back().components.size()));
    C.resize(C.size() + m * n);
    r.resize(r.size() + m);
    rows.back().write_matrix(C_step, n, m, C.data() + C.size() - m * n, r.data() + r.size() - m);
}

}  // namespace tagloom
