#include "core/kalman.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numbers>

#include "core/dense_matrix.hpp"
#include "core/dispatch.hpp"
#include "core/kalman_diffuse.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

const double kLogTwoPi = std::log(2 * std::numbers::pi);
// Sequences are taken in chunks of at most so many, and of no more once they have so many steps.
constexpr int64_t kChunk = 32, kChunkSteps = 4096;
constexpr int64_t kSettles = 512;  // steps from which on a steady state is worth more than lanes

// Memory for vectors.
class Workspace {
  public:
    explicit Workspace(int64_t size) : memory_(size + 8) {
        auto at = reinterpret_cast<uintptr_t>(memory_.data());
        data_ = memory_.data() + (64 - at % 64) % 64 / sizeof(double);
    }
    double* data() { return data_; }

  private:
    std::vector<double> memory_;
    double* data_;
};

// The rows of KalmanBlocks for an observed subset of components: their noise made independent by
// the factors R = L D L' of its covariance, c = L^-1 C, r = D, y = L^-1 (y - d).
struct Rows {
    std::vector<int64_t> components;
    SemiFactor noise;
    bool is_diagonal = true;

    Rows(const double* R, int64_t m, const uint8_t* observed)
        : components(listed(observed, m)), noise(picked(R, m, components)) {
        for (int64_t i = 0; i < noise.L.rows; ++i)
            for (int64_t j = 0; j < i; ++j) is_diagonal &= noise.L(i, j) == 0;
    }

    void write_matrix(const double* C, int64_t n, int64_t m, double* to, double* r) const {
        std::fill_n(to, m * n, 0.0);
        std::fill_n(r, m, 1.0);
        for (int64_t i = 0; i < int64_t(components.size()); ++i) {
            std::copy_n(C + components[i] * n, n, to + i * n);
            for (int64_t k = 0; k < i; ++k)
                for (int64_t j = 0; j < n; ++j) to[i * n + j] -= noise.L(i, k) * to[k * n + j];
            r[i] = noise.D[i];
        }
    }
    void write_observation(const double* y, const double* d, int64_t m, double* to) const {
        const int64_t rows = int64_t(components.size());
        for (int64_t i = 0; i < rows; ++i) {
            to[i] = y[components[i]] - d[components[i]];
            for (int64_t k = 0; k < i && !is_diagonal; ++k) to[i] -= noise.L(i, k) * to[k];
        }
        std::fill(to + rows, to + m, 0.0);
    }

  private:
    static std::vector<int64_t> listed(const uint8_t* observed, int64_t m) {
        std::vector<int64_t> out;
        for (int64_t i = 0; i < m; ++i)
            if (observed[i]) out.push_back(i);
        return out;
    }
    static DenseMatrix picked(const double* R, int64_t m, const std::vector<int64_t>& components) {
        const int64_t rows = int64_t(components.size());
        DenseMatrix out(rows, rows);
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < rows; ++j) out(i, j) = R[components[i] * m + components[j]];
        return out;
    }
};

// Blocks for all patterns, where C and R are the same at every step.
struct Table {
    std::vector<Rows> rows;
    std::vector<double> C, r;
    std::vector<int32_t> n_rows;

    void add(const double* C_step, const double* R_step, int64_t n, int64_t m,
             const uint8_t* observed) {
        rows.emplace_back(R_step, m, observed);
        n_rows.push_back(int32_t(rows.back().components.size()));
        C.resize(C.size() + m * n);
        r.resize(r.size() + m);
        rows.back().write_matrix(C_step, n, m, C.data() + C.size() - m * n,
                                 r.data() + r.size() - m);
    }
    void clear() {
        rows.clear();
        C.clear();
        r.clear();
        n_rows.clear();
    }
    KalmanBlocks blocks() const { return {C.data(), r.data(), n_rows.data()}; }
};

