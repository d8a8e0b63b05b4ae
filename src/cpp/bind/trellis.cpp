// Python bindings that all layouts share: checks of scores, and the choice of instruction set. The
// layouts are in dense.cpp and automata.cpp.

#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/gil.hpp"
#include "core/dispatch.hpp"
#include "core/threads.hpp"

namespace nb = nanobind;

namespace tagloom {
namespace {

// Scores up to 1e300 can be summed over millions of positions without overflow.
template <class R>
constexpr R kLargestScore = sizeof(R) == 4 ? R(std::numeric_limits<float>::max()) : R(1e300);

template <class R>
constexpr R kInfinity = std::numeric_limits<R>::infinity();

float largest_of(const float* x, int64_t n) { return kernels().largest_f32(x, n); }
double largest_of(const double* x, int64_t n) { return kernels().largest_f64(x, n); }

// Index of the first score that is NaN or too large in absolute value, -1 if there is none (-inf is
// allowed); and the largest |x| of the finite scores before it.
struct Measured {
    int64_t bad = -1;
    double largest = 0;
};

template <class R>
Measured measure(const R* x, int64_t begin, int64_t end) {
    constexpr int64_t block = 1024;
    const auto is_good = [](R y) { return y == -kInfinity<R> || std::abs(y) <= kLargestScore<R>; };
    Measured measured;
    for (int64_t lo = begin; lo < end; lo += block) {
        const int64_t hi = std::min(lo + block, end);
        const R largest = largest_of(x + lo, hi - lo);
        if (!(largest <= kLargestScore<R>)) {
            measured.bad = std::find_if_not(x + lo, x + hi, is_good) - x;
            break;
        }
        measured.largest = std::max<double>(measured.largest, largest);
    }
    return measured;
}

template <class R>
Measured measure_all(const R* x, int64_t n, int64_t threads) {
    constexpr int64_t small = 1 << 14, chunk = 1 << 18;
    if (n <= small) return measure(x, 0, n);  // faster than releasing the GIL
    const WithoutGil unlocked;
    std::vector<Measured> parts((n + chunk - 1) / chunk);
    parallel_for(parts.size(), threads, [&](int64_t c, int64_t) {
        parts[c] = measure(x, c * chunk, std::min(n, (c + 1) * chunk));
    });
    Measured all;
    for (const Measured& part : parts) {
        if (part.bad >= 0) return part;
        all.largest = std::max(all.largest, part.largest);
    }
    return all;
}

// One function for both types: nanobind tries overloads one after the other, which is slower.
std::pair<int64_t, double> check_scores(
    const nb::ndarray<nb::numpy, nb::ro, nb::c_contig, nb::device::cpu>& array, int64_t threads) {
    const int64_t n = array.size();
    Measured measured;
    if (array.dtype() == nb::dtype<double>())
        measured = measure_all(static_cast<const double*>(array.data()), n, threads);
    else if (array.dtype() == nb::dtype<float>())
        measured = measure_all(static_cast<const float*>(array.data()), n, threads);
    else
        throw nb::type_error("scores must be float32 or float64");
    return {measured.bad, measured.largest};
}

}  // namespace

void bind_trellis(nb::module_& m) {
    m.def(
        "compiler",
        [] {
#if defined(__clang__)
            return "clang " __clang_version__;
#else
            return "GCC " __VERSION__;
#endif
        },
        "The compiler that built this module, for reports.");
    m.def("instruction_sets", instruction_sets,
          "Instruction sets that this machine can run, narrowest first.");
    m.def("instruction_set", [] { return kernels().name; }, "The instruction set in use.");
    m.def("use_instruction_set", use_instruction_set, nb::arg("name"),
          "Choose an instruction set; False if this machine cannot run it.");
    m.def("check_scores", check_scores, nb::arg("array").noconvert(), nb::arg("threads"),
          nb::sig("def check_scores(array: NDArray[numpy.float32] | NDArray[numpy.float64], "
                  "threads: int) -> tuple[int, float]"),
          "(index of the first invalid score or -1, largest absolute value before it).");
}

}  // namespace tagloom
