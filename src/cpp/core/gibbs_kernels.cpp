// The sweep of collapsed Gibbs sampling for one instruction set; see gibbs.hpp for the formula and
// kernels.cpp for how the table works.
//
// Tables stay as they are until a label changes, which is rare once the chain has settled: all
// weights are computed from the full counts, one vector of labels at a time, and the few labels
// that the token itself counts towards are computed again without it.

#include "core/gibbs_kernels.hpp"

#include "core/vectors.hpp"

namespace tagloom {
namespace {

using V = Vector<double>;
constexpr int64_t W = TL_VECTOR_BYTES / sizeof(double);
constexpr int64_t kBlock = 8;  // P is a multiple of it

inline V widen(const int32_t* p) {
    int32_t __attribute__((vector_size(W * sizeof(int32_t)))) x;
    __builtin_memcpy(&x, p, sizeof x);
    return __builtin_convertvector(x, V);
}

// A uniform number in [0, 1) for position t: SplitMix64 after t steps, so that it does not depend
// on which other positions are drawn.
inline double uniform_at(uint64_t seed, int64_t t) {
    uint64_t z = seed + uint64_t(t + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return double((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

class Sweep {
  public:
    explicit Sweep(const GibbsSweep& task) : x_(task) {}

    int64_t run() {
        int64_t changed = 0;
        for (int64_t i = 0; i < x_.N; ++i)
            for (int64_t t = x_.offsets[i]; t < x_.offsets[i + 1]; ++t)
                changed += draw(t, x_.offsets[i], x_.offsets[i + 1]);
        return changed;
    }

  private:
    // One token: its neighbours, its label, the counts of its symbol (null if missing), and
    // whether a transition leaves it.
    struct Site {
        int64_t before, after, old;
        const int32_t* emitted;
        bool goes_on;
    };

    bool draw(int64_t t, int64_t first, int64_t end) {
        const int32_t* list = x_.rows ? x_.candidate + x_.rows[t] : nullptr;
        const int64_t n = x_.rows ? x_.rows[t + 1] - x_.rows[t] : x_.Y;
        if (n == 1) return false;
        const int64_t symbol = x_.symbol[t];
        const Site site{t > first ? x_.label[t - 1] : x_.Y, t + 1 < end ? x_.label[t + 1] : x_.Y,
                        x_.label[t], symbol < 0 ? nullptr : x_.emitted + symbol * x_.P,
                        t + 1 < end || x_.stops};
        const double u = uniform_at(x_.seed, t);
        int64_t k;
        if (list || !site.emitted) {
            k = choose_listed(site, list, n, u);
        } else {
            if (t + kAhead < x_.offsets[x_.N] && x_.symbol[t + kAhead] >= 0)
                __builtin_prefetch(x_.emitted + x_.symbol[t + kAhead] * x_.P);
            k = choose_any(site, u);
        }
        if (k == site.old) return false;
        move(site, symbol, k);
        x_.label[t] = int32_t(k);
        return true;
    }

    // The weight of label k with the token itself removed from all counts.
    double weight(const Site& s, int64_t k) const {
        const double is_old = k == s.old;
        double emitted = 1, total = 1;
        if (s.emitted) {
            emitted = s.emitted[k] - is_old + x_.beta;
            total = x_.emitted_total[k] - is_old;
        }
        double from = x_.from[s.before * x_.P + k] - is_old;
        if (!s.goes_on) return emitted * from / total;
        if (s.before == s.old && k == s.after) from -= 1;
        double into = x_.into[s.after * x_.P + k] - is_old;
        if (k == s.before) into += double(k == s.after) - double(s.after == s.old);
        return emitted * from * into / (total * (x_.left[k] - is_old));
    }

    int64_t choose_listed(const Site& s, const int32_t* list, int64_t n, double u) const {
        double sum = 0;
        for (int64_t i = 0; i < n; ++i) x_.weights[i] = sum += weight(s, list ? list[i] : i);
        const double limit = u * sum;
        int64_t i = 0;
        while (i < n - 1 && x_.weights[i] <= limit) ++i;
        return list ? list[i] : i;
    }

    int64_t choose_any(const Site& s, double u) const {
        const double* from = x_.from + s.before * x_.P;
        const double* into = x_.into + s.after * x_.P;
        for (int64_t k = 0; k < x_.P; k += W)
            store(x_.weights + k, (widen(s.emitted + k) + x_.beta) * load(from + k) *
                                      load(into + k) * load(x_.inverse + k));
        x_.weights[s.old] = weight(s, s.old);
        // Elsewhere the token counts only if its two transitions share labels.
        if (s.before == s.old || s.after == s.old || s.before == s.after) {
            if (s.before < x_.Y) x_.weights[s.before] = weight(s, s.before);
            if (s.after < x_.Y) x_.weights[s.after] = weight(s, s.after);
        }
        return choose(u);
    }

    // The first label whose cumulative weight exceeds u times the total: first its block, then its
    // place there. Neither has a branch that depends on the draw: it would be mispredicted.
    int64_t choose(double u) const {
        const double* w = x_.weights;
        double total = 0;
        for (int64_t k = 0; k < x_.P; k += kBlock) total += block(w + k);
        const double limit = u * total;
        double below = 0, sum = 0;  // sum: of the blocks so far; below: of those left behind
        int64_t first = 0;
        for (int64_t k = 0; k + kBlock < x_.P; k += kBlock) {
            sum += block(w + k);
            const bool is_behind = sum <= limit;
            below = is_behind ? sum : below;
            first += is_behind ? kBlock : 0;
        }
        const int64_t k = first + place(w + first, limit - below);
        return w[k] > 0 ? k : last_positive(k);
    }
    static double block(const double* w) {
        return ((w[0] + w[1]) + (w[2] + w[3])) + ((w[4] + w[5]) + (w[6] + w[7]));
    }
    // How many of the cumulative weights of a block, without its last, are at most `limit`.
    static int64_t place(const double* w, double limit) {
        const double two = w[0] + w[1], four = two + (w[2] + w[3]), six = four + (w[4] + w[5]);
        return int64_t(w[0] <= limit) + int64_t(two <= limit) + int64_t(two + w[2] <= limit) +
               int64_t(four <= limit) + int64_t(four + w[4] <= limit) + int64_t(six <= limit) +
               int64_t(six + w[6] <= limit);
    }
    // For a limit that rounding moved to a weight of 0: the last label up to k with a positive one,
    // or the first above.
    int64_t last_positive(int64_t k) const {
        int64_t found = k;
        while (found > 0 && !(x_.weights[found] > 0)) --found;
        if (x_.weights[found] > 0) return found;
        for (found = k; found < x_.Y - 1 && !(x_.weights[found] > 0);) ++found;
        return found;
    }

    void move(const Site& s, int64_t symbol, int64_t k) {
        add(s, symbol, s.old, -1);
        add(s, symbol, k, 1);
    }
    void add(const Site& s, int64_t symbol, int64_t k, int32_t one) {
        if (symbol >= 0) {
            x_.emitted[symbol * x_.P + k] += one;
            x_.emitted_total[k] += one;
        }
        x_.from[s.before * x_.P + k] += one;
        if (s.before < x_.Y) x_.into[k * x_.P + s.before] += one;
        if (s.goes_on) {
            x_.left[k] += one;
            x_.into[s.after * x_.P + k] += one;
            if (s.after < x_.Y) x_.from[k * x_.P + s.after] += one;
            if (!x_.stops) x_.into[x_.Y * x_.P + k] = x_.left[k];
        }
        x_.inverse[k] = 1 / (x_.emitted_total[k] * x_.left[k]);
    }

    static constexpr int64_t kAhead = 8;
    const GibbsSweep& x_;
};

int64_t sweep(const GibbsSweep& task) { return Sweep(task).run(); }

}  // namespace

#define TL_JOIN_(a, b) a##b
#define TL_JOIN(a, b) TL_JOIN_(a, b)

const GibbsKernels& TL_JOIN(gibbs_kernels_, TL_ISA)() {
    static constexpr GibbsKernels table = {sweep};
    return table;
}

}  // namespace tagloom
