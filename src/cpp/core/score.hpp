// From sentences to scores: out[t, k] = sum over the attributes a of token t of value * weight(a,
// k). The rows of weights are sparse or dense, in one layout:
//
//   row_ptr [A + 1]   the weights of attribute a are row_ptr[a] : row_ptr[a + 1]
//   cols    [W]       which output each weight is for, below K; 16 or 32 bits
//   weights [W]       a row of K weights is dense: its cols are 0 .. K-1 in order
//
// K is Y for scores of labels (emit), Y * Y for scores of moves (edge, y_prev * Y + y).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/extract.hpp"
#include "core/index.hpp"

namespace tagloom {

template <class Col>
struct Rows {
    const int64_t* row_ptr = nullptr;
    const Col* cols = nullptr;
    const float* weights = nullptr;
    int64_t A = 0, W = 0, K = 0;

    // Why these arrays cannot be rows, empty if they can: nothing is read out of bounds after it.
    std::string fault() const;
};

// What of a program can be summed by word, and what must be looked up at each token. The order in
// which a token's weights are added follows from this alone, so neither threads nor the rest of a
// batch change any bit of its scores.
struct Plan {
    struct Group {  // local templates at one offset of one column
        std::size_t column;
        int32_t offset;
        std::vector<uint32_t> slots;
        std::size_t place;  // which group of its column
    };
    std::vector<Group> groups;          // summed by word
    std::vector<std::size_t> n_groups;  // [columns]
    std::vector<uint32_t> each;         // templates whose rows are added at each token

    Plan(const Program& program, int64_t K);
};

// out is [T, K]. Any number of threads gives the same result.
template <class Col>
void score(const Program& program, const Plan& plan, Batch& batch, const Table& table,
           const Rows<Col>& rows, int64_t threads, float* out);

// The same for attributes that come as ids, CSR with T rows; values is null if all are 1.
template <class Col>
void score_encoded(const int64_t* indptr, const int32_t* ids, const float* values, int64_t T,
                   const Rows<Col>& rows, int64_t threads, float* out);

}  // namespace tagloom