// One sequence on its way through the filter.
struct Sequence {
    int64_t number = 0, first = 0, T = 0;  // its first step in the batch
    KalmanBlocks blocks;
    std::vector<int32_t> own_which;  // where each step has a block of its own
    const int32_t* which = nullptr;
    Table own_table;
    std::vector<double> own_y;
    const double* y = nullptr;  // [T, m] in rows of blocks
    std::vector<uint8_t> is_steady;
    DiffuseHistory history;
    int64_t begin = 0;  // steps that the diffuse start has taken
    bool is_resolved = true;
    std::vector<double> mean, cov;  // predicted at `begin`
    double log_density = 0;
    int64_t n_determined = 0;
};

// Draws of states, in whole-batch arrays; see kalman_sample.
struct Draws {
    const double* noise = nullptr;  // [n_samples, steps + N, n]
    int64_t n_samples = 0;
    double* states = nullptr;  // [n_samples, steps, n]
};

enum class Goal { filter, smooth, sample };

class Batch {
  public:
    Batch(const KalmanSystem& system, const KalmanSequences& sequences,
          const KalmanResults& results, Goal goal, Draws draws = {})
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

    int64_t chunks() const { return int64_t(chunks_.size()); }

    // Sums of each chunk, added up in their order at the end.
    void prepare_sums() {
        const int64_t size = system_.n * system_.n;
        if (results_.sum_covs) sum_covs_.resize(chunks() * sequences_.patterns() * size);
        if (results_.sum_lags) sum_lags_.resize(chunks() * size);
    }
    void finish_sums() const {
        add_up(sum_covs_, sequences_.patterns() * system_.n * system_.n, results_.sum_covs);
        add_up(sum_lags_, system_.n * system_.n, results_.sum_lags);
    }

    void run(int64_t chunk) {
        Workspace workspace(kernels_.workspace(system_.n, system_.m));
        const int64_t first = chunks_[chunk];
        const int64_t last = chunk + 1 < chunks() ? chunks_[chunk + 1] : sequences_.N;
        std::vector<Sequence> all(last - first);
        std::vector<Sequence*> in_lanes;
        for (int64_t i = first; i < last; ++i) {
            Sequence& sequence = all[i - first];
            prepare(sequence, i);
            start(sequence);
            if (sequence.begin == sequence.T) continue;
            if (is_for_lanes(sequence))
                in_lanes.push_back(&sequence);
            else
                filter(sequence, workspace.data());
        }
        filter_lanes(in_lanes, workspace.data());
        for (Sequence& sequence : all) {
            finish(sequence);
            if (goal_ == Goal::smooth) smooth(sequence, chunk, workspace.data());
            if (goal_ == Goal::sample && sequence.is_resolved) sample(sequence, workspace.data());
        }
    }

  private:
    bool goes_back() const { return goal_ != Goal::filter; }
    static void add_up(const std::vector<double>& parts, int64_t size, double* to) {
        if (!to) return;
        std::fill_n(to, size, 0.0);
        for (size_t i = 0; i < parts.size(); ++i) to[i % size] += parts[i];
    }
    template <class T>
    static T* at(T* array, int64_t offset) {
        return array ? array + offset : nullptr;
    }

    void prepare(Sequence& sequence, int64_t number);
    void start(Sequence& sequence);
    bool is_for_lanes(const Sequence& sequence) const;
    void filter(Sequence& sequence, double* workspace);
    void filter_lanes(std::vector<Sequence*>& in_lanes, double* workspace);
    void finish(const Sequence& sequence);
    KalmanBackward backward(const Sequence& sequence, int64_t begin, double* workspace);
    void smooth(const Sequence& sequence, int64_t chunk, double* workspace);
    void sample(const Sequence& sequence, double* workspace);
    void write_start(const DiffuseStart& start, const DiffuseSolution& solution, int64_t step,
                     bool is_predicted);

    const KalmanSystem& system_;
    const KalmanSequences& sequences_;
    const KalmanResults& results_;
    const Goal goal_;
    const Draws draws_;
    const KalmanKernels& kernels_;
    std::vector<int64_t> chunks_;  // the first sequence of each
    bool is_constant_, copies_y_, has_diffuse_ = false;
    Table table_;
    std::vector<double> sum_covs_;  // [chunks, patterns, n, n]
    std::vector<double> sum_lags_;  // [chunks, n, n]
};

