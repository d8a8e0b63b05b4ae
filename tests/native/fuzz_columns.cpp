// libFuzzer: any bytes as a column file. Every range lies within the text, and putting the labels
// back that were read gives the same bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/columns.hpp"

using namespace tagloom;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    const uint8_t options = data[0];
    const int n_columns = 2 + data[1] % 9;
    const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
    const ColumnRules rules{(options & 1) ? '\t' : ' ', n_columns,
                            (options >> 1) & 1,         n_columns - 1,
                            (options & 4) ? 0 : -1,     (options & 8) ? 0 : -1,
                            (options & 16) ? "#" : "",  (options & 32) != 0};
    const Scan scan = scan_columns(text, rules, (options & 64) != 0, (options & 128) != 0);
    const auto inside = [&](Range range) {
        if (range.begin > range.end || range.end > text.size()) std::abort();
    };
    if (scan.consumed > text.size()) std::abort();
    inside(scan.where);
    std::vector<std::string_view> labels;
    for (const Row& row : scan.rows) {
        inside(row.bytes), inside(row.token), inside(row.label);
        labels.push_back(text.substr(row.label.begin, row.label.end - row.label.begin));
    }
    for (const Block& block : scan.blocks) {
        inside(block.bytes);
        if (block.first > block.last || block.last > scan.rows.size()) std::abort();
    }
    const std::string_view whole = text.substr(0, scan.consumed);
    if (put_fields(whole, scan.rows, rules.sep, false, labels) != whole) std::abort();
    return 0;
}
