// Sums, samples and entropies over candidate labels. The forward pass is in candidate_forward.hpp;
// what follows it runs from the last position to the first, on the probabilities of a candidate i
// given the candidate j after it:
//
//   gamma[j at T-1] = Pr(j at T-1)
//   xi[i, j]        = gamma[j] * Pr(i at t-1 | j at t)
//   gamma[i]        = sum_j xi[i, j]
//
// Order 2 is the same on pairs of candidates, which candidate_pairs.cpp sums.
//
// The entropy runs forwards, with h[j] that of the path up to j, given j:
//
//   h[j] = sum_i q[i] * (h[i] - log q[i]),  q[i] = Pr(i at t-1 | j at t)

#include "core/candidates.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/candidate_forward.hpp"

namespace tagloom {
namespace {

constexpr int64_t kShards = 16;  // pieces of a batch, whatever the number of threads
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// Scaled probabilities for the sequences that they suffice for, log space for the others.
template <class In>
class Forward {
  public:
    Forward(const CandidateBatch<In>& batch, const CandidateProbabilities& probabilities)
        : scaled_(batch, probabilities), log_(batch) {}

    // use(forward) with one that has run; returns log_z. Without a path, use is not called.
    template <class Use>
    double run(const CandidateSequence<In>& x, const Use& use) {
        if (scaled_.run(x)) {
            use(scaled_);
            return scaled_.log_z();
        }
        ++n_in_log_space_;
        if (log_.run(x)) use(log_);
        return log_.log_z();
    }
    int64_t n_in_log_space() const { return n_in_log_space_; }

  private:
    ScaledForward<In> scaled_;
    LogForward<In> log_;
    int64_t n_in_log_space_ = 0;
};

// What one shard adds up.
template <class In>
class ExpectedShard {
  public:
    ExpectedShard(const CandidateBatch<In>& batch, const CandidateExpected<In>& expected)
        : batch_(batch), expected_(expected) {
        if (expected.transitions) transitions.resize(batch.Y * batch.Y);
        if (expected.start) start.resize(batch.Y);
        if (expected.stop) stop.resize(batch.Y);
        if (expected.trigrams) trigrams.resize(batch.trigrams->trigrams.size());
    }

    void add_to(const CandidateExpected<In>& all) const {
        add(transitions, all.transitions);
        add(start, all.start);
        add(stop, all.stop);
        add(trigrams, all.trigrams);
    }

  protected:
    // With the probability gamma of each candidate.
    void write(const CandidateSequence<In>& x, int64_t position, double weight,
               const std::vector<double>& gamma) {
        for (int64_t j = 0; expected_.candidates && j < x.size(); ++j)
            expected_.candidates[x.first + j] = static_cast<In>(gamma[j]);
        for (int64_t t = 0; expected_.marginals && t < x.T; ++t)
            for (int64_t j = x.begin(t); j < x.end(t); ++j)
                expected_.marginals[(position + t) * batch_.Y + x.label[j]] =
                    static_cast<In>(gamma[j]);
        for (int64_t j = 0; !start.empty() && j < x.end(0); ++j)
            start[x.label[j]] += weight * gamma[j];
        for (int64_t j = x.begin(x.T - 1); !stop.empty() && j < x.size(); ++j)
            stop[x.label[j]] += weight * gamma[j];
    }

    std::vector<double> transitions, start, stop, trigrams;
    const CandidateBatch<In>& batch_;
    const CandidateExpected<In>& expected_;

  private:
    static void add(const std::vector<double>& from, double* to) {
        for (std::size_t j = 0; j < from.size(); ++j) to[j] += from[j];
    }
};

// The backward pass of one shard.
template <class In>
class Expectations : public ExpectedShard<In> {
    using Base = ExpectedShard<In>;
    using Base::batch_, Base::expected_, Base::transitions;

  public:
    using Base::Base;

