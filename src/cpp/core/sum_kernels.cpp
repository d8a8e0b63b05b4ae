// Sums over all paths and the expectations that they give, in lanes and of one sequence, for one
// instruction set. The forward pass is in forward_lanes.hpp and forward_one.hpp; in the symbols of
// the loops, the backward pass is
//
//   beta[T-1, s]       = stop[s]
//   b[t, g*Y + c]      = row[t, c] * beta[t, g*Y + c] * scale[t]
//   beta[t-1, a*G + g] = sum_c P[g, a, c] * b[t, g*Y + c]
//
// and the results of both passes are
//
//   gamma[t, y] = sum of alpha[t, s] * beta[t, s] over the states s of label y
//   total[t]    = sum_y gamma[t, y]
//   Pr(y at t)  = gamma[t, y] / total[t]
//   Pr(transition a*G + g -> g*Y + c into t) = alpha[t-1, a*G + g] * P[g, a, c] * b[t, g*Y + c] /
//   total[t-1]
//
// scale[t] is again a power of two; the total of each position is that of its own numbers, so that
// marginals sum to one whatever was rounded.

#include "core/forward_lanes.hpp"
#include "core/forward_one.hpp"
#include "core/kernel_functions.hpp"

namespace tagloom {
namespace {

// ---------------------------------------------------------------------------------------------
// Lanes

// The sums of neighbours in two vectors, those of a before those of b.
inline Vector<double> add_neighbours(Vector<double> a, Vector<double> b) {
#if TL_VECTOR_BYTES == 64
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14) +
           __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#elif TL_VECTOR_BYTES == 32
    return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
#else
    return __builtin_shufflevector(a, b, 0, 2) + __builtin_shufflevector(a, b, 1, 3);
#endif
}

inline Vector<double> in_double(Vector<double> x) { return x; }
inline Vector<double> in_double(Vector<float> x) {
    float values[W<float>];
    store(values, x);
    Vector<double> sum = {};
    for (int half = 0; half < 2; ++half) {
        using Half __attribute__((vector_size(TL_VECTOR_BYTES / 2))) = float;
        Half part;
        __builtin_memcpy(&part, values + half * W<double>, sizeof part);
        sum += __builtin_convertvector(part, Vector<double>);
    }
    return sum;
}

// total[i] += the sum of vector x[i], for n vectors. W of them at a time need fewer operations than
// each alone.
template <class R, int n>
inline void add_lanes(const Vector<R> (&x)[n], double* total) {
    constexpr int WD = W<double>;
    for (int i = 0; i < n; i += WD) {
        Vector<double> sum[WD];
        for (int j = 0; j < WD; ++j) sum[j] = i + j < n ? in_double(x[i + j]) : Vector<double>{};
        for (int size = WD; size > 1; size /= 2)
            for (int j = 0; j < size / 2; ++j) sum[j] = add_neighbours(sum[2 * j], sum[2 * j + 1]);
        for (int j = 0; j < WD && i + j < n; ++j) total[i + j] += sum[0][j];
    }
}

// Compilers would read x from memory again for each product with it. Vectors that are wider than
// the registers of the machine, which tests compile, stay in memory.
template <class V>
inline void keep_in_register([[maybe_unused]] V& x) {
#if defined(__AVX512F__) && TL_VECTOR_BYTES == 64
    asm("" : "+v"(x));
#elif (defined(__AVX__) && TL_VECTOR_BYTES == 32) || (defined(__SSE2__) && TL_VECTOR_BYTES == 16)
    asm("" : "+x"(x));
#endif
}

// The registers of AVX-512 hold a larger tile.
constexpr int kOuterRows = TL_VECTOR_BYTES == 64 ? 5 : 4;
constexpr int kOuterColumns = TL_VECTOR_BYTES == 64 ? 4 : 3;

// acc[a, c] += P[a, c] * sum over t in [t0, t1) and lanes of alpha[t-1, a] * b[t, c], for one block
// of the state space. A and C are the tile's sizes.
template <int A, int C, class R>
inline void outer_tile(int64_t t0, int64_t t1, const R* alpha, const R* b, int64_t step,
                       int64_t alpha_stride, double* acc, int64_t Y, const R* P, int64_t stride) {
    using V = Vector<R>;
    constexpr int64_t chunk = 64;  // float sums are added to double this often
    double total[A * C] = {};
    for (int64_t lo = t0; lo < t1; lo += chunk) {
        V sum[A * C] = {};
        const int64_t hi = lo + chunk < t1 ? lo + chunk : t1;
        for (int64_t t = lo; t < hi; ++t)
            for (int v = 0; v < NV; ++v) {
                V x[A];
                for (int i = 0; i < A; ++i) {
                    x[i] = load(alpha + (t - 1) * step + i * alpha_stride + v * W<R>);
                    keep_in_register(x[i]);
                }
                for (int j = 0; j < C; ++j) {
                    const V y = load(b + t * step + j * L<R> + v * W<R>);
                    for (int i = 0; i < A; ++i) sum[i * C + j] += x[i] * y;
                }
            }
        add_lanes<R>(sum, total);
    }
    for (int i = 0; i < A; ++i)
        for (int j = 0; j < C; ++j) acc[i * Y + j] += total[i * C + j] * P[i * stride + j];
}

// Calls call(Size<k>) for the tiles that n rows or columns are cut into: k = largest, then the
// rest.
template <int largest, class Call>
inline void in_tiles(int64_t n, const Call& call) {
    for (; n >= largest; n -= largest) call(Size<largest>{});
    if constexpr (largest > 1)
        if (n > 0) in_tiles<largest - 1>(n, call);
}

template <class R>
inline void outer(const Transitions<R>& transitions, int64_t t0, int64_t t1, const R* alpha,
                  const R* b, double* acc) {
    const int64_t Y = transitions.Y, G = transitions.G, S = transitions.states(), step = S * L<R>;
    const R* m = transitions.matrix(t0);
    for (int64_t g = 0; g < G; ++g) {
        const R* P = m + g * Y * transitions.stride;
        double* out = acc + g * Y * Y;
        const R* from = alpha + g * L<R>;
        const R* to = b + g * Y * L<R>;
        int64_t a = 0;
        in_tiles<kOuterRows>(Y, [&](auto rows) {
            int64_t c = 0;
            in_tiles<kOuterColumns>(Y, [&](auto columns) {
                outer_tile<rows.value, columns.value>(
                    t0, t1, from + a * G * L<R>, to + c * L<R>, step, G * L<R>, out + a * Y + c, Y,
                    P + a * transitions.stride + c, transitions.stride);
                c += columns.value;
            });
            a += rows.value;
        });
    }
}

template <class In, class R>
class BackwardLanes {
    using V = Vector<R>;

