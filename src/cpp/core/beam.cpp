#include "core/beam.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include "core/dispatch.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

// The loops for the instruction set in use.
const BeamKernels& kernels_in_use() {
    [[maybe_unused]] const std::string_view name = kernels().name;
#if defined(TL_HAVE_AVX512)
    if (name == "avx512") return beam_kernels_avx512();
#endif
#if defined(TL_HAVE_AVX2)
    if (name == "avx2") return beam_kernels_avx2();
#endif
    return beam_kernels_baseline();
}

constexpr double kTiny = 1e-300;  // the smallest shape of a gamma variable
constexpr int64_t kWordsPerBlock = 256;

// One step of slice sampling (Neal 2003) with stepping out, of log x for a density of x.
template <class LogDensity>
double slice_step(double x, const LogDensity& log_density, Random& random) {
    auto at = [&](double log_x) { return log_density(std::exp(log_x)) + log_x; };
    const double now = std::log(x), level = at(now) + std::log(random.positive());
    double low = now - random.uniform(), high = low + 1;
    for (int i = 0; i < 100 && at(low) > level; ++i) low -= 1;
    for (int i = 0; i < 100 && at(high) > level; ++i) high += 1;
    for (;;) {
        const double candidate = low + (high - low) * random.uniform();
        if (at(candidate) > level || high - low < 1e-12) return std::exp(candidate);
        (candidate < now ? low : high) = candidate;
    }
}

double log_gamma(double x) {
#if defined(_WIN32)
    return std::lgamma(x);
#else
    int sign;
    return lgamma_r(x, &sign);  // lgamma writes a global variable
#endif
}

// log Gamma(x) - log Gamma(x + n)
double log_rising(double x, double n) { return log_gamma(x) - log_gamma(x + n); }

}  // namespace

BeamSampler::BeamSampler(const BeamSettings& settings, std::vector<int64_t> offsets,
                         std::vector<int32_t> labels, std::vector<double> sticks, double alpha,
                         double gamma)
    : settings_(settings),
      offsets_(std::move(offsets)),
      labels_(std::move(labels)),
      sticks_(std::move(sticks)),
      alpha_(alpha),
      gamma_(gamma) {}

// ---------------------------------------------------------------------------------------------
// Steps 1 and 2

void BeamSampler::drop_empty_states() {
    std::vector<int32_t> number(K(), -1);
    for (const int32_t y : labels_) number[y] = 0;
    int32_t used = 0;
    double rest = sticks_.back();
    for (int64_t k = 0; k < K(); ++k) {
        if (number[k] < 0) {
            rest += sticks_[k];
        } else {
            sticks_[used] = sticks_[k];
            number[k] = used++;
        }
    }
    sticks_.resize(used + 1);
    sticks_.back() = rest;
    for (int32_t& y : labels_) y = number[y];
}

void BeamSampler::count_transitions() {
    const int64_t n = K();
    counts_.assign((n + 1) * n, 0);
    for (size_t i = 0; i + 1 < offsets_.size(); ++i) {
        int64_t before = n;
        for (int64_t t = offsets_[i]; t < offsets_[i + 1]; ++t) {
            counts_[before * n + labels_[t]]++;
            before = labels_[t];
        }
    }
}

std::vector<int64_t> BeamSampler::draw_tables(uint64_t seed) {
    Random random(seed, 1);
    drop_empty_states();
    count_transitions();
    const int64_t n = K();
    std::vector<int64_t> tables(n);
    for (int64_t j = 0; j <= n; ++j)
        for (int64_t k = 0; k < n; ++k) {
            // The i-th transition opens a table with probability a / (a + i).
            const double shared = alpha_ * sticks_[k], own = j == k ? settings_.sticky : 0;
            const double a = std::max(shared + own, kTiny);
            int64_t opened = 0;
            for (int64_t i = 0; i < counts_[j * n + k]; ++i)
                opened += random.uniform() * (a + double(i)) < a;
            // Tables that the sticky part opened are not draws from the sticks.
            for (int64_t m = own > 0 ? opened : 0; m > 0; --m) opened -= random.uniform() * a < own;
            tables[k] += opened;
        }
    return tables;
}

