#include "core/network.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "core/threads.hpp"

namespace tagloom {
namespace {

constexpr int64_t kWidth = 3;       // of the encoder's convolutions
constexpr int64_t kTypes = 256;     // word types whose vectors are computed at a time
constexpr int64_t kSentences = 48;  // sentences that run side by side
constexpr int64_t kTokens = 4096;   // tokens after which a group is full
constexpr int64_t kRows = 512;      // rows of a product above the first layer
constexpr int64_t kCacheBytes = 64 << 20;

Cell cell_of(const std::string& name) {
    if (name == "lstm") return Cell::lstm;
    if (name == "gru") return Cell::gru;
    if (name == "rnn") return Cell::rnn;
    throw std::invalid_argument("encoder must be lstm, gru, rnn or cnn");
}

std::string key_of(const NetworkInputs& x, int64_t u) {
    const int64_t first = x.character_offsets[u], n = x.character_offsets[u + 1] - first;
    std::string key((2 + n) * sizeof(int32_t), '\0');
    std::memcpy(key.data(), x.words + u, sizeof(int32_t));
    std::memcpy(key.data() + sizeof(int32_t), x.vectors + u, sizeof(int32_t));
    if (n) std::memcpy(key.data() + 2 * sizeof(int32_t), x.characters + first, n * sizeof(int32_t));
    return key;
}

}  // namespace

int64_t NetworkShape::character_output() const {
    if (characters.empty()) return 0;
    return character_units * (characters == "lstm" ? 2 : static_cast<int64_t>(widths.size()));
}

int64_t NetworkShape::input_size() const {
    return word_size + vector_size * (is_tuned ? 2 : 1) + character_output();
}

const float* Network::find(const Arrays& arrays, const std::string& name,
                           std::vector<int64_t> shape) const {
    const auto found = arrays.find(name);
    if (found == arrays.end() || found->second.shape != shape)
        throw std::invalid_argument("array " + name + " is missing or has another shape");
    return found->second.data;
}

Network::Direction Network::direction(const Arrays& arrays, const std::string& prefix, Cell cell,
                                      int64_t D, int64_t H, int64_t layer, bool is_reversed,
                                      bool projects) const {
    const int64_t G = gates(cell) * H;
    const std::string end = "_l" + std::to_string(layer) + (is_reversed ? "_reverse" : "");
    Direction d;
    d.weights = {cell,
                 D,
                 H,
                 find(arrays, prefix + "weight_ih" + end, {G, D}),
                 find(arrays, prefix + "weight_hh" + end, {G, H}),
                 find(arrays, prefix + "bias_ih" + end, {G}),
                 find(arrays, prefix + "bias_hh" + end, {G}),
                 nullptr,
                 nullptr,
                 is_reversed};
    d.bias = tagloom::input_bias(d.weights);
    if (cell == Cell::gru) d.recurrent_bias.assign(d.weights.bias_hh, d.weights.bias_hh + G);
    if (projects) d.from_x = PackedMatrix::transposed(G, D, d.weights.weight_ih);
    d.from_h = PackedMatrix::transposed(G, H, d.weights.weight_hh);
    d.h0.assign(H, 0.0f);
    d.c0.assign(H, 0.0f);
    return d;
}

Network::Network(NetworkShape shape, const Arrays& arrays) : shape_(std::move(shape)) {
    const NetworkShape& s = shape_;
    const int64_t H = s.hidden, D = s.directions(), C = s.n_characters;
    if (s.n_words) words_ = find(arrays, "words.weight", {s.n_words, s.word_size});
    if (s.n_vectors) {
        vectors_ = find(arrays, "vectors.weight", {s.n_vectors, s.vector_size});
        if (s.is_tuned) tuned_ = find(arrays, "tuned.weight", {s.n_vectors, s.vector_size});
    }
    if (!s.characters.empty()) {
        const float* table = find(arrays, "characters.table.weight", {C, s.character_size});
        table_.assign(table, table + C * s.character_size);
    }
    if (s.characters == "cnn") {
        for (size_t k = 0; k < s.widths.size(); ++k) {
            const std::string name = "characters.convolutions." + std::to_string(k) + ".";
            const int64_t K = s.character_units, width = s.widths[k];
            const float* bias = find(arrays, name + "bias", {K});
            CharacterConvolution convolution{
                C,
                s.character_size,
                K,
                width,
                table_.data(),
                find(arrays, name + "weight", {K, s.character_size, width}),
                bias};
            lookups_.push_back(convolution.lookup());
            character_bias_.emplace_back(bias, bias + K);
            convolution.weight = nullptr;  // the look-up has it
            convolution.bias = nullptr;
            character_convolutions_.push_back(convolution);
        }
    } else if (s.characters == "lstm") {
        for (bool is_reversed : {false, true})
            character_lstm_.push_back(direction(arrays, "characters.lstm.", Cell::lstm,
                                                s.character_size, s.character_units, 0, is_reversed,
                                                true));
    }
    std::vector<float> first;  // [R, input_size]
    if (s.encoder == "cnn") {
        const float* weight = find(arrays, "encoder.input.weight", {H, s.input_size()});
        const float* bias = find(arrays, "encoder.input.bias", {H});
        first.assign(weight, weight + H * s.input_size());
        input_bias_.assign(bias, bias + H);
        for (int64_t k = 0; k < s.layers; ++k) {
            const std::string name = "encoder.convolutions." + std::to_string(k) + ".";
            const float* w = find(arrays, name + "weight", {H, H, kWidth});
            const float* b = find(arrays, name + "bias", {H});
            std::vector<float> rows(kWidth * H * H);  // [3 H, H]: row j H + d, column k
            for (int64_t out = 0; out < H; ++out)
                for (int64_t d = 0; d < H; ++d)
                    for (int64_t j = 0; j < kWidth; ++j)
                        rows[(j * H + d) * H + out] = w[(out * H + d) * kWidth + j];
            convolutions_.push_back(
                {PackedMatrix(kWidth * H, H, rows.data(), H, 1), std::vector<float>(b, b + H)});
        }
    } else {
        const Cell cell = cell_of(s.encoder);
        const float* h0 = find(arrays, "h0", {s.layers * D, H});
        const float* c0 = cell == Cell::lstm ? find(arrays, "c0", {s.layers * D, H}) : nullptr;
        for (int64_t k = 0; k < s.layers; ++k)
            for (int64_t d = 0; d < D; ++d) {
                const int64_t size = k ? D * H : s.input_size();
                cells_.push_back(direction(arrays, "encoder.", cell, size, H, k, d == 1, k > 0));
                Direction& added = cells_.back();
                added.h0.assign(h0 + (k * D + d) * H, h0 + (k * D + d + 1) * H);
                if (c0) added.c0.assign(c0 + (k * D + d) * H, c0 + (k * D + d + 1) * H);
                if (k) continue;
                const float* w = added.weights.weight_ih;
                first.insert(first.end(), w, w + gates(cell) * H * size);
                input_bias_.insert(input_bias_.end(), added.bias.begin(), added.bias.end());
            }
    }
    const int64_t R = static_cast<int64_t>(input_bias_.size());
    input_ = PackedMatrix::transposed(R, s.input_size(), first.data());
    output_ = PackedMatrix::transposed(
        s.n_labels, s.output_size(), find(arrays, "output.weight", {s.n_labels, s.output_size()}));
    const float* bias = find(arrays, "output.bias", {s.n_labels});
    output_bias_.assign(bias, bias + s.n_labels);
    // Only the packed matrices are read from now on.
    for (auto* directions : {&cells_, &character_lstm_})
        for (Direction& d : *directions)
            d.weights.weight_ih = d.weights.weight_hh = d.weights.bias_ih = d.weights.bias_hh =
                nullptr;
    most_slots_ = std::max<int64_t>(1024, kCacheBytes / (R * int64_t(sizeof(float))));
}

int64_t Network::cached_types() const {
    const std::shared_lock lock(mutex_);
    return static_cast<int64_t>(slots_.size());
}

// ---- word types ---------------------------------------------------------------------------------

// The first product of each word type, rows [U, R].
void Network::type_rows(const NetworkInputs& x, int64_t threads, float* rows) const {
    const int64_t R = static_cast<int64_t>(input_bias_.size());
    std::vector<std::string> keys(x.U);
    std::vector<int64_t> missing;
    for (int64_t u = 0; u < x.U; ++u) keys[u] = key_of(x, u);
    {
        const std::shared_lock lock(mutex_);
        for (int64_t u = 0; u < x.U; ++u) {
            const auto found = slots_.find(keys[u]);
            if (found == slots_.end())
                missing.push_back(u);
            else
                std::copy_n(&cached_[found->second * R], R, rows + u * R);
        }
    }
    if (missing.empty()) return;
    const int64_t n = static_cast<int64_t>(missing.size());
    parallel_for((n + kTypes - 1) / kTypes, threads, [&](int64_t block, int64_t) {
        const int64_t begin = block * kTypes, size = std::min(kTypes, n - begin);
        std::vector<float> result(size * R);
        compute_rows(x, &missing[begin], size, result.data());
        for (int64_t i = 0; i < size; ++i)
            std::copy_n(&result[i * R], R, rows + missing[begin + i] * R);
    });
    const std::unique_lock lock(mutex_);
    for (const int64_t u : missing) {
        if (static_cast<int64_t>(slots_.size()) >= most_slots_) {
            slots_.clear();
            cached_.clear();
        }
        if (slots_.contains(keys[u])) continue;  // another thread was first
        const int64_t slot = static_cast<int64_t>(cached_.size()) / R;
        cached_.insert(cached_.end(), rows + u * R, rows + (u + 1) * R);
        slots_.emplace(std::move(keys[u]), slot);
    }
}

void Network::compute_rows(const NetworkInputs& x, const int64_t* types, int64_t n,
                           float* rows) const {
    const NetworkShape& s = shape_;
    const int64_t D = s.input_size(), R = static_cast<int64_t>(input_bias_.size());
    std::vector<float> vectors(n * D);
    for (int64_t i = 0; i < n; ++i) {
        float* to = &vectors[i * D];
        auto copy = [&](const float* table, int64_t row, int64_t size) {
            if (table) to = std::copy_n(table + row * size, size, to);
        };
        copy(words_, x.words[types[i]], s.word_size);
        copy(vectors_, x.vectors[types[i]], s.vector_size);
        copy(tuned_, x.vectors[types[i]], s.vector_size);
    }
    if (!s.characters.empty())
        character_vectors(x, types, n, vectors.data() + D - s.character_output(), D);
    input_.multiply(n, vectors.data(), D, input_bias_.data(), rows, R);
}

void Network::character_vectors(const NetworkInputs& x, const int64_t* types, int64_t n, float* to,
                                int64_t row) const {
    const int64_t K = shape_.character_units;
    std::vector<int64_t> offsets(n + 1);
    std::vector<int32_t> characters;
    for (int64_t i = 0; i < n; ++i) {
        const int64_t u = types[i];
        characters.insert(characters.end(), x.characters + x.character_offsets[u],
                          x.characters + x.character_offsets[u + 1]);
        offsets[i + 1] = static_cast<int64_t>(characters.size());
    }
    for (size_t k = 0; k < character_convolutions_.size(); ++k) {
        CharacterConvolution convolution = character_convolutions_[k];
        convolution.bias = character_bias_[k].data();
        convolve_characters(convolution, lookups_[k].data(), characters.data(), offsets.data(), n,
                            to + k * K, row, nullptr, 1);
    }
    if (character_lstm_.empty()) return;
    const int64_t size = shape_.character_size, C = offsets[n], G = 4 * K;
    std::vector<float> vectors(C * size), projected(C * G), h(C * K);
    std::vector<int64_t> place(C);
    std::iota(place.begin(), place.end(), int64_t{0});
    for (int64_t c = 0; c < C; ++c)
        std::copy_n(&table_[characters[c] * size], size, &vectors[c * size]);
    const Steps steps(offsets.data(), n);
    for (const Direction& d : character_lstm_) {
        d.from_x.multiply(C, vectors.data(), size, d.bias.data(), projected.data(), G);
        run_direction(d, steps, projected.data(), G, place.data(), nullptr, h.data(), K);
        const int64_t half = d.weights.is_reversed ? K : 0;
        for (int64_t i = 0; i < n; ++i) {
            float* const end = to + i * row + half;
            if (offsets[i] == offsets[i + 1])
                std::fill_n(end, K, 0.0f);
            else
                std::copy_n(&h[(d.weights.is_reversed ? offsets[i] : offsets[i + 1] - 1) * K], K,
                            end);
        }
    }
}

// ---- the encoder --------------------------------------------------------------------------------

// Sentences that run side by side; their tokens are numbered anew, one sentence after another.
struct Network::Group {
    std::vector<int64_t> offsets;        // [n + 1]
    std::vector<int64_t> type_of_token;  // [tokens]

