// The transitions of a dense batch in the form of the kernels: padded, in their arithmetic, as
// scores or as probabilities. Shared by the drivers, the dense_*.cpp files.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/dense.hpp"

namespace tagloom {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// A Transitions<R> together with the memory that it points to. Rows of matrices have `stride`
// elements, padded with `pad`.
template <class R>
struct OwnedTransitions {
    std::vector<R> matrices, start, stop;
    Transitions<R> view;

    OwnedTransitions() = default;
    OwnedTransitions(OwnedTransitions&&) =
        default;  // the view of a copy would point into the original
    OwnedTransitions& operator=(OwnedTransitions&&) = default;
    template <class In>
    OwnedTransitions(const DenseBatch<In>& batch, const double* matrices_, const double* stop_,
                     int64_t stride, double pad)
        : matrices(batch.levels * batch.G * batch.Y * stride, static_cast<R>(pad)),
          start(batch.start, batch.start + batch.Y),
          stop(stop_, stop_ + batch.Y),
          view{batch.Y, batch.G, batch.levels, stride, matrices.data(), start.data(), stop.data()} {
        for (int64_t r = 0; r < batch.levels * batch.G * batch.Y; ++r)
            for (int64_t c = 0; c < batch.Y; ++c)
                matrices[r * stride + c] = static_cast<R>(matrices_[r * batch.Y + c]);
    }
};

// n matrices [Y, Y], to -> from.
template <class R>
std::vector<R> transposed(const R* matrices, int64_t n, int64_t Y) {
    std::vector<R> out(n * Y * Y);
    for (int64_t m = 0; m < n; ++m)
        for (int64_t a = 0; a < Y; ++a)
            for (int64_t c = 0; c < Y; ++c)
                out[(m * Y + c) * Y + a] = matrices[(m * Y + a) * Y + c];
    return out;
}

// Probabilities exp(score - offset) for sum-times, and which arithmetic they allow. Without
// forbidden transitions, the backward values of two states differ by at most the range of the
// transitions' scores, so a state that underflows next to another cannot matter later when that
// range is small: no guard is needed. With forbidden transitions, or a wide range, the kernels
// check for underflow.
struct Probabilities {
    std::vector<double> matrices, stop, offset;
    std::vector<double> sums;  // [levels, Y] largest over g of sum_a P[g, a, c]
    double stop_offset = 0;
    double range = 0;  // of the finite scores of a matrix, or of stop
    bool complete = true;

    template <class In>
    explicit Probabilities(const DenseBatch<In>& batch) : offset(batch.levels) {
        const int64_t size = batch.G * batch.Y * batch.Y;
        matrices.resize(batch.levels * size);
        stop.resize(batch.Y);
        for (int64_t l = 0; l < batch.levels; ++l)
            offset[l] = exponentials(batch.transitions + l * size, size, &matrices[l * size]);
        stop_offset = exponentials(batch.stop, batch.Y, stop.data());
        levels_ = batch.levels;
        if (needs_guard() || batch.edge) add_up(batch.G, batch.Y);
    }

    // Histories of k labels meet again after k transitions. 40 leaves float32 47 of its 87 units of
    // range, 300 leaves double more than it needs.
    bool is_narrow() const { return complete && range * levels_ <= 40; }
    bool needs_guard() const { return !complete || range * levels_ > 300; }
    bool has_small_transitions() const { return range > 230; }  // see losses.hpp
    Offsets offsets() const { return {offset.data(), stop_offset}; }

  private:
    double exponentials(const double* score, int64_t n, double* prob);
    void add_up(int64_t G, int64_t Y);  // fills sums

    int64_t levels_;
};

}  // namespace tagloom
