#include "core/chain_loss.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "core/dense.hpp"

namespace tagloom {
namespace {

template <class In>
class ChainLoss {
  public:
    ChainLoss(const ChainScores& scores, const In* emit, const int64_t* offsets, int64_t N,
              const double* weight, int64_t threads, const ChainGradient<In>& grad)
        : scores_(scores),
          emit_(emit),
          offsets_(offsets),
          N_(N),
          weight_(weight),
          threads_(threads),
          grad_(grad) {}

    // Adds sign·log_z of all paths to llh, and its gradient.
    bool add_all_paths(double sign, double* llh) {
        std::vector<double> log_z(N_);
        if (!sum(emit_, grad_, log_z.data())) return false;
        for (int64_t i = 0; i < N_; ++i) llh[i] += sign * log_z[i];
        if (!grad_) return true;
        const int64_t Y = scores_.Y;
        for (int64_t i = 0; i < N_; ++i) {  // counts of transitions are weighted already
            const In w = In(sign * weight(i));
            for (int64_t j = offsets_[i] * Y; j < offsets_[i + 1] * Y; ++j) grad_.emit[j] *= w;
        }
        for (int64_t j = 0; j < Y * Y; ++j) grad_.trans[j] *= sign;
        for (int64_t y = 0; y < Y; ++y) grad_.start[y] *= sign, grad_.stop[y] *= sign;
        return true;
    }

    // Adds the scores of complete paths, and their counts to the gradient; false if a path has
    // score -inf: nothing of its sequence may be in the gradient.
    bool add_paths(const int64_t* ids, double* llh) {
        const int64_t Y = scores_.Y;
        for (int64_t i = 0; i < N_; ++i) {
            const int64_t first = offsets_[i], end = offsets_[i + 1];
            if (first == end) continue;
            const double w = weight(i);
            double score = scores_.start[ids[first]] + scores_.stop[ids[end - 1]];
            for (int64_t t = first; t < end; ++t) {
                score += double(emit_[t * Y + ids[t]]);
                if (t > first) score += scores_.trans[ids[t - 1] * Y + ids[t]];
            }
            llh[i] += score;
            if (!std::isfinite(score)) return false;
            if (!grad_) continue;
            grad_.start[ids[first]] += w;
            grad_.stop[ids[end - 1]] += w;
            for (int64_t t = first; t < end; ++t) {
                grad_.emit[t * Y + ids[t]] += In(w);
                if (t > first) grad_.trans[ids[t - 1] * Y + ids[t]] += w;
            }
        }
        return true;
    }

    // The same for sets of paths: adds the log-partition of the paths that the labels allow.
    bool add_sets(const ChainLabels& labels, double* llh) {
        const int64_t Y = scores_.Y, T = offsets_[N_];
        const std::unique_ptr<In[]> emit(new In[T * Y]);
        for (int64_t t = 0; t < T; ++t)
            for (int64_t y = 0; y < Y; ++y) {
                const bool is_allowed = labels.allowed ? labels.allowed[t * Y + y]
                                                       : labels.ids[t] < 0 || labels.ids[t] == y;
                emit[t * Y + y] =
                    is_allowed ? emit_[t * Y + y] : -std::numeric_limits<In>::infinity();
            }
        std::vector<In> marginals(grad_ ? T * Y : 0);
        std::vector<double> trans(grad_ ? Y * Y : 0), start(grad_ ? Y : 0), stop(grad_ ? Y : 0);
        ChainGradient<In> part;
        if (grad_) part = {marginals.data(), trans.data(), start.data(), stop.data()};
        std::vector<double> log_z(N_);
        if (!sum(emit.get(), part, log_z.data())) return false;
        for (int64_t i = 0; i < N_; ++i) llh[i] += log_z[i];
        if (!grad_) return true;
        for (int64_t i = 0; i < N_; ++i) {
            const In w = In(weight(i));
            for (int64_t j = offsets_[i] * Y; j < offsets_[i + 1] * Y; ++j)
                grad_.emit[j] += w * marginals[j];
        }
        for (int64_t j = 0; j < Y * Y; ++j) grad_.trans[j] += trans[j];
        for (int64_t y = 0; y < Y; ++y) grad_.start[y] += start[y], grad_.stop[y] += stop[y];
        return true;
    }

