// Feature extraction: templates turn the words of sentences into attributes.
//
//   Program   atoms and templates, compiled from the template language
//   Batch     the sentences of one call; words are numbered per column, so that each distinct word
//             is read once, however often it occurs
//   encode    batch + index -> the attribute ids of every token (CSR)
//
// A template is a concatenation lit_0 v_1 lit_1 ... v_n lit_n of literals and the values v_i of its
// factors; a factor is an atom at an offset. The concatenation is the name of the attribute, whose
// value is 1 or that of the template's numeric column. Where a factor has no value, the template
// yields no attribute. Most templates are *local*: they read one word only, so their result is
// cached by word.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "core/words.hpp"

namespace tagloom {

constexpr int32_t kFarthest = 1000;  // largest offset or column; offsets determine the padding

struct Factor {
    uint32_t atom;
    int32_t offset;

    // Derived by Program.
    uint32_t column = 0, place = 0;  // column of the atom, and its place among that column's atoms
    uint64_t then = kEmpty;          // hash_part of the literal that follows
};

struct Template {
    std::vector<std::string> literals;  // [factors + 1]
    std::vector<Factor> factors;
    int32_t numeric = -1;  // column of its values; -1: the value is 1

    // Derived by Program.
    uint64_t start = 0;  // the fingerprint of lit_0
    bool local = true;
    int32_t column = 0, offset = 0;  // of a local template
    uint32_t slot = 0;               // its place among the local templates of its column
};

struct Program {
    std::vector<Atom> atoms;
    std::vector<Template> templates;
    std::vector<std::string> before, after;  // [distance - 1] boundary strings; the last repeats

    // Derived.
    std::size_t columns = 1, numeric = 0;      // columns that a batch must have
    int32_t pad = 0;                           // the largest absolute offset
    std::vector<std::vector<uint32_t>> of;     // [columns] atoms of each column
    std::vector<std::vector<uint32_t>> local;  // [columns] local templates of each column, by slot

    // Computes all derived fields. Throws std::invalid_argument for inconsistent parts.
    void prepare();
};

// One column of a batch. Each sentence is padded by `pad` positions on both sides.
struct Column {
    explicit Column(std::size_t tokens) : words(tokens) {}

    Words words;
    std::vector<int32_t> tokens;   // word numbers, by padded position
    std::vector<uint64_t> hashes;  // [atoms of the column, words] filled by featurise()

    // For a scorer, in place of `tokens` and `hashes`: what its word cache holds for the word at
    // each padded position. `words` has only those that are not in the cache.
    struct Missed {
        std::size_t position;
        int32_t word;
    };
    static constexpr std::size_t kSlack = 32;  // positions after the last one, for prefetches
    std::vector<const uint64_t*> blocks;       // [positions + kSlack]; null for missed words
    std::vector<Missed> missed;
    std::vector<int32_t> fresh;  // all of `words`
};

struct Batch {
    std::vector<int64_t> offsets;        // [N + 1] tokens of sentence n are offsets[n]:offsets[n+1]
    std::vector<Column> columns;         // each with the boundary words first: see add_boundaries
    std::vector<const double*> numeric;  // [T] each
};

// Adds the words of the padding: numbers 0 .. pad-1 lie before the sentence, nearest first, pad ..
// 2*pad-1 after it.
void add_boundaries(const Program& program, Column& column);

// Hashes the values of column c's atoms at n words: hashes [atoms of the column, n].
void featurise(const Program& program, std::size_t c, const Word* const* words, std::size_t n,
               uint64_t* hashes);
void featurise(const Program& program, Batch& batch);  // all words of all columns

// Folds a value and the literal that follows it into a fingerprint.
inline uint64_t fold_part(uint64_t h, uint64_t value, uint64_t then) {
    h = mix(h, value);
    return then == kEmpty ? h : mix(h, then);
}
// Folds the values of a template's factors into a fingerprint; kNone if one has no value.
// hash_of(factor) -> kNone, kEmpty or a hash.
template <class HashOf>
uint64_t fingerprint(const Template& one, const HashOf& hash_of) {
    uint64_t h = one.start, some = ~uint64_t{0};  // all ones until a factor has no value
    for (const Factor& factor : one.factors) {
        const uint64_t value = hash_of(factor);
        some &= -uint64_t{value != kNone};
        h = fold_part(h, value, factor.then);
    }
    return Table::key(h) & some;
}
// The same at a padded position.
inline uint64_t fingerprint_at(const Batch& batch, const Template& one, int64_t position) {
    return fingerprint(one, [&](const Factor& factor) {
        const Column& column = batch.columns[factor.column];
        const auto word = static_cast<std::size_t>(column.tokens[position + factor.offset]);
        return column.hashes[factor.place * column.words.all.size() + word];
    });
}

// The position of sentence n's first token in the padded `tokens` of a column.
inline int64_t padded(const Program& program, const Batch& batch, int64_t n) {
    return batch.offsets[n] + program.pad * (2 * n + 1);
}

// Appends the name of a template's attribute at a padded position.
void append_name(const Program& program, const Batch& batch, const Template& one, int64_t position,
                 std::string& out);

struct Encoded {
    std::unique_ptr<int64_t[]> indptr;  // [T + 1]
    std::unique_ptr<int32_t[]> ids;     // [indptr[T]]
    std::unique_ptr<float[]> values;    // [indptr[T]]; null if no template is numeric
};
// With `grow`, new attributes are added to the index, in the order of tokens and templates; without
// it, they are dropped. Needs featurise().
Encoded encode(const Program& program, const Batch& batch, const Table& table, int64_t threads);
Encoded encode(const Program& program, const Batch& batch, Index& grow, int64_t threads);

}  // namespace tagloom
