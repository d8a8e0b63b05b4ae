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
    OnlineOf(const RowMap& map_, int64_t n_rows, int64_t n_tail, OnlineOptions options_)
        : options(std::move(options_)),
          map(map_),
          tail_at(map.tail_at()),
          W(n_rows),
          tail_size(n_tail) {
        resize();
    }

    void begin(int64_t n, int64_t n_corpus) override {
        averaging = options.average && epochs >= options.average_from;
        n_pass = n;
        N = std::max<int64_t>(n_corpus, 1);
        now = 0;
        begin_epoch();
    }

    void attach(const Corpus& part) override {
        sentences = std::make_unique<Sentences<In>>(part, map);
    }

    Epoch visit(const int64_t* permutation, int64_t n) override {
        Epoch result;
        sentences->set_epoch(epochs);
        for (int64_t i = 0; i < n; ++i, ++now) {
            const int64_t place = sentences->place(permutation[i]);
            if (sentences->length(place) > 0) {
                sentences->choose(place, weights.data(), tail.data());
                learn(place, result);
            }
            ++steps;
            if (averaging) ++averaged;
        }
        return result;
    }

    void end() override {
        end_epoch();
        ++epochs;
        elapsed += double(n_pass) / double(N);
    }

    std::vector<double> theta() const override {
        std::vector<double> theta = current();
        if (averaged > 0) {
            for (int64_t j = 0; j < W; ++j) theta[j] -= sums[j] / double(averaged);
            for (int64_t j = 0; j < tail_size; ++j) theta[W + j] -= tail_sums[j] / double(averaged);
        }
        return theta;
    }

    void read_rows(int64_t first, int64_t n, float* out) const override {
        const double scale = read_scale();
        for (int64_t j = first; j < first + n; ++j) {
            double weight = weights[j];
            if (averaged > 0) weight -= sums[j] / double(averaged);
            out[j - first] = static_cast<float>(weight * scale);
        }
    }

    std::vector<double> read_tail() const override {
        std::vector<double> weights(tail.begin(), tail.begin() + tail_size);
        for (int64_t j = 0; j < tail_size; ++j) {
            if (averaged > 0) weights[j] -= tail_sums[j] / double(averaged);
            weights[j] *= read_scale();
        }
        return weights;
    }

    void set_cost(std::vector<double> cost) override { options.cost = std::move(cost); }

    Certificate certify() override {
        throw std::invalid_argument("only frank-wolfe has a duality gap");
    }

    OnlineState state() const override {
        OnlineState out;
        out.theta = current();
        if (options.average) out.sums = joined(sums, tail_sums);
        out.epochs = epochs;
        out.averaged = averaged;
        out.steps = steps;
        out.corpus = N;
        out.elapsed = elapsed;
        return out;
    }

    void restore(const OnlineState& from) override {
        if (!fits(from))
            throw std::invalid_argument(
                "the state is of another objective, or of an optimiser with other options");
        for (int64_t j = 0; j < W; ++j)
            weights[j] = map.free_rows()[j] ? static_cast<In>(from.theta[j]) : In(0);
        for (int64_t j = 0; j < tail_size; ++j)
            tail[j] = map.free_tail()[j] ? from.theta[W + j] : 0.0;
        if (options.average) {
            std::copy_n(from.sums.begin(), W, sums.begin());
            std::copy_n(from.sums.begin() + W, tail_size, tail_sums.begin());
        }
        epochs = from.epochs;
        averaged = from.averaged;
        steps = from.steps;
        elapsed = from.elapsed < 0 ? double(epochs) : from.elapsed;
        if (from.corpus > 0) N = from.corpus;
    }

    void remap(int64_t n_rows, const int64_t* from_rows, int64_t n_tail,
               const int64_t* from_tail) override {
        const int64_t old_rows = W, old_tail = tail_size;
        if (from_rows) move(weights, old_rows, from_rows, n_rows);
        if (from_rows && options.average) move(sums, old_rows, from_rows, n_rows);
        if (from_tail) move(tail, old_tail, from_tail, n_tail);
        if (from_tail && options.average) move(tail_sums, old_tail, from_tail, n_tail);
        W = n_rows;
        tail_size = n_tail;
        resize();
    }

    void release(int64_t) override {}

  protected:
    virtual void begin_epoch() {}
    virtual void learn(int64_t place, Epoch& result) = 0;  // from the chosen sentence
    virtual void end_epoch() {}
    virtual double read_scale() const { return 1; }  // of theta() relative to the weights

    virtual bool fits(const OnlineState& from) const {
        const size_t n = n_weights();
        return from.theta.size() == n && from.squares.size() == (has_squares() ? n : 0) &&
               from.sums.size() == (options.average ? n : 0) && from.epochs >= 0 &&
               from.averaged >= 0 && (from.averaged == 0 || options.average) &&
               from.steps >= from.averaged && from.n_paths.size() == size_t(n_mixtures());
    }
    virtual bool has_squares() const { return false; }
    virtual int64_t n_mixtures() const { return 0; }

    int64_t n_weights() const { return W + tail_size; }

    std::vector<double> current() const { return joined(weights, tail); }

    template <class A, class B>
    std::vector<double> joined(const std::vector<A>& rows, const std::vector<B>& of_tail) const {
        std::vector<double> all;
        all.reserve(static_cast<std::size_t>(n_weights()));  // grown, it would be there twice
        all.assign(rows.begin(), rows.begin() + W);
        all.insert(all.end(), of_tail.begin(), of_tail.begin() + tail_size);
        return all;
    }

    // The values of remapped weights; new ones are zero.
    template <class A>
    static void move(std::vector<A>& values, int64_t n_old, const int64_t* from, int64_t n) {
        std::vector<A> moved(n + kRowSlack, A(0));
        for (int64_t j = 0; j < n; ++j)
            if (from[j] >= 0 && from[j] < n_old) moved[j] = values[from[j]];
        values = std::move(moved);
    }

    void change(int64_t weight, double delta) {
        const bool is_row = weight < tail_at;
        const int64_t j = is_row ? weight : weight - tail_at;
        if (is_row)
            weights[j] += static_cast<In>(delta);
        else
            tail[j] += delta;
        if (averaging) (is_row ? sums : tail_sums)[j] += double(averaged) * delta;
    }

    // Writes the best path under the present scores to `path`; returns its score minus that of the
    // right path.
    double worst(const int32_t* right) {
        sentences->viterbi(path);
        if (is_best(right)) return 0;
        return sentences->path_score(path.data()) - sentences->path_score(right);
    }
    bool is_best(const int32_t* other) const {
        return std::equal(other, other + sentences->length(), path.begin());
    }

    // Cost-augmented scores: adds the cost of each wrong label.
    void add_costs(const int32_t* right, double factor) {
        const int64_t Y = sentences->n_labels();
        sentences->add_to_wrong(
            [&](int64_t t, int64_t y) { return factor * options.cost[right[t] * Y + y]; });
    }

    OnlineOptions options;
    const RowMap& map;
    std::unique_ptr<Sentences<In>> sentences;  // of the attached corpus
    const int64_t tail_at;                     // number of the first weight of the tail
    int64_t n_pass = 0;                        // sentences of this epoch
    int64_t W, tail_size;                      // weights of the rows, weights of the tail
    std::vector<In> weights;                   // [W + slack]
    std::vector<double> tail;                  // [tail_size + slack]
    std::vector<double> sums, tail_sums;       // [W + slack], [tail_size + slack] with averaging
    int64_t epochs = 0, averaged = 0, steps = 0, now = 0;
    double elapsed = 0;  // epochs; a pass over a part of the corpus is a fraction
    bool averaging = false;
    std::vector<int32_t> path;  // scratch of one sentence

  private:
    // The slack beyond the end must be zero, or finite: kernels read it.
    void resize() {
        fit(weights, W);
        fit(tail, tail_size);
        if (!options.average) return;
        sums.reserve(static_cast<std::size_t>(n_weights() + kRowSlack));  // for take_theta()
        fit(sums, W);
        fit(tail_sums, tail_size);
    }
    template <class A>
    static void fit(std::vector<A>& values, int64_t n) {
        values.resize(n + kRowSlack, A(0));
    }
};

