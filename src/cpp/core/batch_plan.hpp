// Cuts a ragged batch into work items for the kernels: groups of sequences that run in lanes, and
// single sequences. The cut is the same for any number of threads. Also the scratch memory of an
// item.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/scratch.hpp"

namespace tagloom {

constexpr int64_t kLaneBytes = 4 << 20;  // scratch per thread above which lanes are not used
constexpr int64_t kMostLanes = 64;       // of any instruction set

// The sequences of a batch, without their scores.
struct RaggedBatch {
    const int64_t* offsets;  // [N + 1]
    int64_t N;

    int64_t length(int64_t i) const { return offsets[i + 1] - offsets[i]; }
};

// Groups for lanes first, then single sequences by descending length. Sequences are sorted by
// length within a window only, so that those of a group lie close together in memory.
struct BatchPlan {
    std::vector<int64_t> order;   // sequences that are not empty
    std::vector<int64_t> groups;  // group i is order[groups[i]] .. order[groups[i + 1]]
    int64_t singles = 0;          // the first group that is a single sequence
    int64_t threads = 1;

    // Sequences of up to `longest` positions run in lanes; a position costs `transitions`
    // operations.
    BatchPlan(const RaggedBatch& batch, int64_t lanes, int64_t longest, int64_t transitions,
              int64_t threads);

    int64_t items() const { return static_cast<int64_t>(groups.size()) - 1; }
    bool is_single(int64_t item) const { return item >= singles; }
    int64_t sequence(int64_t item) const { return order[groups[item]]; }  // the first of its group
};

// The lanes of a group: start and length of each sequence.
struct Group {
    int64_t first[kMostLanes], length[kMostLanes];
    const int64_t* sequence;  // [n] numbers of the sequences
    int64_t n;

    Group(const RaggedBatch& batch, const BatchPlan& plan, int64_t item);
};

// Divides scratch memory of this thread into the arrays of one task.
template <class R>
class Pieces {
  public:
    explicit Pieces(int64_t n) : taken_(scratch().take(static_cast<std::size_t>(n))) {}
    R* take(int64_t n) { return std::exchange(taken_.data, taken_.data + n); }

  private:
    static Scratch<R>& scratch() {
        thread_local Scratch<R> of_this_thread;
        return of_this_thread;
    }
    typename Scratch<R>::Taken taken_;
};

}  // namespace tagloom
