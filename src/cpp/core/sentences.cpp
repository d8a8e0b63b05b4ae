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
      chain(corpus.space, corpus.boundaries, corpus.has_edges(), corpus.is_separate()) {
    for (int64_t i = 0; i < corpus.N; ++i) places[corpus.order[i]] = i;
    if (corpus.segments)
        segments = std::make_unique<SegmentChain<In>>(*corpus.segments, Y, corpus.boundaries);
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
    corpus.forbid(first, T, emit.data());
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

template <class In>
void Sentences<In>::update(RowUpdate<In> task) const {
    auto apply = [&](const OwnedLists& lists, int64_t width, const In* residuals) {
        task.lists = lists.view();
        task.first = first;
        task.n = T;
        task.width = width;
        task.rows = residuals;
        if constexpr (sizeof(In) == 4)
            kernels().rows().update_f32(task);
        else
            kernels().rows().update_f64(task);
    };
    apply(corpus.node_lists, Y, gamma.data());
    if (YY > 0) apply(corpus.edge_lists, YY, xi.data());
}

template class Sentences<float>;
template class Sentences<double>;

}  // namespace tagloom
