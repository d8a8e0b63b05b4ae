// The objective of a linear-chain model: encoded sentences with their gold labels, laid out for
// training.
//
//   theta = [node rows][edge rows][trans Y*Y, from -> to][start Y][stop Y][tied K]
//
// The part after the rows is the *tail*, see space.hpp.
//
// A node row has one weight for each label that occurs with the attribute, or one for every label;
// an edge row is over pairs of labels, column y_prev * Y + y. An attribute that occurs with at
// least a quarter of the labels has a *full* row, whose other entries are masked: they are not free
// and stay exactly zero. Full rows are fast to add, the others are small.
//
// Labels may be open: a token then has a set of labels instead of one. The loss of its sentence is
//
//   log sum_{all paths} exp(score) - log sum_{paths within the label sets} exp(score).
//
// Sentences are copied in *work order*. They form a few shards, whose sums are added in a fixed
// order, so every bit is the same for any number of threads. Within a shard they are sorted by
// length, because lane batches need sequences of similar length, but only within a window:
// attributes are numbered in order of occurrence, so nearby sentences use nearby weights. Shards
// are cut into blocks that fit the cache.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/objective.hpp"
#include "core/pages.hpp"
#include "core/rows.hpp"
#include "core/space.hpp"

namespace tagloom {

// Attributes of token t are ids[indptr[t]] .. ids[indptr[t + 1]].
struct Attributes {
    const int64_t* indptr = nullptr;  // [T + 1]; null: no attributes
    const int32_t* ids = nullptr;
    const float* values = nullptr;  // null: all are 1
    int64_t nnz = 0;                // length of ids
    int64_t n = 0;                  // number of attributes
    // Pairs that get a weight even if they do not occur here, such as those of an earlier model.
    const int32_t* extra = nullptr;        // [n_extra] attributes
    const uint16_t* extra_cols = nullptr;  // [n_extra]
    int64_t n_extra = 0;
};

struct Examples {
    int64_t N, T, Y;
    const int64_t* offsets;  // [N + 1]
    Attributes nodes, edges;
    const int32_t* gold;            // [T] label, or -1 - k: any label of set k
    const double* weight;           // [N] or null
    bool all_combinations;          // a weight for every attribute and label
    bool boundaries;                // start and stop weights
    bool float32;                   // arithmetic of scores and marginals; sums are always double
    const uint8_t* sets = nullptr;  // [n_sets, Y] the labels of each set
    int64_t n_sets = 0;
    const int32_t* allowed = nullptr;  // [T] or null: the set of labels that paths may take
    const Space* space = nullptr;      // null: first order
};

// Which attributes have weights for which columns: the sparsity pattern of the weights, in CSR
// form.
struct WeightPattern {
    int64_t width = 0;             // columns of a full row
    std::vector<int64_t> ptr{0};   // [A + 1] the weights of attribute a are ptr[a] .. ptr[a + 1]
    std::vector<uint16_t> cols;    // [W]
    std::vector<uint8_t> is_free;  // [W] false for masked entries of a full row

    int64_t size() const { return static_cast<int64_t>(cols.size()); }
    bool is_full(int64_t a) const { return ptr[a + 1] - ptr[a] == width; }
};

// The Lists of rows.hpp with their memory, in work order.
struct OwnedLists {
    std::vector<int64_t> full_ptr, single_ptr;
    PagedArray<uint32_t> full, single;
    PagedArray<uint16_t> column;
    PagedArray<float> full_value, single_value;
    std::vector<float> square;  // [T] sum of the squared values of the token's attributes
    bool valued = false;

    Lists view() const {
        return {full_ptr.data(),
                single_ptr.data(),
                full.data(),
                single.data(),
                column.data(),
                valued ? full_value.data() : nullptr,
                valued ? single_value.data() : nullptr};
    }
};

class LinearObjective final : public Objective {
  public:
    // std::invalid_argument if the examples are inconsistent.
    explicit LinearObjective(const Examples& examples, int64_t threads = 1);

    int64_t size() const override { return trans_at + space.tail_size(boundaries); }
    // sum_i weight_i * (log_z_i - score of the gold path_i) and its gradient; see likelihood.cpp.
    // Calls from several threads are serialised.
    double evaluate(const double* theta, double* grad, int64_t threads) const override;
    const uint8_t* mask() const override { return is_free.data(); }
    double rounding() const override { return float32 ? 1e-7 : 1e-14; }

    bool has_edges() const { return !edge_lists.full_ptr.empty(); }

    // Whether y is the label, or in the set of labels, of an entry of `gold` or `allowed`.
    bool permits(int32_t labels, int64_t y) const {
        return labels >= 0 ? labels == y : sets[(-1 - labels) * Y + y];
    }
    // Sets emit [n, Y] of the tokens from `first` on to -inf where paths may not go.
    template <class In>
    void forbid(int64_t first, int64_t n, In* emit) const;
    // Copies emit, with -inf where the gold labels do not permit y.
    template <class In>
    void close(int64_t first, int64_t n, const In* emit, std::vector<In>& closed) const;

    int64_t N, T, Y;
    bool boundaries, float32;
    Space space;
    WeightPattern nodes, edges;    // edges is empty without edge attributes
    int64_t edges_at, trans_at;    // where the parts of theta begin
    std::vector<uint8_t> is_free;  // [size] the mask
    std::vector<uint8_t> sets;     // [n_sets, Y]
    std::vector<int64_t> order;    // [N] the sentence at each place of the work order
    // In work order:
    std::vector<int64_t> starts;   // [N + 1] first token of each sentence
    std::vector<int32_t> gold;     // [T]
    std::vector<int32_t> allowed;  // [T] or empty
    std::vector<uint8_t> is_open;  // [N] whether a sentence has open labels
    std::vector<double> weight;    // [N]
    OwnedLists node_lists, edge_lists;

  private:
    template <class In>
    struct Workspace;
    template <class In>
    struct Worker;
    template <class In>
    class Block;
    template <class In>
    double run(std::shared_ptr<Workspace<In>>& kept, const double* theta, double* grad,
               int64_t threads) const;
    template <class In>
    std::shared_ptr<Workspace<In>> make_workspace() const;
    template <class In>
    void load(Workspace<In>& work, const double* theta, double* grad, int64_t threads) const;
    template <class In>
    void finish(Workspace<In>& work, double* grad, int64_t threads) const;

    // The steps of the constructor.
    void lay_out_rows(const Examples& x, int64_t threads);
    void order_sentences(const Examples& x);
    void copy_labels(const Examples& x);
    void mark_seen(const int32_t* labels, int64_t n);
    void lay_out_lists(const Examples& x, int64_t threads);
    void find_reach(int64_t threads);
    // Calls see(label) for the label or labels of a token; not at all if every label is permitted.
    template <class See>
    void each_seen(int32_t label, const See& see) const;

    std::vector<int64_t> blocks;   // block b is sentences blocks[b] .. blocks[b + 1]
    std::vector<int64_t> shards;   // shard k is blocks shards[k] .. shards[k + 1]
    std::vector<int64_t> reach;    // [K] one past the last weight of a row that shard k touches
    std::vector<double> observed;  // [tail] counts of the gold paths without open labels
    mutable std::mutex mutex;      // guards the workspaces
    mutable std::shared_ptr<Workspace<float>> space32;
    mutable std::shared_ptr<Workspace<double>> space64;
};

}  // namespace tagloom
