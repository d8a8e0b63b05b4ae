// Selection of labelled spans: among candidates, those of maximal total score that do not overlap
// and that automata over labels accept, read from left to right.
//
// The selections of one sequence are the paths of an acyclic graph. A node is a boundary between
// positions with one state of each automaton; an arc takes a candidate, or skips to the next
// boundary. Only nodes that a path reaches are built, and states that the labels of later
// candidates cannot tell apart are one: a constraint costs nothing where its labels have no
// candidate.
#pragma once

#include <cstdint>
#include <vector>

namespace tagloom {

// A deterministic automaton over labels; it begins in state 0.
struct LabelAutomaton {
    int64_t states = 1;
    std::vector<int32_t> next;      // [states, labels] -1: forbidden
    std::vector<uint8_t> is_final;  // [states]
};

struct Candidate {
    int32_t start, end, label;  // positions start .. end - 1
    double score;
};

class Selection {
  public:
    // std::invalid_argument if there are too many states of all automata together.
    Selection(const std::vector<LabelAutomaton>& automata, int64_t labels,
              const std::vector<Candidate>& candidates);

    // Up to n selections, the best first: whether each candidate is in it [k, C], and the scores.
    void nbest(int64_t n, std::vector<uint8_t>& chosen, std::vector<double>& scores) const;
    // log of the sum of exp(score) over all selections; probability of each candidate [C].
    double sum(double* marginals) const;

  private:
    struct Arc {
        int64_t source;
        double score;
        int32_t candidate;  // -1: none
    };

    int64_t n_candidates_;
    std::vector<int64_t> ptr_;  // [nodes + 1] arcs into each node, which are sorted by boundary
    std::vector<Arc> arcs_;
    bool has_path_ = false;

    friend struct SelectionGraph;
};

// The score of the best selection, and whether each candidate is in it [C]; -inf if there is none.
// Candidates of negative score are not searched if they can be left out of any selection: those
// whose labels no other label needs.
double best_selection(const std::vector<LabelAutomaton>& automata, int64_t labels,
                      const std::vector<Candidate>& candidates, std::vector<uint8_t>& chosen);

}  // namespace tagloom