  public:
    BackwardLanes(const LaneSum<In, R>& task, const ForwardLanes<In, R>& forward)
        : task_(task),
          forward_(forward),
          transitions_(*task.transitions),
          Y_(transitions_.Y),
          S_(transitions_.states()),
          T_(task.length[0]),
          guard_(sizeof(R) == 8 && task.guard.is_on) {
        for (int64_t i = 0; i < S_ * L<R>; ++i) task.beta[i] = 0;
    }

    void run() {
        int64_t active = 0;
        for (int64_t t = T_ - 1; t >= 0; --t) {
            const int64_t going = active;  // lanes whose sequence reaches t + 1
            for (; active < task_.n && task_.length[active] == t + 1; ++active) begin(active);
            for (int v = 0; v < NV; ++v) {
                Bits<R> e;
                scale_[v] = scale_of<R>(peak_[v], e);
            }
            combine(t);
            if (guard_) check_total(going, active);
            if (task_.expected.marginals) write_marginals(t, active);
            for (int64_t l = 0; t == 0 && l < task_.n; ++l) add_ends(l, task_.expected.start);
            for (int64_t l = going; l < active; ++l) add_ends(l, task_.expected.stop);
            if (task_.expected.transitions && t + 1 < T_) weigh(b_of(t + 1), going);
            if (t > 0) step_back(t, active);
        }
        for (int64_t l = 0; l < task_.n; ++l)
            if (bad_[l / W<R>][l % W<R>]) task_.ok[l] = false;
        if (task_.expected.transitions) add_transitions();
    }

  private:
    // The sequence in lane l ends here.
    void begin(int64_t l) {
        R largest = 0;
        for (int64_t s = 0; s < S_; ++s) {
            const R stop = forward_.stop(s);
            task_.beta[s * L<R> + l] = stop;
            largest = stop > largest ? stop : largest;
        }
        peak_[l / W<R>][l % W<R>] = largest;
    }

