// Python bindings of sub-tags and of candidates by scores: check shapes, release the GIL, call
// core.

#include "core/subtags.hpp"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "bind/arrays.hpp"
#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/gil.hpp"
#include "core/pruning.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

void make_subtags(Subtags* self, int64_t n, Array<const int32_t, 1> ptr,
                  Array<const int32_t, 1> ids) {
    require(n >= 0 && ptr.shape(0) >= 1 && ptr(0) == 0 &&
                ptr(ptr.shape(0) - 1) == int64_t(ids.shape(0)),
            "ptr must run from 0 to the number of ids");
    for (size_t y = 0; y + 1 < ptr.shape(0); ++y)
        require(ptr(y) <= ptr(y + 1), "ptr must not decrease");
    for (size_t j = 0; j < ids.shape(0); ++j)
        require(ids(j) >= 0 && ids(j) < n, "ids must be numbers of sub-tags");
    new (self) Subtags(n, {ptr.data(), ptr.shape(0)}, {ids.data(), ids.shape(0)});
}

nb::object spread(const Subtags& self, Array<const float, 2> scores, int64_t threads) {
    const int64_t T = scores.shape(0), Y = self.n_labels(), K = Y + self.S;
    require(int64_t(scores.shape(1)) == K && threads >= 1, "scores must be [T, labels + sub-tags]");
    std::vector<float> emit(T * Y);
    {
        const WithoutGil unlocked;
        constexpr int64_t kTokens = 256;  // a thread's share at a time
        parallel_for((T + kTokens - 1) / kTokens, threads, [&](int64_t i, int64_t) {
            std::vector<float> sums;
            for (int64_t t = i * kTokens; t < std::min(T, (i + 1) * kTokens); ++t) {
                const float* row = scores.data() + t * K;
                self.spread(row, row + Y, emit.data() + t * Y, sums);
            }
        });
    }
    return to_numpy(std::move(emit), {size_t(T), size_t(Y)});
}

void make_pruning(Pruning* self, double least, int64_t most) {
    require(least >= 0 && least <= 1, "least must be between 0 and 1");
    require(most >= 0, "most must not be negative");
    new (self) Pruning{least, most};
}

template <class In>
nb::tuple arrays_of(CandidateLists<In>&& lists) {
    const size_t C = lists.label.size(), n = lists.rows.size();
    return nb::make_tuple(to_numpy(std::move(lists.rows), {n}),
                          to_numpy(std::move(lists.label), {C}),
                          to_numpy(std::move(lists.score), {C}));
}

template <class In>
nb::tuple list_candidates(const Array<const In, 2>& emit, const Pruning& pruning) {
    CandidateLists<In> lists(pruning);
    {
        const WithoutGil unlocked;
        for (size_t t = 0; t < emit.shape(0); ++t)
            lists.add(emit.data() + t * emit.shape(1), emit.shape(1));
    }
    return arrays_of(std::move(lists));
}

template <class In>
nb::tuple select_candidates(const Array<const int64_t, 1>& rows,
                            const Array<const int32_t, 1>& labels, const Array<const In, 1>& scores,
                            const Pruning& pruning) {
    check_offsets(rows, labels.shape(0));
    require(scores.shape(0) == labels.shape(0), "labels and scores must be [C]");
    CandidateLists<In> lists(pruning);
    {
        const WithoutGil unlocked;
        for (size_t t = 0; t + 1 < rows.shape(0); ++t) {
            const int32_t* label = labels.data() + rows(t);
            lists.add(scores.data() + rows(t), rows(t + 1) - rows(t),
                      [&](int64_t j) { return label[j]; });
        }
    }
    return arrays_of(std::move(lists));
}

}  // namespace

void bind_subtags(nb::module_& m) {
    nb::class_<Subtags>(m, "Subtags", "The sub-tags of each label, which labels share.")
        .def("__init__", make_subtags, nb::arg("n"), nb::arg("ptr"), nb::arg("ids"),
             "n sub-tags; those of label y are ids[ptr[y]:ptr[y + 1]].")
        .def("spread", spread, nb::arg("scores"), nb::arg("threads") = 1,
             nb::sig("def spread(self, scores: NDArray[numpy.float32], threads: int = 1) -> "
                     "NDArray[numpy.float32]"),
             "The scores of labels [T, Y] from scores [T, Y + n] of labels and sub-tags.");
    nb::class_<Pruning>(m, "Pruning", "Which labels are candidates at a position.")
        .def("__init__", make_pruning, nb::arg("least"), nb::arg("most") = 0,
             "Labels whose probability is at least `least` times that of the best, and of these "
             "the `most` best; 0: any number.");
    m.def(
        "list_candidates",
        [](const std::variant<Array<const float, 2>, Array<const double, 2>>& emit,
           const Pruning& pruning) {
            return std::visit([&](const auto& scores) { return list_candidates(scores, pruning); },
                              emit);
        },
        nb::arg("emit"), nb::arg("pruning"),
        nb::sig("def list_candidates(emit: NDArray[Any], pruning: Pruning) -> "
                "tuple[NDArray[numpy.int64], NDArray[numpy.int32], NDArray[Any]]"),
        "The labels that are kept of the scores [T, Y]: (indptr [T + 1], label_ids [C], scores "
        "[C]).");
    m.def(
        "select_candidates",
        [](const Array<const int64_t, 1>& rows, const Array<const int32_t, 1>& labels,
           const std::variant<Array<const float, 1>, Array<const double, 1>>& all,
           const Pruning& pruning) {
            return std::visit(
                [&](const auto& scores) {
                    return select_candidates(rows, labels, scores, pruning);
                },
                all);
        },
        nb::arg("indptr"), nb::arg("label_ids"), nb::arg("scores"), nb::arg("pruning"),
        nb::sig("def select_candidates(indptr: NDArray[numpy.int64], label_ids: "
                "NDArray[numpy.int32], scores: NDArray[Any], pruning: Pruning) -> "
                "tuple[NDArray[numpy.int64], NDArray[numpy.int32], NDArray[Any]]"),
        "The same from candidates with scores.");
}

}  // namespace tagloom
