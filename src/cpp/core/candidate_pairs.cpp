// In the letters of the loops, with u the nodes of the block before v and w their trigrams:
//
//   best   alpha[v] = score[v] + max_u alpha[u] + w[u, v]
//   sum    alpha[v] = score[v] + log sum_u exp(alpha[u] + w[u, v])
//
// alpha is less its largest number of each position. Ties go to the lowest label at the last
// position, then at each position before it: nodes are numbered by their newer candidate first.

#include "core/candidate_pairs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/dispatch.hpp"

namespace tagloom {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// x becomes exp(x) / sum, all zero if every x is -inf; returns the log of the sum.
double normalise(double* x, int64_t n) {
    double top = kMinusInfinity, sum = 0;
    for (int64_t i = 0; i < n; ++i) top = std::max(top, x[i]);
    if (top == kMinusInfinity) {
        std::fill_n(x, n, 0.0);
        return top;
    }
    for (int64_t i = 0; i < n; ++i) x[i] -= top;
    kernels().exp(x, n);
    for (int64_t i = 0; i < n; ++i) sum += x[i];
    for (int64_t i = 0; i < n; ++i) x[i] /= sum;
    return top + std::log(sum);
}

// sum_u q[u] * (h[u] - log q[u])
double mixed_entropy(std::span<const double> q, const double* h) {
    double sum = 0;
    for (std::size_t u = 0; u < q.size(); ++u)
        if (q[u] > 0) sum += q[u] * (h[u] - std::log(q[u]));
    return sum;
}

}  // namespace

void CandidatePairs::list_arcs(const Trigrams& trigrams, const int32_t* label) {
    arc_ptr_.assign(size() + 1, 0);
    found_.clear();
    for (int64_t t = 2; t < T_; ++t) {
        const int64_t n = width(t), w = width(t - 1), m = rows_[t + 1] - rows_[t];
        for (int64_t i = 0; i < n; ++i)
            for (int64_t h = 0; h < w; ++h)
                trigrams.each(label[row(t - 2) + h], label[row(t - 1) + i], label + row(t), m,
                              [&](int64_t j, int64_t k) {
                                  const int64_t v = first_[t] + j * n + i;
                                  found_.push_back({v, {static_cast<int32_t>(h), k}});
                                  ++arc_ptr_[v + 1];
                              });
    }
    for (int64_t v = 0; v < size(); ++v) arc_ptr_[v + 1] += arc_ptr_[v];
    arcs_.resize(found_.size());
    for (const Found& one : found_) arcs_[arc_ptr_[one.node]++] = one.arc;  // now the ends
    for (int64_t v = size(); v > 0; --v) arc_ptr_[v] = arc_ptr_[v - 1];
    arc_ptr_[0] = 0;
}

void CandidatePairs::add_arcs(int64_t t, int64_t v, std::vector<double>& values) const {
    const auto from = alpha_.begin() + block(t, v);
    values.assign(from, from + width(t - 1));
    for (const Arc& arc : arcs(v)) values[arc.from] += weight(arc);
}

// Subtracts the largest alpha of a position, and returns it.
double CandidatePairs::rescale(int64_t t) {
    double top = kMinusInfinity;
    for (int64_t v = begin(t); v < end(t); ++v) top = std::max(top, alpha_[v]);
    for (int64_t v = begin(t); top > kMinusInfinity && v < end(t); ++v) alpha_[v] -= top;
    return top;
}

bool CandidatePairs::best(int64_t* candidates) {
    alpha_.resize(size());
    from_.resize(size());
    for (int64_t t = 0; t < T_; ++t) {
        const int64_t n = width(t), w = t > 0 ? width(t - 1) : 0;
        of_block_.resize(n);
        best_of_block_.resize(n);
        for (int64_t i = 0; t > 0 && i < n; ++i) {
            const double* of = &alpha_[first_[t - 1] + i * w];
            const double* top = std::max_element(of, of + w);
            best_of_block_[i] = static_cast<int32_t>(top - of);
            of_block_[i] = *top;
        }
        for (int64_t v = begin(t), i = 0; v < end(t); ++v, i = i + 1 == n ? 0 : i + 1) {
            alpha_[v] = score_[v];
            if (t == 0) continue;
            from_[v] = best_of_block_[i];
            double before = of_block_[i];
            if (has_arcs(v)) {
                add_arcs(t, v, values_);
                const auto top = std::max_element(values_.begin(), values_.end());
                from_[v] = static_cast<int32_t>(top - values_.begin());
                before = *top;
            }
            alpha_[v] += before;
        }
        if (rescale(t) == kMinusInfinity) return false;
    }
    const auto last = alpha_.begin() + begin(T_ - 1);
    int64_t v = std::max_element(last, alpha_.begin() + size()) - alpha_.begin();
    for (int64_t t = T_ - 1; t >= 0; --t) {
        candidates[t] = newer(t, v);
        if (t > 0) v = block(t, v) + from_[v];
    }
    return true;
}

