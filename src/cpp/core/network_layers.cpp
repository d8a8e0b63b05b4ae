#include "core/network_layers.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string_view>

#include "core/dispatch.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

constexpr int64_t kBlock = 192;  // rows of a product that one thread computes at a time

void in_blocks(int64_t M, int64_t threads, const auto& work) {
    if (threads <= 1) {
        work(0, M);
        return;
    }
    parallel_for((M + kBlock - 1) / kBlock, threads, [&](int64_t block, int64_t) {
        work(block * kBlock, std::min(M, (block + 1) * kBlock));
    });
}

// Room for n numbers that will all be written: megabytes of zeros would take a tenth of the time.
std::unique_ptr<float[]> unwritten(int64_t n) { return std::unique_ptr<float[]>(new float[n]); }

void add_rows(const float* rows, int64_t n, int64_t width, float* to) {
    std::fill_n(to, width, 0.0f);
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < width; ++j) to[j] += rows[i * width + j];
}

}  // namespace

std::vector<float> input_bias(const CellWeights& w) {
    const int64_t G = gates(w.cell) * w.H;
    std::vector<float> bias(w.bias_ih, w.bias_ih + G);
    if (w.cell != Cell::gru)
        for (int64_t j = 0; j < G; ++j) bias[j] += w.bias_hh[j];
    return bias;
}

const NetworkKernels& network_kernels() {
    [[maybe_unused]] const std::string_view name = kernels().name;
#if defined(TL_HAVE_AVX512)
    if (name == "avx512") return network_kernels_avx512();
#endif
#if defined(TL_HAVE_AVX2)
    if (name == "avx2") return network_kernels_avx2();
#endif
    return network_kernels_baseline();
}

PackedMatrix::PackedMatrix(int64_t K, int64_t N, const float* b, int64_t row, int64_t column)
    : K_(K), N_(N), kernels_(&network_kernels()) {
    const int64_t panel = kernels_->panel;
    values_.resize((N + panel - 1) / panel * panel * K);
    kernels_->pack(K, N, b, row, column, values_.data());
}

void PackedMatrix::multiply(int64_t M, const float* a, int64_t a_row, const float* bias, float* c,
                            int64_t c_row, bool adds, int64_t threads) const {
    in_blocks(M, threads, [&](int64_t begin, int64_t end) {
        kernels_->multiply({end - begin, N_, K_, a + begin * a_row, a_row, values_.data(), bias,
                            c + begin * c_row, c_row, adds});
    });
}

void multiply_transposed(int64_t K, int64_t M, int64_t N, const float* a, int64_t a_row,
                         const float* b, int64_t b_row, float* c, int64_t threads) {
    const NetworkKernels& kernels = network_kernels();
    const int64_t panel = kernels.panel;
    const auto packed = unwritten((N + panel - 1) / panel * panel * K);
    kernels.pack(K, N, b, b_row, 1, packed.get());
    // Columns of A are far apart, which the caches do not like: they are packed, too.
    static_assert(kBlock % 12 == 0 && kBlock % 6 == 0, "blocks begin with a tile");
    const auto tiles = unwritten((M + kernels.tile - 1) / kernels.tile * kernels.tile * K);
    kernels.pack_transposed(K, M, a, a_row, tiles.get());
    in_blocks(M, threads, [&](int64_t begin, int64_t end) {
        kernels.multiply({end - begin, N, K, tiles.get() + begin * K, 0, packed.get(), nullptr,
                          c + begin * N, N, false});
    });
}

Steps::Steps(const int64_t* offsets, int64_t N) {
    auto length = [&](int64_t i) { return offsets[i + 1] - offsets[i]; };
    for (int64_t i = 0; i < N; ++i)
        if (length(i) > 0) sequence.push_back(i);
    std::stable_sort(sequence.begin(), sequence.end(),
                     [&](int64_t a, int64_t b) { return length(a) > length(b); });
    for (int64_t i : sequence) {
        first.push_back(offsets[i]);
        last.push_back(offsets[i + 1] - 1);
    }
    int64_t active = static_cast<int64_t>(sequence.size());
    const int64_t longest = active ? length(sequence[0]) : 0;
    for (int64_t t = 0; t < longest; ++t) {
        while (length(sequence[active - 1]) <= t) --active;
        n.push_back(active);
    }
}

void Steps::tokens(int64_t t, bool is_reversed, int64_t* to) const {
    for (int64_t i = 0; i < n[t]; ++i) to[i] = is_reversed ? last[i] - t : first[i] + t;
}

void run_cell(const CellWeights& w, const Steps& steps, const float* x, int64_t T, float* out,
              int64_t out_row, const CellSaved& saved, int64_t threads) {
    const int64_t G = gates(w.cell) * w.H, N = static_cast<int64_t>(steps.sequence.size());
    const NetworkKernels& kernels = network_kernels();
    const auto projected = unwritten(T * G);
    std::vector<float> recurrent(N * G), h(N * w.H), c(N * w.H);
    PackedMatrix::transposed(G, w.D, w.weight_ih)
        .multiply(T, x, w.D, input_bias(w).data(), projected.get(), G, false, threads);
    const PackedMatrix from_h = PackedMatrix::transposed(G, w.H, w.weight_hh);
    for (int64_t i = 0; i < N; ++i) {
        std::copy_n(w.h0, w.H, &h[i * w.H]);
        if (w.c0) std::copy_n(w.c0, w.H, &c[i * w.H]);
    }
    std::vector<int64_t> token(N);
    for (int64_t t = 0; t < steps.longest(); ++t) {
        const int64_t n = steps.n[t];
        steps.tokens(t, w.is_reversed, token.data());
        from_h.multiply(n, h.data(), w.H, w.cell == Cell::gru ? w.bias_hh : nullptr,
                        recurrent.data(), G);
        kernels.step({w.cell, n, w.H, projected.get(), G, token.data(), recurrent.data(), h.data(),
                      c.data(), out, out_row, token.data(), saved.gates, saved.before});
    }
}

