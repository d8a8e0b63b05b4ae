// The best path, and the n best, over candidate labels. In the letters of the loops, with ties to
// the lowest label at the last position, then at each position before it:
//
//   alpha[j] = (max_i alpha[i] + trans[y_i, y_j]) + score[j] - the largest of its position

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/candidate_forward.hpp"
#include "core/candidates.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// The score of a path [T] of sequence i; added up as the dense layout does.
template <class In>
double score_of(const CandidateBatch<In>& batch, int64_t i, const int32_t* path) {
    const CandidateSequence<In> x(batch, i);
    double sum = batch.start[path[0]], transitions = 0;
    for (int64_t t = 0; t < x.T; ++t) {
        const int32_t* label = x.label + x.begin(t);
        const int32_t* end = x.label + x.end(t);
        const int32_t* found = std::lower_bound(label, end, path[t]);
        if (found == end || *found != path[t]) return kMinusInfinity;
        sum += x.score[found - x.label];
        if (t > 0) transitions += batch.trans[path[t - 1] * batch.Y + path[t]];
        if (t < 2 || !batch.trigrams) continue;
        const int64_t k = batch.trigrams->trigrams.find(path[t - 2], path[t - 1], path[t]);
        if (k >= 0) transitions += batch.trigrams->weights[k];
    }
    return sum + transitions + batch.stop[path[x.T - 1]];
}

template <class In>
class BestPath {
  public:
    explicit BestPath(const CandidateBatch<In>& batch) : batch_(batch) {}

    // False, and -1 throughout, if there is none.
    bool run(const CandidateSequence<In>& x, int32_t* path) {
        alpha_.resize(x.size());
        from_.resize(x.size());
        for (int64_t t = 0; t < x.T; ++t) advance(x, t);
        double best = kMinusInfinity;
        int64_t at = -1;
        for (int64_t j = x.begin(x.T - 1); j < x.size(); ++j) {
            const double score = alpha_[j] + batch_.stop[x.label[j]];
            if (score > best) best = score, at = j;
        }
        for (int64_t t = x.T - 1; t >= 0; --t) {
            path[t] = at < 0 ? -1 : x.label[at];
            if (at >= 0) at = from_[at];
        }
        return path[0] >= 0;
    }

  private:
    void advance(const CandidateSequence<In>& x, int64_t t) {
        const int64_t begin = x.begin(t), end = x.end(t), before = t > 0 ? x.begin(t - 1) : 0;
        double top = kMinusInfinity;
        for (int64_t j = begin; j < end; ++j) {
            double best = t == 0 ? batch_.start[x.label[j]] : kMinusInfinity;
            int64_t from = -1;
            for (int64_t i = before; i < begin; ++i) {
                const double score = alpha_[i] + batch_.trans[x.label[i] * batch_.Y + x.label[j]];
                if (score > best) best = score, from = i;
            }
            alpha_[j] = best + double(x.score[j]);
            from_[j] = from;
            top = std::max(top, alpha_[j]);
        }
        for (int64_t j = begin; top > kMinusInfinity && j < end; ++j) alpha_[j] -= top;
    }

    const CandidateBatch<In>& batch_;
    std::vector<double> alpha_;  // [C]
    std::vector<int64_t> from_;  // [C] the candidate before
};

// The n best paths to every candidate, the best first.
template <class In>
class BestPaths {
  public:
    BestPaths(const CandidateBatch<In>& batch, int64_t n) : batch_(batch), n_(n) {}

    // Appends up to n paths; returns how many.
    int64_t run(const CandidateSequence<In>& x, std::vector<int32_t>& paths) {
        arrivals_.resize(x.size());
        for (int64_t t = 0; t < x.T; ++t) advance(x, t);
        std::vector<Arrival> last;
        const int64_t begin = x.begin(x.T - 1);
        collect(begin, x.size(), [&](int64_t j) { return batch_.stop[x.label[j]]; }, last);
        for (const Arrival& arrival : last) {
            paths.resize(paths.size() + x.T);
            int32_t* path = &paths[paths.size() - x.T];
            Arrival a = arrival;
            for (int64_t t = x.T - 1; t >= 0; --t) {
                path[t] = x.label[a.from];
                a = arrivals_[a.from][a.rank];
            }
        }
        return static_cast<int64_t>(last.size());
    }

  private:
    // On the rank-th best path to candidate `from` of the position before.
    struct Arrival {
        double score;
        int64_t from, rank;
    };

    void advance(const CandidateSequence<In>& x, int64_t t) {
        const int64_t begin = x.begin(t), end = x.end(t);
        double top = kMinusInfinity;
        for (int64_t j = begin; j < end; ++j) {
            std::vector<Arrival>& list = arrivals_[j];
            if (t == 0) {
                list.assign(1, {batch_.start[x.label[j]], -1, 0});
                if (list[0].score + double(x.score[j]) == kMinusInfinity) list.clear();
            } else {
                const double* trans = batch_.trans + x.label[j];
                auto transition = [&](int64_t i) { return trans[x.label[i] * batch_.Y]; };
                collect(x.begin(t - 1), begin, transition, list);
                if (x.score[j] == -std::numeric_limits<In>::infinity()) list.clear();
            }
            for (Arrival& arrival : list) arrival.score += double(x.score[j]);
            if (!list.empty()) top = std::max(top, list[0].score);
        }
        for (int64_t j = begin; j < end; ++j)
            for (Arrival& arrival : arrivals_[j]) arrival.score -= top;
    }

