// Matrices in rows of vectors, for the kernels of kalman_kernels.hpp. Included by them alone, after
// vectors.hpp, and free of the standard library as that is.
//
// A matrix [n, n] is n rows of K vectors, S = K W numbers, with zeros at the end of a row. Products
// add up rows, out[i] = sum_k x[i, k] y[k], so that no sum runs across a vector. A template
// argument N is the number of states, or 0 if it is known only at run time.
#pragma once

#include "core/vectors.hpp"

namespace tagloom {
namespace {

using V = Vector<double>;
constexpr int64_t W = TL_VECTOR_BYTES / sizeof(double);

inline double square_root(double x) { return __builtin_sqrt(x); }
inline double magnitude(double x) { return x < 0 ? -x : x; }

inline double total(V v) {
    double x[W];
    __builtin_memcpy(x, &v, sizeof v);
    for (int64_t half = W / 2; half; half /= 2)
        for (int64_t i = 0; i < half; ++i) x[i] += x[i + half];
    return x[0];
}

inline double* numbers(V* rows) { return reinterpret_cast<double*>(rows); }
inline const double* numbers(const V* rows) { return reinterpret_cast<const double*>(rows); }

// The sizes of a matrix, constants where N is one.
template <int N>
struct Shape {
    int64_t n_, K_;
    explicit Shape(int64_t n) : n_(n), K_((n + W - 1) / W) {}
    static constexpr int64_t fixed_K = N ? (N + W - 1) / W : 1;
    int64_t n() const { return N ? N : n_; }
    int64_t K() const { return N ? fixed_K : K_; }
    int64_t S() const { return K() * W; }
};

// Cuts the workspace into space that begin at whole vectors.
struct RowSpace {
    double* at;
    V* rows(int64_t count) {
        V* piece = reinterpret_cast<V*>(at);
        at += count * W;
        return piece;
    }
    double* take(int64_t count) { return numbers(rows((count + W - 1) / W)); }
};

template <class Size>
inline void pad(const double* from, int64_t rows, Size s, V* to) {
    for (int64_t i = 0; i < rows; ++i) {
        double* row = numbers(to + i * s.K());
        for (int64_t j = 0; j < s.n(); ++j) row[j] = from[i * s.n() + j];
        for (int64_t j = s.n(); j < s.S(); ++j) row[j] = 0;
    }
}

template <class Size>
inline void pad_transposed(const double* from, Size s, V* to) {
    for (int64_t i = 0; i < s.n(); ++i) {
        double* row = numbers(to + i * s.K());
        for (int64_t j = 0; j < s.n(); ++j) row[j] = from[j * s.n() + i];
        for (int64_t j = s.n(); j < s.S(); ++j) row[j] = 0;
    }
}

template <class Size>
inline void unpad(const V* from, int64_t rows, Size s, double* to) {
    for (int64_t i = 0; i < rows; ++i)
        __builtin_memcpy(to + i * s.n(), from + i * s.K(), s.n() * sizeof(double));
}

template <class Size>
inline void copy_rows(const V* from, Size s, V* to) {
    for (int64_t j = 0; j < s.n() * s.K(); ++j) to[j] = from[j];
}

// The upper half becomes that of the lower.
template <class Size>
inline void mirror(V* matrix, Size s) {
    double* rows = numbers(matrix);
    for (int64_t i = 1; i < s.n(); ++i)
        for (int64_t j = 0; j < i; ++j) rows[j * s.S() + i] = rows[i * s.S() + j];
}

// out = start + sum_k x[k] y[k] for one row. No start is 0.
template <int N>
inline void combine(const double* x, const V* y, const V* start, V* out, Shape<N> s) {
    const int64_t n = s.n(), K = s.K();
    for (int64_t q = 0; q < K; ++q) {
        V sum = start ? start[q] : V{};
#pragma GCC unroll 8
        for (int64_t k = 0; k < n; ++k) sum += x[k] * y[k * K + q];
        out[q] = sum;
    }
}

template <int N>
inline double dot(const V* x, const V* y, Shape<N> s) {
    V sum{};
    for (int64_t q = 0; q < s.K(); ++q) sum += x[q] * y[q];
    return total(sum);
}

// A tile of the product below: 4 rows and 2 vectors, eight sums; a row of y is read for four of x.
inline void multiply_tile(const double* x, int64_t xi, int64_t xk, int64_t rows, const V* y,
                          int64_t n, int64_t K, int64_t second, V (&sum)[4][2]) {
    const double* from[4];
    for (int64_t i = 0; i < 4; ++i) from[i] = x + (i < rows ? i : 0) * xi;
    for (auto& row : sum) row[0] = row[1] = V{};
    for (int64_t k = 0; k < n; ++k) {
        const V first = y[k * K], next = y[k * K + second];
        for (int i = 0; i < 4; ++i) {
            sum[i][0] += from[i][k * xk] * first;
            sum[i][1] += from[i][k * xk] * next;
        }
    }
}

// out[i] = start[i] + sum_k x[i * xi + k * xk] y[k] for all rows i. `out` is none of the others,
// unless it is `start`. No start is 0.
template <int N>
inline void multiply(const double* x, int64_t xi, int64_t xk, const V* y, const V* start, V* out,
                     Shape<N> s) {
    const int64_t n = s.n(), K = s.K();
    if constexpr (N > 0) {
#pragma GCC unroll 8
        for (int64_t i = 0; i < N; ++i) {
            V sum[Shape<N>::fixed_K];
            for (int64_t q = 0; q < K; ++q) sum[q] = start ? start[i * K + q] : V{};
#pragma GCC unroll 8
            for (int64_t k = 0; k < N; ++k)
                for (int64_t q = 0; q < K; ++q) sum[q] += x[i * xi + k * xk] * y[k * K + q];
            for (int64_t q = 0; q < K; ++q) out[i * K + q] = sum[q];
        }
    } else {
        V sum[4][2];
        for (int64_t i0 = 0; i0 < n; i0 += 4)
            for (int64_t q0 = 0; q0 < K; q0 += 2) {
                const int64_t rows = n - i0 < 4 ? n - i0 : 4, second = q0 + 1 < K ? 1 : 0;
                multiply_tile(x + i0 * xi, xi, xk, rows, y + q0, n, K, second, sum);
                for (int64_t i = 0; i < rows; ++i)
                    for (int64_t q = 0; q <= second; ++q) {
                        const int64_t at = (i0 + i) * K + q0 + q;
                        out[at] = start ? start[at] + sum[i][q] : sum[i][q];
                    }
            }
    }
}

// ---------------------------------------------------------------------------------------------
// Covariances that settle.

constexpr int64_t kLook = 8;  // steps from one look at whether they still change to the next

// The largest change between two covariances, in units of the standard deviations.
template <int N>
double change_of(const V* before, const V* now, double* scale, Shape<N> s) {
    const double *a = numbers(before), *b = numbers(now);
    for (int64_t i = 0; i < s.n(); ++i) {
        const double variance = b[i * s.S() + i];
        scale[i] = variance > 0 ? 1 / square_root(variance) : 0;
    }
    double most = 0;
    for (int64_t i = 0; i < s.n(); ++i)
        for (int64_t j = 0; j <= i; ++j) {
            const int64_t at = i * s.S() + j;
            const double change = magnitude(b[at] - a[at]) * scale[i] * scale[j];
            if (!(change <= most)) most = change;  // NaN stays
        }
    return most;
}

// Changes shrink by a constant rate; all those to come together are below `tolerance` when
// change * rate / (1 - rate) is. No change at all means that there never will be one.
struct Settling {
    double tolerance;
    double last = -1;  // the change at the look before

    bool look(double change) {
        const double before = last;
        last = change;
        if (change == 0) return true;
        if (!(before > 0) || !(change < before)) return false;
        double rate = change / before;  // in kLook steps, a power of two
        for (int64_t k = kLook; k > 1; k /= 2) rate = square_root(rate);
        return change * rate <= tolerance * (1 - rate);
    }
};

}  // namespace
}  // namespace tagloom
