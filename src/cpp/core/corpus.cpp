#include "core/corpus.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

namespace tagloom {
namespace {

template <class In>
constexpr In kInfinity = std::numeric_limits<In>::infinity();

[[noreturn]] void fail(const std::string& what) { throw std::invalid_argument(what); }

void check_attributes(const Attributes& x, int64_t T, int64_t width, const std::string& prefix) {
    if (x.indptr[0] != 0 || x.indptr[T] != x.nnz)
        fail(prefix + "indptr must run from 0 to len(" + prefix +
             "ids) = " + std::to_string(x.nnz) + "; it runs from " + std::to_string(x.indptr[0]) +
             " to " + std::to_string(x.indptr[T]) + ".");
    for (int64_t t = 0; t < T; ++t)
        if (x.indptr[t] > x.indptr[t + 1])
            fail(prefix + "indptr must not decrease; it does at token " + std::to_string(t) + ".");
    for (int64_t j = 0; j < x.nnz; ++j) {
        if (x.ids[j] < 0 || x.ids[j] >= x.n)
            fail(prefix + "ids[" + std::to_string(j) + "] is " + std::to_string(x.ids[j]) +
                 "; attributes are numbered 0 to " + std::to_string(x.n - 1) + ".");
        if (x.values && !std::isfinite(x.values[j]))
            fail(prefix + "values[" + std::to_string(j) + "] is not a finite number.");
    }
    for (int64_t k = 0; k < x.n_extra; ++k)
        if (x.extra[k] < 0 || x.extra[k] >= x.n || x.extra_cols[k] >= width)
            fail(prefix + "extra[" + std::to_string(k) + "] is out of range.");
}

void check(const Examples& x) {
    if (x.Y < 1 || x.Y > 65535)
        fail("the number of labels must be 1 to 65535; got " + std::to_string(x.Y) + ".");
    if (x.edges.indptr && x.Y > 256)
        fail("edge attributes need at most 256 labels; got " + std::to_string(x.Y) + ".");
    if (x.nodes.n < 0 || x.edges.n < 0) fail("the number of attributes must not be negative.");
    if (x.N < 0 || x.offsets[0] != 0 || x.offsets[x.N] != x.T)
        fail("offsets must run from 0 to the number of tokens.");
    for (int64_t i = 0; i < x.N; ++i) {
        if (x.offsets[i] > x.offsets[i + 1])
            fail("offsets must not decrease; they do at sentence " + std::to_string(i) + ".");
        if (x.weight && !(x.weight[i] >= 0 && std::isfinite(x.weight[i])))
            fail("weight[" + std::to_string(i) + "] must be finite and not negative.");
    }
    for (int64_t t = 0; t < x.T; ++t)
        if (x.gold[t] < -x.n_sets || x.gold[t] >= x.Y)
            fail("gold[" + std::to_string(t) + "] is " + std::to_string(x.gold[t]) +
                 "; labels are numbered 0 to " + std::to_string(x.Y - 1) + ", sets of them -1 to " +
                 std::to_string(-x.n_sets) + ".");
    for (int64_t t = 0; x.allowed && t < x.T; ++t)
        if (x.allowed[t] < -x.n_sets || x.allowed[t] >= 0)
            fail("allowed[" + std::to_string(t) + "] is not a set of labels.");
    if (x.space && x.space->Y != x.Y)
        fail("the state space must have the same number of labels, " + std::to_string(x.Y) + ".");
    if (x.segments) {
        if (x.edges.indptr || x.allowed || x.space)
            fail("segments have no edges, allowed labels or state space.");
        x.segments->check(x.Y, x.offsets, x.N);
    }
    if (x.pruning) {
        if (x.edges.indptr || x.space || x.segments)
            fail("pruning needs order 1 or trigrams, without edges, segments or a state space.");
        if (x.warm_up < 0) fail("the number of epochs of order 0 must not be negative.");
    }
    if (x.trigrams && !x.pruning) fail("trigrams need pruning; other models have a state space.");
    if (x.trigrams && x.trigrams->n_labels() != x.Y) fail("trigrams must be of the same labels.");
    if (x.subtags) {
        if (!x.pruning) fail("sub-tags need pruning.");
        if (x.subtags->n_labels() != x.Y) fail("sub-tags must be given for every label.");
    }
    check_attributes(x.nodes, x.T, x.Y, "nodes.");
    if (x.edges.indptr) check_attributes(x.edges, x.T, x.Y * x.Y, "edges.");
}

}  // namespace

Corpus::Corpus(const Examples& x)
    : N(x.N), T(x.T), Y(x.Y), boundaries(x.boundaries), float32(x.float32) {
    check(x);
    space = x.space ? *x.space : Space::first_order(Y);
    space.index_dense();
    separate = !boundaries && space.is_first_order() && !x.segments;
    for (int64_t i = 0; separate && i < N; ++i) separate = x.offsets[i + 1] - x.offsets[i] <= 1;
    sets.assign(x.sets, x.sets + x.n_sets * Y);
    if (x.pruning) {
        pruning = std::make_unique<Pruning>(*x.pruning);
        warm_up = x.warm_up;
    }
    if (x.trigrams) trigrams = *x.trigrams;
    if (x.subtags) subtags = *x.subtags;
}

void Corpus::keep_order(const Examples& x) {
    order.resize(N);
    std::iota(order.begin(), order.end(), 0);
    starts.assign(x.offsets, x.offsets + N + 1);
}

void Corpus::copy_labels(const Examples& x) {
    gold.reserve(T);
    weight.reserve(N);
    for (const int64_t i : order) {
        weight.push_back(x.weight ? x.weight[i] : 1.0);
        const int64_t lo = x.offsets[i], hi = x.offsets[i + 1];
        gold.insert(gold.end(), x.gold + lo, x.gold + hi);
        if (x.allowed) allowed.insert(allowed.end(), x.allowed + lo, x.allowed + hi);
        if (x.segments) {
            is_open.push_back(false);
            continue;
        }
        is_open.push_back(std::any_of(x.gold + lo, x.gold + hi, [](int32_t g) { return g < 0; }));
        if (lo < hi && !is_open.back() &&
            !space.each_of_path(x.gold + lo, hi - lo, boundaries, [](int64_t) {}))
            fail("sentence " + std::to_string(i) + ": the state space does not accept its labels.");
    }
}

void Corpus::mark_seen(uint8_t* tail) const {
    for (int64_t i = 0; i < N; ++i) {
        const int32_t* labels = gold.data() + starts[i];
        const int64_t n = starts[i + 1] - starts[i];
        if (n == 0) continue;
        for (int64_t t = 1; t < n; ++t)
            each_seen(labels[t - 1], [&](int64_t y_prev) {
                each_seen(labels[t], [&](int64_t y) { tail[y_prev * Y + y] = 1; });
            });
        if (!boundaries) continue;
        each_seen(labels[0], [&](int64_t y) { tail[Y * Y + y] = 1; });
        each_seen(labels[n - 1], [&](int64_t y) { tail[Y * Y + Y + y] = 1; });
    }
}

template <class In>
void Corpus::forbid(int64_t first, int64_t n, In* emit) const {
    if (allowed.empty()) return;
    for (int64_t t = 0; t < n; ++t)
        for (int64_t y = 0; y < Y; ++y)
            if (!permits(allowed[first + t], y)) emit[t * Y + y] = -kInfinity<In>;
}

template <class In>
void Corpus::close(int64_t first, int64_t n, const In* emit, std::vector<In>& closed) const {
    closed.assign(emit, emit + n * Y);
    for (int64_t t = 0; t < n; ++t)
        for (int64_t y = 0; y < Y; ++y)
            if (!permits(gold[first + t], y)) closed[t * Y + y] = -kInfinity<In>;
}

template void Corpus::forbid(int64_t, int64_t, float*) const;
template void Corpus::forbid(int64_t, int64_t, double*) const;
template void Corpus::close(int64_t, int64_t, const float*, std::vector<float>&) const;
template void Corpus::close(int64_t, int64_t, const double*, std::vector<double>&) const;

}  // namespace tagloom
