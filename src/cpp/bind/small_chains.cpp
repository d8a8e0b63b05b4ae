// Python binding of the E-step of small chains: check shapes, release the GIL, call core.

#include "bind/arrays.hpp"
#include "bind/bind.hpp"
#include "bind/gil.hpp"
#include "core/small_chain.hpp"

namespace tagloom {
namespace {

using In1 = Array<const double, 1>;
using In2 = Array<const double, 2>;
using Out1 = Array<double, 1>;
using Out2 = Array<double, 2>;

// The arguments that both functions share, checked.
struct Chain {
    SmallChainBatch batch;
    SmallChainCounts counts;

    Chain(int64_t T, int64_t Y, const double* emit, const Array<const int64_t, 1>& offsets,
          const In2& trans, const In1& start, const In1& stop, const Maybe<const double, 1>& weight,
          int64_t threads, const Out1& log_z, const Out2& transitions, const Out1& starts,
          const Out1& stops) {
        const int64_t N = int64_t(offsets.shape(0)) - 1;
        auto is_square = [&](const auto& x) {
            return int64_t(x.shape(0)) == Y && int64_t(x.shape(1)) == Y;
        };
        auto has = [](const auto& x, int64_t n) { return int64_t(x.shape(0)) == n; };
        require(0 < Y && Y <= kSmallChain, "there must be 1 to 8 labels");
        check_offsets(offsets, T);
        require(is_square(trans) && has(start, Y) && has(stop, Y),
                "trans must be [Y, Y], start and stop [Y]");
        require(!weight || has(*weight, N), "weight must be [N]");
        require(has(log_z, N), "log_z must be [N]");
        require(is_square(transitions) && has(starts, Y) && has(stops, Y),
                "counts must be [Y, Y], [Y] and [Y]");
        batch = {Y,
                 N,
                 emit,
                 offsets.data(),
                 trans.data(),
                 start.data(),
                 stop.data(),
                 weight ? weight->data() : nullptr,
                 threads};
        counts = {transitions.data(), starts.data(), stops.data()};
    }
};

bool expectations(const In2& emit, const Array<const int64_t, 1>& offsets, const In2& trans,
                  const In1& start, const In1& stop, const Maybe<const double, 1>& weight,
                  int64_t threads, Out1 log_z, Out2 marginals, Out2 transitions, Out1 starts,
                  Out1 stops) {
    const int64_t T = emit.shape(0), Y = emit.shape(1);
    const Chain chain(T, Y, emit.data(), offsets, trans, start, stop, weight, threads, log_z,
                      transitions, starts, stops);
    require(int64_t(marginals.shape(0)) == T && int64_t(marginals.shape(1)) == Y,
            "marginals must be [T, Y]");
    const WithoutGil unlocked;
    return small_chain_sum(chain.batch, log_z.data(), marginals.data(), chain.counts);
}

bool moments(const In2& z, const In2& weights, const Array<const int64_t, 1>& offsets,
             const In2& trans, const In1& start, const In1& stop,
             const Maybe<const double, 1>& weight, int64_t threads, Out1 log_z, Out2 sums,
             Out2 transitions, Out1 starts, Out1 stops) {
    const int64_t T = z.shape(0), D = z.shape(1), P = weights.shape(0), Y = weights.shape(1);
    const Chain chain(T, Y, nullptr, offsets, trans, start, stop, weight, threads, log_z,
                      transitions, starts, stops);
    const bool products = P != 2 * D + 1;
    require(D < 1 << 15 && P == (products ? D * (D + 1) / 2 : D) + D + 1,
            "weights must be [2 D + 1, Y] or [D (D + 3) / 2 + 1, Y]");
    require(int64_t(sums.shape(0)) == P && int64_t(sums.shape(1)) == Y,
            "sums must have the shape of weights");
    const WithoutGil unlocked;
    return small_chain_moments(chain.batch, {D, products, z.data(), weights.data()}, log_z.data(),
                               sums.data(), chain.counts);
}

}  // namespace

void bind_small_chains(nb::module_& m) {
    m.attr("SMALL_CHAIN") = kSmallChain;
    m.def("small_chain_expectations", expectations, nb::arg("emit"), nb::arg("offsets"),
          nb::arg("trans"), nb::arg("start"), nb::arg("stop"), nb::arg("weight").none(),
          nb::arg("threads"), nb::arg("log_z"), nb::arg("marginals"), nb::arg("transitions"),
          nb::arg("starts"), nb::arg("stops"),
          "Sums over the paths of a chain of at most 8 labels; see core/small_chain.hpp.");
    m.def("small_chain_moments", moments, nb::arg("z"), nb::arg("weights"), nb::arg("offsets"),
          nb::arg("trans"), nb::arg("start"), nb::arg("stop"), nb::arg("weight").none(),
          nb::arg("threads"), nb::arg("log_z"), nb::arg("sums"), nb::arg("transitions"),
          nb::arg("starts"), nb::arg("stops"),
          "The same for scores that are linear in features of numbers, whose sums it adds.");
}

}  // namespace tagloom