// The n best of all paths to the nodes first .. last, with the trigrams `extra`.
void CandidatePairs::collect(int64_t first, int64_t last, int64_t n, std::span<const Arc> extra,
                             std::vector<Arrival>& out) {
    out.clear();
    auto arc = extra.begin();
    for (int64_t u = first; u < last; ++u) {
        const bool has_weight = arc != extra.end() && first + arc->from == u;
        const double more = has_weight ? weight(*arc++) : 0.0;
        if (more == kMinusInfinity) continue;
        for (std::size_t rank = 0; rank < arrivals_[u].size(); ++rank)
            out.push_back({arrivals_[u][rank].score + more, u, int64_t(rank)});
    }
    auto is_better = [](const Arrival& a, const Arrival& b) {
        if (a.score != b.score) return a.score > b.score;
        return a.from != b.from ? a.from < b.from : a.rank < b.rank;
    };
    const auto size = std::min<int64_t>(n, std::ssize(out));
    std::partial_sort(out.begin(), out.begin() + size, out.end(), is_better);
    out.resize(size);
}

int64_t CandidatePairs::nbest(int64_t n, std::vector<int64_t>& candidates) {
    arrivals_.resize(std::max<std::size_t>(arrivals_.size(), size()));
    for (int64_t t = 0; t < T_; ++t) {
        const int64_t w = t > 0 ? width(t - 1) : 0;
        block_arrivals_.resize(std::max<std::size_t>(block_arrivals_.size(), width(t)));
        for (int64_t i = 0; t > 0 && i < width(t); ++i) {
            const int64_t first = first_[t - 1] + i * w;
            collect(first, first + w, n, {}, block_arrivals_[i]);
        }
        double top = kMinusInfinity;
        for (int64_t v = begin(t); v < end(t); ++v) {
            std::vector<Arrival>& list = arrivals_[v];
            if (t == 0)
                list.assign(1, {0.0, -1, 0});
            else if (has_arcs(v))
                collect(block(t, v), block(t, v) + w, n, arcs(v), list);
            else
                list = block_arrivals_[(v - first_[t]) % width(t)];
            if (score_[v] == kMinusInfinity) list.clear();
            for (Arrival& arrival : list) arrival.score += score_[v];
            if (!list.empty()) top = std::max(top, list[0].score);
        }
        for (int64_t v = begin(t); v < end(t); ++v)
            for (Arrival& arrival : arrivals_[v]) arrival.score -= top;
    }
    std::vector<Arrival> last;
    collect(begin(T_ - 1), size(), n, {}, last);
    for (Arrival arrival : last) {
        candidates.resize(candidates.size() + T_);
        int64_t* path = &candidates[candidates.size() - T_];
        for (int64_t t = T_ - 1; t >= 0; --t) {
            path[t] = newer(t, arrival.from);
            arrival = arrivals_[arrival.from][arrival.rank];
        }
    }
    return std::ssize(last);
}

double CandidatePairs::sum() {
    alpha_.resize(size());
    share_.resize(size());
    own_at_.assign(size(), -1);
    own_.clear();
    double log_z = 0, lost = 0;  // Neumaier's sum
    auto add = [&](double x) {
        const double sum = log_z + x;
        lost += std::abs(log_z) >= std::abs(x) ? (log_z - sum) + x : (x - sum) + log_z;
        log_z = sum;
    };
    for (int64_t t = 0; t < T_; ++t) {
        const int64_t n = width(t), w = t > 0 ? width(t - 1) : 0;
        of_block_.resize(n);
        for (int64_t i = 0; t > 0 && i < n; ++i) {
            const int64_t first = first_[t - 1] + i * w;
            std::copy_n(&alpha_[first], w, &share_[first]);
            of_block_[i] = normalise(&share_[first], w);
        }
        for (int64_t v = begin(t), i = 0; v < end(t); ++v, i = i + 1 == n ? 0 : i + 1) {
            alpha_[v] = score_[v];
            if (t == 0) continue;
            if (!has_arcs(v)) {
                alpha_[v] += of_block_[i];
                continue;
            }
            add_arcs(t, v, values_);
            alpha_[v] += normalise(values_.data(), w);
            own_at_[v] = std::ssize(own_);
            own_.insert(own_.end(), values_.begin(), values_.end());
        }
        const double top = rescale(t);
        if (top == kMinusInfinity) return top;
        add(top);
    }
    last_.assign(alpha_.begin() + begin(T_ - 1), alpha_.begin() + size());
    add(normalise(last_.data(), std::ssize(last_)));
    return log_z + lost;
}

double CandidatePairs::entropy() {
    std::vector<double>& h = gamma_;  // [nodes] of the path up to a node, given it
    h.assign(size(), 0.0);
    for (int64_t t = 1; t < T_; ++t) {
        const int64_t n = width(t);
        of_block_.assign(n, -1.0);
        for (int64_t v = begin(t), i = 0; v < end(t); ++v, i = i + 1 == n ? 0 : i + 1) {
            if (own_at_[v] >= 0) {
                h[v] = mixed_entropy(before(t, v), &h[block(t, v)]);
                continue;
            }
            if (of_block_[i] < 0) of_block_[i] = mixed_entropy(before(t, v), &h[block(t, v)]);
            h[v] = of_block_[i];
        }
    }
    return mixed_entropy(last_, &h[begin(T_ - 1)]);
}

}  // namespace tagloom