    Group(const NetworkInputs& x, const std::vector<int64_t>& sentences) : offsets{0} {
        for (const int64_t i : sentences) {
            type_of_token.insert(type_of_token.end(), x.types + x.offsets[i],
                                 x.types + x.offsets[i + 1]);
            offsets.push_back(static_cast<int64_t>(type_of_token.size()));
        }
    }
    int64_t n() const { return static_cast<int64_t>(offsets.size()) - 1; }
    int64_t tokens() const { return offsets.back(); }
};

void Network::emit(const NetworkInputs& x, int64_t threads, float* emit) const {
    threads = std::max<int64_t>(threads, 1);
    std::vector<float> rows(x.U * static_cast<int64_t>(input_bias_.size()));
    type_rows(x, threads, rows.data());
    std::vector<int64_t> order(x.N);
    std::iota(order.begin(), order.end(), int64_t{0});
    auto length = [&](int64_t i) { return x.offsets[i + 1] - x.offsets[i]; };
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return length(a) > length(b); });
    std::vector<std::vector<int64_t>> groups;
    int64_t tokens = kTokens;
    for (const int64_t i : order) {
        if (length(i) == 0) continue;
        if (groups.empty() || tokens + length(i) > kTokens ||
            static_cast<int64_t>(groups.back().size()) >= kSentences) {
            groups.emplace_back();
            tokens = 0;
        }
        groups.back().push_back(i);
        tokens += length(i);
    }
    parallel_for(static_cast<int64_t>(groups.size()), threads,
                 [&](int64_t g, int64_t) { run_group(x, rows.data(), groups[g], emit); });
}

