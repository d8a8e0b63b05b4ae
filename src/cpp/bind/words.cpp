#include "bind/words.hpp"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <unordered_map>

#include "bind/casters.hpp"
#include "bind/python.hpp"
#include "core/scratch.hpp"
#include "core/threads.hpp"

namespace nb = nanobind;

namespace tagloom {
namespace {

[[noreturn]] void fail_type(const std::string& where, const char* expected, PyObject* found) {
    throw nb::type_error(
        (where + ": expected " + expected + ", found " + type_name(found) + ".").c_str());
}

std::string place(std::size_t c, Py_ssize_t n, Py_ssize_t t = -1) {
    return (c > 0 ? "column " + std::to_string(c) + ", " : "") + "sentence " + std::to_string(n) +
           (t < 0 ? "" : ", token " + std::to_string(t));
}

[[noreturn]] void fail_surrogate(const std::string& where, PyObject* text) {
    const nb::object shown = nb::steal(PyObject_ASCII(text));
    if (!shown.is_valid()) throw nb::python_error();
    throw nb::value_error((where + ": " + nb::str(shown).c_str() +
                           " has a lone surrogate, which is not a character. Decode the text "
                           "again, with errors=\"replace\" if need be.")
                              .c_str());
}

// Throws for the invalid text at a padded position.
[[noreturn]] void fail_text(const Program& program, const Batch& batch, std::size_t c,
                            std::size_t position, PyObject* text) {
    Py_ssize_t n = 0;
    const auto p = static_cast<int64_t>(position);
    while (padded(program, batch, n + 1) <= p) n++;
    const std::string where = place(c, n, p - padded(program, batch, n));
    if (!PyUnicode_Check(text)) fail_type(where, "a str", text);
    fail_surrogate(where, text);
}

#ifdef Py_LIMITED_API

// The class of a code point beyond ASCII, from the methods of a str with it alone; each is asked
// once.
uint8_t classify(Py_UCS4 c) {
    static std::unordered_map<Py_UCS4, uint8_t> known;  // under the GIL
    if (c < 128) return kAsciiClasses[c];
    if (const auto it = known.find(c); it != known.end()) return it->second;
    const nb::object one = nb::steal(PyUnicode_FromOrdinal(static_cast<int>(c)));
    if (!one.is_valid()) throw nb::python_error();
    const auto has = [&](const char* method, uint8_t bit) {
        return nb::cast<bool>(one.attr(method)()) ? bit : uint8_t{0};
    };
    const uint8_t upper = has("isupper", kUpper);
    // str.istitle is also true of one upper-case letter.
    const auto found =
        static_cast<uint8_t>(upper | has("islower", kLower) | (upper ? 0 : has("istitle", kTitle)) |
                             has("isalpha", kAlpha) | has("isdecimal", kDecimal) |
                             has("isdigit", kDigit) | has("isnumeric", kNumeric));
    known.emplace(c, found);
    return found;
}

// Encodes a str that is not ASCII as UTF-8; false if it has a lone surrogate.
bool encode_utf8(PyObject* text, std::string& out) {
    const nb::object bytes = nb::steal(PyUnicode_AsUTF8String(text));
    if (!bytes.is_valid()) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) throw nb::python_error();
        PyErr_Clear();
        return false;
    }
    out.assign(PyBytes_AsString(bytes.ptr()), static_cast<std::size_t>(PyBytes_Size(bytes.ptr())));
    return true;
}

#else

uint8_t classify(Py_UCS4 c) {
    if (c < 128) return kAsciiClasses[c];
    return static_cast<uint8_t>(
        (Py_UNICODE_ISUPPER(c) ? kUpper : 0) | (Py_UNICODE_ISLOWER(c) ? kLower : 0) |
        (Py_UNICODE_ISTITLE(c) ? kTitle : 0) | (Py_UNICODE_ISALPHA(c) ? kAlpha : 0) |
        (Py_UNICODE_ISDECIMAL(c) ? kDecimal : 0) | (Py_UNICODE_ISDIGIT(c) ? kDigit : 0) |
        (Py_UNICODE_ISNUMERIC(c) ? kNumeric : 0));
}

