// Learning one sentence at a time: the CRF's loss by AdaGrad or by plain stochastic gradient, the
// structured perceptron, and the structured SVM by its subgradient or by block-coordinate
// Frank-Wolfe; with or without averaging of the weights.
//
// The structured SVM minimises 1/2 |theta|^2 + C sum_i weight_i * loss_i, where
//   loss_i = max over paths y of cost(gold_i, y) + score(y) - score(gold_i).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/linear.hpp"

namespace tagloom {

enum class Rule { adagrad, sgd, perceptron, subgradient, frank_wolfe };

struct OnlineOptions {
    Rule rule = Rule::adagrad;
    double l2 = 0;     // of the whole corpus: each sentence carries its Nth part
    double eta = 0;    // rate; of SGD at the start
    double decay = 0;  // SGD: the rate is eta / (1 + decay * epochs)
    bool average = false;
    int64_t average_from = 0;  // first epoch that is averaged
    double first_square = 0;   // AdaGrad: where the sums of squared gradients begin
    double C = 1;              // SVM: how much the losses count beside 1/2 |theta|^2
    std::vector<double> cost;  // SVM: [Y, Y] of gold and candidate label, zero on the diagonal
    double margin = 0;         // perceptron: in updates, see Sentences::update_size
};

struct Epoch {
    double loss = 0;       // sum over sentences of weight * loss, each at the weights it met
    int64_t mistakes = 0;  // perceptron: sentences with a wrong label; SVM: with a loss
};

// Frank-Wolfe's duality gap is |theta|^2 + C (loss - cost).
struct Certificate {
    double loss = 0;  // sum_i weight_i * loss_i at the present weights
    double cost = 0;  // sum_i weight_i * the mean cost of the paths that the weights stand on
};

// All that one epoch hands to the next, in double whatever the arithmetic: nothing is lost. Arrays
// are laid out like theta. Of the subgradient rule, theta is what the steps have added up to,
// before they are scaled. Of Frank-Wolfe, sentence i in the order of work stands on n_paths[i]
// wrong paths with a share for each; the right path has the rest.
struct OnlineState {
    std::vector<double> theta, squares, sums;  // squares: AdaGrad; sums: with averaging
    int64_t epochs = 0, averaged = 0;          // averaged: sentences since averaging began
    int64_t steps = 0;                         // sentences met
    std::vector<int64_t> n_paths;              // [N]
    std::vector<int32_t> paths;                // one after another, each as long as its sentence
    std::vector<double> shares;
};

class Online {
  public:
    static std::unique_ptr<Online> make(const Problem& problem, const OnlineOptions& options);
    virtual ~Online() = default;

    // One pass in the order of `permutation` [N]. std::overflow_error when weights overflow.
    virtual Epoch epoch(const int64_t* permutation) = 0;
    virtual std::vector<double> theta() const = 0;  // averaged where asked for
    virtual Certificate certify() = 0;              // for Frank-Wolfe
    virtual OnlineState state() const = 0;
    virtual void restore(const OnlineState& state) = 0;  // std::invalid_argument: does not fit

    std::mutex mutex;  // for callers that share it
};

}  // namespace tagloom
