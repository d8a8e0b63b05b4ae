// Python bindings of the column scanner: byte ranges become lists of str; equal strings share one
// object.

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/gil.hpp"
#include "bind/python.hpp"
#include "core/columns.hpp"
#include "core/hash.hpp"

namespace nb = nanobind;

namespace tagloom {
namespace {

// Words and labels recur, so most lookups save creating a str. Open addressing over the UTF-8 bytes
// that CPython caches in each str. Bounded, so that streaming a file of any size needs constant
// memory.
class StringPool {
  public:
    nb::object get(std::string_view s) {
        const std::uint64_t hash = hash64(s);
        std::size_t i = hash & (entries_.size() - 1);
        for (; entries_[i].value; i = (i + 1) & (entries_.size() - 1))
            if (entries_[i].hash == hash && entries_[i].text.size() == s.size() &&
                is_same(entries_[i].text, s, hash))
                return entries_[i].value;
        PyObject* made = PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), nullptr);
        if (!made) throw nb::python_error();
        nb::object value = nb::steal(made);
        if (s.size() > longest) return value;
        Py_ssize_t size = 0;
        const char* text = PyUnicode_AsUTF8AndSize(made, &size);
        if (!text) throw nb::python_error();
        entries_[i] = {hash, {text, static_cast<std::size_t>(size)}, value};
        if (++size_ * 2 > entries_.size()) grow();
        return value;
    }

  private:
    struct Entry {
        std::uint64_t hash = 0;
        std::string_view text;  // the bytes of `value`
        nb::object value;
    };

    void grow() {
        std::vector<Entry> old(size_ > limit ? smallest : 2 * entries_.size());
        old.swap(entries_);
        if (size_ > limit) {  // clear the pool: frequent strings return soon
            size_ = 0;
            return;
        }
        for (Entry& entry : old) {
            if (!entry.value) continue;
            std::size_t i = entry.hash & (entries_.size() - 1);
            while (entries_[i].value) i = (i + 1) & (entries_.size() - 1);
            entries_[i] = std::move(entry);
        }
    }

    static constexpr std::size_t limit = 1 << 17, smallest = 1 << 10, longest = 64;
    std::vector<Entry> entries_{smallest};
    std::size_t size_ = 0;
};

const char* name(Fault fault) {
    switch (fault) {
        case Fault::bytes:
            return "bytes";
        case Fault::columns:
            return "columns";
        case Fault::comment:
            return "comment";
        case Fault::id:
            return "id";
        case Fault::token:
            return "token";
        case Fault::label:
            return "label";
        case Fault::none:
            break;
    }
    return "none";
}

std::string_view view(const nb::bytes& data) { return {data.c_str(), data.size()}; }

class ColumnScanner {
  public:
    ColumnScanner(const std::string& sep, int n_columns, int token, int label, int label_tail,
                  int id, const std::string& comment, bool guess_comments,
                  std::optional<std::string> unknown)
        : rules_{sep.at(0), n_columns, token, label, label_tail, id, comment, guess_comments},
          unknown_(std::move(unknown)) {}

    // -> ([(raw, tokens, labels or None, line), ...], consumed, lines, fault or None)
    nb::tuple scan(const nb::bytes& data, bool final) {
        const std::string_view text = view(data);
        const Scan scan = run(text, final);
        nb::list sentences;
        for (const Block& block : scan.blocks) {
            nb::object tokens = tokens_of(text, scan, block);
            nb::object labels = nb::none();
            if (rules_.label >= 0)
                labels = list_of(scan, block, [&](const Row& row) { return label(text, row); });
            const std::string_view raw = slice(text, block.bytes);
            sentences.append(
                nb::make_tuple(nb::bytes(raw.data(), raw.size()), tokens, labels, block.line));
        }
        return nb::make_tuple(sentences, scan.consumed, scan.lines, fault_of(scan));
    }

    // The bytes of all complete sentences with new values in one column, as in put(). The values
    // are function(tokens of each sentence). -> (bytes, consumed, lines, fault or None)
    nb::tuple relabel(const nb::bytes& data, bool final, const nb::callable& function, int column) {
        const std::string_view text = view(data);
        const Scan scan = run(text, final, column);
        nb::list sentences;
        for (const Block& block : scan.blocks) sentences.append(tokens_of(text, scan, block));
        const nb::object found = function(sentences);
        std::vector<std::string_view> fields;
        fields.reserve(scan.rows.size());
        bool fits = PyList_Check(found.ptr()) &&
                    list_size(found.ptr()) == static_cast<Py_ssize_t>(scan.blocks.size());
        for (std::size_t i = 0; fits && i < scan.blocks.size(); ++i)
            fits = append_views(list_item(found.ptr(), static_cast<Py_ssize_t>(i)), std::nullopt,
                                fields) &&
                   fields.size() == scan.blocks[i].last;
        for (std::size_t r = 0; fits && r < fields.size(); ++r)
            fits = is_field(fields[r], rules_.sep);
        if (!fits)
            throw nb::value_error(
                "relabel: function must return one list per sentence, with one str per token that "
                "is neither empty nor contains a separator or line break");
        const bool append = column >= rules_.n_columns;
        const std::string out =
            put_fields(text.substr(0, scan.consumed), scan.rows, rules_.sep, append, fields);
        return nb::make_tuple(nb::bytes(out.data(), out.size()), scan.consumed, scan.lines,
                              fault_of(scan));
    }

