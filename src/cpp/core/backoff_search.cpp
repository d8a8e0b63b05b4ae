// Answers of a search over back-off arcs. Each is one pass over the layers in some arithmetic; what
// differs between best path, sums and expectations is the arithmetic.

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "core/backoff.hpp"
#include "core/backoff_backward.hpp"
#include "core/backoff_forward.hpp"
#include "core/lazy_nbest.hpp"

namespace tagloom {

using namespace backoff;

class BackoffSearch::Impl {
  public:
    explicit Impl(const BackoffArcs& arcs)
        : arcs_(arcs), table_(arcs.table), histories_(arcs), layers_(arcs, histories_) {}

    double viterbi(const SlotSequence& x, int32_t* path) {
        if (!forward<Best>(x)) return kMinusInf;
        int32_t i = best_last();
        const double score = layers_[T_].score[i];
        for (int64_t t = T_; t > 0; t--) {
            if (t <= std::ssize(x.slot)) path[t - 1] = layers_.label(t, i);
            i = layers_.source(t, i);
        }
        return score;
    }

    void nbest(const SlotSequence& x, int64_t n, std::vector<int32_t>& paths,
               std::vector<double>& scores) {
        paths.clear();
        scores.clear();
        if (!forward<Best>(x)) return;
        const Graph graph{*this, x};
        LazyNBest<Graph> search(graph);
        const int64_t T = std::ssize(x.slot);
        std::vector<int32_t> nodes(T_ + 1);
        for (int64_t rank = 0; rank < n && search.ensure(rank); rank++) {
            search.read(rank, nodes.data());
            for (int64_t t = 1; t <= T; t++) paths.push_back(layers_.label(t, nodes[t]));
            scores.push_back(path_score(x, paths.data() + rank * T));
        }
    }

    double log_partition(const SlotSequence& x) { return forward<Real>(x) ? total() : kMinusInf; }

    double marginals(const SlotSequence& x, double* probs);

    double entropy(const SlotSequence& x, double& log_z) {
        log_z = kMinusInf;
        if (!forward<Expectation>(x)) return 0;
        Expectation::Value sum = Expectation::zero();
        const Layer& last = layers_[T_];
        for (int64_t i = 0; i < last.size(); i++)
            sum = Expectation::plus(sum, {last.score[i], last.mean[i]});
        log_z = sum.first;
        return std::max(log_z - sum.second, 0.0);
    }

    bool sample(const SlotSequence& x, int64_t n, const double* uniform, int64_t stride,
                int32_t* paths);

    int64_t first_dead_position(const SlotSequence& x) { return forward<Best>(x) ? -1 : dead_; }

    double path_score(const SlotSequence& x, const int32_t* path) const {
        int32_t history = x.start;
        double sum = 0;
        for (int64_t t = 0; t < std::ssize(x.slot); t++) {
            const double emit = score_of(x, t + 1, path[t]);
            if (emit == kMinusInf) return kMinusInf;
            sum += emit;
            history = table_.history_after(table_.arrive(history, path[t], sum));
        }
        if (x.stop >= 0) table_.arrive(history, x.stop, sum);
        return sum;
    }

  private:
    // The layers as LazyNBest sees them.
    struct Graph {
        Impl& impl;
        const SlotSequence& x;
        int64_t length() const { return impl.T_ + 1; }
        double best(int64_t t, int32_t i) const { return impl.layers_[t].score[i]; }
        int32_t source(int64_t t, int32_t i) const { return impl.layers_.source(t, i); }
        int32_t label(int64_t t, int32_t i) const { return impl.layers_.label(t, i); }
        template <class Visit>
        void arrivals(int64_t t, int32_t i, const Visit& visit) const {
            if (t <= impl.T_) return impl.arrivals(x, t, i, visit);
            for (int32_t j = 0; j < impl.layers_[impl.T_].size(); j++) visit(j, 0.0);
        }
    };

    // A position, or the stop: one candidate with score 0.
    Candidates slot_at(const SlotSequence& x, int64_t t) const {
        static constexpr double kZero = 0;
        if (t > std::ssize(x.slot)) return {{&x.stop, 1}, {&kZero, 1}};
        const int32_t k = x.slot[t - 1];
        return {x.slots.labels.subspan(x.slots.from[k], x.slots.size(k)),
                x.slots.scores.subspan(x.slots.from[k], x.slots.size(k))};
    }
    // Score of a label at a position; -inf if it is not among the candidates.
    double score_of(const SlotSequence& x, int64_t t, int32_t label) const {
        const Candidates slot = slot_at(x, t);
        const auto at = std::lower_bound(slot.labels.begin(), slot.labels.end(), label);
        if (at == slot.labels.end() || *at != label) return kMinusInf;
        return slot.scores[at - slot.labels.begin()];
    }

