// Trees for one instruction set; tree_kernels.hpp has the recursions, kernels.cpp explains how the
// table works.

#include "core/tree_kernels.hpp"

#include "core/vectors.hpp"

namespace tagloom {
namespace {

using V = Vector<double>;
constexpr int64_t W = TL_VECTOR_BYTES / sizeof(double);
constexpr double kMinusInf = -__builtin_huge_val();

// x where it is finite, else 0: what may be subtracted from -inf.
inline V finite(V x) { return x == kMinusInf ? V{} : x; }

struct Max {
    static constexpr double one = 0;
    static V times(V a, V b) { return a + b; }
    template <class Term>
    static V sum(int64_t n, double*, const Term& term) {
        V best = broadcast(kMinusInf);
        for (int64_t k = 0; k < n; ++k) best = max<V>(best, term(k));
        return best;
    }
};

// Sums and products of weights, for scores whose exponentials do not underflow.
struct Sum {
    static constexpr double one = 1;
    static V times(V a, V b) { return a * b; }
    // Four sums at once, since each waits for the addition before it.
    template <class Term>
    static V sum(int64_t n, double*, const Term& term) {
        V a = {}, b = {}, c = {}, d = {};
        int64_t k = 0;
        for (; k + 4 <= n; k += 4) {
            a += term(k);
            b += term(k + 1);
            c += term(k + 2);
            d += term(k + 3);
        }
        for (; k < n; ++k) a += term(k);
        return (a + b) + (c + d);
    }
};

struct LogSum {
    static constexpr double one = 0;
    static V times(V a, V b) { return a + b; }
    template <class Term>
    static V sum(int64_t n, double* terms, const Term& term) {
        V best = broadcast(kMinusInf);
        for (int64_t k = 0; k < n; ++k) {
            const V x = term(k);
            store(terms + k * W, x);
            best = max<V>(best, x);
        }
        const V shift = finite(best);
        V total = {};
        for (int64_t k = 0; k < n; ++k) total += exp<double>(load(terms + k * W) - shift);
        return best == kMinusInf ? best : shift + log_each(total);
    }
};

class Chart {
  public:
    explicit Chart(const TreeChart& task) : x_(task), n_(task.n) {}

    template <class Semiring>
    void inside() const {
        for (int64_t h = 0; h < n_; ++h) put(x_.complete, h, h, broadcast(Semiring::one));
        for (int64_t width = 1; width < n_; ++width)
            for (int64_t l = 0; l + width < n_; ++l) inside<Semiring>(l, l + width);
    }

    void outside() const {
        for (int64_t width = n_ - 1; width > 0; --width)
            for (int64_t l = 0; l + width < n_; ++l) outside(l, l + width);
    }

    // The same on weights; without siblings.
    void linear_outside() const {
        for (int64_t width = n_ - 1; width > 0; --width)
            for (int64_t l = 0; l + width < n_; ++l) linear_outside(l, l + width);
    }

  private:
    V get(const double* table, int64_t i, int64_t j) const { return load(at(table, i, j)); }
    const double* at(const double* table, int64_t i, int64_t j) const {
        return table + (i * n_ + j) * W;
    }
    void put(double* table, int64_t i, int64_t j, V x) const { store(table + (i * n_ + j) * W, x); }
    void add(double* table, int64_t i, int64_t j, V x) const {
        double* p = table + (i * n_ + j) * W;
        store(p, load(p) + x);
    }

    // The number of k in split[l, r].
    int64_t n_splits(int64_t l, int64_t r) const { return x_.single_root && l == 0 ? 1 : r - l; }
    // The number of siblings s that the arc h -> d may have, with s = h.
    int64_t n_siblings(int64_t h, int64_t d) const {
        return x_.single_root && h == 0 ? 1 : h < d ? d - h : h - d;
    }

    // Scores of sibling s of the arc h -> d, lane by lane.
    V sibling(int64_t d, int64_t h, int64_t s) const {
        V x = {};
        for (int64_t w = 0; w < W; ++w)
            if (has(w, d, h)) x[w] = x_.siblings[w][((d - 1) * x_.H + h) * x_.H + s];
        return x;
    }
    void add_sibling(int64_t d, int64_t h, int64_t s, V x) const {
        for (int64_t w = 0; w < W; ++w)
            if (has(w, d, h)) x_.bar_siblings[w][((d - 1) * x_.H + h) * x_.H + s] += x[w];
    }
    bool has(int64_t w, int64_t d, int64_t h) const { return d < x_.nodes[w] && h < x_.nodes[w]; }

