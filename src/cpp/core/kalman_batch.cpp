// There: the forward recursion over the chunks of a batch, and what follows it. The ways back are
// in kalman_smooth.cpp and kalman_sample.cpp.

#include "core/kalman_batch.hpp"

#include <algorithm>

#include "core/dispatch.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

// A chunk has at most this many sequences, and ends once it has this many steps.
constexpr int64_t kChunk = 32, kChunkSteps = 4096;
constexpr int64_t kSettles = 512;  // steps from which on a steady state is worth more than lanes

// Adds up parts of `size` numbers each.
void add_up(const std::vector<double>& parts, int64_t size, double* to) {
    if (!to) return;
    std::fill_n(to, size, 0.0);
    for (size_t i = 0; i < parts.size(); ++i) to[i % size] += parts[i];
}

}  // namespace

KalmanBatch::KalmanBatch(const KalmanSystem& system, const KalmanSequences& sequences,
                         const KalmanResults& results, KalmanGoal goal, KalmanDraws draws)
    : system_(system),
      sequences_(sequences),
      results_(results),
      goal_(goal),
      draws_(draws),
      kernels_(kernels().kalman()) {
    int64_t steps = kChunkSteps;
    for (int64_t i = 0; i < sequences.N; ++i) {
        if (steps >= kChunkSteps || i - chunks_.back() >= kChunk) {
            chunks_.push_back(i);
            steps = 0;
        }
        steps += sequences.offsets[i + 1] - sequences.offsets[i];
    }
    const int64_t m = system.m;
    is_constant_ = system.C.stride == 0 && system.R.stride == 0;
    if (is_constant_)
        for (int64_t p = 0; p < sequences.patterns(); ++p)
            table_.add(system.C.data, system.R.data, system.n, m,
                       sequences.observed.data() + p * m);
    bool has_offset = system.d.stride != 0;
    for (int64_t i = 0; i < m; ++i) has_offset |= system.d.data[i] != 0;
    copies_y_ =
        !is_constant_ || has_offset || !sequences.which.empty() || !table_.rows[0].is_diagonal;
    for (int64_t i = 0; system.is_diffuse && i < system.n; ++i)
        has_diffuse_ |= system.is_diffuse[i] != 0;
}

void KalmanBatch::run(int64_t threads) {
    prepare_sums();
    parallel_for(chunks(), threads, [&](int64_t chunk, int64_t) { run_chunk(chunk); });
    finish_sums();
}

void KalmanBatch::prepare_sums() {
    const int64_t size = system_.n * system_.n;
    if (results_.sum_covs) sum_covs_.resize(chunks() * sequences_.patterns() * size);
    if (results_.sum_lags) sum_lags_.resize(chunks() * size);
}

void KalmanBatch::finish_sums() const {
    add_up(sum_covs_, sequences_.patterns() * system_.n * system_.n, results_.sum_covs);
    add_up(sum_lags_, system_.n * system_.n, results_.sum_lags);
}

void KalmanBatch::run_chunk(int64_t chunk) {
    KalmanWorkspace workspace(kernels_.workspace(system_.n, system_.m));
    const int64_t first = chunks_[chunk];
    const int64_t last = chunk + 1 < chunks() ? chunks_[chunk + 1] : sequences_.N;
    std::vector<SequencePass> all(last - first);
    std::vector<SequencePass*> in_lanes;
    for (int64_t i = first; i < last; ++i) {
        SequencePass& sequence = all[i - first];
        prepare(sequence, i);
        start(sequence);
        if (sequence.begin == sequence.T) continue;
        if (is_for_lanes(sequence))
            in_lanes.push_back(&sequence);
        else
            filter(sequence, workspace.data());
    }
    filter_lanes(in_lanes, workspace.data());
    for (SequencePass& sequence : all) {
        finish(sequence);
        if (goal_ == KalmanGoal::smooth) smooth(sequence, chunk, workspace.data());
        if (goal_ == KalmanGoal::sample && sequence.is_resolved) sample(sequence, workspace.data());
    }
}