    template <class A>
    struct Steps {
        Steps(const BackoffArcs& arcs, Layers& layers, Histories& h)
            : passing(arcs, layers, h), forward(passing), backward(arcs, h, passing.work) {}
        Passing<A> passing;
        Forward<A> forward;
        Backward<A> backward;
    };
    // Made when first used: most searches need one arithmetic.
    template <class A>
    Steps<A>& steps() {
        auto& made = std::get<std::optional<Steps<A>>>(steps_);
        if (!made) made.emplace(arcs_, layers_, histories_);
        return *made;
    }

    // Fills layers_[1 .. T] from layers_[0], the start; false where no state is reached.
    template <class A>
    bool forward(const SlotSequence& x) {
        T_ = std::ssize(x.slot) + (x.stop >= 0);
        layers_.grow(T_ + 1);
        layers_[0] = {0, {x.start}, {0.0}, {-1}, {0.0}};
        for (int64_t t = 1; t <= T_; t++) {
            const Candidates slot = slot_at(x, t);
            const Layer& before = layers_[t - 1];
            if (std::is_same_v<A, Real> && is_wide(before.score, slot))
                steps<Log>().forward.step(t, before, slot, layers_[t]);
            else
                steps<A>().forward.step(t, before, slot, layers_[t]);
            if (layers_[t].is_empty()) {
                dead_ = t - 1;
                return false;
            }
        }
        return true;
    }

    double total() const {
        double sum = kMinusInf;
        for (const double x : layers_[T_].score) sum = log_plus(sum, x);
        return sum;
    }

    // Whether products of one step may be too small for a double.
    bool is_wide(std::span<const double> scores, const Candidates& slot) const {
        constexpr double kWidest = 600;
        const auto width = [](std::span<const double> values) {
            double low = -kMinusInf, high = kMinusInf;
            for (const double x : values) {
                high = std::max(high, x);
                if (x > kMinusInf) low = std::min(low, x);
            }
            return high == kMinusInf ? 0 : high - low;
        };
        return !(width(scores) + width(slot.scores) + arcs_.width <= kWidest);
    }

    int32_t best_last() {
        const Layer& last = layers_[T_];
        int32_t best = 0;
        for (int32_t i = 1; i < last.size(); i++)
            if (last.score[i] > last.score[best] ||
                (last.score[i] == last.score[best] && layers_.comes_before(T_, i, best)))
                best = i;
        return best;
    }

    // Every way from layer t by a label: visit(node, score of the step, its arc).
    template <class Visit>
    void every_arrival(int64_t t, int32_t label, double emit, const Visit& visit) {
        const Layer& layer = layers_[t];
        const bool is_marked = histories_.needs_marks(layer);
        if (is_marked) histories_.mark_label(label);
        for (int64_t i = 0; i < layer.size(); i++) {
            if (layer.score[i] == kMinusInf) continue;
            double score = emit;
            const int32_t c = histories_.serve(layer.state_of(i), label, is_marked,
                                               [&](int32_t h) { score += table_.backoff[h]; });
            visit(static_cast<int32_t>(i), score + table_.log_prob[c], c);
        }
    }
    // Those that lead to node i of layer t: visit(node of layer t - 1, score of the step).
    template <class Visit>
    void arrivals(const SlotSequence& x, int64_t t, int32_t i, const Visit& visit) {
        const int32_t state = layers_[t].state_of(i), label = arcs_.label(state);
        every_arrival(t - 1, label, score_of(x, t, label),
                      [&](int32_t source, double score, int32_t c) {
                          if (table_.history_after(c) == state) visit(source, score);
                      });
    }