    template <class Semiring>
    void inside(int64_t l, int64_t r) const {
        const V split = Semiring::sum(n_splits(l, r), x_.terms, [&](int64_t k) {
            return Semiring::times(get(x_.complete, l, l + k), get(x_.complete, r, l + k + 1));
        });
        put(x_.split, l, r, split);
        attach<Semiring>(l, r, split);
        complete<Semiring>(l, r);
        if (l == 0) return;  // nothing is the head of the root
        attach<Semiring>(r, l, split);
        complete<Semiring>(r, l);
    }

    // incomplete[h, d]
    template <class Semiring>
    void attach(int64_t h, int64_t d, V split) const {
        const V arc = get(x_.arcs, h, d);
        put(x_.incomplete, h, d, Semiring::times(arc, x_.siblings ? chain<Semiring>(h, d) : split));
    }

    template <class Semiring>
    V chain(int64_t h, int64_t d) const {
        return Semiring::sum(n_siblings(h, d), x_.terms, [&](int64_t k) { return link(h, d, k); });
    }
    // Term k of incomplete[h, d]: its sibling is s = h +- k.
    V link(int64_t h, int64_t d, int64_t k) const {
        const int64_t step = h < d ? 1 : -1, s = h + step * k;
        if (k == 0) return sibling(d, h, h) + get(x_.complete, d, h + step);
        return sibling(d, h, s) + get(x_.incomplete, h, s) +
               get(x_.split, s < d ? s : d, s < d ? d : s);
    }

    // complete[h, e]
    template <class Semiring>
    void complete(int64_t h, int64_t e) const {
        const int64_t first = h < e ? h + 1 : e, count = h < e ? e - h : h - e;
        put(x_.complete, h, e, Semiring::sum(count, x_.terms, [&](int64_t k) {
                return Semiring::times(get(x_.incomplete, h, first + k),
                                       get(x_.complete, first + k, e));
            }));
    }

    void outside(int64_t l, int64_t r) const {
        open(l, r);
        detach(l, r);
        V bar = get(x_.bar_incomplete, l, r);
        if (l > 0) {
            open(r, l);
            detach(r, l);
            bar += get(x_.bar_incomplete, r, l);
        }
        if (x_.siblings) bar = get(x_.bar_split, l, r);
        const V z = finite(get(x_.split, l, r));
        for (int64_t k = 0; k < n_splits(l, r); ++k) {
            const V a = get(x_.complete, l, l + k), b = get(x_.complete, r, l + k + 1);
            const V p = bar * exp<double>(a + b - z);
            add(x_.bar_complete, l, l + k, p);
            add(x_.bar_complete, r, l + k + 1, p);
        }
    }

    void linear_outside(int64_t l, int64_t r) const {
        linear_open(l, r);
        V bar = get(x_.bar_incomplete, l, r) * get(x_.arcs, l, r);
        if (l > 0) {
            linear_open(r, l);
            bar += get(x_.bar_incomplete, r, l) * get(x_.arcs, r, l);
        }
        for (int64_t k = 0; k < n_splits(l, r); ++k) {
            const V a = get(x_.complete, l, l + k), b = get(x_.complete, r, l + k + 1);
            add(x_.bar_complete, l, l + k, bar * b);
            add(x_.bar_complete, r, l + k + 1, bar * a);
        }
    }
    void linear_open(int64_t h, int64_t e) const {
        const int64_t first = h < e ? h + 1 : e, count = h < e ? e - h : h - e;
        const V bar = get(x_.bar_complete, h, e);
        for (int64_t k = first; k < first + count; ++k) {
            const V a = get(x_.incomplete, h, k), b = get(x_.complete, k, e);
            add(x_.bar_incomplete, h, k, bar * b);
            add(x_.bar_complete, k, e, bar * a);
        }
    }