void KalmanBatch::prepare(SequencePass& sequence, int64_t number) {
    const int64_t n = system_.n, m = system_.m;
    sequence.number = number;
    sequence.first = sequences_.offsets[number];
    sequence.T = sequences_.offsets[number + 1] - sequence.first;
    sequence.y = sequences_.y + sequence.first * m;
    if (is_constant_) {
        sequence.blocks = table_.blocks();
        if (!sequences_.which.empty()) sequence.which = sequences_.which.data() + sequence.first;
    } else {
        for (int64_t t = 0; t < sequence.T; ++t) {
            const int64_t step = sequence.first + t;
            sequence.own_which.push_back(int32_t(t));
            sequence.own_table.add(system_.C.at(step), system_.R.at(step), n, m,
                                   sequences_.observed.data() + sequences_.pattern(step) * m);
        }
        sequence.which = sequence.own_which.data();
        sequence.blocks = sequence.own_table.blocks();
    }
    if (copies_y_) {
        sequence.own_y.resize(sequence.T * m);
        const BlockTable& table = is_constant_ ? table_ : sequence.own_table;
        for (int64_t t = 0; t < sequence.T; ++t) {
            const int64_t step = sequence.first + t;
            table.rows[sequence.which ? sequence.which[t] : 0].write_observation(
                sequences_.y + step * m, system_.d.at(step), m, sequence.own_y.data() + t * m);
        }
        sequence.y = sequence.own_y.data();
    }
    if (goes_back()) sequence.is_steady.resize(sequence.T);
    sequence.mean.assign(system_.mean, system_.mean + n);
    sequence.cov.assign(system_.cov, system_.cov + n * n);
}

void KalmanBatch::write_start(const DiffuseStart& start, const DiffuseSolution& solution,
                              int64_t step, bool is_predicted) {
    const int64_t n = system_.n;
    double* means = is_predicted ? results_.predicted_means : results_.means;
    double* covs = is_predicted ? results_.predicted_covs : results_.covs;
    if (!means && !covs) return;
    const DiffuseMoments moments = start.moments(solution);
    if (means) std::copy_n(moments.mean.data.data(), n, means + step * n);
    if (covs) std::copy_n(moments.cov.data.data(), n * n, covs + step * n * n);
}

// Takes as many steps as leave a variance infinite, and the one that resolves them.
void KalmanBatch::start(SequencePass& sequence) {
    if (!has_diffuse_ || !sequence.T) return;
    const int64_t n = system_.n, m = system_.m;
    DiffuseStart state(n, system_.mean, system_.cov, system_.is_diffuse);
    DiffuseSolution solution = state.solve();
    sequence.is_resolved = false;
    for (int64_t t = 0; t < sequence.T && !sequence.is_resolved; ++t) {
        const int64_t step = sequence.first + t;
        if (t) state.predict(system_.A.at(step), system_.Q.at(step), system_.b.at(step));
        write_start(state, solution, step, true);
        const int32_t block = sequence.which ? sequence.which[t] : 0;
        state.observe(sequence.blocks.C + block * m * n, sequence.blocks.r + block * m,
                      sequence.blocks.rows[block], sequence.y + t * m);
        solution = state.solve();
        write_start(state, solution, step, false);
        if (results_.log_densities)
            results_.log_densities[step] = solution.log_density - sequence.log_density;
        sequence.log_density = solution.log_density;
        sequence.is_resolved = solution.is_resolved();
        if (goes_back()) sequence.history.keep(state);
        sequence.begin = t + 1;
    }
    if (sequence.begin == sequence.T) return;
    const int64_t step = sequence.first + sequence.begin;
    state.predict(system_.A.at(step), system_.Q.at(step), system_.b.at(step));
    const DiffuseMoments moments = state.moments(solution);
    sequence.mean = moments.mean.data;
    sequence.cov = moments.cov.data;
}

// Lanes have no steady state, which saves more where there is one.
bool KalmanBatch::is_for_lanes(const SequencePass& sequence) const {
    const bool is_even = system_.A.stride == 0 && system_.Q.stride == 0 && is_constant_;
    const bool settles = system_.tolerance > 0 && sequence.T - sequence.begin > kSettles &&
                         !sequences_.is_uneven[sequence.number];
    return system_.n <= kMostInLanes && is_even && !settles;
}

