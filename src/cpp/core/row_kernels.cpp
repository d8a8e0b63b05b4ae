// The loops of rows.hpp for one instruction set; see kernels.cpp for how that works.

#include "core/hash_constants.hpp"
#include "core/rows.hpp"
#include "core/vectors.hpp"

namespace tagloom {
namespace {

template <class R>
constexpr int64_t W = TL_VECTOR_BYTES / sizeof(R);
constexpr int64_t kAhead = 24;  // entries of a list; memory is slower than the sums
static_assert(kAhead <= kListSlack);
static_assert(TL_VECTOR_BYTES / 4 <= kRowSlack);

inline void prefetch(const void* p) { __builtin_prefetch(p); }

// Calls call(Count<n>) for a run-time n of at most Most; nothing for 0.
template <int n>
struct Count {
    static constexpr int value = n;
};
template <int Most, class Call>
inline void with_count(int64_t n, const Call& call) {
    if (n == Most) return call(Count<Most>{});
    if constexpr (Most > 1) with_count<Most - 1>(n, call);
}

// The sum of B vectors of columns over all full rows of a token, kept in registers.
template <class R, int B, bool valued>
inline void sum_tile(const RowSum<R>& task, int64_t lo, int64_t hi, int64_t c, R* out) {
    using V = Vector<R>;
    V sum[B] = {};
    const uint32_t* full = task.lists.full;
    for (int64_t j = lo; j < hi; ++j) {
        const R* ahead = task.weights + full[j + kAhead] + c;
        prefetch(ahead);
        if (B * W<R> * int64_t(sizeof(R)) > 64) prefetch(ahead + 64 / sizeof(R));
        const R* row = task.weights + full[j] + c;
        if constexpr (valued) {
            const R value = static_cast<R>(task.lists.full_value[j]);
            for (int b = 0; b < B; ++b) sum[b] += value * load(row + b * W<R>);
        } else {
            for (int b = 0; b < B; ++b) sum[b] += load(row + b * W<R>);
        }
    }
    for (int b = 0; b < B; ++b) store(out + b * W<R>, sum[b]);
}

template <class R, bool valued>
inline void sum_full(const RowSum<R>& task, int64_t lo, int64_t hi, R* out) {
    int64_t c = 0;
    for (; c + 5 * W<R> < task.width; c += 6 * W<R>)
        sum_tile<R, 6, valued>(task, lo, hi, c, out + c);
    with_count<5>((task.width - c + W<R> - 1) / W<R>, [&](auto count) {
        sum_tile<R, decltype(count)::value, valued>(task, lo, hi, c, out + c);
    });
}

template <class R, bool valued>
void sum_rows_of(const RowSum<R>& task) {
    const Lists& lists = task.lists;
    const uint32_t* single = lists.single;
    for (int64_t t = 0; t < task.n; ++t) {
        const int64_t token = task.first + t;
        R* row = task.out + t * task.width;  // the next row overwrites what is written beyond it
        sum_full<R, valued>(task, lists.full_ptr[token], lists.full_ptr[token + 1], row);
        for (int64_t j = lists.single_ptr[token]; j < lists.single_ptr[token + 1]; ++j) {
            prefetch(task.weights + single[j + kAhead]);
            R x = task.weights[single[j]];
            if constexpr (valued) x *= static_cast<R>(lists.single_value[j]);
            row[lists.column[j]] += x;
        }
    }
}

template <class R>
void sum_rows(const RowSum<R>& task) {
    if (task.lists.full_value)
        sum_rows_of<R, true>(task);
    else
        sum_rows_of<R, false>(task);
}

// Adds B vectors of a token's residuals, kept in registers, to all its full rows.
template <int B, bool valued>
inline void add_tile(const Lists& lists, int64_t lo, int64_t hi, const double* row, double* grad) {
    using V = Vector<double>;
    constexpr int64_t WD = W<double>;
    V x[B];
    for (int b = 0; b < B; ++b) x[b] = load(row + b * WD);
    for (int64_t j = lo; j < hi; ++j) {
        const double* ahead = grad + lists.full[j + kAhead];
        for (int64_t c = 0; c < B * WD; c += 8) __builtin_prefetch(ahead + c, 1);
        double* to = grad + lists.full[j];
        for (int b = 0; b < B; ++b) {
            if constexpr (valued)
                store(to + b * WD, load(to + b * WD) + x[b] * double(lists.full_value[j]));
            else
                store(to + b * WD, load(to + b * WD) + x[b]);
        }
    }
}

template <bool valued>
inline void add_full(const Lists& lists, int64_t lo, int64_t hi, int64_t width, const double* row,
                     double* grad) {
    constexpr int64_t WD = W<double>;
    int64_t c = 0;
    for (; c + 7 * WD < width; c += 8 * WD) add_tile<8, valued>(lists, lo, hi, row + c, grad + c);
    with_count<7>((width - c + WD - 1) / WD, [&](auto count) {
        add_tile<decltype(count)::value, valued>(lists, lo, hi, row + c, grad + c);
    });
}

template <class R, bool valued>
void add_rows_of(const RowAdd<R>& task) {
    constexpr int64_t WD = W<double>;
    const Lists& lists = task.lists;
    double* row = task.scratch;
    const int64_t padded = (task.width + WD - 1) / WD * WD;
    for (int64_t c = task.width; c < padded; ++c) row[c] = 0;  // added to the next row: harmless
    for (int64_t t = 0; t < task.n; ++t) {
        const int64_t token = task.first + t;
        for (int64_t c = 0; c < task.width; ++c) row[c] = task.rows[t * task.width + c];
        add_full<valued>(lists, lists.full_ptr[token], lists.full_ptr[token + 1], task.width, row,
                         task.grad);
        for (int64_t j = lists.single_ptr[token]; j < lists.single_ptr[token + 1]; ++j) {
            __builtin_prefetch(task.grad + lists.single[j + kAhead], 1);
            double x = row[lists.column[j]];
            if constexpr (valued) x *= lists.single_value[j];
            task.grad[lists.single[j]] += x;
        }
    }
}

template <class R>
void add_rows(const RowAdd<R>& task) {
    if (task.lists.full_value)
        add_rows_of<R, true>(task);
    else
        add_rows_of<R, false>(task);
}

inline float root(float x) { return __builtin_sqrtf(x); }
inline double root(double x) { return __builtin_sqrt(x); }

// AdaGrad: the implicit step w' = w - rate * (g + pull * w') with rate = eta / sqrt(squares), so
// that no penalty, however strong or delayed, transitions a weight past zero. SGD: the same with
// one rate for all, which `pull` contains already.
template <bool adagrad, bool averaging, class R>
inline void update_weights(int64_t n, const R* __restrict row, R value, R eta, R pull,
                           double averaged, R* __restrict w, R* __restrict squares,
                           double* __restrict sums) {
    for (int64_t c = 0; c < n; ++c) {
        const R g = value * row[c], before = w[c];
        if constexpr (adagrad) {
            squares[c] += g * g;
            w[c] = before - eta * (g + pull * before) / (root(squares[c]) + eta * pull);
        } else {
            w[c] = (before - eta * squares[c] * g) / (1 + pull);
        }
        if constexpr (averaging) sums[c] += averaged * (double(w[c]) - double(before));
    }
}

template <bool adagrad, bool averaging, bool pulled, class R>
void update_rows_of(const RowUpdate<R>& task) {
    const Lists& lists = task.lists;
    auto pull_of = [&](uint32_t weight) {
        if constexpr (!pulled) return R(0);
        const R span = static_cast<R>(task.horizon[task.now] - task.horizon[task.last[weight]]);
        task.last[weight] = task.now;
        return task.lambda * span;
    };
    for (int64_t t = 0; t < task.n; ++t) {
        const int64_t token = task.first + t;
        const R* row = task.rows + t * task.width;
        for (int64_t j = lists.full_ptr[token]; j < lists.full_ptr[token + 1]; ++j) {
            const uint32_t ahead = lists.full[j + 8], w = lists.full[j];
            for (int64_t c = 0; c < task.width && c < 64; c += 64 / sizeof(R)) {
                __builtin_prefetch(task.weights + ahead + c, 1);
                __builtin_prefetch(task.squares + ahead + c, 1);
            }
            const R value = lists.full_value ? static_cast<R>(lists.full_value[j]) : R(1);
            update_weights<adagrad, averaging>(task.width, row, value, task.eta, pull_of(w),
                                               task.averaged, task.weights + w, task.squares + w,
                                               averaging ? task.sums + w : nullptr);
        }
        for (int64_t j = lists.single_ptr[token]; j < lists.single_ptr[token + 1]; ++j) {
            const uint32_t ahead = lists.single[j + kAhead], w = lists.single[j];
            __builtin_prefetch(task.weights + ahead, 1);
            __builtin_prefetch(task.squares + ahead, 1);
            if constexpr (pulled) __builtin_prefetch(task.last + ahead, 1);
            const R value = lists.single_value ? static_cast<R>(lists.single_value[j]) : R(1);
            update_weights<adagrad, averaging>(
                1, row + lists.column[j], value, task.eta, pull_of(w), task.averaged,
                task.weights + w, task.squares + w, averaging ? task.sums + w : nullptr);
        }
    }
}

template <bool adagrad, bool averaging, class R>
void update_rows_of(const RowUpdate<R>& task) {
    task.last ? update_rows_of<adagrad, averaging, true>(task)
              : update_rows_of<adagrad, averaging, false>(task);
}

template <class R>
void update_rows(const RowUpdate<R>& task) {
    if (task.adagrad)
        task.sums ? update_rows_of<true, true>(task) : update_rows_of<true, false>(task);
    else
        task.sums ? update_rows_of<false, true>(task) : update_rows_of<false, false>(task);
}

using Four = float __attribute__((vector_size(16)));

// The sums of all groups in registers: B vectors, the last of which ends at `width` and may overlap
// with the one before.
template <class V, int B>
inline void sum_groups_in(const GroupSum& task) {
    constexpr int64_t lanes = sizeof(V) / sizeof(float);
    const int64_t last = task.width - lanes;
    auto load_row = [&](int64_t g, int64_t t, V* x) {
        const GroupSum::Group& group = task.of[g];
        const auto* row = reinterpret_cast<const float*>(group.blocks[t] + group.unit);
        for (int b = 0; b < B; ++b)
            __builtin_memcpy(x + b, row + (b < B - 1 ? b * lanes : last), sizeof *x);
    };
    for (int64_t t = 0; t < task.n; ++t) {
        V sum[B], x[B];
        load_row(0, t, sum);
        for (int64_t g = 1; g < task.groups; ++g) {
            load_row(g, t, x);
            for (int b = 0; b < B; ++b) sum[b] += x[b];
        }
        float* out = task.out + t * task.width;
        for (int b = 0; b < B; ++b)
            __builtin_memcpy(out + (b < B - 1 ? b * lanes : last), &sum[b], sizeof sum[b]);
    }
}

void sum_groups(const GroupSum& task) {
    constexpr int64_t lanes = W<float>;
    if (task.groups == 0) {
        for (int64_t i = 0; i < task.n * task.width; ++i) task.out[i] = 0;
    } else if (task.width >= lanes) {
        with_count<kMostSummed / lanes>((task.width + lanes - 1) / lanes, [&](auto count) {
            sum_groups_in<Vector<float>, decltype(count)::value>(task);
        });
    } else if (task.width >= 4) {
        with_count<lanes / 4>((task.width + 3) / 4, [&](auto count) {
            sum_groups_in<Four, decltype(count)::value>(task);
        });
    } else {
        with_count<3>(task.width,
                      [&](auto count) { sum_groups_in<float, decltype(count)::value>(task); });
    }
}

void find_rows(const RowSearch& task) {
    using Slots = uint64_t __attribute__((vector_size(8 * kBucketSlots)));
    for (int64_t i = 0; i < task.n; i++) {
        const uint64_t wanted = task.fingerprints[i] ? task.fingerprints[i] : 1;  // as Table::key
        uint64_t b = wanted & task.mask, found, last;
        do {
            const RowBucket& bucket = task.buckets[b];
            Slots keys, rows;
            __builtin_memcpy(&keys, bucket.keys, sizeof keys);
            __builtin_memcpy(&rows, bucket.rows, sizeof rows);
            rows = keys == wanted ? rows : Slots{};
            found = (rows[0] | rows[1]) | (rows[2] | rows[3]);
            last = bucket.keys[kBucketSlots - 1];
            b = (b + 1) & task.mask;
        } while ((found == 0) & (last != 0));
        found = task.fingerprints[i] != 0 ? found : 0;
        __builtin_memcpy(static_cast<void*>(task.out + i), &found, sizeof found);
    }
}

// Adds the full rows [hit, end) to their common output, B vectors of columns in registers.
template <int B>
inline void add_full_hits(const Hit* hit, const Hit* end, const float* data, int64_t c) {
    float* out = hit->out + c;
    Vector<float> sum[B];
    __builtin_memcpy(sum, out, sizeof sum);
    for (; hit < end; hit++) {
        const float* row = data + hit->row.begin + c;
        for (int b = 0; b < B; ++b) sum[b] += hit->value * load(row + b * W<float>);
    }
    __builtin_memcpy(out, sum, sizeof sum);
}

template <class Col>
void add_sparse_hits(const HitSum& task, const float* data) {
    for (const Hit* hit = task.sparse; hit < task.sparse + task.n_sparse; hit++) {
        const bool is_single = (hit->row.n & kSingle) != 0;
        const void* row = is_single ? static_cast<const void*>(&hit->row) : data + hit->row.begin;
        const int64_t n = is_single ? 1 : hit->row.n;
        const char* columns = static_cast<const char*>(row) + n * sizeof(float);
        float* out = hit->out;
        const float value = hit->value;
#pragma GCC unroll 1
        for (int64_t k = 0; k < n; k++) {
            float weight;
            Col column;
            __builtin_memcpy(&weight, static_cast<const char*>(row) + k * sizeof weight, 4);
            __builtin_memcpy(&column, columns + k * sizeof column, sizeof column);
            out[column] += value * weight;
        }
    }
}

void add_hits(const HitSum& task) {
    const auto* data = static_cast<const float*>(task.data);
    const Hit *hit = task.full, *last = task.full + task.n_full;
    const int64_t in_vectors = task.width / W<float> * W<float>;
    while (hit < last) {
        const Hit* end = hit + 1;
        while (end < last && end->out == hit->out) end++;
        int64_t c = 0;
        for (; c + 4 * W<float> <= in_vectors; c += 4 * W<float>) {
            add_full_hits<4>(hit, end, data, c);
        }
        for (; c < in_vectors; c += W<float>) add_full_hits<1>(hit, end, data, c);
        for (; c < task.width; c++) {
            float sum = hit->out[c];
            for (const Hit* one = hit; one < end; one++) {
                sum += one->value * data[one->row.begin + c];
            }
            hit->out[c] = sum;
        }
        hit = end;
    }
    task.is_wide ? add_sparse_hits<uint32_t>(task, data) : add_sparse_hits<uint16_t>(task, data);
}

template <class X>
inline X scramble(X x) {
    x = (x ^ x >> 32) * kGolden;
    x = (x ^ x >> 29) * kEuler;
    return x ^ x >> 32;
}

inline uint64_t load_word(const char* p) {
    uint64_t word;
    __builtin_memcpy(&word, p, 8);
    return word;
}

// The last word of hash64().
inline uint64_t last_word(const char* p, int64_t n) {
    if (n >= 8) return load_word(p + n - 8);
    if (n >= 4) {
        uint32_t low, high;
        __builtin_memcpy(&low, p, 4);
        __builtin_memcpy(&high, p + n - 4, 4);
        return low | uint64_t{high} << 32;
    }
    if (n == 0) return 0;
    const auto byte = [p](int64_t i) { return uint64_t{static_cast<unsigned char>(p[i])}; };
    return byte(0) | byte(n / 2) << 8 | byte(n - 1) << 16;
}

#if TL_VECTOR_BYTES == 64
// Eight names side by side, without branches: their lengths differ, and each would mispredict the
// end of its loop.
void hash_names(const NameHash& task) {
    using Words = uint64_t __attribute__((vector_size(64)));
    static const char nothing[8] = {};
    for (int64_t i = 0; i < task.n; i += 8) {
        const Name* names = task.names + i;
        Words size, end;  // end: the last eight bytes, some of which may be before the name
        int64_t most = 0;
#pragma GCC unroll 8
        for (int l = 0; l < 8; l++) {
            const int64_t n = names[l].size;
            size[l] = static_cast<uint64_t>(n);
            end[l] = load_word(names[l].text + n - 8);
            most = n > most ? n : most;
        }
        Words h = size * kGolden;
        for (int64_t at = 8; at < most; at += 8) {
            Words next;
#pragma GCC unroll 8
            for (int l = 0; l < 8; l++) {
                next[l] = load_word(names[l].size > at ? names[l].text + at - 8 : nothing);
            }
            next = scramble(h ^ next);
            h = size > static_cast<uint64_t>(at) ? next : h;
        }
        // As last_word(), from `end`. A size of 0 shifts by 56 here; its hash is replaced below.
        const Words before = size > 0 ? (8 - size) * 8 & 63 : Words{} + 56;  // bits before the name
        const Words all = end >> before, half = all >> (size / 2 * 8 & 63);
        const Words few = (all & 255) | (half & 255) << 8 | end >> 56 << 16;
        const Words some = (all & 0xffffffff) | end >> 32 << 32;
        Words word = size >= 4 ? some : few;
        word = size >= 8 ? end : word;
        h = scramble(h ^ word);
        h = h > 1 ? h : h + 2;  // two values are reserved
        h = scramble(kSeed ^ h);
        h = size == 0 ? Words{} + kSeed : h;
        __builtin_memcpy(task.out + i, &h, sizeof h);
    }
}
#else
void hash_names(const NameHash& task) {
    for (int64_t i = 0; i < task.n; i++) {
        const auto [p, size] = task.names[i];
        uint64_t h = static_cast<uint64_t>(size) * kGolden;
        for (int64_t at = 8; at < size; at += 8) h = scramble(h ^ load_word(p + at - 8));
        h = scramble(h ^ last_word(p, size));
        h = h > 1 ? h : h + 2;  // two values are reserved
        task.out[i] = size == 0 ? kSeed : scramble(kSeed ^ h);
    }
}
#endif

}  // namespace

#define TL_JOIN_(a, b) a##b
#define TL_JOIN(a, b) TL_JOIN_(a, b)

const RowKernels& TL_JOIN(row_kernels_, TL_ISA)() {
    static constexpr RowKernels table = {
        sum_rows<float>,    sum_rows<double>,    add_rows<float>, add_rows<double>,
        update_rows<float>, update_rows<double>, sum_groups,      find_rows,
        add_hits,           hash_names,
    };
    return table;
}

}  // namespace tagloom
