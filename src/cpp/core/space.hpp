// The state space of a linear model: which moves there are, and which weights each is tied to.
//
// The weights that are no features come after them in theta, the *tail*:
//
//   tail = [trans Y*Y, from -> to][start Y][stop Y][tied K]
//
// start and stop only with boundaries. The score of a move is that of its pair of labels in trans
// plus the tied weights of the state space: n-grams of labels, runs, counts. First order has none.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/automaton.hpp"

namespace tagloom {

struct Space {
    int64_t K = 0;                       // tied weights
    Automaton automaton;                 // without scores; start and stop are 0, or -inf: forbidden
    std::vector<int64_t> tie_ptr;        // [M + 1] weights tied to move m are
    std::vector<int32_t> ties;           //   ties[tie_ptr[m]] .. ties[tie_ptr[m + 1]]
    std::vector<int64_t> start_tie_ptr;  // [S + 1] the same for starting in a state
    std::vector<int32_t> start_ties;
    // Where the states are all histories of k labels: the move of each entry of the matrices of
    // kernels.hpp [levels, G, Y, Y]. levels is 0 for any other space.
    int64_t G = 1, levels = 0;
    std::vector<int32_t> dense;
    // Filled by index():
    std::vector<int32_t> pair;         // [M] label of src * Y + label of dst
    std::vector<int32_t> move_of;      // [S, Y] the move that reads a label in a state, or -1
    std::vector<int32_t> first_state;  // [Y] or -1

    static Space first_order(int64_t Y);
    void index();  // std::invalid_argument if a number is out of range

    int64_t Y() const { return automaton.Y; }
    bool is_first_order() const { return levels == 1 && K == 0; }
    int64_t tail_size(bool boundaries) const { return Y() * Y() + (boundaries ? 2 * Y() : 0) + K; }
    int64_t ties_at(bool boundaries) const { return tail_size(boundaries) - K; }

    double move_score(const double* tail, const double* tied, int64_t m) const {
        double score = tail[pair[m]];
        for (int64_t j = tie_ptr[m]; j < tie_ptr[m + 1]; ++j) score += tied[ties[j]];
        return score;
    }
    // The scores of the states' starts and stops, and of the moves.
    void score(const double* tail, bool boundaries, Automaton& scored) const;

    // Calls use(place in the tail) for every weight that a move, or a start, is tied to.
    template <class Use>
    void each_of_move(int64_t m, bool boundaries, const Use& use) const {
        use(pair[m]);
        const int64_t at = ties_at(boundaries);
        for (int64_t j = tie_ptr[m]; j < tie_ptr[m + 1]; ++j) use(at + ties[j]);
    }
    template <class Use>
    void each_of_start(int64_t s, bool boundaries, const Use& use) const {
        if (boundaries) use(Y() * Y() + automaton.label[s]);
        const int64_t at = ties_at(boundaries);
        for (int64_t j = start_tie_ptr[s]; j < start_tie_ptr[s + 1]; ++j) use(at + start_ties[j]);
    }
    template <class Use>
    void each_of_stop(int64_t s, bool boundaries, const Use& use) const {
        if (boundaries) use(Y() * Y() + Y() + automaton.label[s]);
    }
    // The same for all of a path of labels; false, at the latest at its end, if it is refused.
    template <class Use>
    bool each_of_path(const int32_t* path, int64_t T, bool boundaries, const Use& use) const {
        int64_t s = first_state[path[0]];
        if (s < 0) return false;
        each_of_start(s, boundaries, use);
        for (int64_t t = 1; t < T; ++t) {
            const int64_t m = move_of[s * Y() + path[t]];
            if (m < 0) return false;
            each_of_move(m, boundaries, use);
            s = automaton.dst[m];
        }
        each_of_stop(s, boundaries, use);
        return automaton.stop[s] > -std::numeric_limits<double>::infinity();
    }

    // Expected moves [M], starts [S] and stops [S] into counts of the tail, +=.
    void spread(const double* moves, const double* start, const double* stop, bool boundaries,
                double* counts) const;
    // Expected moves of the dense matrices into counts of the tail, +=; moves become 0.
    void spread_dense(double* moves, bool boundaries, double* counts) const;
};

}  // namespace tagloom
