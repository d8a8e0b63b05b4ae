// Names of attributes that wait to be hashed. Eight names side by side are hashed in the time of
// two, so a reader collects names, of several tokens, before any is used.
//
//   names  [n]  the text of each, UTF-8
//   values [n]  and its value
//   ends        how many of the names belong to tokens up to each end of a token
//
// A name is either the text of a str, read in place, or joined from parts, which are copied into a
// buffer. It fills from its end towards its beginning, so that each part can be copied in blocks of
// 16 bytes: what a block writes before its part is overwritten by the next one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "core/dispatch.hpp"
#include "core/rows.hpp"

namespace tagloom {

// Part of a name.
struct Text {
    std::string_view text;
    bool has_head = false;  // the kBlock bytes before it can be read: they are in the same object

    static constexpr std::size_t kBlock = 16;
};

class NameBatch {
  public:
    static constexpr int64_t kMost = 64;

    NameBatch() { clear(); }

    bool is_empty() const { return n_ == 0 && n_ends_ == 0; }
    bool is_full() const { return n_ == kMost || n_ends_ == kMost; }
    bool has_room_for(std::size_t bytes) const {
        return bytes + Text::kBlock <= static_cast<std::size_t>(begin_ - memory_.data());
    }

    // The text must not move before clear(), and the kBeforeName bytes before it can be read.
    void add(std::string_view name, double value) {
        if (value != 1.0) {
            values_[n_] = value;
            all_one_ = false;
        }
        names_[n_++] = {name.data(), std::ssize(name)};
    }
    // The parts of the next name, the last first; add_joined() completes it.
    void prepend(const Text& part) {
        char* const end = begin_;
        begin_ -= part.text.size();
        if (part.has_head) {
            const char* from = part.text.data() + part.text.size();
            for (char* to = end; to > begin_;) {
                to -= Text::kBlock;
                from -= Text::kBlock;
                std::memcpy(to, from, Text::kBlock);
            }
        } else {
            std::memcpy(begin_, part.text.data(), part.text.size());
        }
    }
    void prepend(char one) { *--begin_ = one; }
    void add_joined(double value) {
        add({begin_, static_cast<std::size_t>(end_ - begin_)}, value);
        end_ = begin_;
    }

    void end_token() { ends_[n_ends_++] = n_; }
    void clear() {
        n_ = n_ends_ = 0;
        if (!all_one_) values_.fill(1.0);
        all_one_ = true;
        begin_ = end_ = memory_.data() + kBytes;
    }

    int64_t size() const { return n_; }
    std::string_view name(int64_t i) const {
        return {names_[i].text, static_cast<std::size_t>(names_[i].size)};
    }
    bool all_one() const { return all_one_; }  // the values
    std::span<const double> values() const { return {values_.data(), static_cast<size_t>(n_)}; }
    std::span<const int64_t> ends() const { return {ends_.data(), static_cast<size_t>(n_ends_)}; }

    // The fingerprint of each name; out has room for kMost.
    void hash(uint64_t* out) {
        static constexpr char kNothing[kBeforeName] = {};
        for (int64_t i = n_; i % kNamesAtOnce != 0; i++) names_[i] = {kNothing + kBeforeName, 0};
        kernels().rows().hash_names({names_.data(), n_, out});
    }
    static_assert(kMost % kNamesAtOnce == 0 && kBeforeName <= Text::kBlock);

  private:
    static constexpr std::size_t kBytes = 8192;

    int64_t n_ = 0, n_ends_ = 0;
    std::array<Name, kMost> names_;
    std::array<double, kMost> values_;  // 1 from n_ on
    bool all_one_ = false;
    std::array<int64_t, kMost> ends_;
    std::array<char, kBytes> memory_;
    char *begin_, *end_;  // of the name that is being joined
};

}  // namespace tagloom
