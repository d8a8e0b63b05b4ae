// Sums over the paths of tokens that share rows of scores, such as the words of a text: look up,
// sum and add up, a group of sequences at a time, while its numbers are in the cache.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "core/dense.hpp"
#include "core/dense_summation.hpp"
#include "core/losses.hpp"
#include "core/scratch.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

constexpr int64_t kAhead = 3;  // tokens whose rows of counts are prefetched

// The exponentials of a table of scores [n_rows, Y], in the arithmetic of the kernels.
template <class R>
class RowTable {
  public:
    // With `find_low`, also which rows have possible labels far below the best one.
    template <class In>
    void fill(const In* scores, int64_t n_rows, int64_t Y, bool find_low) {
        table_ = scratch().take(n_rows * Y);
        top_.resize(n_rows);
        is_low_ = std::make_unique<bool[]>(n_rows);
        const int64_t block = std::max<int64_t>(1, 4096 / Y);  // rows that stay in the cache
        std::vector<double> values(block * Y);
        for (int64_t first = 0; first < n_rows; first += block) {
            const int64_t last = std::min(first + block, n_rows);
            double* value = values.data();
            for (int64_t r = first; r < last; ++r, value += Y) {
                top_[r] = subtract_top(scores + r * Y, Y, value);
                if (find_low) is_low_[r] = has_low(value, Y);
            }
            const int64_t n = (last - first) * Y;
            kernels().exp(values.data(), n);
            // Subnormal numbers are slow, and far below the precision of float32.
            constexpr double least = std::numeric_limits<R>::min();
            R* to = table_.data + first * Y;
            for (int64_t i = 0; i < n; ++i)
                to[i] = static_cast<R>(values[i] < least ? 0.0 : values[i]);
        }
    }
    SharedRows<R> view(const int32_t* ids) const {
        return {ids, table_.data, top_.data(), is_low_.get()};
    }

  private:
    // Writes score - top; returns top, the largest score, or 0 if all are -inf.
    template <class In>
    static double subtract_top(const In* score, int64_t Y, double* to) {
        In part[4] = {score[0], score[0], score[0], score[0]};  // four chains of comparisons
        int64_t y = 0;
        for (; y + 4 <= Y; y += 4)
            for (int j = 0; j < 4; ++j) part[j] = score[y + j] > part[j] ? score[y + j] : part[j];
        for (; y < Y; ++y) part[0] = score[y] > part[0] ? score[y] : part[0];
        double top = *std::max_element(part, part + 4);
        if (std::isinf(top)) top = 0;
        for (y = 0; y < Y; ++y) to[y] = double(score[y]) - top;
        return top;
    }
    static bool has_low(const double* x, int64_t Y) {
        bool any = false;
        for (int64_t y = 0; y < Y; ++y) any |= x[y] < log_tiny && x[y] > kMinusInf;
        return any;
    }

    static Scratch<R>& scratch() {
        thread_local Scratch<R> of_this_thread;
        return of_this_thread;
    }

    typename Scratch<R>::Taken table_{};
    std::vector<double> top_;
    std::unique_ptr<bool[]> is_low_;
};

// Memory for the marginals of the items in progress. The memory that was returned last is the next
// in use, as it is in the cache.
template <class In>
class Buffers {
  public:
    explicit Buffers(int64_t items) : of_item_(items) {}

    In* take(int64_t item, int64_t n) {
        const std::lock_guard lock(mutex_);
        if (!free_.empty()) {
            of_item_[item] = std::move(free_.back());
            free_.pop_back();
        }
        if (int64_t(of_item_[item].size()) < n) of_item_[item].resize(n);
        return of_item_[item].data();
    }
    const In* of(int64_t item) const { return of_item_[item].data(); }
    void give_back(int64_t item) {
        const std::lock_guard lock(mutex_);
        free_.push_back(std::move(of_item_[item]));
    }

  private:
    std::mutex mutex_;
    std::vector<std::vector<In>> of_item_, free_;
};

template <class In>
class RowSummation {
  public:
    RowSummation(const DenseBatch<In>& batch, const int32_t* ids, int64_t n_rows,
                 const double* weight, const Expected<In>& expected, double* row_counts,
                 double* log_z, bool* ok)
        : batch_(batch),
          ids_(ids),
          weight_(weight),
          row_counts_(row_counts),
          ok_(ok),
          forward_(batch, true, 3),
          summation_(batch, weight, expected, forward_, log_z, ok),
          buffers_(forward_.plan().items()) {
        forward_.begin(log_z, ok);
        if (forward_.plan().singles == 0) return;
        const bool find_low = forward_.probabilities().needs_guard();
        if (forward_.is_narrow())
            narrow_.fill(batch.emit, n_rows, batch.Y, find_low);
        else
            wide_.fill(batch.emit, n_rows, batch.Y, find_low);
    }

