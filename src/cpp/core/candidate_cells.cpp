// The pass over one sequence, with the candidates j of position t, their labels y_j, and row[j] the
// probability of their cell divided by the largest of its row in the table:
//
//   alpha[j] = c[t] * row[j] * sum_i alpha[i] * P[y_i, y_j],   i over the candidates of t-1
//   b[j]     = c[t] * row[j] * beta[j]
//   beta[i]  = sum_j P[y_i, y_j] * b[j],                       j over those of t+1
//   gamma[j] = alpha[j] * beta[j],  xi[i, j] = alpha[i] * P[y_i, y_j] * b[j]
//
// beta begins with weight * stop / z, so that both are counts already. c[t] is a power of two that
// keeps alpha near 1. The factor P of the expected transitions is common to all sequences and is
// multiplied with at the end.

#include "core/candidate_cells.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/candidate_forward.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

constexpr int64_t kShards = 16;  // pieces of a batch, whatever the number of threads
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// exp(score - largest score of the row) of each cell.
struct CellProbabilities {
    std::vector<double> prob, top;  // [K]
    bool has_small = false;         // whether one that is not 0 is below `tiny`

    explicit CellProbabilities(const CandidateCells& batch) : prob(batch.K), top(batch.K) {
        for (int64_t k = 0, end; k < batch.K; k = end) {
            const int64_t row = batch.place[k] / batch.Y;
            double largest = kMinusInfinity;
            for (end = k; end < batch.K && batch.place[end] < (row + 1) * batch.Y; ++end)
                largest = std::max(largest, batch.score[end]);
            if (std::isinf(largest)) largest = 0;
            for (int64_t j = k; j < end; ++j) {
                top[j] = largest;
                prob[j] = batch.score[j] - largest;
                has_small |= prob[j] < log_tiny && !std::isinf(prob[j]);
            }
        }
        kernels().exp(prob.data(), batch.K);
    }
};

// Transitions, starts and stops as probabilities, each less its offset.
struct ChainProbabilities {
    std::vector<double> trans, into, start, stop;  // [Y, Y], its transpose, [Y], [Y]
    bool has_small = false;                        // set by the next
    double trans_offset, start_offset, stop_offset;

    explicit ChainProbabilities(const CandidateCells& batch)
        : trans(batch.trans, batch.trans + batch.Y * batch.Y),
          into(batch.Y * batch.Y),
          start(batch.start, batch.start + batch.Y),
          stop(batch.stop, batch.stop + batch.Y),
          trans_offset(scaled_exponentials(trans, has_small)),
          start_offset(scaled_exponentials(start, has_small)),
          stop_offset(scaled_exponentials(stop, has_small)) {
        for (int64_t a = 0; a < batch.Y; ++a)
            for (int64_t b = 0; b < batch.Y; ++b) into[b * batch.Y + a] = trans[a * batch.Y + b];
    }
};

// The counts of one shard, and its memory.
class Shard {
  public:
    Shard(const CandidateCells& batch, const CellProbabilities& cells,
          const ChainProbabilities& chain, int64_t longest)
        : counts_(batch.K + batch.Y * batch.Y + 2 * batch.Y),
          batch_(batch),
          cells_(cells),
          chain_(chain),
          row_(longest),
          alpha_(longest),
          beta_(longest) {}

    // log_z of sequence i, after its counts; -inf if the pass does not apply.
    double run(int64_t i, double weight) {
        first_ = batch_.rows[batch_.offsets[i]];
        rows_ = batch_.rows + batch_.offsets[i];
        T_ = batch_.offsets[i + 1] - batch_.offsets[i];
        label_ = batch_.label + first_;
        cell_ = batch_.cell + first_;
        double z = 0;
        CompensatedSum log_z;
        if (!forward(log_z)) return kMinusInfinity;
        for (int64_t j = begin(T_ - 1); j < begin(T_); ++j) z += alpha_[j] * chain_.stop[label_[j]];
        if (!(z > 0)) return kMinusInfinity;
        backward(weight / z);
        log_z.add(std::log(z));
        log_z.add(double(T_ - 1) * chain_.trans_offset);
        log_z.add(chain_.start_offset);
        log_z.add(chain_.stop_offset);
        return log_z.total();
    }

    void add_to(const CellCounts& counts) const {
        const int64_t Y = batch_.Y;
        const double* from = counts_.data();
        for (int64_t k = 0; k < batch_.K; ++k) counts.cells[k] += *from++;
        for (int64_t k = 0; k < Y * Y; ++k) counts.transitions[k] += chain_.trans[k] * *from++;
        for (int64_t y = 0; y < Y; ++y) counts.start[y] += *from++;
        for (int64_t y = 0; y < Y; ++y) counts.stop[y] += *from++;
    }

  private:
    int64_t begin(int64_t t) const { return rows_[t] - first_; }

