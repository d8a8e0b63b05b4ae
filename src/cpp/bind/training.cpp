// Python bindings of training: check shapes, release the GIL, call core.

#include <nanobind/ndarray.h>

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

#ifdef __GLIBC__  // as the headers above define it
#include <malloc.h>
#endif

#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/gil.hpp"
#include "core/lbfgs.hpp"
#include "core/linear.hpp"
#include "core/online.hpp"
#include "core/resident.hpp"

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

// The Attributes and Labels of Python: arrays that belong together, held until a LinearObjective
// has copied them.
using Extra = std::optional<std::pair<Array<const int32_t>, Array<const uint16_t>>>;

struct AttributeArrays {
    Array<const int64_t> indptr;
    Array<const int32_t> ids;
    int64_t n;
    Maybe<const float> values;
    Extra extra;

    Attributes view(int64_t T, const char* what) const {
        require(int64_t(indptr.shape(0)) == T + 1, what);
        Attributes x{indptr.data(), ids.data(), values ? values->data() : nullptr,
                     int64_t(ids.shape(0)), n};
        if (extra) {
            x.extra = extra->first.data();
            x.extra_cols = extra->second.data();
            x.n_extra = extra->first.shape(0);
        }
        return x;
    }
};

void make_attributes(AttributeArrays* self, Array<const int64_t> indptr, Array<const int32_t> ids,
                     int64_t n, Maybe<const float> values, Extra extra) {
    require(!values || values->shape(0) == ids.shape(0), "values must have one entry for each id");
    require(!extra || extra->first.shape(0) == extra->second.shape(0),
            "extra must be two arrays of the same length, attributes and columns");
    new (self)
        AttributeArrays{std::move(indptr), std::move(ids), n, std::move(values), std::move(extra)};
}

using Table = nb::ndarray<const uint8_t, nb::numpy, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

struct LabelArrays {
    Array<const int32_t> gold;
    int64_t n_labels;
    std::optional<Table> sets;
    Maybe<const int32_t> allowed;
};

void make_labels(LabelArrays* self, Array<const int32_t> gold, int64_t n_labels,
                 std::optional<Table> sets, Maybe<const int32_t> allowed) {
    if (sets) {
        require(int64_t(sets->shape(1)) == n_labels, "sets must be [n, n_labels]");
        for (size_t j = 0; j < sets->size(); ++j)
            require(sets->data()[j] <= 1, "sets must contain 0 and 1 only");
    }
    require(!allowed || allowed->shape(0) == gold.shape(0), "allowed must be [tokens]");
    new (self) LabelArrays{std::move(gold), n_labels, std::move(sets), std::move(allowed)};
}

Examples examples_of(const Array<const int64_t>& offsets, const AttributeArrays& nodes,
                     const LabelArrays& labels, const AttributeArrays* edges,
                     const Maybe<const double>& weight, bool boundaries, bool float32,
                     const Space* space) {
    Examples x{};
    x.N = int64_t(offsets.shape(0)) - 1;
    x.T = labels.gold.shape(0);
    x.Y = labels.n_labels;
    require(x.N >= 0, "offsets must have at least one entry");
    x.offsets = offsets.data();
    x.nodes = nodes.view(x.T, "indptr of nodes must have one more entry than gold");
    if (edges) x.edges = edges->view(x.T, "indptr of edges must have one more entry than gold");
    x.gold = labels.gold.data();
    require(!weight || int64_t(weight->shape(0)) == x.N,
            "weight must have one entry for each sentence");
    x.weight = weight ? weight->data() : nullptr;
    x.boundaries = boundaries;
    x.float32 = float32;
    x.space = space;
    if (labels.sets) {
        x.sets = labels.sets->data();
        x.n_sets = labels.sets->shape(0);
    }
    x.allowed = labels.allowed ? labels.allowed->data() : nullptr;
    return x;
}

void make_linear_objective(LinearObjective* self, Array<const int64_t> offsets,
                           const AttributeArrays& nodes, const LabelArrays& labels,
                           const AttributeArrays* edges, Maybe<const double> weight,
                           bool all_combinations, bool boundaries, bool float32, const Space* space,
                           const SegmentShape* segments, bool batches_only, const Pruning* prune,
                           int64_t warm_up, const Trigrams* trigrams, const Subtags* subtags,
                           int64_t threads, bool pattern_only) {
    Examples x = examples_of(offsets, nodes, labels, edges, weight, boundaries, float32, space);
    x.all_combinations = all_combinations;
    x.segments = segments;
    x.batches_only = batches_only;
    x.pruning = prune;
    x.warm_up = warm_up;
    x.trigrams = trigrams;
    x.subtags = subtags;
    x.pattern_only = pattern_only;
    const WithoutGil unlocked;
#ifdef __GLIBC__
    malloc_trim(0);  // returns what encoding has freed, a tenth of the memory of training
#endif
    new (self) LinearObjective(x, threads);
}

