// From sentences to scores:
//
//   out[t, k] = sum over the attributes a of token t of value(t, a) * weight(a, k)
//
// Weight rows, sparse or dense, are passed as arrays:
//
//   row_ptr [A + 1]   the weights of attribute a are row_ptr[a] : row_ptr[a + 1]
//   cols    [W]       the output k of each weight, below K; 8, 16 or 32 bits
//   weights [W]       a row of K weights is dense: its cols are 0 .. K-1 in order
//
// K is Y for scores of labels (emit), Y * Y for label pairs (edge, y_prev * Y + y).
//
// Scoring is bound by memory latency. In their original layout, index and rows cost five cache
// lines per attribute (key, id, row_ptr, cols, weights). So both are copied into a layout that
// costs two: the slot of a fingerprint points to its row, and a row is contiguous.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/extract.hpp"
#include "core/index.hpp"
#include "core/pages.hpp"
#include "core/rows.hpp"
#include "core/scratch.hpp"
#include "core/word_cache.hpp"

namespace tagloom {

// Weight rows as the caller passes them.
template <class Col>
struct RowArrays {
    const int64_t* row_ptr = nullptr;
    const Col* cols = nullptr;
    const float* weights = nullptr;
    int64_t A = 0, W = 0, K = 0;

    // What is wrong with the arrays; empty if they are valid.
    std::string fault() const;
};

// Rows with at least a quarter of the weights are stored in full, for vectors: they are few, but of
// frequent attributes.
struct WeightRows {
    int64_t K = 0;
    PagedArray<WeightRow> by_id;  // [A]
    PagedArray<std::byte> data;   // rows as in rows.hpp, of width K

    WeightRows() = default;
    template <class Col>
    explicit WeightRows(const RowArrays<Col>& arrays);  // fault() must be empty

    bool is_wide() const { return K > 65536; }  // cols of 32 bits
};

// Fingerprint -> row. A bucket is a cache line, and few are full, so one line nearly always decides
// whether an attribute is present, without an unpredictable branch.
class RowTable {
  public:
    RowTable() = default;
    // The rows of attributes with these fingerprints [by_id.size()], numbered in order.
    // std::invalid_argument for a key that is 0 or a duplicate, as in a damaged file.
    RowTable(std::span<const uint64_t> keys, const PagedArray<WeightRow>& by_id);

    void prefetch(uint64_t fingerprint) const {
        __builtin_prefetch(buckets_.data() + (fingerprint & mask_));
    }
    // The row of an attribute; empty if it is not in the table.
    WeightRow find(uint64_t fingerprint) const {
        const uint64_t wanted = Table::key(fingerprint);
        for (uint64_t b = wanted & mask_;; b = (b + 1) & mask_) {
            const RowBucket& bucket = buckets_[b];
            uint64_t found = 0;
            for (int i = 0; i < kBucketSlots; i++)
                found |= bucket.rows[i] & -uint64_t{bucket.keys[i] == wanted};
            if ((found != 0) | (bucket.keys[kBucketSlots - 1] == 0))
                return std::bit_cast<WeightRow>(found);
        }
    }
    // The same for n fingerprints; empty where one is 0.
    void find(const uint64_t* keys, int64_t n, WeightRow* out) const;

  private:
    PagedArray<RowBucket> buckets_;
    uint64_t mask_ = 0;
};

// Splits a program into sums that can be computed once per word and lookups at each token. The plan
// alone determines the order in which the weights of a token are added, so every bit of a score is
// the same for any number of threads and any batch.
//
// The part that depends on one word only is its block, in units of 8 bytes:
//
//   heads   of templates whose first factor reads this word: the fingerprint so far, 0 if that
//           factor has no value
//   values  of atoms, for templates in which a later factor reads this word
//   rows    of local templates that are added at each token
//   sums    [groups, K rounded up to a multiple of 4] floats: for each offset at which templates
//           read the word, the sum of the rows of all other local templates
struct Plan {
    struct Head {
        uint32_t place;  // of the atom in its column
        uint64_t start, then;
    };
    struct Local {
        uint32_t k;     // number of the template
        uint32_t unit;  // of its row, or of the sum that its row is added to
        bool is_summed;
    };
    struct Block {
        std::vector<Head> heads;
        std::vector<uint32_t> values;  // places of atoms
        std::vector<Local> locals;
        std::size_t units = 0;
    };
    // A unit of the block of the word at `offset` from the token.
    struct Part {
        std::size_t column;
        int32_t offset;
        uint32_t unit;
        uint64_t then = kEmpty;  // literal after the value
    };
    struct Step {
        Part first;  // a row, or a head
        bool is_row;
        std::vector<Part> values;  // that follow the head
        int32_t numeric;
    };
    std::vector<Block> blocks;  // [columns]
    std::vector<Part> sums;     // the score of a token starts as the sum of these
    std::vector<Step> steps;    // then these are added, in the order of templates

    Plan(const Program& program, int64_t K);
};

// Program, plan and weights: all read-only inputs of scoring.
struct Scoring {
    const Program& program;
    const Plan& plan;
    const RowTable& table;
    const WeightRows& rows;
    // Of the templates that read one word, only the last with a row counts: a table with back-off,
    // whose templates go from general to specific. Otherwise their rows are summed.
    bool takes_last = false;
};

// An empty cache for the words of column c; without `keeps` it stays empty.
std::unique_ptr<WordCache> make_word_cache(const Scoring& scoring, std::size_t c, bool keeps);

// A batch whose words have been scored. Its tokens can then be scored in pieces, by many threads. A
// thread may have one for nodes and one for edges at a time; both use scratch memory of the thread.
// Scoring and batch must outlive it.
class ScoredWords {
  public:
    enum Role { kNodes, kEdges };
    ScoredWords(const Scoring& scoring, Batch& batch,
                std::span<const std::unique_ptr<WordCache>> caches, int64_t threads,
                Role role = kNodes);
    // Scores of the tokens first .. last - 1: out is [last - first, K].
    void score(int64_t first, int64_t last, float* out) const;

  private:
    // Computes the blocks of the words without one.
    void score_fresh(Batch& batch, std::span<const std::unique_ptr<WordCache>> caches,
                     int64_t threads, Role role);

    void hash(const Plan::Step& step, int64_t position, int64_t n, uint64_t* out) const;

    const Scoring scoring_;
    const Batch& batch_;
    Scratch<uint64_t>::Taken rest_{};  // blocks of the words that are not cached
    // The block of the word at each padded position: blocks_[column][position].
    std::vector<const uint64_t* const*> blocks_;
};

// out is [T, K]. The result is the same for any number of threads and any content of the caches
// [columns].
void score(const Scoring& scoring, Batch& batch, std::span<const std::unique_ptr<WordCache>> caches,
           int64_t threads, float* out);

// The same for encoded tokens, CSR with T rows; values is null if all are 1.
void score_encoded(const int64_t* indptr, const int32_t* ids, const float* values, int64_t T,
                   const WeightRows& rows, int64_t threads, float* out);

// Tokens given by the fingerprints of their attributes, in CSR form.
struct FingerprintRows {
    std::span<const int64_t> indptr;  // [T + 1]
    std::span<const uint64_t> fingerprints;
    std::span<const float> values;  // empty if all are 1
};

// Scores of the tokens first .. last - 1: out is [last - first, K]. Attributes without a row are
// left out.
void score_fingerprints(const FingerprintRows& tokens, int64_t first, int64_t last,
                        const RowTable& table, const WeightRows& rows, float* out);

}  // namespace tagloom