// ---------------------------------------------------------------------------------------------
// AdaGrad and SGD on the CRF's loss: theta -= rate * residuals, token by token. With a margin, the
// loss is that of scores in which every wrong label has the margin added. The penalty is lazy;
// horizon[i] is its accumulated strength after i sentences.

template <class In>
class Gradient final : public OnlineOf<In> {
    using Base = OnlineOf<In>;
    using Base::averaged, Base::averaging, Base::elapsed, Base::map, Base::n_pass, Base::N;
    using Base::now, Base::options, Base::sentences, Base::sums, Base::tail, Base::tail_at;
    using Base::tail_size, Base::tail_sums, Base::W, Base::weights;

  public:
    Gradient(const RowMap& map_, int64_t n_rows, int64_t n_tail, OnlineOptions options_)
        : Base(map_, n_rows, n_tail, std::move(options_)) {
        begin_squares(0, 0);
    }

    OnlineState state() const override {
        OnlineState out = Base::state();
        out.squares = this->joined(squares, tail_squares);
        return out;
    }

    void restore(const OnlineState& from) override {
        Base::restore(from);
        for (int64_t j = 0; j < W; ++j) squares[j] = static_cast<In>(from.squares[j]);
        std::copy_n(from.squares.begin() + W, tail_size, tail_squares.begin());
    }