void Batch::prepare(Sequence& sequence, int64_t number) {
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
        const Table& table = is_constant_ ? table_ : sequence.own_table;
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

void Batch::write_start(const DiffuseStart& start, const DiffuseSolution& solution, int64_t step,
                        bool is_predicted) {
    const int64_t n = system_.n;
    double* means = is_predicted ? results_.predicted_means : results_.means;
    double* covs = is_predicted ? results_.predicted_covs : results_.covs;
    if (!means && !covs) return;
    const DiffuseMoments moments = start.moments(solution);
    if (means) std::copy_n(moments.mean.data.data(), n, means + step * n);
    if (covs) std::copy_n(moments.cov.data.data(), n * n, covs + step * n * n);
}

// Takes as many steps as leave a variance infinite, and the one that resolves them.
void Batch::start(Sequence& sequence) {
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
    sequence.n_determined = state.n_determined();
    if (sequence.begin == sequence.T) return;
    const int64_t step = sequence.first + sequence.begin;
    state.predict(system_.A.at(step), system_.Q.at(step), system_.b.at(step));
    const DiffuseMoments moments = state.moments(solution);
    sequence.mean = moments.mean.data;
    sequence.cov = moments.cov.data;
}

// Lanes have no steady state, which saves more where there is one.
bool Batch::is_for_lanes(const Sequence& sequence) const {
    const bool is_even = system_.A.stride == 0 && system_.Q.stride == 0 && is_constant_;
    const bool settles = system_.tolerance > 0 && sequence.T - sequence.begin > kSettles &&
                         !sequences_.is_uneven[sequence.number];
    return system_.n <= kMostInLanes && is_even && !settles;
}

void Batch::filter(Sequence& sequence, double* workspace) {
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
    sequence.n_determined += task.n_determined;
}

void Batch::filter_lanes(std::vector<Sequence*>& in_lanes, double* workspace) {
    const int64_t n = system_.n;
    if (in_lanes.size() == 1) return filter(*in_lanes[0], workspace);
    std::stable_sort(in_lanes.begin(), in_lanes.end(), [](const Sequence* a, const Sequence* b) {
        return a->T - a->begin > b->T - b->begin;
    });
    for (size_t i = 0; i < in_lanes.size(); i += kernels_.lanes) {
        KalmanLanes task;
        task.n = n;
        task.m = system_.m;
        task.lanes = std::min<int64_t>(kernels_.lanes, in_lanes.size() - i);
        task.A = system_.A.data;
        task.Q = system_.Q.data;
        task.blocks = table_.blocks();
        task.empty = 1;
        task.workspace = workspace;
        for (int64_t l = 0; l < task.lanes; ++l) {
            const Sequence& sequence = *in_lanes[i + l];
            const int64_t t = sequence.begin, first = sequence.first + t;
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
        kernels_.forward_lanes(task);
        for (int64_t l = 0; l < task.lanes; ++l) {
            in_lanes[i + l]->log_density += task.log_density[l];
            in_lanes[i + l]->n_determined += task.n_determined[l];
        }
    }
}

void Batch::finish(const Sequence& sequence) {
    int64_t n_observed = -sequence.n_determined;
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

KalmanBackward Batch::backward(const Sequence& sequence, int64_t begin, double* workspace) {
    const int64_t n = system_.n, first = sequence.first + begin;
    KalmanBackward task;
    task.n = n;
    task.T = sequence.T - begin;
    task.A = system_.A.from(first);
    task.Q = system_.Q.from(first);
    task.b = system_.b.from(first);
    task.tolerance = system_.tolerance;
    task.is_steady = sequence.is_steady.data() + begin;
    task.workspace = workspace;
    task.means = results_.means + first * n;
    task.covs = results_.covs + first * n * n;
    task.lags = at(results_.lags, first * n * n);
    task.which = sequences_.which.empty() ? nullptr : sequences_.which.data() + first;
    return task;
}

void Batch::smooth(const Sequence& sequence, int64_t chunk, double* workspace) {
    if (!sequence.T) return;
    const int64_t n = system_.n, size = n * n, end = sequence.first + sequence.T - 1;
    double* sum_covs =
        results_.sum_covs ? sum_covs_.data() + chunk * sequences_.patterns() * size : nullptr;
    double* sum_lags = results_.sum_lags ? sum_lags_.data() + chunk * size : nullptr;
    if (sum_covs)
        for (int64_t j = 0; j < size; ++j)
            sum_covs[sequences_.pattern(end) * size + j] += results_.covs[end * size + j];
    const int64_t resolved = std::max<int64_t>(sequence.begin - 1, 0);
    if (sequence.is_resolved) {
        KalmanBackward task = backward(sequence, resolved, workspace);
        task.sum_covs = sum_covs;
        task.sum_lags = sum_lags;
        kernels_.backward(task);
    }
    if (sequence.history.size() > 1) {
        KalmanBackward task = backward(sequence, 0, workspace);
        task.sum_covs = sum_covs;
        task.sum_lags = sum_lags;
        sequence.history.smooth(task, kernels_);
    }
}

// Forward filtering, backward sampling: the last state first, then each one given the next.
void Batch::sample(const Sequence& sequence, double* workspace) {
    if (!sequence.T) return;
    const int64_t n = system_.n, steps = sequences_.offsets.back();
    const int64_t resolved = std::max<int64_t>(sequence.begin - 1, 0), last = sequence.T - 1;
    auto noise = [&](int64_t k, int64_t t) {
        const int64_t row = sequence.first + sequence.number + t;
        return draws_.noise + (k * (steps + sequences_.N) + row) * n;
    };
    auto state = [&](int64_t k, int64_t t) {
        return draws_.states + (k * steps + sequence.first + t) * n;
    };
    DenseMatrix J(n, n), M(results_.covs + (sequence.first + last) * n * n, n, n);
    DenseMatrix root = SemiFactor(M).root();
    std::vector<double> error(n);
    int64_t kept = -1;  // the step whose filtered covariance J and M are of
    for (int64_t t = last; t >= resolved; --t) {
        const int64_t step = sequence.first + t;
        const double* mean = results_.means + step * n;
        int64_t owner = t;
        while (sequence.is_steady[owner]) --owner;
        if (t < last && owner != kept) {
            KalmanGain gain;
            gain.n = n;
            gain.A = system_.A.at(step + 1);
            gain.Q = system_.Q.at(step + 1);
            gain.cov = results_.covs + (sequence.first + owner) * n * n;
            gain.workspace = workspace;
            gain.J = J.data.data();
            gain.M = M.data.data();
            kernels_.gain(gain);
            root = SemiFactor(M).root();
            kept = owner;
        }
        for (int64_t k = 0; k < draws_.n_samples; ++k) {
            double* x = state(k, t);
            const double* e = noise(k, t);
            if (t < last) {
                const double *A = system_.A.at(step + 1), *b = system_.b.at(step + 1);
                for (int64_t i = 0; i < n; ++i) {
                    error[i] = state(k, t + 1)[i] - b[i];
                    for (int64_t j = 0; j < n; ++j) error[i] -= A[i * n + j] * mean[j];
                }
            }
            for (int64_t i = 0; i < n; ++i) {
                x[i] = mean[i];
                for (int64_t j = 0; j <= i; ++j) x[i] += root(i, j) * e[j];
                for (int64_t j = 0; j < n && t < last; ++j) x[i] += J(i, j) * error[j];
            }
        }
    }
    if (sequence.history.size() < 2) return;
    const KalmanBackward task = backward(sequence, 0, workspace);
    // The row after the last is for the unknown start.
    std::vector<double> rows((resolved + 1) * n);
    for (int64_t k = 0; k < draws_.n_samples; ++k) {
        std::copy_n(noise(k, 0), resolved * n, rows.data());
        std::copy_n(noise(k, sequence.T), n, rows.data() + resolved * n);
        sequence.history.sample(task, kernels_, rows.data(), state(k, 0));
    }
}

}  // namespace

KalmanSequences::KalmanSequences(const double* y, int64_t m, const int64_t* offsets, int64_t N)
    : y(y), m(m), N(N), offsets(offsets, offsets + N + 1), is_uneven(N) {
    observed.assign(m, 1);
    observed.resize(2 * m, 0);
    counts = {m, 0};
    const int64_t steps = this->offsets.back();
    bool is_complete = true;
    for (int64_t i = 0; i < steps * m; ++i) is_complete &= !std::isnan(y[i]);
    if (is_complete) return;
    which.resize(steps);
    std::map<std::vector<uint8_t>, int32_t> patterns = {{std::vector<uint8_t>(m, 1), 0},
                                                        {std::vector<uint8_t>(m, 0), 1}};
    std::vector<uint8_t> pattern(m);
    for (int64_t i = 0; i < N; ++i) {
        int64_t changes = 0;
        for (int64_t t = offsets[i]; t < offsets[i + 1]; ++t) {
            bool is_last = t > offsets[i];  // as at the step before
            for (int64_t j = 0; j < m; ++j) {
                const uint8_t here = !std::isnan(y[t * m + j]);
                is_last &= here == pattern[j];
                pattern[j] = here;
            }
            if (is_last) {
                which[t] = which[t - 1];
                continue;
            }
            ++changes;
            const auto [found, is_new] = patterns.try_emplace(pattern, int32_t(counts.size()));
            if (is_new) {
                observed.insert(observed.end(), pattern.begin(), pattern.end());
                counts.push_back(std::count(pattern.begin(), pattern.end(), 1));
            }
            which[t] = found->second;
        }
        is_uneven[i] = changes * 64 > offsets[i + 1] - offsets[i];
    }
}

void kalman_filter(const KalmanSystem& system, const KalmanSequences& sequences,
                   const KalmanResults& results, int64_t threads) {
    Batch batch(system, sequences, results, Goal::filter);
    parallel_for(batch.chunks(), threads, [&](int64_t chunk, int64_t) { batch.run(chunk); });
}

void kalman_smooth(const KalmanSystem& system, const KalmanSequences& sequences,
                   const KalmanResults& results, int64_t threads) {
    Batch batch(system, sequences, results, Goal::smooth);
    batch.prepare_sums();
    parallel_for(batch.chunks(), threads, [&](int64_t chunk, int64_t) { batch.run(chunk); });
    batch.finish_sums();
}

int64_t kalman_sample(const KalmanSystem& system, const KalmanSequences& sequences,
                      const double* noise, int64_t n_samples, double* states, int64_t threads) {
    const int64_t steps = sequences.offsets.back(), n = system.n;
    std::vector<double> likelihoods(sequences.N), means(steps * n), covs(steps * n * n);
    std::vector<int64_t> n_diffuse(sequences.N);
    KalmanResults results;
    results.log_likelihoods = likelihoods.data();
    results.means = means.data();
    results.covs = covs.data();
    results.n_diffuse = n_diffuse.data();
    Batch batch(system, sequences, results, Goal::sample, {noise, n_samples, states});
    parallel_for(batch.chunks(), threads, [&](int64_t chunk, int64_t) { batch.run(chunk); });
    for (int64_t i = 0; i < sequences.N; ++i) {
        const int64_t T = sequences.offsets[i + 1] - sequences.offsets[i];
        if (T && n_diffuse[i] == T) return i;
    }
    return -1;
}

namespace {

// to = offset + M x + root e
void draw(const double* offset, const double* M, const double* x, int64_t n,
          const DenseMatrix& root, const double* e, double* to) {
    for (int64_t i = 0; i < root.rows; ++i) {
        to[i] = offset[i];
        for (int64_t j = 0; M && j < n; ++j) to[i] += M[i * n + j] * x[j];
        for (int64_t j = 0; j <= i; ++j) to[i] += root(i, j) * e[j];
    }
}

}  // namespace

void kalman_generate(const KalmanSystem& system, int64_t T, const double* state,
                     const double* state_noise, const double* observation_noise, double* states,
                     double* observations) {
    const int64_t n = system.n, m = system.m;
    if (!T) return;
    DenseMatrix root = SemiFactor(DenseMatrix(system.cov, n, n)).root();
    DenseMatrix observed = SemiFactor(DenseMatrix(system.R.data, m, m)).root();
    draw(system.mean, nullptr, nullptr, n, root, state_noise, states);
    if (state) std::copy_n(state, n, states);
    for (int64_t t = 0; t < T; ++t) {
        double* x = states + t * n;
        if (t) {
            if (t == 1 || system.Q.stride)
                root = SemiFactor(DenseMatrix(system.Q.at(t), n, n)).root();
            draw(system.b.at(t), system.A.at(t), x - n, n, root, state_noise + t * n, x);
        }
        if (t && system.R.stride) observed = SemiFactor(DenseMatrix(system.R.at(t), m, m)).root();
        draw(system.d.at(t), system.C.at(t), x, n, observed, observation_noise + t * m,
             observations + t * m);
    }
}

namespace {

// The first step, or the next one after those that left a variance infinite.
KalmanBelief update_start(const KalmanSystem& system, const KalmanBelief* before,
                          const Table& table, const double* y) {
    DiffuseStart start = before
                             ? *before->start
                             : DiffuseStart(system.n, system.mean, system.cov, system.is_diffuse);
    const double log_density = before ? start.solve().log_density : 0;
    if (before) start.predict(system.A.data, system.Q.data, system.b.data);
    start.observe(table.C.data(), table.r.data(), table.n_rows[0], y);
    const DiffuseSolution solution = start.solve();
    const DiffuseMoments moments = start.moments(solution);
    KalmanBelief after{moments.mean.data, moments.cov.data, solution.log_density - log_density, {}};
    if (!solution.is_resolved()) after.start = std::move(start);
    return after;
}

}  // namespace

KalmanBelief kalman_update(const KalmanSystem& system, const KalmanBelief* before,
                           const double* y) {
    const int64_t n = system.n, m = system.m;
    std::vector<uint8_t> observed(m);
    for (int64_t i = 0; i < m; ++i) observed[i] = !std::isnan(y[i]);
    Table table;
    table.add(system.C.data, system.R.data, n, m, observed.data());
    std::vector<double> rows(m);
    table.rows[0].write_observation(y, system.d.data, m, rows.data());
    const double constant = 0.5 * kLogTwoPi * double(table.n_rows[0]);
    bool has_start = before && before->start;
    for (int64_t i = 0; !before && system.is_diffuse && i < n; ++i)
        has_start |= system.is_diffuse[i] != 0;
    KalmanBelief after;
    if (has_start) {
        after = update_start(system, before, table, rows.data());
        after.log_density -= constant;
        return after;
    }
    after.mean.assign(system.mean, system.mean + n);
    after.cov.assign(system.cov, system.cov + n * n);
    if (before) {
        const DenseMatrix A(system.A.data, n, n);
        const DenseMatrix mean(before->mean.data(), n, 1), cov(before->cov.data(), n, n);
        after.mean = (A * mean + DenseMatrix(system.b.data, n, 1)).data;
        after.cov = (sandwich(A, cov) + DenseMatrix(system.Q.data, n, n)).data;
    }
    const KalmanKernels& kernels = tagloom::kernels().kalman();
    Workspace workspace(kernels.workspace(n, m));
    KalmanForward task;
    task.n = n;
    task.m = m;
    task.T = 1;
    task.A = system.A;
    task.Q = system.Q;
    task.b = system.b;
    task.blocks = table.blocks();
    task.y = rows.data();
    task.workspace = workspace.data();
    task.mean = after.mean.data();
    task.cov = after.cov.data();
    KalmanBelief out{std::vector<double>(n), std::vector<double>(n * n), 0, {}};
    task.means = out.mean.data();
    task.covs = out.cov.data();
    kernels.forward(task);
    out.log_density = task.log_density - constant + 0.5 * kLogTwoPi * double(task.n_determined);
    return out;
}

}  // namespace tagloom
