// Learning one sentence at a time: the CRF's loss by AdaGrad or by plain stochastic gradient, and
// the structured perceptron, each with or without averaging of the weights.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/linear.hpp"

namespace tagloom {

enum class Rule { adagrad, sgd, perceptron };

struct OnlineOptions {
    Rule rule = Rule::adagrad;
    double l2 = 0;     // of the whole corpus: each sentence carries its Nth part
    double eta = 0;    // rate; of SGD at the start
    double decay = 0;  // SGD: the rate is eta / (1 + decay * epochs)
    bool average = false;
    int64_t average_from = 0;  // first epoch that is averaged
    double first_square = 0;   // AdaGrad: where the sums of squared gradients begin
};

struct Epoch {
    double loss = 0;       // sum over sentences of weight * loss, each at the weights it met
    int64_t mistakes = 0;  // perceptron: sentences with a wrong label
};

// All that one epoch hands to the next, in double whatever the arithmetic: nothing is lost. Arrays
// are laid out like theta.
struct OnlineState {
    std::vector<double> theta, squares, sums;  // squares: AdaGrad; sums: with averaging
    int64_t epochs = 0, averaged = 0;          // averaged: sentences since averaging began
};

class Online {
  public:
    static std::unique_ptr<Online> make(const Problem& problem, const OnlineOptions& options);
    virtual ~Online() = default;

    // One pass in the order of `permutation` [N]. std::overflow_error when weights overflow.
    virtual Epoch epoch(const int64_t* permutation) = 0;
    virtual std::vector<double> theta() const = 0;  // averaged where asked for
    virtual OnlineState state() const = 0;
    virtual void restore(const OnlineState& state) = 0;  // std::invalid_argument: does not fit

    std::mutex mutex;  // for callers that share it
};

}  // namespace tagloom
