// Finds sentences, tokens and labels in the bytes of a column file (CoNLL, CoNLL-U). It copies
// nothing: a sentence is a range of bytes, a field is a range within it. Python interprets the
// columns and reports faults to the user.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tagloom {

struct ColumnRules {
    char sep;             // separator of columns; ' ' means any run of blanks and tabs
    int n_columns;        // of every row
    int token;            // column of the token
    int label;            // column of the label, or -1
    int label_tail;       // column joined to the label (UPOS+FEATS), or -1
    int id;               // column of a CoNLL-U ID, or -1
    std::string comment;  // prefix of comment lines; empty without comments
    bool guess_comments;  // before the first row, "# ..." is a comment if it cannot be a row
};

struct Range {
    std::size_t begin, end;
};

// One sentence: comments, rows, and the blank line that ends it. Its rows are [first, last).
struct Block {
    Range bytes;
    std::size_t line;  // of its first byte, counted from 0
    std::size_t first, last;
};

struct Row {
    Range bytes;  // without the line end
    std::size_t line;
    Range token, label, label_tail;
};

enum class Fault { none, bytes, columns, comment, id, token, label };

struct Scan {
    std::vector<Block> blocks;
    std::vector<Row> rows;
    std::size_t consumed = 0;  // bytes that belong to complete blocks
    std::size_t lines = 0;     // lines among them
    Fault fault = Fault::none;
    Range where{0, 0};       // the faulty line
    std::size_t line = 0;    // its number, counted from 0
    std::size_t detail = 0;  // columns: number of columns found; bytes: offset of the bad byte
};

// Scans complete sentences; with `final` the last one need not be followed by a blank line. Stops
// at the first fault and returns the sentences before it. `allow_empty_label` is for files where an
// empty field means an unknown label.
Scan scan_columns(std::string_view text, const ColumnRules& rules, bool final,
                  bool allow_empty_label);

// The text with the `label` field of each row replaced by a value, or followed by it as a new
// field. All other bytes stay the same.
std::string put_fields(std::string_view text, const std::vector<Row>& rows, char sep, bool append,
                       std::span<const std::string_view> values);

// Whether a value is a valid field: not empty, without separator or line end.
bool is_field(std::string_view value, char sep);

// Splits one row into its fields; overwrites `fields`.
void split_row(std::string_view text, Range row, char sep, std::vector<Range>& fields);

// The offset of the first byte that is NUL or not part of well-formed UTF-8; text.size() if none.
std::size_t first_bad_byte(std::string_view text);

}  // namespace tagloom
