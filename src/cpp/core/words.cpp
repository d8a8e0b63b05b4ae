#include "core/words.hpp"

#include <algorithm>

namespace tagloom {

const std::array<uint8_t, 128> kAsciiClasses = [] {
    std::array<uint8_t, 128> classes{};
    for (int c = '!'; c <= '~'; c++) {
        if (c >= '0' && c <= '9') {
            classes[c] = kDecimal | kDigit | kNumeric;
        } else if (c >= 'A' && c <= 'Z') {
            classes[c] = kUpper | kAlpha;
        } else if (c >= 'a' && c <= 'z') {
            classes[c] = kLower | kAlpha;
        } else {
            classes[c] = kPunctuation;
        }
    }
    return classes;
}();

std::string_view ascii_lower(std::string_view text, Arena& arena) {
    const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
    if (std::none_of(text.begin(), text.end(), is_upper)) return text;
    char* to = arena.take<char>(text.size());
    std::transform(text.begin(), text.end(), to,
                   [&](char c) { return is_upper(c) ? static_cast<char>(c + ('a' - 'A')) : c; });
    return {to, text.size()};
}

Words::Words(std::size_t expected) {
    std::size_t capacity = 32;
    while (capacity < expected && capacity < 4096) capacity *= 2;
    slots_.resize(capacity);
    mask_ = capacity - 1;
    all.reserve(capacity / 2);
}

Words Words::fork() const {
    Words copy(0);
    copy.all = all;
    copy.slots_ = slots_;
    copy.mask_ = mask_;
    copy.used_ = used_;
    return copy;
}

int32_t Words::add(const Word& word) {
    if (++used_ > slots_.size() / 2) {
        std::vector<Slot> old(slots_.size() * 2);
        old.swap(slots_);
        mask_ = slots_.size() - 1;
        for (const Slot& one : old) {
            if (one.id < 0) continue;
            std::size_t slot = one.hash & mask_;
            while (slots_[slot].id >= 0) slot = (slot + 1) & mask_;
            slots_[slot] = one;
        }
    }
    std::size_t slot = word.hash & mask_;
    while (slots_[slot].id >= 0) slot = (slot + 1) & mask_;
    slots_[slot] = {word.hash, add_apart(word), static_cast<uint32_t>(word.text.size())};
    return slots_[slot].id;
}

namespace {

using Value = std::optional<std::string_view>;

uint8_t class_at(const Word& word, std::size_t i) {
    return word.classes ? word.classes[i] : kAsciiClasses[static_cast<uint8_t>(word.text[i])];
}

Value flag(bool holds) {
    if (holds) return std::string_view("");
    return std::nullopt;
}

bool is_continuation(char c) { return (c & 0xc0) == 0x80; }

// Bytes of the first n code points; the text must have as many.
std::size_t bytes_of_prefix(std::string_view text, std::size_t n) {
    std::size_t i = 0;
    for (; n > 0; n--) {
        for (i++; i < text.size() && is_continuation(text[i]); i++) {
        }
    }
    return i;
}

// The first or last n code points of a text with `points` of them; no value if it has fewer.
template <bool kAtEnd>
Value affix(std::string_view text, std::size_t points, std::size_t n) {
    if (points < n) return std::nullopt;
    const bool is_ascii = points == text.size();
    const std::size_t cut = kAtEnd ? points - n : n;
    const std::size_t bytes = is_ascii ? cut : bytes_of_prefix(text, cut);
    return kAtEnd ? text.substr(bytes) : text.substr(0, bytes);
}

Value text(const Atom&, const Word& word, std::string&) { return word.text; }

Value lower(const Atom&, const Word& word, std::string&) { return word.lowered; }

template <bool kAtEnd>
Value affix_of_word(const Atom& atom, const Word& word, std::string&) {
    return affix<kAtEnd>(word.text, word.points, atom.length);
}

// Lower-casing may change the number of code points.
template <bool kAtEnd>
Value affix_of_lower(const Atom& atom, const Word& word, std::string&) {
    if (!word.classes) return affix<kAtEnd>(word.lowered, word.points, atom.length);
    const auto points = std::count_if(word.lowered.begin(), word.lowered.end(),
                                      [](char c) { return !is_continuation(c); });
    return affix<kAtEnd>(word.lowered, static_cast<std::size_t>(points), atom.length);
}

// The longest listed affix. Matching bytes is enough: in UTF-8, valid text that is an affix in
// bytes is one in code points.
template <bool kAtEnd>
Value listed(const Atom& atom, const Word& word, std::string&) {
    for (const std::size_t n : atom.lengths) {
        if (n > word.text.size()) continue;
        const auto affix = word.text.substr(kAtEnd ? word.text.size() - n : 0, n);
        if (atom.listed.find(affix) != atom.listed.end()) return affix;
    }
    return std::nullopt;
}

// X for an upper-case or title-case character, x for any other letter, d for a digit; all else is
// kept. kShort collapses runs of the same character.
template <bool kShort>
Value shape(const Atom&, const Word& word, std::string& scratch) {
    scratch.clear();
    if (!word.classes) {  // the same for ASCII, four times as fast
        for (const char c : word.text) {
            const uint8_t is = kAsciiClasses[static_cast<uint8_t>(c)];
            const char one = is & kUpper ? 'X' : is & kLower ? 'x' : is & kDigit ? 'd' : c;
            if (!kShort || scratch.empty() || scratch.back() != one) scratch.push_back(one);
        }
        return scratch;
    }
    std::size_t last = 0;  // where the last character of the shape begins
    for (std::size_t i = 0, byte = 0; i < word.points; i++) {
        const uint8_t c = class_at(word, i);
        const std::size_t begin = byte;
        for (byte++; byte < word.text.size() && is_continuation(word.text[byte]); byte++) {
        }
        std::string_view one = word.text.substr(begin, byte - begin);
        if (c & (kUpper | kTitle)) {
            one = "X";
        } else if (c & (kLower | kAlpha)) {
            one = "x";
        } else if (c & kDigit) {
            one = "d";
        }
        if (kShort && i > 0 && std::string_view(scratch).substr(last) == one) continue;
        last = scratch.size();
        scratch.append(one);
    }
    return scratch;
}

// True if some code point is of one of the classes.
template <uint8_t kClasses>
Value any_of(const Atom&, const Word& word, std::string&) {
    for (std::size_t i = 0; i < word.points; i++) {
        if (class_at(word, i) & kClasses) return flag(true);
    }
    return std::nullopt;
}

// True if there is a code point and each is of one of the classes.
constexpr uint8_t kAlnum = kAlpha | kDecimal | kDigit | kNumeric;
template <uint8_t kClasses>
Value all_of(const Atom&, const Word& word, std::string&) {
    for (std::size_t i = 0; i < word.points; i++) {
        if (!(class_at(word, i) & kClasses)) return std::nullopt;
    }
    return flag(word.points > 0);
}

// str.isupper, str.islower: at least one cased code point, and none of another case.
template <uint8_t kWanted, uint8_t kOthers>
Value all_cased(const Atom&, const Word& word, std::string&) {
    uint8_t seen = 0;
    for (std::size_t i = 0; i < word.points; i++) seen |= class_at(word, i);
    return flag((seen & kWanted) && !(seen & kOthers));
}

// str.istitle: capitals follow uncased characters only, lower-case letters cased ones only.
Value title(const Atom&, const Word& word, std::string&) {
    bool cased = false, after_cased = false;
    for (std::size_t i = 0; i < word.points; i++) {
        const uint8_t c = class_at(word, i);
        if (c & (kUpper | kTitle) ? after_cased : (c & kLower) && !after_cased) return std::nullopt;
        after_cased = c & (kUpper | kTitle | kLower);
        cased |= after_cased;
    }
    return flag(cased);
}

// Contains -, U+2010 (hyphen) or U+2011 (non-breaking hyphen). Dashes do not count.
Value hyphen(const Atom&, const Word& word, std::string&) {
    const auto has = [&](std::string_view s) { return word.text.find(s) != word.text.npos; };
    return flag(has("-") || (word.classes && (has("\u2010") || has("\u2011"))));
}

// A year from 1000 to 2999; day, month and year (of one, two or four digits) in any order between
// two equal separators of - / . ; or a day and month each with its point, 12.03. ASCII digits.
Value date(const Atom&, const Word& word, std::string&) {
    const std::string_view s = word.text;
    if (s.size() < 4 || s.size() > 10) return std::nullopt;
    std::array<std::size_t, 3> lengths{};  // of groups of digits
    std::size_t groups = 0;
    char separator = 0;
    for (const char c : s) {
        if (c >= '0' && c <= '9') {
            lengths[groups]++;
        } else if ((c == '-' || c == '/' || c == '.') && (separator == 0 || separator == c)) {
            separator = c;
            if (++groups == 3) return std::nullopt;
        } else {
            return std::nullopt;
        }
    }
    const auto [a, b, c] = lengths;
    const auto day = [](std::size_t n) { return n == 1 || n == 2; };
    if (groups == 0) return flag(a == 4 && (s[0] == '1' || s[0] == '2'));
    if (groups == 1 || !day(b)) return std::nullopt;
    if (c == 0) return flag(day(a) && separator == '.');
    return flag((day(a) || a == 4) && (day(c) || c == 4));
}

Value length(const Atom&, const Word& word, std::string& scratch) {
    scratch = std::to_string(word.points);
    return scratch;
}

Value ascii(const Atom&, const Word& word, std::string&) { return flag(!word.classes); }

Value python(const Atom& atom, const Word& word, std::string&) {
    const std::string_view answer = word.answers[atom.length];
    if (!answer.data()) return std::nullopt;
    return answer;
}

using Takes = Atom::Argument;
// All kinds of atoms, in brief; see the functions above for details.
const Kind kinds[] = {
    {"value", Takes::nothing, text},                  // the word itself
    {"lower", Takes::nothing, lower, true},           // str.lower()
    {"prefix", Takes::length, affix_of_word<false>},  // the first n code points of n or more
    {"suffix", Takes::length, affix_of_word<true>},   // the last n code points of n or more
    {"lower_prefix", Takes::length, affix_of_lower<false>, true},  // the same of str.lower()
    {"lower_suffix", Takes::length, affix_of_lower<true>, true},
    {"listed_prefix", Takes::list, listed<false>},  // the longest listed prefix, if there is one
    {"listed_suffix", Takes::list, listed<true>},   // the longest listed suffix
    {"shape", Takes::nothing, shape<false>},        // Xxxx-dd
    {"short_shape", Takes::nothing, shape<true>},   // Xx-d
    {"length", Takes::nothing, length},             // number of code points
    // Flags: the empty string where it holds, else no value.
    {"digit", Takes::nothing, any_of<kDigit>},      // has a digit: any(map(str.isdigit, word))
    {"digits", Takes::nothing, all_of<kDigit>},     // str.isdigit()
    {"decimal", Takes::nothing, all_of<kDecimal>},  // str.isdecimal()
    {"numeric", Takes::nothing, all_of<kNumeric>},  // str.isnumeric()
    {"alpha", Takes::nothing, all_of<kAlpha>},      // str.isalpha()
    {"alnum", Takes::nothing, all_of<kAlnum>},      // str.isalnum()
    {"ascii", Takes::nothing, ascii},               // str.isascii()
    {"upper", Takes::nothing, all_cased<kUpper, kLower | kTitle>},       // str.isupper()
    {"lowercase", Takes::nothing, all_cased<kLower, kUpper | kTitle>},   // str.islower()
    {"title", Takes::nothing, title},                                    // str.istitle()
    {"punctuation", Takes::nothing, all_of<kPunctuation>, false, true},  // all of category P* or S*
    {"hyphen", Takes::nothing, hyphen},
    {"date", Takes::nothing, date},
    {"python", Takes::function, python},  // a function str -> str | None
};

}  // namespace

const Kind* find_kind(std::string_view name) {
    for (const Kind& kind : kinds) {
        if (kind.name == name) return &kind;
    }
    return nullptr;
}

std::string kind_names() {
    std::string names;
    for (const Kind& kind : kinds) names.append(names.empty() ? "" : ", ").append(kind.name);
    return names;
}

}  // namespace tagloom
