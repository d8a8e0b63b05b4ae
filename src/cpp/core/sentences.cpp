#include "core/sentences.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/dispatch.hpp"

namespace tagloom {
namespace {

template <class T>
void grow(std::vector<T>& vector, int64_t size) {
    if (static_cast<int64_t>(vector.size()) < size) vector.resize(size);
}

}  // namespace

template <class In>
Sentences<In>::Sentences(const Corpus& corpus_, const RowMap& map)
    : corpus(corpus_),
      Y(corpus.Y),
      YY(corpus.has_edges() ? Y * Y : 0),
      W(map.tail_at()),
      free_rows(map.free_rows()),
      free_tail(map.free_tail()),
      places(corpus.N),
      chain(corpus.space, corpus.boundaries, corpus.has_edges(),
            corpus.is_separate() || corpus.pruning) {
    for (int64_t i = 0; i < corpus.N; ++i) places[corpus.order[i]] = i;
    if (corpus.segments)
        segments = std::make_unique<SegmentChain<In>>(*corpus.segments, Y, corpus.boundaries);
    if (!corpus.pruning) return;
    for (auto* of : {&pruned, &permitted})
        *of = std::make_unique<PrunedChain<In>>(Y, corpus.boundaries, corpus.trigrams,
                                                corpus.subtags, *corpus.pruning);
    few_counts = std::make_unique<SparseCounts>(corpus.n_tail());
}

template <class In>
bool Sentences<In>::has_open() const {
    return std::any_of(corpus.is_open.begin(), corpus.is_open.end(),
                       [](uint8_t is_open) { return is_open; });
}

template <class In>
void Sentences<In>::choose(int64_t place, const In* rows_, const double* tail) {
    at = place;
    first = corpus.starts[place];
    T = length(place);
    rows = rows_;
    grow(emit, T * Y + kRowSlack);
    add_up(corpus.node_lists, Y, emit.data());
    if (YY > 0) {
        grow(edge, T * YY + kRowSlack);
        add_up(corpus.edge_lists, YY, edge.data());
    }
    if (corpus.subtags.S > 0) {
        grow(sub, T * corpus.subtags.S + kRowSlack);
        add_up(corpus.subtag_lists, corpus.subtags.S, sub.data());
        for (int64_t t = 0; t < T; ++t)
            corpus.subtags.spread(emit.data() + t * Y, sub.data() + t * corpus.subtags.S,
                                  emit.data() + t * Y, sub_sums);
    }
    corpus.forbid(first, T, emit.data());
    tail_weights = tail;
    if (pruned) return;
    if (segments)
        segments->set(tail);
    else
        chain.set(tail);
}

template <class In>
void Sentences<In>::add_up(const OwnedLists& lists, int64_t width, In* out) const {
    const RowSum<In> task{lists.view(), first, T, width, rows, out};
    if constexpr (sizeof(In) == 4)
        kernels().rows().sum_f32(task);
    else
        kernels().rows().sum_f64(task);
}

template <class In>
double Sentences<In>::path_score(const int32_t* path) const {
    return chain.path_score(emit.data(), edges(), T, path);
}

// The squared values of t's attributes and of the edge attributes of t and t + 1, plus 2 for the
// transitions to and from t.
template <class In>
double Sentences<In>::update_size(int64_t t) const {
    const auto& nodes = corpus.node_lists.square;
    const auto& edges = corpus.edge_lists.square;
    const int64_t token = first + t;
    double square = nodes[token] + 2;
    if (!edges.empty()) square += edges[token] + (t + 1 < T ? edges[token + 1] : 0);
    return square;
}

template <class In>
void Sentences<In>::viterbi(std::vector<int32_t>& path) {
    grow(path, T);
    decode(emit.data(), path.data());
}

template <class In>
const int32_t* Sentences<In>::right_path() {
    if (!corpus.is_open[at]) return gold();
    grow(completed, T);
    corpus.close(first, T, emit.data(), closed);
    decode(closed.data(), completed.data());
    return completed.data();
}

template <class In>
void Sentences<In>::decode(const In* scores, int32_t* path) {
    chain.viterbi(scores, edges(), T, path);
    if (path[0] < 0) throw std::overflow_error("the scores are no longer finite");
}

// gamma[t, y] = weight * (Pr(y_t = y) - [y = gold_t]); xi and counts likewise. With open labels,
// the marginals over the paths that they permit replace the gold path.
template <class In>
double Sentences<In>::residuals() {
    if (pruned) return pruned_residuals();
    grow(gamma, T * Y);
    grow(xi, T * YY);
    counts.assign((uses_tail() ? n_tail() : 0) + kRowSlack, 0.0);
    double loss = 0;
    if (segments) {
        loss =
            segments->residuals(at, first, T, emit.data(), weight(), gamma.data(), counts.data());
        segments->each_of_gold(first, corpus.segments->n_tokens[at],
                               [&](int64_t j) { counts[j] -= weight(); });
    } else {
        loss = chain.sum(emit.data(), edges(), T, weight(), gamma.data(), pairs_or_null(xi),
                         counts.data());
        if (corpus.is_open[at]) {
            loss -= subtract_open();
        } else {
            loss -= path_score(gold());
            subtract_gold();
        }
    }
    if (!std::isfinite(loss)) throw std::overflow_error("the loss is no longer finite");
    std::fill_n(xi.begin(), YY, In(0));  // the first token has no label before it
    const In factor = static_cast<In>(weight());
    if (factor != In(1)) {
        for (int64_t j = 0; j < T * Y; ++j) gamma[j] *= factor;
        for (int64_t j = 0; j < T * YY; ++j) xi[j] *= factor;
    }
    return loss;
}

template <class In>
void Sentences<In>::subtract_gold() {
    const int32_t* path = gold();
    corpus.space.each_of_path(path, T, corpus.boundaries,
                              [&](int64_t j) { counts[j] -= weight(); });
    for (int64_t t = 0; t < T; ++t) gamma[t * Y + path[t]] -= In(1);
    for (int64_t t = 1; YY > 0 && t < T; ++t) xi[t * YY + path[t - 1] * Y + path[t]] -= In(1);
}

template <class In>
double Sentences<In>::subtract_open() {
    corpus.close(first, T, emit.data(), closed);
    grow(observed, T * Y);
    grow(observed_pairs, T * YY);
    const double log_z = chain.sum(closed.data(), edges(), T, -weight(), observed.data(),
                                   pairs_or_null(observed_pairs), counts.data());
    for (int64_t j = 0; j < T * Y; ++j) gamma[j] -= observed[j];
    for (int64_t j = 0; j < T * YY; ++j) xi[j] -= observed_pairs[j];
    return log_z;
}

// The same over candidates. Paths that are not pruned count; the gold labels always do.
template <class In>
double Sentences<In>::pruned_residuals() {
    auto permits = [&](int64_t t, int64_t y) { return corpus.permits(gold()[t], y); };
    pruned->choose(emit.data(), T, [&](int64_t t) {
        if (gold()[t] >= 0) return gold()[t];
        const In* row = emit.data() + t * Y;  // of an open label, the best that it permits
        int32_t best = -1;
        for (int64_t y = 0; y < Y; ++y)
            if (permits(t, y) && (best < 0 || row[y] > row[best])) best = static_cast<int32_t>(y);
        return best;
    });
    gamma.assign(T * Y, In(0));
    few_counts->clear();
    double loss = pruned->sum(tail_weights, order, weight(), gamma.data(), *few_counts);
    if (corpus.is_open[at]) {
        loss -= permitted->restrict(*pruned, permits)
                    .sum(tail_weights, order, -weight(), gamma.data(), *few_counts);
    } else {
        loss -= pruned->follow(tail_weights, order, emit.data(), gold(), -weight(), *few_counts);
        for (int64_t t = 0; t < T; ++t) gamma[t * Y + gold()[t]] -= static_cast<In>(weight());
    }
    if (!std::isfinite(loss)) throw std::overflow_error("the loss is no longer finite");
    sum_subtags();
    return loss;
}

// The residuals of sub-tags, and of which tokens there are any.
template <class In>
void Sentences<In>::sum_subtags() {
    const int64_t S = corpus.subtags.S;
    sub_gamma.assign(T * S, In(0));
    is_residual.assign(T, 0);
    for (int64_t t = 0; t < T; ++t)
        for (int64_t y = 0; y < Y; ++y) {
            const In residual = gamma[t * Y + y];
            if (residual == 0) continue;
            is_residual[t] = 1;
            if (S > 0) corpus.subtags.each(y, [&](int64_t s) { sub_gamma[t * S + s] += residual; });
        }
}

template <class In>
void Sentences<In>::update(RowUpdate<In> task) const {
    // Without a penalty, a token whose residuals are all zero changes nothing: after a few epochs
    // with pruning, most of them.
    const bool skips = pruned && task.lambda == 0;
    for (int64_t lo = 0, hi = 0; lo < T; lo = hi) {
        for (hi = lo + 1; hi < T && (!skips || is_residual[hi] == is_residual[lo]);) ++hi;
        if (skips && !is_residual[lo]) continue;
        apply(corpus.node_lists, Y, gamma.data(), lo, hi - lo, task);
        if (YY > 0) apply(corpus.edge_lists, YY, xi.data(), lo, hi - lo, task);
        if (corpus.subtags.S > 0)
            apply(corpus.subtag_lists, corpus.subtags.S, sub_gamma.data(), lo, hi - lo, task);
    }
}

// Updates the weights of the tokens lo .. lo + n - 1.
template <class In>
void Sentences<In>::apply(const OwnedLists& lists, int64_t width, const In* residuals, int64_t lo,
                          int64_t n, RowUpdate<In> task) const {
    task.lists = lists.view();
    task.first = first + lo;
    task.n = n;
    task.width = width;
    task.rows = residuals + lo * width;
    if constexpr (sizeof(In) == 4)
        kernels().rows().update_f32(task);
    else
        kernels().rows().update_f64(task);
}

template class Sentences<float>;
template class Sentences<double>;

}  // namespace tagloom