    template <class Weights>
    void run(Weights& forward, const CandidateSequence<In>& x, int64_t position, double weight) {
        gamma_.assign(x.size(), 0.0);
        const int64_t last = x.begin(x.T - 1);
        weights_.resize(x.size());
        const double inverse = 1 / forward.last(x, weights_.data());
        for (int64_t j = last; j < x.size(); ++j) gamma_[j] = weights_[j - last] * inverse;
        if constexpr (requires { forward.sums(); }) {
            if (!transitions.empty() && !expected_.pairs) {
                for (int64_t t = x.T - 1; t > 0; --t) step_back_counting(forward, x, t, weight);
                this->write(x, position, weight, gamma_);
                return;
            }
        }
        for (int64_t t = x.T - 1; t > 0; --t) step_back(forward, x, position, t, weight);
        this->write(x, position, weight, gamma_);
    }

  private:
    template <class Weights>
    void step_back(Weights& forward, const CandidateSequence<In>& x, int64_t position, int64_t t,
                   double weight) {
        const int64_t begin = x.begin(t - 1), n = x.begin(t) - begin, Y = batch_.Y;
        const int32_t* label = x.label + begin;
        double *gamma = gamma_.data() + begin, *w = weights_.data();
        for (int64_t j = x.begin(t); j < x.end(t); ++j) {
            const double sum = forward.into(x, t, j, w);
            if (!(sum > 0)) continue;
            const double factor = gamma_[j] / sum;
            for (int64_t i = 0; i < n; ++i) gamma[i] += w[i] *= factor;  // w becomes xi
            if (!transitions.empty()) {
                double* to = transitions.data() + x.label[j];
                for (int64_t i = 0; i < n; ++i) to[label[i] * Y] += weight * w[i];
            }
            if (expected_.pairs) {
                In* to = expected_.pairs + (position + t) * Y * Y + x.label[j];
                for (int64_t i = 0; i < n; ++i) to[label[i] * Y] = static_cast<In>(w[i]);
            }
        }
    }

    // The same with the sums of the forward pass, for counts of transitions and no pairs. Most
    // lists have one candidate or two: what matters is the number of loops.
    void step_back_counting(const ScaledForward<In>& forward, const CandidateSequence<In>& x,
                            int64_t t, double weight) {
        const int64_t begin = x.begin(t - 1), n = x.begin(t) - begin, Y = batch_.Y;
        const int32_t* label = x.label + begin;
        double* gamma = gamma_.data() + begin;
        if (n == 1) {
            double* to = transitions.data() + label[0] * Y;
            for (int64_t j = x.begin(t); j < x.end(t); ++j) {
                gamma[0] += gamma_[j];
                to[x.label[j]] += weight * gamma_[j];
            }
            return;
        }
        const double *alpha = forward.alpha() + begin, *sums = forward.sums();
        for (int64_t j = x.begin(t); j < x.end(t); ++j) {
            if (!(sums[j] > 0)) continue;
            const double factor = gamma_[j] / sums[j];
            const double* P = forward.transitions() + x.label[j];
            double* to = transitions.data() + x.label[j];
            for (int64_t i = 0; i < n; ++i) {
                const double xi = alpha[i] * P[label[i] * Y] * factor;
                gamma[i] += xi;
                to[label[i] * Y] += weight * xi;
            }
        }
    }

    std::vector<double> gamma_, weights_;  // [C] of a sequence
};

// The sums of order 2, on pairs of candidates.
template <class In>
class PairExpectations : public ExpectedShard<In> {
    using Base = ExpectedShard<In>;
    using Base::batch_, Base::expected_, Base::transitions, Base::trigrams;

  public:
    using Base::Base;

    double sum(const CandidateSequence<In>& x) {
        set_pairs(batch_, x, pairs_);
        return pairs_.sum();
    }
    // After that, for a sequence with a path.
    void run(const CandidateSequence<In>& x, int64_t position, double weight) {
        const int64_t Y = batch_.Y;
        const std::vector<double>& gamma = pairs_.expect([&](int64_t k, double expected) {
            if (!trigrams.empty()) trigrams[k] += weight * expected;
        });
        of_candidates_.assign(x.size(), 0.0);
        for (int64_t t = 0; t < x.T; ++t)
            for (int64_t v = pairs_.begin(t); v < pairs_.end(t); ++v) {
                const int64_t j = pairs_.newer(t, v), i = pairs_.older(t, v);
                of_candidates_[j] += gamma[v];
                if (i < 0) continue;
                const int64_t pair = x.label[i] * Y + x.label[j];
                if (!transitions.empty()) transitions[pair] += weight * gamma[v];
                if (expected_.pairs)
                    expected_.pairs[(position + t) * Y * Y + pair] = static_cast<In>(gamma[v]);
            }
        this->write(x, position, weight, of_candidates_);
    }

