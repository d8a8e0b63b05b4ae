#include "core/online.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "core/dispatch.hpp"
#include "core/sentences.hpp"

namespace tagloom {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNoShare = 1e-12;  // a share of a mixture that is zero but for rounding

// Weights, their averages and the pass over the sentences, which all rules share. A rule learns
// from one sentence.
template <class In>
class OnlineOf : public Online {
  public:
    OnlineOf(const Problem& problem, OnlineOptions options_)
        : options(std::move(options_)),
          sentences(problem),
          N(sentences.size()),
          W(sentences.n_rows()),
          tail_size(sentences.n_tail()) {
        weights.assign(W + kRowSlack, In(0));
        tail.assign(tail_size + kRowSlack, 0.0);
        if (options.average) sums.assign(n_weights() + kRowSlack, 0.0);
    }

    Epoch epoch(const int64_t* permutation) override {
        averaging = options.average && epochs >= options.average_from;
        begin_epoch();
        Epoch result;
        for (now = 0; now < N; ++now) {
            const int64_t place = sentences.place(permutation[now]);
            if (sentences.length(place) > 0) {
                sentences.choose(place, weights.data(), tail.data());
                learn(place, result);
            }
            ++steps;
            if (averaging) ++averaged;
        }
        end_epoch();
        ++epochs;
        return result;
    }

    std::vector<double> theta() const override {
        std::vector<double> theta = current();
        if (averaged > 0)
            for (size_t j = 0; j < theta.size(); ++j) theta[j] -= sums[j] / double(averaged);
        return theta;
    }

    Certificate certify() override {
        throw std::invalid_argument("only frank-wolfe knows its duality gap");
    }

    OnlineState state() const override {
        OnlineState out;
        out.theta = current();
        out.sums = sums;
        if (!sums.empty()) out.sums.resize(n_weights());
        out.epochs = epochs;
        out.averaged = averaged;
        out.steps = steps;
        return out;
    }

    void restore(const OnlineState& from) override {
        if (!fits(from))
            throw std::invalid_argument(
                "the state is of another problem, or of an optimiser with other options");
        for (int64_t j = 0; j < W; ++j)
            weights[j] = sentences.is_free(j) ? static_cast<In>(from.theta[j]) : In(0);
        for (int64_t j = 0; j < tail_size; ++j)
            tail[j] = sentences.is_free(W + j) ? from.theta[W + j] : 0.0;
        std::copy(from.sums.begin(), from.sums.end(), sums.begin());
        epochs = from.epochs;
        averaged = from.averaged;
        steps = from.steps;
    }

  protected:
    virtual void begin_epoch() {}
    virtual void learn(int64_t place, Epoch& result) = 0;  // from the sentence that is chosen
    virtual void end_epoch() {}

    virtual bool fits(const OnlineState& from) const {
        const size_t n = n_weights();
        return from.theta.size() == n && from.squares.size() == (has_squares() ? n : 0) &&
               from.sums.size() == (sums.empty() ? 0 : n) && from.epochs >= 0 &&
               from.averaged >= 0 && (from.averaged == 0 || !sums.empty()) &&
               from.steps >= from.averaged && from.n_paths.size() == size_t(n_mixtures());
    }
    virtual bool has_squares() const { return false; }
    virtual int64_t n_mixtures() const { return 0; }

    int64_t n_weights() const { return W + tail_size; }

    std::vector<double> current() const {
        std::vector<double> theta(weights.begin(), weights.begin() + W);
        theta.insert(theta.end(), tail.begin(), tail.begin() + tail_size);
        return theta;
    }

    void change(int64_t weight, double delta) {
        if (weight < W)
            weights[weight] += static_cast<In>(delta);
        else
            tail[weight - W] += delta;
        if (averaging) sums[weight] += double(averaged) * delta;
    }

    // The best path under the present scores, into `path`; how far it is above the right one.
    double worst(const int32_t* right) {
        sentences.viterbi(path);
        if (is_best(right)) return 0;
        return sentences.path_score(path.data()) - sentences.path_score(right);
    }
    bool is_best(const int32_t* other) const {
        return std::equal(other, other + sentences.length(), path.begin());
    }