    // The token rows of one sentence -> [(line, begin, end), ...]
    nb::list rows(const nb::bytes& data) {
        const Scan scan = run(view(data), true);
        nb::list result;
        for (const Row& row : scan.rows)
            result.append(nb::make_tuple(row.line, row.bytes.begin, row.bytes.end));
        return result;
    }

    // All fields of one sentence, column by column.
    nb::list columns(const nb::bytes& data) {
        const std::string_view text = view(data);
        // Scanning one sentence takes less time than releasing the GIL.
        const Scan scan = scan_columns(text, rules_, true, unknown_ && unknown_->empty());
        const auto n_columns = static_cast<std::size_t>(rules_.n_columns);
        std::vector<Range> fields, row;  // [rows, n_columns], [n_columns]
        fields.reserve(scan.rows.size() * n_columns);
        for (const Row& one : scan.rows) {
            split_row(text, one.bytes, rules_.sep, row);
            fields.insert(fields.end(), row.begin(), row.begin() + n_columns);
        }
        nb::list result;
        for (std::size_t c = 0; c < n_columns; ++c)
            result.append(make_list(scan.rows.size(), [&](std::size_t r) {
                return pool_.get(slice(text, fields[r * n_columns + c]));
            }));
        return result;
    }

    // The bytes of one sentence with new values in one column, or in a new one after the last
    // (`column` is then n_columns). None if the rows do not contain these tokens or columns, or if
    // a value is not a valid field; Python then raises a precise error.
    nb::object put(const nb::bytes& data, nb::handle tokens, nb::handle columns, nb::handle values,
                   int column, const std::optional<std::string>& unknown) const {
        const std::string_view text = view(data);
        const ColumnRules rules = rules_for(column);
        const bool append = column >= rules.n_columns;
        // Scanning one sentence takes less time than releasing the GIL.
        const Scan scan = scan_columns(text, rules, true, true);
        if (scan.fault != Fault::none || !holds(text, scan, tokens, columns)) return nb::none();
        if (values.is_none()) return data;
        if (column < 0) throw nb::value_error("put: column must not be negative");
        std::vector<std::string_view> fields;
        if (!views(values, unknown, fields) || fields.size() != scan.rows.size()) return nb::none();
        for (const std::string_view field : fields)
            if (!is_field(field, rules.sep) && !(unknown && field == *unknown)) return nb::none();
        const std::string out = put_fields(text, scan.rows, rules.sep, append, fields);
        return nb::bytes(out.data(), out.size());
    }

  private:
    // A list of item(0), ..., item(n - 1).
    template <class Item>
    static nb::object make_list(std::size_t n, const Item& item) {
        nb::object made = nb::steal(PyList_New(static_cast<Py_ssize_t>(n)));
        if (!made) throw nb::python_error();
        for (std::size_t i = 0; i < n; ++i)
            set_item(made.ptr(), static_cast<Py_ssize_t>(i), item(i).release().ptr());
        return made;
    }
    // A list of field(row) for the rows of a sentence.
    template <class Field>
    static nb::object list_of(const Scan& scan, const Block& block, const Field& field) {
        return make_list(block.last - block.first,
                         [&](std::size_t r) { return field(scan.rows[block.first + r]); });
    }
    nb::object tokens_of(std::string_view text, const Scan& scan, const Block& block) {
        return list_of(scan, block,
                       [&](const Row& row) { return pool_.get(slice(text, row.token)); });
    }

    static nb::object fault_of(const Scan& scan) {
        if (scan.fault == Fault::none) return nb::none();
        return nb::make_tuple(name(scan.fault), scan.line, scan.where.begin, scan.where.end,
                              scan.detail);
    }

    // Views of the strings of a list; None is read as `unknown`. False for any other item.
    static bool views(nb::handle list, const std::optional<std::string>& unknown,
                      std::vector<std::string_view>& out) {
        out.clear();
        if (PyList_Check(list.ptr())) out.reserve(static_cast<std::size_t>(list_size(list.ptr())));
        return append_views(list, unknown, out);
    }
    static bool append_views(nb::handle list, const std::optional<std::string>& unknown,
                             std::vector<std::string_view>& out) {
        if (!PyList_Check(list.ptr())) return false;
        const Py_ssize_t n = list_size(list.ptr());
        for (Py_ssize_t i = 0; i < n; ++i) {
            PyObject* item = list_item(list.ptr(), i);
            if (item == Py_None && unknown) {
                out.push_back(*unknown);
                continue;
            }
            if (!PyUnicode_Check(item)) return false;
            Py_ssize_t size = 0;
            const char* text = PyUnicode_AsUTF8AndSize(item, &size);
            if (!text) return PyErr_Clear(), false;  // lone surrogate
            out.emplace_back(text, static_cast<std::size_t>(size));
        }
        return true;
    }