  private:
    CandidatePairs pairs_;
    std::vector<double> of_candidates_;  // [C] of a sequence
};

// The first of n weights whose cumulative sum exceeds u times the total, which is positive.
int64_t choose(const double* weights, int64_t n, double total, double u) {
    const double limit = std::min(u, 0x1.fffffffffffffp-1) * total;
    double sum = 0;
    int64_t last = 0;  // with a weight above 0
    for (int64_t i = 0; i < n; ++i) {
        if (!(weights[i] > 0)) continue;
        sum += weights[i];
        last = i;
        if (sum > limit) break;
    }
    return last;
}

// sum_i q[i] * (h[i] - log q[i]) for weights that sum to `total`.
double mixed_entropy(const double* weights, const double* h, int64_t n, double total) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
        const double q = weights[i] / total;
        if (q > 0) sum += q * (h[i] - (q < 1 ? std::log(q) : 0));
    }
    return sum;
}

template <class In>
void sample_pairs(const CandidateBatch<In>& batch, int64_t draws, const double* uniform,
                  int32_t* paths, double* log_z) {
    in_candidate_shards<kShards>(batch, [&](int64_t first, int64_t last, int64_t) {
        CandidatePairs pairs;
        for (int64_t i = first; i < last; ++i) {
            log_z[i] = 0;
            if (batch.length(i) == 0) continue;
            const CandidateSequence<In> x(batch, i);
            set_pairs(batch, x, pairs);
            log_z[i] = pairs.sum();
            for (int64_t k = 0; log_z[i] != kMinusInfinity && k < draws; ++k) {
                int64_t v = 0;  // node of position t
                for (int64_t t = x.T - 1; t >= 0; --t) {
                    const bool is_last = t == x.T - 1;
                    const auto probs = is_last ? pairs.last() : pairs.before(t + 1, v);
                    const int64_t at = batch.offsets[i] + t, n = std::ssize(probs);
                    v = (is_last ? pairs.begin(t) : pairs.block(t + 1, v)) +
                        choose(probs.data(), n, 1.0, uniform[at * draws + k]);
                    paths[k * batch.offsets[batch.N] + at] = x.label[pairs.newer(t, v)];
                }
            }
        }
    });
}

}  // namespace

template <class In>
int64_t sum(const CandidateBatch<In>& batch, const double* weight,
            const CandidateExpected<In>& expected, double* log_z) {
    const bool backward = expected.candidates || expected.marginals || expected.pairs ||
                          expected.transitions || expected.start || expected.stop ||
                          expected.trigrams;
    auto weight_of = [&](int64_t i) { return weight ? weight[i] : 1.0; };
    if (batch.trigrams) {
        std::vector<PairExpectations<In>> shards(kShards, PairExpectations<In>(batch, expected));
        in_candidate_shards<kShards>(batch, [&](int64_t first, int64_t last, int64_t shard) {
            for (int64_t i = first; i < last; ++i) {
                log_z[i] = 0;
                if (batch.length(i) == 0) continue;
                const CandidateSequence<In> x(batch, i);
                log_z[i] = shards[shard].sum(x);
                if (backward && log_z[i] != kMinusInfinity)
                    shards[shard].run(x, batch.offsets[i], weight_of(i));
            }
        });
        for (const auto& shard : shards) shard.add_to(expected);
        return 0;
    }
    const CandidateProbabilities probabilities(batch);
    std::vector<Expectations<In>> shards(kShards, Expectations<In>(batch, expected));
    std::vector<int64_t> in_log_space(kShards);
    in_candidate_shards<kShards>(batch, [&](int64_t first, int64_t last, int64_t shard) {
        Forward<In> forward(batch, probabilities);
        for (int64_t i = first; i < last; ++i) {
            log_z[i] = 0;
            if (batch.length(i) == 0) continue;
            const CandidateSequence<In> x(batch, i);
            log_z[i] = forward.run(x, [&](auto& weights) {
                if (backward) shards[shard].run(weights, x, batch.offsets[i], weight_of(i));
            });
        }
        in_log_space[shard] = forward.n_in_log_space();
    });
    int64_t n_in_log_space = 0;
    for (int64_t shard = 0; shard < kShards; ++shard) {
        n_in_log_space += in_log_space[shard];
        shards[shard].add_to(expected);
    }
    return n_in_log_space;
}