    // From complete[h, e] to its parts.
    void open(int64_t h, int64_t e) const {
        const int64_t first = h < e ? h + 1 : e, count = h < e ? e - h : h - e;
        const V bar = get(x_.bar_complete, h, e), z = finite(get(x_.complete, h, e));
        for (int64_t k = first; k < first + count; ++k) {
            const V a = get(x_.incomplete, h, k), b = get(x_.complete, k, e);
            const V p = bar * exp<double>(a + b - z);
            add(x_.bar_incomplete, h, k, p);
            add(x_.bar_complete, k, e, p);
        }
    }

    // From incomplete[h, d] to its siblings; without siblings, `outside` goes on to the split.
    void detach(int64_t h, int64_t d) const {
        if (!x_.siblings) return;
        const V bar = get(x_.bar_incomplete, h, d);
        const V z = finite(get(x_.incomplete, h, d) - finite(get(x_.arcs, h, d)));
        const int64_t step = h < d ? 1 : -1;
        for (int64_t k = 0; k < n_siblings(h, d); ++k) {
            const V p = bar * exp<double>(link(h, d, k) - z);
            const int64_t s = h + step * k;
            add_sibling(d, h, s, p);
            if (k == 0) {
                add(x_.bar_complete, d, h + step, p);
            } else {
                add(x_.bar_incomplete, h, s, p);
                add(x_.bar_split, s < d ? s : d, s < d ? d : s, p);
            }
        }
    }

    const TreeChart& x_;
    const int64_t n_;
};

void weigh(const TreeChart& task, double* weights, double* shifts) {
    V all = {};
    const int64_t n = task.n;
    for (int64_t d = 1; d < n; ++d) {
        V largest = broadcast(kMinusInf);
        for (int64_t h = 0; h < n; ++h)
            largest = max<V>(largest, load(task.arcs + (h * n + d) * W));
        const V shift = finite(largest);
        all += shift;
        for (int64_t h = 0; h < n; ++h) {
            const int64_t place = (h * n + d) * W;
            store(weights + place, exp<double>(load(task.arcs + place) - shift));
        }
    }
    store(shifts, all);
}

void best(const TreeChart& task) { Chart(task).inside<Max>(); }
void inside(const TreeChart& task) { Chart(task).inside<LogSum>(); }
void outside(const TreeChart& task) { Chart(task).outside(); }
void linear_inside(const TreeChart& task) { Chart(task).inside<Sum>(); }
void linear_outside(const TreeChart& task) { Chart(task).linear_outside(); }

// ---------------------------------------------------------------------------------------------
// Matrix-tree theorem

constexpr double kNone = 1e9;  // the rank of a weight of 0: above all others

class Elimination {
  public:
    explicit Elimination(const TreeElimination& task) : x_(task), P_(task.P) {}

    double eliminate() const {
        double log_z = 0, rank = 0;
        for (int64_t v = x_.T - 1; v >= 0; --v) {
            double pivot_rank = 0;
            const double pivot = sum_heads(v, pivot_rank);
            if (pivot == kMinusInf) return kMinusInf;
            log_z += pivot;
            rank += pivot_rank;
            for (int64_t h = 0; h <= v; ++h) pass_on(v, h, pivot, pivot_rank);
        }
        return x_.rank && x_.T > 0 && rank != 1 ? kMinusInf : log_z;
    }

    // p[h, v] = share[h] * (1 - n) + via[h], where via[h] is the expected number of dependents that
    // v passes on to h, and n their sum over h.
    void restore() const {
        for (int64_t v = 0; v < x_.T; ++v) {
            double* of_v = x_.marginals + (v + 1) * P_;
            for (int64_t d = 0; d < P_; ++d) of_v[d] = 0;
            double all = 0;
            for (int64_t h = 0; h <= v; ++h) all += x_.column[h] = take_back(v, h, of_v);
            for (int64_t h = 0; h <= v; ++h) {
                const double p = x_.shares[v * (x_.T + 1) + h] * (1 - all) + x_.column[h];
                x_.marginals[h * P_ + v] = p < 0 ? 0 : p > 1 ? 1 : p;  // off by rounding
            }
        }
    }

  private:
    double* kept(int64_t v, int64_t h) const { return x_.kept + (v * (v + 1) / 2 + h) * P_; }

