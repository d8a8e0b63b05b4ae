// Python bindings of the role labeller: check shapes and ranges, release the GIL, call core.

#include <algorithm>
#include <memory>
#include <tuple>

#include "bind/arrays.hpp"
#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/gil.hpp"
#include "bind/label_automata.hpp"
#include "core/role_learner.hpp"
#include "core/threads.hpp"

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

// Sentences with trees, and the frames of their predicates; keeps the arrays.
struct Frames {
    std::vector<int64_t> offsets;
    std::vector<uint32_t> atoms;
    std::vector<int32_t> heads;
    std::vector<RoleFrame> frames;
    RoleSentences sentences = {};
};

void make_frames(Frames* self, const Offsets& offsets, const Atoms& atoms, const Ids& heads,
                 const Offsets& sentence, const Offsets& predicate,
                 const Array<const uint32_t, 1>& lemma, const Array<const uint32_t, 1>& roleset) {
    require(atoms.shape(1) == kRoleAtoms, "atoms must be [T, 6]");
    check_offsets(offsets, atoms.shape(0));
    require(heads.shape(0) == atoms.shape(0), "heads must be [T]");
    const int64_t N = int64_t(offsets.shape(0)) - 1;
    for (int64_t i = 0; i < N; ++i) {
        const int64_t first = offsets(i), T = offsets(i + 1) - first;
        for (int64_t t = 0; t < T; ++t) {
            require(0 <= heads(first + t) && heads(first + t) <= T, "heads must be 0 to T");
            int64_t steps = 0;
            for (int64_t a = heads(first + t); a > 0; a = heads(first + a - 1))
                require(++steps <= T, "heads must not have a cycle");
        }
    }
    const size_t F = sentence.shape(0);
    require(predicate.shape(0) == F && lemma.shape(0) == F && roleset.shape(0) == F,
            "sentence, predicate, lemma and roleset must be [F]");
    Frames made{to_vector(offsets), to_vector(atoms), to_vector(heads), {}, {}};
    for (size_t f = 0; f < F; ++f) {
        require(0 <= sentence(f) && sentence(f) < N, "a frame needs a sentence");
        require(0 <= predicate(f) && predicate(f) < offsets(sentence(f) + 1) - offsets(sentence(f)),
                "a predicate must be a word of its sentence");
        made.frames.push_back({sentence(f), predicate(f), lemma(f), roleset(f)});
    }
    Frames* placed = new (self) Frames(std::move(made));
    placed->sentences = {N, placed->offsets.data(), placed->atoms.data(), placed->heads.data()};
}

auto candidates(const Frames& self) {
    std::vector<int64_t> indptr{0};
    std::vector<int32_t> start, end;
    {
        const WithoutGil unlocked;
        RoleFeatures features;
        for (const RoleFrame& frame : self.frames) {
            features.read(self.sentences, frame);
            for (const RoleSpan& span : features.candidates()) {
                start.push_back(span.start);
                end.push_back(span.end);
            }
            indptr.push_back(int64_t(start.size()));
        }
    }
    return std::make_tuple(result(std::move(indptr)), result(std::move(start)),
                           result(std::move(end)));
}

LabelChoices to_choices(int64_t n_labels, const Array<const uint64_t, 1>& contexts,
                        const Offsets& indptr, const Ids& labels) {
    require(indptr.shape(0) == contexts.shape(0) + 1, "indptr must be [K + 1]");
    check_offsets(indptr, labels.shape(0));
    for (size_t j = 0; j < labels.shape(0); ++j)
        require(0 <= labels(j) && labels(j) < n_labels, "labels out of range");
    LabelChoices choices{n_labels, to_vector(contexts), to_vector(indptr), to_vector(labels)};
    require(std::is_sorted(choices.contexts.begin(), choices.contexts.end()),
            "contexts must ascend");
    return choices;
}

using Choices = std::tuple<Array<const uint64_t, 1>, Offsets, Ids>;

LabelChoices to_choices(int64_t n_labels, const Choices& arrays) {
    return to_choices(n_labels, std::get<0>(arrays), std::get<1>(arrays), std::get<2>(arrays));
}

