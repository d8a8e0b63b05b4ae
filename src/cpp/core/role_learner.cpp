#include "core/role_learner.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace tagloom {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLeastStep = 1e-4;  // probabilities below this move no weight

uint64_t weight_of(uint64_t key, int64_t role, int bits) {
    return (key + label_key(role)) >> (64 - bits);
}

}  // namespace

double RoleScores::filter_score(const std::vector<uint64_t>& keys, const RoleWeights& weights) {
    double score = 0;
    for (uint64_t key : keys) score += weights.filter[key >> (64 - weights.bits)];
    return score;
}

void RoleScores::read(const RoleSentences& sentences, const RoleFrame& frame,
                      const RoleWeights& weights, double margin, const GoldRole& role_of) {
    features.read(sentences, frame);
    spans.clear();
    keys.clear();
    candidates.clear();
    span_of.clear();
    ptr.assign(1, 0);
    is_legal_.assign(weights.choices.L, 0);
    weights.legal.for_each(frame.lemma, [&](int64_t role) { is_legal_[role] = 1; });
    for (const RoleSpan& span : features.candidates()) {
        features.features(span, of_span_);
        if (weights.filter && filter_score(of_span_, weights) < weights.least) continue;
        const size_t before = candidates.size();
        double top = 0;
        weights.choices.for_each(features.context(span), [&](int64_t role) {
            if (!is_legal_[role]) return;
            float score = 0;
            for (uint64_t key : of_span_)
                score += weights.theta[weight_of(key, role, weights.bits)];
            candidates.push_back({span.start, span.end, int32_t(role), score});
            top = std::max(top, double(score));
        });
        if (margin < kInfinity) {
            const int32_t gold = role_of ? role_of(span) : -1;
            candidates.erase(std::remove_if(candidates.begin() + before, candidates.end(),
                                            [&](const Candidate& c) {
                                                return c.score < top - margin && c.label != gold;
                                            }),
                             candidates.end());
        }
        span_of.resize(candidates.size(), int32_t(spans.size()));
        spans.push_back(span);
        keys.insert(keys.end(), of_span_.begin(), of_span_.end());
        ptr.push_back(int64_t(keys.size()));
    }
}

// ---------------------------------------------------------------------------------------------
// Learning

RoleLearner::RoleLearner(const RoleSentences& sentences, const std::vector<RoleFrame>& frames,
                         const RoleArguments& gold, int64_t n_roles,
                         const std::vector<LabelAutomaton>& automata, const LabelChoices& legal,
                         const RoleOptions& options)
    : sentences_(sentences),
      frames_(frames),
      gold_(gold),
      automata_(automata),
      legal_(legal),
      options_(options) {
    const size_t n = size_t(1) << options.bits;
    roles.resize(n, options.loss == RoleLoss::log);
    filter.resize(n, true);
    std::map<uint64_t, std::set<int32_t>> seen;
    RoleFeatures features;
    for (size_t f = 0; f < frames.size(); ++f) {
        features.read(sentences, frames[f]);
        for (const RoleSpan& span : features.candidates()) {
            auto& of_context = seen[features.context(span)];
            const int32_t role = role_of(int64_t(f), span);
            if (role >= 0) of_context.insert(role);
        }
    }
    choices_.L = n_roles;
    choices_.indptr.push_back(0);
    for (const auto& [context, of_context] : seen) {
        choices_.contexts.push_back(context);
        choices_.labels.insert(choices_.labels.end(), of_context.begin(), of_context.end());
        choices_.indptr.push_back(int64_t(choices_.labels.size()));
    }
}

int32_t RoleLearner::role_of(int64_t f, const RoleSpan& span) const {
    for (int64_t k = gold_.indptr[f]; k < gold_.indptr[f + 1]; ++k)
        if (gold_.spans[3 * k] == span.start && gold_.spans[3 * k + 1] == span.end)
            return gold_.spans[3 * k + 2];
    return -1;
}

