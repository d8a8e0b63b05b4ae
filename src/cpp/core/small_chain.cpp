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

// Memory of the first or the second of two sequences.
Scratch<double>& scratch(int which) {
    thread_local Scratch<double> of_this_thread[2];
    return of_this_thread[which];
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

    // Expected counts of every `step`-th sequence from i on, two at a time.
    void add_all(int64_t i, int64_t step, Shard& shard) const {
        for (; i + step < batch_.N && shard.ok; i += 2 * step) {
            if (length(i) == 0 || length(i + step) == 0) {
                add(i, shard);
                add(i + step, shard);
                continue;
            }
            Task first(*this, i, 0), second(*this, i + step, 1);
            kernels_in_use().sum_two(first.chain, second.chain);
            collect(first, shard);
            collect(second, shard);
        }
        if (i < batch_.N && shard.ok) add(i, shard);
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
    // One sequence and the memory that its sums take.
    struct Task {
        Task(const Summation& of, int64_t i, int which)
            : i(i), sums(of.n_sums()), quadratic(of.quadratic_) {
            const int64_t first = of.batch_.offsets[i], T = of.length(i), Y = of.batch_.Y;
            // With 8 labels the rows fit where the marginals are written, position by position,
            // later.
            const bool shares = of.marginals_ && Y == S;
            taken = scratch(which).take(((shares ? 2 : 3) * S + 1) * T, kMostScratch);
            chain.Y = Y;
            chain.T = T;
            chain.forward = of.forward_;
            chain.backward = of.backward_;
            chain.start = of.start_;
            chain.stop = of.stop_;
            chain.alpha = taken.data;
            chain.beta = chain.alpha + S * T;
            chain.factor = chain.beta + S * T;
            if (of.numbers_) {
                quadratic.z = of.numbers_->z + first * quadratic.D;
                quadratic.sums = sums.data();
                chain.quadratic = &quadratic;
                chain.marginals = block;
            } else {
                chain.emit = of.batch_.emit + first * Y;
                chain.marginals = of.marginals_ + first * Y;
            }
            chain.rows = shares ? chain.marginals : chain.factor + T;
            chain.pairs = pairs;
            chain.ends = ends;
        }
        Task(const Task&) = delete;

        int64_t i;
        double pairs[S * S] = {}, ends[2 * S], block[kSmallChainBlock * S];
        std::vector<double> sums;
        QuadraticScores quadratic;
        SmallChain chain{};
        Scratch<double>::Taken taken;
    };

    int64_t length(int64_t i) const { return batch_.offsets[i + 1] - batch_.offsets[i]; }

    void add(int64_t i, Shard& shard) const {
        if (length(i) == 0) {
            log_z_[i] = 0;
            return;
        }
        Task task(*this, i, 0);
        kernels_in_use().sum(task.chain);
        collect(task, shard);
    }

    void collect(const Task& task, Shard& shard) const {
        const SmallChain& chain = task.chain;
        log_z_[task.i] = chain.offset + std::log(2.0) * chain.exponent + std::log(chain.z);
        shard.ok = shard.ok && chain.ok;
        const double weight = batch_.weight ? batch_.weight[task.i] : 1;
        for (int64_t j = 0; j < S * S; ++j) shard.pairs[j] += weight * task.pairs[j];
        for (int64_t y = 0; y < batch_.Y; ++y) {
            shard.start[y] += weight * task.ends[y];
            shard.stop[y] += weight * task.ends[S + y];
        }
        for (size_t j = 0; j < task.sums.size(); ++j) shard.sums[j] += weight * task.sums[j];
    }

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
    parallel_for(shards, batch.threads,
                 [&](int64_t shard, int64_t) { summation.add_all(shard, shards, partial[shard]); });
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
