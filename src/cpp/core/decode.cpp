#include "core/decode.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>

#include "core/candidates.hpp"
#include "core/dense.hpp"
#include "core/dispatch.hpp"
#include "core/scratch.hpp"
#include "core/threads.hpp"

namespace tagloom {

void WordScores::score(const SentenceRange& sentences, float* emit, float* edge) const {
    nodes_.score(sentences.begin(), sentences.end(), emit);
    if (edges_) edges_->score(sentences.begin(), sentences.end(), edge);
}

void ItemScores::score(const SentenceRange& sentences, float* emit, float*) const {
    score_fingerprints(tokens_, sentences.begin(), sentences.end(), table_, rows_, emit);
}

void LocalScores::score(const SentenceRange& sentences, float* emit, float* edge) const {
    raw_.score(sentences, emit, edge);
    normaliser_.normalise(sentences.offsets.subspan(static_cast<std::size_t>(sentences.first),
                                                    sentences.last - sentences.first + 1),
                          emit, edge, emit);
}

namespace {

constexpr int64_t kPieceScores = 1 << 16;  // 256 KB, which stay in a core's cache until used
constexpr int64_t kFewTokens = 1024;       // enough to fill the lanes; edge scores use no lanes

// Cuts sentences into pieces: small enough for the cache, and enough of them for all threads.
std::vector<int64_t> cut(std::span<const int64_t> offsets, int64_t scores_per_token, int64_t least,
                         int64_t threads) {
    int64_t most = kPieceScores / scores_per_token;  // tokens
    if (threads > 1) most = std::min(most, offsets.back() / threads / 4);
    most = std::max(most, least);
    std::vector<int64_t> pieces;
    pieces.reserve(static_cast<std::size_t>(offsets.back() / most) + 2);
    pieces.push_back(0);
    for (std::size_t n = 1; n < offsets.size(); n++) {
        if (offsets[n] - offsets[pieces.back()] >= most || n + 1 == offsets.size()) {
            pieces.push_back(static_cast<int64_t>(n));
        }
    }
    return pieces;
}

// The largest |score| that is not -inf; infinite or NaN if a score is NaN or +inf.
float largest_of(const float* scores, int64_t n) { return kernels().largest_f32(scores, n); }

// Transitions at the temperature of the model, and where to put probabilities.
struct Probabilities {
    const DenseTransitions& transitions;
    float scale;   // 1 / temperature
    float* probs;  // [T], whole batch
};

// The marginals [T, Y] of a batch. False if a sequence has no path or needs log space.
bool sum_marginals(const DenseBatch<float>& batch, float* marginals) {
    std::vector<double> log_z(static_cast<std::size_t>(batch.N));
    const auto ok = std::make_unique<bool[]>(static_cast<std::size_t>(batch.N));
    Expected<float> expected;
    expected.marginals = marginals;
    sum(batch, nullptr, expected, log_z.data(), ok.get());
    return std::all_of(ok.get(), ok.get() + batch.N, [](bool each) { return each; }) &&
           std::all_of(log_z.begin(), log_z.end(), [](double z) { return std::isfinite(z); });
}

// Divides the scores of a batch by the temperature, and reads off the marginals of the path. False
// if a sequence needs log space.
bool read_marginals(DenseBatch<float>& batch, const Probabilities& wanted, float* scores,
                    int64_t count, float* marginals, const int32_t* path, float* probs) {
    if (wanted.scale != 1) {
        for (int64_t i = 0; i < count; i++) scores[i] *= wanted.scale;  // -inf stays -inf
    }
    batch.transitions = wanted.transitions.trans.data();
    batch.start = wanted.transitions.start.data();
    batch.stop = wanted.transitions.stop.data();
    const bool is_sound = sum_marginals(batch, marginals);
    const int64_t T = batch.offsets[batch.N];
    for (int64_t t = 0; t < T; t++) probs[t] = marginals[t * batch.Y + path[t]];
    return is_sound;
}

// Scores some sentences into memory for [T, Y] and, with edges, [T, Y, Y] scores. Points the batch
// to them, with offsets from 0 on. False if a score is NaN or +inf.
bool score_piece(const ScoreSource& scores, const DenseTransitions& transitions,
                 const SentenceRange& sentences, float* memory, std::vector<int64_t>& from_zero,
                 DenseBatch<float>& batch) {
    const int64_t begin = sentences.begin(), T = sentences.tokens(), Y = transitions.Y;
    const int64_t edges = transitions.has_edges ? T * Y * Y : 0;
    float *emit = memory, *edge = transitions.has_edges ? emit + T * Y : nullptr;
    scores.score(sentences, emit, edge);
    constexpr float kMost = std::numeric_limits<float>::max();
    const float largest = largest_of(emit, T * Y);
    if (!(largest <= kMost) || !(largest_of(edge, edges) <= kMost)) return false;

    const int64_t* offsets = sentences.offsets.data() + sentences.first;
    if (begin > 0) {
        from_zero.assign(offsets, offsets + (sentences.last - sentences.first) + 1);
        for (int64_t& offset : from_zero) offset -= begin;
        offsets = from_zero.data();
    }
    batch.Y = Y;
    batch.G = transitions.G;
    batch.levels = transitions.levels;
    batch.transitions = transitions.trans.data();
    batch.start = transitions.start.data();
    batch.stop = transitions.stop.data();
    batch.emit = emit;
    batch.edge = edge;
    batch.offsets = offsets;
    batch.N = sentences.last - sentences.first;
    batch.threads = 1;
    batch.largest_emit = largest;
    return true;
}

bool decode_piece(const ScoreSource& scores, const DenseTransitions& transitions,
                  const SentenceRange& sentences, int32_t* path, const Probabilities* wanted) {
    const int64_t begin = sentences.begin(), T = sentences.tokens(), Y = transitions.Y;
    const int64_t count = T * Y + (transitions.has_edges ? T * Y * Y : 0);
    thread_local Scratch<float> memory;
    const auto taken =
        memory.take(static_cast<std::size_t>(count + (wanted ? T * Y : 0) + Dominance::kSlack));
    std::vector<int64_t> from_zero;
    DenseBatch<float> batch{};
    if (!score_piece(scores, transitions, sentences, taken.data, from_zero, batch)) return false;
    if (!transitions.dominance || !transitions.dominance->viterbi(batch, path + begin)) {
        viterbi(batch, path + begin, nullptr);
    }
    if (!std::all_of(path + begin, path + begin + T, [](int32_t y) { return y >= 0; })) {
        return false;
    }
    return !wanted || read_marginals(batch, *wanted, taken.data, count, taken.data + count,
                                     path + begin, wanted->probs + begin);
}

bool decode_pruned_piece(const ScoreSource& scores, const DenseTransitions& transitions,
                         const CandidateRule& rule, const SentenceRange& sentences, int32_t* path) {
    const int64_t T = sentences.tokens(), Y = transitions.Y, K = Y + rule.subtags.S;
    thread_local Scratch<float> memory;
    const auto taken = memory.take(static_cast<std::size_t>(T * K));
    scores.score(sentences, taken.data, nullptr);
    CandidateLists<float> candidates(rule.pruning);
    std::vector<float> sums;
    for (int64_t t = 0; t < T; t++) {
        float* row = taken.data + t * K;
        if (rule.subtags.S > 0) rule.subtags.spread(row, row + Y, row, sums);
        if (!(largest_of(row, Y) <= std::numeric_limits<float>::max())) return false;
        candidates.add(row, Y);
    }
    const int64_t N = sentences.last - sentences.first;
    const int64_t* offsets = sentences.offsets.data() + sentences.first;
    std::vector<int64_t> from_zero(offsets, offsets + N + 1);
    for (int64_t& offset : from_zero) offset -= sentences.begin();
    CandidateBatch<float> batch{};
    batch.Y = Y;
    batch.trans = transitions.trans.data();
    batch.start = transitions.start.data();
    batch.stop = transitions.stop.data();
    batch.rows = candidates.rows.data();
    batch.label = candidates.label.data();
    batch.score = candidates.score.data();
    batch.offsets = from_zero.data();
    batch.N = N;
    batch.threads = 1;
    batch.trigrams = rule.trigrams ? &*rule.trigrams : nullptr;
    std::vector<double> score(static_cast<std::size_t>(N));
    path += sentences.begin();
    viterbi(batch, path, score.data());
    return std::all_of(path, path + T, [](int32_t y) { return y >= 0; });
}

bool decode_pieces(const ScoreSource& scores, const DenseTransitions& transitions,
                   std::span<const int64_t> offsets, int64_t threads, int32_t* path,
                   const Probabilities* wanted) {
    const int64_t Y = transitions.Y;
    const std::vector<int64_t> pieces = transitions.has_edges
                                            ? cut(offsets, Y * Y, 1, threads)
                                            : cut(offsets, Y, kFewTokens, threads);
    std::atomic<bool> sound = true;
    parallel_for(static_cast<int64_t>(pieces.size()) - 1, threads, [&](int64_t p, int64_t) {
        const SentenceRange sentences{offsets, pieces[p], pieces[p + 1]};
        if (sound && !decode_piece(scores, transitions, sentences, path, wanted)) sound = false;
    });
    return sound;
}

}  // namespace

void DenseTransitions::set_dominance() {
    if (G == 1 && levels == 1 && !has_edges) {
        dominance = Dominance::make(Y, trans.data(), start.data(), stop.data());
    }
}

DenseTransitions DenseTransitions::tempered(double temperature) const {
    DenseTransitions divided = *this;
    for (auto* scores : {&divided.trans, &divided.start, &divided.stop}) {
        for (double& score : *scores) score /= temperature;
    }
    return divided;
}

bool decode(const ScoreSource& scores, const DenseTransitions& transitions,
            std::span<const int64_t> offsets, int64_t threads, int32_t* path) {
    return decode_pieces(scores, transitions, offsets, threads, path, nullptr);
}

bool decode_pruned(const ScoreSource& scores, const DenseTransitions& transitions,
                   const CandidateRule& rule, std::span<const int64_t> offsets, int64_t threads,
                   int32_t* path) {
    const auto pieces = cut(offsets, transitions.Y + rule.subtags.S, 1, threads);
    std::atomic<bool> sound = true;
    parallel_for(static_cast<int64_t>(pieces.size()) - 1, threads, [&](int64_t p, int64_t) {
        const SentenceRange piece{offsets, pieces[p], pieces[p + 1]};
        if (sound && !decode_pruned_piece(scores, transitions, rule, piece, path)) sound = false;
    });
    return sound;
}

bool decode_with_probs(const ScoreSource& scores, const DenseTransitions& transitions,
                       double temperature, std::span<const int64_t> offsets, int64_t threads,
                       int32_t* path, float* probs) {
    if (temperature == 1) {
        const Probabilities wanted{transitions, 1, probs};
        return decode_pieces(scores, transitions, offsets, threads, path, &wanted);
    }
    const DenseTransitions divided = transitions.tempered(temperature);
    const Probabilities wanted{divided, static_cast<float>(1 / temperature), probs};
    return decode_pieces(scores, transitions, offsets, threads, path, &wanted);
}

bool marginals(const ScoreSource& scores, const DenseTransitions& transitions,
               std::span<const int64_t> offsets, float* out) {
    const SentenceRange all{offsets, 0, std::ssize(offsets) - 1};
    const int64_t T = all.tokens(), Y = transitions.Y;
    thread_local Scratch<float> memory;
    const auto taken =
        memory.take(static_cast<std::size_t>(T * Y + (transitions.has_edges ? T * Y * Y : 0)));
    std::vector<int64_t> from_zero;
    DenseBatch<float> batch{};
    return score_piece(scores, transitions, all, taken.data, from_zero, batch) &&
           sum_marginals(batch, out);
}

}  // namespace tagloom
