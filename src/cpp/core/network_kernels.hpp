// The hot loops of networks, compiled once per instruction set (network_kernels.cpp): products of
// matrices, one step of a recurrent cell and its gradient, character convolutions, dropout. All
// numbers are float. Plain data only: this header is included by files built for different
// machines.
#pragma once

#include <cstdint>

namespace tagloom {

enum class Cell : int { lstm, gru, rnn };

constexpr int64_t gates(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }
// Arrays [H] that a step saves for its gradient: i, f, g, o and the memory before it; r, z, n and
// the recurrent part of n; nothing.
constexpr int64_t saved_arrays(Cell cell) {
    return cell == Cell::lstm ? 5 : cell == Cell::gru ? 4 : 0;
}

// C[M, N] = A B, + bias [N] if not null, + C if `adds`. Row m of A begins at a[m * a_row], or A is
// packed, too, if a_row is 0. The sum over k has one order for every M, so a row of C does not
// depend on the other rows.
struct Product {
    int64_t M, N, K;
    const float* a;
    int64_t a_row;
    const float* packed;
    const float* bias;
    float* c;
    int64_t c_row;  // elements between rows
    bool adds;
};

// One step of n sequences. Rows of arrays with an index are row[i] for sequence i.
struct CellStep {
    Cell cell;
    int64_t n, H;
    const float* projected;    // input part with its biases: G H elements of rows
    int64_t projected_stride;  // elements between rows
    const int64_t* projected_row;
    const float* recurrent;  // [n, G H] recurrent part
    float* h;                // [n, H] before the step, then after it
    float* c;                // [n, H] memory of an LSTM
    float* out;              // [T, out_row]: h is written to columns 0 .. H
    int64_t out_row;
    const int64_t* token;  // [n] rows of out, saved and before
    float* saved;          // [T, S H] or null
    float* before;         // [T, H] or null: h before the step
};

// Its gradient. dh and dc are those of h and c after the step, then those before it, dh without
// the part through the recurrent product.
struct CellGradient {
    Cell cell;
    int64_t n, H;
    const float* grad_out;  // [T, out_row]
    const float* out;       // [T, out_row] for rnn
    int64_t out_row;
    const int64_t* token;   // [n]
    const float* saved;     // [T, S H]
    const float* before;    // [T, H]
    float* dh;              // [n, H]
    float* dc;              // [n, H]
    float* grad_projected;  // [T, G H]
    float* grad_recurrent;  // [T, G H]; the same array unless the cell is a GRU
    float* step;            // [n, G H] the gradient of the recurrent part of this step
};

// max over positions p of bias[k] + sum_j table[j, character[p + j - width / 2], k]; characters
// beyond the word count as zero.
struct CharacterMaxima {
    int64_t width, filters, n_characters;
    const float* table;         // [width, n_characters, filters]
    const float* bias;          // [filters]
    const int32_t* characters;  // of one word
    int64_t length;
    float* out;         // [filters]
    int32_t* position;  // [filters] or null
    float* row;         // [filters] scratch
};

struct NetworkKernels {
    int64_t panel;  // columns of B that are packed together
    int64_t tile;   // rows of A that are packed together
    // B [K, N], element (k, n) at b[k * row + n * column], in panels of columns: [N / panel, K,
    // panel], zeros beyond N.
    void (*pack)(int64_t K, int64_t N, const float* b, int64_t row, int64_t column, float* packed);
    // Aᵀ of A [K, M], row k at a[k * row], in tiles of rows: [M / tile, K, tile], zeros beyond M.
    void (*pack_transposed)(int64_t K, int64_t M, const float* a, int64_t row, float* packed);
    void (*multiply)(const Product&);
    void (*step)(const CellStep&);
    void (*differentiate_step)(const CellGradient&);
    void (*character_maxima)(const CharacterMaxima&);
    // to[i] = from[i] / (1 - p) with probability 1 - p, else 0, by a hash of seed and first + i.
    void (*dropout)(const float* from, float* to, int64_t n, int64_t first, uint64_t seed, float p);
    void (*residual)(float* x, const float* y, int64_t n);  // x += max(y, 0)
};

const NetworkKernels& network_kernels_baseline();
const NetworkKernels& network_kernels_avx2();
const NetworkKernels& network_kernels_avx512();

}  // namespace tagloom
