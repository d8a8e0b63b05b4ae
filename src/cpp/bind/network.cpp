// Python bindings of networks: layers on buffers for training, and whole networks for tagging.

#include "core/network.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "bind/arrays.hpp"
#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/gil.hpp"
#include "core/wide.hpp"

namespace tagloom {
namespace {

using Floats1 = Array<const float, 1>;
using Floats2 = Array<const float, 2>;

Cell cell_named(const std::string& name) {
    require(name == "lstm" || name == "gru" || name == "rnn", "cell must be lstm, gru or rnn");
    return name == "lstm" ? Cell::lstm : name == "gru" ? Cell::gru : Cell::rnn;
}

template <class A>
void require_shape(const A& array, int64_t rows, int64_t columns, const char* what) {
    require(int64_t(array.shape(0)) == rows && int64_t(array.shape(1)) == columns, what);
}

// ---- recurrent layers ---------------------------------------------------------------------------

// One layer and direction over a ragged batch. Its weights are used in place.
struct CellTask {
    Cell cell;
    Array<const int64_t, 1> offsets;
    Floats2 x, weight_ih, weight_hh;
    Floats1 bias_ih, bias_hh, h0;
    std::optional<Floats1> c0;
    bool is_reversed;
    int64_t threads, T, D, H, G, S;
    Steps steps;

    CellTask(const std::string& name, Array<const int64_t, 1> offsets_, Floats2 x_,
             Floats2 weight_ih_, Floats2 weight_hh_, Floats1 bias_ih_, Floats1 bias_hh_,
             Floats1 h0_, std::optional<Floats1> c0_, bool is_reversed_, int64_t threads_)
        : cell(cell_named(name)),
          offsets(std::move(offsets_)),
          x(std::move(x_)),
          weight_ih(std::move(weight_ih_)),
          weight_hh(std::move(weight_hh_)),
          bias_ih(std::move(bias_ih_)),
          bias_hh(std::move(bias_hh_)),
          h0(std::move(h0_)),
          c0(std::move(c0_)),
          is_reversed(is_reversed_),
          threads(threads_),
          T(x.shape(0)),
          D(x.shape(1)),
          H(h0.shape(0)),
          G(gates(cell) * H),
          S(saved_arrays(cell) * H) {
        check_offsets(offsets, T);
        require_shape(weight_ih, G, D, "weight_ih must be [G H, D]");
        require_shape(weight_hh, G, H, "weight_hh must be [G H, H]");
        require(int64_t(bias_ih.shape(0)) == G && int64_t(bias_hh.shape(0)) == G,
                "biases must be [G H]");
        require(bool(c0) == (cell == Cell::lstm) && (!c0 || int64_t(c0->shape(0)) == H),
                "c0 must be [H], for an LSTM only");
        steps = Steps(offsets.data(), int64_t(offsets.shape(0)) - 1);
    }

