// Python bindings of the Kalman filter and smoother: check shapes, release the GIL, call core.

#include "core/kalman.hpp"

#include <nanobind/ndarray.h>

#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "bind/arrays.hpp"
#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/gil.hpp"

namespace tagloom {
namespace {

template <int Dims>
using Steps = Array<const double, Dims>;  // the first axis is the step, or has one entry for all
template <int Dims>
using Output = Maybe<double, Dims>;
template <class T, int Dims>
using Fresh = nb::ndarray<nb::numpy, T, nb::ndim<Dims>>;

// What Python calls KalmanSystem: the arrays of a KalmanSystem, held.
struct SystemArrays {
    Steps<3> A, Q;
    Steps<2> b;
    Steps<3> C, R;
    Steps<2> d;
    Array<const double, 1> mean;
    Array<const double, 2> cov;
    Array<const bool, 1> is_diffuse;
    double tolerance;

    int64_t n() const { return int64_t(mean.shape(0)); }
    int64_t m() const { return int64_t(C.shape(1)); }

    template <class Steps>
    static StepArray view(const Steps& array) {
        const int64_t steps = array.shape(0);
        return {array.data(), steps > 1 ? int64_t(array.size()) / steps : 0};
    }
    KalmanSystem view() const {
        KalmanSystem out;
        out.n = n();
        out.m = m();
        out.A = view(A);
        out.Q = view(Q);
        out.b = view(b);
        out.C = view(C);
        out.R = view(R);
        out.d = view(d);
        out.mean = mean.data();
        out.cov = cov.data();
        out.is_diffuse = reinterpret_cast<const uint8_t*>(is_diffuse.data());
        out.tolerance = tolerance;
        return out;
    }
    void check() const {
        const size_t n = mean.shape(0), m = C.shape(1);
        require(A.shape(1) == n && A.shape(2) == n && Q.shape(1) == n && Q.shape(2) == n &&
                    b.shape(1) == n && cov.shape(0) == n && cov.shape(1) == n &&
                    is_diffuse.shape(0) == n && C.shape(2) == n,
                "A and Q must be [., n, n], b [., n], C [., m, n], mean [n], cov [n, n]");
        require(R.shape(1) == m && R.shape(2) == m && d.shape(1) == m,
                "R must be [., m, m] and d [., m]");
        require(A.shape(0) && Q.shape(0) && b.shape(0) && C.shape(0) && R.shape(0) && d.shape(0),
                "arrays must have an entry for each step, or one for all");
    }
    void check_steps(size_t steps) const {
        for (size_t count :
             {A.shape(0), Q.shape(0), b.shape(0), C.shape(0), R.shape(0), d.shape(0)})
            require(count == 1 || count == steps,
                    "arrays must have an entry for each step, or one for all");
    }
};

// What Python calls KalmanSequences: the observations, held, and their patterns.
struct SequenceArrays {
    Array<const double, 2> y;
    KalmanSequences sequences;

    SequenceArrays(Array<const double, 2> y_, const Array<const int64_t, 1>& offsets)
        : y(std::move(y_)), sequences(checked(y, offsets)) {}
    int64_t steps() const { return int64_t(y.shape(0)); }

