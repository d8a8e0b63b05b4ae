// The objective of a linear-chain model: encoded sentences with their gold labels, laid out for
// training.
//
//   theta = [node rows][edge rows][sub-tag rows][trans Y*Y, from -> to][start Y][stop Y][tied K]
//           [pairs of sub-tags S*S]
//
// The part after the rows is the *tail*, see space.hpp. Sub-tags, see subtags.hpp, have weights for
// every attribute.
//
// A node row has one weight for each label that occurs with the attribute, or one for every label;
// an edge row is over pairs of labels, column y_prev * Y + y. An attribute that occurs with at
// least a quarter of the labels has a *full* row, whose other entries are masked: they are not free
// and stay exactly zero. Full rows are fast to add, the others are small.
//
// For evaluation alone, the weights of attributes that occur together share *slots*, see
// bundles.hpp; otherwise the slot of a weight is its place in theta. Lists have slots.
//
// Labels may be open, see corpus.hpp. The loss of a sentence is
//
//   log sum_{all paths} exp(score) - log sum_{paths within the label sets} exp(score).
//
// Sentences are copied in *work order*. They form a few shards, whose sums are added in a fixed
// order, so every bit is the same for any number of threads. Within a shard they are sorted by
// length, because lane batches need sequences of similar length, but only within a window:
// attributes are numbered in order of occurrence, so nearby sentences use nearby weights. Shards
// are cut into blocks that fit the cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "core/bundles.hpp"
#include "core/corpus.hpp"
#include "core/objective.hpp"

namespace tagloom {

// Which attributes have weights for which columns: the sparsity pattern of the weights, in CSR
// form.
struct WeightPattern {
    int64_t width = 0;             // columns of a full row
    std::vector<int64_t> ptr{0};   // [A + 1] the weights of attribute a are ptr[a] .. ptr[a + 1]
    std::vector<uint16_t> cols;    // [W]
    std::vector<uint8_t> is_free;  // [W] false for masked entries of a full row; see `take_free`

    int64_t size() const { return static_cast<int64_t>(cols.size()); }
    bool is_full(int64_t a) const { return ptr[a + 1] - ptr[a] == width; }

    // Moves is_free, and its memory, to the mask of an objective.
    void take_free(uint8_t* mask) {
        std::copy(is_free.begin(), is_free.end(), mask);
        std::vector<uint8_t>().swap(is_free);
    }
};

// Where the rows of attributes lie among the weights of a learner, and which weights are free. The
// weights of the tail are numbered from tail_at() on.
class RowMap {
  public:
    virtual ~RowMap() = default;
    virtual int64_t tail_at() const = 0;
    virtual const uint8_t* free_rows() const = 0;  // by weight
    virtual const uint8_t* free_tail() const = 0;  // [n_tail]
    // Calls use(first, n, is_full) for every row: its weights are first .. first + n - 1.
    using UseRow = std::function<void(int64_t first, int64_t n, bool is_full)>;
    virtual void each_row(const UseRow& use) const = 0;
};

class LinearObjective final : public Objective, public Corpus, public RowMap {
  public:
    // std::invalid_argument if the examples are inconsistent. With pattern_only, the objective has
    // rows and a mask, but cannot be evaluated.
    explicit LinearObjective(const Examples& examples, int64_t threads = 1);

    int64_t size() const override { return trans_at + n_tail(); }
    // sum_i weight_i * (log_z_i - score of the gold path_i) and its gradient; see likelihood.cpp.
    // Calls from several threads are serialised.
    double evaluate(const double* theta, double* grad, int64_t threads) const override;
    // The same for other coordinates of the rows, followed by the tail.
    double evaluate(const Coordinates& rows, const double* x, double* grad, int64_t threads) const;
    const uint8_t* mask() const override { return is_free.data(); }
    bool is_pattern() const { return reach.empty(); }
    double rounding() const override { return float32 ? 1e-7 : 1e-14; }

