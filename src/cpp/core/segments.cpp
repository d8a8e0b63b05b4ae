#include "core/segments.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/dag_nbest.hpp"
#include "core/dispatch.hpp"

namespace tagloom {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Sums of probabilities below this may have lost terms to underflow.
constexpr double kSmallest = 1e-250;

template <class T>
void grow(std::vector<T>& vector, int64_t size) {
    if (static_cast<int64_t>(vector.size()) < size) vector.resize(size);
}

double finite_or_zero(double x) { return x == -kInfinity ? 0.0 : x; }

double entropy_of(double p) { return p > 0 ? -p * std::log(p) : 0.0; }

}  // namespace

SegmentModel::SegmentModel(int64_t L_, int64_t Y_)
    : L(L_), Y(Y_), trans(Y * Y), start(Y), stop(Y), top(Y), prob(Y * Y) {}

void SegmentModel::set(const double* trans_, const double* start_, const double* stop_) {
    auto copy = [](const double* from, std::vector<double>& to) {
        if (from)
            std::copy_n(from, to.size(), to.begin());
        else
            std::fill(to.begin(), to.end(), 0.0);
    };
    copy(trans_, trans);
    copy(start_, start);
    copy(stop_, stop);
    std::fill(top.begin(), top.end(), -kInfinity);
    for (int64_t j = 0; j < Y * Y; ++j) top[j % Y] = std::max(top[j % Y], trans[j]);
    for (int64_t j = 0; j < Y * Y; ++j) prob[j] = trans[j] - finite_or_zero(top[j % Y]);
    kernels().exp(prob.data(), Y * Y);
}

// ---------------------------------------------------------------------------------------------
// Sums

template <class In>
double SegmentSum<In>::forward(const SegmentSequence<In>& x) {
    T = x.T;
    const int64_t Y = m.Y;
    grow(begin, T * Y);
    grow(end, (T + 1) * Y);
    grow(prob, (T + 1) * Y);
    grow(linear, T * Y);
    grow(share, T * m.L * Y);
    grow(largest, Y);
    std::copy_n(m.start.begin(), Y, begin.begin());
    for (int64_t e = 1; e <= T; ++e) {
        leave(x, e);
        if (e < T) enter(e);
    }
    double high = -kInfinity, sum = 0;
    const double* last = end.data() + T * Y;
    for (int64_t y = 0; y < Y; ++y) high = std::max(high, last[y] + m.stop[y]);
    if (high == -kInfinity) return log_z = high;
    for (int64_t y = 0; y < Y; ++y) sum += std::exp(last[y] + m.stop[y] - high);
    return log_z = high + std::log(sum);
}

// end[e, y] = log sum_l exp(begin[e - l, y] + score[e - l, l - 1, y]), and share[e, l, y].
template <class In>
void SegmentSum<In>::leave(const SegmentSequence<In>& x, int64_t e) {
    const int64_t Y = m.Y, n = std::min(m.L, e);
    double* terms = share_of(e);
    double* sums = end.data() + e * Y;
    std::fill_n(largest.begin(), Y, -kInfinity);
    for (int64_t l = 1; l <= n; ++l) {
        const double* from = begin.data() + (e - l) * Y;
        const In* score = x.score + ((e - l) * m.L + l - 1) * Y;
        double* to = terms + (l - 1) * Y;
        for (int64_t y = 0; y < Y; ++y) {
            to[y] = from[y] + double(score[y]);
            largest[y] = std::max(largest[y], to[y]);
        }
    }
    for (int64_t y = 0; y < Y; ++y) largest[y] = finite_or_zero(largest[y]);
    for (int64_t l = 0; l < n; ++l)
        for (int64_t y = 0; y < Y; ++y) terms[l * Y + y] -= largest[y];
    kernels().exp(terms, n * Y);
    std::fill_n(sums, Y, 0.0);
    for (int64_t l = 0; l < n; ++l)
        for (int64_t y = 0; y < Y; ++y) sums[y] += terms[l * Y + y];
    for (int64_t y = 0; y < Y; ++y) {  // now `largest` is the factor of the shares
        const double sum = sums[y];
        sums[y] = sum > 0 ? largest[y] + std::log(sum) : -kInfinity;
        largest[y] = sum > 0 ? 1 / sum : 0;
    }
    for (int64_t l = 0; l < n; ++l)
        for (int64_t y = 0; y < Y; ++y) terms[l * Y + y] *= largest[y];
}

