// The semirings of a step over back-off arcs: one recursion for all of them. Shared by the
// files backoff*.
//
// Value is what is added and zero() its neutral element. times() takes the factor of an arc or of
// back-off in the form that arc() and back() return. Values are relative to exp(offset): load()
// makes one from a node of a layer, log() returns its logarithm.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/backoff_layers.hpp"

namespace tagloom::backoff {

constexpr double kSafe = 1e-2;  // a difference of at least this share has lost two digits

inline double log_plus(double a, double b) {
    if (a < b) std::swap(a, b);
    return b == kMinusInf ? a : a + std::log1p(std::exp(b - a));
}
inline double log_minus(double a, double b) {
    return b == kMinusInf ? a : b < a ? a + std::log1p(-std::exp(b - a)) : kMinusInf;
}

// One number for each word or node, and a second one for the semirings that have two.
template <class A>
struct ValueColumn {
    using Value = typename A::Value;
    std::vector<double> first;               // [n]
    std::vector<typename A::Second> second;  // [n] or empty

    ValueColumn() = default;
    explicit ValueColumn(int64_t n) { assign(n); }
    void assign(int64_t n) {
        first.assign(n, A::zero().first);
        if constexpr (A::has_second) second.assign(n, A::zero().second);
    }
    void resize(int64_t n) {
        first.resize(n);
        if constexpr (A::has_second) second.resize(n);
    }
    bool is_zero(int64_t i) const { return first[i] == A::zero().first; }
    Value operator[](int64_t i) const {
        if constexpr (A::has_second)
            return {first[i], second[i]};
        else
            return {first[i]};
    }
    void set(int64_t i, const Value& value) {
        first[i] = value.first;
        if constexpr (A::has_second) second[i] = value.second;
    }
    Value take(int64_t i) {
        const Value value = (*this)[i];
        set(i, A::zero());
        return value;
    }
};

// The best path and the node of the layer before that it comes from; Passing adds, and decides
// ties.
struct Best {
    using Value = BestNode;
    using Second = int32_t;
    static constexpr bool has_second = true, subtracts = false;
    static Value zero() { return {kMinusInf, -1}; }
    static Value load(const Layer& layer, int64_t i, double) {
        return {layer.score[i], static_cast<int32_t>(i)};
    }
    static double log(const Value& a) { return a.first; }
    static double arc(const BackoffArcs& arcs, int32_t c) { return arcs.table.log_prob[c]; }
    static double back(const BackoffArcs& arcs, int32_t h) { return arcs.table.backoff[h]; }
    static Value times(const Value& a, double factor) { return {a.first + factor, a.second}; }
};

// Sums of probabilities.
struct Real {
    struct Value {
        double first;
    };
    using Second = char;
    static constexpr bool has_second = false, subtracts = true;
    static constexpr double one = 1;
    static Value zero() { return {0}; }
    static double arc(const BackoffArcs& arcs, int32_t c) { return arcs.prob[c]; }
    static double back(const BackoffArcs& arcs, int32_t h) { return arcs.weight[h]; }
    static double compose(double f, double g) { return f * g; }
    static Value lift(double log) { return {std::exp(log)}; }
    static Value load(const Layer& layer, int64_t i, double offset) {
        return lift(layer.score[i] - offset);
    }
    static double log(const Value& a) { return std::log(a.first); }
    static Value times(const Value& a, double factor) { return {a.first * factor}; }
    static Value plus(const Value& a, const Value& b) { return {a.first + b.first}; }
    static Value minus(const Value& a, const Value& b) {
        return {std::max(a.first - b.first, 0.0)};
    }
    static bool is_safe(const Value& rest, const Value& whole) {
        return rest.first >= kSafe * whole.first;
    }
};

// The same in log space, where probabilities would underflow.
struct Log {
    struct Value {
        double first;
    };
    using Second = char;
    static constexpr bool has_second = false, subtracts = true;
    static constexpr double one = 0;
    static Value zero() { return {kMinusInf}; }
    static double arc(const BackoffArcs& arcs, int32_t c) { return arcs.table.log_prob[c]; }
    static double back(const BackoffArcs& arcs, int32_t h) { return arcs.table.backoff[h]; }
    static double compose(double f, double g) { return f + g; }
    static Value lift(double log) { return {log}; }
    static Value load(const Layer& layer, int64_t i, double offset) {
        return lift(layer.score[i] - offset);
    }
    static double log(const Value& a) { return a.first; }
    static Value times(const Value& a, double factor) { return {a.first + factor}; }
    static Value plus(const Value& a, const Value& b) { return {log_plus(a.first, b.first)}; }
    static Value minus(const Value& a, const Value& b) { return {log_minus(a.first, b.first)}; }
    static bool is_safe(const Value& rest, const Value& whole) {
        return rest.first >= whole.first + std::log(kSafe);
    }
};

// Sums of probabilities, as logarithms, with the expected score of what they sum: for the entropy.
struct Expectation {
    struct Value {
        double first;   // log p
        double second;  // mean score
    };
    using Second = double;
    static constexpr bool has_second = true, subtracts = true;
    static Value zero() { return {kMinusInf, 0}; }
    static Value load(const Layer& layer, int64_t i, double offset) {
        return {layer.score[i] - offset, layer.mean[i]};
    }
    static double log(const Value& a) { return a.first; }
    static double arc(const BackoffArcs& arcs, int32_t c) { return arcs.table.log_prob[c]; }
    static double back(const BackoffArcs& arcs, int32_t h) { return arcs.table.backoff[h]; }
    static Value times(const Value& a, double factor) {
        if (factor == kMinusInf) return zero();
        return {a.first + factor, a.second + factor};
    }
    static Value plus(const Value& a, const Value& b) {
        if (b.first == kMinusInf) return a;
        if (a.first == kMinusInf) return b;
        const double sum = log_plus(a.first, b.first);
        return {sum, std::exp(a.first - sum) * a.second + std::exp(b.first - sum) * b.second};
    }
    static Value minus(const Value& a, const Value& b) {
        if (b.first == kMinusInf) return a;
        const double rest = log_minus(a.first, b.first);
        if (rest == kMinusInf) return zero();
        return {rest, std::exp(a.first - rest) * a.second - std::exp(b.first - rest) * b.second};
    }
    static bool is_safe(const Value& rest, const Value& whole) {
        return rest.first >= whole.first + std::log(kSafe);
    }
};

}  // namespace tagloom::backoff