// Writes a code point as UTF-8 and returns the end; null for a surrogate.
char* write_utf8(Py_UCS4 c, char* to) {
    const auto tail = [c](int shift) { return static_cast<char>(0x80 | (c >> shift & 0x3f)); };
    if (c < 0x80) {
        *to++ = static_cast<char>(c);
    } else if (c < 0x800) {
        *to++ = static_cast<char>(0xc0 | c >> 6);
        *to++ = tail(0);
    } else if (c < 0x10000) {
        if (c >= 0xd800 && c < 0xe000) return nullptr;
        *to++ = static_cast<char>(0xe0 | c >> 12);
        *to++ = tail(6);
        *to++ = tail(0);
    } else {
        *to++ = static_cast<char>(0xf0 | c >> 18);
        *to++ = tail(12);
        *to++ = tail(6);
        *to++ = tail(0);
    }
    return to;
}

// Encodes a str that is not ASCII as UTF-8; false if it has a lone surrogate.
bool encode_utf8(PyObject* text, std::string& out) {
    const Py_ssize_t n = PyUnicode_GET_LENGTH(text);
    const int kind = PyUnicode_KIND(text);
    const void* data = PyUnicode_DATA(text);
    out.resize(static_cast<std::size_t>(n) * 4);
    char* to = out.data();
    for (Py_ssize_t i = 0; i < n; i++) {
        to = write_utf8(PyUnicode_READ(kind, data, i), to);
        if (!to) return false;
    }
    out.resize(static_cast<std::size_t>(to - out.data()));
    return true;
}

#endif

// The class of each code point of a str.
const uint8_t* classify(PyObject* text, Arena& arena) {
    const Py_ssize_t n = text_length(text);
    uint8_t* classes = arena.take<uint8_t>(static_cast<std::size_t>(n));
    for (Py_ssize_t i = 0; i < n; i++) classes[i] = classify(read_point(text, i));
    return classes;
}

// Some strings of one column with their hashes. Each string may lie anywhere in memory, so those
// that are read next are prefetched.
class Texts {
  public:
    static constexpr std::size_t kAtOnce = 32;
    static void prefetch(PyObject* const* texts, std::size_t n) {
        for (std::size_t i = 0; i < n; i++) {
            if (!texts[i]) continue;
            __builtin_prefetch(texts[i]);
            // The next cache line, where a short text ends.
            __builtin_prefetch(reinterpret_cast<const char*>(texts[i]) + 56);
        }
    }

    // Reads at most kAtOnce texts and calls read(hash) after each; null texts are skipped.
    // Returns the number of texts read; if below n, the next one is not a str or has a lone
    // surrogate.
    template <class Read>
    std::size_t read(PyObject* const* texts, std::size_t n, const Read& read) {
        for (std::size_t i = 0; i < n; i++) {
            if (!texts[i]) continue;
            if (!PyUnicode_Check(texts[i])) return i;
            views[i] = ascii_text(texts[i]);
            if (!views[i].data()) {
                if (buffers_.empty()) buffers_.resize(kAtOnce);
                if (!encode_utf8(texts[i], buffers_[i])) return i;
                views[i] = buffers_[i];
            }
            hashes[i] = hash_of(texts[i], views[i]);
            read(hashes[i]);
        }
        return n;
    }

    std::array<std::string_view, kAtOnce> views;
    std::array<uint64_t, kAtOnce> hashes;

  private:
    static uint64_t hash_of(PyObject* text, std::string_view view) {
        if (view.empty()) return kEmpty;
        return is_after_header(text) ? hash64_after_header(view) : hash64(view);
    }

    std::vector<std::string> buffers_;  // [kAtOnce] UTF-8 of texts that are not ASCII, if any are
};

// Finds the blocks of strings in a word cache: null for words that are not there. Blocks of null
// texts stand already. Returns the number of texts read, as Texts does. It creates no Python
// object and changes no reference count, so any thread may call it while some thread holds the
// GIL.
std::size_t find_blocks(PyObject* const* texts, std::size_t n, const WordCache& cache,
                        const uint64_t** blocks) {
    Texts some;
    for (std::size_t first = 0; first < n; first += Texts::kAtOnce) {
        const std::size_t m = std::min(n - first, Texts::kAtOnce), next = first + m;
        Texts::prefetch(texts + next, std::min(n - next, Texts::kAtOnce));
        const std::size_t done =
            some.read(texts + first, m, [&](uint64_t hash) { cache.prefetch_slot(hash); });
        if (done < m) return first + done;
        for (std::size_t i = 0; i < m; i++) {
            if (texts[first + i]) cache.prefetch_word(some.hashes[i]);
        }
        for (std::size_t i = 0; i < m; i++) {
            if (!texts[first + i]) continue;
            const CachedWord* word = cache.find(some.views[i], some.hashes[i]);
            blocks[first + i] = word ? word->block() : nullptr;
        }
    }
    return n;
}

