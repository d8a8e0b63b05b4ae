// Loops of networks for one instruction set; see network_kernels.hpp. The product of matrices keeps
// a tile of C in registers: MR rows times NP panels of two vectors. Few rows take more panels at a
// time, so that enough sums run side by side.

#include "core/network_kernels.hpp"

#include "core/vectors.hpp"

namespace tagloom {
namespace {

using V = Vector<float>;
constexpr int64_t W = TL_VECTOR_BYTES / sizeof(float), NR = 2 * W;
constexpr int64_t kDepth = 256;  // rows of a panel that stay in the first-level cache
constexpr int64_t kRows = 96;    // rows of A that stay in the second-level cache
constexpr int64_t MR = TL_VECTOR_BYTES == 64 ? 12 : 6;

void pack(int64_t K, int64_t N, const float* b, int64_t row, int64_t column, float* packed) {
    for (int64_t first = 0; first < N; first += NR) {
        const int64_t n = N - first < NR ? N - first : NR;
        for (int64_t k = 0; k < K; ++k, packed += NR) {
            for (int64_t j = 0; j < n; ++j) packed[j] = b[k * row + (first + j) * column];
            for (int64_t j = n; j < NR; ++j) packed[j] = 0;
        }
    }
}

void pack_transposed(int64_t K, int64_t M, const float* a, int64_t row, float* packed) {
    for (int64_t first = 0; first < M; first += MR) {
        const int64_t n = M - first < MR ? M - first : MR;
        for (int64_t k = 0; k < K; ++k, packed += MR) {
            for (int64_t r = 0; r < n; ++r) packed[r] = a[k * row + first + r];
            for (int64_t r = n; r < MR; ++r) packed[r] = 0;
        }
    }
}

// R rows times P panels from row m and panel p on, over [k0, k1) of the sum.
template <int R, int P>
inline void tile(const Product& x, int64_t m, int64_t p, int64_t k0, int64_t k1) {
    V sum[R][2 * P];
    const bool continues = k0 > 0 || x.adds;
    const int64_t left = x.N - p * NR;  // columns of C from here on
    const bool is_whole = left >= P * NR;
    alignas(64) float edge[2 * P * W];
    for (int r = 0; r < R; ++r) {
        const float* from = x.c + (m + r) * x.c_row + p * NR;
        if (continues && !is_whole) {
            for (int64_t j = 0; j < P * NR; ++j) edge[j] = j < left ? from[j] : 0;
            from = edge;
        }
        for (int v = 0; v < 2 * P; ++v) sum[r][v] = continues ? load(from + v * W) : V{};
        if (k0 == 0 && x.bias) {
            for (int64_t j = 0; j < P * NR; ++j) edge[j] = j < left ? x.bias[p * NR + j] : 0;
            for (int v = 0; v < 2 * P; ++v) sum[r][v] += load(edge + v * W);
        }
    }
    const float* b = x.packed + p * x.K * NR;
    // A packed tile of rows begins at m * K, since m is a multiple of its rows.
    const bool is_packed = x.a_row == 0;
    const int64_t a_row = is_packed ? 1 : x.a_row, a_column = is_packed ? MR : 1;
    const float* a = x.a + m * (is_packed ? x.K : x.a_row);
    for (int64_t k = k0; k < k1; ++k) {
        V row[2 * P];
        for (int q = 0; q < P; ++q) {
            row[2 * q] = load(b + (q * x.K + k) * NR);
            row[2 * q + 1] = load(b + (q * x.K + k) * NR + W);
        }
        for (int r = 0; r < R; ++r) {
            const V value = broadcast<float>(a[r * a_row + k * a_column]);
            for (int v = 0; v < 2 * P; ++v) sum[r][v] += value * row[v];
        }
    }
    for (int r = 0; r < R; ++r) {
        float* to = x.c + (m + r) * x.c_row + p * NR;
        if (is_whole) {
            for (int v = 0; v < 2 * P; ++v) store(to + v * W, sum[r][v]);
        } else {
            for (int v = 0; v < 2 * P; ++v) store(edge + v * W, sum[r][v]);
            for (int64_t j = 0; j < left; ++j) to[j] = edge[j];
        }
    }
}

template <int R>
void few_rows(const Product& x, int64_t m, int64_t p0, int64_t p1, int64_t k0, int64_t k1) {
    constexpr int P = R == 1 ? 4 : R <= 3 ? 2 : 1;
    int64_t p = p0;
    for (; p + P <= p1; p += P) tile<R, P>(x, m, p, k0, k1);
    for (; p < p1; ++p) tile<R, 1>(x, m, p, k0, k1);
}

// Up to MR - 1 remaining rows.
template <int R>
void last_rows(const Product& x, int64_t n, int64_t m, int64_t panels, int64_t k0, int64_t k1) {
    if (n == R)
        few_rows<R>(x, m, 0, panels, k0, k1);
    else if constexpr (R > 1)
        last_rows<R - 1>(x, n, m, panels, k0, k1);
}

void multiply(const Product& x) {
    const int64_t panels = (x.N + NR - 1) / NR;
    for (int64_t m = 0; m < x.M && x.K == 0; ++m)
        for (int64_t n = 0; n < x.N; ++n) {
            float& c = x.c[m * x.c_row + n];
            c = (x.adds ? c : 0) + (x.bias ? x.bias[n] : 0);
        }
    for (int64_t k0 = 0; k0 < x.K; k0 += kDepth) {
        const int64_t k1 = k0 + kDepth < x.K ? k0 + kDepth : x.K;
        for (int64_t m0 = 0; m0 < x.M; m0 += kRows) {
            const int64_t m1 = m0 + kRows < x.M ? m0 + kRows : x.M;
            const int64_t whole = m0 + (m1 - m0) / MR * MR;
            if (whole > m0)
                for (int64_t p = 0; p < panels; ++p)
                    for (int64_t m = m0; m < whole; m += MR) tile<MR, 1>(x, m, p, k0, k1);
            if (m1 > whole) last_rows<MR - 1>(x, m1 - whole, whole, panels, k0, k1);
        }
    }
}

// ---- activations --------------------------------------------------------------------------------

inline V minus_absolute(V x) { return x < 0.0f ? x : -x; }

inline V sigmoid(V x) {
    const V e = exp<float>(minus_absolute(x));
    return (x < 0.0f ? e : broadcast<float>(1.0f)) / (1.0f + e);
}

inline V tanh(V x) {
    const V e = exp<float>(2.0f * minus_absolute(x));
    const V t = (1.0f - e) / (1.0f + e);
    // Near zero the difference above loses digits: the series has them.
    const V square = x * x;
    const V series =
        x * (1.0f + square * (-1.0f / 3 + square * (2.0f / 15 - square * 17.0f / 315)));
    const V far = x < 0.0f ? -t : t;
    return square < 0.02f ? series : far;
}

// Calls body(v, n) for vectors of n <= W elements; loads and stores of the last one are partial.
template <class Body>
inline void each_vector(int64_t H, Body&& body) {
    int64_t j = 0;
    for (; j + W <= H; j += W) body(j, W);
    if (j < H) body(j, H - j);
}
inline V load_part(const float* p, int64_t n) {
    if (n == W) return load(p);
    V v = {};
    for (int64_t w = 0; w < n; ++w) v[w] = p[w];
    return v;
}
inline void store_part(float* p, V v, int64_t n) {
    if (n == W) return store(p, v);
    for (int64_t w = 0; w < n; ++w) p[w] = v[w];
}

// ---- cells --------------------------------------------------------------------------------------

//   lstm  i, f, o = sigmoid(a + b), g = tanh(a + b);  c = f c + i g;  h = o tanh(c)
//   gru   r, z = sigmoid(a + b), n = tanh(a + r b);  h = (1 - z) n + z h
//   rnn   h = tanh(a + b)
template <Cell cell>
void step_of(const CellStep& x) {
    const int64_t H = x.H, G = gates(cell) * H, S = saved_arrays(cell) * H;
    for (int64_t i = 0; i < x.n; ++i) {
        const float* a = x.projected + x.projected_row[i] * x.projected_stride;
        const float* b = x.recurrent + i * G;
        float* h = x.h + i * H;
        float* c = x.c + i * H;
        float* out = x.out + x.token[i] * x.out_row;
        float* saved = x.saved ? x.saved + x.token[i] * S : nullptr;
        if (x.before) {
            float* before = x.before + x.token[i] * H;
            for (int64_t j = 0; j < H; ++j) before[j] = h[j];
        }
        each_vector(H, [&](int64_t j, int64_t n) {
            auto sum = [&](int64_t gate) {
                return load_part(a + gate * H + j, n) + load_part(b + gate * H + j, n);
            };
            auto save = [&](int64_t k, V v) {
                if (saved) store_part(saved + k * H + j, v, n);
            };
            V next;
            if constexpr (cell == Cell::lstm) {
                const V in = sigmoid(sum(0)), forget = sigmoid(sum(1)), g = tanh(sum(2));
                const V o = sigmoid(sum(3)), memory = load_part(c + j, n);
                const V updated = forget * memory + in * g;
                save(0, in), save(1, forget), save(2, g), save(3, o), save(4, memory);
                store_part(c + j, updated, n);
                next = o * tanh(updated);
            } else if constexpr (cell == Cell::gru) {
                const V r = sigmoid(sum(0)), z = sigmoid(sum(1));
                const V from_h = load_part(b + 2 * H + j, n);
                const V fresh = tanh(load_part(a + 2 * H + j, n) + r * from_h);
                save(0, r), save(1, z), save(2, fresh), save(3, from_h);
                next = (1.0f - z) * fresh + z * load_part(h + j, n);
            } else {
                next = tanh(sum(0));
            }
            store_part(h + j, next, n);
            store_part(out + j, next, n);
        });
    }
}

void step(const CellStep& x) {
    if (x.cell == Cell::lstm)
        step_of<Cell::lstm>(x);
    else if (x.cell == Cell::gru)
        step_of<Cell::gru>(x);
    else
        step_of<Cell::rnn>(x);
}

template <Cell cell>
void gradient_of(const CellGradient& x) {
    const int64_t H = x.H, G = gates(cell) * H, S = saved_arrays(cell) * H;
    for (int64_t i = 0; i < x.n; ++i) {
        const int64_t t = x.token[i];
        const float* grad = x.grad_out + t * x.out_row;
        const float* out = x.out + t * x.out_row;
        const float* saved = x.saved + t * S;
        const float* before = x.before + t * H;
        float *dh = x.dh + i * H, *dc = x.dc + i * H;
        float *da = x.grad_projected + t * G, *db = x.grad_recurrent + t * G;
        float* contiguous = x.step + i * G;
        each_vector(H, [&](int64_t j, int64_t n) {
            const V d = load_part(dh + j, n) + load_part(grad + j, n);
            auto kept = [&](int64_t k) { return load_part(saved + k * H + j, n); };
            auto write = [&](int64_t gate, V by_input, V by_state) {
                store_part(da + gate * H + j, by_input, n);
                if constexpr (cell == Cell::gru) store_part(db + gate * H + j, by_state, n);
                store_part(contiguous + gate * H + j, by_state, n);
            };
            if constexpr (cell == Cell::lstm) {
                const V in = kept(0), forget = kept(1), g = kept(2), o = kept(3), memory = kept(4);
                const V t_c = tanh(forget * memory + in * g);
                const V by_c = load_part(dc + j, n) + d * o * (1.0f - t_c * t_c);
                const V by_o = d * t_c * o * (1.0f - o);
                const V by_i = by_c * g * in * (1.0f - in), by_g = by_c * in * (1.0f - g * g);
                const V by_f = by_c * memory * forget * (1.0f - forget);
                write(0, by_i, by_i), write(1, by_f, by_f), write(2, by_g, by_g);
                write(3, by_o, by_o);
                store_part(dc + j, by_c * forget, n);
                store_part(dh + j, V{}, n);
            } else if constexpr (cell == Cell::gru) {
                const V r = kept(0), z = kept(1), fresh = kept(2), from_h = kept(3);
                const V by_n = d * (1.0f - z) * (1.0f - fresh * fresh);
                const V by_z = d * (load_part(before + j, n) - fresh) * z * (1.0f - z);
                const V by_r = by_n * from_h * r * (1.0f - r);
                write(0, by_r, by_r), write(1, by_z, by_z), write(2, by_n, by_n * r);
                store_part(dh + j, d * z, n);
            } else {
                const V h = load_part(out + j, n), by_a = d * (1.0f - h * h);
                write(0, by_a, by_a);
                store_part(dh + j, V{}, n);
            }
        });
    }
}

void differentiate_step(const CellGradient& x) {
    if (x.cell == Cell::lstm)
        gradient_of<Cell::lstm>(x);
    else if (x.cell == Cell::gru)
        gradient_of<Cell::gru>(x);
    else
        gradient_of<Cell::rnn>(x);
}

// ---- characters ---------------------------------------------------------------------------------

void character_maxima(const CharacterMaxima& x) {
    const int64_t K = x.filters, half = x.width / 2;
    for (int64_t p = 0; p < x.length; ++p) {
        const int64_t first = p < half ? half - p : 0;
        const int64_t end = p + x.width - half > x.length ? x.length - p + half : x.width;
        for (int64_t k = 0; k < K; ++k) x.row[k] = x.bias[k];
        for (int64_t j = first; j < end; ++j) {
            const float* from = x.table + (j * x.n_characters + x.characters[p + j - half]) * K;
            for (int64_t k = 0; k < K; ++k) x.row[k] += from[k];
        }
        if (p == 0) {
            for (int64_t k = 0; k < K; ++k) x.out[k] = x.row[k];
            if (x.position)
                for (int64_t k = 0; k < K; ++k) x.position[k] = 0;
        } else if (x.position) {
            const int32_t here = int32_t(p);
            for (int64_t k = 0; k < K; ++k) {
                const bool is_larger = x.row[k] > x.out[k];
                x.out[k] = is_larger ? x.row[k] : x.out[k];
                x.position[k] = is_larger ? here : x.position[k];
            }
        } else {
            for (int64_t k = 0; k < K; ++k) x.out[k] = x.row[k] > x.out[k] ? x.row[k] : x.out[k];
        }
    }
}

// ---- dropout ------------------------------------------------------------------------------------

// A hash of 32 bits without multiplications wider than that (Wellons, "lowbias32"), after the high
// bits of the counter and the seed.
inline uint32_t hashed(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    x ^= x >> 16;
    return x;
}

void dropout(const float* from, float* to, int64_t n, int64_t first, uint64_t seed, float p) {
    const float scale = 1.0f / (1.0f - p);
    const double bound = double(p) * 4294967296.0;
    const uint32_t limit = bound >= 4294967295.0 ? 4294967295U : uint32_t(bound);
    const uint32_t low = hashed(uint32_t(seed)), high = hashed(uint32_t(seed >> 32) + 1);
    for (int64_t begin = 0; begin < n;) {
        // The high half of the counter is the same for up to 2^32 elements.
        const uint64_t counter = uint64_t(first + begin);
        const int64_t same = int64_t((uint64_t(1) << 32) - (counter & 0xffffffffU));
        const int64_t end = same < n - begin ? begin + same : n;
        const uint32_t key = hashed(high ^ uint32_t(counter >> 32)) ^ low;
        const uint32_t base = uint32_t(counter);
        for (int64_t i = begin; i < end; ++i) {
            const uint32_t h = hashed(hashed(base + uint32_t(i - begin)) ^ key);
            to[i] = h >= limit ? from[i] * scale : 0.0f;
        }
        begin = end;
    }
}

void residual(float* x, const float* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) x[i] += y[i] > 0 ? y[i] : 0;
}

}  // namespace

#define TL_JOIN_(a, b) a##b
#define TL_JOIN(a, b) TL_JOIN_(a, b)

const NetworkKernels& TL_JOIN(network_kernels_, TL_ISA)() {
    static constexpr NetworkKernels table = {NR,
                                             MR,
                                             pack,
                                             pack_transposed,
                                             multiply,
                                             step,
                                             differentiate_step,
                                             character_maxima,
                                             dropout,
                                             residual};
    return table;
}

}  // namespace tagloom
