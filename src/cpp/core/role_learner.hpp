// Learns to label the arguments of predicates, frame by frame.
//
// A filter, a logistic regression over candidates, drops spans that are hardly an argument. Of the
// others, a linear classifier scores every role against none, whose score is 0:
//
//     local     each candidate on its own: the loss over its roles and none
//     global    the loss over all selections of labelled candidates that do not overlap and that
//               the automata of the constraints accept; see selection.hpp
//
// by the losses of the perceptron, hinge (passive-aggressive steps) and log (AdaGrad), as for the
// parser. A right argument that is not a candidate is left out; so is, in global training, a frame
// whose other arguments alone break a constraint.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/role_features.hpp"
#include "core/selection.hpp"

namespace tagloom {

enum class RoleLoss { perceptron, hinge, log };

// Roles of a span whose odds against the best one are below e^-8 do not enter selections.
constexpr double kRoleMargin = 8;

struct RoleOptions {
    RoleLoss loss;
    double C;      // hinge: the longest step
    double eta;    // log, and the filter: the rate of AdaGrad
    double least;  // candidates with log-odds below this are dropped
    int bits;      // logarithm of the numbers of weights
};

// Weights and tables to predict with.
struct RoleWeights {
    const float *filter, *theta;  // [2^bits]; no filter: nullptr
    int bits;
    double least;
    const LabelChoices& choices;  // roles by RoleFeatures::context
    const LabelChoices& legal;    // roles by lemma
};

// The labelled candidates of a frame, in the order of their spans.
class RoleScores {
  public:
    // Roles that score less than the best role of their span, or none, by more than the margin are
    // left out, unless they are right.
    using GoldRole = std::function<int32_t(const RoleSpan&)>;
    void read(const RoleSentences& sentences, const RoleFrame& frame, const RoleWeights& weights,
              double margin, const GoldRole& role_of = nullptr);

    RoleFeatures features;
    std::vector<RoleSpan> spans;        // those that pass the filter
    std::vector<int64_t> ptr;           // [spans + 1] into `keys`
    std::vector<uint64_t> keys;         // features of each span
    std::vector<Candidate> candidates;  // each span with each role that it may have
    std::vector<int32_t> span_of;       // of each candidate

    static double filter_score(const std::vector<uint64_t>& keys, const RoleWeights& weights);

  private:
    std::vector<uint64_t> of_span_;
    std::vector<uint8_t> is_legal_;
};

// Arguments of frames: argument k of frame f is spans[3 k ...], indptr[f] <= k < indptr[f + 1].
struct RoleArguments {
    const int64_t* indptr;
    const int32_t* spans;  // [A, 3] start, end, role
};

class RoleLearner {
  public:
    RoleLearner(const RoleSentences& sentences, const std::vector<RoleFrame>& frames,
                const RoleArguments& gold, int64_t n_roles,
                const std::vector<LabelAutomaton>& automata, const LabelChoices& legal,
                const RoleOptions& options);

    struct Result {
        double loss = 0;
        int64_t n_mistakes = 0;
    };
    // Visits frames in an order; returns the mean loss of a candidate.
    Result filter_epoch(const int64_t* order, int64_t n);
    Result epoch(const int64_t* order, int64_t n, bool is_global);

    const LabelChoices& choices() const { return choices_; }
    void use_filter();  // its mean weights from now on
    AveragedWeights filter, roles;
    double filter_steps = 0, steps = 0;

  private:
    RoleWeights weights() const {
        return {filter_.empty() ? nullptr : filter_.data(),
                roles.theta.data(),
                options_.bits,
                options_.least,
                choices_,
                legal_};
    }
    int32_t role_of(int64_t f, const RoleSpan& span) const;
    double learn_local(bool& is_right);
    double learn_global(bool& is_right);
    void move(int64_t candidate, double gradient);
    double move_hinge(double loss);
    bool accepts_gold() const;

    const RoleSentences& sentences_;
    const std::vector<RoleFrame>& frames_;
    const RoleArguments gold_;
    const std::vector<LabelAutomaton>& automata_;
    const LabelChoices& legal_;
    const RoleOptions options_;
    LabelChoices choices_;
    std::vector<float> filter_;  // mean weights of the filter
    RoleScores scores_;
    std::vector<int32_t> gold_of_span_;  // the role of each span, or -1
    std::vector<uint8_t> is_gold_;       // of each candidate
    std::vector<double> marginals_;
    std::vector<uint8_t> best_;
    std::vector<std::pair<uint64_t, double>> moves_;
};

}  // namespace tagloom
