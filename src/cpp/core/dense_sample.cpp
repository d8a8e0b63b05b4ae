#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/dense.hpp"
#include "core/dense_forward.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

void run(const OneSample<float>& task) { kernels().one_sample_f32(task); }
void run(const OneSample<double>& task) { kernels().one_sample_f64(task); }
void run(const LaneSample<float, float>& task) { kernels().sample_f32(task); }
void run(const LaneSample<float, double>& task) { kernels().sample_f32_in_f64(task); }
void run(const LaneSample<double, double>& task) { kernels().sample_f64(task); }
void run(const OneEntropy<float>& task) { kernels().one_entropy_f32(task); }
void run(const OneEntropy<double>& task) { kernels().one_entropy_f64(task); }
void run(const LaneEntropy<float>& task) { kernels().entropy_f32(task); }
void run(const LaneEntropy<double>& task) { kernels().entropy_f64(task); }

template <class In>
class Sampling {
  public:
    Sampling(const DenseBatch<In>& batch, const ForwardPlan<In>& forward, int64_t draws,
             const double* uniform, int32_t* paths, double* log_z, bool* ok)
        : batch_(batch),
          forward_(forward),
          draws_(draws),
          uniform_(uniform),
          tokens_(batch.offsets[batch.N]),
          paths_(paths),
          log_z_(log_z),
          ok_(ok) {
        const int64_t blocks = batch.levels * batch.G;
        if (forward.plan().singles == 0) return;
        if (forward.is_narrow())
            narrow_ = transposed(forward.template transitions<float>().matrices, blocks, batch.Y);
        else
            wide_ = transposed(forward.template transitions<double>().matrices, blocks, batch.Y);
    }

    void single(int64_t i) const {
        OneSample<In> task{};
        const int64_t S = batch_.G * batch_.Y;
        Pieces<double> scratch(forward_.one_size(i, true) + S);
        std::vector<int64_t> states(draws_);
        forward_.fill(task, scratch, i, true);
        task.draws = draws_;
        task.uniform = uniform_ + batch_.offsets[i] * draws_;
        task.path_stride = tokens_;
        task.weights = scratch.take(S);
        task.states = states.data();
        task.paths = paths_ + batch_.offsets[i];
        task.log_z = log_z_ + i;
        task.ok = ok_ + i;
        run(task);
        if (!*task.ok) discard(i);
    }

    void group(const Group& group) const {
        if (sizeof(In) == 8 || !forward_.is_narrow())
            group_as<double>(group, wide_);
        else
            group_as<float>(group, narrow_);
    }

  private:
    template <class R>
    void group_as(const Group& group, const std::vector<R>& into) const {
        const int64_t lanes = forward_.lanes(), weights = batch_.G * batch_.Y * lanes;
        double log_z[kMostLanes];
        bool ok[kMostLanes];
        LaneSample<In, R> task{};
        Pieces<R> scratch(forward_.lane_size(group, true, false) + weights);
        forward_.fill(task, scratch, group, true, false);
        task.transposed = into.data();
        task.draws = draws_;
        task.uniform = uniform_;
        task.path_stride = tokens_;
        task.weights = scratch.take(weights);
        task.paths = paths_;
        task.log_z = log_z;
        task.ok = ok;
        if constexpr (sizeof(R) >= sizeof(In)) run(task);
        for (int64_t l = 0; l < group.n; ++l) {
            log_z_[group.sequence[l]] = log_z[l];
            ok_[group.sequence[l]] = ok[l];
            if (!ok[l]) discard(group.sequence[l]);
        }
    }

    void discard(int64_t i) const {
        for (int64_t k = 0; k < draws_; ++k)
            std::fill_n(paths_ + k * tokens_ + batch_.offsets[i], batch_.length(i), -1);
    }

    const DenseBatch<In>& batch_;
    const ForwardPlan<In>& forward_;
    const int64_t draws_;
    const double* uniform_;  // [tokens, draws]
    const int64_t tokens_;
    int32_t* paths_;             // [draws, tokens]
    double* log_z_;              // [N]
    bool* ok_;                   // [N]
    std::vector<float> narrow_;  // the matrices of lanes, to -> from
    std::vector<double> wide_;
};