  private:
    double weight(int64_t i) const { return weight_ ? weight_[i] : 1.0; }

    // Log-partitions [N] and expected counts, those of transitions weighted.
    bool sum(const In* emit, const ChainGradient<In>& counts, double* log_z) const {
        const int64_t Y = scores_.Y;
        const DenseBatch<In> batch{
            Y,       1,        1,  scores_.trans, scores_.start, scores_.stop, emit,
            nullptr, offsets_, N_, threads_};
        if (counts) {
            std::fill_n(counts.trans, Y * Y, 0.0);
            std::fill_n(counts.start, Y, 0.0);
            std::fill_n(counts.stop, Y, 0.0);
        }
        const Expected<In> expected{counts.emit, nullptr, counts.trans, counts.start, counts.stop};
        const std::unique_ptr<bool[]> ok(new bool[N_]);
        tagloom::sum(batch, weight_, expected, log_z, ok.get());
        // NaN scores fail too: the slow path names the element.
        return std::all_of(ok.get(), ok.get() + N_, [](bool x) { return x; }) &&
               std::none_of(log_z, log_z + N_, [](double x) { return std::isnan(x); });
    }

    const ChainScores& scores_;
    const In* emit_;
    const int64_t* offsets_;
    const int64_t N_;
    const double* weight_;
    const int64_t threads_;
    const ChainGradient<In>& grad_;
};

}  // namespace

template <class In>
bool chain_loss(const ChainScores& scores, const In* emit, const int64_t* offsets, int64_t N,
                const ChainLabels& labels, const double* weight, int64_t threads,
                const ChainGradient<In>& grad, double* llh) {
    const int64_t T = offsets[N];
    std::fill_n(llh, N, 0.0);
    ChainLoss<In> loss(scores, emit, offsets, N, weight, threads, grad);
    const bool has_labels = labels.ids || labels.allowed;
    if (!loss.add_all_paths(has_labels ? -1 : 1, llh)) return false;
    if (!has_labels) return true;
    const bool is_partial =
        labels.allowed || std::any_of(labels.ids, labels.ids + T, [](int64_t y) { return y < 0; });
    return is_partial ? loss.add_sets(labels, llh) : loss.add_paths(labels.ids, llh);
}

PaddedRows::PaddedRows(int64_t B, int64_t L, const bool* mask, int64_t batch_stride,
                       int64_t time_stride)
    : offsets(B + 1), is_full(true) {
    place.reserve(B * L);
    for (int64_t b = 0; b < B; ++b) {
        for (int64_t t = 0; t < L; ++t)
            if (!mask || mask[b * batch_stride + t * time_stride]) place.push_back(b * L + t);
        offsets[b + 1] = T();
    }
    is_full = T() == B * L;
}

template <class E>
void gather(const PaddedRows& rows, const Padded<const E>& from, int64_t L, E* to) {
    for (int64_t r = 0; r < rows.T(); ++r)
        std::memcpy(to + r * from.width, from.at(rows.place[r], L), from.width * sizeof(E));
}

template <class E>
void scatter(const PaddedRows& rows, const E* from, int64_t B, int64_t L, const Padded<E>& to) {
    int64_t next = 0;
    for (int64_t r = 0; r < rows.T(); ++r) {
        for (; next < rows.place[r]; ++next) std::fill_n(to.at(next, L), to.width, E(0));
        std::memcpy(to.at(next++, L), from + r * to.width, to.width * sizeof(E));
    }
    for (; next < B * L; ++next) std::fill_n(to.at(next, L), to.width, E(0));
}

#define TL_INSTANTIATE(In)                                                                        \
    template bool chain_loss<In>(const ChainScores&, const In*, const int64_t*, int64_t,          \
                                 const ChainLabels&, const double*, int64_t,                      \
                                 const ChainGradient<In>&, double*);                              \
    template void scatter<In>(const PaddedRows&, const In*, int64_t, int64_t, const Padded<In>&); \
    template void gather<In>(const PaddedRows&, const Padded<const In>&, int64_t, In*);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)
template void gather<int64_t>(const PaddedRows&, const Padded<const int64_t>&, int64_t, int64_t*);
template void gather<bool>(const PaddedRows&, const Padded<const bool>&, int64_t, bool*);

}  // namespace tagloom