void BeamSampler::learn_concentrations(const std::vector<int64_t>& tables, Random& random) {
    const double m = double(std::accumulate(tables.begin(), tables.end(), int64_t{0}));
    const int64_t n = K();
    if (settings_.learns_gamma)
        gamma_ = slice_step(
            gamma_,
            [&](double g) {
                return (settings_.gamma_shape - 1 + double(n)) * std::log(g) -
                       settings_.gamma_rate * g + log_rising(g, m);
            },
            random);
    if (!settings_.learns_alpha) return;
    std::vector<double> left;  // transitions out of each row
    for (int64_t j = 0; j <= n; ++j) {
        const auto row = counts_.begin() + j * n;
        left.push_back(double(std::accumulate(row, row + n, int64_t{0})));
    }
    alpha_ = slice_step(
        alpha_,
        [&](double a) {
            double sum = (settings_.alpha_shape - 1 + m) * std::log(a) - settings_.alpha_rate * a;
            for (int64_t j = 0; j <= n; ++j)  // the start, j = n, is not sticky
                sum += log_rising(a + (j < n ? settings_.sticky : 0), left[j]);
            return sum;
        },
        random);
}

void BeamSampler::draw_sticks(const std::vector<int64_t>& tables, uint64_t seed) {
    Random random(seed, 2);
    learn_concentrations(tables, random);
    std::vector<double> shapes(tables.begin(), tables.end());
    shapes.push_back(gamma_);
    sticks_ = draw_row(std::move(shapes), random);
}

// A draw from a Dirichlet distribution; shapes may be tiny.
std::vector<double> BeamSampler::draw_row(std::vector<double> shapes, Random& random) const {
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (double& x : shapes) {
        x = random.log_gamma(std::max(x, kTiny));
        most = std::max(most, x);
    }
    for (double& x : shapes) sum += x = std::exp(x - most);
    for (double& x : shapes) x /= sum;
    return shapes;
}

// ---------------------------------------------------------------------------------------------
// Steps 3 and 4

void BeamSampler::draw_rows(uint64_t seed) {
    Random random(seed, 3);
    const int64_t n = K();
    std::vector<double> ends(n), visits(n);
    for (size_t i = 0; i + 1 < offsets_.size(); ++i)
        if (offsets_[i] < offsets_[i + 1]) ends[labels_[offsets_[i + 1] - 1]]++;
    for (const int32_t y : labels_) visits[y]++;
    rows_.clear();
    stop_.clear();
    for (int64_t j = -1; j < n; ++j) {
        const int64_t* counts = counts_.data() + (j < 0 ? n : j) * n;
        std::vector<double> shapes(n + 1);
        for (int64_t k = 0; k < n; ++k)
            shapes[k] = double(counts[k]) + alpha_ * sticks_[k] + (j == k ? settings_.sticky : 0);
        shapes[n] = alpha_ * sticks_[n];
        rows_.push_back(draw_row(std::move(shapes), random));
        if (j >= 0 && settings_.stops)
            stop_.push_back(random.beta(1 + ends[j], 1 + visits[j] - ends[j]));
    }
    // Slices, strictly below the probability of the present transition.
    slices_.resize(labels_.size());
    least_slice_ = 1;
    for (size_t i = 0; i + 1 < offsets_.size(); ++i) {
        int64_t before = 0;
        for (int64_t t = offsets_[i]; t < offsets_[i + 1]; ++t) {
            const double prob = rows_[before][labels_[t]];
            slices_[t] = std::min(prob * random.uniform(), std::nextafter(prob, 0.0));
            least_slice_ = std::min(least_slice_, slices_[t]);
            before = labels_[t] + 1;
        }
    }
    auto reaches_rest = [&](const std::vector<double>& row) { return row.back() > least_slice_; };
    while (K() < settings_.most_states && std::any_of(rows_.begin(), rows_.end(), reaches_rest))
        break_stick(random);
    lay_out_rows();
}

// Makes a state of part of the rest.
void BeamSampler::break_stick(Random& random) {
    const int64_t n = K();
    const double part = random.beta(1, gamma_), rest = sticks_[n];
    sticks_[n] = rest * part;
    sticks_.push_back(rest * (1 - part));
    const double a = std::max(alpha_ * sticks_[n], kTiny);
    const double b = std::max(alpha_ * sticks_[n + 1], kTiny);
    for (std::vector<double>& row : rows_) {
        const double share = random.beta(a, b), left = row[n];
        row[n] = left * share;
        row.push_back(left * (1 - share));
    }
    std::vector<double> shapes(n + 2);
    for (int64_t k = 0; k < n + 2; ++k)
        shapes[k] = alpha_ * sticks_[k] + (k == n ? settings_.sticky : 0);
    rows_.push_back(draw_row(std::move(shapes), random));
    if (settings_.stops) stop_.push_back(random.uniform());  // Beta(1, 1)
}

