#include "core/arpa.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numbers>

namespace tagloom {
namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();
constexpr std::size_t kLongestLine = 1 << 20;
constexpr std::string_view kSpecial[kSpecialWords] = {"<unk>", "<s>", "</s>"};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

std::string_view strip(std::string_view s) {
    while (!s.empty() && is_blank(s.front())) s.remove_prefix(1);
    while (!s.empty() && is_blank(s.back())) s.remove_suffix(1);
    return s;
}

// Parses a decimal number; false if it is not one. Exact for the digits of ARPA files: an integer
// of up to 15 digits times a power of ten rounds once.
bool parse_number(std::string_view s, double& value) {
    const bool is_negative = !s.empty() && s[0] == '-';
    if (!s.empty() && (s[0] == '-' || s[0] == '+')) s.remove_prefix(1);
    if (s == "inf" || s == "Inf" || s == "infinity") {
        value = is_negative ? kMinusInf : -kMinusInf;
        return true;
    }
    double digits = 0;
    int exponent = 0;
    std::size_t i = 0, n_digits = 0;
    bool is_fraction = false;
    for (; i < s.size(); i++) {
        if (s[i] == '.' && !is_fraction) {
            is_fraction = true;
            continue;
        }
        if (s[i] < '0' || s[i] > '9') break;
        n_digits++;
        if (digits < 1e15) {
            digits = digits * 10 + (s[i] - '0');
            exponent -= is_fraction;
        } else {
            exponent += !is_fraction;
        }
    }
    if (n_digits == 0) return false;
    if (i < s.size()) {
        if (s[i] != 'e' && s[i] != 'E') return false;
        int sign = 1, e = 0;
        if (++i < s.size() && (s[i] == '-' || s[i] == '+')) sign = s[i++] == '-' ? -1 : 1;
        if (i == s.size()) return false;
        for (; i < s.size(); i++) {
            if (s[i] < '0' || s[i] > '9') return false;
            e = std::min(e * 10 + (s[i] - '0'), 9999);
        }
        exponent += sign * e;
    }
    const double power = std::pow(10.0, std::abs(exponent));
    if (digits == 0) exponent = -1;  // 0e999 is 0, not 0 times infinity
    value = exponent < 0 ? digits / power : digits * power;
    if (is_negative) value = -value;
    return true;
}

// Nine decimals without trailing zeros; independent of the locale, and ten times as fast as printf.
void append_number(double x, std::string& out) {
    if (x == kMinusInf) {
        out += "-99";
        return;
    }
    if (x < 0) out += '-';
    auto scaled = static_cast<uint64_t>(std::llround(std::min(std::abs(x), 1e9) * 1e9));
    if (scaled == 0 && x < 0) out.pop_back();
    char digits[24];
    int n = 0;
    for (; scaled > 0 || n < 10; scaled /= 10) digits[n++] = static_cast<char>('0' + scaled % 10);
    int last = 0;
    while (last < 9 && digits[last] == '0') last++;
    while (n > 9) out += digits[--n];
    if (last < 9) out += '.';
    while (n > last) out += digits[--n];
}

bool is_utf8(std::string_view s) {
    for (std::size_t i = 0; i < s.size();) {
        const auto byte = [&](std::size_t k) {
            return i + k < s.size() ? static_cast<uint8_t>(s[i + k]) : uint8_t{0};
        };
        const uint8_t b = byte(0);
        const std::size_t n = b < 0x80                ? 1
                              : b >= 0xc2 && b < 0xe0 ? 2
                              : b >= 0xe0 && b < 0xf0 ? 3
                              : b >= 0xf0 && b < 0xf5 ? 4
                                                      : 0;
        if (n == 0) return false;
        for (std::size_t k = 1; k < n; k++)
            if ((byte(k) & 0xc0) != 0x80) return false;
        // Overlong forms, surrogates, and values beyond the last code point.
        if ((b == 0xe0 && byte(1) < 0xa0) || (b == 0xed && byte(1) > 0x9f) ||
            (b == 0xf0 && byte(1) < 0x90) || (b == 0xf4 && byte(1) > 0x8f))
            return false;
        i += n;
    }
    return true;
}

}  // namespace

