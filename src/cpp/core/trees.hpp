// Dependency trees over the words of a sentence: best trees, sums, samples, n best, for ragged
// batches on all cores. trees.cpp has projective trees, spanning_trees.cpp all trees;
// tree_nbest.cpp the n best of both.
//
// A word's head is 0 for the root, or the number of a word from 1 to T. The score of a tree is the
// sum of the scores of its arcs, and of its pairs of adjacent siblings if those are given.
#pragma once

#include <cstdint>
#include <vector>

namespace tagloom {

struct TreeBatch {
    int64_t N, H;            // sentences; columns of arcs
    const int64_t* offsets;  // [N + 1]
    const double* arcs;      // [T, H] by dependent and head; columns beyond a sentence are not read
    const double* siblings;  // [T, H, H] by dependent, head and sibling, or null; projective only
    bool projective, single_root;
    int64_t threads;

    int64_t length(int64_t i) const { return offsets[i + 1] - offsets[i]; }
    const double* arcs_of(int64_t i) const { return arcs + offsets[i] * H; }
};

// Best trees: heads [T], -1 for sentences without a tree; scores [N].
void best_trees(const TreeBatch& batch, int32_t* heads, double* scores);

// log_z [N] and, unless null, the probabilities of arcs [T, H] and of siblings [T, H, H].
void sum_trees(const TreeBatch& batch, double* log_z, double* marginals, double* siblings);

// Exact samples [draws, T], by one seed for each sentence; -1 for sentences without a tree.
void sample_trees(const TreeBatch& batch, int64_t draws, const uint64_t* seeds, int32_t* heads,
                  double* log_z);

// One of the n best trees of a sentence.
struct Tree {
    double score;
    std::vector<int32_t> heads;  // [T]
};
// The n best trees of each sentence, the best first.
std::vector<std::vector<Tree>> nbest_trees(const TreeBatch& batch, int64_t n);

// The score of a tree of sentence i; -inf if an arc is forbidden.
double tree_score(const TreeBatch& batch, int64_t i, const int32_t* heads);

// ---------------------------------------------------------------------------------------------
// One sentence; used by the drivers above

// The best spanning tree (Chu and Liu 1965, Edmonds 1967): false if there is none.
bool best_spanning_tree(int64_t T, int64_t H, const double* arcs, bool single_root, int32_t* heads);

// log Z over all trees; the probabilities of arcs [T, H] unless null.
double sum_spanning_trees(int64_t T, int64_t H, const double* arcs, bool single_root,
                          double* marginals);

// Draws [draws, T] with rows a stride apart; returns log Z.
double sample_spanning_trees(int64_t T, int64_t H, const double* arcs, bool single_root,
                             int64_t draws, uint64_t seed, int32_t* heads, int64_t stride);

std::vector<Tree> nbest_spanning_trees(const TreeBatch& batch, int64_t i, int64_t n);
std::vector<Tree> nbest_projective_trees(const TreeBatch& batch, int64_t i, int64_t n);

}  // namespace tagloom
