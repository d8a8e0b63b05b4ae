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
constexpr double kNoShare = 1e-12;  // shares of a mixture below this are rounding errors

// What all rules share: weights, averages, the pass over the sentences. A rule implements learn(),
// the update from one sentence.
template <class In>
class OnlineOf : public Online {
  public:
    OnlineOf(const LinearObjective& objective, OnlineOptions options_)
        : options(std::move(options_)),
          sentences(objective),
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
        throw std::invalid_argument("only frank-wolfe has a duality gap");
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
                "the state is of another objective, or of an optimiser with other options");
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
    virtual void learn(int64_t place, Epoch& result) = 0;  // from the chosen sentence
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

    // Writes the best path under the present scores to `path`; returns its score minus that of the
    // right path.
    double worst(const int32_t* right) {
        sentences.viterbi(path);
        if (is_best(right)) return 0;
        return sentences.path_score(path.data()) - sentences.path_score(right);
    }
    bool is_best(const int32_t* other) const {
        return std::equal(other, other + sentences.length(), path.begin());
    }

    // Cost-augmented scores: adds the cost of each wrong label.
    void add_costs(const int32_t* right, double factor) {
        const int64_t Y = sentences.n_labels();
        sentences.add_to_wrong(
            [&](int64_t t, int64_t y) { return factor * options.cost[right[t] * Y + y]; });
    }

    const OnlineOptions options;
    Sentences<In> sentences;
    const int64_t N, W, tail_size;  // sentences, weights of the rows, weights of the tail
    std::vector<In> weights;        // [W + slack]
    std::vector<double> tail;       // [tail_size + slack]
    std::vector<double> sums;       // [n_weights + slack] with averaging
    int64_t epochs = 0, averaged = 0, steps = 0, now = 0;
    bool averaging = false;
    std::vector<int32_t> path;  // scratch of one sentence
};

// ---------------------------------------------------------------------------------------------
// AdaGrad and SGD on the CRF's loss: theta -= rate * residuals, token by token. The penalty is
// lazy; horizon[i] is its accumulated strength after i sentences.

template <class In>
class Gradient final : public OnlineOf<In> {
    using Base = OnlineOf<In>;
    using Base::averaged, Base::averaging, Base::epochs, Base::N, Base::now, Base::options;
    using Base::sentences, Base::sums, Base::tail, Base::tail_size, Base::W, Base::weights;

  public:
    Gradient(const LinearObjective& objective, OnlineOptions options_)
        : Base(objective, std::move(options_)) {
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
        // AdaGrad accumulates steps, as each weight has its own rate; SGD accumulates rates.
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

    // Applies the outstanding penalties.
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

    // The tail is treated as one full row of one token.
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
// The perceptron, and the SVM by subgradient: theta += weight * (features(right) - features(best)).
//
// The SVM's k-th step has the rate C N / k (Pegasos: 1 / (lambda k), lambda = 1 / (C N)):
//
//   theta_k = (1 - 1 / k) theta_{k-1} + C N / k * d_k, hence
//   theta_k = C N / k * (d_1 + ... + d_k).
//
// The weights stored here are the sum in parentheses. So a step is that of the perceptron and no
// weight shrinks; instead the costs are scaled by k / (C N).

template <class In>
class Mistakes final : public OnlineOf<In> {
    using Base = OnlineOf<In>;
    using Base::averaged, Base::N, Base::options, Base::path, Base::sentences, Base::steps;

  public:
    using Base::Base;

    std::vector<double> theta() const override {
        std::vector<double> theta = Base::theta();
        if (!is_svm() || steps == 0) return theta;
        // The average is weighted by k: sum_k k * theta_k / sum_k k.
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

    // Adds the perceptron's margin to each wrong label. Its unit is one update, so that it has the
    // same effect with few attributes and with many.
    void add_margin() {
        margins.resize(sentences.length());
        for (int64_t t = 0; t < sentences.length(); ++t)
            margins[t] = options.margin * 2 * sentences.update_size(t);
        sentences.add_to_wrong([&](int64_t t, int64_t) { return margins[t]; });
    }

    std::vector<double> margins;  // [T]
};

// ---------------------------------------------------------------------------------------------
// Block-coordinate Frank-Wolfe on the dual of the SVM (Lacoste-Julien et al. 2013). The dual
// variables of a sentence, one block, are a mixture of paths.

template <class In>
class FrankWolfe final : public OnlineOf<In> {
    using Base = OnlineOf<In>;
    using Base::N, Base::options, Base::path, Base::sentences, Base::tail, Base::weights;

  public:
    FrankWolfe(const LinearObjective& objective, OnlineOptions options_)
        : Base(objective, std::move(options_)) {
        if (sentences.has_open())
            throw std::invalid_argument("frank-wolfe does not support open labels");
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

    // One pairwise step in the block of one sentence (Osokin et al. 2016). Let y* be the path with
    // the largest score + cost, and y' the one in the mixture with the smallest. A part `step` of
    // the share of y' transitions to y*:
    //
    //   theta -= step * C * weight * d,   d = features(y*) - features(y')
    //   step   = gap / (C * weight * |d|^2), at most the share of y'
    //
    // where gap is the difference in score + cost; this step maximises the dual. Plain steps, which
    // shrink all shares alike, converge more slowly: with C = 0.03, after 20 epochs on EWT the
    // duality gap was 2.2 %, with pairwise steps 1.5 %.
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
    // The wrong paths with a positive dual variable; see OnlineState.
    struct Mixture {
        std::vector<int32_t> paths;  // [n, T]
        std::vector<double> shares;  // [n], above 0; they sum to at most 1
        size_t size() const { return shares.size(); }
    };

    // The paths y' (giver) and y* (taker) of a step, as places in the mixture. The size of the
    // mixture stands for the gold path as giver, and for a new path as taker.
    struct Pair {
        size_t giver, taker;
        double above;  // score + cost of the giver minus that of the gold path
        double share;  // of the giver
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

    // d = features(best path) - features(other); returns |d|^2.
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

    std::vector<Mixture> mixtures;   // [N] in work order
    std::vector<double> difference;  // [n_weights] d of one step, where stamp == touches
    std::vector<int64_t> stamp;      // [n_weights]
    std::vector<int64_t> touched;    // weights at which d is set
    int64_t touches = 0;
};

template <class In>
std::unique_ptr<Online> make_online(const LinearObjective& objective,
                                    const OnlineOptions& options) {
    switch (options.rule) {
        case Rule::adagrad:
        case Rule::sgd:
            return std::make_unique<Gradient<In>>(objective, options);
        case Rule::frank_wolfe:
            return std::make_unique<FrankWolfe<In>>(objective, options);
        default:
            return std::make_unique<Mistakes<In>>(objective, options);
    }
}

}  // namespace

std::unique_ptr<Online> Online::make(const LinearObjective& objective,
                                     const OnlineOptions& options) {
    return objective.float32 ? make_online<float>(objective, options)
                             : make_online<double>(objective, options);
}

}  // namespace tagloom
