#include "core/small_chain.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "core/dispatch.hpp"
#include "core/pages.hpp"
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
    bool ok = true;
};

class Summation {
  public:
    Summation(const SmallChainBatch& batch, double* log_z, double* marginals)
        : batch_(batch), log_z_(log_z), marginals_(marginals) {
        for (int64_t a = 0; a < batch.Y; ++a) {
            start_[a] = std::exp(batch.start[a]);
            stop_[a] = std::exp(batch.stop[a]);
            for (int64_t c = 0; c < batch.Y; ++c)
                forward_[a * S + c] = backward_[c * S + a] = std::exp(batch.trans[a * batch.Y + c]);
        }
    }

    // Expected counts of sequence i.
    void add(int64_t i, PagedArray<double>& scratch, Shard& shard) const {
        const int64_t first = batch_.offsets[i], T = batch_.offsets[i + 1] - first, Y = batch_.Y;
        if (T == 0) {
            log_z_[i] = 0;
            return;
        }
        // With 8 labels the rows fit where the marginals are written, position by position, later.
        const bool shares = Y == S;
        const size_t size = ((shares ? 2 : 3) * S + 1) * T;
        if (scratch.size() < size) scratch = PagedArray<double>(size);
        double pairs[S * S] = {};
        SmallChain task{};
        task.Y = Y;
        task.T = T;
        task.emit = batch_.emit + first * Y;
        task.forward = forward_;
        task.backward = backward_;
        task.start = start_;
        task.stop = stop_;
        task.alpha = scratch.data();
        task.beta = task.alpha + S * T;
        task.factor = task.beta + S * T;
        task.marginals = marginals_ + first * Y;
        task.rows = shares ? task.marginals : task.factor + T;
        task.pairs = pairs;
        kernels_in_use().sum(task);
        log_z_[i] = task.offset + std::log(2.0) * task.exponent + std::log(task.z);
        shard.ok = shard.ok && task.ok;
        const double weight = batch_.weight ? batch_.weight[i] : 1;
        for (int64_t j = 0; j < S * S; ++j) shard.pairs[j] += weight * pairs[j];
        for (int64_t y = 0; y < Y; ++y) {
            shard.start[y] += weight * task.marginals[y];
            shard.stop[y] += weight * task.marginals[(T - 1) * Y + y];
        }
    }

    void finish(const Shard& shard, const SmallChainCounts& counts) const {
        for (int64_t a = 0; a < batch_.Y; ++a) {
            counts.start[a] += shard.start[a];
            counts.stop[a] += shard.stop[a];
            for (int64_t c = 0; c < batch_.Y; ++c)
                counts.transitions[a * batch_.Y + c] +=
                    shard.pairs[a * S + c] * forward_[a * S + c];
        }
    }

  private:
    const SmallChainBatch& batch_;
    double* log_z_;
    double* marginals_;
    double forward_[S * S] = {}, backward_[S * S] = {}, start_[S] = {}, stop_[S] = {};
};

}  // namespace

bool small_chain_sum(const SmallChainBatch& batch, double* log_z, double* marginals,
                     const SmallChainCounts& counts) {
    const Summation summation(batch, log_z, marginals);
    const int64_t shards = std::min(kShards, batch.N);
    std::vector<Shard> partial(shards);
    parallel_for(shards, batch.threads, [&](int64_t shard, int64_t) {
        PagedArray<double> scratch;
        for (int64_t i = shard; i < batch.N && partial[shard].ok; i += shards)
            summation.add(i, scratch, partial[shard]);
    });
    bool ok = true;
    for (const Shard& shard : partial) {
        ok = ok && shard.ok;
        summation.finish(shard, counts);
    }
    return ok;
}

}  // namespace tagloom