    // sum_s alpha[t, s] * beta[t, s] is the total, up to the powers of two, at every position.
    void check_total(int64_t going, int64_t active) {
        for (int64_t l = going; l < active; ++l) {
            expected_[l / W<R>][l % W<R>] = total_[l / W<R>][l % W<R>];
            begun_[l / W<R>][l % W<R>] = -1;
        }
        for (int v = 0; v < NV; ++v) {
            const V off = total_[v] - expected_[v], limit = expected_[v] * R(tolerated_at_position);
            bad_[v] |= cast_bits<Bits<R>>((off > limit) | (off < -limit));
            bad_[v] |= begun_[v] & ~cast_bits<Bits<R>>(expected_[v] >= R(least_total));
            expected_[v] *= scale_[v];  // of t - 1
        }
    }

    // gamma[t] and its total, and b[t].
    void combine(int64_t t) {
        V total[NV] = {};
        const int64_t block_size = Y_ * L<R>, last = (transitions_.G - 1) * block_size;
        if (last == 0) {
            combine_block<true, true>(t, 0, total);
        } else {
            combine_block<true, false>(t, 0, total);
            for (int64_t block = block_size; block < last; block += block_size)
                combine_block<false, false>(t, block, total);
            combine_block<false, true>(t, last, total);
        }
        for (int v = 0; v < NV; ++v) {
            total_[v] = total[v];
            inverse_[v] = total[v] > R(0) ? R(1) / total[v] : V{};
        }
    }

    // The states from `block` on, one for each label.
    template <bool is_first, bool is_last>
    void combine_block(int64_t t, int64_t block, V (&total)[NV]) {
        const R *alpha = forward_.alpha_of(t) + block, *beta = task_.beta + block;
        const R* row = forward_.row_of(t);
        R *gamma = task_.gamma, *b = b_of(t) + block;
        for (int64_t i = 0; i < Y_ * L<R>; i += L<R>)
            for (int v = 0; v < NV; ++v) {
                const int64_t at = i + v * W<R>;
                const V later = load(beta + at), both = load(alpha + at) * later;
                const V sum = is_first ? both : load(gamma + at) + both;
                store(gamma + at, sum);
                if (is_last) total[v] += sum;
                store(b + at, later * scale_[v] * load(row + at));
            }
    }

    void write_marginals(int64_t t, int64_t active) {
        R factor[L<R>];
        for (int v = 0; v < NV; ++v) store(factor + v * W<R>, inverse_[v]);
        scatter<In, R>(task_.gamma, Y_, t, task_.place, active, factor, task_.expected.marginals);
    }

    // The marginals of lane l, at an end of its sequence.
    void add_ends(int64_t l, double* to) {
        const double factor = task_.weight[l] * inverse_[l / W<R>][l % W<R>];
        for (int64_t y = 0; to && y < Y_; ++y) to[y] += factor * task_.gamma[y * L<R> + l];
    }

    // Turns b[t+1] into the factors of alpha[t] in the expected transitions into t + 1.
    void weigh(R* b, int64_t going) {
        R factor[L<R>] = {};
        for (int64_t l = 0; l < going; ++l)
            factor[l] = static_cast<R>(task_.weight[l]) * inverse_[l / W<R>][l % W<R>];
        V largest[NV] = {};
        for (int64_t s = 0; s < S_; ++s)
            for (int v = 0; v < NV; ++v) {
                R* p = b + s * L<R> + v * W<R>;
                const V x = load(p) * load(factor + v * W<R>);
                largest[v] = max<V>(largest[v], x);
                store(p, x);
            }
        for (int v = 0; guard_ && v < NV; ++v)
            bad_[v] |= cast_bits<Bits<R>>(largest[v] > R(greatest_factor));
    }

    // beta[t-1] = P b[t].
    void step_back(int64_t t, int64_t active) {
        V peak[NV] = {};
        const In* marginals = t > 1 ? task_.expected.marginals : nullptr;
        const Ahead<In, L<R>, 1> ahead(
            [&](int64_t l) {
                return marginals ? marginals + (task_.place[l] + t - 2) * Y_ : nullptr;
            },
            Y_, active);
        lane_backward<SumTimes>(transitions_, t, b_of(t), task_.beta,
                                [&](int64_t a, int v, V x) TL_INLINE {
                                    if (v == 0) ahead.ask(a);
                                    peak[v] = max<V>(peak[v], x);
                                    return x;
                                });
        for (int v = 0; v < NV; ++v) peak_[v] = peak[v];
    }

