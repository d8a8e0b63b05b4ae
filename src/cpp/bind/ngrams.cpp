// N-gram models for Python: words become numbers here, with the GIL; all else runs without it.
#include "bind/ngrams.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/gil.hpp"
#include "bind/index.hpp"
#include "bind/python.hpp"
#include "core/arpa.hpp"
#include "core/ngram_changes.hpp"
#include "core/ngram_counts.hpp"
#include "core/ngram_smoothing.hpp"
#include "core/threads.hpp"

namespace tagloom {
namespace {

// A dict of the arrays of a model: what NGrams() takes.
nb::dict give_model(NGramArrays model) {
    nb::dict result;
    result["level"] = give(std::move(model.level));
    result["word"] = give(std::move(model.word));
    result["first"] = give(std::move(model.first));
    result["suffix"] = give(std::move(model.suffix));
    result["log_prob"] = give(std::move(model.log_prob));
    result["backoff"] = give(std::move(model.backoff));
    return result;
}

// The UTF-8 of a str; null data if it is none or has half of a surrogate pair.
std::string_view utf8(PyObject* text) {
    if (!PyUnicode_Check(text)) return {};
#ifndef Py_LIMITED_API
    if (const std::string_view ascii = ascii_text(text); ascii.data()) return ascii;
#endif
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(text, &size);
    if (!data) PyErr_Clear();
    return {data, static_cast<std::size_t>(size)};
}

// Where a list of sentences is not what it should be: (sentence, token), token -1 if the sentence
// itself is not a list.
using Place = nb::typed<nb::tuple, int, int>;
Place place(Py_ssize_t sentence, Py_ssize_t token) {
    return nb::borrow<Place>(nb::make_tuple(sentence, token));
}

constexpr std::string_view kSpecial[kSpecialWords] = {"<unk>", "<s>", "</s>"};

class PyCounter {
  public:
    PyCounter(int64_t order, std::optional<std::vector<std::string>> vocabulary, int64_t threads,
              int64_t chunk)
        : counter_(order, threads, chunk), threads_(threads), is_fixed_(vocabulary.has_value()) {
        if (order < 1 || order > kMaxOrder) throw nb::value_error("order must be 1 to 7");
        for (const std::string_view word : kSpecial) number(word);
        if (vocabulary)
            for (const std::string& word : *vocabulary) number(word);
    }

    // Counts sentences, lists of str, up to the first that is not one: where that is, or None.
    std::optional<Place> add(nb::handle sentences) {
        const Items all(sentences.ptr());
        for (Py_ssize_t i = 0; i < all.size; i++) {
            const Items tokens(all[i]);
            if (tokens.size < 0) return place(i, -1);
            counter_.begin_sentence();
            for (Py_ssize_t t = 0; t < tokens.size; t++) {
                const std::string_view text = utf8(tokens[t]);
                const int32_t w = text.data() ? word(text) : kStart;
                if (w == kStart || w == kEnd) {
                    counter_.cancel_sentence();
                    return place(i, t);
                }
                counter_.add(w);
            }
            end_sentence();
        }
        return std::nullopt;
    }

    // Counts the lines of a text whose tokens are separated by blanks; the last line must be whole.
    // Returns None or (line, token) where <s> or </s> stands.
    std::optional<Place> add_lines(const nb::bytes& data) {
        const std::string_view text(data.c_str(), data.size());
        int64_t line = 0, token = -1;
        {
            const WithoutGil unlocked;
            for (std::size_t i = 0; i < text.size() && token < 0; line++) {
                const std::size_t end = std::min(text.find('\n', i), text.size());
                token = add_line(text.substr(i, end - i));
                i = end + 1;
            }
        }
        if (token < 0) return std::nullopt;
        return place(line - 1, token);
    }

