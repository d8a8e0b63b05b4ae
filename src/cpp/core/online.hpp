// Online learners: the CRF's loss by AdaGrad or plain SGD, the structured perceptron, and the
// structured SVM by subgradient or block-coordinate Frank-Wolfe; with or without averaging.
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
    double l2 = 0;     // of the whole corpus: each sentence gets 1/N of it
    double eta = 0;    // learning rate; for SGD the initial one
    double decay = 0;  // SGD: the rate is eta / (1 + decay * epochs)
    bool average = false;
    int64_t average_from = 0;  // first epoch that is averaged
    double first_square = 0;   // AdaGrad: initial value of the sums of squared gradients
    double C = 1;              // SVM: weight of the losses relative to 1/2 |theta|^2
    std::vector<double> cost;  // SVM: [Y, Y] gold label, candidate label; zero on the diagonal
    double margin = 0;  // AdaGrad, SGD: score; perceptron: updates, see Sentences::update_size
};

struct Epoch {
    double loss = 0;       // sum_i weight_i * loss_i, each at the weights before its update
    int64_t mistakes = 0;  // perceptron: sentences with a wrong label; SVM: with loss > 0
};

// Frank-Wolfe's duality gap is |theta|^2 + C (loss - cost).
struct Certificate {
    double loss = 0;  // sum_i weight_i * loss_i at the present weights
    double cost = 0;  // sum_i weight_i * mean cost under the dual variables of sentence i
};

// The state between epochs, in double for any type of arithmetic, so that resuming is exact. Arrays
// are laid out like theta. For the subgradient rule, theta is the unscaled sum of the steps. For
// Frank-Wolfe, the dual variables of sentence i in work order are the shares of n_paths[i] wrong
// paths; the gold path has the rest.
struct OnlineState {
    std::vector<double> theta, squares, sums;  // squares: AdaGrad; sums: with averaging
    int64_t epochs = 0, averaged = 0;          // averaged: sentences since averaging began
    int64_t steps = 0;                         // sentences visited
    int64_t corpus = 0;                        // sentences of the whole corpus; 0: unchanged
    double elapsed = -1;                       // epochs with fractions; below 0: `epochs`
    std::vector<int64_t> n_paths;              // [N]
    std::vector<int32_t> paths;                // concatenated, each as long as its sentence
    std::vector<double> shares;
};

class Online {
  public:
    // A learner of one corpus.
    static std::unique_ptr<Online> make(const LinearObjective& objective,
                                        const OnlineOptions& options);
    // A learner of a corpus in parts, with n_rows weights of rows and n_tail of the tail so far.
    // Not for Frank-Wolfe, whose state is that of the sentences.
    static std::unique_ptr<Online> make(const RowMap& map, int64_t n_rows, int64_t n_tail,
                                        bool float32, const OnlineOptions& options);
    virtual ~Online() = default;

    // Visits n sentences in the order of `permutation` [n]: one pass, or a part of it.
    // std::overflow_error when weights overflow.
    Epoch epoch(const int64_t* permutation, int64_t n);

    // The same for a corpus in parts: begin, then attach and visit for each part, then end.
    // `n` sentences are visited, of a corpus of `n_corpus`, which C and l2 refer to.
    virtual void begin(int64_t n, int64_t n_corpus) = 0;
    virtual void attach(const Corpus& part) = 0;  // it must outlive visit()
    virtual Epoch visit(const int64_t* permutation, int64_t n) = 0;
    virtual void end() = 0;

    // Weights whose map has changed: their number, or their order. Weight j is the old from_rows[j]
    // (null: the old j), or new if that is -1 or beyond the old weights; from_tail likewise.
    virtual void remap(int64_t n_rows, const int64_t* from_rows, int64_t n_tail,
                       const int64_t* from_tail) = 0;
    // A weight that was masked is free from now on.
    virtual void release(int64_t weight) = 0;
    // The weights of rows [first, first + n), averaged if options.average.
    virtual void read_rows(int64_t first, int64_t n, float* out) const = 0;
    virtual std::vector<double> read_tail() const = 0;
    virtual void set_cost(std::vector<double> cost) = 0;  // see OnlineOptions

    virtual std::vector<double> theta() const = 0;  // averaged if options.average
    // The same as the last call: releases memory of the optimiser first.
    virtual std::vector<double> take_theta() { return theta(); }
    virtual Certificate certify() = 0;  // Frank-Wolfe only
    virtual OnlineState state() const = 0;
    virtual void restore(const OnlineState& state) = 0;  // std::invalid_argument: wrong sizes

    std::mutex mutex;  // for callers that share it

  protected:
    int64_t N = 1;  // sentences of the whole corpus
};

}  // namespace tagloom
