// Python bindings of the dependency parser: check shapes and ranges, release the GIL, call core.

#include <algorithm>
#include <memory>
#include <tuple>

#include "bind/arrays.hpp"
#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/gil.hpp"
#include "core/tree_learner.hpp"

namespace tagloom {
namespace {

using Offsets = Array<const int64_t, 1>;
using Atoms = Array<const uint32_t, 2>;
using Ids = Array<const int32_t, 1>;
using Weights = Array<const float, 1>;
using State = nb::typed<nb::dict, nb::str, nb::any>;
template <class T>
using Result = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <class T>
auto result(std::vector<T>&& values) {
    const size_t n = values.size();
    return nb::cast<Result<T>>(to_numpy(std::move(values), {n}));
}
template <class A>
auto to_vector(const A& array) {
    using T = std::remove_const_t<typename A::Scalar>;
    return std::vector<T>(array.data(), array.data() + array.size());
}

ParserSentences to_sentences(const Offsets& offsets, const Atoms& atoms) {
    require(atoms.shape(1) == kParserAtoms, "atoms must be [T, 6]");
    check_offsets(offsets, atoms.shape(0));
    return {int64_t(offsets.shape(0)) - 1, offsets.data(), atoms.data()};
}

void check_heads(const Offsets& offsets, const Ids& heads) {
    require(int64_t(heads.shape(0)) == offsets(offsets.shape(0) - 1), "heads must be [T]");
    for (size_t i = 0; i + 1 < offsets.shape(0); ++i)
        for (int64_t t = offsets(i); t < offsets(i + 1); ++t)
            require(0 <= heads(t) && heads(t) <= offsets(i + 1) - offsets(i) &&
                        heads(t) != t - offsets(i) + 1,
                    "heads must be 0 to T, and no word its own");
}

int bits_of(size_t n_weights) {
    int bits = 0;
    while ((size_t(1) << bits) < n_weights) ++bits;
    require(bits >= 4 && bits <= 30 && (size_t(1) << bits) == n_weights,
            "the number of weights must be a power of 2");
    return bits;
}

// The learner with the arrays that it reads.
class Learner {
  public:
    Learner(const Offsets& offsets, const Atoms& atoms, const Ids& heads, const Ids& labels,
            int64_t n_labels, const std::string& loss, bool projective, bool single_root, double C,
            double eta, int bits, bool joint, int64_t order)
        : offsets_(to_vector(offsets)),
          atoms_(to_vector(atoms)),
          heads_(to_vector(heads)),
          labels_(to_vector(labels)) {
        to_sentences(offsets, atoms);
        check_heads(offsets, heads);
        require(labels.shape(0) == heads.shape(0), "labels must be [T]");
        require(std::all_of(labels_.begin(), labels_.end(),
                            [&](int32_t l) { return -1 <= l && l < n_labels; }),
                "labels must be from -1 to n_labels - 1");
        require(bits >= 4 && bits <= 30, "bits must be from 4 to 30");
        require(order == 1 || (order == 2 && projective), "order must be 1, or 2 if projective");
        require(loss == "perceptron" || loss == "svm" || loss == "crf", "no such loss");
        const TreeLoss kind = loss == "perceptron" ? TreeLoss::perceptron
                              : loss == "svm"      ? TreeLoss::hinge
                                                   : TreeLoss::log;
        sentences_ = {int64_t(offsets_.size()) - 1, offsets_.data(), atoms_.data()};
        core_ = std::make_unique<ParserLearner>(
            sentences_, heads_.data(), labels_.data(), n_labels,
            ParserOptions{kind, projective, single_root, C, eta, bits, joint, order == 2});
    }

