#include "core/tree_learner.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/threads.hpp"
#include "core/trees.hpp"

namespace tagloom {
namespace {

constexpr double kLeast = 1e-5;  // probabilities below this move no weight

// The next dependent of the head of d towards it, or the head itself.
int64_t sibling_of(const int32_t* heads, int64_t d) {
    const int64_t h = heads[d - 1], step = h < d ? 1 : -1;
    int64_t s = d - step;
    while (s != h && heads[s - 1] != h) s -= step;
    return s;
}

// The log-sum of the scores of labels, or the best of them.
double combine(const std::pair<int64_t, double>* scored, int64_t n, bool sums) {
    double top = -std::numeric_limits<double>::infinity(), z = 0;
    for (int64_t j = 0; j < n; ++j) top = std::max(top, scored[j].second);
    if (!sums) return top;
    for (int64_t j = 0; j < n; ++j) z += std::exp(scored[j].second - top);
    return top + std::log(z);
}

// Leaves one entry for each place; returns the sum of squares.
double merge(std::vector<std::pair<uint64_t, double>>& steps) {
    std::sort(steps.begin(), steps.end());
    size_t n = 0;
    for (const auto& step : steps)
        if (n > 0 && steps[n - 1].first == step.first)
            steps[n - 1].second += step.second;
        else
            steps[n++] = step;
    steps.resize(n);
    double square = 0;
    for (const auto& step : steps) square += step.second * step.second;
    return square;
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
        const bool joint = options_.joint && choices_.L > 0;
        result.loss += joint ? learn_jointly(order[j], is_right) : learn_arcs(order[j], is_right);
        if (choices_.L > 0 && !joint) result.loss += learn_labels(order[j]);
        result.n_mistakes += !is_right;
        steps += 1;
    }
    return result;
}

// All trees of the sentence that is read, by scores_ and the scores of siblings.
TreeBatch ParserLearner::score_siblings(const int64_t (&offsets)[2]) {
    const int64_t T = offsets[1], H = T + 1;
    if (options_.has_siblings) {
        siblings_.assign(T * H * H, 0.0);
        features_.score_siblings(arcs.theta.data(), H, options_.single_root, siblings_.data());
        if (options_.loss == TreeLoss::log) sibling_marginals_.assign(T * H * H, 0.0);
    }
    return {1,
            H,
            offsets,
            scores_.data(),
            options_.has_siblings ? siblings_.data() : nullptr,
            options_.projective,
            options_.single_root,
            1};
}

// A step of AdaGrad for every pair of siblings.
void ParserLearner::move_siblings(const int32_t* gold) {
    if (!options_.has_siblings) return;
    const int64_t T = features_.T(), H = T + 1;
    for (int64_t d = 1; d <= T; ++d) {
        const int64_t of_gold = sibling_of(gold, d);
        for (int64_t h = 0; h <= T; ++h) {
            if (h == d || (marginals_[(d - 1) * H + h] <= kLeast && h != gold[d - 1])) continue;
            const double* p = &sibling_marginals_[((d - 1) * H + h) * H];
            ParserFeatures::for_each_sibling(h, d, options_.single_root, [&](int64_t s) {
                const double step = double(h == gold[d - 1] && s == of_gold) - p[s];
                if (std::abs(step) <= kLeast) return;
                features_.for_each_of_sibling(h, d, s, [&](uint64_t place) {
                    arcs.ascend(place, step, options_.eta, steps);
                });
            });
        }
    }
}

// Adds to steps_ the features of siblings of one tree that another does not have.
void ParserLearner::collect_siblings(const int32_t* heads, const int32_t* others, double amount) {
    if (!options_.has_siblings) return;
    for (int64_t d = 1; d <= features_.T(); ++d) {
        const int64_t h = heads[d - 1], s = sibling_of(heads, d);
        if (h == others[d - 1] && s == sibling_of(others, d)) continue;
        features_.for_each_of_sibling(h, d, s,
                                      [&](uint64_t place) { steps_.emplace_back(place, amount); });
    }
}

double ParserLearner::learn_arcs(int64_t i, bool& is_right) {
    const int64_t T = features_.T(), H = T + 1, offsets[2] = {0, T};
    const int32_t* gold = heads_ + sentences_.offsets[i];
    scores_.resize(T * H);
    features_.score(arcs.theta.data(), H, scores_.data());
    const TreeBatch batch = score_siblings(offsets);
    const double right = tree_score(batch, 0, gold);
    if (options_.loss == TreeLoss::log) {
        marginals_.assign(T * H, 0.0);
        double log_z = 0;
        sum_trees(batch, &log_z, marginals_.data(),
                  options_.has_siblings ? sibling_marginals_.data() : nullptr);
        is_right = log_z - right < std::log(2.0);
        for (int64_t t = 0; t < T; ++t)
            for (int64_t h = 0; h <= T; ++h) {
                const double step = double(h == gold[t]) - marginals_[t * H + h];
                if (std::abs(step) > kLeast) move_arc(h, t + 1, step);
            }
        move_siblings(gold);
        return log_z - right;
    }
    if (options_.loss == TreeLoss::hinge)
        for (int64_t t = 0; t < T; ++t)
            for (int64_t h = 0; h <= T; ++h) scores_[t * H + h] += h != gold[t];
    best_.resize(T);
    double best = 0;
    best_trees(batch, best_.data(), &best);
    is_right = std::equal(best_.begin(), best_.end(), gold);
    return is_right ? 0 : move_to(gold, best - right);
}

void ParserLearner::move_arc(int64_t h, int64_t d, double gradient) {
    features_.for_each_of_arc(
        h, d, [&](uint64_t place) { arcs.ascend(place, gradient, options_.eta, steps); });
}

// The step of the perceptron or of the hinge loss from best_ to the right tree.
double ParserLearner::move_to(const int32_t* gold, double loss) {
    steps_.clear();
    for (size_t t = 0; t < best_.size(); ++t)
        if (best_[t] != gold[t]) {
            features_.for_each_of_arc(gold[t], int64_t(t) + 1,
                                      [&](uint64_t place) { steps_.emplace_back(place, 1); });
            features_.for_each_of_arc(best_[t], int64_t(t) + 1,
                                      [&](uint64_t place) { steps_.emplace_back(place, -1); });
        }
    collect_siblings(gold, best_.data(), 1);
    collect_siblings(best_.data(), gold, -1);
    const double square = merge(steps_);
    if (square == 0 || (options_.loss == TreeLoss::hinge && loss <= 0)) return std::max(0.0, loss);
    const double length =
        options_.loss == TreeLoss::hinge ? std::min(options_.C, loss / square) : 1.0;
    for (const auto& [place, amount] : steps_) arcs.add(place, length * amount, steps);
    return std::max(0.0, loss);
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

// ---------------------------------------------------------------------------------------------
// Arcs and labels in one loss

double ParserLearner::learn_jointly(int64_t i, bool& is_right) {
    const int64_t T = features_.T(), offsets[2] = {0, T};
    const int32_t* gold = heads_ + sentences_.offsets[i];
    double right = score_jointly(i);
    const TreeBatch batch = score_siblings(offsets);
    for (int64_t d = 1; options_.has_siblings && d <= T; ++d)
        right += siblings_[((d - 1) * (T + 1) + gold[d - 1]) * (T + 1) + sibling_of(gold, d)];
    if (options_.loss == TreeLoss::log) {
        marginals_.assign(scores_.size(), 0.0);
        double log_z = 0;
        sum_trees(batch, &log_z, marginals_.data(),
                  options_.has_siblings ? sibling_marginals_.data() : nullptr);
        is_right = log_z - right < std::log(2.0);
        climb_jointly(i);
        move_siblings(gold);
        return log_z - right;
    }
    best_.resize(T);
    double best = 0;
    best_trees(batch, best_.data(), &best);
    const int32_t* labels = labels_ + sentences_.offsets[i];
    is_right = true;
    for (int64_t t = 0; t < T; ++t)
        is_right &=
            best_[t] == gold[t] && (labels[t] < 0 || best_label(best_[t], t + 1) == labels[t]);
    return is_right ? 0 : move_jointly(i, best - right);
}

// Fills scores_, indptr_ and scored_, with costs for the hinge loss: 1 for a wrong head or label.
// Returns the score of the right tree; a label that is not known counts as any label.
double ParserLearner::score_jointly(int64_t i) {
    const int64_t T = features_.T(), H = T + 1;
    const int32_t* gold = heads_ + sentences_.offsets[i];
    const int32_t* labels = labels_ + sentences_.offsets[i];
    const bool has_costs = options_.loss == TreeLoss::hinge, sums = options_.loss == TreeLoss::log;
    scores_.resize(T * H);
    features_.score(arcs.theta.data(), H, scores_.data());
    indptr_.assign(1, 0);
    scored_.clear();
    double right = 0;
    for (int64_t t = 0; t < T; ++t)
        for (int64_t h = 0; h <= T; ++h) {
            double& score = scores_[t * H + h];
            const auto first = int64_t(scored_.size());
            if (h != t + 1) {
                const bool is_gold = h == gold[t];
                for_each_arc_label(features_, h, t + 1, label_weights.theta.data(), choices_,
                                   of_label_, [&](int64_t label, double of) {
                                       if (is_gold && label == labels[t]) right += score + of;
                                       const bool costs =
                                           !is_gold || (labels[t] >= 0 && label != labels[t]);
                                       scored_.emplace_back(label, of + (has_costs && costs));
                                   });
                const auto n = int64_t(scored_.size()) - first;
                score += combine(scored_.data() + first, n, sums);
                if (is_gold && labels[t] < 0) right += score;
            }
            indptr_.push_back(int64_t(scored_.size()));
        }
    return right;
}

// A step of AdaGrad for every arc and label: the right ones less their probabilities.
void ParserLearner::climb_jointly(int64_t i) {
    const int64_t T = features_.T(), H = T + 1;
    const int32_t* gold = heads_ + sentences_.offsets[i];
    const int32_t* labels = labels_ + sentences_.offsets[i];
    for (int64_t t = 0; t < T; ++t)
        for (int64_t h = 0; h <= T; ++h) {
            const double of_arc = marginals_[t * H + h];
            const bool is_gold = h == gold[t];
            if (h == t + 1 || (of_arc <= kLeast && !is_gold)) continue;
            if (std::abs(is_gold - of_arc) > kLeast) move_arc(h, t + 1, is_gold - of_arc);
            const int64_t first = indptr_[t * H + h], n = indptr_[t * H + h + 1] - first;
            const double log_z = combine(scored_.data() + first, n, true);
            features_.of_arc_label(h, t + 1, of_label_);
            for (int64_t j = first; j < first + n; ++j) {
                const auto [label, score] = scored_[j];
                const double prob = std::exp(score - log_z);
                const double wanted = !is_gold        ? 0
                                      : labels[t] < 0 ? prob
                                                      : double(label == labels[t]);
                const double step = wanted - of_arc * prob;
                if (std::abs(step) <= kLeast) continue;
                for (uint64_t f : of_label_)
                    label_weights.ascend(features_.label_weight(f, label), step, options_.eta,
                                         steps);
            }
        }
}

// The step of the perceptron or of the hinge loss from best_ to the right tree.
double ParserLearner::move_jointly(int64_t i, double loss) {
    const int32_t* gold = heads_ + sentences_.offsets[i];
    const int32_t* labels = labels_ + sentences_.offsets[i];
    steps_.clear();
    label_steps_.clear();
    for (int64_t t = 0; t < features_.T(); ++t) {
        const int64_t found = best_label(best_[t], t + 1);
        const int64_t wanted = labels[t] < 0 ? best_label(gold[t], t + 1) : labels[t];
        if (best_[t] == gold[t] && found == wanted) continue;
        collect(gold[t], t + 1, wanted, 1);
        collect(best_[t], t + 1, found, -1);
    }
    collect_siblings(gold, best_.data(), 1);
    collect_siblings(best_.data(), gold, -1);
    const double square = merge(steps_) + merge(label_steps_);
    if (square == 0 || (options_.loss == TreeLoss::hinge && loss <= 0)) return std::max(0.0, loss);
    const double length =
        options_.loss == TreeLoss::hinge ? std::min(options_.C, loss / square) : 1.0;
    for (const auto& [place, amount] : steps_) arcs.add(place, length * amount, steps);
    for (const auto& [place, amount] : label_steps_)
        label_weights.add(place, length * amount, steps);
    return std::max(0.0, loss);
}

void ParserLearner::collect(int64_t h, int64_t d, int64_t label, double amount) {
    features_.for_each_of_arc(h, d, [&](uint64_t place) { steps_.emplace_back(place, amount); });
    features_.of_arc_label(h, d, of_label_);
    for (uint64_t f : of_label_)
        label_steps_.emplace_back(features_.label_weight(f, label), amount);
}

int64_t ParserLearner::best_label(int64_t h, int64_t d) const {
    const auto first = scored_.begin() + indptr_[(d - 1) * (features_.T() + 1) + h],
               stop = scored_.begin() + indptr_[(d - 1) * (features_.T() + 1) + h + 1];
    return std::max_element(first, stop,
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
}

void parser_scores(const ParserSentences& sentences, const float* theta, int bits, int64_t H,
                   const JointLabels* joint, int64_t threads, double* arcs) {
    threads = std::clamp<int64_t>(threads, 1, std::max<int64_t>(sentences.N, 1));
    std::vector<ParserFeatures> features(threads, ParserFeatures(bits));
    parallel_for(sentences.N, threads, [&](int64_t i, int64_t worker) {
        ParserFeatures& of = features[worker];
        of.read(sentences, i);
        double* scores = arcs + sentences.offsets[i] * H;
        of.score(theta, H, scores);
        if (!joint) return;
        std::vector<uint64_t> keys;
        std::vector<std::pair<int64_t, double>> scored;
        for (int64_t d = 1; d <= of.T(); ++d)
            for (int64_t h = 0; h <= of.T(); ++h) {
                if (h == d) continue;
                scored.clear();
                for_each_arc_label(of, h, d, joint->theta, *joint->choices, keys,
                                   [&](int64_t label, double s) { scored.emplace_back(label, s); });
                scores[(d - 1) * H + h] +=
                    combine(scored.data(), int64_t(scored.size()), joint->sums);
            }
    });
}

void parser_siblings(const ParserSentences& sentences, const float* theta, int bits, int64_t H,
                     bool single_root, int64_t threads, double* siblings) {
    threads = std::clamp<int64_t>(threads, 1, std::max<int64_t>(sentences.N, 1));
    std::vector<ParserFeatures> features(threads, ParserFeatures(bits));
    parallel_for(sentences.N, threads, [&](int64_t i, int64_t worker) {
        features[worker].read(sentences, i);
        features[worker].score_siblings(theta, H, single_root,
                                        siblings + sentences.offsets[i] * H * H);
    });
}

void parser_labels(const ParserSentences& sentences, const int32_t* heads, const float* theta,
                   int bits, const LabelChoices& choices, bool joint, int64_t threads,
                   int32_t* labels) {
    threads = std::clamp<int64_t>(threads, 1, std::max<int64_t>(sentences.N, 1));
    std::vector<ParserFeatures> features(threads, ParserFeatures(bits));
    parallel_for(sentences.N, threads, [&](int64_t i, int64_t worker) {
        ParserFeatures& of = features[worker];
        of.read(sentences, i);
        const int64_t first = sentences.offsets[i];
        std::vector<uint64_t> keys;
        for (int64_t d = 1; d <= of.T(); ++d) {
            if (joint)
                of.of_arc_label(heads[first + d - 1], d, keys);
            else
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