    const BatchPlan& plan() const { return forward_.plan(); }

    // Marginals of an item into a buffer, its other expectations into `expected`.
    void sum(int64_t item, Expected<In> expected) {
        if (plan().is_single(item)) {
            const int64_t i = plan().sequence(item), T = batch_.length(i), Y = batch_.Y;
            std::vector<In> emit(T * Y);
            for (int64_t t = 0; t < T; ++t)
                std::copy_n(batch_.emit + ids_[batch_.offsets[i] + t] * Y, Y, &emit[t * Y]);
            expected.marginals = buffers_.take(item, T * Y);
            summation_.single(i, emit.data(), 0, expected);
            return;
        }
        const Group group = batch_.group(plan(), item);
        int64_t place[kMostLanes];
        const int64_t n = find_places(group, place);
        expected.marginals = buffers_.take(item, n * batch_.Y);
        summation_.group(group, place, [&](auto zero) { return table(zero).view(ids_); }, expected);
    }

    // Adds the marginals of an item, if its sequences are ok, to the counts of the rows.
    void collect(int64_t item) {
        const In* marginals = buffers_.of(item);
        if (plan().is_single(item)) {
            add(plan().sequence(item), marginals);
        } else {
            const Group group = batch_.group(plan(), item);
            int64_t place[kMostLanes];
            find_places(group, place);
            for (int64_t l = 0; l < group.n; ++l)
                add(group.sequence[l], marginals + place[l] * batch_.Y);
        }
        buffers_.give_back(item);
    }

  private:
    // The first row of each sequence of a group in its buffer; returns the number of rows.
    static int64_t find_places(const Group& group, int64_t* place) {
        int64_t n = 0;
        for (int64_t l = 0; l < group.n; ++l) {
            place[l] = n;
            n += group.length[l];
        }
        return n;
    }

    void add(int64_t i, const In* marginals) {
        if (!ok_[i]) return;
        const int64_t Y = batch_.Y, T = batch_.length(i);
        const int32_t* ids = ids_ + batch_.offsets[i];
        const double weight = weight_ ? weight_[i] : 1.0;
        for (int64_t t = 0; t < T; ++t) {
            const double* ahead = row_counts_ + ids[std::min(t + kAhead, T - 1)] * Y;
            for (int64_t y = 0; y < Y; y += 8) __builtin_prefetch(ahead + y, 1);
            add(marginals + t * Y, weight, row_counts_ + ids[t] * Y);
        }
    }
    void add(const float* x, double weight, double* to) const {
        kernels().add_f32(x, weight, batch_.Y, to);
    }
    void add(const double* x, double weight, double* to) const {
        kernels().add_f64(x, weight, batch_.Y, to);
    }

    const RowTable<float>& table(float) const { return narrow_; }
    const RowTable<double>& table(double) const { return wide_; }

    const DenseBatch<In>& batch_;
    const int32_t* ids_;
    const double* weight_;  // [N] or null
    double* row_counts_;    // [n_rows, Y]
    bool* ok_;              // [N]
    const ForwardPlan<In> forward_;
    const DenseSummation<In> summation_;
    Buffers<In> buffers_;
    RowTable<float> narrow_;
    RowTable<double> wide_;
};

}  // namespace

template <class In>
void sum_rows(const DenseBatch<In>& batch, const int32_t* ids, int64_t n_rows, const double* weight,
              const Expected<In>& expected, double* row_counts, double* log_z, bool* ok) {
    RowSummation<In> summation(batch, ids, n_rows, weight, expected, row_counts, log_z, ok);
    const int64_t items = summation.plan().items(), shards = std::min(kShards, items);
    // Rows are collected in order, and at most `shards` items are not collected yet, so that two
    // items of a shard never meet: the order of all additions is the same for any number of
    // threads.
    std::vector<ExpectedCounts<In>> partial(shards, ExpectedCounts<In>(batch, expected));
    InOrder order(items, shards);
    parallel_for(items, summation.plan().threads, [&](int64_t item, int64_t) {
        InOrder::Item turn(order, item);
        if (!turn.begin()) return;
        summation.sum(item, partial[item % shards].redirect(expected));
        turn.finish([&](int64_t done) { summation.collect(done); });
    });
    for (const ExpectedCounts<In>& counts : partial) counts.add_to(expected);
}

#define TL_INSTANTIATE(In)                                                                    \
    template void sum_rows<In>(const DenseBatch<In>&, const int32_t*, int64_t, const double*, \
                               const Expected<In>&, double*, double*, bool*);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)

}  // namespace tagloom