void BeamSampler::lay_out_rows() {
    const int64_t n = K();
    P_ = (n + kBeamPadding - 1) / kBeamPadding * kBeamPadding;
    outgoing_.assign((n + 1) * P_, 0);
    incoming_.assign(n * P_, 0);
    for (int64_t j = 0; j <= n; ++j)
        for (int64_t k = 0; k < n; ++k) {
            outgoing_[j * P_ + k] = rows_[j][k];
            if (j > 0) incoming_[k * P_ + j - 1] = rows_[j][k];
        }
}

// ---------------------------------------------------------------------------------------------
// Step 5

// Gamma variables for one symbol, of shape count + beta in each state. Most counts are 0; the power
// in the first trial of algorithm GS (see Random::gamma) is then taken of all states at once.
struct BeamSampler::SymbolDraw {
    const int64_t K, P;
    const double beta;
    std::vector<double> counts, trial;  // [P]

    void operator()(double* x, Random& random, double* sums) {
        counts.assign(x, x + P);
        trial.assign(P, 1);
        const double bound = 1 + beta / 2.71828182845904523536;
        const bool is_small = beta < 1;
        if (is_small) {
            for (int64_t k = 0; k < K; ++k) trial[k] = bound * random.positive();
            for (int64_t k = 0; k < P; ++k) x[k] = std::min(trial[k], 1.0);
            kernels_in_use().powers(x, P, 1 / beta);
        }
        for (int64_t k = 0; k < K; ++k) {
            if (counts[k] > 0 || !is_small) {
                x[k] = random.gamma(counts[k] + beta);
            } else if (trial[k] > 1) {
                x[k] = -std::log((bound - trial[k]) / beta);
                if (std::log(random.positive()) > (beta - 1) * std::log(x[k]))
                    x[k] = random.gamma(beta);
            } else if (x[k] > 1e-17 && random.uniform() > std::exp(-x[k])) {
                x[k] = random.gamma(beta);
            }
            sums[k] += x[k];
        }
        std::fill(x + K, x + P, 0.0);
    }
};

void BeamSampler::draw_categorical(const int32_t* symbols, int64_t V, double beta, uint64_t seed,
                                   int64_t threads) {
    const int64_t n = K(), blocks = (V + kWordsPerBlock - 1) / kWordsPerBlock;
    table_row_.assign(symbols, symbols + T());
    table_.assign(V * P_, 0);
    for (int64_t t = 0; t < T(); ++t)
        if (symbols[t] >= 0) table_[symbols[t] * P_ + labels_[t]]++;
    // Sums by block and then in order: the same bits for any number of threads.
    std::vector<double> sums(blocks * n);
    parallel_for(blocks, threads, [&](int64_t block, int64_t) {
        Random random(seed, 1000 + uint64_t(block));
        SymbolDraw draw{n, P_, beta, {}, {}};
        const int64_t end = std::min(V, (block + 1) * kWordsPerBlock);
        for (int64_t v = block * kWordsPerBlock; v < end; ++v)
            draw(table_.data() + v * P_, random, sums.data() + block * n);
    });
    scale_.assign(n, 0);
    for (int64_t block = 0; block < blocks; ++block)
        for (int64_t k = 0; k < n; ++k) scale_[k] += sums[block * n + k];
    for (double& x : scale_) x = x > 0 ? 1 / x : 0;
}

void BeamSampler::set_emissions(const double* probs, int64_t R, const int32_t* rows) {
    table_.assign(R * P_, 0);
    for (int64_t r = 0; r < R; ++r) std::copy_n(probs + r * K(), K(), table_.data() + r * P_);
    table_row_.assign(rows, rows + T());
    scale_.assign(K(), 1);
}

// ---------------------------------------------------------------------------------------------
// Step 6

