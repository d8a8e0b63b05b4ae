// Python bindings of the loss of a chain: arrays of a network in, loss and gradient out.

#include "core/chain_loss.hpp"

#include <algorithm>
#include <memory>
#include <string>

#include "bind/arrays.hpp"
#include "bind/batches.hpp"
#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/dense.hpp"
#include "bind/gil.hpp"

namespace tagloom {
namespace {

// Arrays of a network may be views, such as a transposed batch; only the last axis of scores must
// be contiguous.
template <int D>
using Strided = nb::ndarray<nb::numpy, nb::ro, nb::ndim<D>, nb::device::cpu>;
template <int D>
using StridedResult = nb::ndarray<nb::numpy, nb::ndim<D>, nb::device::cpu>;
template <int D>
using Result = nb::ndarray<nb::numpy, nb::ndim<D>, nb::c_contig, nb::device::cpu>;

// How log-likelihoods of sequences are reduced, and the gradients of the shared scores.
struct LossTask {
    std::vector<double> trans, start, stop;
    int64_t Y, threads;
    std::string reduction;          // "sum", "mean", "token_mean" or "none": as "sum", with llh
    Maybe<const double, 1> weight;  // [N]; 1 by default
    Maybe<double, 1> llh;           // [N] written
    std::optional<Result<2>> grad_trans;
    std::optional<Result<1>> grad_start, grad_stop;

    LossTask(int64_t Y_, int64_t threads_, std::string reduction_, const MaybeScores& trans_,
             const MaybeScores& start_, const MaybeScores& stop_, Maybe<const double, 1> weight_,
             Maybe<double, 1> llh_, std::optional<Result<2>> grad_trans_,
             std::optional<Result<1>> grad_start_, std::optional<Result<1>> grad_stop_)
        : trans(widened(trans_, Y_ * Y_, "trans must be [Y, Y]")),
          start(widened(start_, Y_, "start must be [Y]")),
          stop(widened(stop_, Y_, "stop must be [Y]")),
          Y(Y_),
          threads(threads_),
          reduction(std::move(reduction_)),
          weight(std::move(weight_)),
          llh(std::move(llh_)),
          grad_trans(std::move(grad_trans_)),
          grad_start(std::move(grad_start_)),
          grad_stop(std::move(grad_stop_)) {}

    void check(int64_t N, nb::dlpack::dtype type, bool has_grad) const {
        require(Y > 0, "emit must have at least one label");
        require(!weight || int64_t(weight->shape(0)) == N, "weight must be [N]");
        require(!llh || int64_t(llh->shape(0)) == N, "llh must be [N]");
        require(has_grad == bool(grad_trans) && has_grad == bool(grad_start) &&
                    has_grad == bool(grad_stop),
                "all gradients, or none");
        if (!has_grad) return;
        require(int64_t(grad_trans->shape(0)) == Y && int64_t(grad_trans->shape(1)) == Y &&
                    int64_t(grad_start->shape(0)) == Y && int64_t(grad_stop->shape(0)) == Y,
                "gradients must be [Y, Y], [Y] and [Y]");
        require(grad_trans->dtype() == type && grad_start->dtype() == type &&
                    grad_stop->dtype() == type,
                "gradients must have the type of emit");
    }