// Numbers the strings of one column.
class Interner {
  public:
    Interner(Column& column, std::vector<nb::object>& held, bool needs_lowered)
        : column_(column), words_(column.words), held_(held), needs_lowered_(needs_lowered) {}

    // Writes the numbers of texts to `ids`, where those of null texts stand already. Returns the
    // number of texts read, as Texts does.
    std::size_t number(PyObject* const* texts, std::size_t n, int32_t* ids) {
        for (std::size_t first = 0; first < n; first += Texts::kAtOnce) {
            const std::size_t m = std::min(n - first, Texts::kAtOnce), next = first + m;
            Texts::prefetch(texts + next, std::min(n - next, Texts::kAtOnce));
            const std::size_t done =
                some_.read(texts + first, m, [&](uint64_t hash) { words_.prefetch(hash); });
            if (done < m) return first + done;
            for (std::size_t i = 0; i < m; i++) {
                PyObject* text = texts[first + i];
                if (!text) continue;
                const int32_t id = words_.find(some_.views[i], some_.hashes[i]);
                ids[first + i] = id < 0 ? add(text, some_.views[i], some_.hashes[i]) : id;
            }
        }
        return n;
    }

  private:
    int32_t add(PyObject* object, std::string_view text, uint64_t hash) {
        Word word;
        word.hash = hash;
        word.points = static_cast<uint32_t>(text_length(object));
        word.text = words_.arena.copy(text);    // close to the other words
        if (word.text.size() != word.points) {  // not ASCII
            word.classes = classify(object, words_.arena);
        } else if (needs_lowered_) {
            word.lowered = ascii_lower(word.text, words_.arena);
        }
        held_.push_back(nb::borrow(object));
        column_.fresh.push_back(words_.add(word));
        return column_.fresh.back();
    }

    Column& column_;
    Words& words_;
    std::vector<nb::object>& held_;  // the str of every word
    const bool needs_lowered_;
    Texts some_;
};

// Finds the blocks of all texts [positions] on several threads, and numbers the words that are not
// in the cache. Returns the number of texts read, as Texts does. Needs the GIL.
std::size_t read_cached(std::span<PyObject* const> texts, const WordCache& cache, int64_t threads,
                        Column& column, std::vector<nb::object>& held, bool needs_lowered) {
    constexpr std::size_t kPerItem = 2048;
#ifdef Py_LIMITED_API
    threads = 1;  // reading a str stores its UTF-8 in it, for which each thread would need the GIL
#endif
    const std::size_t positions = texts.size();
    std::atomic<std::size_t> valid = positions;  // texts before the first invalid one
    const auto items = static_cast<int64_t>((positions + kPerItem - 1) / kPerItem);
    parallel_for(items, threads, [&](int64_t item, int64_t) {
        const std::size_t first = static_cast<std::size_t>(item) * kPerItem;
        const std::size_t n = std::min(positions - first, kPerItem);
        const std::size_t done =
            find_blocks(texts.data() + first, n, cache, column.blocks.data() + first);
        std::size_t before = valid;
        while (done < n && first + done < before &&
               !valid.compare_exchange_weak(before, first + done)) {
        }
    });
    if (valid < positions) return valid;
    std::vector<PyObject*> rest;
    for (std::size_t p = 0; p < positions; p++) {
        if (column.blocks[p]) continue;
        rest.push_back(texts[p]);
        column.missed.push_back({p, 0});
    }
    if (rest.empty()) return positions;
    column.words = Words(rest.size());
    std::vector<int32_t> ids(rest.size());
    Interner(column, held, needs_lowered).number(rest.data(), rest.size(), ids.data());
    for (std::size_t i = 0; i < ids.size(); i++) column.missed[i].word = ids[i];
    return positions;
}

// Copies the text of a str.
std::string_view copy_text(PyObject* text, Arena& arena, const std::string& where) {
    const std::string_view ascii = ascii_text(text);
    if (ascii.data()) return arena.copy(ascii);
    std::string buffer;
    if (!encode_utf8(text, buffer)) fail_surrogate(where, text);
    return arena.copy(buffer);
}