    CellWeights weights() const {
        return {cell,
                D,
                H,
                weight_ih.data(),
                weight_hh.data(),
                bias_ih.data(),
                bias_hh.data(),
                h0.data(),
                data_or_null(c0),
                is_reversed};
    }
    void check(int64_t rows, int64_t width, int64_t column, const Array<float, 2>& gates_,
               const Array<float, 2>& before) const {
        require(rows == T && column >= 0 && column + H <= width, "out must be [T, column + H]");
        require_shape(gates_, T, S, "gates must be [T, S H]");
        require_shape(before, T, H, "before must be [T, H]");
    }
};

void run(const CellTask& task, Array<float, 2> out, int64_t column, Array<float, 2> gates_,
         Array<float, 2> before) {
    const int64_t width = out.shape(1);
    task.check(out.shape(0), width, column, gates_, before);
    const WithoutGil unlocked;
    run_cell(task.weights(), task.steps, task.x.data(), task.T, out.data() + column, width,
             {gates_.data(), before.data()}, task.threads);
}

void differentiate(const CellTask& task, Floats2 out, Floats2 grad_out, int64_t column,
                   Array<float, 2> gates_, Array<float, 2> before, Array<float, 2> grad_weight_ih,
                   Array<float, 2> grad_weight_hh, Array<float, 1> grad_bias_ih,
                   Array<float, 1> grad_bias_hh, Array<float, 1> grad_h0,
                   std::optional<Array<float, 1>> grad_c0, std::optional<Array<float, 2>> grad_x,
                   bool adds_x) {
    const int64_t width = out.shape(1), G = task.G;
    task.check(out.shape(0), width, column, gates_, before);
    require_shape(grad_out, task.T, width, "grad_out must be like out");
    require_shape(grad_weight_ih, G, task.D, "grad_weight_ih must be [G H, D]");
    require_shape(grad_weight_hh, G, task.H, "grad_weight_hh must be [G H, H]");
    require(int64_t(grad_bias_ih.shape(0)) == G && int64_t(grad_bias_hh.shape(0)) == G &&
                int64_t(grad_h0.shape(0)) == task.H &&
                (!grad_c0 || int64_t(grad_c0->shape(0)) == task.H),
            "gradients must have the shapes of the parameters");
    if (grad_x) require_shape(*grad_x, task.T, task.D, "grad_x must be [T, D]");
    const WithoutGil unlocked;
    differentiate_cell(
        task.weights(), task.steps, task.x.data(), task.T, out.data() + column,
        grad_out.data() + column, width, {gates_.data(), before.data()},
        {grad_weight_ih.data(), grad_weight_hh.data(), grad_bias_ih.data(), grad_bias_hh.data(),
         grad_h0.data(), data_or_null(grad_c0), data_or_null(grad_x), adds_x},
        task.threads);
}

// ---- characters ---------------------------------------------------------------------------------

CharacterConvolution convolution(const Floats2& table, const Array<const float, 3>& weight,
                                 const Floats1& bias) {
    require(weight.shape(1) == table.shape(1) && bias.shape(0) == weight.shape(0),
            "weight must be [K, size, width], bias [K]");
    require(weight.shape(2) % 2 == 1, "the width must be odd");
    return {int64_t(table.shape(0)),
            int64_t(table.shape(1)),
            int64_t(weight.shape(0)),
            int64_t(weight.shape(2)),
            table.data(),
            weight.data(),
            bias.data()};
}

void check_ids(const Array<const int32_t, 1>& ids, int64_t n, const char* what) {
    require(std::all_of(ids.data(), ids.data() + ids.shape(0),
                        [&](int32_t id) { return 0 <= id && id < n; }),
            what);
}

void convolve(Floats2 table, Array<const float, 3> weight, Floats1 bias,
              Array<const int32_t, 1> characters, Array<const int64_t, 1> offsets,
              Array<float, 2> out, int64_t column, Array<int32_t, 2> position, int64_t threads) {
    const CharacterConvolution w = convolution(table, weight, bias);
    const int64_t U = int64_t(offsets.shape(0)) - 1;
    check_offsets(offsets, characters.shape(0));
    check_ids(characters, w.n_characters, "characters must be rows of the table");
    require(
        int64_t(out.shape(0)) == U && column >= 0 && column + w.filters <= int64_t(out.shape(1)),
        "out must be [U, column + K]");
    require_shape(position, U, w.filters, "position must be [U, K]");
    const WithoutGil unlocked;
    convolve_characters(w, w.lookup().data(), characters.data(), offsets.data(), U,
                        out.data() + column, out.shape(1), position.data(), threads);
}

void differentiate_convolution(Floats2 table, Array<const float, 3> weight, Floats1 bias,
                               Array<const int32_t, 1> characters, Array<const int64_t, 1> offsets,
                               Floats2 grad_out, int64_t column, Array<const int32_t, 2> position,
                               Array<float, 2> grad_table, Array<float, 3> grad_weight,
                               Array<float, 1> grad_bias) {
    const CharacterConvolution w = convolution(table, weight, bias);
    const int64_t U = int64_t(offsets.shape(0)) - 1;
    check_offsets(offsets, characters.shape(0));
    check_ids(characters, w.n_characters, "characters must be rows of the table");
    require(int64_t(grad_out.shape(0)) == U && column >= 0 &&
                column + w.filters <= int64_t(grad_out.shape(1)),
            "grad_out must be [U, column + K]");
    require_shape(position, U, w.filters, "position must be [U, K]");
    require_shape(grad_table, w.n_characters, w.size, "grad_table must be like the table");
    require(int64_t(grad_weight.size()) == w.filters * w.size * w.width &&
                int64_t(grad_bias.shape(0)) == w.filters,
            "gradients must have the shapes of the parameters");
    const WithoutGil unlocked;
    differentiate_characters(w, characters.data(), offsets.data(), U, grad_out.data() + column,
                             grad_out.shape(1), position.data(), grad_table.data(),
                             grad_weight.data(), grad_bias.data());
}

void drop(Array<const float, 1> from, Array<float, 1> to, uint64_t seed, float p) {
    require(from.shape(0) == to.shape(0), "from and to must have one length");
    require(p >= 0 && p < 1, "p must be at least 0 and below 1");
    const WithoutGil unlocked;
    network_kernels().dropout(from.data(), to.data(), from.shape(0), 0, seed, p);
}

// ---- weights of features ------------------------------------------------------------------------

TokenFeatures token_features(const Array<const int64_t, 1>& indptr,
                             const Array<const int32_t, 1>& ids,
                             const Maybe<const float, 1>& values, int64_t F) {
    check_offsets(indptr, ids.shape(0));
    check_ids(ids, F, "ids must be rows of the weights");
    require(!values || values->shape(0) == ids.shape(0), "values must be like ids");
    return {int64_t(indptr.shape(0)) - 1, indptr.data(), ids.data(), data_or_null(values)};
}

void sum_feature_rows(Array<const int64_t, 1> indptr, Array<const int32_t, 1> ids,
                      Maybe<const float, 1> values, Floats2 weight, Array<float, 2> out) {
    const int64_t Y = weight.shape(1);
    const TokenFeatures features = token_features(indptr, ids, values, weight.shape(0));
    require_shape(out, features.T, Y, "out must be [T, Y]");
    const WithoutGil unlocked;
    sum_rows(features, weight.data(), Y, out.data());
}

void step_feature_rows(Array<const int64_t, 1> indptr, Array<const int32_t, 1> ids,
                       Maybe<const float, 1> values, Floats2 grad, float eta,
                       Array<float, 2> weight, Array<float, 2> squares) {
    const int64_t F = weight.shape(0), Y = weight.shape(1);
    const TokenFeatures features = token_features(indptr, ids, values, F);
    require_shape(grad, features.T, Y, "grad must be [T, Y]");
    require_shape(squares, F, Y, "squares must be like weight");
    const WithoutGil unlocked;
    step_rows(features, grad.data(), Y, eta, weight.data(), squares.data());
}

// ---- whole networks -----------------------------------------------------------------------------

struct NetworkObject {
    std::map<std::string, nb::ndarray<const float, nb::numpy, nb::c_contig, nb::device::cpu>>
        arrays;
    Network network;

