#include "core/columns.hpp"

#include <cstdint>
#include <cstring>

namespace tagloom {
namespace {

// Length of the well-formed UTF-8 sequence at the start of `s`, or 0 (Unicode 15, table 3-7).
std::size_t utf8_length(std::string_view s) {
    const auto byte = [&](std::size_t i) -> unsigned {
        return i < s.size() ? static_cast<unsigned char>(s[i]) : 0u;
    };
    const auto within = [](unsigned b, unsigned low, unsigned high) {
        return b >= low && b <= high;
    };
    const unsigned b = byte(0);
    if (within(b, 0x01, 0x7F)) return 1;
    if (within(b, 0xC2, 0xDF)) return within(byte(1), 0x80, 0xBF) ? 2 : 0;
    if (within(b, 0xE0, 0xEF)) {
        const unsigned low = b == 0xE0 ? 0xA0 : 0x80, high = b == 0xED ? 0x9F : 0xBF;
        return within(byte(1), low, high) && within(byte(2), 0x80, 0xBF) ? 3 : 0;
    }
    if (within(b, 0xF0, 0xF4)) {
        const unsigned low = b == 0xF0 ? 0x90 : 0x80, high = b == 0xF4 ? 0x8F : 0xBF;
        return within(byte(1), low, high) && within(byte(2), 0x80, 0xBF) &&
                       within(byte(3), 0x80, 0xBF)
                   ? 4
                   : 0;
    }
    return 0;
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }

// Splits one line. Calls use(column, range) for each field; returns their number.
template <class Use>
int split(std::string_view text, Range line, char sep, Use use) {
    int n = 0;
    std::size_t i = line.begin;
    if (sep == ' ') {
        for (;;) {
            while (i < line.end && is_blank(text[i])) ++i;
            if (i == line.end) return n;
            const std::size_t begin = i;
            while (i < line.end && !is_blank(text[i])) ++i;
            use(n++, Range{begin, i});
        }
    }
    for (;;) {
        const void* hit = std::memchr(text.data() + i, sep, line.end - i);
        const std::size_t end =
            hit ? static_cast<std::size_t>(static_cast<const char*>(hit) - text.data()) : line.end;
        use(n++, Range{i, end});
        if (!hit) return n;
        i = end + 1;
    }
}

// A CoNLL-U ID: 3 is a word; 3-4 (a multiword token) and 3.1 (an empty node) are not.
enum class Id { word, other, wrong };

Id kind_of_id(std::string_view id) {
    std::size_t i = 0;
    const auto digits = [&] {
        const std::size_t begin = i;
        while (i < id.size() && id[i] >= '0' && id[i] <= '9') ++i;
        return i > begin;
    };
    if (!digits()) return Id::wrong;
    if (i == id.size()) return Id::word;
    if (id[i] != '-' && id[i] != '.') return Id::wrong;
    ++i;
    return digits() && i == id.size() ? Id::other : Id::wrong;
}

}  // namespace

void split_row(std::string_view text, Range row, char sep, std::vector<Range>& fields) {
    fields.clear();
    split(text, row, sep, [&](int, Range field) { fields.push_back(field); });
}

std::string put_fields(std::string_view text, const std::vector<Row>& rows, char sep, bool append,
                       std::span<const std::string_view> values) {
    std::string out;
    std::size_t size = text.size();
    for (const std::string_view value : values) size += value.size() + 1;
    out.reserve(size);
    std::size_t done = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
        const auto [begin, end] = rows[r].label;
        out.append(text.substr(done, (append ? end : begin) - done));
        if (append) {
            // With sep ' ' a row may also use tabs: repeat the separator before its last field.
            const bool is_tab =
                sep == ' ' && begin > rows[r].bytes.begin && text[begin - 1] == '\t';
            out.push_back(is_tab ? '\t' : sep);
        }
        out.append(values[r]);
        done = end;
    }
    out.append(text.substr(done));
    return out;
}

bool is_field(std::string_view value, char sep) {
    for (const char c : value)
        if (c == sep || c == '\n' || c == '\r' || (sep == ' ' && c == '\t')) return false;
    return !value.empty();
}

