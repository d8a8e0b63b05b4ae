#include "core/online.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "core/chain.hpp"
#include "core/dispatch.hpp"

namespace tagloom {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNoShare = 1e-12;  // a share of a mixture that is zero but for rounding

template <class In>
class OnlineOf final : public Online {
  public:
    OnlineOf(const Problem& problem_, const OnlineOptions& options_)
        : problem(problem_),
          options(options_),
          W(problem.trans_at),
          tail_size(problem.n_weights() - W),
          chain(problem.space, problem.boundaries, problem.has_edges()) {
        weights.assign(W + kRowSlack, In(0));
        tail.assign(tail_size + kRowSlack, 0.0);
        if (is_smooth()) {
            squares.resize(W + kRowSlack);
            tail_squares.resize(tail_size + kRowSlack);
            last.resize(W + kRowSlack);
            const bool adagrad = options.rule == Rule::adagrad;
            const double free = adagrad ? options.first_square : 1,
                         masked = adagrad ? kInfinity : 0;
            for (int64_t j = 0; j < W; ++j)
                squares[j] = static_cast<In>(problem.mask[j] ? free : masked);
            for (int64_t j = 0; j < tail_size; ++j)
                tail_squares[j] = problem.mask[W + j] ? free : masked;
        }
        if (options.average) sums.assign(problem.n_weights() + kRowSlack, 0.0);
        place.resize(problem.N);
        for (int64_t i = 0; i < problem.N; ++i) place[problem.order[i]] = i;
        horizon.resize(problem.N + 1);
        if (options.rule == Rule::frank_wolfe) {
            mixtures.resize(problem.N);
            difference.resize(problem.n_weights());
            stamp.resize(problem.n_weights());
        }
    }

    Epoch epoch(const int64_t* permutation) override {
        const int64_t N = problem.N;
        std::fill(last.begin(), last.end(), 0);
        tail_last = 0;
        // AdaGrad's penalty is counted in steps, each weight having a rate of its own; that of SGD
        // in steps times their rates.
        if (options.rule == Rule::adagrad)
            for (int64_t i = 0; i <= N; ++i) horizon[i] = double(i);
        else
            for (int64_t i = 0; i < N; ++i) horizon[i + 1] = horizon[i] + rate(i);
        averaging = options.average && epochs >= options.average_from;
        Epoch result;
        for (int64_t i = 0; i < N; ++i) {
            now = i;
            learn(place[permutation[i]], result);
            ++steps;
            if (averaging) ++averaged;
        }
        catch_up();
        ++epochs;
        return result;
    }

    std::vector<double> theta() const override {
        std::vector<double> theta = current();
        if (averaged > 0)
            for (size_t j = 0; j < theta.size(); ++j) theta[j] -= sums[j] / double(averaged);
        if (options.rule == Rule::subgradient && steps > 0) {
            // With averaging, the k-th weights count k times: sum_k k * theta_k / sum_k k.
            const double k = averaged > 0 ? double(2 * steps - averaged + 1) / 2 : double(steps);
            for (double& weight : theta) weight *= options.C * double(problem.N) / k;
        }
        return theta;
    }

    Certificate certify() override {
        if (options.rule != Rule::frank_wolfe)
            throw std::invalid_argument("only frank-wolfe knows its duality gap");
        Certificate result;
        for (int64_t i = 0; i < problem.N; ++i) {
            const int64_t first = problem.starts[i], T = problem.starts[i + 1] - first;
            if (T == 0) continue;
            const double weight = problem.weight[i];
            const int32_t* gold = problem.gold.data() + first;
            score(first, T);
            add_costs(first, gold, T, 1);
            result.loss += weight * worst(gold, T);
            const Mixture& mixture = mixtures[i];
            for (size_t p = 0; p < mixture.shares.size(); ++p)
                for (int64_t t = 0; t < T; ++t)
                    result.cost += weight * mixture.shares[p] *
                                   options.cost[gold[t] * problem.Y + mixture.paths[p * T + t]];
        }
        return result;
    }

