// A batch of sequences on its way through the filter and back. It prepares what the kernels expect,
// chunk by chunk, and writes to the arrays of the whole batch. Chunks may run on any thread: their
// sums are added up in the order of the chunks.
#pragma once

#include <cstdint>
#include <vector>

#include "core/kalman.hpp"
#include "core/kalman_blocks.hpp"
#include "core/kalman_diffuse.hpp"
#include "core/kalman_kernels.hpp"

namespace tagloom {

// Memory for the kernels, aligned for vectors.
class KalmanWorkspace {
  public:
    explicit KalmanWorkspace(int64_t size) : memory_(size + 8) {
        auto at = reinterpret_cast<uintptr_t>(memory_.data());
        data_ = memory_.data() + (64 - at % 64) % 64 / sizeof(double);
    }
    double* data() { return data_; }

  private:
    std::vector<double> memory_;
    double* data_;
};

// One sequence on its way through the filter.
struct SequencePass {
    int64_t number = 0, first = 0, T = 0;  // its first step in the batch
    KalmanBlocks blocks;
    std::vector<int32_t> own_which;  // where each step has its own block
    const int32_t* which = nullptr;
    BlockTable own_table;
    std::vector<double> own_y;
    const double* y = nullptr;  // [T, m] in rows of blocks
    std::vector<uint8_t> is_steady;
    DiffuseHistory history;
    int64_t begin = 0;  // steps that the diffuse start has taken
    bool is_resolved = true;
    std::vector<double> mean, cov;  // predicted at `begin`
    double log_density = 0;
};

// Draws of states, in whole-batch arrays; see kalman_sample.
struct KalmanDraws {
    const double* noise = nullptr;  // [n_samples, steps + N, n]
    int64_t n_samples = 0;
    double* states = nullptr;  // [n_samples, steps, n]
};

enum class KalmanGoal { filter, smooth, sample };

class KalmanBatch {
  public:
    KalmanBatch(const KalmanSystem& system, const KalmanSequences& sequences,
                const KalmanResults& results, KalmanGoal goal, KalmanDraws draws = {});

    // Takes all chunks there and, unless the goal is to filter, back.
    void run(int64_t threads);

  private:
    bool goes_back() const { return goal_ != KalmanGoal::filter; }
    template <class T>
    static T* at(T* array, int64_t offset) {
        return array ? array + offset : nullptr;
    }

    int64_t chunks() const { return int64_t(chunks_.size()); }
    void run_chunk(int64_t chunk);
    void prepare_sums();
    void finish_sums() const;
    void prepare(SequencePass& sequence, int64_t number);
    void start(SequencePass& sequence);
    bool is_for_lanes(const SequencePass& sequence) const;
    void filter(SequencePass& sequence, double* workspace);
    void set_lane(KalmanLanes& task, int64_t l, const SequencePass& sequence) const;
    void filter_lanes(std::vector<SequencePass*>& in_lanes, double* workspace);
    void finish(const SequencePass& sequence);
    KalmanBackward backward(const SequencePass& sequence, int64_t begin, double* workspace);
    void smooth(const SequencePass& sequence, int64_t chunk, double* workspace);
    void sample(const SequencePass& sequence, double* workspace);
    void write_start(const DiffuseStart& start, const DiffuseSolution& solution, int64_t step,
                     bool is_predicted);

    const KalmanSystem& system_;
    const KalmanSequences& sequences_;
    const KalmanResults& results_;
    const KalmanGoal goal_;
    const KalmanDraws draws_;
    const KalmanKernels& kernels_;
    std::vector<int64_t> chunks_;  // the first sequence of each
    bool is_constant_, copies_y_, has_diffuse_ = false;
    BlockTable table_;
    std::vector<double> sum_covs_;  // [chunks, patterns, n, n]
    std::vector<double> sum_lags_;  // [chunks, n, n]
};

}  // namespace tagloom
