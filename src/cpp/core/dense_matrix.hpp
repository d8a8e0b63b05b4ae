// Small matrices with plain loops, for what is computed once per sequence and not per step.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace tagloom {

struct DenseMatrix {
    int64_t rows = 0, cols = 0;
    std::vector<double> data;  // [rows, cols]

    DenseMatrix() = default;
    DenseMatrix(int64_t rows, int64_t cols) : rows(rows), cols(cols), data(rows * cols) {}
    DenseMatrix(const double* from, int64_t rows, int64_t cols)
        : rows(rows), cols(cols), data(from, from + rows * cols) {}

    double& operator()(int64_t i, int64_t j) { return data[i * cols + j]; }
    double operator()(int64_t i, int64_t j) const { return data[i * cols + j]; }
    double* row(int64_t i) { return data.data() + i * cols; }
    const double* row(int64_t i) const { return data.data() + i * cols; }

    static DenseMatrix identity(int64_t n) {
        DenseMatrix out(n, n);
        for (int64_t i = 0; i < n; ++i) out(i, i) = 1;
        return out;
    }
    DenseMatrix transposed() const {
        DenseMatrix out(cols, rows);
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < cols; ++j) out(j, i) = (*this)(i, j);
        return out;
    }
    // Columns from `first` up to `last`.
    DenseMatrix columns(int64_t first, int64_t last) const {
        DenseMatrix out(rows, last - first);
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = first; j < last; ++j) out(i, j - first) = (*this)(i, j);
        return out;
    }
};

inline DenseMatrix operator*(const DenseMatrix& a, const DenseMatrix& b) {
    DenseMatrix out(a.rows, b.cols);
    for (int64_t i = 0; i < a.rows; ++i)
        for (int64_t k = 0; k < a.cols; ++k)
            for (int64_t j = 0; j < b.cols; ++j) out(i, j) += a(i, k) * b(k, j);
    return out;
}
inline DenseMatrix operator+(DenseMatrix a, const DenseMatrix& b) {
    for (size_t i = 0; i < a.data.size(); ++i) a.data[i] += b.data[i];
    return a;
}
inline DenseMatrix operator-(DenseMatrix a, const DenseMatrix& b) {
    for (size_t i = 0; i < a.data.size(); ++i) a.data[i] -= b.data[i];
    return a;
}
// a b a'
inline DenseMatrix sandwich(const DenseMatrix& a, const DenseMatrix& b) {
    return a * b * a.transposed();
}

// M = U diag(s) W' with s descending: U [rows, k] and W [cols, k], k = cols. One-sided Jacobi: the
// columns of M are turned until they are orthogonal, which finds small singular values to high
// relative precision. Columns of U for s = 0 are 0.
struct SingularValues {
    DenseMatrix U, W;
    std::vector<double> s;

    explicit SingularValues(DenseMatrix M) : W(DenseMatrix::identity(M.cols)), s(M.cols) {
        for (int sweep = 0; sweep < 60; ++sweep) {
            bool is_turned = false;
            for (int64_t p = 0; p < M.cols; ++p)
                for (int64_t q = p + 1; q < M.cols; ++q) is_turned |= turn(M, p, q);
            if (!is_turned) break;
        }
        std::vector<int64_t> order(M.cols);
        std::vector<double> norms(M.cols);
        for (int64_t j = 0; j < M.cols; ++j) {
            order[j] = j;
            for (int64_t i = 0; i < M.rows; ++i) norms[j] += M(i, j) * M(i, j);
            norms[j] = std::sqrt(norms[j]);
        }
        std::stable_sort(order.begin(), order.end(),
                         [&](int64_t a, int64_t b) { return norms[a] > norms[b]; });
        U = DenseMatrix(M.rows, M.cols);
        const DenseMatrix unsorted = W;
        for (int64_t j = 0; j < M.cols; ++j) {
            s[j] = norms[order[j]];
            for (int64_t i = 0; i < M.rows; ++i) U(i, j) = s[j] > 0 ? M(i, order[j]) / s[j] : 0;
            for (int64_t i = 0; i < M.cols; ++i) W(i, j) = unsorted(i, order[j]);
        }
    }

  private:
    bool turn(DenseMatrix& M, int64_t p, int64_t q) {
        double pp = 0, qq = 0, pq = 0;
        for (int64_t i = 0; i < M.rows; ++i) {
            pp += M(i, p) * M(i, p);
            qq += M(i, q) * M(i, q);
            pq += M(i, p) * M(i, q);
        }
        if (std::abs(pq) <= 1e-15 * std::sqrt(pp * qq) || pq == 0) return false;
        const double zeta = (qq - pp) / (2 * pq);
        const double t = (zeta < 0 ? -1.0 : 1.0) / (std::abs(zeta) + std::hypot(1.0, zeta));
        const double c = 1 / std::hypot(1.0, t), sine = c * t;
        auto turn_columns = [&](DenseMatrix& X) {
            for (int64_t i = 0; i < X.rows; ++i) {
                const double x = X(i, p), y = X(i, q);
                X(i, p) = c * x - sine * y;
                X(i, q) = sine * x + c * y;
            }
        };
        turn_columns(M);
        turn_columns(W);
        return true;
    }
};

// L D L' = P for a positive semi-definite P, L with a diagonal of ones. A pivot that is rounding of
// what it was computed from counts as 0, and so does what is below it in L.
struct SemiFactor {
    DenseMatrix L;
    std::vector<double> D;

    explicit SemiFactor(const DenseMatrix& P) : L(DenseMatrix::identity(P.rows)), D(P.rows) {
        const int64_t n = P.rows;
        for (int64_t j = 0; j < n; ++j) {
            double pivot = P(j, j);
            for (int64_t k = 0; k < j; ++k) pivot -= L(j, k) * L(j, k) * D[k];
            D[j] = pivot > 1e-14 * double(n) * P(j, j) ? pivot : 0;
            for (int64_t i = j + 1; i < n; ++i) {
                double sum = P(i, j);
                for (int64_t k = 0; k < j; ++k) sum -= L(i, k) * L(j, k) * D[k];
                L(i, j) = D[j] > 0 ? sum / D[j] : 0;
            }
        }
    }
    // A solution X of P X = B, where there is one.
    DenseMatrix solve(DenseMatrix B) const {
        const int64_t n = L.rows;
        for (int64_t c = 0; c < B.cols; ++c) {
            for (int64_t i = 0; i < n; ++i)
                for (int64_t k = 0; k < i; ++k) B(i, c) -= L(i, k) * B(k, c);
            for (int64_t i = n - 1; i >= 0; --i) {
                B(i, c) = D[i] > 0 ? B(i, c) / D[i] : 0;
                for (int64_t k = i + 1; k < n; ++k) B(i, c) -= L(k, i) * B(k, c);
            }
        }
        return B;
    }
    // F with F F' = P
    DenseMatrix root() const {
        DenseMatrix F = L;
        for (int64_t i = 0; i < F.rows; ++i)
            for (int64_t j = 0; j < F.cols; ++j) F(i, j) *= std::sqrt(D[j]);
        return F;
    }
};

}  // namespace tagloom
