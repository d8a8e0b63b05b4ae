// Layers of networks over ragged batches: recurrent layers and character convolutions, forward and
// backward, on the caller's buffers. Parameters are laid out as those of torch.nn.LSTM, GRU, RNN
// and Conv1d. Results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "core/network_kernels.hpp"

namespace tagloom {

const NetworkKernels& network_kernels();  // for the instruction set in use

// A matrix B [K, N] as `multiply` reads it, with the kernels that it was packed for.
class PackedMatrix {
  public:
    PackedMatrix() = default;
    // Element (k, n) is b[k * row + n * column].
    PackedMatrix(int64_t K, int64_t N, const float* b, int64_t row, int64_t column);
    // The transpose of a matrix [N, K], such as the weights of a linear layer.
    static PackedMatrix transposed(int64_t N, int64_t K, const float* b) {
        return PackedMatrix(K, N, b, 1, K);
    }

    int64_t K() const { return K_; }
    int64_t N() const { return N_; }

    // C [M, N] = A B + bias (+ C), A [M, K] with rows a_row apart, C with rows c_row apart.
    void multiply(int64_t M, const float* a, int64_t a_row, const float* bias, float* c,
                  int64_t c_row, bool adds = false, int64_t threads = 1) const;

  private:
    int64_t K_ = 0, N_ = 0;
    const NetworkKernels* kernels_ = nullptr;
    std::vector<float> values_;
};

// C [M, N] = A' B for A [K, M] and B [K, N]: a gradient of weights from those of outputs.
void multiply_transposed(int64_t K, int64_t M, int64_t N, const float* a, int64_t a_row,
                         const float* b, int64_t b_row, float* c, int64_t threads);

// The sequences of a ragged batch sorted by length, the longest first: step t runs the first n[t]
// of them. Empty sequences are left out.
struct Steps {
    std::vector<int64_t> sequence;     // [N] in sorted order
    std::vector<int64_t> first, last;  // [N] their first and last tokens
    std::vector<int64_t> n;            // [L] number of sequences of more than t tokens

    Steps() = default;
    Steps(const int64_t* offsets, int64_t N);
    int64_t longest() const { return static_cast<int64_t>(n.size()); }
    // Writes the tokens of step t.
    void tokens(int64_t t, bool is_reversed, int64_t* to) const;
};

// One layer and direction of a recurrent network.
struct CellWeights {
    Cell cell;
    int64_t D, H;            // inputs, hidden units
    const float* weight_ih;  // [G H, D]
    const float* weight_hh;  // [G H, H]
    const float* bias_ih;    // [G H]
    const float* bias_hh;    // [G H]
    const float* h0;         // [H]
    const float* c0;         // [H], LSTM only
    bool is_reversed;
};

// The biases [G H] that belong to the input part: those of the recurrent part, too, unless the cell
// is a GRU, whose gate r acts on them.
std::vector<float> input_bias(const CellWeights& w);

// Results that the gradient needs.
struct CellSaved {
    float* gates;   // [T, S H]
    float* before;  // [T, H]
};

// h of all tokens, in columns 0 .. H of out [T, out_row].
void run_cell(const CellWeights& w, const Steps& steps, const float* x, int64_t T, float* out,
              int64_t out_row, const CellSaved& saved, int64_t threads);

struct CellGradients {
    float *weight_ih, *weight_hh, *bias_ih, *bias_hh, *h0, *c0;  // overwritten
    float* x;                                                    // [T, D], null if not needed
    bool adds_x;                                                 // to x, instead of overwriting it
};

void differentiate_cell(const CellWeights& w, const Steps& steps, const float* x, int64_t T,
                        const float* out, const float* grad_out, int64_t out_row,
                        const CellSaved& saved, const CellGradients& grad, int64_t threads);

// A character convolution of one width, and its maximum over the positions of a word.
struct CharacterConvolution {
    int64_t n_characters, size, filters, width;
    const float* table;   // [n_characters, size]
    const float* weight;  // [filters, size, width]
    const float* bias;    // [filters]

    // The convolution as look-ups: [width, n_characters, filters].
    std::vector<float> lookup() const;
};

// out [U, out_row], and the position of each maximum [U, filters] if not null.
void convolve_characters(const CharacterConvolution& w, const float* lookup,
                         const int32_t* characters, const int64_t* offsets, int64_t U, float* out,
                         int64_t out_row, int32_t* position, int64_t threads);

// Gradients of weight and bias are overwritten; that of the table is added.
void differentiate_characters(const CharacterConvolution& w, const int32_t* characters,
                              const int64_t* offsets, int64_t U, const float* grad_out,
                              int64_t out_row, const int32_t* position, float* grad_table,
                              float* grad_weight, float* grad_bias);

}  // namespace tagloom
