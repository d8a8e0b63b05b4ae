// The forward pass over candidate labels, in scaled probabilities and in log space. With the
// candidates j of position t, their labels y_j, and m[t] = max_j score[j]:
//
//   row[j]   = exp(score[j] - m[t])                      (at t = 0 start is added to the scores)
//   alpha[j] = row[j] * sum_i alpha[i] * P[y_i, y_j],    i over the candidates of t-1
//   log_z    = log sum_j alpha[j] * stop[y_j], j over the last candidates, + all offsets
//
// All that is read afterwards are two kinds of weights, each up to a common factor, so that all
// other code is the same for both:
//
//   into(t, j)  Pr(i at t-1 | j at t), over the candidates i of t-1
//   last()      Pr(j at T-1)
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/candidate_pairs.hpp"
#include "core/candidates.hpp"
#include "core/dispatch.hpp"
#include "core/losses.hpp"
#include "core/threads.hpp"

namespace tagloom {

// The candidates of one sequence, numbered from 0.
template <class In>
struct CandidateSequence {
    int64_t T;
    int64_t first;         // the sequence's first candidate in the batch
    const int64_t* rows;   // [T + 1] as in the batch: subtract `first`
    const int32_t* label;  // [C]
    const In* score;       // [C]

    CandidateSequence(const CandidateBatch<In>& batch, int64_t i)
        : T(batch.length(i)),
          first(batch.rows[batch.offsets[i]]),
          rows(batch.rows + batch.offsets[i]),
          label(batch.label + first),
          score(batch.score + first) {}

    int64_t begin(int64_t t) const { return rows[t] - first; }
    int64_t end(int64_t t) const { return rows[t + 1] - first; }
    int64_t size() const { return rows[T] - first; }
};

// Sets the pairs of candidates of a sequence, in a batch with trigrams.
template <class In>
void set_pairs(const CandidateBatch<In>& batch, const CandidateSequence<In>& x,
               CandidatePairs& pairs) {
    pairs.set(
        batch.trigrams->trigrams, batch.trigrams->weights.data(), x.T, x.rows, x.label, x.score,
        [&](int32_t y_prev, int32_t y) { return batch.trans[y_prev * batch.Y + y]; },
        [&](int32_t y) { return batch.start[y]; }, [&](int32_t y) { return batch.stop[y]; });
}

// Turns scores into exp(score - offset) and returns the offset, their largest; sets has_small if
// one that is not forbidden becomes less than `tiny`.
inline double scaled_exponentials(std::vector<double>& x, bool& has_small) {
    double top = *std::max_element(x.begin(), x.end());
    if (std::isinf(top)) top = 0;
    for (double& value : x) {
        value -= top;
        has_small |= value < log_tiny && !std::isinf(value);
    }
    kernels().exp(x.data(), static_cast<int64_t>(x.size()));
    return top;
}

// Calls work(first, last, shard) for pieces of a batch with about as many candidates each.
template <int64_t kShards, class Batch, class Work>
void in_candidate_shards(const Batch& batch, const Work& work) {
    const int64_t C = batch.rows[batch.offsets[batch.N]];
    std::vector<int64_t> first(kShards + 1, batch.N);
    int64_t shard = 0;
    for (int64_t i = 0; i < batch.N; ++i)
        for (; shard * C <= kShards * batch.rows[batch.offsets[i]] && shard < kShards; ++shard)
            first[shard] = i;
    // Threads take longer to wake than a small batch takes.
    const int64_t threads = C < 5000 ? 1 : batch.threads;
    parallel_for(kShards, threads, [&](int64_t s, int64_t) { work(first[s], first[s + 1], s); });
}

// Probabilities exp(score - offset) of transitions and stops, shared by all sequences.
struct CandidateProbabilities {
    std::vector<double> trans, stop;  // [Y, Y], [Y]
    bool has_small = false;  // whether one that is not forbidden is below `tiny`; set by the next
    double trans_offset, stop_offset;

    template <class In>
    explicit CandidateProbabilities(const CandidateBatch<In>& batch)
        : trans(batch.trans, batch.trans + batch.Y * batch.Y),
          stop(batch.stop, batch.stop + batch.Y),
          trans_offset(scaled_exponentials(trans, has_small)),
          stop_offset(scaled_exponentials(stop, has_small)) {}
};

// A sum of doubles whose rounding errors are kept aside (Knuth's two-sum, which does not branch).
class CompensatedSum {
  public:
    void add(double x) {
        const double t = value_ + x, added = t - value_;
        lost_ += (value_ - (t - added)) + (x - added);
        value_ = t;
    }
    double total() const { return value_ + lost_; }

  private:
    double value_ = 0, lost_ = 0;
};

template <class In>
class ScaledForward {
  public:
    ScaledForward(const CandidateBatch<In>& batch, const CandidateProbabilities& probabilities)
        : batch_(batch), P_(probabilities) {}

