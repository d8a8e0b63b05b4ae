// From scores to labels: the best path of every sentence of a batch, found piece by piece, so that
// scores are used while they are still in the cache of the core that computed them.
//
//   for each piece (whole sentences, some thousand scores), on all threads:
//     emit [T, Y] (and edge [T, Y, Y])  =  scores from a ScoreSource
//     path [T]                          =  Viterbi over these and the transitions
//     probs [T]                         =  the marginals of that path, if they are requested
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/dominance.hpp"
#include "core/local.hpp"
#include "core/pruning.hpp"
#include "core/score.hpp"
#include "core/subtags.hpp"
#include "core/trigrams.hpp"

namespace tagloom {

// The sentences first .. last - 1 of a batch, whose tokens are offsets[first] .. offsets[last] - 1.
struct SentenceRange {
    std::span<const int64_t> offsets;  // [N + 1], whole batch
    int64_t first, last;

    int64_t begin() const { return offsets[first]; }
    int64_t end() const { return offsets[last]; }
    int64_t tokens() const { return end() - begin(); }
};

// Computes the scores of a batch; called by several threads at once, for different sentences.
class ScoreSource {
  public:
    virtual ~ScoreSource() = default;
    // emit is [tokens, Y]; edge is [tokens, Y, Y], or null if there are none.
    virtual void score(const SentenceRange& sentences, float* emit, float* edge) const = 0;
};

// Scores from the words of sentences: nodes, and edges if there are any.
class WordScores final : public ScoreSource {
  public:
    explicit WordScores(const ScoredWords& nodes, const ScoredWords* edges = nullptr)
        : nodes_(nodes), edges_(edges) {}
    void score(const SentenceRange& sentences, float* emit, float* edge) const override;

  private:
    const ScoredWords& nodes_;
    const ScoredWords* edges_;
};

// Scores from the fingerprints of attributes.
class ItemScores final : public ScoreSource {
  public:
    ItemScores(const FingerprintRows& tokens, const RowTable& table, const WeightRows& rows)
        : tokens_(tokens), table_(table), rows_(rows) {}
    void score(const SentenceRange& sentences, float* emit, float* edge) const override;

  private:
    const FingerprintRows tokens_;
    const RowTable& table_;
    const WeightRows& rows_;
};

// The log-probabilities of a locally normalised model, from its raw scores; see local.hpp.
class LocalScores final : public ScoreSource {
  public:
    LocalScores(const ScoreSource& raw, const LocalNormaliser& normaliser)
        : raw_(raw), normaliser_(normaliser) {}
    void score(const SentenceRange& sentences, float* emit, float* edge) const override;

  private:
    const ScoreSource& raw_;
    const LocalNormaliser& normaliser_;
};

// Scores of transitions in the dense layout, see kernels.hpp; -inf where forbidden.
struct DenseTransitions {
    int64_t Y = 0, G = 1, levels = 1;
    std::vector<double> trans;                   // [levels, G, Y, Y]
    std::vector<double> start, stop;             // [Y]
    bool has_edges = false;                      // whether the source has edge scores too
    std::shared_ptr<const Dominance> dominance;  // may be null; see set_dominance()

    // Prepares faster decoding, where that is possible. Call it once all scores are set.
    void set_dominance();

    // The same divided by a temperature.
    DenseTransitions tempered(double temperature) const;
};

// The best label of every token: path [T]. False, with an undefined path, if a sentence has no path
// or a score is NaN or +inf; the caller then takes the slow path, which raises a precise error.
bool decode(const ScoreSource& scores, const DenseTransitions& transitions,
            std::span<const int64_t> offsets, int64_t threads, int32_t* path);

// The same over candidate labels, see pruning.hpp; in first order or with trigrams, without edges.
// The source has scores [T, Y + S] of labels and sub-tags.
struct CandidateRule {
    Pruning pruning;
    std::optional<TrigramScores> trigrams;
    Subtags subtags;
};
bool decode_pruned(const ScoreSource& scores, const DenseTransitions& transitions,
                   const CandidateRule& rule, std::span<const int64_t> offsets, int64_t threads,
                   int32_t* path);

// The same over all labels, and the probability of each of the best ones: probs [T],
// Pr(y_t = path[t] | x; scores / temperature). Also false if scaled probabilities are not safe.
bool decode_with_probs(const ScoreSource& scores, const DenseTransitions& transitions,
                       double temperature, std::span<const int64_t> offsets, int64_t threads,
                       int32_t* path, float* probs);

// The probability of every label at every token, in one piece: out [T, Y]. False where
// decode_with_probs() is.
bool marginals(const ScoreSource& scores, const DenseTransitions& transitions,
               std::span<const int64_t> offsets, float* out);

}  // namespace tagloom
