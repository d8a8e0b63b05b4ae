#include "core/batch_plan.hpp"

#include <algorithm>
#include <iterator>

namespace tagloom {
namespace {

constexpr int64_t kWorthThreads = 1'000'000;  // transitions below which one thread is as fast
constexpr int64_t kWindow = 512;              // sequences sorted by length together

// The sequences of [begin, end) that run in lanes, longest first; others are added to `singles`.
std::vector<int64_t> sort_window(const RaggedBatch& batch, int64_t begin, int64_t end,
                                 int64_t longest, std::vector<int64_t>& singles) {
    std::vector<int64_t> place;  // [length] where the next sequence of that length goes
    auto in_lanes = [&](int64_t i) { return batch.length(i) > 0 && batch.length(i) <= longest; };
    for (int64_t i = begin; i < end; ++i) {
        if (in_lanes(i)) {
            if (batch.length(i) >= std::ssize(place)) place.resize(batch.length(i) + 1);
            ++place[batch.length(i)];
        } else if (batch.length(i) > 0) {
            singles.push_back(i);
        }
    }
    int64_t n = 0;
    for (auto count = place.rbegin(); count != place.rend(); ++count) n += std::exchange(*count, n);
    std::vector<int64_t> window(n);
    for (int64_t i = begin; i < end; ++i)
        if (in_lanes(i)) window[place[batch.length(i)]++] = i;
    return window;
}

}  // namespace

BatchPlan::BatchPlan(const RaggedBatch& batch, int64_t lanes, int64_t longest, int64_t transitions,
                     int64_t threads_) {
    order.reserve(batch.N);
    groups.reserve(batch.N + 1);
    groups.push_back(0);
    auto add_group = [&](auto begin, auto end) {
        order.insert(order.end(), begin, end);
        groups.push_back(order.size());
    };
    std::vector<int64_t> alone;
    for (int64_t begin = 0; begin < batch.N; begin += kWindow) {
        const int64_t end = std::min(begin + kWindow, batch.N);
        const std::vector<int64_t> window =
            sort_window(batch, begin, end, lanes > 1 ? longest : 0, alone);
        auto at = window.begin();
        while (window.end() - at >= std::max<int64_t>(lanes / 4, 2)) {
            const auto last = at + std::min<int64_t>(lanes, window.end() - at);
            add_group(at, last);
            at = last;
        }
        alone.insert(alone.end(), at, window.end());  // too few for lanes to pay
    }
    singles = items();
    if (alone.size() > 1)
        std::stable_sort(alone.begin(), alone.end(),
                         [&](int64_t a, int64_t b) { return batch.length(a) > batch.length(b); });
    for (auto at = alone.begin(); at != alone.end(); ++at) add_group(at, at + 1);
    const bool is_small = batch.offsets[batch.N] * transitions < kWorthThreads;
    threads = is_small ? 1 : std::max<int64_t>(threads_, 1);
}

Group::Group(const RaggedBatch& batch, const BatchPlan& plan, int64_t item)
    : sequence(plan.order.data() + plan.groups[item]),
      n(plan.groups[item + 1] - plan.groups[item]) {
    for (int64_t l = 0; l < n; ++l) {
        first[l] = batch.offsets[sequence[l]];
        length[l] = batch.length(sequence[l]);
    }
}

}  // namespace tagloom
