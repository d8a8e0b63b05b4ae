// Attributes of segments. A segment template is a conjunction of factors; each reads a template of
// a Program (extract.hpp) at the first, at the last or at every token of the segment, or is its
// length. Its value is a fold of the fingerprints that the program gives to single tokens, which
// are computed once per token.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/extract.hpp"
#include "core/index.hpp"

namespace tagloom {

enum class Anchor : int32_t { first, last, each, phrase, length };

struct SegmentFactor {
    Anchor anchor;
    uint32_t of = 0;  // template of the program; not used by `length`
};

// A template with a factor `each` has no other factor: it gives an attribute for each inner token.
struct SegmentTemplate {
    std::string name;  // with which the names of its attributes begin
    std::vector<SegmentFactor> factors;
};

// Segments of a batch, in ascending order of their first token.
struct SegmentList {
    const int64_t* begin;   // [n] first token, counted over all sentences
    const int32_t* length;  // [n]
    int64_t n;
    // Further attributes: the text given[k] for the segment number given_at[k], ascending.
    const int64_t* given_at;
    std::vector<std::string> given;
};

struct EncodedSegments {
    std::vector<int64_t> indptr;  // [n + 1]
    std::vector<int32_t> ids;
};

// std::invalid_argument if a template or a segment does not exist.
EncodedSegments encode_segments(const Program& program, const Batch& batch,
                                const std::vector<SegmentTemplate>& templates,
                                const SegmentList& segments, const Table& table, int64_t threads);
// New attributes are added to the index.
EncodedSegments encode_segments(const Program& program, const Batch& batch,
                                const std::vector<SegmentTemplate>& templates,
                                const SegmentList& segments, Index& grow);

}  // namespace tagloom