    // Short histories have a matrix each; the last matrix serves all later positions.
    void add_transitions() {
        for (int64_t level = 0; level < transitions_.levels; ++level) {
            const int64_t t0 = level + 1;
            const int64_t t1 = level + 1 < transitions_.levels ? t0 + 1 : T_;
            if (t0 < T_)
                outer(transitions_, t0, t1, task_.alpha, task_.b,
                      task_.expected.transitions + level * transitions_.G * Y_ * Y_);
        }
    }

    // One row, which stays in the cache, if no transitions are counted.
    R* b_of(int64_t t) const { return task_.b + (task_.expected.transitions ? t : 0) * S_ * L<R>; }

    const LaneSum<In, R>& task_;
    const ForwardLanes<In, R>& forward_;
    const Transitions<R>& transitions_;
    const int64_t Y_, S_, T_;
    const bool guard_;
    V peak_[NV] = {};         // largest beta[t]
    V scale_[NV];             // power of two that brings it to 1
    V total_[NV];             // total[t]
    V inverse_[NV];           // 1 / total[t]
    V expected_[NV] = {};     // total[t] if beta has lost nothing
    Bits<R> begun_[NV] = {};  // lanes whose sequence reaches t
    Bits<R> bad_[NV] = {};    // lanes where beta has lost something
};

// ---------------------------------------------------------------------------------------------
// One sequence

template <class In>
class BackwardOne {
  public:
    BackwardOne(const OneSum<In>& task, ForwardOne<In>& forward)
        : task_(task),
          forward_(forward),
          transitions_(*task.transitions),
          Y_(transitions_.Y),
          G_(transitions_.G),
          S_(transitions_.states()) {}

    void run() {
        for (int64_t s = 0; s < S_; ++s) task_.beta[s] = forward_.stop(s);
        for (int64_t t = task_.T - 1; t >= 0; --t) {
            const double* alpha = forward_.alpha_of(t);
            double total = 0;
            for (int64_t s = 0; s < S_; ++s) total += alpha[s] * task_.beta[s];
            if (!is_expected(t, total)) {
                *task_.ok = false;
                return;
            }
            const double inverse = 1 / total;
            if (task_.expected.marginals || t == 0 || t == task_.T - 1)
                write_marginals(t, alpha, inverse);
            if (task_.expected.pairs && G_ > 1 && t > 0) write_pairs_of_states(t, alpha, inverse);
            if (t == 0) break;
            bool ignored = false;
            beta_exponent_ = one_rescale(task_.beta, S_, false, ignored);
            const double norm = step_back(t);
            const double scale = norm > 0 ? 1 / norm : 0;
            if (task_.expected.transitions) add_transitions(t, scale);
            if (task_.expected.pairs && G_ == 1) write_pairs(t, scale);
        }
    }

  private:
    // sum_s alpha[t, s] * beta[t, s] is the total, up to the powers of two, at every position.
    bool is_expected(int64_t t, double total) {
        if (!task_.guard.is_on) return total > 0;
        if (t == task_.T - 1) {
            expected_ = total;
        } else {
            // alpha and beta have lost powers of two at t + 1.
            const double off = forward_.exponent(t + 1) - beta_exponent_;
            expected_ = scaled(expected_, off);
        }
        const double limit = tolerated_at_position * expected_;
        return expected_ >= least_total && total - expected_ <= limit && expected_ - total <= limit;
    }

    // The marginals of the labels at t, also into the counts of the ends.
    void write_marginals(int64_t t, const double* alpha, double inverse) {
        const Expected<In>& expected = task_.expected;
        In* out = expected.marginals ? expected.marginals + (task_.token + t) * Y_ : nullptr;
        for (int64_t y = 0; y < Y_; ++y) {
            double gamma = 0;
            for (int64_t s = y; s < S_; s += Y_) gamma += alpha[s] * task_.beta[s];
            gamma *= inverse;
            if (out) out[y] = static_cast<In>(gamma);
            if (t == 0 && expected.start) expected.start[y] += task_.weight * gamma;
            if (t == task_.T - 1 && expected.stop) expected.stop[y] += task_.weight * gamma;
        }
    }

