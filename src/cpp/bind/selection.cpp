// Python bindings of the selection of spans: check shapes, release the GIL, call core.

#include "core/selection.hpp"

#include <nanobind/ndarray.h>

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "bind/arrays.hpp"
#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/gil.hpp"
#include "bind/label_automata.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

// The candidates of N sequences, and the automata for all of them.
struct Selections {
    int64_t n_labels = 0;
    std::vector<LabelAutomaton> automata;
    std::vector<std::vector<Candidate>> candidates;  // [N]
    std::vector<int64_t> offsets;                    // [N + 1]
};

using ChosenAndScores =
    nb::typed<nb::list, nb::typed<nb::tuple, nb::ndarray<nb::numpy, uint8_t, nb::ndim<2>>,
                                  nb::ndarray<nb::numpy, double, nb::ndim<1>>>>;

void make_selections(Selections* self, const std::vector<AutomatonArrays>& automata,
                     int64_t n_labels, Array<const int32_t, 1> start, Array<const int32_t, 1> end,
                     Array<const int32_t, 1> label, Array<const double, 1> score,
                     Array<const int64_t, 1> offsets) {
    const int64_t C = start.shape(0), N = int64_t(offsets.shape(0)) - 1;
    require(
        int64_t(end.shape(0)) == C && int64_t(label.shape(0)) == C && int64_t(score.shape(0)) == C,
        "start, end, label and score must be [C]");
    check_offsets(offsets, C);
    for (int64_t c = 0; c < C; ++c)
        require(start(c) >= 0 && start(c) < end(c) && label(c) >= 0 && label(c) < n_labels,
                "a candidate needs 0 <= start < end and a label");
    Selections made{n_labels, compile_automata(automata, n_labels), {}, {}};
    made.offsets.assign(offsets.data(), offsets.data() + N + 1);
    made.candidates.resize(N);
    for (int64_t i = 0; i < N; ++i)
        for (int64_t c = offsets(i); c < offsets(i + 1); ++c)
            made.candidates[i].push_back({start(c), end(c), label(c), score(c)});
    new (self) Selections(std::move(made));
}

ChosenAndScores nbest(const Selections& self, int64_t n, int64_t threads) {
    const int64_t N = std::ssize(self.candidates);
    std::vector<std::vector<uint8_t>> chosen(N);
    std::vector<std::vector<double>> scores(N);
    {
        const WithoutGil unlocked;
        parallel_for(N, N < 32 ? 1 : threads, [&](int64_t i, int64_t) {
            if (n == 1) {
                scores[i].push_back(
                    best_selection(self.automata, self.n_labels, self.candidates[i], chosen[i]));
                if (scores[i][0] > -std::numeric_limits<double>::infinity()) return;
                scores[i].clear();
                chosen[i].clear();
            } else {
                Selection(self.automata, self.n_labels, self.candidates[i])
                    .nbest(n, chosen[i], scores[i]);
            }
        });
    }
    ChosenAndScores out;
    for (int64_t i = 0; i < N; ++i) {
        const size_t k = scores[i].size(), C = self.offsets[i + 1] - self.offsets[i];
        out.append(nb::make_tuple(to_numpy(std::move(chosen[i]), {k, C}),
                                  to_numpy(std::move(scores[i]), {k})));
    }
    return out;
}

void sum(const Selections& self, Array<double, 1> log_z, Maybe<double, 1> marginals,
         int64_t threads) {
    const int64_t N = std::ssize(self.candidates);
    require(int64_t(log_z.shape(0)) == N, "log_z must be [N]");
    require(!marginals || int64_t(marginals->shape(0)) == self.offsets.back(),
            "marginals must be [C]");
    double* to = data_or_null(marginals);
    const WithoutGil unlocked;
    parallel_for(N, N < 32 ? 1 : threads, [&](int64_t i, int64_t) {
        log_z.data()[i] = Selection(self.automata, self.n_labels, self.candidates[i])
                              .sum(to ? to + self.offsets[i] : nullptr);
    });
}

}  // namespace

void bind_selection(nb::module_& m) {
    nb::class_<Selections>(m, "Selections", "Candidate spans of sequences, under automata.")
        .def("__init__", make_selections, nb::arg("automata"), nb::arg("n_labels"),
             nb::arg("start"), nb::arg("end"), nb::arg("label"), nb::arg("score"),
             nb::arg("offsets"))
        .def("nbest", nbest, nb::arg("n"), nb::arg("threads"),
             "For each sequence (chosen [k, C], scores [k]).")
        .def("sum", sum, nb::arg("log_z").noconvert(),
             nb::arg("marginals").noconvert().none() = nb::none(), nb::arg("threads") = 1,
             "Log-partitions [N], and the probability of each candidate [C].");
}

}  // namespace tagloom
