#include "core/tree_learner.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/threads.hpp"
#include "core/trees.hpp"

namespace tagloom {
namespace {

constexpr double kLeast = 1e-5;  // probabilities below this move no weight

TreeBatch one_sentence(const int64_t (&offsets)[2], const std::vector<double>& arcs,
                       const ParserOptions& options) {
    return {
        1, offsets[1] + 1, offsets, arcs.data(), nullptr, options.projective, options.single_root,
        1};
}

}  // namespace

ParserLearner::ParserLearner(const ParserSentences& sentences, const int32_t* heads,
                             const int32_t* labels, int64_t n_labels, const ParserOptions& options)
    : sentences_(sentences),
      heads_(heads),
      labels_(labels),
      options_(options),
      features_(options.bits) {
    const size_t n = size_t(1) << options.bits;
    arcs.resize(n, options.loss == TreeLoss::log);
    label_weights.resize(n_labels > 0 ? n : 0, options.loss == TreeLoss::log);
    std::map<uint64_t, std::set<int32_t>> seen;
    for (int64_t i = 0; i < sentences.N && n_labels > 0; ++i) {
        features_.read(sentences, i);
        for (int64_t t = sentences.offsets[i], d = 1; t < sentences.offsets[i + 1]; ++t, ++d)
            if (labels[t] >= 0) seen[features_.label_context(heads[t], d)].insert(labels[t]);
    }
    choices_.L = n_labels;
    choices_.indptr.push_back(0);
    for (const auto& [context, of_context] : seen) {
        choices_.contexts.push_back(context);
        choices_.labels.insert(choices_.labels.end(), of_context.begin(), of_context.end());
        choices_.indptr.push_back(int64_t(choices_.labels.size()));
    }
}

ParserLearner::Result ParserLearner::epoch(const int64_t* order, int64_t n) {
    Result result;
    for (int64_t j = 0; j < n; ++j) {
        features_.read(sentences_, order[j]);
        bool is_right = true;
        result.loss += learn_arcs(order[j], is_right);
        if (choices_.L > 0) result.loss += learn_labels(order[j]);
        result.n_mistakes += !is_right;
        steps += 1;
    }
    return result;
}

double ParserLearner::learn_arcs(int64_t i, bool& is_right) {
    const int64_t T = features_.T(), H = T + 1, offsets[2] = {0, T};
    const int32_t* gold = heads_ + sentences_.offsets[i];
    scores_.resize(T * H);
    features_.score(arcs.theta.data(), H, scores_.data());
    const TreeBatch batch = one_sentence(offsets, scores_, options_);
    const double right = tree_score(batch, 0, gold);
    if (options_.loss == TreeLoss::log) {
        marginals_.assign(T * H, 0.0);
        double log_z = 0;
        sum_trees(batch, &log_z, marginals_.data(), nullptr);
        is_right = log_z - right < std::log(2.0);
        for (int64_t t = 0; t < T; ++t)
            for (int64_t h = 0; h <= T; ++h) {
                const double step = double(h == gold[t]) - marginals_[t * H + h];
                if (std::abs(step) > kLeast) move_arc(h, t + 1, step);
            }
        return log_z - right;
    }
    if (options_.loss == TreeLoss::hinge)
        for (int64_t t = 0; t < T; ++t)
            for (int64_t h = 0; h <= T; ++h) scores_[t * H + h] += h != gold[t];
    best_.resize(T);
    double best = 0;
    best_trees(batch, best_.data(), &best);
    is_right = std::equal(best_.begin(), best_.end(), gold);
    if (is_right) return 0;
    if (options_.loss == TreeLoss::hinge) return move_hinge(i, best_, best - right);
    for (int64_t t = 0; t < T; ++t)
        if (best_[t] != gold[t]) {
            features_.for_each_of_arc(gold[t], t + 1,
                                      [&](uint64_t place) { arcs.add(place, 1, steps); });
            features_.for_each_of_arc(best_[t], t + 1,
                                      [&](uint64_t place) { arcs.add(place, -1, steps); });
        }
    return std::max(0.0, best - right);
}

void ParserLearner::move_arc(int64_t h, int64_t d, double gradient) {
    features_.for_each_of_arc(
        h, d, [&](uint64_t place) { arcs.ascend(place, gradient, options_.eta, steps); });
}

double ParserLearner::move_hinge(int64_t i, const std::vector<int32_t>& best, double loss) {
    const int32_t* gold = heads_ + sentences_.offsets[i];
    steps_.clear();
    for (size_t t = 0; t < best.size(); ++t)
        if (best[t] != gold[t]) {
            features_.for_each_of_arc(gold[t], int64_t(t) + 1,
                                      [&](uint64_t place) { steps_.emplace_back(place, 1); });
            features_.for_each_of_arc(best[t], int64_t(t) + 1,
                                      [&](uint64_t place) { steps_.emplace_back(place, -1); });
        }
    std::sort(steps_.begin(), steps_.end());
    size_t n = 0;  // one entry for each place
    for (const auto& step : steps_)
        if (n > 0 && steps_[n - 1].first == step.first)
            steps_[n - 1].second += step.second;
        else
            steps_[n++] = step;
    steps_.resize(n);
    double square = 0;
    for (const auto& step : steps_) square += step.second * step.second;
    if (square == 0 || loss <= 0) return std::max(0.0, loss);
    const double length = std::min(options_.C, loss / square);
    for (const auto& [place, amount] : steps_) arcs.add(place, length * amount, steps);
    return loss;
}

double ParserLearner::learn_labels(int64_t i) {
    const int32_t* heads = heads_ + sentences_.offsets[i];
    const int32_t* labels = labels_ + sentences_.offsets[i];
    AveragedWeights& w = label_weights;
    double loss = 0;
    std::vector<std::pair<int64_t, double>> scored;
    for (int64_t d = 1; d <= features_.T(); ++d) {
        const int64_t gold = labels[d - 1];
        if (gold < 0) continue;
        features_.of_label(d, heads, of_label_);
        scored.clear();
        double top = -1e300, right = 0;
        int64_t best = gold;
        choices_.for_each(features_.label_context(heads[d - 1], d), [&](int64_t label) {
            double score = label != gold && options_.loss == TreeLoss::hinge;
            for (uint64_t f : of_label_) score += w.theta[features_.label_weight(f, label)];
            scored.emplace_back(label, score);
            if (label == gold) right = score;
            if (score > top) {
                top = score;
                best = label;
            }
        });
        const auto move = [&](int64_t label, double step) {
            for (uint64_t f : of_label_) w.add(features_.label_weight(f, label), step, steps);
        };
        if (options_.loss == TreeLoss::log) {
            double z = 0;
            for (const auto& [label, score] : scored) z += std::exp(score - top);
            loss += top + std::log(z) - right;
            for (const auto& [label, score] : scored) {
                const double g = double(label == gold) - std::exp(score - top) / z;
                if (std::abs(g) <= kLeast) continue;
                for (uint64_t f : of_label_)
                    w.ascend(features_.label_weight(f, label), g, options_.eta, steps);
            }
        } else if (best != gold) {
            loss += top - right;
            const double square = 2.0 * double(of_label_.size());
            const double length = options_.loss == TreeLoss::hinge
                                      ? std::min(options_.C, (top - right) / square)
                                      : 1.0;
            move(gold, length);
            move(best, -length);
        }
    }
    return loss;
}

void parser_scores(const ParserSentences& sentences, const float* theta, int bits, int64_t H,
                   int64_t threads, double* arcs) {
    std::vector<ParserFeatures> features(std::max<int64_t>(1, threads), ParserFeatures(bits));
    parallel_for(sentences.N, threads, [&](int64_t i, int64_t worker) {
        features[worker].read(sentences, i);
        features[worker].score(theta, H, arcs + sentences.offsets[i] * H);
    });
}

void parser_labels(const ParserSentences& sentences, const int32_t* heads, const float* theta,
                   int bits, const LabelChoices& choices, int64_t threads, int32_t* labels) {
    std::vector<ParserFeatures> features(std::max<int64_t>(1, threads), ParserFeatures(bits));
    parallel_for(sentences.N, threads, [&](int64_t i, int64_t worker) {
        ParserFeatures& of = features[worker];
        of.read(sentences, i);
        const int64_t first = sentences.offsets[i];
        std::vector<uint64_t> keys;
        for (int64_t d = 1; d <= of.T(); ++d) {
            of.of_label(d, heads + first, keys);
            float top = -1e30f;
            choices.for_each(of.label_context(heads[first + d - 1], d), [&](int64_t label) {
                float score = 0;
                for (uint64_t f : keys) score += theta[of.label_weight(f, label)];
                if (score > top) {
                    top = score;
                    labels[first + d - 1] = int32_t(label);
                }
            });
        }
    });
}

}  // namespace tagloom
