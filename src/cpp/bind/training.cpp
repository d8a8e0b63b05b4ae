// Python bindings of learning: check shapes, release the GIL, call core.

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bind/bind.hpp"
#include "bind/gil.hpp"
#include "core/lbfgs.hpp"
#include "core/linear.hpp"
#include "core/online.hpp"

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

// Attributes and columns of weights that must be there.
using Known = std::optional<std::pair<Array<const int32_t>, Array<const uint16_t>>>;

void add_known(Attributes& x, const Known& known) {
    if (!known) return;
    require(known->first.shape(0) == known->second.shape(0),
            "known must be attributes and as many columns");
    x.known = known->first.data();
    x.known_cols = known->second.data();
    x.n_known = known->first.shape(0);
}

using Table = nb::ndarray<const uint8_t, nb::numpy, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class T>
std::vector<T> vector_of(const Array<const T>& array) {
    return std::vector<T>(array.data(), array.data() + array.size());
}

void make_space(Space* self, int64_t n_labels, Array<const int32_t> state_labels,
                Array<const int32_t> src, Array<const int32_t> dst, Array<const bool> initial,
                Array<const bool> final_, Array<const int64_t> tie_indptr,
                Array<const int32_t> tie_ids, Array<const int64_t> start_tie_indptr,
                Array<const int32_t> start_tie_ids, int64_t n_weights, int64_t levels,
                Maybe<const int32_t> dense) {
    Space space;
    space.K = n_weights;
    Automaton& a = space.automaton;
    a.Y = n_labels;
    a.label = vector_of(state_labels);
    a.src = vector_of(src);
    a.dst = vector_of(dst);
    constexpr double forbidden = -std::numeric_limits<double>::infinity();
    for (size_t s = 0; s < initial.size(); ++s) a.start.push_back(initial(s) ? 0.0 : forbidden);
    for (size_t s = 0; s < final_.size(); ++s) a.stop.push_back(final_(s) ? 0.0 : forbidden);
    space.tie_ptr = vector_of(tie_indptr);
    space.ties = vector_of(tie_ids);
    space.start_tie_ptr = vector_of(start_tie_indptr);
    space.start_ties = vector_of(start_tie_ids);
    if (dense) {
        require(levels >= 1 && levels < 64 && n_labels >= 1, "levels must be the order");
        space.levels = levels;
        for (int64_t k = 1; k < levels; ++k) {
            require(space.G <= int64_t(dense->size()), "the dense moves do not fit");
            space.G *= n_labels;
        }
        space.dense = vector_of(*dense);
    }
    space.index();
    new (self) Space(std::move(space));
}

void make_problem(Problem* self, Array<const int64_t> offsets, Array<const int64_t> indptr,
                  Array<const int32_t> ids, Maybe<const float> values, int64_t n_attributes,
                  Maybe<const int64_t> edge_indptr, Maybe<const int32_t> edge_ids,
                  Maybe<const float> edge_values, int64_t n_edge_attributes,
                  Array<const int32_t> gold, int64_t n_labels, bool all_combinations,
                  bool boundaries, Maybe<const double> weight, bool float32, Known known,
                  Known known_edges, const Space* space, std::optional<Table> sets,
                  Maybe<const int32_t> allowed, int64_t threads) {
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
    add_known(x.nodes, known);
    add_known(x.edges, known_edges);
    x.gold = gold.data();
    require(!weight || int64_t(weight->shape(0)) == x.N,
            "weight must have one entry for each sentence");
    x.weight = weight ? weight->data() : nullptr;
    x.all_combinations = all_combinations;
    x.boundaries = boundaries;
    x.float32 = float32;
    x.space = space;
    if (sets) {
        require(int64_t(sets->shape(1)) == n_labels, "sets must be [n, n_labels]");
        x.sets = sets->data();
        x.n_sets = sets->shape(0);
        for (size_t j = 0; j < sets->size(); ++j)
            require(x.sets[j] <= 1, "sets must be of 0 and 1");
    }
    require(!allowed || int64_t(allowed->shape(0)) == x.T, "allowed must be [tokens]");
    x.allowed = allowed ? allowed->data() : nullptr;
    const WithoutGil unlocked;
    new (self) Problem(x, threads);
}

double evaluate(const Problem& problem, Array<const double> theta, Array<double> grad_out,
                int64_t threads) {
    require(int64_t(theta.shape(0)) == problem.n_weights() &&
                int64_t(grad_out.shape(0)) == problem.n_weights(),
            "theta and grad_out must be [n_weights]");
    const WithoutGil unlocked;
    return problem.evaluate(theta.data(), grad_out.data(), threads);
}