// Computes what needs Python for the new words of a column, whose strings are held: lower case and
// punctuation beyond ASCII, and the functions of the user.
void call_python(const PyProgram& program, std::size_t c, Column& column,
                 const std::vector<nb::object>& held) {
    const std::vector<nb::callable>& functions = program.functions[c];
    if (!program.needs_lowered[c] && !program.needs_punctuation[c] && functions.empty()) return;
    // str.lower itself: a subclass may override it.
    const nb::object lower = nb::handle(&PyUnicode_Type).attr("lower");
    for (std::size_t i = 0; i < held.size(); i++) {
        const nb::object& text = held[i];
        Words& words = column.words;
        const auto number = static_cast<std::size_t>(column.fresh[i]);
        Word word = words.all[number];
        if (word.classes && program.needs_lowered[c]) {
            word.lowered = copy_text(lower(text).ptr(), words.arena, "str.lower");
        }
        if (word.classes && program.needs_punctuation[c]) {
            auto* classes = const_cast<uint8_t*>(word.classes);  // in our arena
            for (uint32_t p = 0; p < word.points; p++) {
                const Py_UCS4 point = read_point(text.ptr(), p);
                if (point < 128) continue;
                const nb::object one = nb::steal(PyUnicode_FromOrdinal(static_cast<int>(point)));
                if (!one.is_valid()) throw nb::python_error();
                const nb::object category = program.category(one);
                const Py_UCS4 major = read_point(category.ptr(), 0);
                if (major == 'P' || major == 'S') classes[p] |= kPunctuation;
            }
        }
        if (!functions.empty()) {
            auto* answers = words.arena.take<std::string_view>(functions.size());
            for (std::size_t f = 0; f < functions.size(); f++) {
                const nb::object answer = functions[f](text);
                answers[f] = {};
                if (answer.is_none()) continue;
                if (!PyUnicode_Check(answer.ptr())) {
                    fail_type("a feature function", "a str or None", answer.ptr());
                }
                answers[f] = copy_text(answer.ptr(), words.arena, "a feature function");
            }
            word.answers = answers;
        }
        words.all[number] = word;
    }
}

}  // namespace

Word copy_word(nb::handle text, Arena& arena) {
    if (!PyUnicode_Check(text.ptr())) fail_type("a word", "a str", text.ptr());
    Word word;
    word.text = copy_text(text.ptr(), arena, "a word");
    word.hash = hash_part(word.text);
    word.points = static_cast<uint32_t>(text_length(text.ptr()));
    if (word.text.size() != word.points) word.classes = classify(text.ptr(), arena);
    return word;
}