    auto epoch(const Array<const int64_t, 1>& order) {
        for (size_t j = 0; j < order.shape(0); ++j)
            require(0 <= order(j) && order(j) < sentences_.N, "order must be numbers of sentences");
        ParserLearner::Result sum;
        {
            const WithoutGil unlocked;
            sum = core_->epoch(order.data(), int64_t(order.shape(0)));
        }
        return std::make_tuple(sum.loss, sum.n_mistakes);
    }
    auto weights() const {
        return std::make_tuple(result(core_->arcs.mean(core_->steps)),
                               result(core_->label_weights.mean(core_->steps)));
    }
    State state() const {
        State arrays;
        arrays["steps"] = result(std::vector<double>{core_->steps});
        for (const auto& [name, w] : parts()) {
            arrays[(name + ".theta").c_str()] = result(std::vector<float>(w->theta));
            arrays[(name + ".square").c_str()] = result(std::vector<float>(w->square));
            arrays[(name + ".total").c_str()] = result(std::vector<double>(w->total));
        }
        return arrays;
    }
    void restore(const State& arrays) {
        const auto array = [&](const std::string& name) { return arrays[name.c_str()]; };
        core_->steps = nb::cast<Array<const double, 1>>(array("steps"))(0);
        for (const auto& [name, w] : parts()) {
            fill(w->theta, nb::cast<Array<const float, 1>>(array(name + ".theta")));
            fill(w->square, nb::cast<Array<const float, 1>>(array(name + ".square")));
            fill(w->total, nb::cast<Array<const double, 1>>(array(name + ".total")));
        }
    }
    auto choices() const {
        const LabelChoices& c = core_->choices();
        return std::make_tuple(result(std::vector<uint64_t>(c.contexts)),
                               result(std::vector<int64_t>(c.indptr)),
                               result(std::vector<int32_t>(c.labels)));
    }

  private:
    std::vector<std::pair<std::string, AveragedWeights*>> parts() const {
        return {{"arcs", &core_->arcs}, {"labels", &core_->label_weights}};
    }
    template <class T, class A>
    static void fill(std::vector<T>& values, const A& array) {
        require(array.size() == values.size(), "the state is of another learner");
        std::copy_n(array.data(), values.size(), values.data());
    }

