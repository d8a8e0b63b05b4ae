#include "core/spans.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>

namespace tagloom {
namespace {

// SplitMix64 (Steele, Lea and Flood 2014): one add and one mix per draw, and any seed is a good
// one. Each replicate has its own stream, so replicates do not depend on their number.
struct Random {
    uint64_t state;
    Random(uint64_t seed, uint64_t stream) : state(seed) { state = next() ^ mix(stream + 1); }
    uint64_t next() { return mix(state += 0x9e3779b97f4a7c15u); }
    static uint64_t mix(uint64_t z) {
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
};

// Rows of counts are padded to one vector, so that a row is added in one or two instructions.
constexpr int64_t kWidth = 8;
typedef int32_t Row __attribute__((vector_size(kWidth * sizeof(int32_t))));

}  // namespace

void read_spans(const int32_t* labels, int64_t T, const Reading& reading, std::vector<Span>& out) {
    int64_t start = -1;  // of the open span, if any
    uint8_t previous = 0;
    int32_t previous_type = -1;
    for (int64_t t = 0; t < T; t++) {
        const uint8_t letter = reading.letter[labels[t]];
        const int32_t type = reading.type[labels[t]];
        const bool same = type == previous_type;
        const uint8_t action = reading.action[(same * kLetters + previous) * kLetters + letter];
        if (start >= 0 && action != kContinue) {
            if (reading.closing[previous]) out.push_back({start, t, previous_type});
            start = -1;
        }
        if (action == kOpen) start = t;
        previous = letter;
        previous_type = type;
    }
    if (start >= 0 && reading.closing[previous]) out.push_back({start, T, previous_type});
}

void count_spans(const int32_t* gold, const int32_t* predicted, const int64_t* offsets, int64_t N,
                 const Reading& gold_reading, const Reading& predicted_reading, SpanCounts counts) {
    std::vector<Span> g, p;
    for (int64_t n = 0; n < N; n++) {
        const int64_t T = offsets[n + 1] - offsets[n];
        g.clear();
        p.clear();
        read_spans(gold + offsets[n], T, gold_reading, g);
        read_spans(predicted + offsets[n], T, predicted_reading, p);
        int32_t correct = 0;
        // Both lists are in order and disjoint, so equal spans meet in one merge.
        for (size_t i = 0, j = 0; i < g.size() && j < p.size();) {
            if (g[i] == p[j]) {
                counts.by_type[3 * g[i].type + 2]++;
                correct++;
            }
            if (g[i].start <= p[j].start) {
                j += g[i].start == p[j].start;
                i++;
            } else {
                j++;
            }
        }
        for (const Span& span : g) counts.by_type[3 * span.type]++;
        for (const Span& span : p) counts.by_type[3 * span.type + 1]++;
        counts.by_sentence[3 * n] = static_cast<int32_t>(g.size());
        counts.by_sentence[3 * n + 1] = static_cast<int32_t>(p.size());
        counts.by_sentence[3 * n + 2] = correct;
    }
}

void count_tokens(const int32_t* gold, const int32_t* predicted, const int64_t* offsets, int64_t N,
                  int64_t Y, int64_t* confusion, int32_t* correct) {
    for (int64_t n = 0; n < N; n++) {
        int32_t agree = 0;
        for (int64_t t = offsets[n]; t < offsets[n + 1]; t++) {
            confusion[gold[t] * Y + predicted[t]]++;
            agree += gold[t] == predicted[t];
        }
        correct[n] = agree;
    }
}

void resample(const int32_t* rows, int64_t N, int64_t S, int64_t R, uint64_t seed, int64_t* sums) {
    std::fill(sums, sums + R * S, 0);
    std::vector<Row> padded(N, Row{});
    int64_t largest = 1;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t s = 0; s < S; s++) {
            padded[n][s] = rows[n * S + s];
            largest = std::max<int64_t>(largest, std::abs(int64_t{rows[n * S + s]}));
        }
    }
    // The largest even number of rows whose sum certainly fits an int32.
    const int64_t block = std::max<int64_t>(2, std::numeric_limits<int32_t>::max() / largest & ~1);
    for (int64_t r = 0; r < R; r++) {
        Random random(seed, r);
        for (int64_t n = 0; n < N;) {
            Row sum{}, other{};
            // Multiply and shift maps 32 random bits to 0 .. N - 1 without a division; one draw of
            // 64 bits chooses two rows.
            const int64_t stop = std::min(N, n + block);
            for (; n < stop; n += 2) {
                const uint64_t bits = random.next();
                sum += padded[(bits >> 32) * static_cast<uint64_t>(N) >> 32];
                if (n + 1 < stop) {
                    other += padded[(bits & 0xffffffffu) * static_cast<uint64_t>(N) >> 32];
                }
            }
            for (int64_t s = 0; s < S; s++) sums[r * S + s] += int64_t{sum[s]} + other[s];
        }
    }
}

void toss(const int32_t* rows, const int64_t* copies, int64_t N, int64_t S, int64_t R,
          uint64_t seed, int64_t* sums) {
    std::fill(sums, sums + R * S, 0);
    for (int64_t r = 0; r < R; r++) {
        Random random(seed, r);
        for (int64_t n = 0; n < N; n++) {
            int64_t heads = 0;
            for (int64_t left = copies[n]; left > 0; left -= 64) {
                const uint64_t bits = random.next();
                heads += std::popcount(left < 64 ? bits >> (64 - left) : bits);
            }
            for (int64_t s = 0; s < S; s++) sums[r * S + s] += heads * rows[n * S + s];
        }
    }
}

}  // namespace tagloom