    void remap(int64_t n_rows, const int64_t* from_rows, int64_t n_tail,
               const int64_t* from_tail) override {
        const int64_t old_rows = W, old_tail = tail_size;
        const auto old_squares = from_rows ? squares : std::vector<In>();
        const auto old_tail_squares = from_tail ? tail_squares : std::vector<double>();
        Base::remap(n_rows, from_rows, n_tail, from_tail);
        begin_squares(from_rows ? 0 : old_rows, from_tail ? 0 : old_tail);
        // A weight that was masked and is free now starts anew.
        for (int64_t j = 0; from_rows && j < W; ++j)
            if (const int64_t i = from_rows[j];
                i >= 0 && i < old_rows && map.free_rows()[j] && old_squares[i] != masked())
                squares[j] = old_squares[i];
        for (int64_t j = 0; from_tail && j < tail_size; ++j)
            if (const int64_t i = from_tail[j];
                i >= 0 && i < old_tail && map.free_tail()[j] && old_tail_squares[i] != masked())
                tail_squares[j] = old_tail_squares[i];
    }

    void release(int64_t weight) override {
        if (weight < tail_at)
            squares[weight] = static_cast<In>(free());
        else
            tail_squares[weight - tail_at] = free();
    }

    // In the memory of the sums, so that the largest arrays are not there twice.
    std::vector<double> take_theta() override {
        squares = {};
        last = {};
        if (averaged == 0) return this->theta();
        const double n = double(averaged);
        for (int64_t j = 0; j < W; ++j) sums[j] = weights[j] - sums[j] / n;
        sums.resize(W);
        for (int64_t j = 0; j < tail_size; ++j) sums.push_back(tail[j] - tail_sums[j] / n);
        return std::move(sums);
    }

  protected:
    bool has_squares() const override { return true; }

    void begin_epoch() override {
        std::fill(last.begin(), last.end(), 0);
        tail_last = 0;
        std::fill(tail_lasts.begin(), tail_lasts.end(), 0);
        if (int64_t(horizon.size()) <= n_pass) horizon.resize(n_pass + 1);
        // AdaGrad accumulates steps, as each weight has its own rate; SGD accumulates rates.
        if (is_adagrad())
            for (int64_t i = 0; i <= n_pass; ++i) horizon[i] = double(i);
        else
            for (int64_t i = 0; i < n_pass; ++i) horizon[i + 1] = horizon[i] + rate(i);
    }