    // What makes decoding look for labels that are wrong at a high cost.
    void add_costs(const int32_t* right, double factor) {
        const int64_t Y = sentences.n_labels();
        sentences.add_to_wrong(
            [&](int64_t t, int64_t y) { return factor * options.cost[right[t] * Y + y]; });
    }

    const OnlineOptions options;
    Sentences<In> sentences;
    const int64_t N, W, tail_size;  // sentences; weights of the rows, and of the tail
    std::vector<In> weights;        // [W + slack]
    std::vector<double> tail;       // [tail_size + slack]
    std::vector<double> sums;       // [n_weights + slack] with averaging
    int64_t epochs = 0, averaged = 0, steps = 0, now = 0;
    bool averaging = false;
    std::vector<int32_t> path;  // scratch of one sentence
};

// ---------------------------------------------------------------------------------------------
// AdaGrad and SGD on the CRF's loss: theta -= rate * residuals, token by token.

template <class In>
class Gradient final : public OnlineOf<In> {
    using Base = OnlineOf<In>;
    using Base::averaged, Base::averaging, Base::epochs, Base::N, Base::now, Base::options;
    using Base::sentences, Base::sums, Base::tail, Base::tail_size, Base::W, Base::weights;

  public:
    Gradient(const Problem& problem, OnlineOptions options_) : Base(problem, std::move(options_)) {
        squares.resize(W + kRowSlack);
        tail_squares.resize(tail_size + kRowSlack);
        last.resize(W + kRowSlack);
        horizon.resize(N + 1);
        const double free = is_adagrad() ? options.first_square : 1,
                     masked = is_adagrad() ? kInfinity : 0;
        for (int64_t j = 0; j < W; ++j)
            squares[j] = static_cast<In>(sentences.is_free(j) ? free : masked);
        for (int64_t j = 0; j < tail_size; ++j)
            tail_squares[j] = sentences.is_free(W + j) ? free : masked;
    }

    OnlineState state() const override {
        OnlineState out = Base::state();
        out.squares.assign(squares.begin(), squares.begin() + W);
        out.squares.insert(out.squares.end(), tail_squares.begin(),
                           tail_squares.begin() + tail_size);
        return out;
    }

    void restore(const OnlineState& from) override {
        Base::restore(from);
        for (int64_t j = 0; j < W; ++j) squares[j] = static_cast<In>(from.squares[j]);
        std::copy_n(from.squares.begin() + W, tail_size, tail_squares.begin());
    }

  protected:
    bool has_squares() const override { return true; }

    void begin_epoch() override {
        std::fill(last.begin(), last.end(), 0);
        tail_last = 0;
        // AdaGrad's penalty is counted in steps, each weight having a rate of its own; that of SGD
        // in steps times their rates.
        if (is_adagrad())
            for (int64_t i = 0; i <= N; ++i) horizon[i] = double(i);
        else
            for (int64_t i = 0; i < N; ++i) horizon[i + 1] = horizon[i] + rate(i);
    }

    void learn(int64_t, Epoch& result) override {
        result.loss += sentences.weight() * sentences.residuals();
        RowUpdate<In> task{};
        task.weights = weights.data();
        task.squares = squares.data();
        task.sums = averaging ? sums.data() : nullptr;
        task.last = last.data();
        sentences.update(timed(task));
        update_tail();
    }

    // What the penalty still asks for at the end of an epoch.
    void end_epoch() override {
        if (options.l2 == 0) return;
        sentences.each_row_weight([&](int64_t w, int64_t noted_at) {
            shrink(weights[w], squares[w], last[noted_at], w);
        });
        for (int64_t j = 0; j < tail_size; ++j) shrink(tail[j], tail_squares[j], tail_last, W + j);
    }

  private:
    bool is_adagrad() const { return options.rule == Rule::adagrad; }
    double rate(int64_t i) const {
        if (is_adagrad()) return options.eta;
        return options.eta / (1 + options.decay * (double(epochs) + double(i) / N));
    }
    double lambda() const { return 2 * options.l2 / std::max<int64_t>(N, 1); }

