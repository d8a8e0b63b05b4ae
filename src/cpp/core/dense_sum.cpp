#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/dense.hpp"
#include "core/dense_summation.hpp"
#include "core/threads.hpp"

namespace tagloom {

template <class In>
void sum(const DenseBatch<In>& batch, const double* weight, const Expected<In>& expected,
         double* log_z, bool* ok) {
    const bool counting = counts_anything(expected);
    const bool backward = counting || expected.marginals || expected.pairs;
    const ForwardPlan<In> forward(batch, !expected.pairs, backward ? 3 : 1);
    forward.begin(log_z, ok);
    const DenseSummation<In> summation(batch, weight, expected, forward, log_z, ok);
    // Items go to a fixed number of shards with sums of their own, so that the order of additions,
    // and with it every bit, is the same for any number of threads.
    const BatchPlan& plan = forward.plan();
    const int64_t shards = counting ? std::min(kShards, plan.items()) : plan.items();
    const auto no_rows = [](auto zero) { return SharedRows<decltype(zero)>{}; };
    std::vector<ExpectedCounts<In>> partial;
    if (counting) partial.resize(shards, ExpectedCounts<In>(batch, expected));
    parallel_for(shards, plan.threads, [&](int64_t shard, int64_t) {
        const Expected<In> own = counting ? partial[shard].redirect(expected) : expected;
        for (int64_t item = shard; item < plan.items(); item += shards) {
            if (plan.is_single(item)) {
                const int64_t i = plan.sequence(item);
                summation.single(i, batch.emit_of(i), batch.offsets[i], own);
            } else {
                const Group group = batch.group(plan, item);
                summation.group(group, group.first, no_rows, own);
            }
        }
    });
    for (const ExpectedCounts<In>& counts : partial) counts.add_to(expected);
}

#define TL_INSTANTIATE(In)                                                                    \
    template void sum<In>(const DenseBatch<In>&, const double*, const Expected<In>&, double*, \
                          bool*);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)

}  // namespace tagloom
