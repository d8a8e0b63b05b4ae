// Learns the weights of a dependency parser, sentence by sentence: those of arcs by a loss over
// whole trees, those of labels by the same loss over the labels of each arc of the right tree, or
// both by one loss over labelled trees.
//
//     perceptron   theta += f(gold) - f(best)
//     hinge        the same for the best with costs, by the step min(C, loss / |f(gold) -
//     f(best)|^2)
//                  (passive-aggressive; Crammer et al. 2006)
//     log          AdaGrad on -log p(gold), with f(gold) - E[f] for each word
//
// The weights to predict with are the means over all steps, in float32 with sums in float64.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/hashed_weights.hpp"
#include "core/tree_features.hpp"
#include "core/trees.hpp"

namespace tagloom {

enum class TreeLoss { perceptron, hinge, log };

struct ParserOptions {
    TreeLoss loss;
    bool projective, single_root;
    double C;    // hinge: the longest step
    double eta;  // log: the rate of AdaGrad
    int bits;
    bool joint;         // one loss for arcs and labels
    bool has_siblings;  // whether pairs of adjacent siblings have scores
};

// Labels that are part of the scores of arcs: an arc scores the log-sum of its labels, or the best.
struct JointLabels {
    const float* theta;
    const LabelChoices* choices;
    bool sums;
};

class ParserLearner {
  public:
    // heads and labels [T]; -1 for a label that is not known.
    ParserLearner(const ParserSentences& sentences, const int32_t* heads, const int32_t* labels,
                  int64_t n_labels, const ParserOptions& options);

    struct Result {
        double loss = 0;
        int64_t n_mistakes = 0;
    };
    // Visits sentences in an order; returns the sum of their losses.
    Result epoch(const int64_t* order, int64_t n);

    const LabelChoices& choices() const { return choices_; }
    AveragedWeights arcs, label_weights;
    double steps = 0;

  private:
    TreeBatch score_siblings(const int64_t (&offsets)[2]);
    void move_siblings(const int32_t* gold);
    void collect_siblings(const int32_t* heads, const int32_t* others, double amount);
    double learn_arcs(int64_t i, bool& is_right);
    double learn_labels(int64_t i);
    double learn_jointly(int64_t i, bool& is_right);
    double score_jointly(int64_t i);
    void climb_jointly(int64_t i);
    double move_jointly(int64_t i, double loss);
    void collect(int64_t h, int64_t d, int64_t label, double amount);
    int64_t best_label(int64_t h, int64_t d) const;
    void move_arc(int64_t h, int64_t d, double gradient);
    double move_to(const int32_t* gold, double loss);

    const ParserSentences& sentences_;
    const int32_t *heads_, *labels_;
    const ParserOptions options_;
    LabelChoices choices_;
    ParserFeatures features_;
    std::vector<double> scores_, marginals_;
    std::vector<double> siblings_, sibling_marginals_;  // [T, H, H], or empty
    std::vector<int32_t> best_;
    std::vector<uint64_t> of_label_;
    using Amounts = std::vector<std::pair<uint64_t, double>>;  // places and amounts of one update
    Amounts steps_, label_steps_;
    // The labels of all arcs of a sentence: those of h -> d begin at indptr[(d - 1) * H + h].
    std::vector<int64_t> indptr_;
    std::vector<std::pair<int64_t, double>> scored_;  // label, score
};

// Scores of arcs [T, H] of all sentences, on all threads; without labels, joint is null.
void parser_scores(const ParserSentences& sentences, const float* theta, int bits, int64_t H,
                   const JointLabels* joint, int64_t threads, double* arcs);

// Scores of adjacent siblings [T, H, H] of all sentences, on all threads; 0 where none can be.
void parser_siblings(const ParserSentences& sentences, const float* theta, int bits, int64_t H,
                     bool single_root, int64_t threads, double* siblings);

// The best label of each arc of given trees; joint: by the scores that parser_scores adds.
void parser_labels(const ParserSentences& sentences, const int32_t* heads, const float* theta,
                   int bits, const LabelChoices& choices, bool joint, int64_t threads,
                   int32_t* labels);

}  // namespace tagloom
