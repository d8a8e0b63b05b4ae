// The n best paths, lazily (Huang and Chiang 2005, algorithm 3, for a chain). The kernels find the
// score of the best path to every state,
//
//   alpha[t, g*Y + c] = added[t, c] + max_a alpha[t-1, a*G + g] + transitions[g, a, c] - offset[t],
//
// and further paths are made only where a longer path requires them: the rank-th best path to a
// state arrives from some state before it, on the rank-th best path to that. A chain needs about
// n*T*Y steps for it, beside the T*Y*Y of alpha.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/dense.hpp"
#include "core/dense_transitions.hpp"
#include "core/dispatch.hpp"
#include "core/interrupts.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

// "Arrive from state source(key) on the rank-th best path to it." Keys are in the order of ties:
// the oldest label a of the source, which is all in which the sources of a state differ; for the
// stop, the digits of the source reversed, the last label first.
struct Derivation {
    double score;  // without the score of the state itself
    int32_t key, rank;
};

// The first of the largest of n scores.
int64_t first_largest(const double* score, int64_t n) {
    double top[4] = {kMinusInf, kMinusInf, kMinusInf, kMinusInf};  // independent of each other
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int64_t j = 0; j < 4; ++j) top[j] = score[i + j] > top[j] ? score[i + j] : top[j];
    for (; i < n; ++i) top[0] = score[i] > top[0] ? score[i] : top[0];
    const double largest = std::max(std::max(top[0], top[1]), std::max(top[2], top[3]));
    return std::find(score, score + n, largest) - score;
}

template <class In>
class NBestSearch {
  public:
    // `into` has the transitions transposed, [levels, G, Y, Y] to -> from.
    NBestSearch(const DenseBatch<In>& batch, const Transitions<double>& transitions,
                const double* into)
        : batch_(batch),
          transitions_(transitions),
          into_(into),
          Y_(batch.Y),
          G_(batch.G),
          S_(batch.G * batch.Y),
          width_(S_ + 8) {}

    // Appends up to n paths of sequence i; returns how many.
    int64_t run(int64_t i, int64_t n, std::vector<int32_t>& paths) {
        begin(i);
        int64_t rank = 0;
        for (; rank < n && ensure(rank); ++rank) {
            paths.resize(paths.size() + T_);
            read(rank, &paths[paths.size() - T_]);
        }
        return rank;
    }

  private:
    // Derivations of one state at one position, in arenas: those found, in order, and the next one
    // from each source, the best of which is found next.
    struct Node {
        int64_t waiting = 0;  // begin in scores_ and ranks_, one for each source
        int64_t found = 0;    // begin in found_
        int32_t n_found = 0, room = 0;
        int32_t behind = -1;  // the source whose score is that of a path already found
        bool is_exhausted = false;
    };
    struct Request {
        int64_t t, s, rank;
    };

    void begin(int64_t i) {
        emit_ = batch_.emit_of(i);
        edge_ = batch_.edge_of(i);
        T_ = batch_.length(i);
        alpha_.resize(T_ * width_);
        offset_.resize(T_);
        row_.resize(Y_ + 8 + (edge_ ? Y_ * transitions_.stride : 0));
        OneBest<In> task{};
        task.transitions = &transitions_;
        task.emit = emit_;
        task.edge = edge_;
        task.T = T_;
        task.row = row_.data();
        task.matrix = row_.data() + Y_ + 8;
        task.alpha = alpha_.data();
        task.offset = offset_.data();
        if constexpr (sizeof(In) == 4)
            kernels().one_best_f32(task);
        else
            kernels().one_best_f64(task);
        number_.assign(T_ * S_ + 1, -1);
        best_.assign(T_ * S_, -1);
        nodes_.clear();
        scores_.clear();
        ranks_.clear();
        found_.clear();
    }

    // Makes sure that the stop has rank + 1 derivations, if there are that many.
    bool ensure(int64_t rank) {
        stack_.push_back({T_, 0, rank});
        while (!stack_.empty()) {
            poll_.step();
            const Request want = stack_.back();
            const int64_t id = node_at(want.t, want.s);
            if (nodes_[id].n_found > want.rank || nodes_[id].is_exhausted)
                stack_.pop_back();
            else if (nodes_[id].behind < 0 || catch_up(want.t, want.s, id))
                find_next(want.t, nodes_[id]);
        }
        return nodes_[node_at(T_, 0)].n_found > rank;
    }

