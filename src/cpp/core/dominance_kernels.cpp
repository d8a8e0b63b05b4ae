// The loops of dominance.hpp for one instruction set; see kernels.cpp for how that works.
//
// In the symbols of dominance.hpp, with the labels that remain at each position,
//
//   row[0, y] = start[y] + emit[0, y]
//   row[t, y] = emit[t, y] - base[t-1] + max_a row[t-1, a] + trans[a, y]
//
// where base[t] is row[t, d]: numbers stay small in long sequences.

#include "core/kernel_functions.hpp"
#include "core/one.hpp"

namespace tagloom {
namespace {

using F = Vector<float>;
constexpr int64_t WF = W<float>;

// The lanes where a >= b, as bits.
inline uint64_t at_least(F a, F b) {
#if defined(__AVX512DQ__) && TL_VECTOR_BYTES == 64
    return __builtin_ia32_cmpps512_mask(a, b, 13, 0xffff, 4);  // ordered >=, no exceptions
#elif defined(__AVX__) && TL_VECTOR_BYTES == 32
    return static_cast<uint32_t>(__builtin_ia32_movmskps256(cast_bits<F>(a >= b)));
#elif defined(__SSE2__) && TL_VECTOR_BYTES == 16
    return static_cast<uint32_t>(__builtin_ia32_movmskps(cast_bits<F>(a >= b)));
#else
    const Bits<float> is = a >= b;
    uint64_t bits = 0;
    for (int w = 0; w < WF; ++w) bits |= uint64_t(is[w] & 1) << w;
    return bits;
#endif
}

// The largest of all lanes.
inline float largest_lane(F x) {
#if TL_VECTOR_BYTES == 64
    x = max<F>(x,
               __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    x = max<F>(x,
               __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
    x = max<F>(x,
               __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
    x = max<F>(x,
               __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
#elif TL_VECTOR_BYTES == 32
    x = max<F>(x, __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3));
    x = max<F>(x, __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5));
    x = max<F>(x, __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6));
#else
    x = max<F>(x, __builtin_shufflevector(x, x, 2, 3, 0, 1));
    x = max<F>(x, __builtin_shufflevector(x, x, 1, 0, 3, 2));
#endif
    return x[0];
}

// `tiles` vectors have all labels.
template <int tiles>
class Few {
    static constexpr int64_t kAlign = 64 / sizeof(float);
    static constexpr int64_t stride = (tiles * WF + kAlign - 1) / kAlign * kAlign;

  public:
    explicit Few(const DominanceViterbi& task) : task_(task) {
        for (int64_t w = 0; w < WF; ++w) is_label_[w] = (tiles - 1) * WF + w < task.Y ? -1 : 0;
    }

    // Going back in one sequence overlaps with going forward in the next: both wait for the
    // previous position most of the time.
    void run() {
        Trace trace{};
        float* rows = task_.rows;
        float* other = rows + task_.longest * stride;
        task_.remaining = 0;
        for (int64_t i = 0; i < task_.n; ++i) {
            const int64_t T = task_.length[i];
            Forward forward{task_.emit + task_.first[i] * task_.Y, rows};
            for (int64_t t = 0; t < T; ++t) {
                step(forward);
                if (trace.t > 0) back(trace);
            }
            finish(trace);
            trace = begin(i, rows);
            float* const swapped = rows;
            rows = other;
            other = swapped;
        }
        finish(trace);
    }

  private:
    struct Forward {
        const float* emit;
        float* row;  // [stride] scores of the best paths to the labels that remain, others -inf
        uint64_t bits = 0;  // the labels that remain at the position before
        bool is_first = true;
        float base = 0;  // the score of one of them
    };
    struct Trace {
        int64_t t = 0;  // positions before the label
        const float* row = nullptr;
        int32_t* path = nullptr;
        int64_t label = 0;
        float slack = 0;
        bool is_sure = true;
        bool* sure = nullptr;
    };

    void step(Forward& at) {
        F emit[tiles];
        for (int j = 0; j < tiles; ++j) emit[j] = load(at.emit + j * WF);
        // What follows the row is not a label.
        emit[tiles - 1] = is_label_ ? emit[tiles - 1] : broadcast<float>(minus_inf<float>);
        F most = emit[0];
        for (int j = 1; j < tiles; ++j) most = max<F>(most, emit[j]);
        const float top = largest_lane(most);
        uint64_t bits = 0;
        for (int j = 0; j < tiles; ++j) bits |= at_least(emit[j], broadcast(top)) << j * WF;
        const int64_t leader = bits != 0 ? __builtin_ctzll(bits) : 0;
        const float* lead = task_.lead + leader * stride;
        const F limit = broadcast(top - task_.margin);
        F best[tiles];
        if (at.is_first) {
            for (int j = 0; j < tiles; ++j) best[j] = load(task_.start + j * WF);
        } else {
            for (int j = 0; j < tiles; ++j) best[j] = broadcast<float>(minus_inf<float>);
            const float* before = at.row - stride;
            // Some labels count twice, so that the number of rounds is easy to predict.
            uint64_t rest = at.bits;
            for (int64_t n = __builtin_popcountll(rest); n > 0; n -= 4)
                for (int k = 0; k < 4; ++k) {
                    const int64_t a = __builtin_ctzll(rest);
                    const uint64_t later = rest & (rest - 1);
                    rest = later != 0 ? later : rest;
                    const F from = broadcast(before[a]);
                    const float* trans = task_.trans + a * stride;
                    for (int j = 0; j < tiles; ++j)
                        best[j] = max<F>(best[j], from + load(trans + j * WF));
                }
        }
        bits = 0;
        for (int j = 0; j < tiles; ++j) {
            const F bound = emit[j] + load(lead + j * WF);
            bits |= at_least(bound, limit) << j * WF;
            const F x = best[j] + (emit[j] - broadcast(at.base));
            store(at.row + j * WF, bound >= limit ? x : broadcast<float>(minus_inf<float>));
        }
        task_.remaining += __builtin_popcountll(bits);
        at.bits = bits;
        at.is_first = false;
        at.base = at.row[leader];
        at.emit += task_.Y;
        at.row += stride;
    }

    Trace begin(int64_t i, const float* rows) {
        const int64_t T = task_.length[i];
        Trace trace{T - 1,
                    rows + (T - 1) * stride,
                    task_.path + task_.first[i],
                    0,
                    task_.error * static_cast<float>(T + 2),
                    true,
                    task_.sure + i};
        choose(trace, task_.stop);
        return trace;
    }
    void back(Trace& trace) {
        --trace.t;
        trace.row -= stride;
        choose(trace, task_.into + trace.label * stride);
    }
    void finish(Trace& trace) {
        if (!trace.sure) return;
        while (trace.t > 0) back(trace);
        *trace.sure = trace.is_sure;
    }

    // The label at trace.t with the largest sum of its row and these scores.
    void choose(Trace& trace, const float* scores) {
        F x[tiles];
        for (int j = 0; j < tiles; ++j) x[j] = load(trace.row + j * WF) + load(scores + j * WF);
        F most = x[0];
        for (int j = 1; j < tiles; ++j) most = max<F>(most, x[j]);
        const F limit = broadcast(largest_lane(most) - trace.slack);
        uint64_t bits = 0;
        for (int j = 0; j < tiles; ++j) bits |= at_least(x[j], limit) << j * WF;
        trace.is_sure &= __builtin_popcountll(bits) == 1;  // none if a score is -inf or NaN
        trace.label = bits != 0 ? __builtin_ctzll(bits) : 0;
        trace.path[trace.t] = static_cast<int32_t>(trace.label);
    }

    const DominanceViterbi& task_;
    Bits<float> is_label_;  // lanes of the last vector
};

template <int most>
inline void run_few(int64_t tiles, const DominanceViterbi& task) {
    if (tiles == most) return Few<most>(task).run();
    if constexpr (most > 1) run_few<most - 1>(tiles, task);
}

}  // namespace

namespace TL_ISA {

void viterbi_dominance(const DominanceViterbi& task) {
    run_few<64 / WF>((task.Y + WF - 1) / WF, task);
}

void largest_differences(const LargestDifferences& task) {
    for (int64_t y = 0; y < task.stride; y += WD) {
        D most = broadcast<double>(minus_inf<double>);
        for (int64_t i = 0; i < task.n; ++i) {
            const double* row = task.rows + i * task.stride;
            most = max<D>(most, load(row + y) - row[task.column]);
        }
        store(task.out + y, most);
    }
}

}  // namespace TL_ISA
}  // namespace tagloom
