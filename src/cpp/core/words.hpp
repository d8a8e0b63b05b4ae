// Words, and atoms, the functions of one word. A word is UTF-8 text with a class byte for each code
// point. ASCII is classified here; for other text the caller supplies class bytes and lower case,
// so that Unicode properties always come from the running Python.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/hash.hpp"

namespace tagloom {

// Classes of a code point, after Python's str methods.
enum Class : uint8_t {
    kUpper = 1,         // isupper
    kLower = 2,         // islower
    kTitle = 4,         // istitle but not isupper: a title-case digraph
    kAlpha = 8,         // isalpha
    kDecimal = 16,      // isdecimal
    kDigit = 32,        // isdigit
    kNumeric = 64,      // isnumeric
    kPunctuation = 128  // unicodedata.category is P* or S*
};
extern const std::array<uint8_t, 128> kAsciiClasses;

struct Word {
    std::string_view text;                      // UTF-8
    uint64_t hash = 0;                          // hash_part(text)
    uint32_t points = 0;                        // code points
    bool outside = false;                       // padding: a position before or after the sentence
    std::string_view lowered;                   // str.lower(), if an atom of the column needs it
    const uint8_t* classes = nullptr;           // [points]; null if the word is ASCII
    const std::string_view* answers = nullptr;  // [python atoms of the column]; data null: no value
    const uint64_t* block = nullptr;  // its block in a word cache; then only text and hash are set
};

// Memory that lives as long as the words that point into it.
class Arena {
  public:
    template <class T>
    T* take(std::size_t n) {
        const std::size_t bytes = (n * sizeof(T) + 15) / 16 * 16;
        if (bytes > left_) {
            left_ = std::max<std::size_t>(bytes, 1 << 16);
            chunks_.push_back(std::make_unique_for_overwrite<char[]>(left_));
            next_ = chunks_.back().get();
        }
        T* taken = reinterpret_cast<T*>(next_);
        next_ += bytes;
        left_ -= bytes;
        return taken;
    }
    std::string_view copy(std::string_view s) {
        char* to = take<char>(s.size());
        if (!s.empty()) std::memcpy(to, s.data(), s.size());
        return {to, s.size()};
    }

  private:
    std::vector<std::unique_ptr<char[]>> chunks_;
    char* next_ = nullptr;
    std::size_t left_ = 0;
};

// Lower-cases ASCII; returns the text itself if it has no capitals.
std::string_view ascii_lower(std::string_view text, Arena& arena);

// The distinct words of one column of one call, numbered in order of occurrence.
class Words {
  public:
    // `expected`, the number of words to be looked up, only sets the size of the table.
    explicit Words(std::size_t expected);

    // The number of a word, -1 if it is new. hash is hash_part(text).
    int32_t find(std::string_view text, uint64_t hash) const {
        for (std::size_t slot = hash & mask_;; slot = (slot + 1) & mask_) {
            const Slot& one = slots_[slot];
            if (one.id < 0) return -1;
            if (one.hash == hash && one.size == static_cast<uint32_t>(text.size()) &&
                is_same(text, all[one.id].text, hash)) {
                return one.id;
            }
        }
    }
    void prefetch(uint64_t hash) const { __builtin_prefetch(&slots_[hash & mask_]); }
    int32_t add(const Word& word);
    int32_t add_apart(const Word& word)  // numbered, but find() does not return it
    {
        all.push_back(word);
        return static_cast<int32_t>(all.size()) - 1;
    }

    // A copy that can grow separately. It shares the texts, which must outlive it.
    Words fork() const;

    std::vector<Word> all;  // by number
    Arena arena;

  private:
    struct Slot {
        uint64_t hash = 0;
        int32_t id = -1;
        uint32_t size = 0;  // of the text, its lower bits
    };
    std::vector<Slot> slots_;
    std::size_t mask_, used_ = 0;
};

// A function of one word that yields at most one string. `kinds` in words.cpp documents each kind.
struct Atom {
    // The value points into the word, or into `scratch` if it is not part of the word.
    using Function = std::optional<std::string_view> (*)(const Atom&, const Word&,
                                                         std::string& scratch);
    enum class Argument { nothing, length, list, function };

    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view s) const { return hash64(s); }
    };

    int32_t column = 0;
    bool yields_outside = false;  // in the padding: yields the boundary string, else no value
    Function function = nullptr;
    uint32_t length = 0;  // of a prefix or suffix; the number of a python atom in its column
    std::vector<std::size_t> lengths;  // of the listed affixes in bytes, longest first
    std::unordered_set<std::string, Hash, std::equal_to<>> listed;

    std::optional<std::string_view> value(const Word& word, std::string& scratch) const {
        if (word.outside) {
            if (yields_outside && word.text.data()) return word.text;
            return std::nullopt;
        }
        return function(*this, word, scratch);
    }
    // The same as a hash: kNone, kEmpty, or the hash64 of the value.
    uint64_t hash(const Word& word, std::string& scratch) const {
        const auto text = value(word, scratch);
        return text ? hash_part(*text) : kNone;
    }
};

// A kind of atom; the flags are what it needs for words that are not ASCII.
struct Kind {
    std::string_view name;
    Atom::Argument argument;
    Atom::Function function;
    bool needs_lowered = false, needs_punctuation = false;
};
const Kind* find_kind(std::string_view name);  // null if unknown
std::string kind_names();                      // of all kinds, for a message

}  // namespace tagloom