    int64_t sources(int64_t t) const { return t == T_ ? S_ : Y_; }

    void find_next(int64_t t, Node& node) {
        const int64_t key = first_largest(&scores_[node.waiting], sources(t));
        const double score = scores_[node.waiting + key];
        if (score == kMinusInf) {
            node.is_exhausted = true;
            return;
        }
        if (node.n_found == node.room) {  // twice the room, elsewhere
            node.room = std::max(2 * node.room, 4);
            const int64_t begin = found_.size();
            found_.resize(begin + node.room);
            std::copy_n(found_.begin() + node.found, node.n_found, found_.begin() + begin);
            node.found = begin;
        }
        const int32_t rank = ranks_[node.waiting + key];
        found_[node.found + node.n_found++] = {score, static_cast<int32_t>(key), rank};
        node.behind = static_cast<int32_t>(key);
    }

    // The source of the last one found offers its next best path; false if that must be found
    // first.
    bool catch_up(int64_t t, int64_t s, int64_t id) {
        const int64_t key = nodes_[id].behind, at = nodes_[id].waiting + key;
        const int64_t from = source(t, s, key), rank = ranks_[at] + 1;
        const int64_t before = node_at(t - 1, from);  // may move the nodes
        const bool is_there = nodes_[before].n_found > rank;
        if (!is_there && !nodes_[before].is_exhausted) {
            stack_.push_back({t - 1, from, rank});
            return false;
        }
        scores_[at] = is_there ? found_[nodes_[before].found + rank].score + added(t - 1, from) -
                                     offset_[t - 1] + transition(t, s, key)
                               : kMinusInf;
        ranks_[at] = static_cast<int32_t>(rank);
        nodes_[id].behind = -1;
        return true;
    }

    // The number of the node of state s at t, or of the stop at T.
    int64_t node_at(int64_t t, int64_t s) {
        int32_t& number = number_[t * S_ + s];
        if (number >= 0) return number;
        number = static_cast<int32_t>(nodes_.size());
        Node& node = nodes_.emplace_back();
        if (t == 0) {
            node.is_exhausted = true;
            if (alpha_[s] == kMinusInf) return number;
            node.found = found_.size();
            node.n_found = node.room = 1;
            found_.push_back({0.0, 0, 0});
            return number;
        }
        node.waiting = scores_.size();
        scores_.resize(node.waiting + sources(t));
        ranks_.resize(node.waiting + sources(t), 0);
        fill_scores(t, s, &scores_[node.waiting]);
        return number;
    }

    // Scores of arriving at state s by the best path to each source.
    void fill_scores(int64_t t, int64_t s, double* scores) const {
        const double* alpha = &alpha_[(t - 1) * width_];
        if (t == T_) {
            for (int64_t key = 0; key < S_; ++key)
                scores[key] = alpha[source(t, s, key)] + transition(t, s, key);
            return;
        }
        const double* into = &into_[((std::min(t, batch_.levels) - 1) * S_ + s) * Y_];
        alpha += G_ == 1 ? 0 : s / Y_;
        if (edge_ && G_ == 1)
            for (int64_t a = 0; a < Y_; ++a) scores[a] = alpha[a] + transition(t, s, a);
        else if (G_ == 1)
            for (int64_t a = 0; a < Y_; ++a) scores[a] = alpha[a] + into[a];
        else
            for (int64_t a = 0; a < Y_; ++a) scores[a] = alpha[a * G_] + into[a];
    }

    void read(int64_t rank, int32_t* path) {
        int64_t s = 0;
        for (int64_t t = T_; t > 0; --t) {
            poll_.step();
            const int32_t id = number_[t * S_ + s];
            int64_t key;
            if (id >= 0 && nodes_[id].n_found > rank) {
                const Derivation& d = found_[nodes_[id].found + rank];
                key = d.key;
                rank = d.rank;
            } else {
                key = best_key(t, s);  // of rank 0: no more was required
                rank = 0;
            }
            s = source(t, s, key);
            path[t - 1] = static_cast<int32_t>(G_ == 1 ? s : s % Y_);
        }
    }