    static KalmanSequences checked(const Array<const double, 2>& y,
                                   const Array<const int64_t, 1>& offsets) {
        check_offsets(offsets, int64_t(y.shape(0)));
        const int64_t N = int64_t(offsets.shape(0)) - 1;
        const WithoutGil unlocked;
        return KalmanSequences(y.data(), int64_t(y.shape(1)), offsets.data(), N);
    }
};

using Patterns = nb::typed<nb::tuple, Fresh<int32_t, 1>, Fresh<uint8_t, 2>>;

Patterns patterns_of(const SequenceArrays& self) {
    const KalmanSequences& all = self.sequences;
    std::vector<int32_t> which = all.which;
    which.resize(size_t(self.steps()));
    std::vector<uint8_t> observed = all.observed;
    const size_t steps = which.size(), patterns = size_t(all.patterns());
    return Patterns(nb::make_tuple(to_numpy(std::move(which), {steps}),
                                   to_numpy(std::move(observed), {patterns, size_t(all.m)})));
}

template <int Dims>
double* pointer(const Output<Dims>& array, std::initializer_list<int64_t> shape, const char* what) {
    if (!array) return nullptr;
    int axis = 0;
    for (int64_t size : shape) require(int64_t(array->shape(axis++)) == size, what);
    return array->data();
}

// Arrays of KalmanResults by position, as Python passes them.
KalmanResults results_of(const SystemArrays& system, const SequenceArrays& sequences,
                         const Array<double, 1>& log_likelihoods,
                         const std::optional<Array<int64_t, 1>>& n_diffuse,
                         const Output<1>& log_densities, const Output<2>& means,
                         const Output<3>& covs) {
    const int64_t n = system.n(), steps = sequences.steps(), N = sequences.sequences.N;
    require(system.m() == sequences.sequences.m, "y must be [steps, m]");
    system.check_steps(size_t(steps));
    require(
        int64_t(log_likelihoods.shape(0)) == N && (!n_diffuse || int64_t(n_diffuse->shape(0)) == N),
        "log_likelihoods and n_diffuse must be [sequences]");
    KalmanResults out;
    out.log_likelihoods = log_likelihoods.data();
    out.n_diffuse = n_diffuse ? n_diffuse->data() : nullptr;
    out.log_densities = pointer<1>(log_densities, {steps}, "log_densities must be [steps]");
    out.means = pointer<2>(means, {steps, n}, "means must be [steps, n]");
    out.covs = pointer<3>(covs, {steps, n, n}, "covs must be [steps, n, n]");
    return out;
}

void filter(const SystemArrays& system, const SequenceArrays& sequences,
            Array<double, 1> log_likelihoods, std::optional<Array<int64_t, 1>> n_diffuse,
            Output<1> log_densities, Output<2> means, Output<3> covs, Output<2> predicted_means,
            Output<3> predicted_covs, int64_t threads) {
    const int64_t n = system.n(), steps = sequences.steps();
    KalmanResults results =
        results_of(system, sequences, log_likelihoods, n_diffuse, log_densities, means, covs);
    results.predicted_means =
        pointer<2>(predicted_means, {steps, n}, "predicted_means must be [steps, n]");
    results.predicted_covs =
        pointer<3>(predicted_covs, {steps, n, n}, "predicted_covs must be [steps, n, n]");
    const WithoutGil unlocked;
    kalman_filter(system.view(), sequences.sequences, results, threads);
}

void smooth(const SystemArrays& system, const SequenceArrays& sequences,
            Array<double, 1> log_likelihoods, Array<int64_t, 1> n_diffuse, Array<double, 2> means,
            Array<double, 3> covs, Output<3> lags, Output<3> sum_covs, Output<2> sum_lags,
            int64_t threads) {
    const int64_t n = system.n(), steps = sequences.steps();
    KalmanResults results =
        results_of(system, sequences, log_likelihoods, n_diffuse, {}, means, covs);
    results.lags = pointer<3>(lags, {steps, n, n}, "lags must be [steps, n, n]");
    results.sum_covs = pointer<3>(sum_covs, {sequences.sequences.patterns(), n, n},
                                  "sum_covs must be [patterns, n, n]");
    results.sum_lags = pointer<2>(sum_lags, {n, n}, "sum_lags must be [n, n]");
    const WithoutGil unlocked;
    kalman_smooth(system.view(), sequences.sequences, results, threads);
}

int64_t sample(const SystemArrays& system, const SequenceArrays& sequences,
               Array<const double, 3> noise, Array<double, 3> states, int64_t threads) {
    const int64_t n = system.n(), steps = sequences.steps(), N = sequences.sequences.N;
    require(system.m() == sequences.sequences.m, "y must be [steps, m]");
    system.check_steps(size_t(steps));
    require(int64_t(states.shape(1)) == steps && int64_t(states.shape(2)) == n,
            "states must be [samples, steps, n]");
    require(noise.shape(0) == states.shape(0) && int64_t(noise.shape(1)) == steps + N &&
                int64_t(noise.shape(2)) == n,
            "noise must be [samples, steps + sequences, n]");
    const WithoutGil unlocked;
    return kalman_sample(system.view(), sequences.sequences, noise.data(), int64_t(states.shape(0)),
                         states.data(), threads);
}

void generate(const SystemArrays& system, std::optional<Array<const double, 1>> state,
              Array<const double, 2> state_noise, Array<const double, 2> observation_noise,
              Array<double, 2> states, Array<double, 2> observations) {
    const size_t T = states.shape(0), n = size_t(system.n()), m = size_t(system.m());
    require(!state || state->shape(0) == n, "state must be [n]");
    require(states.shape(1) == n && state_noise.shape(0) == T && state_noise.shape(1) == n,
            "states and state_noise must be [steps, n]");
    require(observations.shape(0) == T && observations.shape(1) == m &&
                observation_noise.shape(0) == T && observation_noise.shape(1) == m,
            "observations and observation_noise must be [steps, m]");
    system.check_steps(T);
    const WithoutGil unlocked;
    kalman_generate(system.view(), int64_t(T), state ? state->data() : nullptr, state_noise.data(),
                    observation_noise.data(), states.data(), observations.data());
}

// ---------------------------------------------------------------------------------------------
// One observation after another.

using Belief = nb::typed<nb::tuple, Fresh<double, 1>, Fresh<double, 2>, double, nb::any>;

Belief update(const SystemArrays& system, Array<const double, 1> y,
              std::optional<Array<const double, 1>> mean, std::optional<Array<const double, 2>> cov,
              const DiffuseStart* start) {
    const size_t n = mean ? mean->shape(0) : size_t(system.n());
    require(int64_t(y.shape(0)) == system.m(), "y must be [m]");
    require(mean.has_value() == cov.has_value(), "mean and cov come together");
    require(!cov || (int64_t(n) == system.n() && cov->shape(0) == n && cov->shape(1) == n),
            "mean must be [n] and cov [n, n]");
    require(!start || (mean && start->size() == system.n()), "start must be of this system");
    system.check_steps(1);
    std::optional<KalmanBelief> before;
    if (mean) {
        before.emplace();
        before->mean.assign(mean->data(), mean->data() + n);
        before->cov.assign(cov->data(), cov->data() + n * n);
        if (start) before->start = *start;
    }
    KalmanBelief after = kalman_update(system.view(), before ? &*before : nullptr, y.data());
    const nb::object next = after.start ? nb::cast(*after.start) : nb::none();
    return Belief(nb::make_tuple(to_numpy(std::move(after.mean), {n}),
                                 to_numpy(std::move(after.cov), {n, n}), after.log_density, next));
}

}  // namespace

void bind_kalman(nb::module_& m) {
    nb::class_<DiffuseStart>(m, "KalmanStart", "What is known of a state of infinite variance.")
        .def("__getstate__", &DiffuseStart::pack)
        .def("__setstate__", [](DiffuseStart& self, const std::vector<double>& numbers) {
            std::optional<DiffuseStart> start = DiffuseStart::unpack(numbers);
            require(start.has_value(), "not the numbers of a KalmanStart");
            new (&self) DiffuseStart(std::move(*start));
        });

    nb::class_<SequenceArrays>(m, "KalmanSequences", "Observations, NaN where they are missing.")
        .def(nb::init<Array<const double, 2>, const Array<const int64_t, 1>&>(),
             nb::arg("y").noconvert(), nb::arg("offsets").noconvert())
        .def_prop_ro("n_patterns",
                     [](const SequenceArrays& self) { return self.sequences.patterns(); })
        .def(
            "patterns", &patterns_of,
            "The pattern of each step, and which components each pattern has. Pattern 0 has all of "
            "them, pattern 1 none.");

    nb::class_<SystemArrays>(m, "KalmanSystem", "A linear Gaussian state-space model.")
        .def(
            "__init__",
            [](SystemArrays* self, Steps<3> A, Steps<3> Q, Steps<2> b, Steps<3> C, Steps<3> R,
               Steps<2> d, Array<const double, 1> mean, Array<const double, 2> cov,
               Array<const bool, 1> is_diffuse, double tolerance) {
                SystemArrays arrays{A, Q, b, C, R, d, mean, cov, is_diffuse, tolerance};
                arrays.check();
                new (self) SystemArrays(std::move(arrays));
            },
            nb::arg("A").noconvert(), nb::arg("Q").noconvert(), nb::arg("b").noconvert(),
            nb::arg("C").noconvert(), nb::arg("R").noconvert(), nb::arg("d").noconvert(),
            nb::arg("mean").noconvert(), nb::arg("cov").noconvert(),
            nb::arg("is_diffuse").noconvert(), nb::arg("tolerance"))
        .def("filter", &filter, nb::arg("sequences"), nb::arg("log_likelihoods").noconvert(),
             nb::arg("n_diffuse").noconvert().none() = nb::none(),
             nb::arg("log_densities").noconvert().none() = nb::none(),
             nb::arg("means").noconvert().none() = nb::none(),
             nb::arg("covs").noconvert().none() = nb::none(),
             nb::arg("predicted_means").noconvert().none() = nb::none(),
             nb::arg("predicted_covs").noconvert().none() = nb::none(), nb::arg("threads") = 1)
        .def("smooth", &smooth, nb::arg("sequences"), nb::arg("log_likelihoods").noconvert(),
             nb::arg("n_diffuse").noconvert(), nb::arg("means").noconvert(),
             nb::arg("covs").noconvert(), nb::arg("lags").noconvert().none() = nb::none(),
             nb::arg("sum_covs").noconvert().none() = nb::none(),
             nb::arg("sum_lags").noconvert().none() = nb::none(), nb::arg("threads") = 1)
        .def("sample", &sample, nb::arg("sequences"), nb::arg("noise").noconvert(),
             nb::arg("states").noconvert(), nb::arg("threads") = 1)
        .def("generate", &generate, nb::arg("state").noconvert().none(),
             nb::arg("state_noise").noconvert(), nb::arg("observation_noise").noconvert(),
             nb::arg("states").noconvert(), nb::arg("observations").noconvert())
        .def("update", &update, nb::arg("y").noconvert(),
             nb::arg("mean").noconvert().none() = nb::none(),
             nb::arg("cov").noconvert().none() = nb::none(), nb::arg("start").none() = nb::none());
}

}  // namespace tagloom