    // Whether the rows contain these tokens and, if given, these columns.
    bool holds(std::string_view text, const Scan& scan, nb::handle tokens,
               nb::handle columns) const {
        std::vector<std::string_view> given;
        if (!views(tokens, std::nullopt, given) || given.size() != scan.rows.size()) return false;
        for (std::size_t r = 0; r < given.size(); ++r)
            if (slice(text, scan.rows[r].token) != given[r]) return false;
        if (columns.is_none()) return true;
        if (!PyList_Check(columns.ptr()) || list_size(columns.ptr()) != rules_.n_columns)
            return false;
        std::vector<std::vector<std::string_view>> all(static_cast<std::size_t>(rules_.n_columns));
        for (std::size_t c = 0; c < all.size(); ++c)
            if (!views(list_item(columns.ptr(), static_cast<Py_ssize_t>(c)), std::nullopt,
                       all[c]) ||
                all[c].size() != scan.rows.size())
                return false;
        std::vector<Range> fields;
        for (std::size_t r = 0; r < scan.rows.size(); ++r) {
            split_row(text, scan.rows[r].bytes, rules_.sep, fields);
            for (std::size_t c = 0; c < all.size(); ++c)
                if (slice(text, fields[c]) != all[c][r]) return false;
        }
        return true;
    }

    static std::string_view slice(std::string_view text, Range r) {
        return text.substr(r.begin, r.end - r.begin);
    }

    nb::object label(std::string_view text, const Row& row) {
        const std::string_view head = slice(text, row.label), tail = slice(text, row.label_tail);
        if (unknown_ && head == *unknown_) return nb::none();
        if (rules_.label_tail < 0 || tail == "_") return pool_.get(head);
        return pool_.get(std::string(head).append("|").append(tail));
    }

    Scan run(std::string_view text, bool final) const {
        const WithoutGil unlocked;
        return scan_columns(text, rules_, final, unknown_ && unknown_->empty());
    }
    // The same for writing to a column, or after the last one; its present values may be empty.
    Scan run(std::string_view text, bool final, int column) const {
        if (column < 0) throw nb::value_error("relabel: column must not be negative");
        const ColumnRules rules = rules_for(column);
        const WithoutGil unlocked;
        return scan_columns(text, rules, final, true);
    }
    ColumnRules rules_for(int column) const {
        ColumnRules rules = rules_;
        rules.label = std::min(column, rules.n_columns - 1);
        rules.label_tail = -1;
        return rules;
    }

    ColumnRules rules_;
    std::optional<std::string> unknown_;
    StringPool pool_;
};

}  // namespace

void bind_sequences(nb::module_& m) {
    nb::class_<ColumnScanner>(m, "ColumnScanner", "Finds sentences in the bytes of a column file.")
        .def(nb::init<const std::string&, int, int, int, int, int, const std::string&, bool,
                      std::optional<std::string>>(),
             nb::arg("sep"), nb::arg("n_columns"), nb::arg("token"), nb::arg("label"),
             nb::arg("label_tail"), nb::arg("id"), nb::arg("comment"), nb::arg("guess_comments"),
             nb::arg("unknown").none())
        .def("scan", &ColumnScanner::scan, nb::arg("data"), nb::arg("final"),
             nb::sig("def scan(self, data: bytes, final: bool) -> "
                     "tuple[list[tuple[bytes, list[str], list[str | frozenset[str] | None] | None, "
                     "int]], int, int, tuple[str, int, int, int, int] | None]"))
        .def("relabel", &ColumnScanner::relabel, nb::arg("data"), nb::arg("final"),
             nb::arg("function"), nb::arg("column"),
             nb::sig("def relabel(self, data: bytes, final: bool, function: "
                     "collections.abc.Callable[[list[list[str]]], list[list[str]]], column: "
                     "int) -> tuple[bytes, int, int, tuple[str, int, int, int, int] | None]"))
        .def("rows", &ColumnScanner::rows, nb::arg("data"),
             nb::sig("def rows(self, data: bytes) -> list[tuple[int, int, int]]"))
        .def("columns", &ColumnScanner::columns, nb::arg("data"),
             nb::sig("def columns(self, data: bytes) -> list[list[str]]"))
        .def(
            "put", &ColumnScanner::put, nb::arg("data"), nb::arg("tokens"),
            nb::arg("columns").none(), nb::arg("values").none(), nb::arg("column"),
            nb::arg("unknown").none(),
            nb::sig("def put(self, data: bytes, tokens: list[str], columns: list[list[str]] | "
                    "None, values: list[str | frozenset[str] | None] | None, column: int, unknown: "
                    "str | None) -> bytes | None"));
    m.def(
        "first_bad_byte", [](const nb::bytes& data) { return first_bad_byte(view(data)); },
        nb::arg("data"), "The offset of the first NUL or byte that is not UTF-8, or the length.");
}

}  // namespace tagloom