auto scores(const Frames& self, const Weights& filter, const Weights& theta, double least,
            int64_t n_roles, const Choices& choices, const Choices& legal, int64_t threads) {
    require(n_roles > 0 && threads > 0, "n_roles and threads must be positive");
    int bits = 0;
    while ((size_t(1) << bits) < theta.shape(0)) ++bits;
    require(bits >= 4 && bits <= 30 && (size_t(1) << bits) == theta.shape(0),
            "the number of weights must be a power of 2");
    require(filter.shape(0) == 0 || filter.shape(0) == theta.shape(0), "filter must be as theta");
    const LabelChoices of_context = to_choices(n_roles, choices),
                       of_lemma = to_choices(n_roles, legal);
    const RoleWeights weights{
        filter.shape(0) ? filter.data() : nullptr, theta.data(), bits, least, of_context, of_lemma};
    const int64_t F = std::ssize(self.frames);
    std::vector<std::vector<Candidate>> of_frame(F);
    std::vector<int64_t> indptr{0};
    std::vector<int32_t> start, end, role;
    std::vector<double> score;
    {
        const WithoutGil unlocked;
        threads = std::clamp<int64_t>(threads, 1, std::max<int64_t>(F, 1));
        std::vector<RoleScores> readers(threads);
        parallel_for(F, threads, [&](int64_t f, int64_t worker) {
            readers[worker].read(self.sentences, self.frames[f], weights, kRoleMargin);
            of_frame[f] = readers[worker].candidates;
        });
        for (const std::vector<Candidate>& all : of_frame) {
            for (const Candidate& one : all) {
                start.push_back(one.start);
                end.push_back(one.end);
                role.push_back(one.label);
                score.push_back(one.score);
            }
            indptr.push_back(int64_t(start.size()));
        }
    }
    return std::make_tuple(result(std::move(indptr)), result(std::move(start)),
                           result(std::move(end)), result(std::move(role)),
                           result(std::move(score)));
}

class FrameLearner {
  public:
    FrameLearner(nb::object frames, const Offsets& indptr, const Array<const int32_t, 2>& arguments,
                 int64_t n_roles, const std::vector<AutomatonArrays>& automata,
                 const Choices& legal, const std::string& loss, double C, double eta, double least,
                 int bits)
        : frames_(std::move(frames)),
          data_(nb::cast<Frames&>(frames_)),
          indptr_(to_vector(indptr)),
          arguments_(to_vector(arguments)),
          automata_(compile_automata(automata, n_roles)),
          legal_(to_choices(n_roles, legal)) {
        require(indptr_.size() == data_.frames.size() + 1, "indptr must be [F + 1]");
        check_offsets(indptr, arguments.shape(0));
        require(arguments.shape(1) == 3 && n_roles > 0, "arguments must be [A, 3]");
        for (size_t k = 0; k < arguments.shape(0); ++k)
            require(0 <= arguments(k, 2) && arguments(k, 2) < n_roles, "roles out of range");
        require(bits >= 4 && bits <= 30, "bits must be from 4 to 30");
        require(loss == "perceptron" || loss == "svm" || loss == "crf", "no such loss");
        const RoleLoss kind = loss == "perceptron" ? RoleLoss::perceptron
                              : loss == "svm"      ? RoleLoss::hinge
                                                   : RoleLoss::log;
        core_ = std::make_unique<RoleLearner>(
            data_.sentences, data_.frames, RoleArguments{indptr_.data(), arguments_.data()},
            n_roles, automata_, legal_, RoleOptions{kind, C, eta, least, bits});
    }