    std::vector<int64_t> offsets_;
    std::vector<uint32_t> atoms_;
    std::vector<int32_t> heads_, labels_;
    ParserSentences sentences_ = {};
    std::unique_ptr<ParserLearner> core_;
};

using Contexts = Array<const uint64_t, 1>;

LabelChoices to_choices(int64_t n_labels, const Contexts& contexts, const Offsets& indptr,
                        const Ids& of_contexts) {
    require(indptr.shape(0) == contexts.shape(0) + 1, "indptr must be [K + 1]");
    check_offsets(indptr, of_contexts.shape(0));
    require(n_labels > 0, "n_labels must be positive");
    for (size_t k = 0; k < contexts.shape(0); ++k)
        require(indptr(k) < indptr(k + 1), "a context must have a label");
    for (size_t j = 0; j < of_contexts.shape(0); ++j)
        require(0 <= of_contexts(j) && of_contexts(j) < n_labels, "labels out of range");
    return {n_labels, to_vector(contexts), to_vector(indptr), to_vector(of_contexts)};
}

auto scores_of(const Offsets& offsets, const Atoms& atoms, const Weights& theta, int64_t H,
               const JointLabels* joint, int64_t threads) {
    const ParserSentences sentences = to_sentences(offsets, atoms);
    const int bits = bits_of(theta.shape(0));
    require(threads > 0, "threads must be positive");
    for (int64_t i = 0; i < sentences.N; ++i)
        require(sentences.length(i) < H, "arcs need T + 1 columns");
    const size_t T = atoms.shape(0);
    std::vector<double> arcs(T * H);
    {
        const WithoutGil unlocked;
        parser_scores(sentences, theta.data(), bits, H, joint, threads, arcs.data());
    }
    return nb::cast<nb::ndarray<nb::numpy, double, nb::ndim<2>>>(
        to_numpy(std::move(arcs), {T, size_t(H)}));
}

auto scores(const Offsets& offsets, const Atoms& atoms, const Weights& theta, int64_t H,
            int64_t threads) {
    return scores_of(offsets, atoms, theta, H, nullptr, threads);
}

auto joint_scores(const Offsets& offsets, const Atoms& atoms, const Weights& theta,
                  const Weights& label_theta, int64_t n_labels, const Contexts& contexts,
                  const Offsets& indptr, const Ids& of_contexts, bool sums, int64_t H,
                  int64_t threads) {
    require(label_theta.shape(0) == theta.shape(0), "arcs and labels have as many weights");
    const LabelChoices choices = to_choices(n_labels, contexts, indptr, of_contexts);
    const JointLabels joint{label_theta.data(), &choices, sums};
    return scores_of(offsets, atoms, theta, H, &joint, threads);
}

auto siblings_of(const Offsets& offsets, const Atoms& atoms, const Weights& theta, int64_t H,
                 bool single_root, int64_t threads) {
    const ParserSentences sentences = to_sentences(offsets, atoms);
    const int bits = bits_of(theta.shape(0));
    require(threads > 0, "threads must be positive");
    for (int64_t i = 0; i < sentences.N; ++i)
        require(sentences.length(i) < H, "siblings need T + 1 columns");
    const size_t T = atoms.shape(0), columns = size_t(H);
    std::vector<double> siblings(T * columns * columns);
    {
        const WithoutGil unlocked;
        parser_siblings(sentences, theta.data(), bits, H, single_root, threads, siblings.data());
    }
    return nb::cast<nb::ndarray<nb::numpy, double, nb::ndim<3>>>(
        to_numpy(std::move(siblings), {T, columns, columns}));
}

auto labels_of(const Offsets& offsets, const Atoms& atoms, const Ids& heads, const Weights& theta,
               int64_t n_labels, const Contexts& contexts, const Offsets& indptr,
               const Ids& of_contexts, int64_t threads, bool joint) {
    const ParserSentences sentences = to_sentences(offsets, atoms);
    check_heads(offsets, heads);
    require(threads > 0, "threads must be positive");
    const LabelChoices choices = to_choices(n_labels, contexts, indptr, of_contexts);
    const int bits = bits_of(theta.shape(0));
    std::vector<int32_t> labels(heads.shape(0));
    {
        const WithoutGil unlocked;
        parser_labels(sentences, heads.data(), theta.data(), bits, choices, joint, threads,
                      labels.data());
    }
    return result(std::move(labels));
}

}  // namespace

void bind_tree_parser(nb::module_& m) {
    nb::class_<Learner>(m, "ParserLearner",
                        "Learns a dependency parser; see core/tree_learner.hpp.")
        .def(nb::init<const Offsets&, const Atoms&, const Ids&, const Ids&, int64_t,
                      const std::string&, bool, bool, double, double, int, bool, int64_t>(),
             nb::arg("offsets"), nb::arg("atoms"), nb::arg("heads"), nb::arg("labels"),
             nb::arg("n_labels"), nb::arg("loss"), nb::arg("projective"), nb::arg("single_root"),
             nb::arg("C"), nb::arg("eta"), nb::arg("bits"), nb::arg("joint") = false,
             nb::arg("order") = 1)
        .def("epoch", &Learner::epoch, nb::arg("order"), "The sum of losses, and of mistakes.")
        .def("weights", &Learner::weights, "The mean weights of arcs and of labels.")
        .def("state", &Learner::state, "All arrays that change.")
        .def("restore", &Learner::restore, nb::arg("arrays"), "Continue from a state.")
        .def("choices", &Learner::choices, "Contexts, indptr and labels of the label choices.");
    m.def("parser_scores", scores, nb::arg("offsets"), nb::arg("atoms"), nb::arg("theta"),
          nb::arg("H"), nb::arg("threads"), "Scores of arcs [T, H].");
    m.def("parser_siblings", siblings_of, nb::arg("offsets"), nb::arg("atoms"), nb::arg("theta"),
          nb::arg("H"), nb::arg("single_root"), nb::arg("threads"),
          "Scores of adjacent siblings [T, H, H].");
    m.def("parser_joint_scores", joint_scores, nb::arg("offsets"), nb::arg("atoms"),
          nb::arg("theta"), nb::arg("label_theta"), nb::arg("n_labels"), nb::arg("contexts"),
          nb::arg("indptr"), nb::arg("of_contexts"), nb::arg("sums"), nb::arg("H"),
          nb::arg("threads"), "Scores of arcs [T, H] with those of their labels.");
    m.def("parser_labels", labels_of, nb::arg("offsets"), nb::arg("atoms"), nb::arg("heads"),
          nb::arg("theta"), nb::arg("n_labels"), nb::arg("contexts"), nb::arg("indptr"),
          nb::arg("of_contexts"), nb::arg("threads"), nb::arg("joint") = false,
          "The best label of each arc [T].");
}

}  // namespace tagloom