using RowArrays = nb::typed<nb::tuple, Fresh<int64_t>, Fresh<uint16_t>, Fresh<bool>>;

RowArrays rows_of(const Rows& rows) {
    return RowArrays(nb::make_tuple(copied<int64_t>(rows.ptr.data(), rows.ptr.size()),
                                    copied<uint16_t>(rows.cols.data(), rows.cols.size()),
                                    copied<bool>(rows.is_free.data(), rows.is_free.size())));
}

// ---------------------------------------------------------------------------------------------
// Optimisers. What a state holds is a dict of arrays by name.

using State = nb::typed<nb::dict, nb::str, nb::any>;

template <class T>
std::vector<T> taken(const State& state, const char* name) {
    require(state.contains(name), "the state lacks one of its arrays; it is of another optimiser");
    const auto array = nb::cast<Array<const T>>(state[name]);
    return std::vector<T>(array.data(), array.data() + array.size());
}

// Vectors of one length one after another, and back.
template <class T>
Fresh<T> joined(const std::vector<std::vector<T>>& rows, size_t width) {
    auto* own = new T[rows.size() * width];
    nb::capsule owner(own, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    for (size_t i = 0; i < rows.size(); ++i) std::copy_n(rows[i].data(), width, own + i * width);
    return Fresh<T>(own, {rows.size() * width}, owner);
}

template <class T>
std::vector<std::vector<T>> parted(const std::vector<T>& all, size_t rows, size_t width) {
    require(all.size() == rows * width, "the state is of another problem");
    std::vector<std::vector<T>> out;
    for (size_t i = 0; i < rows; ++i)
        out.emplace_back(all.begin() + i * width, all.begin() + (i + 1) * width);
    return out;
}

template <class T>
Fresh<T> copy_of(const std::vector<T>& values) {
    return copied<T>(values.data(), values.size());
}

State lbfgs_state(Lbfgs& optimiser) {
    std::lock_guard lock(optimiser.mutex);
    const LbfgsState& state = optimiser.state;
    const double loss[2] = {state.loss, double(state.evaluated)};
    State out;
    out["theta"] = copy_of(state.theta);
    out["grad"] = copy_of(state.grad);
    out["s"] = joined(state.s, state.theta.size());
    out["y"] = joined(state.y, state.theta.size());
    out["sy"] = copy_of(state.sy);
    out["yy"] = copy_of(state.yy);
    out["s_dot_grad"] = copy_of(state.s_dot_grad);
    out["y_dot_grad"] = copy_of(state.y_dot_grad);
    out["loss"] = copied<double>(loss, 2);
    return out;
}

void lbfgs_restore(Lbfgs& optimiser, const State& from) {
    LbfgsState state;
    state.theta = taken<double>(from, "theta");
    state.grad = taken<double>(from, "grad");
    state.sy = taken<double>(from, "sy");
    state.yy = taken<double>(from, "yy");
    state.s_dot_grad = taken<double>(from, "s_dot_grad");
    state.y_dot_grad = taken<double>(from, "y_dot_grad");
    const size_t n = optimiser.state.theta.size(), k = state.s_dot_grad.size();
    state.s = parted(taken<float>(from, "s"), k, n);
    state.y = parted(taken<float>(from, "y"), k, n);
    const auto loss = taken<double>(from, "loss");
    require(state.theta.size() == n && state.grad.size() == n && state.sy.size() == k * k &&
                state.yy.size() == k * k && state.y_dot_grad.size() == k && loss.size() == 2 &&
                int64_t(k) <= optimiser.memory,
            "the state is of another problem, or of an optimiser with another memory");
    state.loss = loss[0];
    state.evaluated = loss[1] != 0;
    std::lock_guard lock(optimiser.mutex);
    optimiser.state = std::move(state);
}

void bind_lbfgs(nb::module_& m) {
    nb::class_<Lbfgs>(m, "Lbfgs", "L-BFGS, or OWL-QN with l1; see tagloom.training.LBFGS.")
        .def(
            "__init__",
            [](Lbfgs* self, const Problem& problem, double l1, double l2, int64_t memory) {
                require(l1 >= 0 && l2 >= 0 && memory >= 0, "penalties and memory start at 0");
                new (self) Lbfgs(problem, Penalty{l1, l2}, memory);
            },
            nb::arg("problem"), nb::arg("l1"), nb::arg("l2"), nb::arg("memory"),
            nb::keep_alive<1, 2>())
        .def(
            "step",
            [](Lbfgs& self, int64_t threads) {
                const WithoutGil unlocked;
                std::lock_guard lock(self.mutex);
                const Iteration i = self.step(threads);
                return std::make_tuple(i.loss, i.grad_norm, i.norm, i.evaluations, i.moved);
            },
            nb::arg("threads"),
            "One iteration: (loss, |gradient|, |theta|, evaluations, whether it moved).")
        .def("theta",
             [](Lbfgs& self) {
                 std::lock_guard lock(self.mutex);
                 return copy_of(self.state.theta);
             })
        .def(
            "start_from",
            [](Lbfgs& self, Array<const double> theta) {
                require(theta.size() == self.state.theta.size(), "theta must be [n_weights]");
                std::lock_guard lock(self.mutex);
                std::copy_n(theta.data(), theta.size(), self.state.theta.begin());
                self.state.evaluated = false;
            },
            nb::arg("theta"))
        .def("state", lbfgs_state)
        .def("restore", lbfgs_restore, nb::arg("state"));
}

// ---------------------------------------------------------------------------------------------
// One sentence at a time

struct OnlineOwner {  // Python holds it; the rule behind it is chosen at run time
    std::unique_ptr<Online> online;
    int64_t sentences;
};

Rule rule_of(const std::string& name) {
    if (name == "adagrad") return Rule::adagrad;
    if (name == "sgd") return Rule::sgd;
    if (name == "perceptron") return Rule::perceptron;
    if (name == "subgradient") return Rule::subgradient;
    require(name == "frank-wolfe",
            "the rule must be adagrad, sgd, perceptron, subgradient or frank-wolfe");
    return Rule::frank_wolfe;
}

std::tuple<double, int64_t> online_epoch(OnlineOwner& self, Array<const int64_t> permutation) {
    require(int64_t(permutation.size()) == self.sentences,
            "permutation must have one entry for each sentence");
    for (size_t i = 0; i < permutation.size(); ++i)
        require(permutation(i) >= 0 && permutation(i) < self.sentences,
                "permutation must name sentences");
    const WithoutGil unlocked;
    std::lock_guard lock(self.online->mutex);
    const Epoch epoch = self.online->epoch(permutation.data());
    return {epoch.loss, epoch.mistakes};
}

State online_state(OnlineOwner& self) {
    std::lock_guard lock(self.online->mutex);
    const OnlineState state = self.online->state();
    const int64_t counters[3] = {state.epochs, state.averaged, state.steps};
    State out;
    out["theta"] = copy_of(state.theta);
    out["squares"] = copy_of(state.squares);
    out["sums"] = copy_of(state.sums);
    out["counters"] = copied<int64_t>(counters, 3);
    out["n_paths"] = copy_of(state.n_paths);
    out["paths"] = copy_of(state.paths);
    out["shares"] = copy_of(state.shares);
    return out;
}

void online_restore(OnlineOwner& self, const State& from) {
    OnlineState state;
    state.theta = taken<double>(from, "theta");
    state.squares = taken<double>(from, "squares");
    state.sums = taken<double>(from, "sums");
    const auto counters = taken<int64_t>(from, "counters");
    require(counters.size() == 3, "the state is of another optimiser");
    state.epochs = counters[0];
    state.averaged = counters[1];
    state.steps = counters[2];
    state.n_paths = taken<int64_t>(from, "n_paths");
    state.paths = taken<int32_t>(from, "paths");
    state.shares = taken<double>(from, "shares");
    std::lock_guard lock(self.online->mutex);
    self.online->restore(state);
}

void bind_online(nb::module_& m) {
    nb::class_<OnlineOwner>(m, "Online",
                            "AdaGrad, SGD, the perceptron and the SVM; see tagloom.training.")
        .def(
            "__init__",
            [](OnlineOwner* self, const Problem& problem, const std::string& rule, double l2,
               double eta, double decay, bool average, int64_t average_from, double first_square,
               double C, Maybe<const double> cost, double margin) {
                require(l2 >= 0 && eta >= 0 && decay >= 0 && average_from >= 0 &&
                            first_square > 0 && margin >= 0,
                        "l2, eta, decay, average_from and margin start at 0, first_square above");
                OnlineOptions options{rule_of(rule), l2,           eta, decay, average,
                                      average_from,  first_square, C,   {},    margin};
                if (options.rule == Rule::subgradient || options.rule == Rule::frank_wolfe)
                    require(C > 0 && cost, "the SVM needs C above 0 and cost [Y * Y]");
                if (cost) {
                    require(int64_t(cost->size()) == problem.Y * problem.Y, "cost must be [Y * Y]");
                    options.cost.assign(cost->data(), cost->data() + cost->size());
                }
                new (self) OnlineOwner{Online::make(problem, options), problem.N};
            },
            nb::arg("problem"), nb::arg("rule"), nb::arg("l2"), nb::arg("eta"), nb::arg("decay"),
            nb::arg("average"), nb::arg("average_from"), nb::arg("first_square"),
            nb::arg("C") = 1.0, nb::arg("cost").none() = nb::none(), nb::arg("margin") = 0.0,
            nb::keep_alive<1, 2>())
        .def(
            "certify",
            [](OnlineOwner& self) {
                const WithoutGil unlocked;
                std::lock_guard lock(self.online->mutex);
                const Certificate found = self.online->certify();
                return std::make_tuple(found.loss, found.cost);
            },
            "Of frank-wolfe: (sum of weighted losses, sum of weighted mean costs); see the core.")
        .def("epoch", online_epoch, nb::arg("permutation"),
             "One pass over the sentences: (sum of losses, sentences with a mistake).")
        .def("theta",
             [](OnlineOwner& self) {
                 std::lock_guard lock(self.online->mutex);
                 return copy_of(self.online->theta());
             })
        .def("state", online_state)
        .def("restore", online_restore, nb::arg("state"));
}

}  // namespace