    int64_t tail_at() const override { return trans_at; }
    const uint8_t* free_rows() const override { return is_free.data(); }
    const uint8_t* free_tail() const override { return is_free.data() + trans_at; }
    void each_row(const UseRow& use) const override;

    // Arrays of the caller may share the first two, and outlive the objective.
    const std::shared_ptr<WeightPattern> shared_nodes = std::make_shared<WeightPattern>();
    const std::shared_ptr<WeightPattern> shared_edges = std::make_shared<WeightPattern>();
    WeightPattern &nodes = *shared_nodes, &edges = *shared_edges;  // no edges: empty
    WeightPattern of_subtags;                                      // no sub-tags: empty
    int64_t edges_at, subtags_at, trans_at;                        // where the parts of theta begin
    std::vector<uint8_t> is_free;                                  // [size] the mask
    Coordinates of_theta;                                          // the slots of the rows
    int64_t n_groups = 0;  // of attributes; the sum of group g has slots g * Y .. g * Y + Y

  private:
    template <class In>
    struct Workspace;
    template <class In>
    struct Worker;
    template <class In>
    class Block;
    template <class In>
    double run(std::shared_ptr<Workspace<In>>& kept, const Coordinates& rows, const double* x,
               double* grad, int64_t threads) const;
    template <class In>
    std::shared_ptr<Workspace<In>> make_workspace() const;
    template <class In>
    void load(Workspace<In>& work, const Coordinates& rows, const double* x, int64_t threads) const;
    template <class In>
    void spread_groups(Workspace<In>& work) const;
    template <class In>
    void finish(Workspace<In>& work, const Coordinates& rows, double* grad, int64_t threads) const;

    // The steps of the constructor.
    void lay_out_rows(const Examples& x, int64_t threads);
    void share_slots(const Examples& x);
    void order_sentences(const Examples& x);
    void free_rows_and_ties(bool all_combinations);
    void count_gold();
    void copy_segments(const Examples& x);
    void lay_out_lists(const Examples& x, int64_t threads);
    void find_reach(int64_t threads);

    // [A] the first slot of each attribute that is listed, or -1; empty: where its row begins.
    std::vector<int64_t> node_slots, edge_slots;
    Groups groups;                 // until the lists have been made
    OwnedLists group_lists;        // [n_groups] their members
    std::vector<int64_t> blocks;   // block b is sentences blocks[b] .. blocks[b + 1]
    std::vector<int64_t> shards;   // shard k is blocks shards[k] .. shards[k + 1]
    std::vector<int64_t> reach;    // [K] one past the last slot that shard k touches
    std::vector<double> observed;  // [tail] counts of the gold paths without open labels
    mutable std::mutex mutex;      // guards the workspaces
    mutable std::shared_ptr<Workspace<float>> space32;
    mutable std::shared_ptr<Workspace<double>> space64;
};

// The same objective for an optimiser that starts at 0. One coordinate v stands for the n free
// weights of a slot, which are all v / sqrt(n); so |theta| = |v|, penalties on squares and the
// steps of L-BFGS are those of theta, but for rounding. The tail of v is that of theta.
class BundledObjective final : public Objective {
  public:
    // The objective must outlive this one; later changes of its mask are not seen.
    // std::invalid_argument if only some of the weights of a slot are free.
    explicit BundledObjective(const LinearObjective& objective);

    int64_t size() const override { return rows.n + objective.n_tail(); }
    double evaluate(const double* v, double* grad, int64_t threads) const override {
        return objective.evaluate(rows, v, grad, threads);
    }
    const uint8_t* mask() const override { return free.data(); }
    double rounding() const override { return objective.rounding(); }
    int64_t n_expanded() const { return objective.size(); }
    void expand(const double* v, double* theta) const;  // theta [n_expanded]

  private:
    const LinearObjective& objective;
    Coordinates rows;
    std::vector<uint8_t> free;  // [size]
};

}  // namespace tagloom