    // The pivot of v, and the share of each head in it. Row h is word h - 1, row 0 the root; those
    // left are 0 to v.
    double sum_heads(int64_t v, double& lowest) const {
        double top = kMinusInf;
        lowest = 0;
        if (x_.rank) {
            lowest = kNone;
            for (int64_t h = 0; h <= v; ++h) {
                const double rank = x_.rank[h * P_ + v];
                lowest = rank < lowest ? rank : lowest;
            }
        }
        for (int64_t h = 0; h <= v; ++h) {
            const bool counts = !x_.rank || x_.rank[h * P_ + v] == lowest;
            x_.column[h] = counts ? x_.w[h * P_ + v] : kMinusInf;
            top = x_.column[h] > top ? x_.column[h] : top;
        }
        if (top == kMinusInf) return top;
        for (int64_t h = v + 1; h < v + 1 + W; ++h) x_.column[h] = kMinusInf;
        double total = 0;
        for (int64_t h = 0; h <= v; h += W) {
            const V share = exp<double>(load(x_.column + h) - top);
            store(x_.column + h, share);
            for (int64_t w = 0; w < W; ++w) total += share[w];
        }
        for (int64_t h = 0; h <= v; ++h) x_.shares[v * (x_.T + 1) + h] = x_.column[h] / total;
        return top + log_each(broadcast(total))[0];
    }

    // w[h, d] for all words d before v.
    void pass_on(int64_t v, int64_t h, double pivot, double pivot_rank) const {
        double* row = x_.w + h * P_;
        const double* of_v = x_.w + (v + 1) * P_;
        const V factor = broadcast(row[v] - pivot);
        double *rank = nullptr, *rank_v = nullptr;
        V factor_rank = {};
        if (x_.rank) {
            rank = x_.rank + h * P_;
            rank_v = x_.rank + (v + 1) * P_;
            factor_rank = broadcast(row[v] == kMinusInf ? kNone : rank[v] - pivot_rank);
        }
        for (int64_t d = 0; d < v; d += W) {
            V a = load(row + d), b = factor + load(of_v + d);
            if (rank) {
                const V rank_a = load(rank + d);
                V rank_b = factor_rank + load(rank_v + d);
                rank_b = b == kMinusInf ? broadcast(kNone) : rank_b;
                store(rank + d, rank_a < rank_b ? rank_a : rank_b);
                a = rank_b < rank_a ? broadcast(kMinusInf) : a;
                b = rank_a < rank_b ? broadcast(kMinusInf) : b;
            }
            const V top = max<V>(a, b), shift = finite(top);
            const V direct = exp<double>(a - shift), sum = direct + exp<double>(b - shift);
            store(row + d, top == kMinusInf ? top : shift + log_each(sum));
            if (x_.kept) store(kept(v, h) + d, top == kMinusInf ? V{} : direct / sum);
        }
        if (h > 0 && h <= v) {  // no word is its own head
            row[h - 1] = kMinusInf;
            if (rank) rank[h - 1] = kNone;
        }
    }

    double take_back(int64_t v, int64_t h, double* of_v) const {
        double* row = x_.marginals + h * P_;
        V all = {};
        for (int64_t d = 0; d < v; d += W) {
            const V p = load(row + d), direct = p * load(kept(v, h) + d), via = p - direct;
            store(row + d, direct);
            store(of_v + d, load(of_v + d) + via);
            all += via;
        }
        double sum = 0;
        for (int64_t w = 0; w < W; ++w) sum += all[w];
        return sum;
    }

    const TreeElimination& x_;
    const int64_t P_;
};

double eliminate(const TreeElimination& task) { return Elimination(task).eliminate(); }
void restore(const TreeElimination& task) { Elimination(task).restore(); }

}  // namespace

#define TL_JOIN_(a, b) a##b
#define TL_JOIN(a, b) TL_JOIN_(a, b)

const TreeKernels& TL_JOIN(tree_kernels_, TL_ISA)() {
    static constexpr TreeKernels table = {
        W, best, inside, outside, weigh, linear_inside, linear_outside, eliminate, restore};
    return table;
}

}  // namespace tagloom
