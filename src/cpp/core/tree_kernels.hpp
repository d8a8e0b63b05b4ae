// The recursions over dependency trees, compiled once per instruction set. Plain data only: this
// header is included by files built for different machines.
//
// Nodes are 0 (the root) and 1 to T (the words). Projective trees are summed by Eisner's algorithm
// (1996), several sentences at once, one in each lane. All trees are summed by the matrix-tree
// theorem, one sentence at a time.
#pragma once

#include <cstdint>

namespace tagloom {

// Spans of Eisner's algorithm, written by their head, so that one formula serves both directions:
//
//     split[l, r]      = (+)_k  complete[l, k] (x) complete[r, k + 1]          l <= k < r
//     incomplete[h, d] = arc[h, d] (x) split[min, max]                         the arc h -> d
//     complete[h, e]   = (+)_k  incomplete[h, k] (x) complete[k, e]            k from h to e, not h
//
// complete[h, e] spans the words from h to e with head h, whose outermost dependent on that side is
// k. With scores of adjacent siblings (McDonald and Pereira 2006), the next inner dependent s of h
// on the same side is known when the arc h -> d is made; s = h if there is none:
//
//     incomplete[h, d] = arc[h, d] (x) (sib[d, h, h] (x) complete[d, h +- 1]
//                                       (+) (+)_s sib[d, h, s] (x) incomplete[h, s] (x) split[s,
//                                       d])
//
// A single root takes k = 0 only in split[0, r], and s = 0 only in incomplete[0, d].
struct TreeChart {
    int64_t n;  // nodes of the longest sentence
    bool single_root;
    const double* arcs;  // [n, n, W] by head and dependent; -inf for no arc
    // [W] scores [T, H, H] by dependent - 1, head and sibling, or null; null too for an empty lane
    const double* const* siblings;
    int64_t H;
    const int64_t* nodes;  // [W] of each lane
    double* complete;      // [n, n, W]
    double* incomplete;    // [n, n, W]; backwards: the probability of each arc
    double* split;         // [n, n, W]
    double* terms;         // [n, W] scratch
    // Adjoints for the way back: d log Z / d of the three above.
    double* bar_complete;
    double* bar_incomplete;
    double* bar_split;
    double* const* bar_siblings;  // [W] arrays as siblings, or null
};

// Node elimination. The Laplacian of arc weights is a matrix whose elimination needs no subtraction
// if each pivot is summed anew (Grassmann, Taksar and Heyman 1985), so that every result has the
// relative precision of its terms, whatever the range of the scores:
//
//     pivot[v]   = (+)_h  w[h, v]                                  heads h that are left
//     w[h, d]    = w[h, d] (+) w[h, v] (x) w[v, d] / pivot[v]      for all h, d that are left
//     Z          = (x)_v  pivot[v]
//
// in log space. For a single root all weights are powers of an infinitesimal times a number: arcs
// from the root have rank 1, others 0. A sum keeps the terms of the lowest rank, a product adds
// ranks, and the trees with one root are those of rank 1.
struct TreeElimination {
    int64_t T, P;       // words; the same rounded up to a multiple of 8
    double* w;          // [T + 1, P] log weights by head and word; overwritten
    double* rank;       // [T + 1, P], or null unless a single root is required
    double* kept;       // [T * (T + 1) / 2, P] share of the direct arc in each sum, or null
    double* shares;     // [T, T + 1] of each head in the pivot of a word
    double* column;     // [T + 9] scratch
    double* marginals;  // [T + 1, P] probabilities by head and word
};

struct TreeKernels {
    int64_t lanes;
    void (*best)(const TreeChart&);     // (+) is max
    void (*inside)(const TreeChart&);   // (+) is log-sum-exp
    void (*outside)(const TreeChart&);  // after inside: adds to the adjoints
    // weights[h, d] = exp(arcs[h, d] - max_h arcs[h, d]), and shifts[W] = sum_d max_h arcs[h, d], a
    // word without a head left out.
    void (*weigh)(const TreeChart&, double* weights, double* shifts);
    // The same recursions on these weights in place of scores, which is faster; without siblings.
    void (*linear_inside)(const TreeChart&);
    void (*linear_outside)(const TreeChart&);
    double (*eliminate)(const TreeElimination&);  // returns log Z
    void (*restore)(const TreeElimination&);      // after eliminate: the probabilities of arcs
};

const TreeKernels& tree_kernels_baseline();
const TreeKernels& tree_kernels_avx2();
const TreeKernels& tree_kernels_avx512();

}  // namespace tagloom