void Network::run_group(const NetworkInputs& x, const float* rows,
                        const std::vector<int64_t>& sentences, float* emit) const {
    const Group group(x, sentences);
    const int64_t T = group.tokens(), O = shape_.output_size(), H = shape_.hidden;
    const int64_t R = static_cast<int64_t>(input_bias_.size()), D = shape_.directions();
    std::vector<float> h(T * O);
    if (shape_.encoder == "cnn") {
        for (int64_t t = 0; t < T; ++t)
            std::copy_n(rows + group.type_of_token[t] * R, R, &h[t * R]);
        run_convolutions(group, h);
    } else {
        const Steps steps(group.offsets.data(), group.n());
        std::vector<float> below;
        for (int64_t k = 0; k < shape_.layers; ++k) {
            if (k) {
                below.swap(h);
                h.resize(T * O);
            }
            for (int64_t d = 0; d < D; ++d) {
                const Direction& cell = cells_[k * D + d];
                const float* projected = k ? nullptr : rows + d * (R / D);
                run_direction(cell, steps, projected, R, group.type_of_token.data(), below.data(),
                              &h[d * H], O);
            }
        }
    }
    for (int64_t i = 0; i < group.n(); ++i)
        output_.multiply(group.offsets[i + 1] - group.offsets[i], &h[group.offsets[i] * O], O,
                         output_bias_.data(), emit + x.offsets[sentences[i]] * shape_.n_labels,
                         shape_.n_labels);
}

