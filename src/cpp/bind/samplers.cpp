// Python bindings of the samplers: check shapes and ranges, release the GIL, call core.

#include <algorithm>

#include "bind/arrays.hpp"
#include "bind/bind.hpp"
#include "bind/gil.hpp"
#include "core/beam.hpp"
#include "core/gibbs.hpp"

namespace tagloom {
namespace {

using Offsets = Array<const int64_t, 1>;
using Ids = Array<const int32_t, 1>;
using Numbers = Array<const double, 1>;
template <class T, int D>
using Result = nb::ndarray<nb::numpy, T, nb::ndim<D>>;

template <class A>
auto to_vector(const A& array) {
    using T = std::remove_const_t<typename A::Scalar>;
    return std::vector<T>(array.data(), array.data() + array.size());
}

void require_within(const Ids& ids, int64_t least, int64_t end, const char* what) {
    const int32_t* first = ids.data();
    require(
        std::all_of(first, first + ids.size(), [&](int32_t id) { return least <= id && id < end; }),
        what);
}

// ---------------------------------------------------------------------------------------------
// Gibbs

void make_gibbs(GibbsSampler* self, int64_t n_labels, int64_t n_symbols, const Offsets& offsets,
                const Ids& symbols, const Ids& labels, const Maybe<const int64_t, 1>& indptr,
                const Maybe<const int32_t, 1>& label_ids) {
    const int64_t T = symbols.shape(0);
    require(n_labels > 0 && n_symbols >= 0, "n_labels must be positive, n_symbols not negative");
    require(int64_t(labels.shape(0)) == T, "symbols and labels must be [T]");
    check_offsets(offsets, T);
    require_within(symbols, -1, n_symbols, "symbols must be from -1 to n_symbols - 1");
    require_within(labels, 0, n_labels, "labels must be from 0 to n_labels - 1");
    require(indptr.has_value() == label_ids.has_value(), "indptr and label_ids go together");
    std::vector<int64_t> rows;
    std::vector<int32_t> candidates;
    if (indptr) {
        require(int64_t(indptr->shape(0)) == T + 1, "indptr must be [T + 1]");
        check_offsets(*indptr, label_ids->shape(0));
        require_within(*label_ids, 0, n_labels, "label_ids must be from 0 to n_labels - 1");
        rows = to_vector(*indptr);
        candidates = to_vector(*label_ids);
        for (int64_t t = 0; t < T; ++t)
            require(std::find(candidates.begin() + rows[t], candidates.begin() + rows[t + 1],
                              labels(t)) != candidates.begin() + rows[t + 1],
                    "every label must be a candidate of its position");
    }
    new (self) GibbsSampler(n_labels, n_symbols, to_vector(offsets), to_vector(symbols),
                            to_vector(labels), std::move(rows), std::move(candidates));
}

int64_t gibbs_sweep(GibbsSampler& sampler, const Numbers& start,
                    const Array<const double, 2>& trans, const Maybe<const double, 1>& stop,
                    double beta, uint64_t seed) {
    const int64_t Y = sampler.Y();
    require(int64_t(start.shape(0)) == Y && int64_t(trans.shape(0)) == Y &&
                int64_t(trans.shape(1)) == Y && (!stop || int64_t(stop->shape(0)) == Y),
            "start and stop must be [Y], trans [Y, Y]");
    require(beta > 0, "beta must be positive");
    const GibbsPrior prior{start.data(), trans.data(), data_or_null(stop), beta};
    const WithoutGil unlocked;
    return sampler.sweep(prior, seed);
}

void bind_gibbs(nb::module_& m) {
    nb::class_<GibbsSampler>(m, "Gibbs", "Collapsed Gibbs sampling of labels; see core/gibbs.hpp.")
        .def("__init__", make_gibbs, nb::arg("n_labels"), nb::arg("n_symbols"), nb::arg("offsets"),
             nb::arg("symbols"), nb::arg("labels"), nb::arg("indptr").none() = nb::none(),
             nb::arg("label_ids").none() = nb::none())
        .def("sweep", gibbs_sweep, nb::arg("start"), nb::arg("trans"), nb::arg("stop").none(),
             nb::arg("beta"), nb::arg("seed"),
             "Draw every label once, given Dirichlet parameters; return how many changed.")
        .def_prop_ro(
            "labels",
            [](const GibbsSampler& s) {
                return nb::cast<Result<int32_t, 1>>(
                    to_numpy(std::vector<int32_t>(s.labels()), {s.labels().size()}));
            },
            "The labels [T].")
        .def(
            "transitions",
            [](const GibbsSampler& s) {
                const size_t S = s.Y() + 1;
                return nb::cast<Result<double, 2>>(to_numpy(s.transitions(), {S, S}));
            },
            "Counts [Y + 1, Y + 1]; the last row is the start, the last column the stop.")
        .def(
            "emissions",
            [](const GibbsSampler& s) {
                return nb::cast<Result<double, 2>>(
                    to_numpy(s.emissions(), {size_t(s.V()), size_t(s.Y())}));
            },
            "Counts [V, Y] of symbols with labels.")
        .def(
            "emission_histogram",
            [](const GibbsSampler& s) {
                std::vector<int64_t> times = s.emission_histogram();
                const size_t n = times.size();
                return nb::cast<Result<int64_t, 1>>(to_numpy(std::move(times), {n}));
            },
            "How many of the V * Y cells have each count.");
}

// ---------------------------------------------------------------------------------------------
// Beam

void make_beam(BeamSampler* self, const Offsets& offsets, const Ids& labels, const Numbers& sticks,
               double alpha, double gamma, double sticky, const std::optional<double>& alpha_rate,
               const std::optional<double>& gamma_rate, bool stop, int64_t most_states) {
    check_offsets(offsets, labels.shape(0));
    require(sticks.shape(0) >= 1, "sticks must be [K + 1]");
    require_within(labels, 0, int64_t(sticks.shape(0)) - 1, "labels must be from 0 to K - 1");
    require(std::all_of(sticks.data(), sticks.data() + sticks.size(),
                        [](double x) { return x >= 0 && x <= 1; }),
            "sticks must be probabilities");
    require(alpha > 0 && gamma > 0 && sticky >= 0, "alpha and gamma must be positive");
    const BeamSettings settings{sticky,
                                alpha_rate.has_value(),
                                gamma_rate.has_value(),
                                1.0,
                                alpha_rate.value_or(1),
                                1.0,
                                gamma_rate.value_or(1),
                                stop,
                                most_states};
    new (self) BeamSampler(settings, to_vector(offsets), to_vector(labels), to_vector(sticks),
                           alpha, gamma);
}

Result<int64_t, 1> beam_tables(BeamSampler& sampler, uint64_t seed) {
    std::vector<int64_t> tables = [&] {
        const WithoutGil unlocked;
        return sampler.draw_tables(seed);
    }();
    const size_t n = tables.size();
    return nb::cast<Result<int64_t, 1>>(to_numpy(std::move(tables), {n}));
}

void beam_sticks(BeamSampler& sampler, const Offsets& tables, uint64_t seed) {
    require(int64_t(tables.shape(0)) == sampler.K(), "tables must be [K]");
    require(int64_t(sampler.counts().size()) == (sampler.K() + 1) * sampler.K(),
            "draw_tables comes before draw_sticks");
    sampler.draw_sticks(to_vector(tables), seed);
}

int64_t beam_rows(BeamSampler& sampler, uint64_t seed) {
    require(int64_t(sampler.counts().size()) == (sampler.K() + 1) * sampler.K(),
            "draw_tables comes before draw_rows");
    const WithoutGil unlocked;
    sampler.draw_rows(seed);
    return sampler.K();
}

void require_symbols(const BeamSampler& sampler, const Ids& symbols, int64_t end) {
    require(int64_t(symbols.shape(0)) == sampler.T(), "one symbol or row for each token");
    require_within(symbols, -1, end, "symbols must be from -1 to n_symbols - 1");
}

double beam_sweep(BeamSampler& sampler, const Ids& symbols, int64_t n_symbols, double beta,
                  uint64_t seed, int64_t threads) {
    require_symbols(sampler, symbols, n_symbols);
    require(beta > 0, "beta must be positive");
    const WithoutGil unlocked;
    sampler.draw_sticks(sampler.draw_tables(seed), seed);
    sampler.draw_rows(seed);
    sampler.draw_categorical(symbols.data(), n_symbols, beta, seed, threads);
    return sampler.draw_labels(seed, threads);
}

double beam_labels_of(BeamSampler& sampler, const Array<const double, 2>& probs, const Ids& rows,
                      uint64_t seed, int64_t threads) {
    require(int64_t(probs.shape(1)) == sampler.K(), "probs must be [R, K]");
    require_symbols(sampler, rows, probs.shape(0));
    const WithoutGil unlocked;
    sampler.set_emissions(probs.data(), probs.shape(0), rows.data());
    return sampler.draw_labels(seed, threads);
}

void bind_beam(nb::module_& m) {
    nb::class_<BeamSampler>(m, "Beam", "Beam sampling of an infinite HMM; see core/beam.hpp.")
        .def("__init__", make_beam, nb::arg("offsets"), nb::arg("labels"), nb::arg("sticks"),
             nb::arg("alpha"), nb::arg("gamma"), nb::arg("sticky"), nb::arg("alpha_rate").none(),
             nb::arg("gamma_rate").none(), nb::arg("stop"), nb::arg("most_states"))
        .def("sweep", beam_sweep, nb::arg("symbols"), nb::arg("n_symbols"), nb::arg("beta"),
             nb::arg("seed"), nb::arg("threads"),
             "One sweep with categorical emissions; returns log Pr(symbols, labels | parameters).")
        .def("draw_tables", beam_tables, nb::arg("seed"), "Step 1: tables of each state [K].")
        .def("draw_sticks", beam_sticks, nb::arg("tables"), nb::arg("seed"), "Step 2.")
        .def("draw_rows", beam_rows, nb::arg("seed"),
             "Steps 3 and 4; returns the number of states, new ones included.")
        .def("draw_labels", beam_labels_of, nb::arg("probs"), nb::arg("rows"), nb::arg("seed"),
             nb::arg("threads"),
             "Step 6, with emission probabilities [R, K] and the row of each token, -1 if missing.")
        .def_prop_ro(
            "labels",
            [](const BeamSampler& s) {
                return nb::cast<Result<int32_t, 1>>(
                    to_numpy(std::vector<int32_t>(s.labels()), {s.labels().size()}));
            },
            "The labels [T].")
        .def_prop_ro(
            "sticks",
            [](const BeamSampler& s) {
                return nb::cast<Result<double, 1>>(
                    to_numpy(std::vector<double>(s.sticks()), {s.sticks().size()}));
            },
            "Weights of the states and, last, of the rest [K + 1].")
        .def_prop_ro("alpha", &BeamSampler::alpha)
        .def_prop_ro("gamma", &BeamSampler::gamma);
}

}  // namespace

void bind_samplers(nb::module_& m) {
    bind_gibbs(m);
    bind_beam(m);
}

}  // namespace tagloom