// begin[t, y] = log sum_{y_prev} exp(end[t, y_prev] + trans[y_prev, y]), as a product of
// probabilities where these do not underflow.
template <class In>
void SegmentSum<In>::enter(int64_t t) {
    const int64_t Y = m.Y;
    const double* from = end.data() + t * Y;
    double* p = prob.data() + t * Y;
    double* sums = linear.data() + t * Y;
    double* to = begin.data() + t * Y;
    const double high = finite_or_zero(*std::max_element(from, from + Y));
    for (int64_t y = 0; y < Y; ++y) p[y] = from[y] - high;
    kernels().exp(p, Y);
    std::fill_n(sums, Y, 0.0);
    for (int64_t y_prev = 0; y_prev < Y; ++y_prev) {
        const double* row = m.prob.data() + y_prev * Y;
        for (int64_t y = 0; y < Y; ++y) sums[y] += p[y_prev] * row[y];
    }
    for (int64_t y = 0; y < Y; ++y) {
        if (sums[y] >= kSmallest) {
            to[y] = high + m.top[y] + std::log(sums[y]);
            continue;
        }
        sums[y] = 0;
        double top = -kInfinity, sum = 0;
        for (int64_t y_prev = 0; y_prev < Y; ++y_prev)
            top = std::max(top, from[y_prev] + m.trans[y_prev * Y + y]);
        to[y] = top;
        if (top == -kInfinity) continue;
        for (int64_t y_prev = 0; y_prev < Y; ++y_prev)
            sum += std::exp(from[y_prev] + m.trans[y_prev * Y + y] - top);
        to[y] = top + std::log(sum);
    }
}

template <class In>
template <class Use>
void SegmentSum<In>::each_before(int64_t t, int64_t y, const Use& use) const {
    const int64_t Y = m.Y;
    const double sum = linear[t * Y + y];
    for (int64_t y_prev = 0; y_prev < Y; ++y_prev) {
        const int64_t j = y_prev * Y + y;
        use(y_prev, sum > 0 ? prob[t * Y + y_prev] * m.prob[j] / sum
                            : std::exp(end[t * Y + y_prev] + m.trans[j] - begin[t * Y + y]));
    }
}

// at_end[e, y_prev] = sum_y at_begin[e, y] Pr(y_prev | y), and counts of the transitions at e.
template <class In>
void SegmentSum<In>::cross(int64_t e, double weight, double* counts) {
    const int64_t Y = m.Y;
    const double* p = prob.data() + e * Y;
    double* of = at_end.data() + e * Y;
    bool is_linear = true;
    for (int64_t y = 0; y < Y; ++y) {
        const double sum = linear[e * Y + y], at = at_begin[e * Y + y];
        ratio[y] = sum > 0 ? at / sum : 0;
        is_linear = is_linear && (sum > 0 || at == 0);
    }
    for (int64_t y_prev = 0; y_prev < Y; ++y_prev) {
        const double* row = m.prob.data() + y_prev * Y;
        double sum = 0;
        for (int64_t y = 0; y < Y; ++y) sum += row[y] * ratio[y];
        of[y_prev] = p[y_prev] * sum;
        if (!counts) continue;
        const double factor = weight * p[y_prev];
        for (int64_t y = 0; y < Y; ++y) counts[y_prev * Y + y] += factor * row[y] * ratio[y];
    }
    for (int64_t y = 0; !is_linear && y < Y; ++y) {
        const double at = at_begin[e * Y + y];
        if (linear[e * Y + y] > 0 || at == 0) continue;
        each_before(e, y, [&](int64_t y_prev, double q) {
            of[y_prev] += at * q;
            if (counts) counts[y_prev * Y + y] += weight * at * q;
        });
    }
}

template <class In>
template <class Use>
void SegmentSum<In>::go_back(double weight, double* counts, const Use& use) {
    const int64_t Y = m.Y;
    grow(at_begin, T * Y);
    grow(at_end, (T + 1) * Y);
    grow(ratio, Y);
    std::fill_n(at_begin.begin(), T * Y, 0.0);
    for (int64_t y = 0; y < Y; ++y)
        at_end[T * Y + y] = std::exp(end[T * Y + y] + m.stop[y] - log_z);
    for (int64_t e = T; e > 0; --e) {
        if (e < T) cross(e, weight, counts);
        const double *of = at_end.data() + e * Y, *shares = share_of(e);
        for (int64_t l = 1; l <= std::min(m.L, e); ++l) {
            double* to = at_begin.data() + (e - l) * Y;
            for (int64_t y = 0; y < Y; ++y) to[y] += of[y] * shares[(l - 1) * Y + y];
        }
        use(e, of);
    }
}