// With `projected`, the input part of token t is row row_of_token[t]; without, it is computed from
// x [T, D] for a few steps at a time.
void Network::run_direction(const Direction& d, const Steps& steps, const float* projected,
                            int64_t stride, const int64_t* row_of_token, const float* x, float* out,
                            int64_t out_row) const {
    const int64_t H = d.weights.H, G = gates(d.weights.cell) * H, D = d.weights.D;
    const int64_t N = static_cast<int64_t>(steps.sequence.size());
    const NetworkKernels& kernels = network_kernels();
    std::vector<float> h(N * H), c(N * H), recurrent(N * G), block, gathered;
    for (int64_t i = 0; i < N; ++i) {
        std::copy_n(d.h0.data(), H, &h[i * H]);
        std::copy_n(d.c0.data(), H, &c[i * H]);
    }
    const float* bias = d.recurrent_bias.empty() ? nullptr : d.recurrent_bias.data();
    std::vector<int64_t> token(N), row(N);
    int64_t next = 0, end = 0;  // rows of the block that are used, and that there are
    for (int64_t t = 0; t < steps.longest(); ++t) {
        const int64_t n = steps.n[t];
        if (!projected && next == end) {
            gathered.clear();
            next = end = 0;
            for (int64_t u = t; u < steps.longest() && (u == t || end + steps.n[u] <= kRows); ++u) {
                steps.tokens(u, d.weights.is_reversed, token.data());
                for (int64_t i = 0; i < steps.n[u]; ++i)
                    gathered.insert(gathered.end(), x + token[i] * D, x + (token[i] + 1) * D);
                end += steps.n[u];
            }
            block.resize(end * G);
            d.from_x.multiply(end, gathered.data(), D, d.bias.data(), block.data(), G);
        }
        steps.tokens(t, d.weights.is_reversed, token.data());
        for (int64_t i = 0; i < n; ++i) row[i] = projected ? row_of_token[token[i]] : next + i;
        next += projected ? 0 : n;
        d.from_h.multiply(n, h.data(), H, bias, recurrent.data(), G);
        kernels.step({d.weights.cell, n, H, projected ? projected : block.data(),
                      projected ? stride : G, row.data(), recurrent.data(), h.data(), c.data(), out,
                      out_row, token.data(), nullptr, nullptr});
    }
}