    OnlineState state() const override {
        OnlineState out;
        out.theta = current();
        out.squares.assign(squares.begin(), squares.end());
        if (!squares.empty()) {
            out.squares.resize(W);
            out.squares.insert(out.squares.end(), tail_squares.begin(),
                               tail_squares.begin() + tail_size);
        }
        out.sums = sums;
        if (!sums.empty()) out.sums.resize(problem.n_weights());
        out.epochs = epochs;
        out.averaged = averaged;
        out.steps = steps;
        for (const Mixture& mixture : mixtures) {
            out.n_paths.push_back(static_cast<int64_t>(mixture.shares.size()));
            out.paths.insert(out.paths.end(), mixture.paths.begin(), mixture.paths.end());
            out.shares.insert(out.shares.end(), mixture.shares.begin(), mixture.shares.end());
        }
        return out;
    }

    void restore(const OnlineState& from) override {
        const size_t n = problem.n_weights();
        if (from.theta.size() != n || from.squares.size() != (squares.empty() ? 0 : n) ||
            from.sums.size() != (sums.empty() ? 0 : n) || from.epochs < 0 || from.averaged < 0 ||
            (from.averaged > 0 && sums.empty()) || from.steps < from.averaged || !fits(from))
            throw std::invalid_argument(
                "the state is of another problem, or of an optimiser with other options");
        for (int64_t j = 0; j < W; ++j)
            weights[j] = problem.mask[j] ? static_cast<In>(from.theta[j]) : In(0);
        for (int64_t j = 0; j < tail_size; ++j)
            tail[j] = problem.mask[W + j] ? from.theta[W + j] : 0.0;
        for (int64_t j = 0; j < W && !squares.empty(); ++j)
            squares[j] = static_cast<In>(from.squares[j]);
        for (int64_t j = 0; j < tail_size && !squares.empty(); ++j)
            tail_squares[j] = from.squares[W + j];
        std::copy(from.sums.begin(), from.sums.end(), sums.begin());
        epochs = from.epochs;
        averaged = from.averaged;
        steps = from.steps;
        size_t path = 0, share = 0;
        for (size_t i = 0; i < mixtures.size(); ++i) {
            const size_t n_shares = from.n_paths[i],
                         length = n_shares * (problem.starts[i + 1] - problem.starts[i]);
            mixtures[i].paths.assign(from.paths.begin() + path, from.paths.begin() + path + length);
            mixtures[i].shares.assign(from.shares.begin() + share,
                                      from.shares.begin() + share + n_shares);
            path += length;
            share += n_shares;
        }
    }

  private:
    // The wrong paths that a block of the dual puts weight on; see OnlineState.
    struct Mixture {
        std::vector<int32_t> paths;  // [n, T]
        std::vector<double> shares;  // [n], above 0; they sum to at most 1
    };

    bool is_smooth() const { return options.rule == Rule::adagrad || options.rule == Rule::sgd; }

    bool fits(const OnlineState& from) const {
        if (from.n_paths.size() != mixtures.size()) return false;
        const int64_t all_paths = from.paths.size(), all_shares = from.shares.size();
        int64_t paths = 0, shares = 0;
        for (size_t i = 0; i < mixtures.size(); ++i) {
            if (from.n_paths[i] < 0 || from.n_paths[i] > all_shares - shares) return false;
            shares += from.n_paths[i];
            paths += from.n_paths[i] * (problem.starts[i + 1] - problem.starts[i]);
        }
        return paths == all_paths && shares == all_shares &&
               std::all_of(from.paths.begin(), from.paths.end(),
                           [&](int32_t y) { return y >= 0 && y < problem.Y; });
    }

    std::vector<double> current() const {
        std::vector<double> theta(weights.begin(), weights.begin() + W);
        theta.insert(theta.end(), tail.begin(), tail.begin() + tail_size);
        return theta;
    }