template <class In>
void sample(const CandidateBatch<In>& batch, int64_t draws, const double* uniform, int32_t* paths,
            double* log_z) {
    const int64_t total_length = batch.offsets[batch.N];
    std::fill_n(paths, draws * total_length, -1);
    if (batch.trigrams) {
        sample_pairs(batch, draws, uniform, paths, log_z);
        return;
    }
    const CandidateProbabilities probabilities(batch);
    in_candidate_shards<kShards>(batch, [&](int64_t first, int64_t last, int64_t) {
        Forward<In> forward(batch, probabilities);
        std::vector<double> weights;
        std::vector<int64_t> chosen(draws);
        for (int64_t i = first; i < last; ++i) {
            log_z[i] = 0;
            if (batch.length(i) == 0) continue;
            const CandidateSequence<In> x(batch, i);
            weights.resize(x.size());
            log_z[i] = forward.run(x, [&](auto& from) {
                for (int64_t t = x.T - 1; t >= 0; --t)
                    for (int64_t k = 0; k < draws; ++k) {
                        const bool is_last = t == x.T - 1;
                        const double sum = is_last ? from.last(x, weights.data())
                                                   : from.into(x, t + 1, chosen[k], weights.data());
                        const int64_t at = batch.offsets[i] + t;
                        const int64_t n = x.end(t) - x.begin(t);
                        chosen[k] =
                            x.begin(t) + choose(weights.data(), n, sum, uniform[at * draws + k]);
                        paths[k * total_length + at] = x.label[chosen[k]];
                    }
            });
        }
    });
}

template <class In>
void entropy(const CandidateBatch<In>& batch, double* entropy, double* log_z) {
    if (batch.trigrams) {
        in_candidate_shards<kShards>(batch, [&](int64_t first, int64_t last, int64_t) {
            CandidatePairs pairs;
            for (int64_t i = first; i < last; ++i) {
                entropy[i] = log_z[i] = 0;
                if (batch.length(i) == 0) continue;
                set_pairs(batch, CandidateSequence<In>(batch, i), pairs);
                log_z[i] = pairs.sum();
                if (log_z[i] != kMinusInfinity) entropy[i] = pairs.entropy();
            }
        });
        return;
    }
    const CandidateProbabilities probabilities(batch);
    in_candidate_shards<kShards>(batch, [&](int64_t first, int64_t last, int64_t) {
        Forward<In> forward(batch, probabilities);
        std::vector<double> weights, h;
        for (int64_t i = first; i < last; ++i) {
            entropy[i] = log_z[i] = 0;
            if (batch.length(i) == 0) continue;
            const CandidateSequence<In> x(batch, i);
            weights.resize(x.size());
            h.assign(x.size(), 0.0);
            log_z[i] = forward.run(x, [&](auto& from) {
                for (int64_t t = 1; t < x.T; ++t)
                    for (int64_t j = x.begin(t); j < x.end(t); ++j) {
                        const double sum = from.into(x, t, j, weights.data());
                        const int64_t begin = x.begin(t - 1), n = x.begin(t) - begin;
                        if (sum > 0) h[j] = mixed_entropy(weights.data(), &h[begin], n, sum);
                    }
                const int64_t begin = x.begin(x.T - 1);
                const double sum = from.last(x, weights.data());
                entropy[i] = mixed_entropy(weights.data(), &h[begin], x.size() - begin, sum);
            });
        }
    });
}

#define TL_INSTANTIATE(In)                                                                \
    template int64_t sum<In>(const CandidateBatch<In>&, const double*,                    \
                             const CandidateExpected<In>&, double*);                      \
    template void sample<In>(const CandidateBatch<In>&, int64_t, const double*, int32_t*, \
                             double*);                                                    \
    template void entropy<In>(const CandidateBatch<In>&, double*, double*);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)

}  // namespace tagloom