    // b[t], then beta[t-1] = P b[t]; returns sum_s alpha[t-1, s] * beta[t-1, s].
    double step_back(int64_t t) {
        Sum ignored;
        forward_.fill(t, ignored);
        const double* before = forward_.alpha_of(t - 1);
        double norm = 0;
        for (int64_t g = 0; g < G_; ++g) {
            const double* row = forward_.row(g);
            double* b = task_.b + g * Y_;
            for (int64_t c = 0; c < Y_; ++c) b[c] = row[c] * task_.beta[g * Y_ + c];
        }
        for (int64_t g = 0; g < G_; ++g)
            for (int64_t a = 0; a < Y_; ++a) {
                const double x = dot(P_row(g, a), task_.b + g * Y_);
                task_.beta[a * G_ + g] = x;
                norm += before[a * G_ + g] * x;
            }
        return norm;
    }

    void add_transitions(int64_t t, double scale) {
        const double* before = forward_.alpha_of(t - 1);
        double* counts = task_.expected.transitions + transitions_.level(t) * G_ * Y_ * Y_;
        for (int64_t g = 0; g < G_; ++g)
            for (int64_t a = 0; a < Y_; ++a) {
                const double *p = P_row(g, a), *b = task_.b + g * Y_;
                const double f = before[a * G_ + g] * scale * task_.weight;
                double* out = counts + (g * Y_ + a) * Y_;
                for (int64_t c = 0; c < Y_; ++c) out[c] += f * p[c] * b[c];
            }
    }

    void write_pairs(int64_t t, double scale) {
        const double* before = forward_.alpha_of(t - 1);
        for (int64_t a = 0; a < Y_; ++a) {
            const double *p = P_row(0, a), *b = task_.b;
            const double f = before[a] * scale;
            In* out = task_.expected.pairs + ((task_.token + t) * Y_ + a) * Y_;
            for (int64_t c = 0; c < Y_; ++c) out[c] = static_cast<In>(f * p[c] * b[c]);
        }
    }

    // Histories of two labels and more contain the pair that ends at t.
    void write_pairs_of_states(int64_t t, const double* alpha, double inverse) {
        In* out = task_.expected.pairs + (task_.token + t) * Y_ * Y_;
        for (int64_t pair = 0; pair < Y_ * Y_; ++pair) {
            double sum = 0;
            for (int64_t s = pair; s < S_; s += Y_ * Y_) sum += alpha[s] * task_.beta[s];
            out[pair] = static_cast<In>(sum * inverse);
        }
    }

    double dot(const double* p, const double* b) const {
        D sum = {};
        int64_t c = 0;
        for (; c + WD <= Y_; c += WD) sum += load(p + c) * load(b + c);
        double x = 0;
        for (int w = 0; w < WD; ++w) x += sum[w];
        for (; c < Y_; ++c) x += p[c] * b[c];
        return x;
    }

    const double* P_row(int64_t g, int64_t a) const {
        return forward_.P() + (g * Y_ + a) * transitions_.stride;
    }

    const OneSum<In>& task_;
    ForwardOne<In>& forward_;
    const Transitions<double>& transitions_;
    const int64_t Y_, G_, S_;
    double expected_ = 0;       // the total of a position, if beta has lost nothing
    double beta_exponent_ = 0;  // of the last rescaling
};

}  // namespace

namespace TL_ISA {

template <class In, class R>
void sum_lanes(const LaneSum<In, R>& task) {
    ForwardLanes<In, R> forward(task);
    forward.run();
    if (task.keep_alpha) BackwardLanes<In, R>(task, forward).run();
}

template <class In>
void sum_one(const OneSum<In>& task) {
    ForwardOne<In> forward(task);
    forward.run();
    if (task.keep_alpha && *task.ok) BackwardOne<In>(task, forward).run();
}

template void sum_lanes<float, float>(const LaneSum<float, float>&);
template void sum_lanes<float, double>(const LaneSum<float, double>&);
template void sum_lanes<double, double>(const LaneSum<double, double>&);
template void sum_one<float>(const OneSum<float>&);
template void sum_one<double>(const OneSum<double>&);

}  // namespace TL_ISA
}  // namespace tagloom