ArpaReader::ArpaReader() {
    for (const std::string_view word : kSpecial)
        vocabulary_.add(hash64(word), [&](std::string& out) { out += word; });
}

void ArpaReader::fail(std::string expected, std::string_view found, std::string hint) const {
    std::string shown(found.substr(0, 60));
    if (!is_utf8(shown)) shown = "bytes that are not UTF-8";
    throw ArpaFault{line_, std::move(expected), std::move(shown), std::move(hint)};
}

void ArpaReader::read(std::string_view chunk) {
    while (!chunk.empty()) {
        const std::size_t end = chunk.find('\n');
        if (end == chunk.npos) {
            rest_ += chunk;
            if (part_ != Part::before && rest_.size() > kLongestLine) {
                line_++;
                fail("a line of at most 1 MB", rest_);
            }
            if (rest_.size() > kLongestLine) rest_.clear();
            return;
        }
        if (rest_.empty()) {
            read_line(chunk.substr(0, end));
        } else {
            rest_ += chunk.substr(0, end);
            const std::string line = std::move(rest_);
            rest_.clear();
            read_line(line);
        }
        chunk.remove_prefix(end + 1);
    }
}

void ArpaReader::read_line(std::string_view line) {
    line_++;
    line = strip(line);
    if (line.empty() || part_ == Part::after) return;
    if (part_ == Part::before) {  // anything may precede the model
        if (line == "\\data\\") part_ = Part::header;
        return;
    }
    if (line[0] == '\\' && (line.ends_with("-grams:") || line == "\\end\\")) {
        begin_section(line);
    } else if (part_ == Part::header) {
        read_size(line);
    } else {
        read_entry(line);
    }
}

// ngram 2=5909
void ArpaReader::read_size(std::string_view line) {
    const std::string expected = "\"ngram " + std::to_string(sizes_.size() + 1) + "=\" and a count";
    double n = 0, size = 0;
    const std::size_t equals = line.find('=');
    if (!line.starts_with("ngram") || equals == line.npos ||
        !parse_number(strip(line.substr(5, equals - 5)), n) ||
        !parse_number(strip(line.substr(equals + 1)), size) ||
        n != static_cast<double>(sizes_.size() + 1) || !(size >= 0 && size < 1e15) ||
        size != std::floor(size))
        fail(expected, line);
    if (sizes_.size() == kMaxOrder) fail("an order of at most " + std::to_string(kMaxOrder), line);
    sizes_.push_back(static_cast<int64_t>(size));
}

void ArpaReader::begin_section(std::string_view line) {
    if (sizes_.empty()) fail("\"ngram 1=\" and a count", line);
    if (part_ == Part::grams) end_section();
    const std::size_t n = sets_.size() + 1;
    const bool is_end = n > sizes_.size();
    const std::string expected = is_end ? "\\end\\" : "\\" + std::to_string(n) + "-grams:";
    if (line != expected) fail(expected, line);
    part_ = is_end ? Part::after : Part::grams;
    if (is_end) return;
    sets_.emplace_back(static_cast<int64_t>(n));
    if (n == 1)
        for (int32_t w = 0; w < kSpecialWords; w++) sets_[0].add(&w, kMinusInf, 0);
}

void ArpaReader::end_section() {
    const NGramSet& set = sets_.back();
    int64_t n_read = set.size();
    if (set.n() == 1)
        for (const bool is_seen : is_seen_) n_read -= !is_seen;
    const int64_t size = sizes_[set.n() - 1];
    if (n_read != size)
        fail(std::to_string(size) + " " + std::to_string(set.n()) + "-grams, as in the header",
             std::to_string(n_read), "The file is cut short or its header is wrong.");
}

double ArpaReader::number(std::string_view text, const char* expected) const {
    double value = 0;
    if (!parse_number(text, value) || value > 1e6) fail(expected, text);
    return value <= -99 ? kMinusInf : value * std::numbers::ln10;
}