template <class In>
void SegmentSum<In>::expectations(double weight, const SegmentExpected<In>& expected) {
    const int64_t Y = m.Y, L = m.L;
    go_back(weight, expected.trans, [&](int64_t e, const double* of) {
        const double* shares = share_of(e);
        for (int64_t l = 1; expected.segments && l <= std::min(L, e); ++l) {
            In* to = expected.segments + ((e - l) * L + l - 1) * Y;
            for (int64_t y = 0; y < Y; ++y)
                to[y] = static_cast<In>(of[y] * shares[(l - 1) * Y + y]);
        }
    });
    if (expected.segments)  // no segment ends after T
        for (int64_t t = std::max<int64_t>(T - L + 1, 0); t < T; ++t)
            std::fill_n(expected.segments + (t * L + T - t) * Y, (L - T + t) * Y, In(0));
    for (int64_t y = 0; expected.start && y < Y; ++y) expected.start[y] += weight * at_begin[y];
    for (int64_t y = 0; expected.stop && y < Y; ++y) expected.stop[y] += weight * at_end[T * Y + y];
}

// By the chain rule: the entropy of each choice given what follows it, times the probability that
// it is to be made.
template <class In>
double SegmentSum<In>::entropy() {
    const int64_t Y = m.Y;
    double total = 0;
    go_back(0, nullptr, [&](int64_t e, const double* of) {
        const double* shares = share_of(e);
        for (int64_t y = 0; y < Y; ++y) {
            if (e == T) total += entropy_of(of[y]);
            if (of[y] > 0) {
                double choice = 0;
                for (int64_t l = 0; l < std::min(m.L, e); ++l)
                    choice += entropy_of(shares[l * Y + y]);
                total += of[y] * choice;
            }
            if (e < T && at_begin[e * Y + y] > 0) {
                double choice = 0;
                each_before(e, y, [&](int64_t, double q) { choice += entropy_of(q); });
                total += at_begin[e * Y + y] * choice;
            }
        }
    });
    return total;
}

namespace {

// Chooses among n probabilities by u, and makes u uniform again. Rounding may leave u beyond their
// sum: then the last possible one is chosen.
template <class Prob>
int64_t draw(int64_t n, double& u, const Prob& prob) {
    int64_t last = 0;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
        const double p = prob(i);
        if (p <= 0) continue;
        last = i;
        if (u < sum + p) {
            u = (u - sum) / p;
            return i;
        }
        sum += p;
    }
    u = 0;
    return last;
}

}  // namespace

// One uniform number per segment, at its last position, chooses its label and then its length.
template <class In>
void SegmentSum<In>::sample(int64_t n, const double* uniform, int64_t stride,
                            int32_t* paths) const {
    const int64_t Y = m.Y;
    std::vector<double> before(Y);
    for (int64_t k = 0; k < n; ++k) {
        int32_t* path = paths + k * stride;
        int64_t y_next = -1;
        for (int64_t e = T; e > 0;) {
            double u = uniform[k * stride + e - 1];
            if (e == T)
                for (int64_t y = 0; y < Y; ++y)
                    before[y] = std::exp(end[T * Y + y] + m.stop[y] - log_z);
            else
                each_before(e, y_next, [&](int64_t y_prev, double q) { before[y_prev] = q; });
            const int64_t y = draw(Y, u, [&](int64_t i) { return before[i]; });
            const double* shares = share_of(e);
            const int64_t l =
                draw(std::min(m.L, e), u, [&](int64_t i) { return shares[i * Y + y]; }) + 1;
            std::fill_n(path + e - l, l, static_cast<int32_t>(Y));
            e -= l;
            path[e] = static_cast<int32_t>(y);
            y_next = y;
        }
    }
}

template <class In>
int64_t SegmentSum<In>::first_dead_position() const {
    // A boundary that is not reached may be skipped by a longer segment, so the first dead position
    // is the one after the last boundary that is reached.
    for (int64_t e = T; e > 0; --e)
        for (int64_t y = 0; y < m.Y; ++y)
            if (end[e * m.Y + y] > -kInfinity) return e;
    return 0;
}

template class SegmentSum<float>;
template class SegmentSum<double>;

// ---------------------------------------------------------------------------------------------
// Maxima

template <class In>
double SegmentBest<In>::forward(const SegmentSequence<In>& x) {
    const int64_t T = x.T, Y = m.Y;
    grow(begin, T * Y);
    grow(end, (T + 1) * Y);
    grow(before, T * Y);
    grow(length, (T + 1) * Y);
    std::copy_n(m.start.begin(), Y, begin.begin());
    for (int64_t e = 1; e <= T; ++e) {
        double* best = end.data() + e * Y;
        int32_t* choice = length.data() + e * Y;
        std::fill_n(best, Y, -kInfinity);
        std::fill_n(choice, Y, 0);
        for (int64_t l = 1; l <= std::min(m.L, e); ++l) {
            const double* from = begin.data() + (e - l) * Y;
            const In* score = x.score + ((e - l) * m.L + l - 1) * Y;
            for (int64_t y = 0; y < Y; ++y) {
                const double sum = from[y] + double(score[y]);
                choice[y] = sum > best[y] ? static_cast<int32_t>(l) : choice[y];
                best[y] = std::max(best[y], sum);
            }
        }
        if (e == T) break;
        double* to = begin.data() + e * Y;
        int32_t* y_prevs = before.data() + e * Y;
        std::fill_n(to, Y, -kInfinity);
        std::fill_n(y_prevs, Y, -1);
        for (int64_t y_prev = 0; y_prev < Y; ++y_prev) {
            const double* row = m.trans.data() + y_prev * Y;
            for (int64_t y = 0; y < Y; ++y) {
                const double sum = best[y_prev] + row[y];
                y_prevs[y] = sum > to[y] ? static_cast<int32_t>(y_prev) : y_prevs[y];
                to[y] = std::max(to[y], sum);
            }
        }
    }
    double best = -kInfinity;
    for (int64_t y = 0; y < Y; ++y) best = std::max(best, end[T * Y + y] + m.stop[y]);
    return best;
}