// h = h + relu(convolution(h)) for each layer, h [T, H].
void Network::run_convolutions(const Group& group, std::vector<float>& h) const {
    const int64_t H = shape_.hidden, half = kWidth / 2;
    std::vector<float> windows(kRows * kWidth * H), result(group.tokens() * H);
    for (const Convolution& convolution : convolutions_) {
        int64_t sentence = 0;
        for (int64_t begin = 0; begin < group.tokens(); begin += kRows) {
            const int64_t n = std::min(kRows, group.tokens() - begin);
            for (int64_t t = begin; t < begin + n; ++t) {
                while (t >= group.offsets[sentence + 1]) ++sentence;
                for (int64_t j = 0; j < kWidth; ++j) {
                    float* to = &windows[((t - begin) * kWidth + j) * H];
                    const int64_t at = t + j - half;
                    if (at < group.offsets[sentence] || at >= group.offsets[sentence + 1])
                        std::fill_n(to, H, 0.0f);
                    else
                        std::copy_n(&h[at * H], H, to);
                }
            }
            convolution.weight.multiply(n, windows.data(), kWidth * H, convolution.bias.data(),
                                        &result[begin * H], H);
        }
        network_kernels().residual(h.data(), result.data(), group.tokens() * H);
    }
}

}  // namespace tagloom
