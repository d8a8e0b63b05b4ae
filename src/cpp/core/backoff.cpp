#include "core/backoff.hpp"

#include <algorithm>
#include <cmath>

namespace tagloom {

BackoffArcs::BackoffArcs(const NGramTable& model, int64_t few_states, int64_t direct_limit)
    : few_states(few_states), direct_limit(direct_limit), table(model) {
    const auto M = static_cast<int32_t>(table.word.size());
    if (table.order == 1) {
        level_ = {0, 1, M, M};
        first_.assign(M + 1, M);
        first_[0] = 1;
        backoff_.assign(M, 0.0);
        table.order = 2;
        table.level = level_;
        table.first = first_;
        table.backoff = backoff_;
    }
    const auto H = static_cast<int32_t>(states());
    parent.resize(M);
    length.resize(H);
    longer_from.resize(H + 1);
    longer.resize(M - 1);
    prob.resize(M);
    weight.resize(H);
    for (int32_t h = 0; h < H; h++) {
        weight[h] = std::exp(table.backoff[h]);
        for (int32_t c = table.first[h]; c < table.first[h + 1]; c++) {
            parent[c] = h;
            prob[c] = std::exp(table.log_prob[c]);
            longer_from[table.suffix[c] + 1]++;
            if (c < H) length[c] = static_cast<int8_t>(length[h] + 1);
            if (table.log_prob[c] > -INFINITY) width = std::max(width, -table.log_prob[c]);
        }
    }
    for (int32_t h = 0; h < H; h++) longer_from[h + 1] += longer_from[h];
    std::vector<int32_t> next(longer_from.begin(), longer_from.end() - 1);
    for (int32_t c = 1; c < M; c++) longer[next[table.suffix[c]]++] = c;
    if (table.order == 2) rank_arcs();
    double back = 0;
    for (const double x : table.backoff)
        if (x > -INFINITY) back = std::max(back, std::abs(x));
    width += static_cast<double>(table.order) * back;
}

void BackoffArcs::rank_arcs() {
    ranked.resize(table.word.size());
    top_gain.assign(states(), -INFINITY);
    dominates.assign(states(), 1);
    for (int32_t h = 1; h < states(); h++) {
        for (int32_t c = table.first[h]; c < table.first[h + 1]; c++) {
            const double shorter = table.log_prob[table.suffix[c]];
            // Both may be -inf: then the arc is never taken, wherever it stands.
            const double gain = shorter > -INFINITY ? table.log_prob[c] - shorter : INFINITY;
            ranked[c] = {table.log_prob[c], std::nextafter(static_cast<float>(gain), INFINITY),
                         table.word[c]};
            if (table.log_prob[c] < table.backoff[h] + shorter) dominates[h] = 0;
        }
        std::sort(ranked.begin() + table.first[h], ranked.begin() + table.first[h + 1],
                  [](const RankedArc& a, const RankedArc& b) { return a.gain > b.gain; });
        if (table.first[h] < table.first[h + 1]) top_gain[h] = ranked[table.first[h]].gain;
    }
}

}  // namespace tagloom
