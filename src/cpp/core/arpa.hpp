// ARPA files: n-gram models as text, read line by line and written level by level.
//
//   \data\                     Numbers are log10. A back-off weight of 0 may be omitted, and -99
//   ngram 1=2165               means log 0. Fields are separated by tabs or spaces. n-grams come in
//   ngram 2=5909               any order. SRILM omits some that are suffixes of others; these get
//                              their back-off probability.
//   \1-grams:
//   -1.80278	in	-0.2127
//   ...
//   \end\.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/index.hpp"
#include "core/ngram_builder.hpp"

namespace tagloom {

// A malformed line.
struct ArpaFault {
    int64_t line;
    std::string expected, found, hint;
};

class ArpaReader {
  public:
    ArpaReader();
    // Reads more of the file; throws ArpaFault.
    void read(std::string_view chunk);
    // Call at the end of the file; returns the model. Throws ArpaFault.
    NGramArrays finish(int64_t threads);
    // <unk>, <s>, </s>, then the words in the order of the file.
    Index take_vocabulary() { return std::move(vocabulary_); }
    bool has_unknown() const { return has_unknown_; }

  private:
    enum class Part { before, header, grams, after };

    void read_line(std::string_view line);
    void read_size(std::string_view line);
    void begin_section(std::string_view line);
    void read_entry(std::string_view line);
    void end_section();
    int32_t word_id(std::string_view text, int64_t n);
    double number(std::string_view text, const char* expected) const;
    [[noreturn]] void fail(std::string expected, std::string_view found,
                           std::string hint = "") const;

    Part part_ = Part::before;
    std::string rest_;  // the incomplete line at the end of a chunk
    int64_t line_ = 0;
    std::vector<int64_t> sizes_;  // [order] from the header
    std::vector<NGramSet> sets_;  // [n - 1]
    std::vector<std::string_view> fields_;
    Index vocabulary_;
    bool has_unknown_ = false, is_seen_[kSpecialWords] = {};
};

// The lines of all n-grams of one length, from node `begin` to `end`.
std::string format_ngrams(const NGramTable& table, const Index& vocabulary, int64_t begin,
                          int64_t end);

}  // namespace tagloom