    // False unless the total is proven; see losses.hpp.
    bool run(const CandidateSequence<In>& x) {
        fill_rows(x);
        if (!has_small_row_ && !P_.has_small && pass<false>(x)) return true;
        delta_.resize(x.size());
        return pass<true>(x);
    }

    double log_z() const { return log_z_; }
    const double* alpha() const { return alpha_.data(); }
    // sums()[j] = sum_i alpha[i] * P[y_i, y_j], from t = 1 on.
    const double* sums() const { return sums_.data(); }
    const double* transitions() const { return P_.trans.data(); }
    // weights[i - begin(t-1)]; returns their sum.
    double into(const CandidateSequence<In>& x, int64_t t, int64_t j, double* weights) const {
        const double* P = P_.trans.data() + x.label[j];
        const int64_t begin = x.begin(t - 1), n = x.begin(t) - begin;
        const double* alpha = alpha_.data() + begin;
        const int32_t* label = x.label + begin;
        double sum = 0;
        for (int64_t i = 0; i < n; ++i) sum += weights[i] = alpha[i] * P[label[i] * batch_.Y];
        return sum;
    }
    double last(const CandidateSequence<In>& x, double* weights) const {
        const int64_t begin = x.begin(x.T - 1), n = x.size() - begin;
        double sum = 0;
        for (int64_t j = 0; j < n; ++j)
            sum += weights[j] = alpha_[begin + j] * P_.stop[x.label[begin + j]];
        return sum;
    }

  private:
    // row, for the whole sequence, and the sum of m.
    void fill_rows(const CandidateSequence<In>& x) {
        const int64_t C = x.size();
        alpha_.resize(C);
        sums_.resize(C);
        row_.resize(C);
        double* row = row_.data();
        for (int64_t j = 0; j < C; ++j) row[j] = x.score[j];
        for (int64_t j = 0; j < x.end(0); ++j) row[j] += batch_.start[x.label[j]];
        offset_ = {};
        for (int64_t t = 0; t < x.T; ++t) {
            const int64_t begin = x.begin(t), end = x.end(t);
            double top = kMinusInfinity;
            for (int64_t j = begin; j < end; ++j) top = row[j] > top ? row[j] : top;
            if (top == kMinusInfinity) continue;
            offset_.add(top);
            for (int64_t j = begin; j < end; ++j) row[j] -= top;
        }
        double low = 0;
        for (int64_t j = 0; j < C; ++j) low = std::min(low, row[j] > kMinusInfinity ? row[j] : 0.0);
        has_small_row_ = low < log_tiny;
        kernels().exp(row, C);
    }

    // alpha, rescaled by a power of two where its largest leaves kLow .. 1 / kLow, and with
    // `follow` at every position. Without it, gives up at the first number that is small beside the
    // largest.
    template <bool follow>
    bool pass(const CandidateSequence<In>& x) {
        const int64_t Y = batch_.Y;
        const double *P = P_.trans.data(), *row = row_.data();
        double *alpha = alpha_.data(), *delta = delta_.data(), *sums = sums_.data();
        int64_t exponents = 0;
        double largest_delta = 0;
        for (int64_t t = 0, before = 0; t < x.T; ++t) {
            const int64_t begin = x.begin(t), end = x.end(t);
            double peak = 0, low = 1;
            const double added = follow ? newly_lost<double>(Y, 1, largest_delta) : 0;
            for (int64_t j = begin; j < end; ++j) {
                const double* into = P + x.label[j];
                double sum = t == 0, lost = 0;
                for (int64_t i = before; i < begin; ++i) {
                    const double p = into[x.label[i] * Y];
                    sum += alpha[i] * p;
                    if constexpr (follow) lost += delta[i] * p;
                }
                sums[j] = sum;
                const double a = alpha[j] = row[j] * sum;
                peak = a > peak ? a : peak;
                if constexpr (follow) {
                    delta[j] = row[j] * lost + added;
                } else {
                    const double reachable = a > 0 ? a : 1;
                    low = reachable < low ? reachable : low;
                }
            }
            before = begin;
            if (!(peak > 0)) return false;  // log space decides whether there is a path
            if (!follow && low < kTiny * peak) return false;
            largest_delta = 0;
            for (int64_t j = begin; follow && j < end; ++j)
                largest_delta = std::max(largest_delta, delta[j]);
            if (!follow && peak >= kLow && peak <= 1 / kLow) continue;
            const int64_t exponent = std::bit_cast<int64_t>(peak) >> 52;  // with a bias of 1023
            const double scale = std::bit_cast<double>((2046 - exponent) << 52);
            exponents += exponent - 1023;
            for (int64_t j = begin; j < end; ++j) alpha[j] *= scale;
            for (int64_t j = begin; follow && j < end; ++j) delta[j] *= scale;
            largest_delta *= scale;
        }
        return total<follow>(x, exponents, largest_delta);
    }

