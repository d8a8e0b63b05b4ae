#include "core/small_chain.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "core/dispatch.hpp"
#include "core/scratch.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

constexpr int64_t S = kSmallChain;
constexpr int64_t kShards = 16;  // partial sums, whatever the number of threads

const SmallChainKernels& kernels_in_use() {
    [[maybe_unused]] const std::string_view name = kernels().name;
#if defined(TL_HAVE_AVX512)
    if (name == "avx512") return small_chain_kernels_avx512();
#endif
#if defined(TL_HAVE_AVX2)
    if (name == "avx2") return small_chain_kernels_avx2();
#endif
    return small_chain_kernels_baseline();
}

// Counts of one shard.
struct Shard {
    double pairs[S * S] = {}, start[S] = {}, stop[S] = {};
    std::vector<double> sums;  // [P, 8] of features
    bool ok = true;
};

Scratch<double>& scratch() {
    thread_local Scratch<double> of_this_thread;
    return of_this_thread;
}
constexpr size_t kMostScratch = size_t{4} << 20;  // numbers: of a sequence of 160,000 tokens

class Summation {
  public:
    // One of the marginals and the numbers is null.
    Summation(const SmallChainBatch& batch, const SmallChainNumbers* numbers, double* log_z,
              double* marginals)
        : batch_(batch), numbers_(numbers), log_z_(log_z), marginals_(marginals) {
        const int64_t Y = batch.Y;
        for (int64_t a = 0; a < Y; ++a) {
            start_[a] = std::exp(batch.start[a]);
            stop_[a] = std::exp(batch.stop[a]);
            for (int64_t c = 0; c < Y; ++c)
                forward_[a * S + c] = backward_[c * S + a] = std::exp(batch.trans[a * Y + c]);
        }
        if (!numbers) return;
        quadratic_ = {numbers->D, numbers->products, nullptr, nullptr, nullptr};
        weights_.resize(n_sums());
        for (int64_t p = 0; p < quadratic_.size(); ++p)
            std::copy_n(numbers->weights + p * Y, Y, &weights_[p * S]);
        // The constant, the last feature, makes labels beyond Y impossible.
        std::fill(weights_.end() - (S - Y), weights_.end(),
                  -std::numeric_limits<double>::infinity());
        quadratic_.weights = weights_.data();
    }

    int64_t n_sums() const { return numbers_ ? quadratic_.size() * S : 0; }

    // Expected counts of sequence i.
    void add(int64_t i, Shard& shard) const {
        const int64_t first = batch_.offsets[i], T = batch_.offsets[i + 1] - first, Y = batch_.Y;
        if (T == 0) {
            log_z_[i] = 0;
            return;
        }
        // With 8 labels the rows fit where the marginals are written, position by position, later.
        const bool shares = marginals_ && Y == S;
        const Scratch<double>::Taken taken =
            scratch().take(((shares ? 2 : 3) * S + 1) * T, kMostScratch);
        double pairs[S * S] = {}, ends[2 * S], block[kSmallChainBlock * S];
        std::vector<double> sums(n_sums());
        QuadraticScores quadratic = quadratic_;
        SmallChain task{};
        task.Y = Y;
        task.T = T;
        task.forward = forward_;
        task.backward = backward_;
        task.start = start_;
        task.stop = stop_;
        task.alpha = taken.data;
        task.beta = task.alpha + S * T;
        task.factor = task.beta + S * T;
        if (numbers_) {
            quadratic.z = numbers_->z + first * quadratic.D;
            quadratic.sums = sums.data();
            task.quadratic = &quadratic;
            task.marginals = block;
        } else {
            task.emit = batch_.emit + first * Y;
            task.marginals = marginals_ + first * Y;
        }
        task.rows = shares ? task.marginals : task.factor + T;
        task.pairs = pairs;
        task.ends = ends;
        kernels_in_use().sum(task);
        log_z_[i] = task.offset + std::log(2.0) * task.exponent + std::log(task.z);
        shard.ok = shard.ok && task.ok;
        const double weight = batch_.weight ? batch_.weight[i] : 1;
        for (int64_t j = 0; j < S * S; ++j) shard.pairs[j] += weight * pairs[j];
        for (int64_t y = 0; y < Y; ++y) {
            shard.start[y] += weight * ends[y];
            shard.stop[y] += weight * ends[S + y];
        }
        for (size_t j = 0; j < sums.size(); ++j) shard.sums[j] += weight * sums[j];
    }

    void finish(const Shard& shard, const SmallChainCounts& counts, double* sums) const {
        const int64_t Y = batch_.Y;
        for (int64_t a = 0; a < Y; ++a) {
            counts.start[a] += shard.start[a];
            counts.stop[a] += shard.stop[a];
            for (int64_t c = 0; c < Y; ++c)
                counts.transitions[a * Y + c] += shard.pairs[a * S + c] * forward_[a * S + c];
        }
        for (size_t p = 0; p < shard.sums.size() / S; ++p)
            for (int64_t y = 0; y < Y; ++y) sums[p * Y + y] += shard.sums[p * S + y];
    }

  private:
    const SmallChainBatch& batch_;
    const SmallChainNumbers* numbers_;
    double* log_z_;
    double* marginals_;
    double forward_[S * S] = {}, backward_[S * S] = {}, start_[S] = {}, stop_[S] = {};
    QuadraticScores quadratic_{};
    std::vector<double> weights_;  // [P, 8]
};

bool sum_all(const SmallChainBatch& batch, const Summation& summation,
             const SmallChainCounts& counts, double* sums) {
    const int64_t shards = std::min(kShards, batch.N);
    std::vector<Shard> partial(shards);
    for (Shard& shard : partial) shard.sums.resize(summation.n_sums());
    parallel_for(shards, batch.threads, [&](int64_t shard, int64_t) {
        for (int64_t i = shard; i < batch.N && partial[shard].ok; i += shards)
            summation.add(i, partial[shard]);
    });
    bool ok = true;
    for (const Shard& shard : partial) {
        ok = ok && shard.ok;
        summation.finish(shard, counts, sums);
    }
    return ok;
}

}  // namespace

bool small_chain_sum(const SmallChainBatch& batch, double* log_z, double* marginals,
                     const SmallChainCounts& counts) {
    return sum_all(batch, Summation(batch, nullptr, log_z, marginals), counts, nullptr);
}

bool small_chain_moments(const SmallChainBatch& batch, const SmallChainNumbers& numbers,
                         double* log_z, double* sums, const SmallChainCounts& counts) {
    return sum_all(batch, Summation(batch, &numbers, log_z, nullptr), counts, sums);
}

}  // namespace tagloom