    template <class R>
    RowUpdate<R> timed(RowUpdate<R> task) const {
        task.horizon = horizon.data();
        task.now = static_cast<uint32_t>(now + 1);
        task.adagrad = is_adagrad();
        task.eta = static_cast<R>(rate(now));
        task.lambda = static_cast<R>(lambda());
        task.averaged = double(averaged);
        return task;
    }

    // Transitions, starts and stops are one full row of one token.
    void update_tail() {
        static constexpr int64_t full_ptr[2] = {0, 1}, single_ptr[2] = {0, 0};
        static constexpr uint32_t list[1 + kListSlack] = {};
        RowUpdate<double> task{};
        task.lists = {full_ptr, single_ptr, list, list, nullptr, nullptr, nullptr};
        task.n = 1;
        task.width = tail_size;
        task.rows = sentences.tail_residuals();
        task.weights = tail.data();
        task.squares = tail_squares.data();
        task.sums = averaging ? sums.data() + W : nullptr;
        task.last = &tail_last;
        kernels().rows().update_f64(timed(task));
    }

    template <class R>
    void shrink(R& weight, double square, uint32_t since, int64_t at) {
        const double pull = lambda() * (horizon.back() - horizon[since]), before = weight;
        const double eta = options.eta;
        const double after = is_adagrad()
                                 ? before - eta * pull * before / (std::sqrt(square) + eta * pull)
                                 : before / (1 + pull);
        weight = static_cast<R>(after);
        if (averaging) sums[at] += double(averaged) * (double(weight) - before);
    }

    std::vector<In> squares;           // [W + slack]
    std::vector<double> tail_squares;  // [tail_size + slack]
    std::vector<uint32_t> last;        // [W + slack]
    uint32_t tail_last = 0;
    std::vector<double> horizon;  // [N + 1]
};

// ---------------------------------------------------------------------------------------------
// The perceptron, and the SVM by its subgradient: towards the right path and away from the best
// one, where they differ.
//
// The SVM's k-th step has the rate C N / k (Pegasos: 1 / (lambda k), lambda = 1 / (C N)):
//   theta_k = (1 - 1 / k) theta_{k-1} + C N / k * d_k, hence
//   theta_k = C N / k * (d_1 + ... + d_k).
// The weights here are the sum in brackets, so that a step is that of the perceptron and nothing
// ever shrinks; it is the costs that grow.

template <class In>
class Mistakes final : public OnlineOf<In> {
    using Base = OnlineOf<In>;
    using Base::averaged, Base::N, Base::options, Base::path, Base::sentences, Base::steps;

  public:
    using Base::Base;

    std::vector<double> theta() const override {
        std::vector<double> theta = Base::theta();
        if (!is_svm() || steps == 0) return theta;
        // With averaging, the k-th weights count k times: sum_k k * theta_k / sum_k k.
        const double k = averaged > 0 ? double(2 * steps - averaged + 1) / 2 : double(steps);
        for (double& weight : theta) weight *= options.C * double(N) / k;
        return theta;
    }

  protected:
    void learn(int64_t, Epoch& result) override {
        const int32_t* right = sentences.right_path();
        double scale = 1;
        if (is_svm()) {
            if (steps > 0) scale = double(steps) / (options.C * double(N));
            this->add_costs(right, scale);
        } else if (options.margin > 0) {
            add_margin();
        }
        const double loss = this->worst(right) / scale, weight = sentences.weight();
        if (this->is_best(right)) return;
        ++result.mistakes;
        result.loss += weight * loss;
        sentences.each_difference(
            right, path.data(), [&](int64_t j, double value) { this->change(j, weight * value); });
    }

  private:
    bool is_svm() const { return options.rule == Rule::subgradient; }

    // The perceptron's margin, for each wrong label. It is measured in updates, so that it means
    // the same with few attributes and with many.
    void add_margin() {
        margins.resize(sentences.length());
        for (int64_t t = 0; t < sentences.length(); ++t)
            margins[t] = options.margin * 2 * sentences.update_size(t);
        sentences.add_to_wrong([&](int64_t t, int64_t) { return margins[t]; });
    }