    // Σ weight·llh of a ragged batch, with the gradient; None if log space must answer.
    template <class In>
    std::optional<double> run(const In* emit, const int64_t* offsets, int64_t N,
                              const ChainLabels& labels, In* grad_emit) const {
        std::vector<double> weights(N, 1.0), own_llh(llh ? 0 : N);
        if (weight) weights.assign(weight->data(), weight->data() + N);
        if (reduction == "mean") std::fill(weights.begin(), weights.end(), 1.0 / double(N));
        if (reduction == "token_mean")
            std::fill(weights.begin(), weights.end(), 1.0 / double(offsets[N]));
        double* const values = llh ? llh->data() : own_llh.data();
        const ChainScores scores{Y, trans.data(), start.data(), stop.data()};
        std::vector<double> counts(grad_emit ? Y * Y + 2 * Y : 0);
        ChainGradient<In> grad;
        if (grad_emit)
            grad = {grad_emit, counts.data(), counts.data() + Y * Y, counts.data() + Y * Y + Y};
        if (!chain_loss(scores, emit, offsets, N, labels, weights.data(), threads, grad, values))
            return std::nullopt;
        if (grad_emit) {
            std::copy_n(grad.trans, Y * Y, static_cast<In*>(grad_trans->data()));
            std::copy_n(grad.start, Y, static_cast<In*>(grad_start->data()));
            std::copy_n(grad.stop, Y, static_cast<In*>(grad_stop->data()));
        }
        double total = 0;
        for (int64_t i = 0; i < N; ++i) total += weights[i] * values[i];
        return total;
    }
};

constexpr int64_t kUnknown = -100;  // as in torch.nn.CrossEntropyLoss

void check_ids(const int64_t* ids, int64_t n, int64_t Y) {
    require(
        std::all_of(ids, ids + n, [&](int64_t y) { return y == kUnknown || (0 <= y && y < Y); }),
        "tags must be label ids, or -100");
}

template <class Call>
auto by_type(nb::dlpack::dtype type, const Call& call) {
    if (type == nb::dtype<double>()) return call(double{});
    require(type == nb::dtype<float>(), "emit must be float32 or float64");
    return call(float{});
}

// ---- ragged -------------------------------------------------------------------------------------

std::optional<double> ragged_loss(const BatchArrays::Scores<2>& emit,
                                  const Array<const int64_t, 1>& offsets,
                                  const Maybe<const int64_t, 1>& tags,
                                  const Maybe<const bool, 2>& allowed, const LossTask& task,
                                  const std::optional<Result<2>>& grad_emit) {
    const int64_t T = emit.shape(0), Y = emit.shape(1), N = int64_t(offsets.shape(0)) - 1;
    require(Y == task.Y, "emit must be [T, Y]");
    check_offsets(offsets, T);
    require(!tags || int64_t(tags->shape(0)) == T, "tags must be [T]");
    require(!allowed || (int64_t(allowed->shape(0)) == T && int64_t(allowed->shape(1)) == Y),
            "allowed must be [T, Y]");
    require(!grad_emit || (grad_emit->dtype() == emit.dtype() &&
                           int64_t(grad_emit->shape(0)) == T && int64_t(grad_emit->shape(1)) == Y),
            "grad_emit must be [T, Y], of the type of emit");
    task.check(N, emit.dtype(), bool(grad_emit));
    if (tags) check_ids(tags->data(), T, Y);
    return by_type(emit.dtype(), [&](auto zero) {
        using In = decltype(zero);
        const ChainLabels labels{data_or_null(tags), data_or_null(allowed)};
        In* const grad = grad_emit ? static_cast<In*>(grad_emit->data()) : nullptr;
        const WithoutGil unlocked;
        return task.run(static_cast<const In*>(emit.data()), offsets.data(), N, labels, grad);
    });
}

// ---- padded -------------------------------------------------------------------------------------

template <class E, class A>
Padded<const E> read_only(const A& array) {
    return {static_cast<const E*>(array.data()), array.stride(0), array.stride(1),
            array.ndim() > 2 ? int64_t(array.shape(2)) : 1};
}

template <class A>
void check_padded(const A& array, nb::dlpack::dtype type, int64_t B, int64_t L, int64_t Y,
                  const char* what) {
    bool fits =
        array.dtype() == type && int64_t(array.shape(0)) == B && int64_t(array.shape(1)) == L;
    if (array.ndim() > 2)
        fits = fits && int64_t(array.shape(2)) == Y &&
               (Y == 1 || array.stride(2) == 1 || array.size() == 0);
    require(fits, what);
}

template <class In>
std::optional<double> padded_loss_in(const Strided<3>& emit, const PaddedRows& rows,
                                     const std::optional<Strided<2>>& tags,
                                     const std::optional<Strided<3>>& allowed, const LossTask& task,
                                     const std::optional<StridedResult<3>>& grad_emit) {
    const int64_t B = emit.shape(0), L = emit.shape(1), Y = emit.shape(2), T = rows.T();
    // A batch without padding is read and written where it lies.
    const auto is_ragged = [&](const auto& array) {
        return rows.is_full && (L <= 1 || array.stride(1) == Y) &&
               (B <= 1 || array.stride(0) == L * Y);
    };
    std::unique_ptr<In[]> own_emit, own_grad;
    const In* ragged = static_cast<const In*>(emit.data());
    if (!is_ragged(emit)) {
        own_emit.reset(new In[T * Y]);
        gather(rows, read_only<In>(emit), L, own_emit.get());
        ragged = own_emit.get();
    }
    std::unique_ptr<int64_t[]> ids;
    std::unique_ptr<bool[]> sets;
    if (tags) {
        ids.reset(new int64_t[T]);
        gather(rows, read_only<int64_t>(*tags), L, ids.get());
        check_ids(ids.get(), T, Y);
    }
    if (allowed) {
        sets.reset(new bool[T * Y]);
        gather(rows, read_only<bool>(*allowed), L, sets.get());
    }
    In* grad = grad_emit ? static_cast<In*>(grad_emit->data()) : nullptr;
    if (grad && !is_ragged(*grad_emit)) {
        own_grad.reset(new In[T * Y]);
        grad = own_grad.get();
    }
    const auto total = task.run(ragged, rows.offsets.data(), B, {ids.get(), sets.get()}, grad);
    if (total && own_grad) {
        const Padded<In> to{static_cast<In*>(grad_emit->data()), grad_emit->stride(0),
                            grad_emit->stride(1), Y};
        scatter(rows, own_grad.get(), B, L, to);
    }
    return total;
}

std::optional<double> padded_loss(const Strided<3>& emit, const std::optional<Strided<2>>& mask,
                                  const std::optional<Strided<2>>& tags,
                                  const std::optional<Strided<3>>& allowed, const LossTask& task,
                                  const std::optional<StridedResult<3>>& grad_emit) {
    const int64_t B = emit.shape(0), L = emit.shape(1), Y = emit.shape(2);
    require(Y == task.Y, "emit must be [B, L, Y]");
    check_padded(emit, emit.dtype(), B, L, Y, "rows of emit must be contiguous");
    if (mask) check_padded(*mask, nb::dtype<bool>(), B, L, Y, "mask must be bool [B, L]");
    if (tags) check_padded(*tags, nb::dtype<int64_t>(), B, L, Y, "tags must be int64 [B, L]");
    if (allowed)
        check_padded(*allowed, nb::dtype<bool>(), B, L, Y, "allowed must be bool [B, L, Y]");
    if (grad_emit)
        check_padded(*grad_emit, emit.dtype(), B, L, Y,
                     "grad_emit must be [B, L, Y], of the type of emit");
    task.check(B, emit.dtype(), bool(grad_emit));
    const WithoutGil unlocked;
    const PaddedRows rows(B, L, mask ? static_cast<const bool*>(mask->data()) : nullptr,
                          mask ? mask->stride(0) : 0, mask ? mask->stride(1) : 0);
    return by_type(emit.dtype(), [&](auto zero) {
        return padded_loss_in<decltype(zero)>(emit, rows, tags, allowed, task, grad_emit);
    });
}

}  // namespace

#define NO_SCORES " | None = None"
#define NO_FLOATS "NDArray[numpy.float64] | None = None"
#define NO_IDS "NDArray[numpy.int64] | None = None"
#define NO_FLAGS "NDArray[numpy.bool_] | None = None"

void bind_chain_loss(nb::module_& m) {
    nb::class_<LossTask>(
        m, "ChainLoss",
        "Shared scores of a chain, the reduction of log-likelihoods, and buffers for results.")
        .def(
            nb::init<int64_t, int64_t, std::string, const MaybeScores&, const MaybeScores&,
                     const MaybeScores&, Maybe<const double, 1>, Maybe<double, 1>,
                     std::optional<Result<2>>, std::optional<Result<1>>,
                     std::optional<Result<1>>>(),
            nb::arg("n_labels"), nb::arg("threads"), nb::arg("reduction"), nb::arg("trans").none(),
            nb::arg("start").none(), nb::arg("stop").none(), nb::arg("weight").none() = nb::none(),
            nb::arg("llh").noconvert() = nb::none(), nb::arg("grad_trans").noconvert() = nb::none(),
            nb::arg("grad_start").noconvert() = nb::none(),
            nb::arg("grad_stop").noconvert() = nb::none(),
            nb::sig("def __init__(self, n_labels: int, threads: int, reduction: str, trans: " SCORES
                    " | None, start: " SCORES " | None, stop: " SCORES " | None, weight: " NO_FLOATS
                    ", llh: " NO_FLOATS ", grad_trans: " SCORES NO_SCORES
                    ", grad_start: " SCORES NO_SCORES ", grad_stop: " SCORES NO_SCORES ") -> None"))
        .def(
            "ragged",
            [](const LossTask& task, const BatchArrays::Scores<2>& emit,
               const Array<const int64_t, 1>& offsets, const Maybe<const int64_t, 1>& tags,
               const Maybe<const bool, 2>& allowed, const std::optional<Result<2>>& grad_emit) {
                return ragged_loss(emit, offsets, tags, allowed, task, grad_emit);
            },
            nb::arg("emit"), nb::arg("offsets"), nb::arg("tags").none() = nb::none(),
            nb::arg("allowed").none() = nb::none(), nb::arg("grad_emit").noconvert() = nb::none(),
            nb::sig("def ragged(self, emit: " SCORES
                    ", offsets: NDArray[numpy.int64], tags: " NO_IDS ", allowed: " NO_FLAGS
                    ", grad_emit: " SCORES NO_SCORES ") -> float | None"),
            "Σ weight·llh of sequences in a row; None if scaled probabilities are not proven.")
        .def(
            "padded",
            [](const LossTask& task, const Strided<3>& emit, const std::optional<Strided<2>>& mask,
               const std::optional<Strided<2>>& tags, const std::optional<Strided<3>>& allowed,
               const std::optional<StridedResult<3>>& grad_emit) {
                return padded_loss(emit, mask, tags, allowed, task, grad_emit);
            },
            nb::arg("emit").noconvert(), nb::arg("mask").noconvert() = nb::none(),
            nb::arg("tags").noconvert() = nb::none(), nb::arg("allowed").noconvert() = nb::none(),
            nb::arg("grad_emit").noconvert() = nb::none(),
            nb::sig("def padded(self, emit: " SCORES ", mask: " NO_FLAGS ", tags: " NO_IDS
                    ", allowed: " NO_FLAGS ", grad_emit: " SCORES NO_SCORES ") -> float | None"),
            "The same for a padded batch [B, L, Y]; gradients of masked positions are zero.");
}

}  // namespace tagloom