    static Network::Arrays views(const decltype(arrays)& arrays) {
        Network::Arrays result;
        for (const auto& [name, array] : arrays) {
            std::vector<int64_t> shape(array.ndim());
            for (size_t d = 0; d < array.ndim(); ++d) shape[d] = array.shape(d);
            result[name] = {array.data(), shape};
        }
        return result;
    }
    static NetworkShape shape_of(const nb::dict& spec) {
        auto number = [&](const char* name) { return nb::cast<int64_t>(spec[name]); };
        NetworkShape s;
        s.n_labels = number("n_labels");
        s.n_words = number("n_words");
        s.word_size = number("word_size");
        s.n_vectors = number("n_vectors");
        s.vector_size = number("vector_size");
        s.is_tuned = nb::cast<bool>(spec["is_tuned"]);
        if (!spec["characters"].is_none()) s.characters = nb::cast<std::string>(spec["characters"]);
        s.n_characters = number("n_characters");
        s.character_size = number("character_size");
        s.character_units = number("character_units");
        for (nb::handle width : spec["widths"]) s.widths.push_back(nb::cast<int64_t>(width));
        s.encoder = nb::cast<std::string>(spec["encoder"]);
        s.is_bidirectional = nb::cast<bool>(spec["is_bidirectional"]);
        s.layers = number("layers");
        s.hidden = number("hidden");
        require(s.n_labels > 0 && s.hidden > 0, "n_labels and hidden must be positive");
        require(s.layers >= (s.encoder == "cnn" ? 0 : 1), "a recurrent encoder needs a layer");
        for (int64_t n : {s.n_words, s.word_size, s.n_vectors, s.vector_size, s.n_characters,
                          s.character_size, s.character_units})
            require(n >= 0, "sizes must not be negative");
        for (int64_t width : s.widths) require(width > 0 && width % 2, "widths must be odd");
        require(s.input_size() > 0, "a network needs inputs");
        return s;
    }