    std::vector<double> margins;  // [T]
};

// ---------------------------------------------------------------------------------------------
// Block-coordinate Frank-Wolfe on the dual of the SVM (Lacoste-Julien et al. 2013). Each sentence
// is a block, which stands on a mixture of paths.

template <class In>
class FrankWolfe final : public OnlineOf<In> {
    using Base = OnlineOf<In>;
    using Base::N, Base::options, Base::path, Base::sentences, Base::tail, Base::weights;

  public:
    FrankWolfe(const Problem& problem, OnlineOptions options_)
        : Base(problem, std::move(options_)) {
        if (sentences.has_open()) throw std::invalid_argument("frank-wolfe needs every label");
        mixtures.resize(N);
        difference.resize(this->n_weights());
        stamp.resize(this->n_weights());
    }

    Certificate certify() override {
        Certificate result;
        const int64_t Y = sentences.n_labels();
        for (int64_t i = 0; i < N; ++i) {
            const int64_t T = sentences.length(i);
            if (T == 0) continue;
            sentences.choose(i, weights.data(), tail.data());
            const double weight = sentences.weight();
            const int32_t* gold = sentences.gold();
            this->add_costs(gold, 1);
            result.loss += weight * this->worst(gold);
            const Mixture& mixture = mixtures[i];
            for (size_t p = 0; p < mixture.shares.size(); ++p)
                for (int64_t t = 0; t < T; ++t)
                    result.cost += weight * mixture.shares[p] *
                                   options.cost[gold[t] * Y + mixture.paths[p * T + t]];
        }
        return result;
    }

    OnlineState state() const override {
        OnlineState out = Base::state();
        for (const Mixture& mixture : mixtures) {
            out.n_paths.push_back(static_cast<int64_t>(mixture.shares.size()));
            out.paths.insert(out.paths.end(), mixture.paths.begin(), mixture.paths.end());
            out.shares.insert(out.shares.end(), mixture.shares.begin(), mixture.shares.end());
        }
        return out;
    }

    void restore(const OnlineState& from) override {
        Base::restore(from);
        size_t path_at = 0, share_at = 0;
        for (int64_t i = 0; i < N; ++i) {
            const size_t n_shares = from.n_paths[i], length = n_shares * sentences.length(i);
            const auto paths = from.paths.begin() + path_at;
            const auto shares = from.shares.begin() + share_at;
            mixtures[i].paths.assign(paths, paths + length);
            mixtures[i].shares.assign(shares, shares + n_shares);
            path_at += length;
            share_at += n_shares;
        }
    }

  protected:
    int64_t n_mixtures() const override { return N; }

    bool fits(const OnlineState& from) const override {
        if (!Base::fits(from)) return false;
        const int64_t all_paths = from.paths.size(), all_shares = from.shares.size();
        int64_t paths = 0, shares = 0;
        for (int64_t i = 0; i < N; ++i) {
            if (from.n_paths[i] < 0 || from.n_paths[i] > all_shares - shares) return false;
            shares += from.n_paths[i];
            paths += from.n_paths[i] * sentences.length(i);
        }
        return paths == all_paths && shares == all_shares &&
               std::all_of(from.paths.begin(), from.paths.end(),
                           [&](int32_t y) { return y >= 0 && y < sentences.n_labels(); });
    }

    // One pairwise step in the block of one sentence (Osokin et al. 2016). Of the mixture of paths
    // that the block stands on, the least deserving one, y', gives some of its share to the path
    // that has the loss, y*:
    //   theta -= step * C * weight * d, d = features(y*) - features(y'),
    // as much as lets the dual rise most: step = gap / (C * weight * |d|^2), where gap is how far
    // y* is above y' in score and cost. Plain steps, which take from all paths alike, are slower:
    // with C = 0.03, 20 epochs on EWT left a gap of 2.2 %, pairwise ones of 1.5 %.
    void learn(int64_t place, Epoch& result) override {
        const double weight = sentences.weight();
        const int32_t* gold = sentences.gold();
        this->add_costs(gold, 1);
        const double loss = this->worst(gold);
        if (loss > 0) ++result.mistakes;
        result.loss += weight * loss;
        if (weight == 0) return;
        Mixture& mixture = mixtures[place];
        const Pair pair = choose(mixture, gold);
        const double gap = loss - pair.above;
        if (!(gap > 0)) return;
        const int64_t T = sentences.length();
        const bool from_gold = pair.giver == mixture.size();
        const double square = collect(from_gold ? gold : &mixture.paths[pair.giver * T]);
        const double reach = options.C * weight * square;
        const double step = gap < pair.share * reach ? gap / reach : pair.share;
        for (const int64_t j : touched) this->change(j, -step * options.C * weight * difference[j]);
        if (!this->is_best(gold)) give(mixture, pair.taker, step);
        if (!from_gold) take(mixture, pair.giver, step);
    }

