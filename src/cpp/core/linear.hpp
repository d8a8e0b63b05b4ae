// Encoded sentences with their gold labels, laid out for learning a linear chain model.
//
//   theta = [node rows][edge rows][trans Y*Y, from -> to][start Y][stop Y][tied K]
//
// What follows the rows is the *tail*, see space.hpp.
//
// Node rows hold one weight for each label that an attribute was seen with, or one for every label;
// edge rows the same over pairs of labels, column y_prev * Y + y. An attribute that was seen with
// at least a quarter of the labels has a *full* row, whose unseen entries are masked: they are not
// free and stay exactly zero. Full rows are fast to add, the others are small.
//
// Labels may be left open: a token then has a set of labels instead of one, and the loss of its
// sentence is that of the whole set of paths that its tokens leave,
//   log sum over all paths of exp(score) - log sum over the paths left open of exp(score).
//
// Sentences are copied in the order in which they are worked on: a few shards, whose sums are added
// in a fixed order so that every bit is the same for any number of threads; inside a shard by
// length, because lanes want company of their length, but only so many at a time: attributes are
// numbered as they come, so that the weights of sentences near each other are, too; then cut into
// blocks that stay in the cache.
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
    const int64_t* indptr = nullptr;  // [T + 1]; null: there are none
    const int32_t* ids = nullptr;
    const float* values = nullptr;  // null: all are 1
    int64_t nnz = 0;                // length of ids
    int64_t n = 0;                  // number of attributes
    // Pairs that get a weight whether they were seen here or not: what is known from elsewhere.
    const int32_t* known = nullptr;        // [n_known] attributes
    const uint16_t* known_cols = nullptr;  // [n_known]
    int64_t n_known = 0;
};

struct Examples {
    int64_t N, T, Y;
    const int64_t* offsets;  // [N + 1]
    Attributes nodes, edges;
    const int32_t* gold;            // [T] label, or -1 - k: any label of set k
    const double* weight;           // [N] or null
    bool all_combinations;          // a weight for every label, seen or not
    bool boundaries;                // start and stop weights
    bool float32;                   // arithmetic of scores and marginals; sums are always double
    const uint8_t* sets = nullptr;  // [n_sets, Y] the labels of each set
    int64_t n_sets = 0;
    const int32_t* allowed = nullptr;  // [T] or null: the set of labels that paths may take
    const Space* space = nullptr;      // null: first order
};

// Weights of the attributes, row after row.
struct Rows {
    int64_t width = 0;             // columns of a full row
    std::vector<int64_t> ptr{0};   // [A + 1] row of attribute a
    std::vector<uint16_t> cols;    // [W]
    std::vector<uint8_t> is_free;  // [W] false for the unseen entries of a full row

    int64_t size() const { return static_cast<int64_t>(cols.size()); }
    bool is_full(int64_t a) const { return ptr[a + 1] - ptr[a] == width; }
};

// The Lists of rows.hpp with their memory, in the order of work.
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

class Problem final : public Objective {
  public:
    // std::invalid_argument for what does not fit.
    explicit Problem(const Examples& examples, int64_t threads = 1);

    int64_t size() const override { return trans_at + space.tail_size(boundaries); }
    // sum_i weight_i * (log_z_i - score of the gold path_i) and its gradient; see likelihood.cpp.
    // Safe to call from many threads, one at a time.
    double evaluate(const double* theta, double* grad, int64_t threads) const override;
    const uint8_t* mask() const override { return is_free.data(); }
    double rounding() const override { return float32 ? 1e-7 : 1e-14; }

    bool has_edges() const { return !edge_lists.full_ptr.empty(); }

    // Whether a label, or set of labels, as in `gold` leaves label y open.
    bool permits(int32_t labels, int64_t y) const {
        return labels >= 0 ? labels == y : sets[(-1 - labels) * Y + y];
    }
    // Emissions [n, Y] of the tokens from `first` on: -inf for what paths may not take.
    template <class In>
    void forbid(int64_t first, int64_t n, In* emit) const;
    // The same for what the gold labels do not leave open, into a copy.
    template <class In>
    void close(int64_t first, int64_t n, const In* emit, std::vector<In>& closed) const;

    int64_t N, T, Y;
    bool boundaries, float32;
    Space space;
    Rows nodes, edges;             // no rows without edge attributes
    int64_t edges_at, trans_at;    // where the parts of theta begin
    std::vector<uint8_t> is_free;  // [size] the mask
    std::vector<int64_t> order;    // [N] sentence at each place of work
    std::vector<int64_t> starts;   // [N + 1] its first token
    std::vector<int32_t> gold;     // [T] in the order of work
    std::vector<int32_t> allowed;  // [T] in the order of work, or empty
    std::vector<uint8_t> sets;     // [n_sets, Y]
    std::vector<uint8_t> is_open;  // [N] whether labels are left open
    std::vector<double> weight;    // [N] in the order of work
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
    // Calls see(label) for the labels that a token was seen with; one that may have any has none.
    template <class See>
    void each_seen(int32_t label, const See& see) const;

    std::vector<int64_t> blocks;   // block b is sentences blocks[b] .. blocks[b + 1]
    std::vector<int64_t> shards;   // shard k is blocks shards[k] .. shards[k + 1]
    std::vector<int64_t> reach;    // [K] one past the last weight of a row that shard k touches
    std::vector<double> observed;  // of the tail, by gold paths that leave nothing open
    mutable std::mutex mutex;      // of the workspaces
    mutable std::shared_ptr<Workspace<float>> space32;
    mutable std::shared_ptr<Workspace<double>> space64;
};

}  // namespace tagloom