double evaluate(const Objective& objective, Array<const double> theta, Array<double> grad_out,
                int64_t threads) {
    require(int64_t(theta.shape(0)) == objective.size() &&
                int64_t(grad_out.shape(0)) == objective.size(),
            "theta and grad_out must be [n_weights]");
    const WithoutGil unlocked;
    return objective.evaluate(theta.data(), grad_out.data(), threads);
}

Fresh<bool> mask_of(const Objective& objective) {
    const std::vector<uint8_t> all(objective.mask() ? 0 : objective.size(), 1);
    return copied<bool>(objective.mask() ? objective.mask() : all.data(), objective.size());
}

template <class T>
using Shared = nb::ndarray<nb::numpy, const T, nb::ndim<1>>;
using RowArrays = nb::typed<nb::tuple, Shared<int64_t>, Shared<uint16_t>, Fresh<bool>>;

// An array that keeps `holder` alive, which has the values.
template <class T>
Shared<T> shared(const std::vector<T>& values, std::shared_ptr<const WeightPattern> holder) {
    using Holder = std::shared_ptr<const WeightPattern>;
    auto own = std::make_unique<Holder>(std::move(holder));
    nb::capsule owner(own.get(), [](void* p) noexcept { delete static_cast<Holder*>(p); });
    own.release();
    return Shared<T>(values.data(), {values.size()}, owner);
}

// Without copies of the large arrays: they have a number for each weight.
RowArrays rows_of(const LinearObjective& of, const std::shared_ptr<WeightPattern>& rows,
                  int64_t first) {
    return RowArrays(nb::make_tuple(shared(rows->ptr, rows), shared(rows->cols, rows),
                                    copied<bool>(of.is_free.data() + first, rows->cols.size())));
}

// ---------------------------------------------------------------------------------------------
// Optimisers. A state is a dict of arrays.

using State = nb::typed<nb::dict, nb::str, nb::any>;

template <class T>
std::vector<T> taken(const State& state, const char* name) {
    require(state.contains(name), "the state is of another optimiser: an array is missing");
    const auto array = nb::cast<Array<const T>>(state[name]);
    return std::vector<T>(array.data(), array.data() + array.size());
}

