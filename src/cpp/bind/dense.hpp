// Scores of transitions in the dense layout as a Python object; kernels and decoders read them.
#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "bind/arrays.hpp"
#include "bind/batches.hpp"
#include "bind/casters.hpp"
#include "core/decode.hpp"
#include "core/dense.hpp"

namespace tagloom {

using MaybeScores = std::optional<nb::ndarray<nb::numpy, nb::ro, nb::c_contig, nb::device::cpu>>;

// Converts n scores of float32 or float64 to double; None becomes zeros.
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
    DenseScores(int64_t n_labels, int64_t order, const MaybeScores& trans_,
                const MaybeScores& start_, const MaybeScores& stop_) {
        Y = n_labels;
        levels = order;
        require(Y > 0 && Y <= 1 << 20 && levels > 0 && levels < 64,
                "n_labels must be 1 to 2^20 and order 1 to 63");
        for (int64_t k = 1; k < levels; ++k) {
            require(G <= (int64_t(1) << 40) / Y, "Y^(order - 1) must be at most 2^40");
            G *= Y;
        }
        trans = widened(trans_, levels * G * Y * Y, "trans must be [k, Y^(k-1), Y, Y]");
        start = widened(start_, Y, "start must be [Y]");
        stop = widened(stop_, Y, "stop must be [Y]");
    }

    // Calls call(batch with these scores, zero) in the type of the batch's scores.
    template <class Call>
    auto with(const BatchArrays& x, int64_t threads, const Call& call) const {
        require(x.Y == Y, "batch and transitions differ in their number of labels");
        return x.dispatch([&](auto zero) {
            using In = decltype(zero);
            const DenseBatch<In> batch{Y,
                                       G,
                                       levels,
                                       trans.data(),
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

template <class T>
using Flat = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
using NBestArrays = nb::typed<nb::tuple, Flat<int64_t>, Flat<int32_t>, Flat<double>>;

// (number of paths of each sequence [N], their labels, flat, their scores, flat).
inline NBestArrays as_arrays(NBestPaths&& best) {
    const size_t N = best.count.size(), labels = best.paths.size(), k = best.scores.size();
    return nb::make_tuple(to_numpy(std::move(best.count), {N}),
                          to_numpy(std::move(best.paths), {labels}),
                          to_numpy(std::move(best.scores), {k}));
}

}  // namespace tagloom
