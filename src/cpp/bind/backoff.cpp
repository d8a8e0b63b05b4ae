// Back-off arcs for Python: arrays are checked here, all searches run without the GIL.
#include "core/backoff.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "bind/bind.hpp"
#include "bind/gil.hpp"
#include "bind/ngrams.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

// Back-off arcs of a model, with the scratch memory of finished searches: allocating it takes
// longer than a search.
class PyBackoffArcs {
  public:
    PyBackoffArcs(const NGrams& model, int64_t few_states, int64_t direct_limit)
        : arcs(model.table(), few_states, direct_limit) {}

    std::unique_ptr<BackoffSearch> borrow() {
        {
            const std::lock_guard lock(mutex_);
            if (!idle_.empty()) {
                auto search = std::move(idle_.back());
                idle_.pop_back();
                return search;
            }
        }
        return std::make_unique<BackoffSearch>(arcs);
    }
    void give_back(std::unique_ptr<BackoffSearch> search) {
        const std::lock_guard lock(mutex_);
        if (idle_.size() < kIdle) idle_.push_back(std::move(search));
    }

    const BackoffArcs arcs;

  private:
    static constexpr std::size_t kIdle = 16;
    std::mutex mutex_;
    std::vector<std::unique_ptr<BackoffSearch>> idle_;
};

// Candidates that were checked once, for any number of sequences.
class PySlots {
  public:
    PySlots(int64_t n_labels, In<int64_t> from, In<int32_t> labels, In<double> scores)
        : slots{view(from), view(labels), view(scores)},
          n_labels(n_labels),
          arrays_(nb::make_tuple(from, labels, scores)) {
        bool fits = is_rising(slots.from, slots.labels.size()) &&
                    slots.scores.size() == slots.labels.size();
        for (int64_t k = 0; fits && k < size(); k++)
            for (int64_t j = slots.from[k]; j < slots.from[k + 1]; j++)
                fits = fits && slots.labels[j] >= 0 && slots.labels[j] < n_labels &&
                       (j == slots.from[k] || slots.labels[j - 1] < slots.labels[j]) &&
                       slots.scores[j] < 1e300;
        if (!fits) throw nb::value_error("the candidates are out of order or out of range");
    }
    int64_t size() const { return std::ssize(slots.from) - 1; }

    const Slots slots;
    const int64_t n_labels;

  private:
    nb::tuple arrays_;  // keeps them alive
};

// Sequences of slots: see core/backoff.hpp.
class BackoffBatch {
  public:
    BackoffBatch(PyBackoffArcs& model, const PySlots& slots, In<int32_t> slot, In<int64_t> offsets,
                 int32_t start, int32_t stop)
        : model_(model),
          slots_(slots),
          arrays_(nb::make_tuple(slot, offsets)),
          slot_(view(slot)),
          offsets_(view(offsets)),
          start_(start),
          stop_(stop) {
        const BackoffArcs& arcs = model.arcs;
        bool fits = is_rising(offsets_, slot_.size()) && slots.n_labels == arcs.table.n_words() &&
                    start >= 0 && start < arcs.states() && stop >= -1 && stop < slots.n_labels;
        for (const int32_t k : slot_) fits = fits && k >= 0 && k < slots.size();
        if (!fits) throw nb::value_error("the slots do not fit the model");
    }

    nb::tuple viterbi(int64_t threads) const {
        std::vector<int32_t> path(slot_.size(), -1);
        std::vector<double> score(size());
        each(threads, [&](BackoffSearch& search, int64_t i, const SlotSequence& x) {
            score[i] = search.viterbi(x, path.data() + offsets_[i]);
        });
        return nb::make_tuple(give(std::move(path)), give(std::move(score)));
    }

    // A list with (paths [k * T], scores [k]) of each sequence.
    nb::list nbest(int64_t n, int64_t threads) const {
        std::vector<std::vector<int32_t>> paths(size());
        std::vector<std::vector<double>> scores(size());
        each(threads, [&](BackoffSearch& search, int64_t i, const SlotSequence& x) {
            search.nbest(x, n, paths[i], scores[i]);
        });
        nb::list result;
        for (int64_t i = 0; i < size(); i++)
            result.append(nb::make_tuple(give(std::move(paths[i])), give(std::move(scores[i]))));
        return result;
    }

    Out<double> log_partition(int64_t threads) const {
        std::vector<double> log_z(size());
        each(threads, [&](BackoffSearch& search, int64_t i, const SlotSequence& x) {
            log_z[i] = search.log_partition(x);
        });
        return give(std::move(log_z));
    }

    // (probabilities of all candidates, position after position; log-partition [N])
    nb::tuple marginals(int64_t threads) const {
        std::vector<int64_t> from(size() + 1);
        for (int64_t i = 0; i < size(); i++) {
            from[i + 1] = from[i];
            for (const int32_t k : at(i).slot) from[i + 1] += slots_.slots.size(k);
        }
        std::vector<double> probs(from.back()), log_z(size());
        each(threads, [&](BackoffSearch& search, int64_t i, const SlotSequence& x) {
            log_z[i] = search.marginals(x, probs.data() + from[i]);
        });
        return nb::make_tuple(give(std::move(probs)), give(std::move(log_z)));
    }