// What all sequences share, and the memory of one thread.
struct BeamSampler::Scratch {
    std::vector<double> goes_on, ends;            // [P] factors of a state: stop and scale
    std::vector<double> goes_on_only, ends_only;  // [P] without scale, for missing tokens
    std::vector<double> ones;                     // [P]
    std::vector<double> forward;                  // [longest, P]
    std::vector<double> weights;                  // [P]
    std::vector<int32_t> active;                  // [K] states that a path may be in
};

BeamSampler::Scratch BeamSampler::make_scratch() const {
    Scratch s;
    for (std::vector<double>* x : {&s.goes_on, &s.ends, &s.goes_on_only, &s.ends_only})
        x->assign(P_, 0);
    for (int64_t k = 0; k < K(); ++k) {
        s.goes_on_only[k] = settings_.stops ? 1 - stop_[k] : 1;
        s.ends_only[k] = settings_.stops ? stop_[k] : 1;
        s.goes_on[k] = s.goes_on_only[k] * scale_[k];
        s.ends[k] = s.ends_only[k] * scale_[k];
    }
    int64_t longest = 0;
    for (size_t i = 0; i + 1 < offsets_.size(); ++i)
        longest = std::max(longest, offsets_[i + 1] - offsets_[i]);
    s.ones.assign(P_, 1);
    s.forward.resize(longest * P_);
    s.weights.resize(P_);
    s.active.resize(std::max<int64_t>(K(), 1));
    return s;
}

double BeamSampler::resample(int64_t i, uint64_t seed, Scratch& s) {
    const int64_t n = K(), first = offsets_[i], T = offsets_[i + 1] - first;
    if (T == 0) return 0;
    const BeamKernels& run = kernels_in_use();
    auto is_missing = [&](int64_t t) { return table_row_[first + t] < 0; };
    auto emission = [&](int64_t t) {
        return is_missing(t) ? s.ones.data() : table_.data() + table_row_[first + t] * P_;
    };
    auto factor = [&](int64_t t) {
        if (t + 1 < T) return (is_missing(t) ? s.goes_on_only : s.goes_on).data();
        return (is_missing(t) ? s.ends_only : s.ends).data();
    };
    const double one = 1;
    s.active[0] = 0;
    int64_t n_active = 1;
    for (int64_t t = 0; t < T; ++t) {
        double* now = s.forward.data() + t * P_;
        // Row 0 of the transitions is the start.
        const BeamStep task{P_,
                            outgoing_.data() + (t > 0 ? P_ : 0),
                            t > 0 ? now - P_ : &one,
                            s.active.data(),
                            n_active,
                            slices_[first + t],
                            emission(t),
                            factor(t),
                            now};
        const double sum = run.step(task);
        if (!(sum > 0)) return -std::numeric_limits<double>::infinity();
        const double up = sum < 1e-100 || sum > 1e100 ? 1 / sum : 1;
        n_active = 0;
        for (int64_t k = 0; k < n; ++k) {
            now[k] *= up;
            s.active[n_active] = int32_t(k);
            n_active += now[k] > 0;
        }
        n_active = std::max<int64_t>(n_active, 1);
    }
    Random random(seed, 1'000'000 + uint64_t(i));
    int32_t* label = labels_.data() + first;
    for (int64_t t = T - 1; t >= 0; --t) {
        const bool is_last = t == T - 1;
        const double* incoming = is_last ? s.ones.data() : incoming_.data() + label[t + 1] * P_;
        const BeamChoice task{P_,
                              s.forward.data() + t * P_,
                              incoming,
                              is_last ? 0 : slices_[first + t + 1],
                              random.uniform(),
                              s.weights.data()};
        label[t] = run.choose(task);
    }
    double log_joint = 0;
    for (int64_t t = 0, before = 0; t < T; before = label[t++] + 1) {
        const int64_t k = label[t];
        log_joint += std::log(rows_[before][k] * emission(t)[k] * factor(t)[k]);
    }
    return log_joint;
}

double BeamSampler::draw_labels(uint64_t seed, int64_t threads) {
    const int64_t N = int64_t(offsets_.size()) - 1;
    threads = std::clamp<int64_t>(threads, 1, std::max<int64_t>(N, 1));
    std::vector<Scratch> scratch(threads, make_scratch());
    std::vector<double> log_joint(N);
    parallel_for(N, threads, [&](int64_t i, int64_t worker) {
        log_joint[i] = resample(i, seed, scratch[worker]);
    });
    return std::accumulate(log_joint.begin(), log_joint.end(), 0.0);
}

}  // namespace tagloom
