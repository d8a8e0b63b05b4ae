#include "core/local.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/dispatch.hpp"

namespace tagloom {

namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();
constexpr double kTiny = 1e-280;  // sums below this may have lost terms to underflow

// log sum exp x[i]; -inf if all are -inf. Overwrites x.
double log_sum_exp(double* x, int64_t n) {
    const double top = *std::max_element(x, x + n);
    if (top == kMinusInf) return kMinusInf;
    for (int64_t i = 0; i < n; i++) x[i] -= top;
    kernels().exp(x, n);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    return std::log(sum) + top;
}

}  // namespace

struct LocalNormaliser::Workspace {
    explicit Workspace(int64_t Y) : exps(Y), sums(Y), row(Y), log_z(Y) {}
    std::vector<double> exps;   // [Y] exp(emit[t, y] - max)
    std::vector<double> sums;   // [Y]
    std::vector<double> row;    // [Y] scratch
    std::vector<double> log_z;  // [Y] of the next token
};

LocalNormaliser::LocalNormaliser(int64_t Y, const double* trans, const double* start)
    : Y_(Y), trans_(trans, trans + Y * Y), start_(start, start + Y), top_(Y), by_label_(Y * Y) {
    std::vector<double> row(Y);
    for (int64_t y_prev = 0; y_prev < Y; y_prev++) {
        const double* from = trans + y_prev * Y;
        const double top = *std::max_element(from, from + Y);
        top_[y_prev] = top == kMinusInf ? 0 : top;
        for (int64_t y = 0; y < Y; y++) row[y] = from[y] - top_[y_prev];
        kernels().exp(row.data(), Y);
        for (int64_t y = 0; y < Y; y++) by_label_[y * Y + y_prev] = row[y];
    }
}

void LocalNormaliser::normaliser_of(const float* emit, const float* edge, Workspace& work,
                                    double* log_z) const {
    double *exps = work.exps.data(), *sums = work.sums.data(), *row = work.row.data();
    if (edge) {
        for (int64_t y_prev = 0; y_prev < Y_; y_prev++) {
            for (int64_t y = 0; y < Y_; y++) {
                row[y] = emit[y] + trans_[y_prev * Y_ + y] + edge[y_prev * Y_ + y];
            }
            log_z[y_prev] = log_sum_exp(row, Y_);
        }
    } else {
        // log sum_y exp(emit[y]) * exp(trans[y_prev, y]), a matrix-vector product; row by row in
        // log space where it underflows.
        double top = *std::max_element(emit, emit + Y_);
        if (top == kMinusInf) top = 0;
        for (int64_t y = 0; y < Y_; y++) exps[y] = emit[y] - top;
        kernels().exp(exps, Y_);
        std::fill_n(sums, Y_, 0.0);
        for (int64_t y = 0; y < Y_; y++) {
            const double* __restrict weights = by_label_.data() + y * Y_;
            for (int64_t y_prev = 0; y_prev < Y_; y_prev++) {
                sums[y_prev] += exps[y] * weights[y_prev];
            }
        }
        for (int64_t y_prev = 0; y_prev < Y_; y_prev++) {
            if (sums[y_prev] >= kTiny) {
                log_z[y_prev] = std::log(sums[y_prev]) + top + top_[y_prev];
                continue;
            }
            for (int64_t y = 0; y < Y_; y++) row[y] = emit[y] + trans_[y_prev * Y_ + y];
            log_z[y_prev] = log_sum_exp(row, Y_);
        }
    }
    for (int64_t y = 0; y < Y_; y++) {
        if (log_z[y] == kMinusInf) log_z[y] = 0;  // no label may follow: no path goes there
    }
}

void LocalNormaliser::normalise(std::span<const int64_t> offsets, const float* emit,
                                const float* edge, float* out) const {
    Workspace work(Y_);
    double* log_z = work.log_z.data();
    for (std::size_t n = 0; n + 1 < offsets.size(); n++) {
        const int64_t begin = offsets[n] - offsets[0], end = offsets[n + 1] - offsets[0];
        for (int64_t t = begin; t < end; t++) {
            const float* at = emit + t * Y_;
            double first = 0;
            if (t == begin) {
                for (int64_t y = 0; y < Y_; y++) work.row[y] = at[y] + start_[y];
                first = log_sum_exp(work.row.data(), Y_);
                if (first == kMinusInf) first = 0;  // no label may begin
            }
            if (t + 1 < end) {
                normaliser_of(at + Y_, edge ? edge + (t + 1) * Y_ * Y_ : nullptr, work, log_z);
            } else {
                std::fill_n(log_z, Y_, 0.0);
            }
            for (int64_t y = 0; y < Y_; y++) {
                out[t * Y_ + y] = static_cast<float>(at[y] - log_z[y] - first);
            }
        }
    }
}

}  // namespace tagloom