    void learn(int64_t, Epoch& result) override {
        if (options.margin > 0)
            sentences->add_to_wrong([&](int64_t, int64_t) { return options.margin; });
        result.loss += sentences->weight() * sentences->residuals();
        RowUpdate<In> task{};
        task.weights = weights.data();
        task.squares = squares.data();
        task.sums = averaging ? sums.data() : nullptr;
        task.last = options.l2 > 0 ? last.data() : nullptr;
        sentences->update(timed(task));
        if (const SparseCounts* counts = sentences->sparse_residuals())
            update_tail(*counts);
        else if (sentences->uses_tail())
            update_tail();
    }

    // Applies the outstanding penalties.
    void end_epoch() override {
        if (options.l2 == 0) return;
        map.each_row([&](int64_t first, int64_t n, bool is_full) {
            for (int64_t w = first; w < first + n; ++w)
                shrink(weights[w], squares[w], last[is_full ? first : w], sums, w);
        });
        for (int64_t j = 0; j < tail_size; ++j)
            shrink(tail[j], tail_squares[j], tail_lasts.empty() ? tail_last : tail_lasts[j],
                   tail_sums, j);
    }

  private:
    bool is_adagrad() const { return options.rule == Rule::adagrad; }
    double rate(int64_t i) const {
        if (is_adagrad()) return options.eta;
        return options.eta / (1 + options.decay * (elapsed + double(i) / N));
    }
    double lambda() const { return 2 * options.l2 / N; }
    // Initial values of the sums of squares, or of the factors of SGD.
    double free() const { return is_adagrad() ? options.first_square : 1; }
    double masked() const { return is_adagrad() ? kInfinity : 0; }

    // Sets the initial values of the weights from `row` and of those of the tail from `at` on.
    void begin_squares(int64_t row, int64_t at) {
        squares.resize(W + kRowSlack);
        tail_squares.resize(tail_size + kRowSlack);
        if (options.l2 > 0) last.resize(W + kRowSlack);
        for (int64_t j = row; j < W; ++j)
            squares[j] = static_cast<In>(map.free_rows()[j] ? free() : masked());
        for (int64_t j = at; j < tail_size; ++j)
            tail_squares[j] = map.free_tail()[j] ? free() : masked();
    }

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
        task.rows = sentences->tail_residuals();
        task.weights = tail.data();
        task.squares = tail_squares.data();
        task.sums = averaging ? tail_sums.data() : nullptr;
        task.last = &tail_last;
        kernels().rows().update_f64(timed(task));
    }

    // The same for few weights of the tail: single weights of one token. Their columns are numbered
    // in 16 bits, so that they come in pieces.
    void update_tail(const SparseCounts& counts) {
        constexpr int64_t kPiece = 1 << 16;
        static constexpr int64_t full_ptr[2] = {0, 0};
        const int64_t n = std::ssize(counts.places());
        tail_lasts.resize(tail_size + kRowSlack);
        places.assign(counts.places().begin(), counts.places().end());
        places.resize(n + kListSlack);
        residuals.resize(n);
        for (int64_t k = 0; k < n; ++k) residuals[k] = counts[places[k]];
        while (std::ssize(columns) < std::min(n, kPiece))
            columns.push_back(static_cast<uint16_t>(columns.size()));
        for (int64_t lo = 0; lo < n; lo += kPiece) {
            const int64_t single_ptr[2] = {0, std::min(kPiece, n - lo)};
            RowUpdate<double> task{};
            task.lists = {
                full_ptr, single_ptr, places.data() + lo, places.data() + lo, columns.data(),
                nullptr,  nullptr};
            task.n = 1;
            task.rows = residuals.data() + lo;
            task.weights = tail.data();
            task.squares = tail_squares.data();
            task.sums = averaging ? tail_sums.data() : nullptr;
            task.last = tail_lasts.data();
            kernels().rows().update_f64(timed(task));
        }
    }

    template <class R>
    void shrink(R& weight, double square, uint32_t since, std::vector<double>& of, int64_t at) {
        const double pull = lambda() * (horizon[n_pass] - horizon[since]), before = weight;
        const double eta = options.eta;
        const double after = is_adagrad()
                                 ? before - eta * pull * before / (std::sqrt(square) + eta * pull)
                                 : before / (1 + pull);
        weight = static_cast<R>(after);
        if (averaging) of[at] += double(averaged) * (double(weight) - before);
    }

    std::vector<In> squares;           // [W + slack]
    std::vector<double> tail_squares;  // [tail_size + slack]
    std::vector<uint32_t> last;        // [W + slack]; empty without a penalty
    uint32_t tail_last = 0;
    std::vector<double> horizon;  // [n_pass + 1] or more
    // With pruning: the last update of each weight of the tail, and those that a sentence changes.
    std::vector<uint32_t> tail_lasts;  // [tail_size + slack]
    std::vector<uint32_t> places;
    std::vector<uint16_t> columns;
    std::vector<double> residuals;
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
        const double scale = read_scale();
        for (double& weight : theta) weight *= scale;
        return theta;
    }

  protected:
    double read_scale() const override {
        if (!is_svm() || steps == 0) return 1;
        // The average is weighted by k: sum_k k * theta_k / sum_k k.
        const double k = averaged > 0 ? double(2 * steps - averaged + 1) / 2 : double(steps);
        return options.C * double(N) / k;
    }

    void learn(int64_t, Epoch& result) override {
        const int32_t* right = sentences->right_path();
        double scale = 1;
        if (is_svm()) {
            if (steps > 0) scale = double(steps) / (options.C * double(N));
            this->add_costs(right, scale);
        } else if (options.margin > 0) {
            add_margin();
        }
        const double loss = this->worst(right) / scale, weight = sentences->weight();
        if (this->is_best(right)) return;
        ++result.mistakes;
        result.loss += weight * loss;
        sentences->each_difference(
            right, path.data(), [&](int64_t j, double value) { this->change(j, weight * value); });
    }

  private:
    bool is_svm() const { return options.rule == Rule::subgradient; }

    // Adds the perceptron's margin to each wrong label. Its unit is one update, so that it has the
    // same effect with few attributes and with many.
    void add_margin() {
        margins.resize(sentences->length());
        for (int64_t t = 0; t < sentences->length(); ++t)
            margins[t] = options.margin * 2 * sentences->update_size(t);
        sentences->add_to_wrong([&](int64_t t, int64_t) { return margins[t]; });
    }

    std::vector<double> margins;  // [T]
};

