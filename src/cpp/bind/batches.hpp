// The scores of a ragged batch as Python passes them to the trellis, float32 or float64.
#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>
#include <optional>

#include "bind/arrays.hpp"

// The type of scores in Python signatures.
#define SCORES "NDArray[numpy.float32] | NDArray[numpy.float64]"

namespace tagloom {

struct BatchArrays {
    template <int D>
    using Scores = nb::ndarray<nb::numpy, nb::ro, nb::ndim<D>, nb::c_contig, nb::device::cpu>;
    // Results in the type of the scores.
    template <int D>
    using Results =
        std::optional<nb::ndarray<nb::numpy, nb::ndim<D>, nb::c_contig, nb::device::cpu>>;

    Scores<2> emit;                   // [T, Y]
    std::optional<Scores<3>> edge;    // [T, Y, Y]
    Array<const int64_t, 1> offsets;  // [N + 1]
    double largest_emit;              // no finite score in emit has a larger absolute value
    int64_t N, T, Y;
    bool is_double;

    BatchArrays(Scores<2> emit_, std::optional<Scores<3>> edge_, Array<const int64_t, 1> offsets_,
                double largest_emit_)
        : emit(std::move(emit_)),
          edge(std::move(edge_)),
          offsets(std::move(offsets_)),
          largest_emit(largest_emit_),
          N(int64_t(offsets.shape(0)) - 1),
          T(emit.shape(0)),
          Y(emit.shape(1)),
          is_double(emit.dtype() == nb::dtype<double>()) {
        require(is_double || emit.dtype() == nb::dtype<float>(), "emit must be float32 or float64");
        require(Y > 0, "emit must be [T, Y] with at least one label");
        check_offsets(offsets, T);
        if (!edge) return;
        require(edge->dtype() == emit.dtype(), "edge must have the type of emit");
        require(int64_t(edge->shape(0)) == T && int64_t(edge->shape(1)) == Y &&
                    int64_t(edge->shape(2)) == Y,
                "edge must be [T, Y, Y]");
    }

    // Calls call(float{}) or call(double{}), by the type of the scores.
    template <class Call>
    auto dispatch(const Call& call) const {
        return is_double ? call(double{}) : call(float{});
    }
    template <class In>
    const In* emit_data() const {
        return static_cast<const In*>(emit.data());
    }
    template <class In>
    const In* edge_data() const {
        return edge ? static_cast<const In*>(edge->data()) : nullptr;
    }
    // The memory of marginals [T, Y] or pairs [T, Y, Y]; null if not requested.
    template <class In, int D>
    In* results(const Results<D>& array, const char* what) const {
        if (!array) return nullptr;
        bool fits = array->dtype() == emit.dtype() && int64_t(array->shape(0)) == T;
        for (size_t d = 1; d < D; ++d) fits = fits && int64_t(array->shape(d)) == Y;
        require(fits, what);
        return static_cast<In*>(array->data());
    }
};

// Buffers that sums add to: expected counts of transitions [M], starts [S] and stops [S]. In the
// dense layout, transitions are [k, Y^(k-1), Y, Y] flattened and S = Y.
struct TransitionCounts {
    Array<double, 1> transitions, start, stop;

    void check(int64_t M, int64_t S) const {
        require(int64_t(transitions.shape(0)) == M && int64_t(start.shape(0)) == S &&
                    int64_t(stop.shape(0)) == S,
                "counts must be [M], [S] and [S]");
    }
};

}  // namespace tagloom