void KalmanBatch::filter(SequencePass& sequence, double* workspace) {
    const int64_t n = system_.n, first = sequence.first + sequence.begin, t = sequence.begin;
    KalmanForward task;
    task.n = n;
    task.m = system_.m;
    task.T = sequence.T - t;
    task.A = system_.A.from(first);
    task.Q = system_.Q.from(first);
    task.b = system_.b.from(first);
    task.blocks = sequence.blocks;
    task.which = at(sequence.which, t);
    task.y = sequence.y + t * system_.m;
    task.tolerance = system_.tolerance;
    task.fill = !goes_back();
    task.workspace = workspace;
    task.mean = sequence.mean.data();
    task.cov = sequence.cov.data();
    task.predicted_means = at(results_.predicted_means, first * n);
    task.predicted_covs = at(results_.predicted_covs, first * n * n);
    task.means = at(results_.means, first * n);
    task.covs = at(results_.covs, first * n * n);
    task.is_steady = goes_back() ? sequence.is_steady.data() + t : nullptr;
    task.log_densities = at(results_.log_densities, first);
    kernels_.forward(task);
    sequence.log_density += task.log_density;
}

void KalmanBatch::set_lane(KalmanLanes& task, int64_t l, const SequencePass& sequence) const {
    const int64_t n = system_.n, t = sequence.begin, first = sequence.first + t;
    task.T[l] = sequence.T - t;
    task.b[l] = system_.b.from(first);
    task.which[l] = at(sequence.which, t);
    task.y[l] = sequence.y + t * system_.m;
    task.mean[l] = sequence.mean.data();
    task.cov[l] = sequence.cov.data();
    task.predicted_means[l] = at(results_.predicted_means, first * n);
    task.predicted_covs[l] = at(results_.predicted_covs, first * n * n);
    task.means[l] = at(results_.means, first * n);
    task.covs[l] = at(results_.covs, first * n * n);
    task.log_densities[l] = at(results_.log_densities, first);
}

void KalmanBatch::filter_lanes(std::vector<SequencePass*>& in_lanes, double* workspace) {
    if (in_lanes.size() == 1) return filter(*in_lanes[0], workspace);
    std::stable_sort(in_lanes.begin(), in_lanes.end(),
                     [](const SequencePass* a, const SequencePass* b) {
                         return a->T - a->begin > b->T - b->begin;
                     });
    for (size_t i = 0; i < in_lanes.size(); i += kernels_.lanes) {
        KalmanLanes task;
        task.n = system_.n;
        task.m = system_.m;
        task.lanes = std::min<int64_t>(kernels_.lanes, in_lanes.size() - i);
        task.A = system_.A.data;
        task.Q = system_.Q.data;
        task.blocks = table_.blocks();
        task.empty = 1;
        task.workspace = workspace;
        for (int64_t l = 0; l < task.lanes; ++l) set_lane(task, l, *in_lanes[i + l]);
        kernels_.forward_lanes(task);
        for (int64_t l = 0; l < task.lanes; ++l)
            in_lanes[i + l]->log_density += task.log_density[l];
    }
}

void KalmanBatch::finish(const SequencePass& sequence) {
    int64_t n_observed = 0;
    for (int64_t t = 0; t < sequence.T; ++t) {
        const int64_t step = sequence.first + t,
                      count = sequences_.counts[sequences_.pattern(step)];
        n_observed += count;
        if (results_.log_densities) results_.log_densities[step] -= 0.5 * kLogTwoPi * double(count);
    }
    results_.log_likelihoods[sequence.number] =
        sequence.log_density - 0.5 * kLogTwoPi * double(n_observed);
    if (results_.n_diffuse)
        results_.n_diffuse[sequence.number] =
            sequence.is_resolved ? std::max<int64_t>(sequence.begin - 1, 0) : sequence.T;
}

}  // namespace tagloom
