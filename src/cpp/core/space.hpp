// A state space: a deterministic automaton over labels, with weights tied to its transitions.
//
// A state has at most one transition per label, and each label at most one initial state, so label
// paths and state paths correspond one to one. A Space has no scores; an Automaton (automaton.hpp)
// adds them. In a linear model all weights other than those of attributes form the *tail* of theta:
//
//   tail = [trans Y*Y, from -> to][start Y][stop Y][tied K]
//
// start and stop exist only with boundaries. The score of a transition is that of its label pair in
// trans plus its tied weights: n-grams of labels, runs, counts. First order has no tied weights.
#pragma once

#include <cstdint>
#include <vector>

namespace tagloom {

struct Automaton;

struct Space {
    int64_t Y = 0;                       // labels
    int64_t K = 0;                       // tied weights
    std::vector<int32_t> label;          // [S] the label that each state emits
    std::vector<uint8_t> is_initial;     // [S]
    std::vector<uint8_t> is_final;       // [S]
    std::vector<int32_t> src, dst;       // [M] transitions, sorted by dst
    std::vector<int64_t> tie_ptr;        // [M + 1] weights tied to transition m are
    std::vector<int32_t> ties;           //   ties[tie_ptr[m]] .. ties[tie_ptr[m + 1]]
    std::vector<int64_t> start_tie_ptr;  // [S + 1] the same for starting in a state
    std::vector<int32_t> start_ties;
    int64_t levels = 0;  // k if the states are all histories of 1 to k labels, otherwise 0

    // Filled by index():
    std::vector<int64_t> into;           // [S + 1] transitions into s are into[s] .. into[s + 1]
    std::vector<int64_t> out_of;         // [S + 1] transitions out of s are by_src[out_of[s]] ...
    std::vector<int64_t> by_src;         // [M]
    std::vector<int32_t> pair;           // [M] label of src * Y + label of dst
    std::vector<int32_t> transition_of;  // [S, Y] the transition from state s on label y, or -1
    std::vector<int32_t> first_state;    // [Y] the initial state with label y, or -1

    // Filled by index_dense() if levels > 0: the transition of each entry of the matrices of
    // kernels.hpp [levels, G, Y, Y], with G = Y^(levels - 1).
    int64_t G = 1;
    std::vector<int32_t> dense;

    static Space first_order(int64_t Y);
    void index();  // std::invalid_argument if a number is out of range
    void index_dense();

    int64_t states() const { return static_cast<int64_t>(label.size()); }
    int64_t transitions() const { return static_cast<int64_t>(src.size()); }
    bool is_first_order() const { return levels == 1 && K == 0; }
    int64_t tail_size(bool boundaries) const { return Y * Y + (boundaries ? 2 * Y : 0) + K; }
    int64_t ties_at(bool boundaries) const { return tail_size(boundaries) - K; }

    double transition_score(const double* tail, const double* tied, int64_t m) const {
        double score = tail[pair[m]];
        for (int64_t j = tie_ptr[m]; j < tie_ptr[m + 1]; ++j) score += tied[ties[j]];
        return score;
    }
    // Writes the scores of transitions, starts and stops into an automaton of this space.
    void score(const double* tail, bool boundaries, Automaton& scored) const;

    // Calls use(place in the tail) for every weight in the score of a transition, start or stop.
    template <class Use>
    void each_of_transition(int64_t m, bool boundaries, const Use& use) const {
        use(pair[m]);
        const int64_t at = ties_at(boundaries);
        for (int64_t j = tie_ptr[m]; j < tie_ptr[m + 1]; ++j) use(at + ties[j]);
    }
    template <class Use>
    void each_of_start(int64_t s, bool boundaries, const Use& use) const {
        if (boundaries) use(Y * Y + label[s]);
        const int64_t at = ties_at(boundaries);
        for (int64_t j = start_tie_ptr[s]; j < start_tie_ptr[s + 1]; ++j) use(at + start_ties[j]);
    }
    template <class Use>
    void each_of_stop(int64_t s, bool boundaries, const Use& use) const {
        if (boundaries) use(Y * Y + Y + label[s]);
    }
    // The same for a whole label path, T > 0. False if the space does not accept it; use may have
    // been called by then.
    template <class Use>
    bool each_of_path(const int32_t* path, int64_t T, bool boundaries, const Use& use) const {
        int64_t s = first_state[path[0]];
        if (s < 0) return false;
        each_of_start(s, boundaries, use);
        for (int64_t t = 1; t < T; ++t) {
            const int64_t m = transition_of[s * Y + path[t]];
            if (m < 0) return false;
            each_of_transition(m, boundaries, use);
            s = dst[m];
        }
        each_of_stop(s, boundaries, use);
        return is_final[s];
    }

    // Adds expected transitions [M], starts [S] and stops [S] to the counts of the tail.
    void spread(const double* expected, const double* start, const double* stop, bool boundaries,
                double* counts) const;
    // Adds the expected transitions of the dense matrices to the counts of the tail, and sets them
    // to 0.
    void spread_dense(double* transitions, bool boundaries, double* counts) const;
};

}  // namespace tagloom