    NetworkObject(const nb::dict& spec, decltype(arrays) arrays_)
        : arrays(std::move(arrays_)), network(shape_of(spec), views(arrays)) {}
};

void emit(const NetworkObject& object, Array<const int64_t, 1> offsets,
          Array<const int32_t, 1> types, Array<const int32_t, 1> words,
          Array<const int32_t, 1> vectors, Array<const int64_t, 1> character_offsets,
          Array<const int32_t, 1> characters, int64_t threads, Array<float, 2> out) {
    const NetworkShape& s = object.network.shape();
    const int64_t T = types.shape(0), U = words.shape(0);
    check_offsets(offsets, T);
    check_offsets(character_offsets, characters.shape(0));
    require(int64_t(vectors.shape(0)) == U && int64_t(character_offsets.shape(0)) == U + 1,
            "words, vectors and characters must be those of the same types");
    check_ids(types, U, "types must be below U");
    if (s.n_words) check_ids(words, s.n_words, "words must be rows of words.weight");
    if (s.n_vectors) check_ids(vectors, s.n_vectors, "vectors must be rows of vectors.weight");
    if (!s.characters.empty())
        check_ids(characters, s.n_characters, "characters must be rows of the table");
    require_shape(out, T, s.n_labels, "out must be [T, Y]");
    const NetworkInputs inputs{
        offsets.data(), int64_t(offsets.shape(0)) - 1, types.data(),      words.data(),
        vectors.data(), character_offsets.data(),      characters.data(), U};
    const WithoutGil unlocked;
    object.network.emit(inputs, threads, out.data());
}

}  // namespace

void bind_network(nb::module_& m) {
    nb::class_<CellTask>(m, "RecurrentCell",
                         "One layer and direction of an LSTM, GRU or RNN over a ragged batch.")
        .def(nb::init<const std::string&, Array<const int64_t, 1>, Floats2, Floats2, Floats2,
                      Floats1, Floats1, Floats1, std::optional<Floats1>, bool, int64_t>(),
             nb::arg("cell"), nb::arg("offsets"), nb::arg("x"), nb::arg("weight_ih"),
             nb::arg("weight_hh"), nb::arg("bias_ih"), nb::arg("bias_hh"), nb::arg("h0"),
             nb::arg("c0").none(), nb::arg("is_reversed"), nb::arg("threads"))
        .def("run", run, nb::arg("out").noconvert(), nb::arg("column"),
             nb::arg("gates").noconvert(), nb::arg("before").noconvert())
        .def("differentiate", differentiate, nb::arg("out"), nb::arg("grad_out"), nb::arg("column"),
             nb::arg("gates").noconvert(), nb::arg("before").noconvert(),
             nb::arg("grad_weight_ih").noconvert(), nb::arg("grad_weight_hh").noconvert(),
             nb::arg("grad_bias_ih").noconvert(), nb::arg("grad_bias_hh").noconvert(),
             nb::arg("grad_h0").noconvert(), nb::arg("grad_c0").noconvert().none(),
             nb::arg("grad_x").noconvert().none(), nb::arg("adds_x"));
    m.def("convolve_characters", convolve, nb::arg("table"), nb::arg("weight"), nb::arg("bias"),
          nb::arg("characters"), nb::arg("offsets"), nb::arg("out").noconvert(), nb::arg("column"),
          nb::arg("position").noconvert(), nb::arg("threads"));
    m.def("differentiate_characters", differentiate_convolution, nb::arg("table"),
          nb::arg("weight"), nb::arg("bias"), nb::arg("characters"), nb::arg("offsets"),
          nb::arg("grad_out"), nb::arg("column"), nb::arg("position"),
          nb::arg("grad_table").noconvert(), nb::arg("grad_weight").noconvert(),
          nb::arg("grad_bias").noconvert());
    m.def("dropout", drop, nb::arg("source"), nb::arg("out").noconvert(), nb::arg("seed"),
          nb::arg("p"));
    m.def("sum_feature_rows", sum_feature_rows, nb::arg("indptr"), nb::arg("ids"),
          nb::arg("values").none(), nb::arg("weight"), nb::arg("out").noconvert());
    m.def("step_feature_rows", step_feature_rows, nb::arg("indptr"), nb::arg("ids"),
          nb::arg("values").none(), nb::arg("grad"), nb::arg("eta"), nb::arg("weight").noconvert(),
          nb::arg("squares").noconvert());
    nb::class_<NetworkObject>(m, "Network", "A trained network that scores labels of tokens.")
        .def(nb::init<nb::typed<nb::dict, nb::str, nb::object>, decltype(NetworkObject::arrays)>(),
             nb::arg("spec"), nb::arg("arrays"))
        .def("emit", emit, nb::arg("offsets"), nb::arg("types"), nb::arg("words"),
             nb::arg("vectors"), nb::arg("character_offsets"), nb::arg("characters"),
             nb::arg("threads"), nb::arg("out").noconvert())
        .def_prop_ro(
            "cached_types", [](const NetworkObject& x) { return x.network.cached_types(); },
            "Number of word types whose projections are cached.");
}

}  // namespace tagloom