    std::tuple<double, int64_t> filter_epoch(const Offsets& order) {
        return run(order, [&] {
            const auto sum = core_->filter_epoch(order.data(), int64_t(order.shape(0)));
            core_->use_filter();
            return sum;
        });
    }
    std::tuple<double, int64_t> epoch(const Offsets& order, bool is_global) {
        return run(order,
                   [&] { return core_->epoch(order.data(), int64_t(order.shape(0)), is_global); });
    }
    auto weights() const {
        return std::make_tuple(result(core_->filter.mean(core_->filter_steps)),
                               result(core_->roles.mean(core_->steps)));
    }
    State state() const {
        State arrays;
        arrays["steps"] = result(std::vector<double>{core_->filter_steps, core_->steps});
        for (const auto& [name, w] : parts()) {
            arrays[(name + ".theta").c_str()] = result(std::vector<float>(w->theta));
            arrays[(name + ".square").c_str()] = result(std::vector<float>(w->square));
            arrays[(name + ".total").c_str()] = result(std::vector<double>(w->total));
        }
        return arrays;
    }
    void restore(const State& arrays) {
        const auto array = [&](const std::string& name) { return arrays[name.c_str()]; };
        const auto steps = nb::cast<Array<const double, 1>>(array("steps"));
        require(steps.size() == 2, "the state is of another learner");
        core_->filter_steps = steps(0);
        core_->steps = steps(1);
        for (const auto& [name, w] : parts()) {
            fill(w->theta, nb::cast<Array<const float, 1>>(array(name + ".theta")));
            fill(w->square, nb::cast<Array<const float, 1>>(array(name + ".square")));
            fill(w->total, nb::cast<Array<const double, 1>>(array(name + ".total")));
        }
        if (core_->filter_steps > 0) core_->use_filter();
    }
    auto choices() const {
        const LabelChoices& c = core_->choices();
        return std::make_tuple(result(std::vector<uint64_t>(c.contexts)),
                               result(std::vector<int64_t>(c.indptr)),
                               result(std::vector<int32_t>(c.labels)));
    }

  private:
    template <class Work>
    std::tuple<double, int64_t> run(const Offsets& order, const Work& work) {
        for (size_t j = 0; j < order.shape(0); ++j)
            require(0 <= order(j) && order(j) < std::ssize(data_.frames),
                    "order must be numbers of frames");
        RoleLearner::Result sum;
        {
            const WithoutGil unlocked;
            sum = work();
        }
        return {sum.loss, sum.n_mistakes};
    }
    std::vector<std::pair<std::string, AveragedWeights*>> parts() const {
        return {{"filter", &core_->filter}, {"roles", &core_->roles}};
    }
    template <class T, class A>
    static void fill(std::vector<T>& values, const A& array) {
        require(array.size() == values.size(), "the state is of another learner");
        std::copy_n(array.data(), values.size(), values.data());
    }

    nb::object frames_;
    const Frames& data_;
    std::vector<int64_t> indptr_;
    std::vector<int32_t> arguments_;
    std::vector<LabelAutomaton> automata_;
    LabelChoices legal_;
    std::unique_ptr<RoleLearner> core_;
};

}  // namespace

void bind_roles(nb::module_& m) {
    nb::class_<Frames>(m, "RoleFrames", "Sentences with trees, and their predicates.")
        .def("__init__", make_frames, nb::arg("offsets"), nb::arg("atoms"), nb::arg("heads"),
             nb::arg("sentence"), nb::arg("predicate"), nb::arg("lemma"), nb::arg("roleset"))
        .def("candidates", candidates, "Candidate spans: indptr [F + 1], start, end.")
        .def("scores", scores, nb::arg("filter"), nb::arg("theta"), nb::arg("least"),
             nb::arg("n_roles"), nb::arg("choices"), nb::arg("legal"), nb::arg("threads"),
             "Labelled candidates: indptr [F + 1], start, end, role, score.");
    nb::class_<FrameLearner>(m, "RoleLearner", "Learns a role labeller; see core/role_learner.hpp.")
        .def(nb::init<nb::object, const Offsets&, const Array<const int32_t, 2>&, int64_t,
                      const std::vector<AutomatonArrays>&, const Choices&, const std::string&,
                      double, double, double, int>(),
             nb::arg("frames"), nb::arg("indptr"), nb::arg("arguments"), nb::arg("n_roles"),
             nb::arg("automata"), nb::arg("legal"), nb::arg("loss"), nb::arg("C"), nb::arg("eta"),
             nb::arg("least"), nb::arg("bits"))
        .def("filter_epoch", &FrameLearner::filter_epoch, nb::arg("order"),
             "The sum of losses, and of mistakes.")
        .def("epoch", &FrameLearner::epoch, nb::arg("order"), nb::arg("is_global"),
             "The sum of losses, and of mistakes.")
        .def("weights", &FrameLearner::weights, "The mean weights of filter and roles.")
        .def("state", &FrameLearner::state, "All arrays that change.")
        .def("restore", &FrameLearner::restore, nb::arg("arrays"), "Continue from a state.")
        .def("choices", &FrameLearner::choices, "Contexts, indptr and roles of the choices.");
}

}  // namespace tagloom