    const BackoffArcs& arcs_;
    const NGramTable& table_;
    Histories histories_;
    Layers layers_;
    std::tuple<std::optional<Steps<Best>>, std::optional<Steps<Real>>, std::optional<Steps<Log>>,
               std::optional<Steps<Expectation>>>
        steps_;
    int64_t T_ = 0;  // positions, and the stop
    int64_t dead_ = -1;
};

double BackoffSearch::Impl::marginals(const SlotSequence& x, double* probs) {
    const int64_t T = std::ssize(x.slot);
    std::vector<int64_t> from(T + 1);  // where the candidates of each position begin in probs
    for (int64_t t = 0; t < T; t++) from[t + 1] = from[t] + x.slots.size(x.slot[t]);
    std::fill_n(probs, from[T], 0.0);
    if (!forward<Real>(x)) return kMinusInf;
    std::vector<double> beta(layers_[T_].size(), 0.0), before;
    std::vector<int32_t> place(table_.n_words());  // of a label among the candidates
    for (int64_t t = T_; t > 0; t--) {
        const Layer& layer = layers_[t];
        const Candidates slot = slot_at(x, t);
        for (int64_t k = 0; k < slot.size(); k++) place[slot.labels[k]] = static_cast<int32_t>(k);
        if (t <= T) {
            // The scores of all states at a position sum to the partition; their own sum is not
            // off by rounding.
            double top = kMinusInf, sum = 0;
            for (int64_t i = 0; i < layer.size(); i++)
                top = std::max(top, layer.score[i] + beta[i]);
            double* out = probs + from[t - 1];
            for (int64_t i = 0; i < layer.size(); i++) {
                if (layer.score[i] == kMinusInf) continue;
                const double p = std::exp(layer.score[i] + beta[i] - top);
                out[place[layers_.label(t, i)]] += p;
                sum += p;
            }
            for (int64_t k = 0; k < slot.size(); k++) out[k] /= sum;
        }
        // What follows, seen from before the emission of this position.
        for (int64_t i = 0; i < layer.size(); i++)
            beta[i] = layer.score[i] == kMinusInf
                          ? kMinusInf
                          : beta[i] + slot.scores[place[layers_.label(t, i)]];
        if (is_wide(beta, slot))
            steps<Log>().backward.step(layers_[t - 1], slot, layer, beta, before);
        else
            steps<Real>().backward.step(layers_[t - 1], slot, layer, beta, before);
        beta.swap(before);
    }
    return total();
}

bool BackoffSearch::Impl::sample(const SlotSequence& x, int64_t n, const double* uniform,
                                 int64_t stride, int32_t* paths) {
    if (!forward<Real>(x)) return false;
    const int64_t T = std::ssize(x.slot);
    std::vector<int32_t> nodes;
    std::vector<double> scores;
    // One of the nodes, with probability proportional to exp(score).
    const auto draw = [&](double u) {
        const double top = *std::max_element(scores.begin(), scores.end());
        double sum = 0;
        for (double& score : scores) sum += score = std::exp(score - top);
        double rest = u * sum;
        std::size_t last = 0;
        for (std::size_t i = 0; i < scores.size(); i++) {
            if (scores[i] == 0) continue;
            last = i;
            rest -= scores[i];
            if (rest < 0) break;
        }
        return nodes[last];
    };
    for (int64_t k = 0; k < n && T > 0; k++) {
        const double* u = uniform + k * stride;
        const auto collect = [&](int64_t t, int32_t source, double score) {
            nodes.push_back(source);
            scores.push_back(layers_[t].score[source] + score);
        };
        nodes.clear();
        scores.clear();
        if (x.stop >= 0)
            every_arrival(T, x.stop, 0, [&](int32_t source, double score, int32_t) {
                collect(T, source, score);
            });
        else
            for (int32_t i = 0; i < layers_[T].size(); i++) collect(T, i, 0);
        for (int64_t t = T;; t--) {
            const int32_t node = draw(u[t - 1]);
            paths[k * stride + t - 1] = layers_.label(t, node);
            if (t == 1) break;
            nodes.clear();
            scores.clear();
            arrivals(x, t, node,
                     [&](int32_t source, double score) { collect(t - 1, source, score); });
        }
    }
    return true;
}

BackoffSearch::BackoffSearch(const BackoffArcs& arcs) : impl_(std::make_unique<Impl>(arcs)) {}
BackoffSearch::~BackoffSearch() = default;

double BackoffSearch::viterbi(const SlotSequence& x, int32_t* path) {
    return impl_->viterbi(x, path);
}
void BackoffSearch::nbest(const SlotSequence& x, int64_t n, std::vector<int32_t>& paths,
                          std::vector<double>& scores) {
    impl_->nbest(x, n, paths, scores);
}
double BackoffSearch::log_partition(const SlotSequence& x) { return impl_->log_partition(x); }
double BackoffSearch::marginals(const SlotSequence& x, double* probs) {
    return impl_->marginals(x, probs);
}
double BackoffSearch::entropy(const SlotSequence& x, double& log_z) {
    return impl_->entropy(x, log_z);
}
bool BackoffSearch::sample(const SlotSequence& x, int64_t n, const double* uniform, int64_t stride,
                           int32_t* paths) {
    return impl_->sample(x, n, uniform, stride, paths);
}
int64_t BackoffSearch::first_dead_position(const SlotSequence& x) {
    return impl_->first_dead_position(x);
}
double BackoffSearch::path_score(const SlotSequence& x, const int32_t* path) const {
    return impl_->path_score(x, path);
}

}  // namespace tagloom