    double rate(int64_t i) const {
        if (options.rule != Rule::sgd) return options.eta;
        return options.eta / (1 + options.decay * (double(epochs) + double(i) / problem.N));
    }
    double lambda() const { return 2 * options.l2 / std::max<int64_t>(problem.N, 1); }

    void learn(int64_t sentence, Epoch& result) {
        const int64_t first = problem.starts[sentence];
        const int64_t T = problem.starts[sentence + 1] - first;
        if (T == 0) return;
        score(first, T);
        if (is_smooth())
            learn_residuals(sentence, first, T, result);
        else if (options.rule == Rule::frank_wolfe)
            learn_block(sentence, first, T, result);
        else
            learn_path(sentence, first, T, result);
    }

    // emit and edge of one sentence.
    void score(int64_t first, int64_t T) {
        const int64_t Y = problem.Y;
        const bool with_edges = problem.has_edges();
        grow(emit, T * Y + kRowSlack);
        add_up(problem.node_lists, first, T, Y, emit.data());
        if (with_edges) {
            grow(edge, T * Y * Y + kRowSlack);
            add_up(problem.edge_lists, first, T, Y * Y, edge.data());
        }
        problem.forbid(first, T, emit.data());
        chain.set(tail.data());
    }

    // The labels of a sentence; where they are left open, the best that they leave under the
    // present weights.
    const int32_t* right_path(int64_t sentence, int64_t first, int64_t T) {
        const int32_t* gold = problem.gold.data() + first;
        if (!problem.is_open[sentence]) return gold;
        grow(completed, T);
        problem.close(first, T, emit.data(), closed);
        const In* moved = problem.has_edges() ? edge.data() : nullptr;
        chain.viterbi(closed.data(), moved, T, completed.data());
        if (completed[0] < 0) throw std::overflow_error("the scores are no longer finite");
        return completed.data();
    }

    // What makes decoding look for labels that are wrong at a high cost.
    void add_costs(int64_t first, const int32_t* gold, int64_t T, double factor) {
        const int64_t Y = problem.Y;
        for (int64_t t = 0; t < T; ++t)
            for (int64_t y = 0; y < Y; ++y)
                if (!problem.permits(problem.gold[first + t], y))
                    emit[t * Y + y] += static_cast<In>(factor * options.cost[gold[t] * Y + y]);
    }

    // The perceptron's margin, for each wrong label. It is measured in updates, so that it means
    // the same with few attributes and with many: one in which the label of token t alone is wrong
    // puts the right label ahead by
    //   2 * (|attributes of t|^2 + |edge attributes of t and t + 1|^2 + 2),
    // where the last 2 are the moves to and from it.
    void add_margin(int64_t first, int64_t T) {
        const int64_t Y = problem.Y;
        const auto& nodes = problem.node_lists.square;
        const auto& edges = problem.edge_lists.square;
        for (int64_t t = 0; t < T; ++t) {
            double square = nodes[first + t] + 2;
            if (!edges.empty()) square += edges[first + t] + (t + 1 < T ? edges[first + t + 1] : 0);
            const In by = static_cast<In>(options.margin * 2 * square);
            for (int64_t y = 0; y < Y; ++y)
                if (!problem.permits(problem.gold[first + t], y)) emit[t * Y + y] += by;
        }
    }

    // The best path under the present scores; how far it is above the gold one.
    double worst(const int32_t* gold, int64_t T) {
        const In* moved = problem.has_edges() ? edge.data() : nullptr;
        grow(path, T);
        chain.viterbi(emit.data(), moved, T, path.data());
        if (path[0] < 0) throw std::overflow_error("the scores are no longer finite");
        if (std::equal(gold, gold + T, path.begin())) return 0;
        return chain.path_score(emit.data(), moved, T, path.data()) -
               chain.path_score(emit.data(), moved, T, gold);
    }