// ---------------------------------------------------------------------------------------------
// Block-coordinate Frank-Wolfe on the dual of the SVM (Lacoste-Julien et al. 2013). The dual
// variables of a sentence, one block, are a mixture of paths.

template <class In>
class FrankWolfe final : public OnlineOf<In> {
    using Base = OnlineOf<In>;
    using Base::options, Base::path, Base::sentences, Base::tail, Base::weights;

  public:
    FrankWolfe(const LinearObjective& objective, OnlineOptions options_)
        : Base(objective, objective.trans_at, objective.n_tail(), std::move(options_)) {
        this->attach(objective);
        if (sentences->has_open())
            throw std::invalid_argument("frank-wolfe does not support open labels");
        mixtures.resize(objective.N);
        difference.resize(this->n_weights());
        stamp.resize(this->n_weights());
    }

    Certificate certify() override {
        Certificate result;
        const int64_t Y = sentences->n_labels();
        for (int64_t i = 0; i < n_mixtures(); ++i) {
            const int64_t T = sentences->length(i);
            if (T == 0) continue;
            sentences->choose(i, weights.data(), tail.data());
            const double weight = sentences->weight();
            const int32_t* gold = sentences->gold();
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
        for (int64_t i = 0; i < n_mixtures(); ++i) {
            const size_t n_shares = from.n_paths[i], length = n_shares * sentences->length(i);
            const auto paths = from.paths.begin() + path_at;
            const auto shares = from.shares.begin() + share_at;
            mixtures[i].paths.assign(paths, paths + length);
            mixtures[i].shares.assign(shares, shares + n_shares);
            path_at += length;
            share_at += n_shares;
        }
    }

  protected:
    int64_t n_mixtures() const override { return std::ssize(mixtures); }

    bool fits(const OnlineState& from) const override {
        if (!Base::fits(from)) return false;
        const int64_t all_paths = from.paths.size(), all_shares = from.shares.size();
        int64_t paths = 0, shares = 0;
        for (int64_t i = 0; i < n_mixtures(); ++i) {
            if (from.n_paths[i] < 0 || from.n_paths[i] > all_shares - shares) return false;
            shares += from.n_paths[i];
            paths += from.n_paths[i] * sentences->length(i);
        }
        return paths == all_paths && shares == all_shares &&
               std::all_of(from.paths.begin(), from.paths.end(),
                           [&](int32_t y) { return y >= 0 && y < sentences->n_labels(); });
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
        const double weight = sentences->weight();
        const int32_t* gold = sentences->gold();
        this->add_costs(gold, 1);
        const double loss = this->worst(gold);
        if (loss > 0) ++result.mistakes;
        result.loss += weight * loss;
        if (weight == 0) return;
        Mixture& mixture = mixtures[place];
        const Pair pair = choose(mixture, gold);
        const double gap = loss - pair.above;
        if (!(gap > 0)) return;
        const int64_t T = sentences->length();
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
        const int64_t T = sentences->length();
        const double right = sentences->path_score(gold);
        Pair pair{n, n, kInfinity, 0};
        double of_gold = 1;
        for (size_t p = 0; p < n; ++p) {
            const int32_t* other = &mixture.paths[p * T];
            of_gold -= mixture.shares[p];
            const double above = sentences->path_score(other) - right;
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
        sentences->each_feature(path.data(), [&](int64_t j, double value) { collect(j, value); });
        sentences->each_feature(other, [&](int64_t j, double value) { collect(j, -value); });
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
                                 path.begin() + sentences->length());
        }
        mixture.shares[taker] += share;
    }
    void take(Mixture& mixture, size_t giver, double share) {
        mixture.shares[giver] -= share;
        if (mixture.shares[giver] > kNoShare) return;
        const int64_t T = sentences->length();
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
std::unique_ptr<Online> make_rule(const RowMap& map, int64_t n_rows, int64_t n_tail,
                                  const OnlineOptions& options) {
    if (options.rule == Rule::adagrad || options.rule == Rule::sgd)
        return std::make_unique<Gradient<In>>(map, n_rows, n_tail, options);
    if (options.rule == Rule::frank_wolfe)
        throw std::invalid_argument("frank-wolfe needs all sentences at once");
    return std::make_unique<Mistakes<In>>(map, n_rows, n_tail, options);
}

}  // namespace

std::unique_ptr<Online> Online::make(const LinearObjective& objective,
                                     const OnlineOptions& options) {
    if (objective.segments && options.rule != Rule::adagrad && options.rule != Rule::sgd)
        throw std::invalid_argument("segments are learned by adagrad or sgd");
    if (objective.pruning && options.rule != Rule::adagrad && options.rule != Rule::sgd)
        throw std::invalid_argument("pruned models are learned by adagrad or sgd");
    std::unique_ptr<Online> online;
    if (options.rule != Rule::frank_wolfe)
        online =
            make(objective, objective.trans_at, objective.n_tail(), objective.float32, options);
    else if (objective.float32)
        online = std::make_unique<FrankWolfe<float>>(objective, options);
    else
        online = std::make_unique<FrankWolfe<double>>(objective, options);
    online->attach(objective);
    online->N = std::max<int64_t>(objective.N, 1);
    return online;
}

std::unique_ptr<Online> Online::make(const RowMap& map, int64_t n_rows, int64_t n_tail,
                                     bool float32, const OnlineOptions& options) {
    return float32 ? make_rule<float>(map, n_rows, n_tail, options)
                   : make_rule<double>(map, n_rows, n_tail, options);
}

Epoch Online::epoch(const int64_t* permutation, int64_t n) {
    begin(n, N);
    const Epoch result = visit(permutation, n);
    end();
    return result;
}

}  // namespace tagloom