    // The first of the best sources of state s at t < T.
    int64_t best_key(int64_t t, int64_t s) {
        int32_t& key = best_[t * S_ + s];
        if (key >= 0) return key;
        fill_scores(t, s, row_.data());
        return key = static_cast<int32_t>(first_largest(row_.data(), Y_));
    }

    int64_t source(int64_t t, int64_t s, int64_t key) const {
        if (t == T_) return reversed(key);
        return G_ == 1 ? key : key * G_ + s / Y_;
    }
    // The transition into state s at t from source(key), or the stop.
    double transition(int64_t t, int64_t s, int64_t key) const {
        if (t == T_) return batch_.stop[G_ == 1 ? key : reversed(key) % Y_];
        const int64_t level = std::min(t, batch_.levels) - 1;
        const double score = into_[(level * S_ + s) * Y_ + key];
        return edge_ && G_ == 1 ? score + edge_[(t * Y_ + key) * Y_ + s] : score;
    }
    // The score that state s adds at t, as in the kernel: its emission, and the edge to it if the
    // state contains the label before.
    double added(int64_t t, int64_t s) const {
        if (G_ == 1) return emit_[t * Y_ + s];
        double score = emit_[t * Y_ + s % Y_];
        if (edge_ && t > 0) score += edge_[t * Y_ * Y_ + s % (Y_ * Y_)];
        return score;
    }
    // The state whose labels are the digits of key, the last label first.
    int64_t reversed(int64_t key) const {
        if (G_ == 1) return key;
        int64_t s = 0;
        for (int64_t power = 1; power < S_; power *= Y_, key /= Y_) s = s * Y_ + key % Y_;
        return s;
    }

    const DenseBatch<In>& batch_;
    const Transitions<double>& transitions_;
    const double* into_;
    const int64_t Y_, G_, S_, width_;
    const In *emit_ = nullptr, *edge_ = nullptr;
    int64_t T_ = 0;
    std::vector<double> alpha_, offset_, row_;  // [T, S + 8], [T], scratch
    std::vector<int32_t> number_;               // [T * S + 1] of the node, or -1
    std::vector<int32_t> best_;                 // [T, S] best key, or -1
    std::vector<Node> nodes_;
    std::vector<double> scores_;  // of the waiting
    std::vector<int32_t> ranks_;
    std::vector<Derivation> found_;
    std::vector<Request> stack_;
    InterruptPoll poll_;
};

}  // namespace

template <class In>
NBestPaths nbest(const DenseBatch<In>& batch, int64_t n) {
    const OwnedTransitions<double> transitions(batch, batch.transitions, batch.stop,
                                               round_up(batch.Y, 8), kMinusInf);
    const std::vector<double> into = transposed(batch.transitions, batch.levels * batch.G, batch.Y);
    const BatchPlan plan = batch.plan(1, 0);
    // A chunk of neighbours has its own output, to be put together in order.
    constexpr int64_t chunk = 32;
    const int64_t chunks = (batch.N + chunk - 1) / chunk;
    std::vector<std::vector<int32_t>> paths(chunks);
    std::vector<std::vector<double>> scores(chunks);
    NBestPaths out;
    out.count.assign(batch.N, 1);  // the empty path of an empty sequence
    parallel_for(chunks, plan.threads, [&](int64_t c, int64_t) {
        NBestSearch<In> search(batch, transitions.view, into.data());
        for (int64_t i = c * chunk; i < std::min(batch.N, (c + 1) * chunk); ++i) {
            const int64_t T = batch.length(i), begin = paths[c].size();
            if (T == 0) {
                scores[c].push_back(0.0);
                continue;
            }
            out.count[i] = search.run(i, n, paths[c]);
            for (int64_t k = 0; k < out.count[i]; ++k)
                scores[c].push_back(score_of(batch, i, paths[c].data() + begin + k * T));
        }
    });
    for (int64_t c = 0; c < chunks; ++c) {
        out.paths.insert(out.paths.end(), paths[c].begin(), paths[c].end());
        out.scores.insert(out.scores.end(), scores[c].begin(), scores[c].end());
    }
    return out;
}

#define TL_INSTANTIATE(In) template NBestPaths nbest<In>(const DenseBatch<In>&, int64_t);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)

}  // namespace tagloom