void differentiate_cell(const CellWeights& w, const Steps& steps, const float* x, int64_t T,
                        const float* out, const float* grad_out, int64_t out_row,
                        const CellSaved& saved, const CellGradients& grad, int64_t threads) {
    const int64_t H = w.H, G = gates(w.cell) * H, N = static_cast<int64_t>(steps.sequence.size());
    const NetworkKernels& kernels = network_kernels();
    const bool is_gru = w.cell == Cell::gru;
    const auto by_projected = unwritten(T * G), by_recurrent = unwritten(is_gru ? T * G : 0);
    std::vector<float> step(N * G), dh(N * H), dc(N * H);
    float* const by_state = is_gru ? by_recurrent.get() : by_projected.get();
    const PackedMatrix to_h(G, H, w.weight_hh, H, 1);
    std::vector<int64_t> token(N);
    for (int64_t t = steps.longest() - 1; t >= 0; --t) {
        const int64_t n = steps.n[t];
        steps.tokens(t, w.is_reversed, token.data());
        kernels.differentiate_step({w.cell, n, H, grad_out, out, out_row, token.data(), saved.gates,
                                    saved.before, dh.data(), dc.data(), by_projected.get(),
                                    by_state, step.data()});
        to_h.multiply(n, step.data(), G, nullptr, dh.data(), H, true);
    }
    add_rows(dh.data(), N, H, grad.h0);
    if (grad.c0) add_rows(dc.data(), N, H, grad.c0);
    add_rows(by_projected.get(), T, G, grad.bias_ih);
    if (is_gru)
        add_rows(by_state, T, G, grad.bias_hh);
    else
        std::copy_n(grad.bias_ih, G, grad.bias_hh);
    multiply_transposed(T, G, w.D, by_projected.get(), G, x, w.D, grad.weight_ih, threads);
    multiply_transposed(T, G, H, by_state, G, saved.before, H, grad.weight_hh, threads);
    if (grad.x)
        PackedMatrix(G, w.D, w.weight_ih, w.D, 1)
            .multiply(T, by_projected.get(), G, nullptr, grad.x, w.D, grad.adds_x, threads);
}

std::vector<float> CharacterConvolution::lookup() const {
    std::vector<float> result(width * n_characters * filters);
    for (int64_t j = 0; j < width; ++j)  // weight[k, d, j]
        PackedMatrix(size, filters, weight + j, width, size * width)
            .multiply(n_characters, table, size, nullptr, &result[j * n_characters * filters],
                      filters);
    return result;
}

void convolve_characters(const CharacterConvolution& w, const float* lookup,
                         const int32_t* characters, const int64_t* offsets, int64_t U, float* out,
                         int64_t out_row, int32_t* position, int64_t threads) {
    const NetworkKernels& kernels = network_kernels();
    parallel_for((U + kBlock - 1) / kBlock, threads, [&](int64_t block, int64_t) {
        std::vector<float> row(w.filters);
        for (int64_t u = block * kBlock; u < std::min(U, (block + 1) * kBlock); ++u) {
            float* const to = out + u * out_row;
            if (offsets[u] == offsets[u + 1]) {
                std::fill_n(to, w.filters, 0.0f);
                continue;
            }
            kernels.character_maxima({w.width, w.filters, w.n_characters, lookup, w.bias,
                                      characters + offsets[u], offsets[u + 1] - offsets[u], to,
                                      position ? position + u * w.filters : nullptr, row.data()});
        }
    });
}

void differentiate_characters(const CharacterConvolution& w, const int32_t* characters,
                              const int64_t* offsets, int64_t U, const float* grad_out,
                              int64_t out_row, const int32_t* position, float* grad_table,
                              float* grad_weight, float* grad_bias) {
    const int64_t K = w.filters, half = w.width / 2, C = w.n_characters;
    std::vector<float> by_lookup(w.width * C * K), part(K * w.size);
    std::fill_n(grad_bias, K, 0.0f);
    for (int64_t u = 0; u < U; ++u) {
        const int64_t first = offsets[u], length = offsets[u + 1] - first;
        if (length == 0) continue;
        for (int64_t k = 0; k < K; ++k) {
            const float g = grad_out[u * out_row + k];
            grad_bias[k] += g;
            for (int64_t j = 0; j < w.width; ++j) {
                const int64_t p = position[u * K + k] + j - half;
                if (p >= 0 && p < length) by_lookup[(j * C + characters[first + p]) * K + k] += g;
            }
        }
    }
    for (int64_t j = 0; j < w.width; ++j) {
        const float* of_j = &by_lookup[j * C * K];  // [C, K]
        multiply_transposed(C, K, w.size, of_j, K, w.table, w.size, part.data(), 1);
        for (int64_t i = 0; i < K * w.size; ++i) grad_weight[i * w.width + j] = part[i];
        PackedMatrix(K, w.size, w.weight + j, w.size * w.width, w.width)
            .multiply(C, of_j, K, nullptr, grad_table, w.size, true);
    }
}

}  // namespace tagloom