void bind_training(nb::module_& m) {
    nb::class_<Space>(m, "Space", "The moves of a state space and the weights they are tied to.")
        .def("__init__", make_space, nb::arg("n_labels"), nb::arg("state_labels"), nb::arg("src"),
             nb::arg("dst"), nb::arg("initial"), nb::arg("final"), nb::arg("tie_indptr"),
             nb::arg("tie_ids"), nb::arg("start_tie_indptr"), nb::arg("start_tie_ids"),
             nb::arg("n_weights"), nb::arg("levels") = 0, nb::arg("dense").none() = nb::none());
    nb::class_<Problem>(m, "Problem",
                        "Encoded sentences and their gold labels, laid out for learning.")
        .def("__init__", make_problem, nb::arg("offsets"), nb::arg("indptr"), nb::arg("ids"),
             nb::arg("values").none(), nb::arg("n_attributes"), nb::arg("edge_indptr").none(),
             nb::arg("edge_ids").none(), nb::arg("edge_values").none(),
             nb::arg("n_edge_attributes"), nb::arg("gold"), nb::arg("n_labels"),
             nb::arg("all_combinations"), nb::arg("boundaries"), nb::arg("weight").none(),
             nb::arg("float32"), nb::arg("known").none() = nb::none(),
             nb::arg("known_edges").none() = nb::none(), nb::arg("space").none() = nb::none(),
             nb::arg("sets").none() = nb::none(), nb::arg("allowed").none() = nb::none(),
             nb::arg("threads") = 1)
        .def_prop_ro("n_weights", &Problem::n_weights)
        .def_prop_ro("n_labels", [](const Problem& p) { return p.Y; })
        .def_prop_ro("n_sentences", [](const Problem& p) { return p.N; })
        .def_prop_ro("n_tokens", [](const Problem& p) { return p.T; })
        .def_prop_ro("boundaries", [](const Problem& p) { return p.boundaries; })
        .def(
            "rows", [](const Problem& p) { return rows_of(p.nodes); },
            "(row_ptr [A + 1], cols [W], free [W]) of the node attributes.")
        .def(
            "edge_rows", [](const Problem& p) { return rows_of(p.edges); },
            "The same of the edge attributes; cols are y_prev * Y + y.")
        .def(
            "mask", [](const Problem& p) { return copied<bool>(p.mask.data(), p.mask.size()); },
            "Which weights are free; the others stay zero.")
        .def(
            "set_mask",
            [](Problem& p, Array<const bool> free) {
                require(int64_t(free.shape(0)) == p.n_weights(), "free must be [n_weights]");
                std::copy_n(free.data(), p.mask.size(), p.mask.begin());
            },
            nb::arg("free"), "Say which weights are free, before an optimiser looks at them.")
        .def("evaluate", evaluate, nb::arg("theta"), nb::arg("grad_out").noconvert(),
             nb::arg("threads"),
             "Weighted negative log-likelihood; its gradient is written into grad_out.");
    bind_lbfgs(m);
    bind_online(m);
}

}  // namespace tagloom