    // The n best of all paths to the candidates first .. last, each with transition(candidate)
    // added.
    template <class Transition>
    void collect(int64_t first, int64_t last, const Transition& transition,
                 std::vector<Arrival>& out) {
        out.clear();
        for (int64_t i = first; i < last; ++i) {
            const double score = transition(i);
            if (score == kMinusInfinity) continue;
            for (size_t rank = 0; rank < arrivals_[i].size(); ++rank)
                out.push_back({arrivals_[i][rank].score + score, i, int64_t(rank)});
        }
        auto is_better = [](const Arrival& a, const Arrival& b) {
            if (a.score != b.score) return a.score > b.score;
            return a.from != b.from ? a.from < b.from : a.rank < b.rank;
        };
        const auto size = std::min<int64_t>(n_, out.size());
        std::partial_sort(out.begin(), out.begin() + size, out.end(), is_better);
        out.resize(size);
    }

    const CandidateBatch<In>& batch_;
    const int64_t n_;
    std::vector<std::vector<Arrival>> arrivals_;  // [C, up to n]
};

// The same two of order 2.
template <class In>
class BestPairs {
  public:
    BestPairs(const CandidateBatch<In>& batch, int64_t n) : batch_(batch), n_(n) {}

    bool best(const CandidateSequence<In>& x, int32_t* path) {
        set_pairs(batch_, x, pairs_);
        candidates_.resize(x.T);
        const bool has_path = pairs_.best(candidates_.data());
        for (int64_t t = 0; t < x.T; ++t) path[t] = has_path ? x.label[candidates_[t]] : -1;
        return has_path;
    }
    int64_t nbest(const CandidateSequence<In>& x, std::vector<int32_t>& paths) {
        set_pairs(batch_, x, pairs_);
        candidates_.clear();
        const int64_t count = pairs_.nbest(n_, candidates_);
        for (const int64_t j : candidates_) paths.push_back(x.label[j]);
        return count;
    }

  private:
    const CandidateBatch<In>& batch_;
    const int64_t n_;
    CandidatePairs pairs_;
    std::vector<int64_t> candidates_;
};

// Sequences of a batch for one piece of work each.
constexpr int64_t kTogether = 64;

template <class In, class Work>
void in_pieces(const CandidateBatch<In>& batch, const Work& work) {
    const int64_t pieces = (batch.N + kTogether - 1) / kTogether;
    parallel_for(pieces, batch.threads, [&](int64_t piece, int64_t) {
        work(piece * kTogether, std::min((piece + 1) * kTogether, batch.N));
    });
}

}  // namespace

template <class In>
void viterbi(const CandidateBatch<In>& batch, int32_t* path, double* score) {
    in_pieces(batch, [&](int64_t first, int64_t last) {
        BestPath<In> best(batch);
        BestPairs<In> best_pairs(batch, 1);
        for (int64_t i = first; i < last; ++i) {
            score[i] = 0;
            if (batch.length(i) == 0) continue;
            int32_t* of_sequence = path + batch.offsets[i];
            const CandidateSequence<In> x(batch, i);
            const bool has_path =
                batch.trigrams ? best_pairs.best(x, of_sequence) : best.run(x, of_sequence);
            score[i] = has_path ? score_of(batch, i, of_sequence) : kMinusInfinity;
        }
    });
}

template <class In>
void path_score(const CandidateBatch<In>& batch, const int32_t* path, double* score) {
    for (int64_t i = 0; i < batch.N; ++i)
        score[i] = batch.length(i) == 0 ? 0 : score_of(batch, i, path + batch.offsets[i]);
}

template <class In>
NBestPaths nbest(const CandidateBatch<In>& batch, int64_t n) {
    std::vector<std::vector<int32_t>> paths(batch.N);
    NBestPaths out;
    out.count.assign(batch.N, 0);
    in_pieces(batch, [&](int64_t first, int64_t last) {
        BestPaths<In> best(batch, n);
        BestPairs<In> best_pairs(batch, n);
        for (int64_t i = first; i < last; ++i) {
            out.count[i] = 1;
            if (batch.length(i) == 0) continue;
            const CandidateSequence<In> x(batch, i);
            out.count[i] = batch.trigrams ? best_pairs.nbest(x, paths[i]) : best.run(x, paths[i]);
        }
    });
    for (int64_t i = 0; i < batch.N; ++i) {
        const int64_t T = batch.length(i);
        for (int64_t k = 0; k < out.count[i]; ++k)
            out.scores.push_back(T == 0 ? 0 : score_of(batch, i, &paths[i][k * T]));
        out.paths.insert(out.paths.end(), paths[i].begin(), paths[i].end());
    }
    return out;
}

#define TL_INSTANTIATE(In)                                                            \
    template void viterbi<In>(const CandidateBatch<In>&, int32_t*, double*);          \
    template void path_score<In>(const CandidateBatch<In>&, const int32_t*, double*); \
    template NBestPaths nbest<In>(const CandidateBatch<In>&, int64_t);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)

}  // namespace tagloom