    nb::tuple entropy(int64_t threads) const {
        std::vector<double> entropy(size()), log_z(size());
        each(threads, [&](BackoffSearch& search, int64_t i, const SlotSequence& x) {
            entropy[i] = search.entropy(x, log_z[i]);
        });
        return nb::make_tuple(give(std::move(entropy)), give(std::move(log_z)));
    }

    // Paths [n * T] drawn with uniform numbers [n * T]; -1 for a sequence without a path.
    Out<int32_t> sample(In<double> uniform, int64_t n, int64_t threads) const {
        const int64_t T = std::ssize(slot_);
        if (n < 0 || static_cast<int64_t>(uniform.size()) != n * T)
            throw nb::value_error("uniform must be [n * T]");
        std::vector<int32_t> paths(n * T, -1);
        each(threads, [&](BackoffSearch& search, int64_t i, const SlotSequence& x) {
            search.sample(x, n, uniform.data() + offsets_[i], T, paths.data() + offsets_[i]);
        });
        return give(std::move(paths));
    }

    int64_t first_dead_position(int64_t i) const {
        if (i < 0 || i >= size()) throw nb::value_error("no such sequence");
        const WithoutGil unlocked;
        return BackoffSearch(model_.arcs).first_dead_position(at(i));
    }

    Out<double> path_score(In<int32_t> path) const {
        if (path.size() != slot_.size()) throw nb::value_error("path must be [T]");
        std::vector<double> score(size());
        each(1, [&](BackoffSearch& search, int64_t i, const SlotSequence& x) {
            score[i] = search.path_score(x, path.data() + offsets_[i]);
        });
        return give(std::move(score));
    }

  private:
    int64_t size() const { return std::ssize(offsets_) - 1; }
    SlotSequence at(int64_t i) const {
        return {slots_.slots, slot_.subspan(offsets_[i], offsets_[i + 1] - offsets_[i]), start_,
                stop_};
    }

    template <class Work>
    void each(int64_t threads, const Work& work) const {
        const WithoutGil unlocked;
        threads = std::clamp<int64_t>(size(), 1, threads);
        std::vector<std::unique_ptr<BackoffSearch>> searches(threads);
        parallel_for(size(), threads, [&](int64_t i, int64_t worker) {
            auto& search = searches[worker];
            if (!search) search = model_.borrow();
            work(*search, i, at(i));
        });
        // Not reached after an exception: interrupted searches must not be used again.
        for (auto& search : searches)
            if (search) model_.give_back(std::move(search));
    }

    PyBackoffArcs& model_;
    const PySlots& slots_;
    nb::tuple arrays_;                  // keeps them alive
    std::span<const int32_t> slot_;     // [T]
    std::span<const int64_t> offsets_;  // [N + 1]
    const int32_t start_, stop_;
};

}  // namespace

void bind_backoff(nb::module_& m) {
    using namespace nb::literals;

    nb::class_<PyBackoffArcs>(m, "BackoffArcs", "The arcs of an n-gram model, for decoding.")
        .def(nb::init<const NGrams&, int64_t, int64_t>(), "model"_a, "few_states"_a = 32,
             "direct_limit"_a = -1, nb::keep_alive<1, 2>());
    nb::class_<PySlots>(m, "Slots", "Candidates for positions: see core/backoff.hpp.")
        .def(nb::init<int64_t, In<int64_t>, In<int32_t>, In<double>>(), "n_labels"_a, "start"_a,
             "labels"_a, "scores"_a);
    nb::class_<BackoffBatch>(m, "BackoffBatch", "Sequences of candidates for back-off arcs.")
        .def(nb::init<PyBackoffArcs&, const PySlots&, In<int32_t>, In<int64_t>, int32_t, int32_t>(),
             "model"_a, "slots"_a, "slot"_a, "offsets"_a, "start"_a, "stop"_a,
             nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
        .def("viterbi", &BackoffBatch::viterbi, "n_threads"_a,
             nb::sig("def viterbi(self, n_threads: int) -> tuple[NDArray[numpy.int32], "
                     "NDArray[numpy.float64]]"),
             "(best paths [T], their scores [N]); -1 and -inf where every path is impossible.")
        .def("nbest", &BackoffBatch::nbest, "n"_a, "n_threads"_a,
             nb::sig("def nbest(self, n: int, n_threads: int) -> list[tuple[NDArray[numpy.int32], "
                     "NDArray[numpy.float64]]]"),
             "(paths [k * T], scores [k]) of each sequence.")
        .def("log_partition", &BackoffBatch::log_partition, "n_threads"_a, "[N]")
        .def("marginals", &BackoffBatch::marginals, "n_threads"_a,
             nb::sig("def marginals(self, n_threads: int) -> tuple[NDArray[numpy.float64], "
                     "NDArray[numpy.float64]]"),
             "(probability of each candidate, position after position; log-partition [N]).")
        .def("entropy", &BackoffBatch::entropy, "n_threads"_a,
             nb::sig("def entropy(self, n_threads: int) -> tuple[NDArray[numpy.float64], "
                     "NDArray[numpy.float64]]"),
             "(entropy [N], log-partition [N]).")
        .def("sample", &BackoffBatch::sample, "uniform"_a, "n"_a, "n_threads"_a, "Paths [n * T].")
        .def("first_dead_position", &BackoffBatch::first_dead_position, "i"_a,
             "The first position that no path reaches; T if none may stop; -1 if there is a path.")
        .def("path_score", &BackoffBatch::path_score, "path"_a, "Scores [N] of paths [T].");
}

}  // namespace tagloom
