// Attributes that occur together, found once to make every evaluation of an objective cheaper.
//
// A *bundle*: attributes that occur with the same values at exactly the same tokens, such as all
// those that only one rare word has. Whatever the weights, the gradient is the same for all
// attributes of a bundle, so the kernels add up the weights of a bundle first, in *slots*, and
// treat it like one attribute. Optimisers that start at 0 go further: weights that start equal and
// have equal gradients stay equal, so one coordinate can stand for all of them.
//
// A *group*: an attribute and those that occur with it as a rule, such as the prefixes, suffixes
// and flags of a word. The rows of a group are added up once for all tokens that list it, and the
// gradient of the sum is added to each of its rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

namespace tagloom {

struct Attributes;
struct WeightPattern;

// The first attribute of each attribute's bundle [A]. Bundles are only looked for among attributes
// that are numbered one after another in the order in which they occur; those of value 0 do
// not. The weights of a bundle have the same columns, and the same ones are free.
std::vector<int32_t> find_bundles(const Attributes& x, int64_t T, const WeightPattern& rows,
                                  const uint8_t* is_free);

// The attributes of all tokens, with groups in place of their members: number n + g is group g,
// where n is the number of attributes.
struct Groups {
    std::vector<int64_t> indptr;       // [T + 1]; empty: no groups
    std::vector<int32_t> ids;          // [indptr[T]]
    std::vector<int64_t> members_ptr;  // [G + 1]
    std::vector<int32_t> members;

    int64_t size() const { return std::max<int64_t>(std::ssize(members_ptr) - 1, 0); }
};

// Groups of the first attributes of bundles, where these save additions; none if a value is neither
// 0 nor 1, or an attribute is repeated at a token.
Groups find_groups(const Attributes& x, int64_t T, const WeightPattern& rows,
                   const std::vector<int32_t>& leaders);

// How numbers x[k] of an optimiser become sums for the kernels, and gradients come back:
//
//   sums[slot[k]] += scale[k] * x[k]
//   d loss / d x[k] = scale[k] * d loss / d sums[slot[k]]
struct Coordinates {
    int64_t n = 0;
    int64_t n_slots = 0;
    std::vector<uint32_t> slot;        // [n]; empty: that of k is k
    std::vector<double> scale;         // [n]; empty: 1
    bool is_shared = false;            // whether several have the same slot
    const uint8_t* is_free = nullptr;  // [n] the gradient of others is 0; null: all are free

    bool is_plain() const { return slot.empty() && n == n_slots; }
};

}  // namespace tagloom