PyBatch::PyBatch(const PyProgram& compiled, nb::handle columns, nb::handle numeric,
                 std::span<const std::unique_ptr<WordCache>> caches, int64_t threads) {
    const Program& program = compiled.program;
    const Items given(columns.ptr());
    if (given.size < 0) fail_type("columns", "a list", columns.ptr());
    if (given.size < static_cast<Py_ssize_t>(program.columns)) {
        throw nb::value_error(("The templates read " + std::to_string(program.columns) +
                               " columns; found " + std::to_string(given.size) + ".")
                                  .c_str());
    }
    std::vector<std::vector<nb::object>> strings(program.columns);
    batch.columns.reserve(program.columns);
    for (std::size_t c = 0; c < program.columns; c++) {
        const Items sentences(given[c]);
        if (sentences.size < 0) {
            fail_type("column " + std::to_string(c), "a list of sentences", given[c]);
        }
        if (c == 0) {
            batch.offsets.assign(static_cast<std::size_t>(sentences.size) + 1, 0);
            for (Py_ssize_t n = 0; n < sentences.size; n++) {
                const Items tokens(sentences[n]);
                if (tokens.size < 0) fail_type(place(c, n), "a list of str", sentences[n]);
                batch.offsets[n + 1] = batch.offsets[n] + tokens.size;
            }
        }
        const int64_t N = static_cast<int64_t>(batch.offsets.size()) - 1, T = batch.offsets.back();
        if (sentences.size != N) {
            throw nb::value_error(("column " + std::to_string(c) + " has " +
                                   std::to_string(sentences.size) + " sentences, column 0 has " +
                                   std::to_string(N) + ".")
                                      .c_str());
        }
        const WordCache* cache = caches.empty() ? nullptr : caches[c].get();
        Column& column = batch.columns.emplace_back(cache ? 0 : static_cast<std::size_t>(T));
        const auto positions = static_cast<std::size_t>(T + 2 * program.pad * N);
        if (cache) {
            column.blocks.resize(positions + Column::kSlack);
        } else {
            add_boundaries(program, column);
            column.tokens.resize(positions);
        }
        // The padding at a position: word d of add_boundaries.
        const auto pad = [&](Py_ssize_t p, int32_t d) {
            if (cache) {
                column.blocks[p] = cache->outside[d];
            } else {
                column.tokens[p] = d;
            }
        };
        // Borrowed references: until the texts are read, no call below releases the GIL or drops a
        // reference.
        thread_local Scratch<PyObject*> scratch;
        const auto taken = scratch.take(positions);
        PyObject** texts = taken.data;  // null outside of sentences
        for (Py_ssize_t n = 0, p = 0; n < N; n++) {
            const Items tokens(sentences[n]);
            if (tokens.size < 0) fail_type(place(c, n), "a list of str", sentences[n]);
            if (tokens.size != batch.offsets[n + 1] - batch.offsets[n]) {
                throw nb::value_error((place(c, n) + ": expected " +
                                       std::to_string(batch.offsets[n + 1] - batch.offsets[n]) +
                                       " values, one per token, found " +
                                       std::to_string(tokens.size) + ".")
                                          .c_str());
            }
            for (int32_t d = program.pad; d-- > 0; p++) texts[p] = nullptr, pad(p, d);
            for (Py_ssize_t t = 0; t < tokens.size; t++) texts[p++] = tokens[t];
            for (int32_t d = 0; d < program.pad; d++, p++) {
                texts[p] = nullptr, pad(p, program.pad + d);
            }
        }
        const bool needs_lowered = compiled.needs_lowered[c];
        const std::size_t done = cache ? read_cached({texts, positions}, *cache, threads, column,
                                                     strings[c], needs_lowered)
                                       : Interner(column, strings[c], needs_lowered)
                                             .number(texts, positions, column.tokens.data());
        if (done < positions) fail_text(program, batch, c, done, texts[done]);
    }
    // From here on Python code may run.
    for (std::size_t c = 0; c < program.columns; c++) {
        call_python(compiled, c, batch.columns[c], strings[c]);
        held.insert(held.end(), std::make_move_iterator(strings[c].begin()),
                    std::make_move_iterator(strings[c].end()));
    }

    const Items values(numeric.ptr());
    if (values.size < 0) fail_type("numeric", "a list of float64 arrays", numeric.ptr());
    if (values.size < static_cast<Py_ssize_t>(program.numeric)) {
        throw nb::value_error(("The templates read " + std::to_string(program.numeric) +
                               " numeric columns; found " + std::to_string(values.size) + ".")
                                  .c_str());
    }
    using Array = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
    const int64_t T = batch.offsets.back();
    for (std::size_t c = 0; c < program.numeric; c++) {
        const nb::object item = nb::borrow(values[c]);
        Array array;
        if (!nb::try_cast(item, array, false)) {
            fail_type("numeric column " + std::to_string(c), "a float64 array [T]", item.ptr());
        }
        if (static_cast<int64_t>(array.shape(0)) != T) {
            throw nb::value_error(("numeric column " + std::to_string(c) + " has " +
                                   std::to_string(array.shape(0)) + " values for " +
                                   std::to_string(T) + " tokens.")
                                      .c_str());
        }
        int64_t n = 0;
        for (int64_t t = 0; t < T; t++) {
            if (std::isfinite(static_cast<float>(array(t)))) continue;
            while (batch.offsets[n + 1] <= t) n++;
            throw nb::value_error(("numeric column " + std::to_string(c) + ", sentence " +
                                   std::to_string(n) + ", token " +
                                   std::to_string(t - batch.offsets[n]) +
                                   ": expected a finite number "
                                   "that fits 32 bits, found " +
                                   std::to_string(array(t)) + ".")
                                      .c_str());
        }
        batch.numeric.push_back(array.data());
        held.push_back(item);
    }
}

}  // namespace tagloom