    template <bool follow>
    bool total(const CandidateSequence<In>& x, int64_t exponents, double largest_delta) {
        double z = 0, lost = 0, peak = 0;
        for (int64_t j = x.begin(x.T - 1); j < x.size(); ++j) {
            z += alpha_[j] * P_.stop[x.label[j]];
            peak = std::max(peak, alpha_[j]);
            if constexpr (follow) lost += delta_[j] * P_.stop[x.label[j]];
        }
        if (!(z > 0) || (follow && !is_proven(z, lost, batch_.Y, peak, largest_delta)))
            return false;
        CompensatedSum sum = offset_;
        sum.add(std::log(z));
        sum.add(double(x.T - 1) * P_.trans_offset);
        sum.add(P_.stop_offset);
        sum.add(double(exponents) * 0.693147180559945309417);
        log_z_ = sum.total();
        return true;
    }

    // All alpha are above kTiny * kLow without `follow`, so that the product of an alpha, a
    // transition and a row is a normal number.
    static constexpr double kLow = 0x1p-32, kTiny = 1e-90;
    static constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

    const CandidateBatch<In>& batch_;
    const CandidateProbabilities& P_;
    std::vector<double> row_, alpha_, sums_, delta_;  // [C] of the sequence
    CompensatedSum offset_;                           // sum of m
    bool has_small_row_ = false;
    double log_z_ = 0;
};

// The same in log space, for any scores: alpha[t] less its maximum.
template <class In>
class LogForward {
  public:
    explicit LogForward(const CandidateBatch<In>& batch) : batch_(batch) {}

    // False if the sequence has no path.
    bool run(const CandidateSequence<In>& x) {
        alpha_.resize(x.size());
        CompensatedSum total;
        for (int64_t t = 0; t < x.T; ++t) {
            const int64_t begin = x.begin(t), end = x.end(t);
            weights_.resize(std::max<int64_t>(end - begin, t > 0 ? begin - x.begin(t - 1) : 0));
            double peak = kMinusInfinity;
            for (int64_t j = begin; j < end; ++j) {
                double before = t == 0 ? batch_.start[x.label[j]] : kMinusInfinity;
                if (t > 0) {
                    const double sum = into(x, t, j, weights_.data());
                    before = sum > 0 ? top_ + std::log(sum) : kMinusInfinity;
                }
                alpha_[j] = before + double(x.score[j]);
                peak = std::max(peak, alpha_[j]);
            }
            if (peak == kMinusInfinity) return no_path();
            total.add(peak);
            for (int64_t j = begin; j < end; ++j) alpha_[j] -= peak;
        }
        weights_.resize(x.size() - x.begin(x.T - 1));
        const double sum = last(x, weights_.data());
        if (!(sum > 0)) return no_path();
        total.add(top_);
        total.add(std::log(sum));
        log_z_ = total.total();
        return true;
    }

    double log_z() const { return log_z_; }
    double into(const CandidateSequence<In>& x, int64_t t, int64_t j, double* weights) {
        const int64_t begin = x.begin(t - 1), n = x.begin(t) - begin;
        const double* trans = batch_.trans + x.label[j];
        for (int64_t i = 0; i < n; ++i)
            weights[i] = alpha_[begin + i] + trans[x.label[begin + i] * batch_.Y];
        return exponentials(weights, n);
    }
    double last(const CandidateSequence<In>& x, double* weights) {
        const int64_t begin = x.begin(x.T - 1), n = x.size() - begin;
        for (int64_t j = 0; j < n; ++j)
            weights[j] = alpha_[begin + j] + batch_.stop[x.label[begin + j]];
        return exponentials(weights, n);
    }

  private:
    static constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

    bool no_path() {
        log_z_ = kMinusInfinity;
        return false;
    }
    // exp(x - top_) with top_ the largest; returns the sum, 0 if all are -inf.
    double exponentials(double* x, int64_t n) {
        top_ = kMinusInfinity;
        for (int64_t i = 0; i < n; ++i) top_ = std::max(top_, x[i]);
        if (top_ == kMinusInfinity) {
            std::fill_n(x, n, 0.0);
            return 0;
        }
        for (int64_t i = 0; i < n; ++i) x[i] -= top_;
        kernels().exp(x, n);
        double sum = 0;
        for (int64_t i = 0; i < n; ++i) sum += x[i];
        return sum;
    }

    const CandidateBatch<In>& batch_;
    std::vector<double> alpha_, weights_;
    double top_ = 0, log_z_ = 0;
};

}  // namespace tagloom