template <class In>
class Entropies {
  public:
    Entropies(const DenseBatch<In>& batch, const ForwardPlan<In>& forward, double* entropy,
              double* log_z, bool* ok)
        : batch_(batch), forward_(forward), entropy_(entropy), log_z_(log_z), ok_(ok) {
        std::vector<double> terms = forward.probabilities().matrices;  // P log P
        for (double& p : terms) p = p > 0 ? p * std::log(p) : 0;
        const double* stop = forward.probabilities().stop.data();
        one_ = {batch, terms.data(), stop, round_up(batch.Y, 8), 0.0};
        many_ = {batch, terms.data(), stop, batch.Y, 0.0};
    }

    void single(int64_t i) const {
        OneEntropy<In> task{};
        const int64_t width = batch_.G * batch_.Y + 8, matrix = forward_.matrix_size();
        Pieces<double> scratch(forward_.one_size(i, false) + matrix + 4 * width + batch_.Y + 8);
        forward_.fill(task, scratch, i, false);
        task.log_transitions = &one_.view;
        task.log_matrix = scratch.take(matrix);
        task.h = scratch.take(width);
        task.sums = scratch.take(3 * width);
        task.ones = scratch.take(batch_.Y + 8);
        task.entropy = entropy_ + i;
        task.log_z = log_z_ + i;
        task.ok = ok_ + i;
        run(task);
    }

    void group(const Group& group) const {
        const int64_t size = batch_.G * batch_.Y * forward_.lanes();
        double log_z[kMostLanes], entropy[kMostLanes];
        bool ok[kMostLanes];
        LaneEntropy<In> task{};
        Pieces<double> scratch(forward_.lane_size(group, false, false) + 4 * size);
        forward_.fill(task, scratch, group, false, false);
        task.log_transitions = &many_.view;
        task.h = scratch.take(size);
        task.sums = scratch.take(3 * size);
        task.entropy = entropy;
        task.log_z = log_z;
        task.ok = ok;
        run(task);
        for (int64_t l = 0; l < group.n; ++l) {
            entropy_[group.sequence[l]] = entropy[l];
            log_z_[group.sequence[l]] = log_z[l];
            ok_[group.sequence[l]] = ok[l];
        }
    }

  private:
    const DenseBatch<In>& batch_;
    const ForwardPlan<In>& forward_;
    OwnedTransitions<double> one_, many_;  // P log P
    double* entropy_;                      // [N]
    double* log_z_;                        // [N]
    bool* ok_;                             // [N]
};

// Calls the single() or group() of each item of the plan.
template <class Work>
void run_all(const BatchPlan& plan, const auto& batch, const Work& work) {
    parallel_for(plan.items(), plan.threads, [&](int64_t item, int64_t) {
        if (plan.is_single(item))
            work.single(plan.sequence(item));
        else
            work.group(batch.group(plan, item));
    });
}

}  // namespace

template <class In>
void sample(const DenseBatch<In>& batch, int64_t draws, const double* uniform, int32_t* paths,
            double* log_z, bool* ok) {
    const ForwardPlan<In> forward(batch, true, 1);
    std::fill_n(paths, draws * batch.offsets[batch.N], -1);
    forward.begin(log_z, ok);
    run_all(forward.plan(), batch, Sampling<In>(batch, forward, draws, uniform, paths, log_z, ok));
}

template <class In>
void entropy(const DenseBatch<In>& batch, double* entropy, double* log_z, bool* ok) {
    const ForwardPlan<In> forward(batch, true, 1, false);
    std::fill_n(entropy, batch.N, 0.0);
    forward.begin(log_z, ok);
    run_all(forward.plan(), batch, Entropies<In>(batch, forward, entropy, log_z, ok));
}

#define TL_INSTANTIATE(In)                                                                     \
    template void sample<In>(const DenseBatch<In>&, int64_t, const double*, int32_t*, double*, \
                             bool*);                                                           \
    template void entropy<In>(const DenseBatch<In>&, double*, double*, bool*);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)

}  // namespace tagloom