std::size_t first_bad_byte(std::string_view text) {
    std::size_t i = 0;
    while (i < text.size()) {
        // Eight bytes at a time while all are ASCII and none is NUL.
        std::uint64_t word;
        if (i + sizeof word <= text.size()) {
            std::memcpy(&word, text.data() + i, sizeof word);
            const std::uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
            if (!((word | ((word - ones) & ~word)) & tops)) {
                i += sizeof word;
                continue;
            }
        }
        const std::size_t length = utf8_length(text.substr(i, 4));
        if (length == 0) return i;
        i += length;
    }
    return i;
}

Scan scan_columns(std::string_view text, const ColumnRules& rules, bool final,
                  bool allow_empty_label) {
    Scan scan;
    scan.rows.reserve(text.size() / 16 + 1);
    std::size_t block_begin = 0, block_line = 0, block_first = 0;
    std::size_t line = 0;

    const auto close_block = [&](std::size_t end, std::size_t next_line) {
        scan.blocks.push_back({{block_begin, end}, block_line, block_first, scan.rows.size()});
        scan.consumed = block_begin = end;
        scan.lines = block_line = next_line;
        block_first = scan.rows.size();
    };

    for (std::size_t begin = 0, next; begin < text.size(); begin = next, ++line) {
        const void* newline = std::memchr(text.data() + begin, '\n', text.size() - begin);
        if (!newline && !final) break;
        std::size_t end =
            newline ? static_cast<std::size_t>(static_cast<const char*>(newline) - text.data())
                    : text.size();
        next = newline ? end + 1 : end;
        if (end > begin && text[end - 1] == '\r') --end;
        const std::string_view content = text.substr(begin, end - begin);

        const auto fail = [&](Fault fault, std::size_t detail = 0) {
            scan.fault = fault;
            scan.where = {begin, end};
            scan.line = line;
            scan.detail = detail;
            scan.rows.resize(block_first);  // drop the rows of the incomplete sentence
        };

        const std::size_t bad = first_bad_byte(content);
        if (bad < content.size()) return fail(Fault::bytes, begin + bad), scan;

        if (content.find_first_not_of(" \t") == std::string_view::npos) {
            if (scan.rows.size() > block_first) close_block(next, line + 1);
            continue;
        }
        if (!rules.comment.empty() && content.starts_with(rules.comment)) continue;
        // CoNLL-2003 marks documents by a row that is not a token.
        if (rules.id < 0 && content.starts_with("-DOCSTART-")) continue;

        const Range none{begin, begin};
        Row row{{begin, end}, line, none, none, none};
        Range id = none;
        const int n = split(text, row.bytes, rules.sep, [&](int column, Range field) {
            if (column == rules.token) row.token = field;
            if (column == rules.label) row.label = field;
            if (column == rules.label_tail) row.label_tail = field;
            if (column == rules.id) id = field;
        });
        const bool like_comment = rules.guess_comments && scan.rows.size() == block_first &&
                                  (content == "#" || content.starts_with("# "));
        if (n != rules.n_columns) {
            if (like_comment) continue;
            return fail(Fault::columns, static_cast<std::size_t>(n)), scan;
        }
        // "# sent_id 7" in a file of three columns separated by blanks is ambiguous.
        if (like_comment && rules.sep == ' ' && n > 1) return fail(Fault::comment), scan;
        if (rules.id >= 0) {
            const Id kind = kind_of_id(text.substr(id.begin, id.end - id.begin));
            if (kind == Id::wrong) return fail(Fault::id), scan;
            if (kind == Id::other) continue;
        }
        if (row.token.begin == row.token.end) return fail(Fault::token), scan;
        if (rules.label >= 0 && row.label.begin == row.label.end && !allow_empty_label)
            return fail(Fault::label), scan;
        scan.rows.push_back(row);
    }
    if (final && scan.rows.size() > block_first) close_block(text.size(), line);
    scan.rows.resize(block_first);
    return scan;
}

}  // namespace tagloom
