// Scores of transitions in the dense layout, as an object of Python: what kernels and decoders
// read.
#pragma once

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "bind/arrays.hpp"
#include "bind/batches.hpp"
#include "core/decode.hpp"
#include "core/dense.hpp"

namespace tagloom {

using MaybeScores = std::optional<nb::ndarray<nb::numpy, nb::ro, nb::c_contig, nb::device::cpu>>;

// n scores in double, of float or double; zeros for None.
inline std::vector<double> widened(const MaybeScores& scores, int64_t n, const char* what) {
    if (!scores) return std::vector<double>(n, 0.0);
    require(int64_t(scores->size()) == n, what);
    if (scores->dtype() == nb::dtype<float>()) {
        const auto* from = static_cast<const float*>(scores->data());
        return std::vector<double>(from, from + n);
    }
    require(scores->dtype() == nb::dtype<double>(), "scores must be float32 or float64");
    const auto* from = static_cast<const double*>(scores->data());
    return std::vector<double>(from, from + n);
}

struct DenseScores : DenseTransitions {
    DenseScores(int64_t n_labels, int64_t order, const MaybeScores& moves_,
                const MaybeScores& start_, const MaybeScores& stop_) {
        Y = n_labels;
        levels = order;
        require(Y > 0 && Y <= 1 << 20 && levels > 0 && levels < 64, "no labels, or no order");
        for (int64_t k = 1; k < levels; ++k) {
            require(G <= (int64_t(1) << 40) / Y, "the order is too high");
            G *= Y;
        }
        moves = widened(moves_, levels * G * Y * Y, "moves must be [k, Y^(k-1), Y, Y]");
        start = widened(start_, Y, "start must be [Y]");
        stop = widened(stop_, Y, "stop must be [Y]");
    }

    // call(the batch with these scores) in the type of its scores.
    template <class Call>
    auto with(const BatchArrays& x, int64_t threads, const Call& call) const {
        require(x.Y == Y, "the batch has another number of labels");
        return x.dispatch([&](auto zero) {
            using In = decltype(zero);
            const DenseBatch<In> batch{Y,
                                       G,
                                       levels,
                                       moves.data(),
                                       start.data(),
                                       stop.data(),
                                       x.emit_data<In>(),
                                       x.edge_data<In>(),
                                       x.offsets.data(),
                                       x.N,
                                       threads,
                                       x.largest_emit};
            return call(batch, zero);
        });
    }
};

}  // namespace tagloom