    // (arrays, vocabulary, discounts [order, 3], whether they are estimated [order], sentences,
    // tokens)
    nb::tuple finish(int smoothing, double k, bool is_closed, std::vector<int64_t> min_counts,
                     int64_t min_word_count) {
        if (smoothing < 0 || smoothing > static_cast<int>(Smoothing::add_k))
            throw nb::value_error("no such smoothing");
        NGramArrays model;
        std::vector<NGramDiscounts> discounts;
        int64_t n_sentences = 0, n_tokens = 0;
        {
            const WithoutGil unlocked;
            NGramCounts counts = counter_.take(static_cast<int64_t>(index_.size()));
            n_sentences = counts.count[1 + kStart];
            n_tokens = counts.count[0] - 2 * n_sentences;
            if (min_word_count > 1 && !is_fixed_) counts = drop_rare(counts, min_word_count);
            const SmoothingOptions options{static_cast<Smoothing>(smoothing), k, is_closed,
                                           std::move(min_counts)};
            model = smooth(counts, options, threads_, discounts);
        }
        nb::list amounts, is_estimated;
        for (const NGramDiscounts& one : discounts) {
            amounts.append(nb::make_tuple(one.amount[1], one.amount[2], one.amount[3]));
            is_estimated.append(!one.is_fallback);
        }
        return nb::make_tuple(give_model(std::move(model)), PyIndex(std::move(index_)), amounts,
                              is_estimated, n_sentences, n_tokens);
    }

  private:
    int32_t number(std::string_view text) {
        return index_.add(hash64(text), [&](std::string& out) { out += text; });
    }
    int32_t word(std::string_view text) {
        if (!is_fixed_) return number(text);
        const int32_t id = index_.table().find(hash64(text));
        return id < 0 ? kUnknown : id;
    }
    void end_sentence() { counter_.end_sentence(static_cast<int64_t>(index_.size())); }

    // -1, or the token that cannot be one.
    int64_t add_line(std::string_view line) {
        counter_.begin_sentence();
        int64_t t = 0;
        for (std::size_t i = 0;; t++) {
            i = line.find_first_not_of(kBlanks, i);
            if (i == line.npos) break;
            const std::size_t end = std::min(line.find_first_of(kBlanks, i), line.size());
            const int32_t w = word(line.substr(i, end - i));
            if (w == kStart || w == kEnd) {
                counter_.cancel_sentence();
                return t;
            }
            counter_.add(w);
            i = end;
        }
        // Blank lines are skipped.
        if (t == 0)
            counter_.cancel_sentence();
        else
            end_sentence();
        return -1;
    }

    // Rare words become <unk>; the others are numbered again.
    NGramCounts drop_rare(const NGramCounts& counts, int64_t min_word_count) {
        const auto V = static_cast<int32_t>(counts.n_words());
        std::vector<int32_t> rename(V);
        auto is_kept = std::make_unique<bool[]>(V);
        int32_t n = 0;
        for (int32_t w = 0; w < V; w++) {
            is_kept[w] = w < kSpecialWords || counts.count[1 + w] >= min_word_count;
            rename[w] = is_kept[w] ? n++ : kUnknown;
        }
        index_ = index_.keep(is_kept.get());
        const NGramCounts* all[] = {&counts};
        return merge_counts(all, rename.data(), n);
    }

