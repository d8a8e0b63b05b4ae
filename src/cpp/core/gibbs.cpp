#include "core/gibbs.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/dispatch.hpp"
#include "core/random.hpp"

namespace tagloom {
namespace {

// The sweep for the instruction set in use.
const GibbsKernels& kernels_in_use() {
    [[maybe_unused]] const std::string_view name = kernels().name;
#if defined(TL_HAVE_AVX512)
    if (name == "avx512") return gibbs_kernels_avx512();
#endif
#if defined(TL_HAVE_AVX2)
    if (name == "avx2") return gibbs_kernels_avx2();
#endif
    return gibbs_kernels_baseline();
}

}  // namespace

GibbsSampler::GibbsSampler(int64_t Y, int64_t V, std::vector<int64_t> offsets,
                           std::vector<int32_t> symbols, std::vector<int32_t> labels,
                           std::vector<int64_t> rows, std::vector<int32_t> candidates)
    : Y_(Y),
      V_(V),
      P_((Y + 7) / 8 * 8),
      offsets_(std::move(offsets)),
      symbols_(std::move(symbols)),
      labels_(std::move(labels)),
      rows_(std::move(rows)),
      candidates_(std::move(candidates)),
      emitted_(V * P_),
      emitted_total_(P_),
      left_(P_),
      inverse_(P_),
      from_((Y + 1) * P_),
      into_((Y + 1) * P_),
      weights_(P_) {
    for (size_t t = 0; t < labels_.size(); ++t)
        if (symbols_[t] >= 0) emitted_[symbols_[t] * P_ + labels_[t]]++;
}

std::vector<double> GibbsSampler::transitions() const {
    const int64_t S = Y_ + 1;
    std::vector<double> counts(S * S);
    for (size_t i = 0; i + 1 < offsets_.size(); ++i) {
        if (offsets_[i] == offsets_[i + 1]) continue;
        int64_t before = Y_;
        for (int64_t t = offsets_[i]; t < offsets_[i + 1]; ++t) {
            counts[before * S + labels_[t]]++;
            before = labels_[t];
        }
        counts[before * S + Y_]++;
    }
    return counts;
}

std::vector<double> GibbsSampler::emissions() const {
    std::vector<double> counts(V_ * Y_);
    for (int64_t v = 0; v < V_; ++v)
        std::copy_n(emitted_.data() + v * P_, Y_, counts.data() + v * Y_);
    return counts;
}

std::vector<int64_t> GibbsSampler::emission_histogram() const {
    const int32_t most = emitted_.empty() ? 0 : *std::max_element(emitted_.begin(), emitted_.end());
    std::vector<int64_t> times(int64_t(most) + 1);
    int64_t positive = 0;
    for (const int32_t count : emitted_) {
        if (count == 0) continue;  // nearly all: they would wait for each other at times[0]
        times[count]++;
        ++positive;
    }
    times[0] = V_ * Y_ - positive;
    return times;
}

void GibbsSampler::fill_tables(const GibbsPrior& prior) {
    const std::vector<double> counts = transitions();
    const int64_t S = Y_ + 1;
    std::fill_n(emitted_total_.begin(), Y_, double(V_) * prior.beta);
    for (int64_t v = 0; v < V_; ++v)
        for (int64_t k = 0; k < Y_; ++k) emitted_total_[k] += emitted_[v * P_ + k];
    for (int64_t k = 0; k < Y_; ++k) from_[Y_ * P_ + k] = counts[Y_ * S + k] + prior.start[k];
    for (int64_t a = 0; a < Y_; ++a) {
        double left = 0;
        for (int64_t k = 0; k < Y_; ++k) {
            const double n = counts[a * S + k] + prior.trans[a * Y_ + k];
            from_[a * P_ + k] = into_[k * P_ + a] = n;
            left += n;
        }
        if (prior.stop) left += into_[Y_ * P_ + a] = counts[a * S + Y_] + prior.stop[a];
        left_[a] = left > 0 ? left : 1;  // 0 if nothing may follow: then no transition is counted
        if (!prior.stop) into_[Y_ * P_ + a] = left_[a];
        inverse_[a] = 1 / (emitted_total_[a] * left_[a]);
    }
}

int64_t GibbsSampler::sweep(const GibbsPrior& prior, uint64_t seed) {
    fill_tables(prior);
    const GibbsSweep task{Y_,
                          P_,
                          int64_t(offsets_.size()) - 1,
                          offsets_.data(),
                          symbols_.data(),
                          rows_.empty() ? nullptr : rows_.data(),
                          candidates_.data(),
                          mix_bits(seed),
                          prior.beta,
                          prior.stop != nullptr,
                          labels_.data(),
                          emitted_.data(),
                          emitted_total_.data(),
                          from_.data(),
                          into_.data(),
                          left_.data(),
                          inverse_.data(),
                          weights_.data()};
    return kernels_in_use().sweep(task);
}

}  // namespace tagloom