// Concatenates vectors of one length.
template <class T>
Fresh<T> joined(const std::vector<std::vector<T>>& rows, size_t width) {  // flat [rows, width]
    auto* own = new T[rows.size() * width];
    nb::capsule owner(own, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    for (size_t i = 0; i < rows.size(); ++i) std::copy_n(rows[i].data(), width, own + i * width);
    return Fresh<T>(own, {rows.size() * width}, owner);
}

// The reverse of joined().
template <class T>
std::vector<std::vector<T>> split(const std::vector<T>& all, size_t rows, size_t width) {
    require(all.size() == rows * width, "the state is of another objective");
    std::vector<std::vector<T>> out;
    for (size_t i = 0; i < rows; ++i)
        out.emplace_back(all.begin() + i * width, all.begin() + (i + 1) * width);
    return out;
}

template <class T>
Fresh<T> copy_of(const std::vector<T>& values) {
    return copied<T>(values.data(), values.size());
}

template <class T>
Fresh<T> moved(std::vector<T>&& values) {
    auto* own = new std::vector<T>(std::move(values));
    nb::capsule owner(own, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return Fresh<T>(own->data(), {own->size()}, owner);
}

State lbfgs_state(Lbfgs& optimiser) {
    std::lock_guard lock(optimiser.mutex);
    const LbfgsState& state = optimiser.state;
    const double loss[2] = {state.loss, double(state.evaluated)};
    State out;
    out["theta"] = copy_of(state.theta);
    out["grad"] = copy_of(state.grad);
    std::visit(
        [&](const auto& pairs) {
            out["s"] = joined(pairs.s, state.theta.size());
            out["y"] = joined(pairs.y, state.theta.size());
        },
        state.history);
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
    auto pairs = [&]<class T>(LbfgsPairs<T>) {
        return LbfgsPairs<T>{split(taken<T>(from, "s"), k, n), split(taken<T>(from, "y"), k, n)};
    };
    if (optimiser.is_exact())
        state.history = pairs(LbfgsPairs<double>{});
    else
        state.history = pairs(LbfgsPairs<float>{});
    const auto loss = taken<double>(from, "loss");
    require(state.theta.size() == n && state.grad.size() == n && state.sy.size() == k * k &&
                state.yy.size() == k * k && state.y_dot_grad.size() == k && loss.size() == 2 &&
                int64_t(k) <= optimiser.memory,
            "the state is of another objective, or of an optimiser with another memory");
    state.loss = loss[0];
    state.evaluated = loss[1] != 0;
    std::lock_guard lock(optimiser.mutex);
    optimiser.restore(std::move(state));
}

using IterationValues = std::tuple<double, double, double, int64_t, bool>;

IterationValues values_of(const Iteration& i) {
    return {i.loss, i.grad_norm, i.norm, i.evaluations, i.moved};
}

void make_lbfgs(Lbfgs* self, int64_t size, double l1, double l2, int64_t memory,
                Maybe<const bool> free, double rounding) {
    require(size >= 0 && l1 >= 0 && l2 >= 0 && memory >= 0 && rounding >= 0,
            "size, l1, l2, memory and rounding must not be negative");
    require(!free || int64_t(free->shape(0)) == size, "free must be [size]");
    std::vector<uint8_t> mask;
    if (free) mask.assign(free->data(), free->data() + size);
    new (self) Lbfgs(size, Penalty{l1, l2}, memory, free ? mask.data() : nullptr, rounding);
}

IterationValues lbfgs_step(Lbfgs& self, const Objective& objective, int64_t threads) {
    require(objective.size() == int64_t(self.state.theta.size()),
            "objective and optimiser differ in their number of weights");
    const WithoutGil unlocked;
    std::lock_guard lock(self.mutex);
    return values_of(self.step(objective, threads));
}

std::optional<Fresh<double>> lbfgs_ask(Lbfgs& self, int64_t threads) {
    std::optional<std::vector<double>> point;
    {
        const WithoutGil unlocked;
        std::lock_guard lock(self.mutex);
        if (const double* theta = self.ask(threads))
            point.emplace(theta, theta + self.state.theta.size());
    }
    if (!point) return std::nullopt;
    return copy_of(*point);
}

bool lbfgs_tell(Lbfgs& self, double loss, Array<const double> grad, int64_t threads) {
    require(grad.size() == self.state.theta.size(), "grad must be [size]");
    const WithoutGil unlocked;
    std::lock_guard lock(self.mutex);
    return self.tell(loss, grad.data(), threads);
}

void bind_lbfgs(nb::module_& m) {
    nb::class_<Lbfgs>(m, "Lbfgs", "L-BFGS, or OWL-QN with l1; see tagloom.training.LBFGS.")
        .def("__init__", make_lbfgs, nb::arg("size"), nb::arg("l1"), nb::arg("l2"),
             nb::arg("memory"), nb::arg("free").none() = nb::none(), nb::arg("rounding") = 1e-14)
        .def("step", lbfgs_step, nb::arg("objective"), nb::arg("threads"),
             "One iteration; see `iteration`.")
        .def("ask", lbfgs_ask, nb::arg("threads"),
             "The point [size] at which loss and gradient are needed next; None if no step along "
             "the gradient lowers the loss.")
        .def("tell", lbfgs_tell, nb::arg("loss"), nb::arg("grad"), nb::arg("threads"),
             "Pass loss and gradient at that point, without penalties; True if this completes the "
             "iteration.")
        .def_prop_ro(
            "iteration",
            [](Lbfgs& self) {
                std::lock_guard lock(self.mutex);
                return values_of(self.iteration);
            },
            "The last iteration: (loss, |gradient|, |theta|, evaluations, whether theta changed).")
        .def_prop_ro("size", [](const Lbfgs& self) { return self.state.theta.size(); })
        .def_prop_ro("is_asked", &Lbfgs::is_asked, "Whether a point from ask() awaits tell().")
        .def("theta",
             [](Lbfgs& self) {
                 std::lock_guard lock(self.mutex);
                 return copy_of(self.state.theta);
             })
        .def(
            "start_from",
            [](Lbfgs& self, Array<const double> theta) {
                require(theta.size() == self.state.theta.size(), "theta must be [size]");
                std::lock_guard lock(self.mutex);
                self.start_from(theta.data());
            },
            nb::arg("theta"))
        .def("state", lbfgs_state)
        .def("restore", lbfgs_restore, nb::arg("state"));
}

// ---------------------------------------------------------------------------------------------
// Online learners

struct OnlineOwner {  // the Python object; its rule is chosen at run time
    std::unique_ptr<Online> online;
    int64_t sentences;
    bool is_taken = false;  // by take_theta()
};

// Access to an optimiser for one thread at a time.
struct LockedOnline {
    explicit LockedOnline(const OnlineOwner& owner) : lock(owner.online->mutex) {
        require(!owner.is_taken, "the weights of this optimiser have been taken");
    }
    std::lock_guard<std::mutex> lock;
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

void check_places(const Array<const int64_t>& permutation, int64_t n);

std::tuple<double, int64_t> online_epoch(OnlineOwner& self, Array<const int64_t> permutation) {
    check_places(permutation, self.sentences);
    const WithoutGil unlocked;
    const LockedOnline locked(self);
    const Epoch epoch = self.online->epoch(permutation.data(), permutation.size());
    return {epoch.loss, epoch.mistakes};
}

State online_state(OnlineOwner& self) {
    const LockedOnline locked(self);
    const OnlineState state = self.online->state();
    const int64_t counters[3] = {state.epochs, state.averaged, state.steps};
    State out;
    out["theta"] = copy_of(state.theta);
    out["squares"] = copy_of(state.squares);
    out["sums"] = copy_of(state.sums);
    out["counters"] = copied<int64_t>(counters, 3);
    const double progress[2] = {double(state.corpus), state.elapsed};
    out["progress"] = copied<double>(progress, 2);
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
    require(counters.size() == 3, "the state is of another optimiser: it must have 3 counters");
    state.epochs = counters[0];
    state.averaged = counters[1];
    state.steps = counters[2];
    if (from.contains("progress")) {  // checkpoints of earlier versions lack it
        const auto progress = taken<double>(from, "progress");
        require(progress.size() == 2, "the state is of another optimiser: progress must be [2]");
        state.corpus = int64_t(progress[0]);
        state.elapsed = progress[1];
    }
    state.n_paths = taken<int64_t>(from, "n_paths");
    state.paths = taken<int32_t>(from, "paths");
    state.shares = taken<double>(from, "shares");
    const LockedOnline locked(self);
    self.online->restore(state);
}

void check_places(const Array<const int64_t>& permutation, int64_t n) {
    for (size_t i = 0; i < permutation.size(); ++i)
        require(permutation(i) >= 0 && permutation(i) < n,
                "permutation must contain 0 to n_sentences - 1");
}

OnlineOptions options_of(const std::string& rule, double l2, double eta, double decay, bool average,
                         int64_t average_from, double first_square, double C, double margin) {
    require(
        l2 >= 0 && eta >= 0 && decay >= 0 && average_from >= 0 && first_square > 0 && margin >= 0,
        "l2, eta, decay, average_from and margin must not be negative, and first_square must "
        "be positive");
    const OnlineOptions options{rule_of(rule), l2,           eta, decay, average,
                                average_from,  first_square, C,   {},    margin};
    if (options.rule == Rule::subgradient || options.rule == Rule::frank_wolfe)
        require(C > 0, "the SVM needs C > 0");
    return options;
}

std::vector<double> costs_of(const Maybe<const double>& cost, Rule rule, int64_t Y) {
    require(cost || (rule != Rule::subgradient && rule != Rule::frank_wolfe),
            "the SVM needs cost [Y * Y]");
    if (!cost) return {};
    require(int64_t(cost->size()) == Y * Y, "cost must be [Y * Y]");
    return {cost->data(), cost->data() + cost->size()};
}

void bind_online(nb::module_& m) {
    nb::class_<OnlineOwner>(m, "Online",
                            "AdaGrad, SGD, the perceptron and the SVM; see tagloom.training.")
        .def(
            "__init__",
            [](OnlineOwner* self, const LinearObjective& objective, const std::string& rule,
               double l2, double eta, double decay, bool average, int64_t average_from,
               double first_square, double C, Maybe<const double> cost, double margin) {
                OnlineOptions options = options_of(rule, l2, eta, decay, average, average_from,
                                                   first_square, C, margin);
                options.cost = costs_of(cost, options.rule, objective.Y);
                new (self) OnlineOwner{Online::make(objective, options), objective.N};
            },
            nb::arg("objective"), nb::arg("rule"), nb::kw_only(), nb::arg("l2") = 0.0,
            nb::arg("eta") = 0.0, nb::arg("decay") = 0.0, nb::arg("average") = false,
            nb::arg("average_from") = 0, nb::arg("first_square") = 1.0, nb::arg("C") = 1.0,
            nb::arg("cost").none() = nb::none(), nb::arg("margin") = 0.0, nb::keep_alive<1, 2>())
        .def(
            "certify",
            [](OnlineOwner& self) {
                const WithoutGil unlocked;
                const LockedOnline locked(self);
                const Certificate found = self.online->certify();
                return std::make_tuple(found.loss, found.cost);
            },
            "For frank-wolfe, whose duality gap is |theta|^2 + C (loss - cost): (loss, cost), sums "
            "of weighted losses and of weighted mean costs.")
        .def(
            "epoch", online_epoch, nb::arg("permutation"),
            "One pass over the sentences, or over some: (sum of losses, sentences with a mistake).")
        .def("theta",
             [](OnlineOwner& self) {
                 const LockedOnline locked(self);
                 return moved(self.online->theta());
             })
        .def(
            "take_theta",
            [](OnlineOwner& self) {
                const LockedOnline locked(self);
                self.is_taken = true;
                return moved(self.online->take_theta());
            },
            "The same, with less memory; no other call may follow.")
        .def("state", online_state)
        .def("restore", online_restore, nb::arg("state"));
}

// ---------------------------------------------------------------------------------------------
// The resident model. Callers serialise learning and reading: what they read together, such as the
// rows and the tail, must be of the same moment, so a lock for each call would not do.

struct ResidentOwner {
    std::unique_ptr<Resident> model;
    Rule rule;

    int64_t section(int64_t s) const {
        require(s >= 0 && s < model->n_sections(), "no such section");
        return s;
    }
};

Fresh<float> resident_score(ResidentOwner& self, int64_t section, Array<const int64_t> indptr,
                            Array<const int32_t> ids, Maybe<const float> values, int64_t group,
                            double least, int64_t threads) {
    self.section(section);
    const int64_t T = int64_t(indptr.shape(0)) - 1, nnz = ids.shape(0);
    require(T >= 0 && group >= 1 && threads >= 1, "indptr must not be empty");
    require(!values || int64_t(values->shape(0)) == nnz, "values must have one entry for each id");
    bool fits = indptr(0) == 0 && indptr(T) == nnz;
    for (int64_t t = 0; fits && t < T; ++t) fits = indptr(t) <= indptr(t + 1);
    require(fits, "indptr must rise from 0 to the number of ids");
    const int64_t known = self.model->n_attributes(section) / group;
    for (int64_t j = 0; j < nnz; ++j)
        require(ids(j) >= 0 && ids(j) < known, "an attribute has no row yet");
    const size_t size = size_t(T) * group * self.model->width(section);
    auto* own = new float[size];
    nb::capsule owner(own, [](void* p) noexcept { delete[] static_cast<float*>(p); });
    const Attributes x{indptr.data(), ids.data(), values ? values->data() : nullptr, nnz, known};
    {
        const WithoutGil unlocked;
        self.model->score(section, group, x, T, float(least), threads, own);
    }
    return Fresh<float>(own, {size}, owner);
}

std::tuple<double, int64_t> resident_learn(ResidentOwner& self, Array<const int64_t> offsets,
                                           const AttributeArrays& nodes, const LabelArrays& labels,
                                           Array<const int64_t> permutation,
                                           const AttributeArrays* edges, Maybe<const double> weight,
                                           Maybe<const double> cost, bool boundaries,
                                           const Space* space, bool frees_seen) {
    Examples x = examples_of(offsets, nodes, labels, edges, weight, boundaries, true, space);
    require(int64_t(permutation.size()) == x.N, "permutation must be [n_sentences]");
    check_places(permutation, x.N);
    require(x.Y == self.model->n_labels(), "set_labels() has not been called");
    int64_t n_nodes = 0;
    for (int64_t s = 0; s + 1 < self.model->n_sections(); ++s)
        n_nodes += self.model->n_attributes(s);
    require(x.nodes.n == n_nodes, "grow() has not been called for the attributes of nodes");
    require(!edges || x.edges.n == self.model->n_attributes(self.model->n_sections() - 1),
            "grow() has not been called for the attributes of edges");
    std::vector<double> costs = costs_of(cost, self.rule, x.Y);
    const WithoutGil unlocked;
    const Epoch epoch = self.model->learn(x, permutation.data(), std::move(costs), frees_seen);
    return {epoch.loss, epoch.mistakes};
}

using Ids = std::vector<std::optional<Array<const int64_t>>>;

void resident_set_labels(ResidentOwner& self, int64_t n_labels, Array<const int64_t> place,
                         const Ids& ids) {
    require(int64_t(place.size()) == self.model->n_labels() && n_labels >= self.model->n_labels(),
            "place must have an entry for each old label");
    std::vector<uint8_t> taken(n_labels);
    for (size_t y = 0; y < place.size(); ++y)
        require(place(y) >= 0 && place(y) < n_labels && !std::exchange(taken[place(y)], 1),
                "place must contain different numbers below n_labels");
    require(int64_t(ids.size()) == self.model->n_sections(), "ids must be [sections]");
    std::vector<std::vector<int64_t>> all(ids.size());
    for (size_t s = 0; s < ids.size(); ++s) {
        if (!ids[s]) continue;
        all[s].assign(ids[s]->data(), ids[s]->data() + ids[s]->size());
        for (const int64_t a : all[s])
            require(a >= -1 && a < self.model->n_attributes(s), "ids must be old numbers, or -1");
    }
    const WithoutGil unlocked;
    self.model->set_labels(n_labels, {place.data(), place.size()}, all);
}

void resident_start_from(ResidentOwner& self, int64_t section, Array<const int32_t> attributes,
                         Array<const int32_t> columns, Array<const double> weights) {
    const int64_t s = self.section(section);
    require(attributes.size() == weights.size() && columns.size() == weights.size(),
            "attributes, columns and weights must have one length");
    for (size_t j = 0; j < weights.size(); ++j)
        require(attributes(j) >= 0 && attributes(j) < self.model->n_attributes(s) &&
                    columns(j) >= 0 && columns(j) < self.model->width(s),
                "an attribute or a column is out of range");
    const WithoutGil unlocked;
    self.model->start_from(s, {attributes.data(), attributes.size()},
                           {columns.data(), columns.size()}, {weights.data(), weights.size()});
}

#define TL_ONLINE_OPTIONS                                                             \
    nb::kw_only(), nb::arg("l2") = 0.0, nb::arg("eta") = 0.0, nb::arg("decay") = 0.0, \
                   nb::arg("average") = false, nb::arg("average_from") = 0,           \
                   nb::arg("first_square") = 1.0, nb::arg("C") = 1.0, nb::arg("margin") = 0.0

void bind_resident(nb::module_& m) {
    nb::class_<ResidentOwner>(
        m, "Resident", "A linear model that learns in place and grows; see tagloom.training.")
        .def(
            "__init__",
            [](ResidentOwner* self, const std::string& rule, int64_t n_labels,
               int64_t n_node_sections, double l2, double eta, double decay, bool average,
               int64_t average_from, double first_square, double C, double margin) {
                require(n_labels >= 1 && n_node_sections >= 1,
                        "there must be labels and sections of attributes");
                const OnlineOptions options = options_of(rule, l2, eta, decay, average,
                                                         average_from, first_square, C, margin);
                new (self) ResidentOwner{
                    std::make_unique<Resident>(options, n_node_sections, n_labels, true),
                    options.rule};
            },
            nb::arg("rule"), nb::arg("n_labels"), nb::arg("n_node_sections"), TL_ONLINE_OPTIONS)
        .def(
            "fork",
            [](ResidentOwner& self, const std::string& rule, double l2, double eta, double decay,
               bool average, int64_t average_from, double first_square, double C, double margin) {
                const OnlineOptions options = options_of(rule, l2, eta, decay, average,
                                                         average_from, first_square, C, margin);
                require(options.rule == self.rule, "the rule must be the same");
                const WithoutGil unlocked;
                return ResidentOwner{std::make_unique<Resident>(*self.model, options),
                                     options.rule};
            },
            nb::arg("rule"), TL_ONLINE_OPTIONS, "A copy that learns separately.")
        .def_prop_ro("n_labels", [](const ResidentOwner& self) { return self.model->n_labels(); })
        .def_prop_ro(
            "n_rows", [](const ResidentOwner& self) { return self.model->n_rows(); },
            "Number of weights in all rows.")
        .def_prop_ro("n_sentences",
                     [](const ResidentOwner& self) { return self.model->n_sentences(); })
        .def(
            "n_attributes",
            [](const ResidentOwner& self, int64_t section) {
                return self.model->n_attributes(self.section(section));
            },
            nb::arg("section"))
        .def("set_labels", resident_set_labels, nb::arg("n_labels"), nb::arg("place"),
             nb::arg("ids"),
             "More labels: place [old labels] has their new numbers; ids[s] [new numbers] the old "
             "numbers of attributes that are numbered by label, or None.")
        .def(
            "set_tail",
            [](ResidentOwner& self, Array<const int64_t> from, Array<const bool> free) {
                require(from.size() == free.size(), "from_ and free must have one length");
                const int64_t n_old = std::ssize(self.model->tail());
                for (size_t j = 0; j < from.size(); ++j)
                    require(from(j) >= -1 && from(j) < n_old,
                            "from_ must contain old numbers, or -1");
                const std::vector<uint8_t> mask(free.data(), free.data() + free.size());
                self.model->set_tail({from.data(), from.size()}, mask);
            },
            nb::arg("from_"), nb::arg("free"),
            "Lay out the weights of transitions anew: the old number of each, or -1.")
        .def(
            "grow",
            [](ResidentOwner& self, const std::vector<int64_t>& sizes, bool all_combinations) {
                require(int64_t(sizes.size()) == self.model->n_sections(),
                        "sizes must be [sections]");
                self.model->grow(sizes, all_combinations);
            },
            nb::arg("sizes"), nb::arg("all_combinations"),
            "Add attributes, up to the given number in each section.")
        .def("start_from", resident_start_from, nb::arg("section"), nb::arg("attributes"),
             nb::arg("columns"), nb::arg("weights"), "Set weights of attributes.")
        .def(
            "start_tail_from",
            [](ResidentOwner& self, Array<const double> weights, int64_t steps) {
                require(int64_t(weights.size()) == std::ssize(self.model->tail()),
                        "weights must be those of the tail");
                self.model->start_tail_from({weights.data(), weights.size()}, steps);
            },
            nb::arg("weights"), nb::arg("steps"),
            "Set the weights of transitions, and the number of sentences learnt from.")
        .def("learn", resident_learn, nb::arg("offsets"), nb::arg("nodes"), nb::arg("labels"),
             nb::arg("permutation"), nb::kw_only(), nb::arg("edges").none() = nb::none(),
             nb::arg("weight").none() = nb::none(), nb::arg("cost").none() = nb::none(),
             nb::arg("boundaries") = true, nb::arg("space").none() = nb::none(),
             nb::arg("frees_seen") = false,
             "One pass over the sentences: (sum of losses, sentences with a mistake). frees_seen: "
             "transitions that occur get a weight.")
        .def("score", resident_score, nb::arg("section"), nb::arg("indptr"), nb::arg("ids"),
             nb::arg("values").none() = nb::none(), nb::arg("group") = 1, nb::arg("least") = 0.0,
             nb::arg("threads") = 1,
             "Sums of the rows of each token's attributes, flat [T, group * width]; smaller "
             "weights than least count as 0.")
        .def(
            "rows",
            [](ResidentOwner& self, int64_t section) {
                const int64_t s = self.section(section);
                const size_t n = size_t(self.model->n_attributes(s)) * self.model->width(s);
                auto* own = new float[n];
                nb::capsule owner(own, [](void* p) noexcept { delete[] static_cast<float*>(p); });
                self.model->read(s, own);
                return Fresh<float>(own, {n}, owner);
            },
            nb::arg("section"), "The weights of a section, flat [attributes, width].")
        .def(
            "tail", [](ResidentOwner& self) { return copy_of(self.model->tail()); },
            "The weights of transitions, starts, stops and ties.");
}

#undef TL_ONLINE_OPTIONS

}  // namespace

void bind_training(nb::module_& m) {
    nb::class_<AttributeArrays>(
        m, "Attributes", "The attributes of each token, in CSR form: ids[indptr[t]:indptr[t + 1]].")
        .def("__init__", make_attributes, nb::arg("indptr"), nb::arg("ids"), nb::arg("n"),
             nb::arg("values").none() = nb::none(), nb::arg("extra").none() = nb::none(),
             "n: number of attributes. values: 1 by default. extra: (attributes, columns), pairs "
             "that get a weight even if they do not occur together.");
    nb::class_<LabelArrays>(m, "Labels", "The gold labels of all tokens, and those paths may take.")
        .def(
            "__init__", make_labels, nb::arg("gold"), nb::arg("n_labels"),
            nb::arg("sets").none() = nb::none(), nb::arg("allowed").none() = nb::none(),
            "gold [T]: a label, or -1 - k for any label in sets[k]; sets [n, n_labels] of 0 and 1. "
            "allowed [T]: -1 - k, the labels that paths may take.");
    nb::class_<Objective>(m, "Objective", "A function of weights that an optimiser minimises.")
        .def_prop_ro("n_weights", &Objective::size)
        .def_prop_ro("rounding", &Objective::rounding,
                     "Relative differences of the loss below this are rounding errors.")
        .def("mask", mask_of, "Which weights are free; the others stay zero.")
        .def("evaluate", evaluate, nb::arg("theta"), nb::arg("grad_out").noconvert(),
             nb::arg("threads"), "The loss; its gradient is written into grad_out.");
    nb::class_<LinearObjective, Objective>(
        m, "LinearObjective",
        "The weighted negative log-likelihood of encoded sentences under a linear-chain model.")
        .def("__init__", make_linear_objective, nb::arg("offsets"), nb::arg("nodes"),
             nb::arg("labels"), nb::kw_only(), nb::arg("edges").none() = nb::none(),
             nb::arg("weight").none() = nb::none(), nb::arg("all_combinations") = false,
             nb::arg("boundaries") = true, nb::arg("float32") = true,
             nb::arg("space").none() = nb::none(), nb::arg("segments").none() = nb::none(),
             nb::arg("batches_only") = false, nb::arg("prune").none() = nb::none(),
             nb::arg("warm_up") = 1, nb::arg("trigrams").none() = nb::none(),
             nb::arg("subtags").none() = nb::none(), nb::arg("threads") = 1,
             nb::arg("pattern_only") = false,
             "prune: which labels of each token are kept, by its attributes alone; the first "
             "warm_up epochs have order 0, and the next as many order 1. trigrams: those with "
             "weights, which make it order 2. batches_only: the objective is evaluated, never "
             "learned online. "
             "pattern_only: find the weights and the mask; such an objective cannot be evaluated.")
        .def_prop_ro("n_labels", [](const LinearObjective& p) { return p.Y; })
        .def_prop_ro("n_sentences", [](const LinearObjective& p) { return p.N; })
        .def_prop_ro("n_tokens", [](const LinearObjective& p) { return p.T; })
        .def_prop_ro("boundaries", [](const LinearObjective& p) { return p.boundaries; })
        .def_prop_ro(
            "n_groups", [](const LinearObjective& p) { return p.n_groups; },
            "With batches_only: groups of attributes that often occur together, added up once.")
        .def(
            "rows", [](const LinearObjective& p) { return rows_of(p, p.shared_nodes, 0); },
            "(row_ptr [A + 1], cols [W], free [W]) of the node attributes.")
        .def(
            "edge_rows",
            [](const LinearObjective& p) { return rows_of(p, p.shared_edges, p.edges_at); },
            "The same for the edge attributes; cols are y_prev * Y + y.")
        .def(
            "set_mask",
            [](LinearObjective& p, Array<const bool> free) {
                require(int64_t(free.shape(0)) == p.size(), "free must be [n_weights]");
                std::copy_n(free.data(), p.is_free.size(), p.is_free.begin());
            },
            nb::arg("free"),
            "Set which weights are free; call it before an optimiser reads the mask.");
    nb::class_<BundledObjective, Objective>(
        m, "BundledObjective",
        "A LinearObjective for optimisers that start at 0: weights whose gradients are always the "
        "same are one coordinate, their number's square root times the weight.")
        .def(nb::init<const LinearObjective&>(), nb::arg("objective"), nb::keep_alive<1, 2>())
        .def(
            "expand",
            [](const BundledObjective& p, Array<const double> v) {
                require(int64_t(v.shape(0)) == p.size(), "v must be [n_weights]");
                std::vector<double> theta(p.n_expanded());
                p.expand(v.data(), theta.data());
                return moved(std::move(theta));
            },
            nb::arg("v"), "The weights of the LinearObjective.");
    bind_lbfgs(m);
    bind_online(m);
    bind_resident(m);
}

}  // namespace tagloom