RoleLearner::Result RoleLearner::filter_epoch(const int64_t* order, int64_t n) {
    Result result;
    RoleFeatures& features = scores_.features;
    std::vector<uint64_t> keys;
    for (int64_t j = 0; j < n; ++j) {
        features.read(sentences_, frames_[order[j]]);
        for (const RoleSpan& span : features.candidates()) {
            features.features(span, keys);
            double score = 0;
            for (uint64_t key : keys) score += filter.theta[key >> (64 - options_.bits)];
            const bool is_argument = role_of(order[j], span) >= 0;
            const double p = 1 / (1 + std::exp(-score));
            const double gradient = double(is_argument) - p;
            result.loss -= std::log(std::max(is_argument ? p : 1 - p, 1e-300));
            result.n_mistakes += (score > 0) != is_argument;
            if (std::abs(gradient) > kLeastStep)
                for (uint64_t key : keys)
                    filter.ascend(key >> (64 - options_.bits), gradient, options_.eta,
                                  filter_steps);
        }
        filter_steps += 1;
    }
    return result;
}

void RoleLearner::use_filter() { filter_ = filter.mean(filter_steps); }

RoleLearner::Result RoleLearner::epoch(const int64_t* order, int64_t n, bool is_global) {
    Result result;
    for (int64_t j = 0; j < n; ++j) {
        const int64_t f = order[j];
        scores_.read(sentences_, frames_[f], weights(), is_global ? kRoleMargin : kInfinity,
                     [&](const RoleSpan& span) { return role_of(f, span); });
        gold_of_span_.clear();
        for (const RoleSpan& span : scores_.spans) gold_of_span_.push_back(role_of(f, span));
        is_gold_.clear();
        for (size_t c = 0; c < scores_.candidates.size(); ++c)
            is_gold_.push_back(gold_of_span_[scores_.span_of[c]] == scores_.candidates[c].label);
        bool is_right = true;
        result.loss += is_global ? learn_global(is_right) : learn_local(is_right);
        result.n_mistakes += !is_right;
        steps += 1;
    }
    return result;
}

void RoleLearner::move(int64_t c, double step) {
    const int64_t span = scores_.span_of[c], role = scores_.candidates[c].label;
    for (int64_t k = scores_.ptr[span]; k < scores_.ptr[span + 1]; ++k) {
        const uint64_t place = weight_of(scores_.keys[k], role, options_.bits);
        if (options_.loss == RoleLoss::log)
            roles.ascend(place, step, options_.eta, steps);
        else
            roles.add(place, step, steps);
    }
}

// Moves towards the right candidates and away from those of best_, just so far that the loss is 0.
double RoleLearner::move_hinge(double loss) {
    moves_.clear();
    for (size_t c = 0; c < best_.size(); ++c) {
        const double sign = double(is_gold_[c]) - double(best_[c]);
        const int64_t span = scores_.span_of[c];
        for (int64_t k = scores_.ptr[span]; sign != 0 && k < scores_.ptr[span + 1]; ++k)
            moves_.emplace_back(
                weight_of(scores_.keys[k], scores_.candidates[c].label, options_.bits), sign);
    }
    std::sort(moves_.begin(), moves_.end());
    double square = 0;
    for (size_t i = 0; i < moves_.size();) {
        double sum = 0;
        const uint64_t place = moves_[i].first;
        for (; i < moves_.size() && moves_[i].first == place; ++i) sum += moves_[i].second;
        square += sum * sum;
    }
    if (square == 0 || loss <= 0) return std::max(0.0, loss);
    const double length = std::min(options_.C, loss / square);
    for (const auto& [place, sign] : moves_) roles.add(place, length * sign, steps);
    return loss;
}