    // The gradient of -log Pr(gold): expected minus observed; where labels are left open, observed
    // is what is expected among the paths that they leave.
    void learn_residuals(int64_t sentence, int64_t first, int64_t T, Epoch& result) {
        const int64_t Y = problem.Y;
        const bool with_edges = problem.has_edges();
        const double weight = problem.weight[sentence];
        const int32_t* gold = problem.gold.data() + first;
        const In* moved = with_edges ? edge.data() : nullptr;
        grow(marginals, T * Y);
        if (with_edges) grow(pairs, T * Y * Y);
        counts.assign(tail_size + kRowSlack, 0.0);
        double loss = chain.sum(emit.data(), moved, T, weight, marginals.data(),
                                with_edges ? pairs.data() : nullptr, counts.data());
        if (problem.is_open[sentence]) {
            problem.close(first, T, emit.data(), closed);
            grow(observed, T * Y);
            if (with_edges) grow(observed_pairs, T * Y * Y);
            loss -= chain.sum(closed.data(), moved, T, -weight, observed.data(),
                              with_edges ? observed_pairs.data() : nullptr, counts.data());
            for (int64_t j = 0; j < T * Y; ++j) marginals[j] -= observed[j];
            for (int64_t j = 0; with_edges && j < T * Y * Y; ++j) pairs[j] -= observed_pairs[j];
        } else {
            loss -= chain.path_score(emit.data(), moved, T, gold);
            problem.space.each_of_path(gold, T, problem.boundaries,
                                       [&](int64_t j) { counts[j] -= weight; });
            for (int64_t t = 0; t < T; ++t) marginals[t * Y + gold[t]] -= In(1);
            for (int64_t t = 1; with_edges && t < T; ++t)
                pairs[(t * Y + gold[t - 1]) * Y + gold[t]] -= In(1);
        }
        if (!std::isfinite(loss)) throw std::overflow_error("the loss is no longer finite");
        result.loss += weight * loss;

        const In factor = static_cast<In>(weight);
        if (factor != In(1))
            for (int64_t j = 0; j < T * Y; ++j) marginals[j] *= factor;
        update(problem.node_lists, first, T, Y, marginals.data());
        if (with_edges) {
            std::fill_n(pairs.begin(), Y * Y, In(0));
            if (factor != In(1))
                for (int64_t j = 0; j < T * Y * Y; ++j) pairs[j] *= factor;
            update(problem.edge_lists, first, T, Y * Y, pairs.data());
        }
        update_tail();
    }

    // Towards the gold path and away from the best one, where they differ.
    //
    // The SVM's k-th step has the rate C N / k (Pegasos: 1 / (lambda k), lambda = 1 / (C N)):
    //   theta_k = (1 - 1 / k) theta_{k-1} + C N / k * d_k, hence theta_k = C N / k * (d_1 + ... +
    //   d_k).
    // The weights here are the sum in brackets, so that a step is that of the perceptron and
    // nothing ever shrinks; it is the costs that grow.
    void learn_path(int64_t sentence, int64_t first, int64_t T, Epoch& result) {
        const int64_t Y = problem.Y;
        const bool with_edges = problem.has_edges();
        const double weight = problem.weight[sentence];
        const int32_t* gold = right_path(sentence, first, T);
        double scale = 1;
        if (options.rule == Rule::subgradient) {
            if (steps > 0) scale = double(steps) / (options.C * double(problem.N));
            add_costs(first, gold, T, scale);
        } else if (options.margin > 0) {
            add_margin(first, T);
        }
        const double loss = worst(gold, T) / scale;
        if (std::equal(gold, gold + T, path.begin())) return;
        ++result.mistakes;
        result.loss += weight * loss;
        for (int64_t t = 0; t < T; ++t) {
            if (path[t] != gold[t]) shift(problem.node_lists, first + t, gold[t], path[t], weight);
            if (!with_edges || t == 0 || (path[t - 1] == gold[t - 1] && path[t] == gold[t]))
                continue;
            shift(problem.edge_lists, first + t, gold[t - 1] * Y + gold[t],
                  path[t - 1] * Y + path[t], weight);
        }
        shift_moves(gold, path.data(), T, weight);
    }

