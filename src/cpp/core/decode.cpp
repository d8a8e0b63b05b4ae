#include "core/decode.hpp"

#include <algorithm>
#include <atomic>
#include <limits>

#include "core/dense.hpp"
#include "core/dispatch.hpp"
#include "core/scratch.hpp"
#include "core/threads.hpp"

namespace tagloom {

void WordScores::score(const SentenceRange& sentences, float* emit, float* edge) const {
    nodes_.score(sentences.begin(), sentences.end(), emit);
    if (edges_) edges_->score(sentences.begin(), sentences.end(), edge);
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
std::vector<int64_t> cut(std::span<const int64_t> offsets, int64_t Y, bool has_edges,
                         int64_t threads) {
    int64_t most = kPieceScores / (has_edges ? Y * Y : Y);  // tokens
    if (threads > 1) most = std::min(most, offsets.back() / threads / 4);
    most = std::max(most, has_edges ? 1 : kFewTokens);
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

bool decode_piece(const ScoreSource& scores, const DenseTransitions& transitions,
                  const SentenceRange& sentences, int32_t* path) {
    const int64_t begin = sentences.begin(), T = sentences.tokens(), Y = transitions.Y;
    const int64_t edges = transitions.has_edges ? T * Y * Y : 0;
    thread_local Scratch<float> memory;
    const auto taken = memory.take(static_cast<std::size_t>(T * Y + edges));
    float *emit = taken.data, *edge = transitions.has_edges ? emit + T * Y : nullptr;
    scores.score(sentences, emit, edge);
    constexpr float kMost = std::numeric_limits<float>::max();
    const float largest = largest_of(emit, T * Y);
    if (!(largest <= kMost) || !(largest_of(edge, edges) <= kMost)) return false;

    std::vector<int64_t> from_zero;  // offsets of the piece, from 0
    const int64_t* offsets = sentences.offsets.data() + sentences.first;
    if (begin > 0) {
        from_zero.assign(offsets, offsets + (sentences.last - sentences.first) + 1);
        for (int64_t& offset : from_zero) offset -= begin;
        offsets = from_zero.data();
    }
    DenseBatch<float> batch{};
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
    viterbi(batch, path + begin, nullptr);
    return std::all_of(path + begin, path + begin + T, [](int32_t y) { return y >= 0; });
}

}  // namespace

bool decode(const ScoreSource& scores, const DenseTransitions& transitions,
            std::span<const int64_t> offsets, int64_t threads, int32_t* path) {
    const std::vector<int64_t> pieces = cut(offsets, transitions.Y, transitions.has_edges, threads);
    std::atomic<bool> sound = true;
    parallel_for(static_cast<int64_t>(pieces.size()) - 1, threads, [&](int64_t p, int64_t) {
        const SentenceRange sentences{offsets, pieces[p], pieces[p + 1]};
        if (sound && !decode_piece(scores, transitions, sentences, path)) sound = false;
    });
    return sound;
}

}  // namespace tagloom