double RoleLearner::learn_local(bool& is_right) {
    double total = 0;
    const std::vector<Candidate>& all = scores_.candidates;
    best_.assign(all.size(), 0);
    for (size_t first = 0, last = 0; first < all.size(); first = last) {
        while (last < all.size() && scores_.span_of[last] == scores_.span_of[first]) ++last;
        const bool has_role = gold_of_span_[scores_.span_of[first]] >= 0;
        const double cost = options_.loss == RoleLoss::hinge;
        double top = has_role ? cost : 0, right = 0;  // of none
        int64_t best = -1, gold = -1;
        for (size_t c = first; c < last; ++c) {
            const double score = all[c].score + (is_gold_[c] ? 0 : cost);
            if (is_gold_[c]) {
                gold = int64_t(c);
                right = score;
            }
            if (score > top) {
                top = score;
                best = int64_t(c);
            }
        }
        if (has_role && gold < 0) continue;  // the role is not a choice
        is_right &= best == gold;
        if (options_.loss == RoleLoss::log) {
            double z = std::exp(-top);
            for (size_t c = first; c < last; ++c) z += std::exp(all[c].score - top);
            total += top + std::log(z) - right;
            for (size_t c = first; c < last; ++c) {
                const double step = double(is_gold_[c]) - std::exp(all[c].score - top) / z;
                if (std::abs(step) > kLeastStep) move(int64_t(c), step);
            }
            continue;
        }
        if (best == gold) continue;
        const int64_t span = scores_.span_of[first];
        const double sides = double(best >= 0) + double(gold >= 0),
                     n_features = double(scores_.ptr[span + 1] - scores_.ptr[span]);
        const double length = options_.loss == RoleLoss::hinge
                                  ? std::min(options_.C, (top - right) / (sides * n_features))
                                  : 1.0;
        if (gold >= 0) move(gold, length);
        if (best >= 0) move(best, -length);
        total += top - right;
    }
    return total;
}

bool RoleLearner::accepts_gold() const {
    std::vector<std::pair<int32_t, int32_t>> in_order;  // start, role
    for (size_t c = 0; c < is_gold_.size(); ++c)
        if (is_gold_[c])
            in_order.emplace_back(scores_.candidates[c].start, scores_.candidates[c].label);
    std::sort(in_order.begin(), in_order.end());
    for (const LabelAutomaton& one : automata_) {
        int32_t state = 0;
        for (const auto& [start, role] : in_order) {
            state = one.next[state * choices_.L + role];
            if (state < 0) return false;
        }
        if (!one.is_final[state]) return false;
    }
    return true;
}

double RoleLearner::learn_global(bool& is_right) {
    std::vector<Candidate>& all = scores_.candidates;
    const size_t C = all.size();
    if (C == 0 || !accepts_gold()) return 0;
    double right = 0;
    for (size_t c = 0; c < C; ++c)
        if (is_gold_[c]) right += all[c].score;
    if (options_.loss == RoleLoss::log) {
        marginals_.assign(C, 0.0);
        const double log_z = Selection(automata_, choices_.L, all).sum(marginals_.data());
        is_right = log_z - right < std::log(2.0);
        for (size_t c = 0; c < C; ++c) {
            const double step = double(is_gold_[c]) - marginals_[c];
            if (std::abs(step) > kLeastStep) move(int64_t(c), step);
        }
        return log_z - right;
    }
    double cost = 0;  // of choosing nothing
    if (options_.loss == RoleLoss::hinge)
        for (size_t c = 0; c < C; ++c) {
            all[c].score += is_gold_[c] ? -1.0 : 1.0;
            cost += is_gold_[c];
        }
    const double best = best_selection(automata_, choices_.L, all, best_);
    is_right = std::equal(best_.begin(), best_.end(), is_gold_.begin());
    if (is_right) return 0;
    const double loss = best + cost - right;
    if (options_.loss == RoleLoss::hinge) return move_hinge(loss);
    for (size_t c = 0; c < C; ++c)
        if (best_[c] != is_gold_[c]) move(int64_t(c), double(is_gold_[c]) - double(best_[c]));
    return std::max(0.0, loss);
}

}  // namespace tagloom