template <class In>
bool SegmentBest<In>::viterbi(const SegmentSequence<In>& x, int32_t* path) {
    const int64_t T = x.T, Y = m.Y;
    const double best = forward(x);
    if (best == -kInfinity) {
        std::fill_n(path, T, -1);
        return false;
    }
    int64_t y = 0;
    while (end[T * Y + y] + m.stop[y] != best) ++y;
    for (int64_t e = T; e > 0;) {
        const int64_t l = length[e * Y + y];
        std::fill_n(path + e - l, l, static_cast<int32_t>(Y));
        e -= l;
        path[e] = static_cast<int32_t>(y);
        if (e > 0) y = before[e * Y + y];
    }
    return true;
}

namespace {

// Nodes: 2 t Y + y begins a segment with label y at t, (2 e - 1) Y + y ends one before e.
template <class In>
struct Graph {
    const SegmentModel& m;
    const SegmentSequence<In>& x;
    const double *begin, *end;
    int64_t final_node() const { return 2 * x.T * m.Y; }
    bool is_first(int64_t node) const { return node < m.Y; }
    bool is_end(int64_t node) const { return node / m.Y % 2 == 1; }
    double best(int64_t node) const {
        const int64_t y = node % m.Y, at = node / m.Y;
        return is_end(node) ? end[(at + 1) / 2 * m.Y + y] : begin[at / 2 * m.Y + y];
    }
    template <class Visit>
    void arrivals(int64_t node, const Visit& visit) const {
        const int64_t Y = m.Y, y = node % Y, at = node / Y;
        if (is_end(node)) {
            const int64_t e = (at + 1) / 2;
            for (int64_t l = 1; l <= std::min(m.L, e); ++l)
                visit(2 * (e - l) * Y + y, double(x.score[((e - l) * m.L + l - 1) * Y + y]));
            return;
        }
        const int64_t t = at / 2;
        for (int64_t y_prev = 0; y_prev < Y; ++y_prev)
            visit((2 * t - 1) * Y + y_prev,
                  node == final_node() ? m.stop[y_prev] : m.trans[y_prev * Y + y]);
    }
};

}  // namespace

template <class In>
int64_t SegmentBest<In>::nbest(const SegmentSequence<In>& x, int64_t n,
                               std::vector<int32_t>& paths) {
    forward(x);
    const Graph<In> graph{m, x, begin.data(), end.data()};
    DagNBest<Graph<In>> search(graph);
    int64_t found = 0;
    for (; found < n && search.ensure(found); ++found) {
        const int64_t first = std::ssize(paths);
        paths.resize(first + x.T, static_cast<int32_t>(m.Y));
        search.read(found, [&](int64_t node, int32_t) {
            if (!graph.is_end(node))
                paths[first + node / m.Y / 2] = static_cast<int32_t>(node % m.Y);
        });
    }
    return found;
}

template class SegmentBest<float>;
template class SegmentBest<double>;

template <class In>
double segmentation_score(const SegmentModel& m, const SegmentSequence<In>& x,
                          const int32_t* path) {
    const int64_t Y = m.Y;
    double total = 0;
    int64_t y_prev = -1;
    for (int64_t t = 0; t < x.T;) {
        const int64_t y = path[t];
        if (y < 0 || y >= Y) return -kInfinity;
        int64_t e = t + 1;
        while (e < x.T && path[e] == Y) ++e;
        if (e - t > m.L) return -kInfinity;
        total += y_prev < 0 ? m.start[y] : m.trans[y_prev * Y + y];
        total += double(x.score[(t * m.L + e - t - 1) * Y + y]);
        y_prev = y;
        t = e;
    }
    return y_prev < 0 ? total : total + m.stop[y_prev];
}

template double segmentation_score(const SegmentModel&, const SegmentSequence<float>&,
                                   const int32_t*);
template double segmentation_score(const SegmentModel&, const SegmentSequence<double>&,
                                   const int32_t*);

}  // namespace tagloom
