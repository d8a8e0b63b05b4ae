// A trained network that scores labels of tokens: vectors of word types, an encoder, a linear
// layer.
//
//   x[u]       = [words[u], vectors[u], tuned[u], characters(u)]      a vector of each word type
//   h[0..T-1]  = encoder(x[type[0]], ..., x[type[T-1]])
//   emit[t, y] = output.weight[y] . h[t] + output.bias[y]
//
// The first product of the encoder depends on the word type alone, so it is computed once per type
// and cached between calls. Arrays have the names and layouts of torch.nn modules.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/network_layers.hpp"

namespace tagloom {

struct NetworkShape {
    int64_t n_labels = 0;
    int64_t n_words = 0, word_size = 0;
    int64_t n_vectors = 0, vector_size = 0;
    bool is_tuned = false;
    std::string characters;  // "", "cnn" or "lstm"
    int64_t n_characters = 0, character_size = 0, character_units = 0;
    std::vector<int64_t> widths;
    std::string encoder;  // "lstm", "gru", "rnn" or "cnn"
    bool is_bidirectional = true;
    int64_t layers = 1, hidden = 0;

    int64_t directions() const { return is_bidirectional && encoder != "cnn" ? 2 : 1; }
    int64_t character_output() const;
    int64_t input_size() const;
    int64_t output_size() const { return hidden * directions(); }
};

// Sentences: N sentences, T tokens, U word types.
struct NetworkInputs {
    const int64_t* offsets;  // [N + 1]
    int64_t N;
    const int32_t* types;              // [T]
    const int32_t* words;              // [U] rows of words.weight
    const int32_t* vectors;            // [U] rows of vectors.weight
    const int64_t* character_offsets;  // [U + 1]
    const int32_t* characters;         // [C]
    int64_t U;
};

class Network {
  public:
    struct View {
        const float* data;
        std::vector<int64_t> shape;
    };
    using Arrays = std::map<std::string, View, std::less<>>;

    // The tables of vectors are not copied: they must outlive the network. Throws
    // std::invalid_argument if an array is missing or has another shape.
    Network(NetworkShape shape, const Arrays& arrays);

    const NetworkShape& shape() const { return shape_; }
    // Scores [T, Y]. Safe to call from several threads; the result does not depend on the number of
    // threads, nor on what else is in the batch.
    void emit(const NetworkInputs& x, int64_t threads, float* emit) const;
    int64_t cached_types() const;

  private:
    struct Direction {
        CellWeights weights;
        PackedMatrix from_x, from_h;  // from_x only above the first layer
        std::vector<float> bias, recurrent_bias, h0, c0;
    };
    struct Convolution {
        PackedMatrix weight;  // [3 H, H]
        std::vector<float> bias;
    };
    struct Group;

    const float* find(const Arrays& arrays, const std::string& name,
                      std::vector<int64_t> shape) const;
    Direction direction(const Arrays& arrays, const std::string& prefix, Cell cell, int64_t D,
                        int64_t H, int64_t layer, bool is_reversed, bool projects) const;
    void type_rows(const NetworkInputs& x, int64_t threads, float* rows) const;
    void compute_rows(const NetworkInputs& x, const int64_t* types, int64_t n, float* rows) const;
    void character_vectors(const NetworkInputs& x, const int64_t* types, int64_t n, float* to,
                           int64_t row) const;
    void run_group(const NetworkInputs& x, const float* rows, const std::vector<int64_t>& sentences,
                   float* emit) const;
    void run_direction(const Direction& d, const Steps& steps, const float* projected,
                       int64_t stride, const int64_t* row_of_token, const float* x, float* out,
                       int64_t out_row) const;
    void run_convolutions(const Group& group, std::vector<float>& h) const;

    const NetworkShape shape_;
    const float *words_ = nullptr, *vectors_ = nullptr, *tuned_ = nullptr;
    std::vector<float> table_;  // [n_characters, character_size]
    std::vector<CharacterConvolution> character_convolutions_;
    std::vector<std::vector<float>> character_bias_, lookups_;  // by width
    std::vector<Direction> character_lstm_;
    PackedMatrix input_;  // [input_size, R] the first product: both directions side by side
    std::vector<float> input_bias_;
    std::vector<Direction> cells_;           // [layers * directions]
    std::vector<Convolution> convolutions_;  // [layers]
    PackedMatrix output_;
    std::vector<float> output_bias_;

    // Rows of the first product by word type; emptied when it is full.
    mutable std::shared_mutex mutex_;
    mutable std::unordered_map<std::string, int64_t> slots_;
    mutable std::vector<float> cached_;  // [slots, R]
    int64_t most_slots_ = 0;
};

}  // namespace tagloom
