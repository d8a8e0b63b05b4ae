// From sentences to scores: out[t, k] = sum over the attributes a of token t of value * weight(a,
// k). The rows of weights come as arrays in one layout, sparse or dense:
//
//   row_ptr [A + 1]   the weights of attribute a are row_ptr[a] : row_ptr[a + 1]
//   cols    [W]       which output each weight is for, below K; 16 or 32 bits
//   weights [W]       a row of K weights is dense: its cols are 0 .. K-1 in order
//
// K is Y for scores of labels (emit), Y * Y for scores of moves (edge, y_prev * Y + y).
//
// Scoring waits for memory more than it computes. Read as they come, the arrays of an index and of
// its rows cost five cache lines for each attribute (key, id, row_ptr, cols, weights), so both are
// copied into a layout that costs two: the slot of a fingerprint tells where its row is, and a row
// lies in one piece.
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
#include "core/known.hpp"
#include "core/pages.hpp"
#include "core/scratch.hpp"

namespace tagloom {

// Rows of weights as they come.
template <class Col>
struct RowArrays {
    const int64_t* row_ptr = nullptr;
    const Col* cols = nullptr;
    const float* weights = nullptr;
    int64_t A = 0, W = 0, K = 0;

    // Why these arrays cannot be rows, empty if they can.
    std::string fault() const;
};

// One row: n weights from data[begin] on, then, unless n is K, their n cols of 16 bits (32 where K
// needs them).
struct WeightRow {
    uint32_t begin = 0, n = 0;  // begin counts units of 4 bytes
};

struct WeightRows {
    int64_t K = 0;
    PagedArray<WeightRow> by_id;  // [A]
    PagedArray<std::byte> data;

    WeightRows() = default;
    template <class Col>
    explicit WeightRows(const RowArrays<Col>& arrays);  // which have no fault()

    bool is_wide() const { return K > 65536; }  // cols of 32 bits
};

// Fingerprint -> row. A bucket is a cache line, and few of them are full: whether an attribute is
// here, which no processor can guess, is told by one line and nearly always without a jump.
class RowTable {
  public:
    RowTable() = default;
    RowTable(const Table& table, const PagedArray<WeightRow>& by_id);  // [table.size]

    void prefetch(uint64_t fingerprint) const {
        __builtin_prefetch(buckets_.data() + (fingerprint & mask_));
    }
    // The row of an attribute; an empty one if it is not here.
    WeightRow find(uint64_t fingerprint) const {
        const uint64_t wanted = Table::key(fingerprint);
        for (uint64_t b = wanted & mask_;; b = (b + 1) & mask_) {
            const Bucket& bucket = buckets_[b];
            uint64_t found = 0;
            for (int i = 0; i < kSlots; i++)
                found |= bucket.rows[i] & -uint64_t{bucket.keys[i] == wanted};
            if ((found != 0) | (bucket.keys[kSlots - 1] == 0))
                return std::bit_cast<WeightRow>(found);
        }
    }

  private:
    static constexpr int kSlots = 4;
    struct alignas(64) Bucket {
        uint64_t keys[kSlots];  // 0 in those that are empty, which come last
        uint64_t rows[kSlots];  // the bits of a WeightRow
    };
    PagedArray<Bucket> buckets_;
    uint64_t mask_ = 0;
};

// What of a program can be summed by word, and what must be looked up at each token. The order in
// which a token's weights are added follows from this alone, so neither threads nor the rest of a
// batch change any bit of its scores.
//
// What only depends on a word is kept in its block, in units of 8 bytes:
//
//   heads   of templates whose first factor sees this word: the fingerprint so far, 0 if that
//           factor has no value
//   values  of atoms, for templates in which a later factor sees this word
//   rows    of local templates that are added at each token
//   sums    [groups, K rounded up to fours] floats, the rows of all other local templates, added up
//           for each offset at which templates see the word
struct Plan {
    struct Head {
        uint32_t place;  // of the atom in its column
        uint64_t start, then;
    };
    struct Local {
        uint32_t k;     // which template
        uint32_t unit;  // of its row, or of the sum that its row is added to
        bool is_summed;
    };
    struct Block {
        std::vector<Head> heads;
        std::vector<uint32_t> values;  // places of atoms
        std::vector<Local> locals;
        std::size_t units = 0;
    };
    // Where to look, seen from a token.
    struct Part {
        std::size_t column;
        int32_t offset;
        uint32_t unit;
        uint64_t then = kEmpty;  // what follows a value
    };
    struct Step {
        Part first;  // a row, or a head
        bool is_row;
        std::vector<Part> values;  // that follow the head
        int32_t numeric;
    };
    std::vector<Block> blocks;  // [columns]
    std::vector<Part> sums;     // each token begins as the sum of these
    std::vector<Step> steps;    // and these are added, in the order of templates

    Plan(const Program& program, int64_t K);
};

// The programme, the plan and the weights: all that scoring reads and never writes.
struct Scoring {
    const Program& program;
    const Plan& plan;
    const RowTable& table;
    const WeightRows& rows;
    // Of the templates that see one word, only the last that has a row counts: a table with
    // back-off, whose templates go from the general to the special. Otherwise their rows add up.
    bool takes_last = false;
};

// An empty memory of the words of column c; without `keeps` it stays empty.
std::unique_ptr<KnownWords> make_memory(const Scoring& scoring, std::size_t c, bool keeps);

// A batch whose words have been scored; its tokens can then be, in pieces and by many threads. One
// for nodes and one for edges at a time live in a thread, and not longer than what they are made
// from.
class ScoredWords {
  public:
    enum Role { kNodes, kEdges };
    ScoredWords(const Scoring& scoring, Batch& batch,
                std::span<const std::unique_ptr<KnownWords>> known, int64_t threads,
                Role role = kNodes);
    // Scores of the tokens first .. last - 1: out is [last - first, K].
    void score(int64_t first, int64_t last, float* out) const;

  private:
    // Makes the blocks of the words that have none.
    void score_fresh(Batch& batch, std::span<const std::unique_ptr<KnownWords>> known,
                     int64_t threads, Role role);

    const Scoring scoring_;
    const Batch& batch_;
    Scratch<uint64_t>::Taken rest_{};  // blocks of the words that are not remembered
    Scratch<const uint64_t*>::Taken pointed_{};
    // What the words know, by padded position: blocks_[column][position].
    std::vector<const uint64_t* const*> blocks_;
};

// out is [T, K]. Any number of threads gives the same result, and so does any memory [columns].
void score(const Scoring& scoring, Batch& batch, std::span<const std::unique_ptr<KnownWords>> known,
           int64_t threads, float* out);

// The same for attributes that come as ids, CSR with T rows; values is null if all are 1.
void score_encoded(const int64_t* indptr, const int32_t* ids, const float* values, int64_t T,
                   const WeightRows& rows, int64_t threads, float* out);

}  // namespace tagloom