    // The weights of moves, from those of the wrong path to those of the right one, where the two
    // differ.
    void shift_moves(const int32_t* right, const int32_t* wrong, int64_t T, double by) {
        const Space& space = problem.space;
        const bool bounds = problem.boundaries;
        const auto more = [&](int64_t j) { change(W + j, by); };
        const auto less = [&](int64_t j) { change(W + j, -by); };
        int64_t r = space.first_state[right[0]], w = space.first_state[wrong[0]];
        if (r != w) {
            space.each_of_start(r, bounds, more);
            space.each_of_start(w, bounds, less);
        }
        for (int64_t t = 1; t < T; ++t) {
            const int64_t to_right = space.move_of[r * problem.Y + right[t]],
                          to_wrong = space.move_of[w * problem.Y + wrong[t]];
            r = space.automaton.dst[to_right];
            w = space.automaton.dst[to_wrong];
            if (to_right == to_wrong) continue;
            space.each_of_move(to_right, bounds, more);
            space.each_of_move(to_wrong, bounds, less);
        }
        if (r == w) return;
        space.each_of_stop(r, bounds, more);
        space.each_of_stop(w, bounds, less);
    }

    // One pairwise step of Frank-Wolfe in the block of the dual that belongs to one sentence
    // (Lacoste-Julien et al. 2013; Osokin et al. 2016). Of the mixture of paths that the block
    // stands on, the least deserving one, y', gives some of its share to the path that has the
    // loss, y*:
    //   theta -= step * C * weight * d, d = features(y*) - features(y'),
    // as much as lets the dual rise most: step = gap / (C * weight * |d|^2), where gap is how far
    // y* is above y' in score and cost. Plain steps, which take from all paths alike,
    // are slower: with C = 0.03, 20 epochs on EWT left a gap of 2.2 %, pairwise ones of 1.5 %.
    void learn_block(int64_t sentence, int64_t first, int64_t T, Epoch& result) {
        const double weight = problem.weight[sentence];
        const int32_t* gold = problem.gold.data() + first;
        const In* moved = problem.has_edges() ? edge.data() : nullptr;
        add_costs(first, gold, T, 1);
        const double loss = worst(gold, T), right = chain.path_score(emit.data(), moved, T, gold);
        if (loss > 0) ++result.mistakes;
        result.loss += weight * loss;
        if (weight == 0) return;
        Mixture& mixture = mixtures[sentence];
        const size_t n = mixture.shares.size();
        double of_gold = 1, least = kInfinity;
        size_t giver = n, taker = n;  // n: the gold path; a new one
        for (size_t p = 0; p < n; ++p) {
            const int32_t* other = &mixture.paths[p * T];
            of_gold -= mixture.shares[p];
            const double above = chain.path_score(emit.data(), moved, T, other) - right;
            if (above < least) least = above, giver = p;
            if (std::equal(other, other + T, path.begin())) taker = p;
        }
        if (of_gold > kNoShare && least > 0) least = 0, giver = n;
        const double gap = loss - least;
        if (!(gap > 0)) return;

        touched.clear();
        ++touches;
        collect(first, T, path.data(), 1);
        collect(first, T, giver == n ? gold : &mixture.paths[giver * T], -1);
        double square = 0;
        for (const int64_t j : touched) square += difference[j] * difference[j];
        const double reach = options.C * weight * square,
                     most = giver == n ? of_gold : mixture.shares[giver];
        const double step = gap < most * reach ? gap / reach : most;
        for (const int64_t j : touched) change(j, -step * options.C * weight * difference[j]);

        if (!std::equal(gold, gold + T, path.begin())) {
            if (taker == n) {
                mixture.shares.push_back(0);
                mixture.paths.insert(mixture.paths.end(), path.begin(), path.begin() + T);
            }
            mixture.shares[taker] += step;
        }
        if (giver == n) return;
        mixture.shares[giver] -= step;
        if (mixture.shares[giver] > kNoShare) return;
        mixture.shares.erase(mixture.shares.begin() + giver);
        mixture.paths.erase(mixture.paths.begin() + giver * T,
                            mixture.paths.begin() + (giver + 1) * T);
    }