    static constexpr const char* kBlanks = " \t\r\f\v";
    NGramCounter counter_;
    Index index_;
    const int64_t threads_;
    const bool is_fixed_;
};

// The words of sentences as numbers: (ids [tokens], offsets [N + 1], None), or with the place of
// what is no word, up to which the others hold. An unknown word becomes `unknown`.
nb::tuple word_ids(const PyIndex& vocabulary, nb::handle sentences, int32_t unknown) {
    vocabulary.check_idle();
    const Table& table = vocabulary.index.table();
    const Items all(sentences.ptr());
    std::vector<int32_t> ids;
    std::vector<int64_t> offsets{0};
    std::optional<Place> fault;
    for (Py_ssize_t i = 0; i < all.size && !fault; i++) {
        const Items tokens(all[i]);
        if (tokens.size < 0) fault = place(i, -1);
        for (Py_ssize_t t = 0; t < tokens.size && !fault; t++) {
            const std::string_view text = utf8(tokens[t]);
            if (!text.data()) fault = place(i, t);
            const int32_t id = fault ? -1 : table.find(hash64(text));
            ids.push_back(id < 0 ? unknown : id);
        }
        offsets.push_back(std::ssize(ids));
    }
    return nb::make_tuple(give(std::move(ids)), give(std::move(offsets)), fault);
}

// A vocabulary from the names of its words, in order; ValueError if one comes twice.
PyIndex make_vocabulary(const nb::bytes& names, In<int64_t> offsets) {
    const std::string_view text(names.c_str(), names.size());
    if (!is_rising(view(offsets), text.size()))
        throw nb::value_error("offsets must rise from 0 to the length of the names");
    std::vector<uint64_t> keys(offsets.size() - 1);
    for (std::size_t w = 0; w < keys.size(); w++)
        keys[w] = hash64(text.substr(offsets(w), offsets(w + 1) - offsets(w)));
    return PyIndex(
        Index(keys, std::string(text), {offsets.data(), offsets.data() + offsets.size()}));
}

void check_words(const NGramTable& table, const In<int32_t>& ids) {
    for (const int32_t w : view(ids))
        if (w < -1 || w >= table.n_words()) throw nb::value_error("no such word");
}

// log p of each token, of the end of each sentence where `ends`, and the length of its n-gram.
nb::tuple score(const NGrams& model, In<int32_t> ids, In<int64_t> offsets, bool starts, bool ends,
                int64_t threads) {
    const NGramTable& table = model.table();
    check_words(table, ids);
    if (!is_rising(view(offsets), ids.size()))
        throw nb::value_error("offsets must rise from 0 to the number of tokens");
    const int64_t N = static_cast<int64_t>(offsets.size()) - 1;
    std::vector<double> log_probs(ids.size() + (ends ? N : 0)), sums(N);
    std::vector<int8_t> lengths(log_probs.size());
    {
        const WithoutGil unlocked;
        constexpr int64_t kPiece = 64;  // sentences
        if (ids.size() < 20'000) threads = 1;
        parallel_for((N + kPiece - 1) / kPiece, threads, [&](int64_t p, int64_t) {
            for (int64_t i = p * kPiece; i < std::min(N, (p + 1) * kPiece); i++) {
                const int64_t lo = offsets(i), to = lo + (ends ? i : 0);
                const TokenScores out{log_probs.data() + to, lengths.data() + to};
                sums[i] = score_sentence(table, view(ids).subspan(lo, offsets(i + 1) - lo), starts,
                                         ends, out);
            }
        });
    }
    return nb::make_tuple(give(std::move(log_probs)), give(std::move(lengths)),
                          give(std::move(sums)));
}

// The node that stands for a history.
int32_t history(const NGrams& model, In<int32_t> ids, bool starts) {
    check_words(model.table(), ids);
    return history_of(model.table(), view(ids), starts);
}

// log p(w | history) of every word.
Out<double> score_all(const NGrams& model, int32_t history) {
    const NGramTable& table = model.table();
    if (history < 0 || history >= table.histories()) throw nb::value_error("no such history");
    std::vector<double> log_p(table.n_words());
    {
        const WithoutGil unlocked;
        score_words(table, history, log_p.data());
    }
    return give(std::move(log_p));
}

// The node after one more word.
int32_t follow(const NGrams& model, int32_t history, int32_t w) {
    const NGramTable& table = model.table();
    if (history < 0 || history >= table.histories() || w < 0 || w >= table.n_words())
        throw nb::value_error("no such history or word");
    double log_p = 0;
    return table.history_after(table.arrive(history, w, log_p));
}

nb::dict prune(const NGrams& model, double threshold, int64_t threads) {
    NGramArrays pruned;
    {
        const WithoutGil unlocked;
        pruned = prune_ngrams(model.table(), threshold, threads);
    }
    return give_model(std::move(pruned));
}

// (arrays, vocabulary) of weight * model + (1 - weight) * other.
nb::tuple interpolate(const NGrams& model, const PyIndex& mine, const NGrams& other,
                      const PyIndex& others, double weight, int64_t threads) {
    const NGramTable& table = model.table();
    mine.check_idle();
    others.check_idle();
    if (static_cast<int64_t>(mine.index.size()) != table.n_words() ||
        static_cast<int64_t>(others.index.size()) != other.table().n_words() ||
        table.order != other.table().order || !mine.index.can_grow())
        throw nb::value_error("the models or their vocabularies do not fit");
    Index merged = mine.index;
    merged.begin_growing();
    NGramArrays mixture;
    {
        const WithoutGil unlocked;
        std::vector<int32_t> here(table.n_words());
        for (std::size_t w = 0; w < here.size(); w++) here[w] = static_cast<int32_t>(w);
        const std::vector<int32_t> there = merged.join(others.index);
        std::vector<std::size_t> origin(merged.size());
        for (std::size_t w = 0; w < there.size(); w++) origin[there[w]] = w;
        merged.add_names(
            threads, [&](int64_t id, std::string& out) { out += others.index.name(origin[id]); });
        const MixturePart parts[] = {{table, here, weight}, {other.table(), there, 1 - weight}};
        mixture = mix_ngrams(parts, static_cast<int64_t>(merged.size()), threads);
    }
    return nb::make_tuple(give_model(std::move(mixture)), PyIndex(std::move(merged)));
}

// Lines of an ARPA file for some nodes of one level.
nb::bytes format(const NGrams& model, const PyIndex& vocabulary, int64_t begin, int64_t end) {
    const NGramTable& table = model.table();
    vocabulary.check_idle();
    const Index& index = vocabulary.index;
    bool fits = static_cast<int64_t>(index.size()) == table.n_words() && index.can_grow() &&
                begin >= 1 && end <= std::ssize(table.word);
    if (fits && begin < end) {
        const int64_t n = table.length(static_cast<int32_t>(begin));
        fits = end <= table.level[n + 1];
    }
    if (!fits) throw nb::value_error("the nodes or the vocabulary do not fit the model");
    std::string out;
    {
        const WithoutGil unlocked;
        out = format_ngrams(table, index, begin, end);
    }
    return nb::bytes(out.data(), out.size());
}

// An ARPA file, chunk by chunk. A fault is (line, expected, found, hint).
class PyArpaReader {
  public:
    nb::object read(const nb::bytes& data) {
        const std::string_view chunk(data.c_str(), data.size());
        return attempt([&] { reader_.read(chunk); });
    }
    // (arrays, vocabulary, whether it has <unk>), or a fault.
    nb::tuple finish(int64_t threads) {
        NGramArrays model;
        const nb::object fault = attempt([&] { model = reader_.finish(threads); });
        if (!fault.is_none()) return nb::borrow<nb::tuple>(fault);
        return nb::make_tuple(give_model(std::move(model)), PyIndex(reader_.take_vocabulary()),
                              reader_.has_unknown());
    }

  private:
    template <class Work>
    nb::object attempt(const Work& work) {
        std::optional<ArpaFault> fault;
        {
            const WithoutGil unlocked;
            try {
                work();
            } catch (ArpaFault& caught) {
                fault = std::move(caught);
            }
        }
        if (!fault) return nb::none();
        return nb::make_tuple(fault->line, fault->expected, fault->found, fault->hint);
    }

    ArpaReader reader_;
};

}  // namespace

void bind_ngrams(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<PyCounter>(m, "NGramCounter", "Counts n-grams, sentence by sentence.")
        .def(nb::init<int64_t, std::optional<std::vector<std::string>>, int64_t, int64_t>(),
             "order"_a, "vocabulary"_a.none(), "n_threads"_a, "chunk"_a = NGramCounter::kChunk)
        .def("add", &PyCounter::add, "sentences"_a,
             "Count lists of str; None, or (sentence, token) where something else is found.")
        .def("add_lines", &PyCounter::add_lines, "data"_a,
             "Count whole lines of tokens; None, or (line, token) where <s> or </s> is found.")
        .def("finish", &PyCounter::finish, "smoothing"_a, "k"_a, "is_closed"_a, "min_counts"_a,
             "min_word_count"_a,
             nb::sig("def finish(self, smoothing: int, k: float, is_closed: bool, min_counts: "
                     "Sequence[int], min_word_count: int) -> tuple[dict[str, NDArray[Any]], Index, "
                     "list[tuple[float, float, float]], list[bool], int, int]"),
             "Once: (arrays, vocabulary, discounts of each order, which are estimated, "
             "sentences, tokens).");
    m.def("word_ids", &word_ids, "vocabulary"_a, "sentences"_a, "unknown"_a,
          nb::sig("def word_ids(vocabulary: Index, sentences: object, unknown: int) -> "
                  "tuple[NDArray[numpy.int32], NDArray[numpy.int64], tuple[int, int] | None]"),
          "Words as numbers: (ids, offsets, None), or (sentence, token) of what is not a word.");
    m.def("make_vocabulary", &make_vocabulary, "names"_a, "offsets"_a,
          "Number words: names[offsets[w]:offsets[w + 1]] is the word w.");
    nb::class_<NGrams>(m, "NGrams", "An n-gram model, as arrays: see core/ngrams.hpp.")
        .def(nb::init<In<int64_t>, In<int32_t>, In<int32_t>, In<int32_t>, In<double>, In<double>>(),
             "level"_a, "word"_a, "first"_a, "suffix"_a, "log_prob"_a, "backoff"_a)
        .def("score", &score, "ids"_a, "offsets"_a, "starts"_a, "ends"_a, "n_threads"_a,
             nb::sig("def score(self, ids: NDArray[numpy.int32], offsets: NDArray[numpy.int64], "
                     "starts: bool, ends: bool, n_threads: int) -> tuple[NDArray[numpy.float64], "
                     "NDArray[numpy.int8], NDArray[numpy.float64]]"),
             "(log p of each token, length of the n-gram found, sum of each sentence).")
        .def("history", &history, "ids"_a, "starts"_a, "The node after some words.")
        .def("score_all", &score_all, "history"_a, "log p of every word [V].")
        .def("follow", &follow, "history"_a, "word"_a, "The node after one more word.")
        .def(
            "prune", &prune, "threshold"_a, "n_threads"_a,
            nb::sig("def prune(self, threshold: float, n_threads: int) -> dict[str, NDArray[Any]]"),
            "The arrays of a smaller model.")
        .def("mix", &interpolate, "vocabulary"_a, "other"_a, "other_vocabulary"_a, "weight"_a,
             "n_threads"_a,
             nb::sig("def mix(self, vocabulary: Index, other: NGrams, other_vocabulary: Index, "
                     "weight: float, n_threads: int) -> tuple[dict[str, NDArray[Any]], Index]"),
             "The arrays and the vocabulary of weight * self + (1 - weight) * other.")
        .def("format", &format, "vocabulary"_a, "begin"_a, "end"_a,
             "Lines of an ARPA file, for nodes of one level.");
    nb::class_<PyArpaReader>(m, "ArpaReader", "Reads an ARPA file, chunk by chunk.")
        .def(nb::init<>())
        .def("read", &PyArpaReader::read, "data"_a,
             nb::sig("def read(self, data: bytes) -> tuple[int, str, str, str] | None"),
             "None, or (line, expected, found, hint) of a fault.")
        .def(
            "finish", &PyArpaReader::finish, "n_threads"_a,
            nb::sig(
                "def finish(self, n_threads: int) -> tuple[dict[str, NDArray[Any]], Index, bool] | "
                "tuple[int, str, str, str]"),
            "(arrays, vocabulary, whether it has <unk>), or a fault.");
}

}  // namespace tagloom
