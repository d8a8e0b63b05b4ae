// Shared by the recursions over lanes and over one sequence: the two semirings, and a sum that
// keeps its rounding errors. Included by the *_kernels.cpp files only, without the standard
// library; see vectors.hpp for the reason.
#pragma once

#include "core/kernels.hpp"
#include "core/vectors.hpp"

// For code that runs at every state. A step that is called, instead of inlined together with the
// operation on each sum, keeps its running maxima in memory, which took 1.4 times as long.
#define TL_INLINE __attribute__((always_inline))
// The same for the steps in lanes.hpp; a file may define it as nothing before it includes them.
#ifndef TL_INLINE_STEP
#define TL_INLINE_STEP TL_INLINE
#endif

namespace tagloom {
namespace {

template <class R>
constexpr int W = TL_VECTOR_BYTES / sizeof(R);
template <class R>
constexpr R minus_inf = -__builtin_inf();
template <>
constexpr int32_t minus_inf<int32_t> = -2147483647 - 1;  // only to be replaced by a maximum
constexpr double ln2 = 0.693147180559945309417;

inline double log(double x) { return __builtin_log(x); }

// A sum of doubles with its rounding errors kept aside (Neumaier): exact to the last few bits
// however many terms there are.
struct Sum {
    double value = 0, lost = 0;
    void add(double x) {
        const double t = value + x;
        lost +=
            (value < 0 ? -value : value) >= (x < 0 ? -x : x) ? (value - t) + x : (x - t) + value;
        value = t;
    }
    double total() const { return value + lost; }
};

// A compile-time number as an argument.
template <int N>
struct Size {
    static constexpr int value = N;
};

// The state with number i when states are ordered by their last label, then the one before, ...:
// the order in which ties are broken.
inline int64_t by_last_label(int64_t i, int64_t Y, int64_t S) {
    if (S == Y) return i;
    int64_t s = 0;
    for (int64_t power = 1; power < S; power *= Y, i /= Y) s = s * Y + i % Y;  // digits reversed
    return s;
}

// ---------------------------------------------------------------------------------------------
// Semirings, as the two operations of a vector-times-matrix step.

struct MaxPlus {
    template <class R>
    static constexpr R zero = minus_inf<R>;
    template <class V, class M>
    static V step(V sum, V from, M transition) {
        return max<V>(sum, from + transition);
    }
    template <class V>
    static V times(V a, V b) {
        return a + b;
    }
};

struct SumTimes {
    template <class R>
    static constexpr R zero = 0;
    template <class V, class M>
    static V step(V sum, V from, M transition) {
        return sum + from * transition;
    }
    template <class V>
    static V times(V a, V b) {
        return a * b;
    }
};

}  // namespace
}  // namespace tagloom