  private:
    // The wrong paths that a block of the dual puts weight on; see OnlineState.
    struct Mixture {
        std::vector<int32_t> paths;  // [n, T]
        std::vector<double> shares;  // [n], above 0; they sum to at most 1
        size_t size() const { return shares.size(); }
    };

    // Paths of a mixture that exchange a share; n, its size, is the gold path or a new one.
    struct Pair {
        size_t giver, taker;
        double above;  // how far the giver is above the gold path
        double share;  // what it has to give
    };

    Pair choose(const Mixture& mixture, const int32_t* gold) const {
        const size_t n = mixture.size();
        const int64_t T = sentences.length();
        const double right = sentences.path_score(gold);
        Pair pair{n, n, kInfinity, 0};
        double of_gold = 1;
        for (size_t p = 0; p < n; ++p) {
            const int32_t* other = &mixture.paths[p * T];
            of_gold -= mixture.shares[p];
            const double above = sentences.path_score(other) - right;
            if (above < pair.above) pair.above = above, pair.giver = p;
            if (this->is_best(other)) pair.taker = p;
        }
        if (of_gold > kNoShare && pair.above > 0) pair.above = 0, pair.giver = n;
        pair.share = pair.giver == n ? of_gold : mixture.shares[pair.giver];
        return pair;
    }

    // d = features of the best path - features of another one; returns |d|^2.
    double collect(const int32_t* other) {
        touched.clear();
        ++touches;
        sentences.each_feature(path.data(), [&](int64_t j, double value) { collect(j, value); });
        sentences.each_feature(other, [&](int64_t j, double value) { collect(j, -value); });
        double square = 0;
        for (const int64_t j : touched) square += difference[j] * difference[j];
        return square;
    }
    void collect(int64_t weight, double by) {
        if (stamp[weight] != touches) {
            stamp[weight] = touches;
            difference[weight] = 0;
            touched.push_back(weight);
        }
        difference[weight] += by;
    }

    void give(Mixture& mixture, size_t taker, double share) {
        if (taker == mixture.size()) {
            mixture.shares.push_back(0);
            mixture.paths.insert(mixture.paths.end(), path.begin(),
                                 path.begin() + sentences.length());
        }
        mixture.shares[taker] += share;
    }
    void take(Mixture& mixture, size_t giver, double share) {
        mixture.shares[giver] -= share;
        if (mixture.shares[giver] > kNoShare) return;
        const int64_t T = sentences.length();
        const auto first = mixture.paths.begin() + giver * T;
        mixture.shares.erase(mixture.shares.begin() + giver);
        mixture.paths.erase(first, first + T);
    }

    std::vector<Mixture> mixtures;   // [N] in the order of work
    std::vector<double> difference;  // [n_weights] d of one step, where stamp == touches
    std::vector<int64_t> stamp;      // [n_weights]
    std::vector<int64_t> touched;    // weights that d has
    int64_t touches = 0;
};

template <class In>
std::unique_ptr<Online> make_online(const Problem& problem, const OnlineOptions& options) {
    switch (options.rule) {
        case Rule::adagrad:
        case Rule::sgd:
            return std::make_unique<Gradient<In>>(problem, options);
        case Rule::frank_wolfe:
            return std::make_unique<FrankWolfe<In>>(problem, options);
        default:
            return std::make_unique<Mistakes<In>>(problem, options);
    }
}

}  // namespace

std::unique_ptr<Online> Online::make(const Problem& problem, const OnlineOptions& options) {
    return problem.float32 ? make_online<float>(problem, options)
                           : make_online<double>(problem, options);
}

}  // namespace tagloom