    // difference += by * the features of a path.
    void collect(int64_t first, int64_t T, const int32_t* labels, double by) {
        if (by == 0) return;
        const int64_t Y = problem.Y;
        const bool with_edges = problem.has_edges();
        for (int64_t t = 0; t < T; ++t) {
            collect(problem.node_lists, first + t, labels[t], by);
            if (with_edges && t > 0)
                collect(problem.edge_lists, first + t, labels[t - 1] * Y + labels[t], by);
        }
        problem.space.each_of_path(labels, T, problem.boundaries,
                                   [&](int64_t j) { collect(W + j, by); });
    }
    void collect(const OwnedLists& lists, int64_t token, int64_t column, double by) {
        for (int64_t j = lists.full_ptr[token]; j < lists.full_ptr[token + 1]; ++j)
            collect(lists.full[j] + column, lists.valued ? by * lists.full_value[j] : by);
        for (int64_t j = lists.single_ptr[token]; j < lists.single_ptr[token + 1]; ++j)
            if (lists.column[j] == column)
                collect(lists.single[j], lists.valued ? by * lists.single_value[j] : by);
    }
    void collect(int64_t weight, double by) {
        if (!problem.mask[weight]) return;
        if (stamp[weight] != touches) {
            stamp[weight] = touches;
            difference[weight] = 0;
            touched.push_back(weight);
        }
        difference[weight] += by;
    }

    // The attributes of one token, from column `wrong` to column `right`.
    void shift(const OwnedLists& lists, int64_t token, int64_t right, int64_t wrong, double by) {
        for (int64_t j = lists.full_ptr[token]; j < lists.full_ptr[token + 1]; ++j) {
            const double delta = lists.valued ? by * lists.full_value[j] : by;
            change(lists.full[j] + right, delta);
            change(lists.full[j] + wrong, -delta);
        }
        for (int64_t j = lists.single_ptr[token]; j < lists.single_ptr[token + 1]; ++j) {
            const int64_t column = lists.column[j];
            if (column != right && column != wrong) continue;
            const double delta = lists.valued ? by * lists.single_value[j] : by;
            change(lists.single[j], column == right ? delta : -delta);
        }
    }

    void change(int64_t weight, double delta) {
        if (!problem.mask[weight]) return;
        if (weight < W)
            weights[weight] += static_cast<In>(delta);
        else
            tail[weight - W] += delta;
        if (averaging) sums[weight] += double(averaged) * delta;
    }

    void add_up(const OwnedLists& lists, int64_t first, int64_t T, int64_t width, In* out) {
        const RowSum<In> task{lists.view(), first, T, width, weights.data(), out};
        if constexpr (sizeof(In) == 4)
            kernels().rows().sum_f32(task);
        else
            kernels().rows().sum_f64(task);
    }

    void update(const OwnedLists& lists, int64_t first, int64_t T, int64_t width, const In* rows) {
        const RowUpdate<In> task{lists.view(),
                                 first,
                                 T,
                                 width,
                                 rows,
                                 weights.data(),
                                 squares.data(),
                                 averaging ? sums.data() : nullptr,
                                 last.data(),
                                 horizon.data(),
                                 static_cast<uint32_t>(now + 1),
                                 options.rule == Rule::adagrad,
                                 static_cast<In>(rate(now)),
                                 static_cast<In>(lambda()),
                                 double(averaged)};
        if constexpr (sizeof(In) == 4)
            kernels().rows().update_f32(task);
        else
            kernels().rows().update_f64(task);
    }