int32_t ArpaReader::word_id(std::string_view text, int64_t n) {
    if (text == "<UNK>") text = kSpecial[kUnknown];
    const uint64_t hash = hash64(text);
    const int32_t id = vocabulary_.table().find(hash);
    if (n > 1) {
        if (id < 0 || (id < kSpecialWords && !is_seen_[id]))
            fail("a word that is among the 1-grams", text);
        return id;
    }
    if (id >= 0 && id < kSpecialWords) {
        if (is_seen_[id]) fail("each 1-gram once", text);
        is_seen_[id] = true;
        has_unknown_ |= id == kUnknown;
        return id;
    }
    if (!is_utf8(text)) fail("UTF-8", text, "Convert the file to UTF-8.");
    return vocabulary_.add(hash, [&](std::string& out) { out += text; });
}

// log10 p, the n words, and the back-off weight if there is one
void ArpaReader::read_entry(std::string_view line) {
    NGramSet& set = sets_.back();
    const auto n = static_cast<std::size_t>(set.n());
    fields_.clear();
    for (std::size_t i = 0; i < line.size();) {
        while (i < line.size() && is_blank(line[i])) i++;
        const std::size_t begin = i;
        while (i < line.size() && !is_blank(line[i])) i++;
        fields_.push_back(line.substr(begin, i - begin));
    }
    const std::string what = n == 1 ? "1 word" : std::to_string(n) + " words";
    if (fields_.size() != n + 1 && fields_.size() != n + 2)
        fail("a log-probability, " + what + " and perhaps a back-off weight", line);
    double p = number(fields_[0], "a log10 probability");
    int32_t words[kMaxOrder];
    for (std::size_t k = 0; k < n; k++) words[k] = word_id(fields_[k + 1], set.n());
    if (words[n - 1] == kStart) p = kMinusInf;  // never predicted, whatever the file says
    if (p > 0) fail("a log10 probability of at most 0", fields_[0]);
    double bow = 0;
    if (fields_.size() == n + 2) bow = number(fields_[n + 1], "a log10 back-off weight");
    if (bow > 700) fail("a log10 back-off weight", fields_[n + 1]);
    if (n == 1 && words[0] < kSpecialWords) {
        set.log_prob[words[0]] = p;
        set.backoff[words[0]] = bow;
    } else if (!set.add(words, p, bow)) {
        fail("each " + std::to_string(n) + "-gram once", line);
    }
}

NGramArrays ArpaReader::finish(int64_t threads) {
    if (!rest_.empty()) {
        const std::string line = std::move(rest_);
        rest_.clear();
        read_line(line);
    }
    line_++;
    if (part_ == Part::before) {
        line_ = 1;
        fail("an ARPA file with a line \\data\\", "none");
    }
    if (part_ != Part::after)
        fail("\\end\\", "the end of the file", "The file is cut short; copy it again.");
    return build_ngrams(std::move(sets_), threads);
}

std::string format_ngrams(const NGramTable& table, const Index& vocabulary, int64_t begin,
                          int64_t end) {
    std::string out;
    if (begin >= end) return out;
    const int64_t n = table.length(static_cast<int32_t>(begin));
    // node[k] is the prefix of length k of the current n-gram.
    int64_t node[kMaxOrder + 1];
    node[n] = begin;
    for (int64_t k = n - 1; k > 0; k--) {
        const auto up = std::upper_bound(table.first.begin() + table.level[k],
                                         table.first.begin() + table.level[k + 1],
                                         static_cast<int32_t>(node[k + 1]));
        node[k] = up - table.first.begin() - 1;
    }
    for (; node[n] < end; node[n]++) {
        for (int64_t k = n - 1; k > 0; k--)
            while (table.first[node[k] + 1] <= node[k + 1]) node[k]++;
        const int32_t last = table.word[node[n]];
        if (n == 1 && last == kUnknown && table.log_prob[node[n]] == kMinusInf) continue;
        // As lmplz writes it: the start of a sentence is never predicted.
        append_number(last == kStart ? 0 : table.log_prob[node[n]] * std::numbers::log10e, out);
        for (int64_t k = 1; k <= n; k++) {
            out += k == 1 ? '\t' : ' ';
            out += vocabulary.name(table.word[node[k]]);
        }
        if (n < table.order) {
            out += '\t';
            append_number(table.backoff[node[n]] * std::numbers::log10e, out);
        }
        out += '\n';
    }
    return out;
}

}  // namespace tagloom