    bool forward(CompensatedSum& log_z) {
        const int64_t Y = batch_.Y;
        double *row = row_.data(), *alpha = alpha_.data();
        const int32_t* label = label_;
        const double* prob = cells_.prob.data();
        const int64_t C = begin(T_);
        for (int64_t j = 0; j < C; ++j) row[j] = prob[cell_[j]];
        int64_t exponents = 0;
        for (int64_t t = 0, before = 0; t < T_; ++t) {
            const int64_t from = begin(t), to = begin(t + 1), n = from - before;
            if (from == to) return false;
            log_z.add(cells_.top[cell_[from]]);
            if (t == 0) {
                for (int64_t j = 0; j < to; ++j) alpha[j] = row[j] * chain_.start[label[j]];
            } else if (n == 1) {
                const double* P = chain_.trans.data() + label[before] * Y;
                const double a = alpha[before];
                for (int64_t j = from; j < to; ++j) alpha[j] = row[j] * (a * P[label[j]]);
            } else if (n == 2) {
                const double* P = chain_.trans.data() + label[before] * Y;
                const double* Q = chain_.trans.data() + label[before + 1] * Y;
                const double a = alpha[before], b = alpha[before + 1];
                for (int64_t j = from; j < to; ++j)
                    alpha[j] = row[j] * (a * P[label[j]] + b * Q[label[j]]);
            } else {
                for (int64_t j = from; j < to; ++j) {
                    const double* P = chain_.into.data() + label[j] * Y;
                    double sum = 0;
                    for (int64_t i = before; i < from; ++i) sum += alpha[i] * P[label[i]];
                    alpha[j] = row[j] * sum;
                }
            }
            before = from;
            double peak = 0, low = std::numeric_limits<double>::infinity();
            for (int64_t j = from; j < to; ++j) {
                const double reachable = alpha[j] > 0 ? alpha[j] : low;
                peak = alpha[j] > peak ? alpha[j] : peak;
                low = reachable < low ? reachable : low;
            }
            // Without a path, or with a number so small that a product might underflow.
            if (!(peak > 0) || low < kTiny * peak) return false;
            if (peak >= kLow && peak <= 1 / kLow) continue;
            const int64_t exponent = std::bit_cast<int64_t>(peak) >> 52;  // with a bias of 1023
            const double scale = std::bit_cast<double>((2046 - exponent) << 52);
            exponents += exponent - 1023;
            for (int64_t j = from; j < to; ++j) {
                alpha[j] *= scale;
                row[j] *= scale;
            }
        }
        log_z.add(double(exponents) * 0.693147180559945309417);
        return true;
    }

    void backward(double factor) {
        const int64_t Y = batch_.Y;
        const double *row = row_.data(), *alpha = alpha_.data();
        double* beta = beta_.data();
        double* cells = counts_.data();
        double* transitions = cells + batch_.K;
        double* start = transitions + Y * Y;
        double* stop = start + Y;
        const int32_t* label = label_;
        for (int64_t j = begin(T_ - 1); j < begin(T_); ++j) {
            beta[j] = chain_.stop[label[j]] * factor;
            stop[label[j]] += alpha[j] * beta[j];
        }
        for (int64_t t = T_ - 1; t >= 0; --t) {
            const int64_t from = begin(t), to = begin(t + 1);
            for (int64_t j = from; j < to; ++j) {
                cells[cell_[j]] += alpha[j] * beta[j];
                // What no path reaches has no bound, and does not count.
                beta[j] = alpha[j] > 0 ? row[j] * beta[j] : 0.0;  // b
            }
            if (t == 0) break;
            for (int64_t i = begin(t - 1); i < from; ++i) {
                const double* P = chain_.trans.data() + label[i] * Y;
                double* count = transitions + label[i] * Y;
                const double a = alpha[i];
                double sum = 0;
                for (int64_t j = from; j < to; ++j) {
                    sum += P[label[j]] * beta[j];
                    count[label[j]] += a * beta[j];
                }
                beta[i] = sum;
            }
        }
        // row holds c[0] but not the start: alpha[j] = row[j] * start.
        for (int64_t j = 0; j < begin(1); ++j) start[label[j]] += chain_.start[label[j]] * beta[j];
    }

    // All alpha are above kTiny * kLow, so that the product of an alpha, a transition and a row is
    // a normal number.
    static constexpr double kLow = 0x1p-32, kTiny = 1e-90;

    std::vector<double> counts_;  // cells, transitions without their factor, starts, stops
    const CandidateCells& batch_;
    const CellProbabilities& cells_;
    const ChainProbabilities& chain_;
    std::vector<double> row_, alpha_, beta_;  // [C] of a sequence
    int64_t first_ = 0, T_ = 0;
    const int64_t* rows_ = nullptr;
    const int32_t *label_ = nullptr, *cell_ = nullptr;
};

}  // namespace

void expect(const CandidateCells& batch, const double* weight, const CellCounts& counts,
            double* log_z, bool* ok) {
    const CellProbabilities cells(batch);
    const ChainProbabilities chain(batch);
    const bool applies = !cells.has_small && !chain.has_small;
    int64_t longest = 0;
    for (int64_t i = 0; i < batch.N; ++i)
        longest =
            std::max(longest, batch.rows[batch.offsets[i + 1]] - batch.rows[batch.offsets[i]]);
    std::vector<Shard> shards(applies ? kShards : 0, Shard(batch, cells, chain, longest));
    in_candidate_shards<kShards>(batch, [&](int64_t first, int64_t last, int64_t shard) {
        for (int64_t i = first; i < last; ++i) {
            const bool is_empty = batch.offsets[i] == batch.offsets[i + 1];
            log_z[i] = is_empty  ? 0
                       : applies ? shards[shard].run(i, weight ? weight[i] : 1.0)
                                 : kMinusInfinity;
            ok[i] = log_z[i] != kMinusInfinity;
        }
    });
    for (const Shard& shard : shards) shard.add_to(counts);
}

}  // namespace tagloom
