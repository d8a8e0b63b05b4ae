// Python bindings of learning: check shapes, release the GIL, call core.

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <vector>

#include "bind/bind.hpp"
#include "core/linear.hpp"

namespace nb = nanobind;

namespace tagloom {
namespace {

template <class T>
using Array = nb::ndarray<T, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Maybe = std::optional<Array<T>>;
template <class T>
using Fresh = nb::ndarray<nb::numpy, T, nb::ndim<1>>;  // an array that owns its memory

void require(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
}

template <class T, class From>
Fresh<T> copied(const From* values, size_t n) {
    auto* own = new T[n];
    nb::capsule owner(own, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    std::copy_n(values, n, own);
    return Fresh<T>(own, {n}, owner);
}

Attributes attributes(const Array<const int64_t>& indptr, const Array<const int32_t>& ids,
                      const Maybe<const float>& values, int64_t n, int64_t T) {
    require(int64_t(indptr.shape(0)) == T + 1,
            "indptr and edge_indptr must have one entry more than gold");
    require(!values || values->shape(0) == ids.shape(0),
            "values must have one entry for each of ids");
    return {indptr.data(), ids.data(), values ? values->data() : nullptr, int64_t(ids.shape(0)), n};
}

void make_problem(Problem* self, Array<const int64_t> offsets, Array<const int64_t> indptr,
                  Array<const int32_t> ids, Maybe<const float> values, int64_t n_attributes,
                  Maybe<const int64_t> edge_indptr, Maybe<const int32_t> edge_ids,
                  Maybe<const float> edge_values, int64_t n_edge_attributes,
                  Array<const int32_t> gold, int64_t n_labels, bool all_combinations,
                  bool boundaries, Maybe<const double> weight, bool float32) {
    Examples x{};
    x.N = int64_t(offsets.shape(0)) - 1;
    x.T = gold.shape(0);
    x.Y = n_labels;
    require(x.N >= 0, "offsets must have at least one entry");
    x.offsets = offsets.data();
    x.nodes = attributes(indptr, ids, values, n_attributes, x.T);
    require(edge_indptr.has_value() == edge_ids.has_value() && (edge_ids || !edge_values),
            "edge_indptr and edge_ids come together, edge_values only with them");
    if (edge_indptr)
        x.edges = attributes(*edge_indptr, *edge_ids, edge_values, n_edge_attributes, x.T);
    x.gold = gold.data();
    require(!weight || int64_t(weight->shape(0)) == x.N,
            "weight must have one entry for each sentence");
    x.weight = weight ? weight->data() : nullptr;
    x.all_combinations = all_combinations;
    x.boundaries = boundaries;
    x.float32 = float32;
    nb::gil_scoped_release release;
    new (self) Problem(x);
}

double evaluate(const Problem& problem, Array<const double> theta, Array<double> grad_out,
                int64_t threads) {
    require(int64_t(theta.shape(0)) == problem.n_weights() &&
                int64_t(grad_out.shape(0)) == problem.n_weights(),
            "theta and grad_out must be [n_weights]");
    nb::gil_scoped_release release;
    return problem.evaluate(theta.data(), grad_out.data(), threads);
}

using RowArrays = nb::typed<nb::tuple, Fresh<int64_t>, Fresh<uint16_t>, Fresh<bool>>;

RowArrays rows_of(const Rows& rows) {
    return RowArrays(nb::make_tuple(copied<int64_t>(rows.ptr.data(), rows.ptr.size()),
                                    copied<uint16_t>(rows.cols.data(), rows.cols.size()),
                                    copied<bool>(rows.is_free.data(), rows.is_free.size())));
}

}  // namespace

void bind_training(nb::module_& m) {
    nb::class_<Problem>(m, "Problem",
                        "Encoded sentences and their gold labels, laid out for learning.")
        .def("__init__", make_problem, nb::arg("offsets"), nb::arg("indptr"), nb::arg("ids"),
             nb::arg("values").none(), nb::arg("n_attributes"), nb::arg("edge_indptr").none(),
             nb::arg("edge_ids").none(), nb::arg("edge_values").none(),
             nb::arg("n_edge_attributes"), nb::arg("gold"), nb::arg("n_labels"),
             nb::arg("all_combinations"), nb::arg("boundaries"), nb::arg("weight").none(),
             nb::arg("float32"))
        .def_prop_ro("n_weights", &Problem::n_weights)
        .def_prop_ro("n_labels", [](const Problem& p) { return p.Y; })
        .def_prop_ro("n_sentences", [](const Problem& p) { return p.N; })
        .def_prop_ro("n_tokens", [](const Problem& p) { return p.T; })
        .def(
            "rows", [](const Problem& p) { return rows_of(p.nodes); },
            "(row_ptr [A + 1], cols [W], free [W]) of the node attributes.")
        .def(
            "edge_rows", [](const Problem& p) { return rows_of(p.edges); },
            "The same of the edge attributes; cols are y_prev * Y + y.")
        .def(
            "mask", [](const Problem& p) { return copied<bool>(p.mask.data(), p.mask.size()); },
            "Which weights are free; the others stay zero.")
        .def("evaluate", evaluate, nb::arg("theta"), nb::arg("grad_out").noconvert(),
             nb::arg("threads"),
             "Weighted negative log-likelihood; its gradient is written into grad_out.");
}

}  // namespace tagloom