    // Transitions, starts and stops are one full row of one token.
    void update_tail() {
        static constexpr int64_t full_ptr[2] = {0, 1}, single_ptr[2] = {0, 0};
        static constexpr uint32_t list[1 + kListSlack] = {};
        const Lists lists{full_ptr, single_ptr, list, list, nullptr, nullptr, nullptr};
        const RowUpdate<double> task{lists,
                                     0,
                                     1,
                                     tail_size,
                                     counts.data(),
                                     tail.data(),
                                     tail_squares.data(),
                                     averaging ? sums.data() + W : nullptr,
                                     &tail_last,
                                     horizon.data(),
                                     static_cast<uint32_t>(now + 1),
                                     options.rule == Rule::adagrad,
                                     rate(now),
                                     lambda(),
                                     double(averaged)};
        kernels().rows().update_f64(task);
    }

    // What the penalty still asks for at the end of an epoch.
    void catch_up() {
        if (options.l2 == 0 || !is_smooth()) return;
        const double total = horizon.back(), eta = options.eta;
        const bool adagrad = options.rule == Rule::adagrad;
        auto shrink = [&](auto& weight, double square, uint32_t since, int64_t at) {
            const double pull = lambda() * (total - horizon[since]), before = weight;
            const double after =
                adagrad ? before - eta * pull * before / (std::sqrt(square) + eta * pull)
                        : before / (1 + pull);
            weight = static_cast<std::remove_reference_t<decltype(weight)>>(after);
            if (averaging) sums[at] += double(averaged) * (double(weight) - before);
        };
        auto each = [&](const Rows& rows, int64_t base) {
            for (size_t a = 0; a + 1 < rows.ptr.size(); ++a)
                for (int64_t j = rows.ptr[a]; j < rows.ptr[a + 1]; ++j) {
                    const int64_t w = base + j;
                    shrink(weights[w], squares[w], last[rows.is_full(a) ? base + rows.ptr[a] : w],
                           w);
                }
        };
        each(problem.nodes, 0);
        each(problem.edges, problem.edges_at);
        for (int64_t j = 0; j < tail_size; ++j) shrink(tail[j], tail_squares[j], tail_last, W + j);
    }

    template <class T>
    static void grow(std::vector<T>& vector, int64_t size) {
        if (static_cast<int64_t>(vector.size()) < size) vector.resize(size);
    }

    const Problem& problem;
    const OnlineOptions options;
    const int64_t W, tail_size;        // weights of the rows; transitions, starts and stops
    std::vector<In> weights, squares;  // [W + slack]
    std::vector<double> tail, tail_squares;
    std::vector<double> sums;    // [n_weights + slack] with averaging
    std::vector<uint32_t> last;  // [W + slack]
    uint32_t tail_last = 0;
    std::vector<int64_t> place;   // of each sentence in the order of work
    std::vector<double> horizon;  // [N + 1]
    int64_t epochs = 0, averaged = 0, steps = 0, now = 0;
    bool averaging = false;
    Chain<In> chain;
    std::vector<In> emit, edge, marginals, pairs;      // scratch of one sentence
    std::vector<In> closed, observed, observed_pairs;  // of one whose labels are left open
    std::vector<double> counts;
    std::vector<int32_t> path, completed;
    std::vector<Mixture> mixtures;   // [N] in the order of work; Frank-Wolfe
    std::vector<double> difference;  // [n_weights] d of one step, where stamp == touches
    std::vector<int64_t> stamp;      // [n_weights]
    std::vector<int64_t> touched;    // weights that d has
    int64_t touches = 0;
};

}  // namespace

std::unique_ptr<Online> Online::make(const Problem& problem, const OnlineOptions& options) {
    if (options.rule == Rule::frank_wolfe &&
        std::any_of(problem.is_open.begin(), problem.is_open.end(), [](auto open) { return open; }))
        throw std::invalid_argument("frank-wolfe needs every label");
    if (problem.float32) return std::make_unique<OnlineOf<float>>(problem, options);
    return std::make_unique<OnlineOf<double>>(problem, options);
}

}  // namespace tagloom
