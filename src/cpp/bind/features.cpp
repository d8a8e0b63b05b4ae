// The Python face of the index and of the extraction of features: programs, batches and arrays are
// checked here, so that core may trust them.

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "bind/bind.hpp"
#include "bind/gil.hpp"
#include "bind/index.hpp"
#include "bind/vocabulary.hpp"
#include "bind/words.hpp"
#include "core/dense.hpp"
#include "core/extract.hpp"
#include "core/index.hpp"
#include "core/known.hpp"
#include "core/score.hpp"
#include "core/scratch.hpp"
#include "core/threads.hpp"

namespace nb = nanobind;

namespace tagloom {
namespace {

template <typename T, int N>
using In = nb::ndarray<const T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Out = nb::ndarray<nb::numpy, T>;

[[noreturn]] void fail(const std::string& what) { throw nb::value_error(what.c_str()); }

// An array that owns what it is given.
template <class T>
Out<T> give(std::unique_ptr<T[]> data, std::initializer_list<std::size_t> shape) {
    T* p = data.release();
    nb::capsule owner(p, [](void* it) noexcept { delete[] static_cast<T*>(it); });
    return Out<T>(p, shape, owner);
}
template <class T>
Out<T> copy_array(const T* data, std::size_t n) {
    auto copy = std::make_unique_for_overwrite<T[]>(n);
    std::copy(data, data + n, copy.get());
    return give(std::move(copy), {n});
}

using Parts = std::variant<std::string, std::vector<std::string>>;

uint64_t fold(const Parts& parts) {
    if (const auto* one = std::get_if<std::string>(&parts)) return mix(kSeed, hash_part(*one));
    uint64_t h = kSeed;
    for (const std::string& part : std::get<1>(parts)) h = mix(h, hash_part(part));
    return h;
}

// ---- Index ----

using Names = std::pair<nb::bytes, In<int64_t, 1>>;

PyIndex index_from_keys(In<uint64_t, 1> keys, std::optional<Names> names) {
    const std::span own(keys.data(), keys.shape(0));
    const std::size_t size = own.size();
    try {
        if (!names) {
            const WithoutGil unlocked;
            return PyIndex(Index(own));
        }
        const auto& [blob, offsets] = *names;
        bool fits = offsets.shape(0) == size + 1 && offsets(0) == 0 &&
                    offsets(size) == static_cast<int64_t>(blob.size());
        for (std::size_t i = 0; fits && i < size; i++) fits = offsets(i) <= offsets(i + 1);
        if (!fits) {
            fail("The offsets of the names do not cut " + std::to_string(blob.size()) +
                 " bytes into the names of " + std::to_string(size) + " attributes.");
        }
        return PyIndex(Index(own, std::string(blob.c_str(), blob.size()),
                             std::vector<int64_t>(offsets.data(), offsets.data() + size + 1)));
    } catch (const std::invalid_argument& error) {
        fail("These are no keys of an index: " + std::string(error.what()) + ".");
    }
}

int32_t index_add(PyIndex& self, const Parts& parts) {
    const PyIndex::Growing growing(self);
    return self.index.add(fold(parts), [&](std::string& out) {
        if (const auto* one = std::get_if<std::string>(&parts)) {
            out.append(*one);
        } else {
            for (const std::string& part : std::get<1>(parts)) out.append(part);
        }
    });
}

const Index& named(const PyIndex& self) {
    self.check_idle();
    if (!self.index.can_grow()) fail("This Index was made from keys without names.");
    return self.index;
}

nb::tuple index_names(const PyIndex& self) {
    const Index& index = named(self);
    return nb::make_tuple(nb::bytes(index.names().data(), index.names().size()),
                          copy_array(index.offsets().data(), index.offsets().size()));
}

PyIndex index_keep(const PyIndex& self, In<bool, 1> mask) {
    self.check_idle();
    if (mask.shape(0) != self.index.size()) {
        fail("keep() needs a bool for each of " + std::to_string(self.index.size()) +
             " attributes; got " + std::to_string(mask.shape(0)) + ".");
    }
    return PyIndex(self.index.keep(mask.data()));
}

Out<uint64_t> index_keys(const PyIndex& self) {
    self.check_idle();
    const std::vector<uint64_t> keys = self.index.keys();
    return copy_array(keys.data(), keys.size());
}

// ---- Extractor ----

using AtomSpec = std::tuple<int32_t, std::string, nb::object>;
using TemplateSpec =
    std::tuple<std::vector<std::string>, std::vector<std::pair<uint32_t, int32_t>>, int32_t>;

template <class T>
T argument(std::size_t a, const std::string& kind, const nb::object& given, const char* expected) {
    T value;
    if (!nb::try_cast(given, value)) {
        fail("atom " + std::to_string(a) + ", '" + kind + "': expected " + expected + ", found " +
             nb::repr(given).c_str() + ".");
    }
    return value;
}

class Extractor {
  public:
    Extractor(const std::vector<AtomSpec>& atoms, const std::vector<bool>& boundary,
              const std::vector<TemplateSpec>& templates, std::vector<std::string> before,
              std::vector<std::string> after) {
        if (boundary.size() != atoms.size()) {
            fail("expected a boundary flag for each of " + std::to_string(atoms.size()) +
                 " atoms, found " + std::to_string(boundary.size()) + ".");
        }
        Program& program = compiled_.program;
        std::vector<const Kind*> kinds;
        for (std::size_t a = 0; a < atoms.size(); a++) {
            const auto& [column, name, given] = atoms[a];
            const Kind* kind = find_kind(name);
            if (!kind) {
                fail("atom " + std::to_string(a) + ": no kind '" + name + "'; there are " +
                     kind_names() + ".");
            }
            kinds.push_back(kind);
            Atom atom;
            atom.column = column;
            atom.yields_outside = boundary[a];
            atom.function = kind->function;
            if (kind->argument == Atom::Argument::nothing && !given.is_none()) {
                fail("atom " + std::to_string(a) + ", '" + name + "': takes no argument, found " +
                     nb::repr(given).c_str() + ".");
            } else if (kind->argument == Atom::Argument::length) {
                atom.length = argument<uint32_t>(a, name, given, "a length");
                if (atom.length == 0) {
                    fail("atom " + std::to_string(a) + ", '" + name +
                         "': expected a length of at least 1, found 0.");
                }
            } else if (kind->argument == Atom::Argument::list) {
                for (std::string& affix :
                     argument<std::vector<std::string>>(a, name, given, "a list of str")) {
                    if (affix.empty()) {
                        fail("atom " + std::to_string(a) + ", '" + name +
                             "': the list has an empty string.");
                    }
                    atom.lengths.push_back(affix.size());
                    atom.listed.insert(std::move(affix));
                }
                std::sort(atom.lengths.rbegin(), atom.lengths.rend());
                atom.lengths.erase(std::unique(atom.lengths.begin(), atom.lengths.end()),
                                   atom.lengths.end());
            } else if (kind->argument == Atom::Argument::function &&
                       !nb::isinstance<nb::callable>(given)) {
                fail("atom " + std::to_string(a) + ", '" + name + "': expected a function, found " +
                     nb::repr(given).c_str() + ".");
            }
            program.atoms.push_back(std::move(atom));
        }
        for (const auto& [literals, factors, numeric] : templates) {
            Template one;
            one.literals = literals;
            for (const auto& [atom, offset] : factors) one.factors.push_back({atom, offset});
            one.numeric = numeric;
            program.templates.push_back(std::move(one));
        }
        program.before = std::move(before);
        program.after = std::move(after);
        program.prepare();

        compiled_.functions.resize(program.columns);
        compiled_.needs_lowered.resize(program.columns);
        compiled_.needs_punctuation.resize(program.columns);
        for (std::size_t a = 0; a < atoms.size(); a++) {
            Atom& atom = program.atoms[a];
            const auto c = static_cast<std::size_t>(atom.column);
            if (kinds[a]->needs_lowered) compiled_.needs_lowered[c] = true;
            if (kinds[a]->needs_punctuation) {
                compiled_.needs_punctuation[c] = true;
                compiled_.category = nb::module_::import_("unicodedata").attr("category");
            }
            if (kinds[a]->argument == Atom::Argument::function) {
                atom.length = static_cast<uint32_t>(compiled_.functions[c].size());
                compiled_.functions[c].push_back(nb::borrow<nb::callable>(std::get<2>(atoms[a])));
            }
        }
    }

    const PyProgram& compiled() const { return compiled_; }

    nb::tuple encode(nb::handle columns, nb::handle numeric, PyIndex& index, bool grow,
                     int64_t threads) const {
        PyBatch read(compiled_, columns, numeric);
        Encoded encoded;
        if (grow) {
            const PyIndex::Growing growing(index);
            const WithoutGil unlocked;
            featurise(compiled_.program, read.batch);
            encoded = tagloom::encode(compiled_.program, read.batch, index.index, threads);
        } else {
            index.check_idle();
            const Table table = index.index.table();
            const WithoutGil unlocked;
            featurise(compiled_.program, read.batch);
            encoded = tagloom::encode(compiled_.program, read.batch, table, threads);
        }
        const auto T = static_cast<std::size_t>(read.batch.offsets.back());
        const auto nnz = static_cast<std::size_t>(encoded.indptr[T]);
        nb::object values = nb::none();
        if (encoded.values) values = nb::cast(give(std::move(encoded.values), {nnz}));
        return nb::make_tuple(copy_array(read.batch.offsets.data(), read.batch.offsets.size()),
                              give(std::move(encoded.indptr), {T + 1}),
                              give(std::move(encoded.ids), {nnz}), values);
    }

    // For people to read: no index, no cache of word numbers.
    nb::list names(nb::handle columns, nb::handle numeric) const {
        PyBatch read(compiled_, columns, numeric);
        const Program& program = compiled_.program;
        featurise(program, read.batch);
        nb::list tokens;
        for (std::size_t n = 0; n + 1 < read.batch.offsets.size(); n++) {
            int64_t position = padded(program, read.batch, static_cast<int64_t>(n));
            for (int64_t t = read.batch.offsets[n]; t < read.batch.offsets[n + 1]; t++) {
                nb::list found;
                for (const Template& one : program.templates) {
                    if (fingerprint_at(read.batch, one, position) == kNone) continue;
                    std::string name;
                    append_name(program, read.batch, one, position, name);
                    found.append(nb::make_tuple(
                        name, one.numeric < 0 ? 1.0 : read.batch.numeric[one.numeric][t]));
                }
                tokens.append(found);
                position++;
            }
        }
        return tokens;
    }

  private:
    PyProgram compiled_;
};

// ---- Labels ----

// Lists of labels; every label of the path is one, and the offsets cut it.
nb::list lists_of(const int32_t* y, std::span<const int64_t> offsets, const nb::list& labels) {
    const auto N = static_cast<Py_ssize_t>(offsets.size()) - 1;
    nb::list sentences = nb::steal<nb::list>(PyList_New(N));
    if (!sentences.is_valid()) throw nb::python_error();
    for (Py_ssize_t n = 0; n < N; n++) {
        const Py_ssize_t T_n = offsets[n + 1] - offsets[n];
        PyObject* sentence = PyList_New(T_n);
        if (!sentence) throw nb::python_error();
        for (Py_ssize_t t = 0; t < T_n; t++) {
            PyList_SET_ITEM(sentence, t, Py_NewRef(PyList_GET_ITEM(labels.ptr(), *y++)));
        }
        PyList_SET_ITEM(sentences.ptr(), n, sentence);
    }
    return sentences;
}

nb::list label_lists(In<int32_t, 1> path, In<int64_t, 1> offsets, nb::list labels) {
    const std::size_t T = path.shape(0), Y = labels.size();
    bool fits = offsets.shape(0) > 0 && offsets(0) == 0 &&
                offsets(offsets.shape(0) - 1) == static_cast<int64_t>(T);
    for (std::size_t n = 1; fits && n < offsets.shape(0); n++) fits = offsets(n - 1) <= offsets(n);
    if (!fits) fail("The offsets do not cut " + std::to_string(T) + " positions into sentences.");
    for (std::size_t t = 0; t < T; t++) {
        if (static_cast<uint32_t>(path(t)) >= Y) {
            fail("position " + std::to_string(t) + ": " + std::to_string(path(t)) +
                 " is not one of " + std::to_string(Y) + " labels.");
        }
    }
    return lists_of(path.data(), {offsets.data(), offsets.shape(0)}, labels);
}

// ---- Scorer ----

int64_t check_threads(int64_t threads) {
    if (threads < 1) fail("threads must be at least 1; got " + std::to_string(threads) + ".");
    return threads;
}

using Cols = std::variant<In<uint16_t, 1>, In<uint32_t, 1>>;

WeightRows make_rows(const In<int64_t, 1>& row_ptr, const Cols& cols, const In<float, 1>& weights,
                     int64_t K) {
    return std::visit(
        [&](const auto& array) {
            using Col = std::remove_const_t<typename std::decay_t<decltype(array)>::Scalar>;
            std::string fault;
            if (row_ptr.shape(0) == 0) {
                fault = "row_ptr is empty";
            } else if (array.shape(0) != weights.shape(0)) {
                fault = "there are " + std::to_string(weights.shape(0)) + " weights, but " +
                        std::to_string(array.shape(0)) + " cols";
            } else if (K < 1 || K > 0xffffffff) {
                fault = "K is " + std::to_string(K);
            } else {
                const RowArrays<Col> arrays{row_ptr.data(),
                                            array.data(),
                                            weights.data(),
                                            static_cast<int64_t>(row_ptr.shape(0)) - 1,
                                            static_cast<int64_t>(weights.shape(0)),
                                            K};
                const WithoutGil unlocked;
                fault = arrays.fault();
                if (fault.empty()) return WeightRows(arrays);
            }
            fail("These arrays are no rows of weights: " + fault + ".");
        },
        cols);
}

class PyRows {
  public:
    PyRows(const In<int64_t, 1>& row_ptr, const Cols& cols, const In<float, 1>& weights, int64_t K)
        : rows_(make_rows(row_ptr, cols, weights, K)) {}

    // Scores of attributes that come as CSR.
    Out<float> score(In<int64_t, 1> indptr, In<int32_t, 1> ids, std::optional<In<float, 1>> values,
                     int64_t threads) const {
        check_threads(threads);
        const std::size_t nnz = ids.shape(0);
        bool fits = indptr.shape(0) > 0 && indptr(0) == 0 &&
                    indptr(indptr.shape(0) - 1) == static_cast<int64_t>(nnz) &&
                    (!values || values->shape(0) == nnz);
        for (std::size_t t = 1; fits && t < indptr.shape(0); t++) {
            fits = indptr(t - 1) <= indptr(t);
        }
        if (!fits) fail("indptr, ids and values do not fit each other.");
        uint32_t largest = 0;  // a negative id counts as a large one
        for (std::size_t i = 0; i < nnz; i++) {
            largest = std::max(largest, static_cast<uint32_t>(ids(i)));
        }
        if (nnz > 0 && largest >= rows_.by_id.size()) {
            fail("id " + std::to_string(static_cast<int32_t>(largest)) + " is not among " +
                 std::to_string(rows_.by_id.size()) + " attributes.");
        }
        const std::size_t T = indptr.shape(0) - 1, K = static_cast<std::size_t>(rows_.K);
        auto out = std::make_unique_for_overwrite<float[]>(T * K);
        {
            const WithoutGil unlocked;
            score_encoded(indptr.data(), ids.data(), values ? values->data() : nullptr,
                          static_cast<int64_t>(T), rows_, threads, out.get());
        }
        return give(std::move(out), {T, K});
    }

  private:
    WeightRows rows_;
};

// What it answers never changes: it holds the extractor, has its own copy of everything else, and
// remembers of words only what their text decides.
class Scorer {
  public:
    Scorer(nb::typed<nb::object, Extractor> extractor, const PyIndex& index,
           const In<int64_t, 1>& row_ptr, const Cols& cols, const In<float, 1>& weights, int64_t K)
        : held_(extractor),
          compiled_(nb::cast<const Extractor&>(extractor).compiled()),
          rows_(make_rows(row_ptr, cols, weights, K)),
          plan_(compiled_.program, K),
          empty_(nb::module_::import_("numpy").attr("empty")),
          int64_(nb::module_::import_("numpy").attr("dtype")("int64")),
          float32_(nb::module_::import_("numpy").attr("dtype")("float32")) {
        index.check_idle();
        const Table table = index.index.table();
        if (rows_.by_id.size() != table.size) {
            fail("There are rows of weights for " + std::to_string(rows_.by_id.size()) +
                 " attributes, but the index has " + std::to_string(table.size) + ".");
        }
        const WithoutGil unlocked;
        table_ = RowTable(table, rows_.by_id);
        rows_.by_id = {};  // from here on found by fingerprint
        for (std::size_t c = 0; c < compiled_.program.columns; c++) {
            // What Python was asked once it need not answer the same again.
            known_.push_back(make_memory(scoring(), c, compiled_.functions[c].empty()));
        }
    }

    Scorer(const Scorer&) = delete;
    Scorer& operator=(const Scorer&) = delete;

    nb::tuple emit(nb::handle columns, nb::handle numeric, int64_t threads) const {
        return score(columns, numeric, threads, [&](int64_t T) { return nb::make_tuple(T, K()); });
    }

    nb::tuple edge(nb::handle columns, nb::handle numeric, int64_t threads) const {
        int64_t Y = 1;
        while (Y * Y < K()) Y++;
        if (Y * Y != K()) {
            fail("edge() needs Y * Y outputs; this scorer has " + std::to_string(K()) + ".");
        }
        return score(columns, numeric, threads, [&](int64_t T) { return nb::make_tuple(T, Y, Y); });
    }

    int64_t K() const { return rows_.K; }

    PyBatch read(nb::handle columns, nb::handle numeric) const {
        return PyBatch(compiled_, columns, numeric, known_);
    }
    ScoredWords score_words(Batch& batch, int64_t threads) const {
        return {scoring(), batch, known_, threads};
    }

  private:
    Scoring scoring() const { return {compiled_.program, plan_, table_, rows_}; }

    template <class Shape>
    nb::tuple score(nb::handle columns, nb::handle numeric, int64_t threads,
                    const Shape& shape) const {
        check_threads(threads);
        PyBatch given = read(columns, numeric);
        const Batch& batch = given.batch;
        // Made by numpy itself, an array costs 0.4 us instead of 1.
        const nb::object offsets = empty_(batch.offsets.size(), int64_);
        const nb::object scores = empty_(shape(batch.offsets.back()), float32_);
        const Memory to(offsets), out(scores);
        std::copy(batch.offsets.begin(), batch.offsets.end(), static_cast<int64_t*>(to.view.buf));
        {
            const WithoutGil unlocked;
            tagloom::score(scoring(), given.batch, known_, threads,
                           static_cast<float*>(out.view.buf));
        }
        return nb::make_tuple(offsets, scores);
    }

    // The bytes of an array, to write.
    struct Memory {
        explicit Memory(const nb::object& array) {
            if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_WRITABLE) < 0) {
                throw nb::python_error();
            }
        }
        ~Memory() { PyBuffer_Release(&view); }
        Memory(const Memory&) = delete;
        Memory& operator=(const Memory&) = delete;
        Py_buffer view;
    };

    nb::object held_;
    const PyProgram& compiled_;
    WeightRows rows_;
    RowTable table_;
    Plan plan_;
    std::vector<std::unique_ptr<KnownWords>> known_;  // [columns]
    nb::object empty_, int64_, float32_;              // of numpy
};

// ---- Decoder ----

// From sentences to labels in one go: a scorer, and the moves between its labels. Where that needs
// a closer look, the answer is None: a sentence without a path, or scores that are not finite.
class Decoder {
  public:
    Decoder(nb::typed<nb::object, Scorer> scorer, In<double, 2> trans, In<double, 1> start,
            In<double, 1> stop, nb::list labels)
        : held_(scorer),
          scorer_(nb::cast<const Scorer&>(scorer)),
          trans_(trans.data(), trans.data() + trans.size()),
          start_(start.data(), start.data() + start.size()),
          stop_(stop.data(), stop.data() + stop.size()),
          labels_(labels) {
        const auto Y = static_cast<std::size_t>(scorer_.K());
        if (trans.shape(0) != Y || trans.shape(1) != Y || start.shape(0) != Y ||
            stop.shape(0) != Y || labels.size() != Y) {
            fail("trans, start, stop and labels must be for " + std::to_string(Y) + " labels.");
        }
    }

    nb::object tag(nb::handle columns, nb::handle numeric, int64_t threads) const {
        check_threads(threads);
        PyBatch read = scorer_.read(columns, numeric);
        const std::vector<int64_t>& offsets = read.batch.offsets;
        const auto T = static_cast<std::size_t>(offsets.back());
        const auto path = std::make_unique_for_overwrite<int32_t[]>(T);
        std::atomic<bool> sound = true;
        {
            const WithoutGil unlocked;
            const ScoredWords words = scorer_.score_words(read.batch, threads);
            const std::vector<int64_t> pieces = cut(offsets, threads);
            const auto n_pieces = static_cast<int64_t>(pieces.size()) - 1;
            parallel_for(n_pieces, threads, [&](int64_t p, int64_t) {
                if (sound && !tag_piece(words, offsets, pieces[p], pieces[p + 1], path.get())) {
                    sound = false;
                }
            });
        }
        return sound ? nb::object(lists_of(path.get(), offsets, labels_)) : nb::none();
    }

    // The same for a few lists of tokens, where templates read nothing else; None also for more
    // tokens than fit the cache, and for anything that is no list of lists.
    nb::object tag_few(nb::handle sentences, int64_t threads) const {
        constexpr Py_ssize_t kMost = 1024;  // tokens
        if (!PyList_CheckExact(sentences.ptr())) return nb::none();
        Py_ssize_t T = 0;
        for (Py_ssize_t n = 0; n < PyList_GET_SIZE(sentences.ptr()) && T <= kMost; n++) {
            PyObject* sentence = PyList_GET_ITEM(sentences.ptr(), n);
            if (!PyList_CheckExact(sentence) && !PyTuple_CheckExact(sentence)) return nb::none();
            T += Py_SIZE(sentence);
        }
        if (T > kMost) return nb::none();
        return tag(nb::make_tuple(sentences), nb::make_tuple(), threads);
    }

  private:
    // Where to cut sentences into pieces whose scores stay in a core's cache until they are used,
    // and that are enough for all threads.
    std::vector<int64_t> cut(const std::vector<int64_t>& offsets, int64_t threads) const {
        int64_t most = (256 << 10) / 4 / scorer_.K();  // tokens
        if (threads > 1) most = std::min(most, offsets.back() / threads / 4);
        most = std::max<int64_t>(most, 1024);
        std::vector<int64_t> pieces;
        pieces.reserve(static_cast<std::size_t>(offsets.back() / most) + 2);
        pieces.push_back(0);
        for (std::size_t n = 1; n < offsets.size(); n++) {
            if (offsets[n] - offsets[pieces.back()] >= most || n + 1 == offsets.size()) {
                pieces.push_back(static_cast<int64_t>(n));
            }
        }
        return pieces;
    }

    // Labels of the sentences first .. last - 1; false if that needs a closer look.
    bool tag_piece(const ScoredWords& words, const std::vector<int64_t>& offsets, int64_t first,
                   int64_t last, int32_t* path) const {
        const int64_t begin = offsets[first], T = offsets[last] - begin, Y = scorer_.K();
        thread_local Scratch<float> scores;
        const auto scored = scores.take(static_cast<std::size_t>(T * Y));
        const float* emit = scored.data;
        words.score(begin, begin + T, scored.data);
        int32_t largest = 0;  // without their sign, the bits of floats order as the floats do
        for (int64_t i = 0; i < T * Y; i++) {
            largest = std::max(largest, std::bit_cast<int32_t>(emit[i]) & 0x7fffffff);
        }
        if (largest >= 0x7f800000) return false;  // from there on: infinite, or NaN
        std::vector<int64_t> own;                 // offsets that begin with 0
        if (begin > 0) own.assign(offsets.begin() + first, offsets.begin() + last + 1);
        for (int64_t& offset : own) offset -= begin;
        DenseBatch<float> batch{};
        batch.Y = Y;
        batch.G = batch.levels = 1;
        batch.moves = trans_.data();
        batch.start = start_.data();
        batch.stop = stop_.data();
        batch.emit = emit;
        batch.offsets = begin > 0 ? own.data() : offsets.data() + first;
        batch.N = last - first;
        batch.threads = 1;
        batch.largest_emit = std::bit_cast<float>(largest);
        viterbi(batch, path + begin, nullptr);
        return std::all_of(path + begin, path + begin + T, [](int32_t y) { return y >= 0; });
    }

    nb::object held_;
    const Scorer& scorer_;
    std::vector<double> trans_, start_, stop_;
    nb::list labels_;
};

}  // namespace

void bind_features(nb::module_& m) {
    using namespace nb::literals;
    m.def("fingerprint", &fold, "parts"_a, "The fingerprint of a name, given by its parts.");
    m.def(
        "hash_data",
        [](const In<uint8_t, 1>& data) {
            const WithoutGil unlocked;
            return hash_data({reinterpret_cast<const char*>(data.data()), data.shape(0)});
        },
        "data"_a, "64 bits that stand for many bytes.");

    nb::class_<PyIndex>(m, "Index", "Numbers attributes: fingerprint -> id in [0, size).")
        .def(nb::init<>())
        .def_static("from_keys", &index_from_keys, "keys"_a, "names"_a = nb::none(),
                    nb::sig("def from_keys(keys: NDArray[numpy.uint64], names: tuple[bytes, "
                            "NDArray[numpy.int64]] | None = None) -> Index"),
                    "Number keys() as they come; with the names() it can grow.")
        .def_prop_ro(
            "size", [](const PyIndex& self) { return self.index.size(); },
            "How many attributes there are.")
        .def("add", &index_add, "name"_a,
             "Give a name, or the parts of one, a number unless it has one; count it once more.")
        .def(
            "find",
            [](const PyIndex& self, const Parts& parts) {
                self.check_idle();
                return self.index.table().find(fold(parts));
            },
            "name"_a, "The number of a name, or of the parts of one; -1 if it has none.")
        .def(
            "counts",
            [](const PyIndex& self) {
                const auto& counts = named(self).counts();
                return copy_array(counts.data(), counts.size());
            },
            "How often each attribute was added: [size].")
        .def("names", &index_names,
             nb::sig("def names(self) -> tuple[bytes, NDArray[numpy.int64]]"),
             "All names in UTF-8, one after another, and where they begin: [size + 1].")
        .def("keep", &index_keep, "mask"_a,
             "Only the attributes whose mask is true, renumbered in their old order.")
        .def("keys", &index_keys, nb::sig("def keys(self) -> NDArray[numpy.uint64]"),
             "The fingerprint of each attribute [size], for from_keys().");

    nb::class_<Extractor>(m, "Extractor", "A compiled list of templates.")
        .def(nb::init<const std::vector<AtomSpec>&, const std::vector<bool>&,
                      const std::vector<TemplateSpec>&, std::vector<std::string>,
                      std::vector<std::string>>(),
             "atoms"_a, "boundary"_a, "templates"_a, "before"_a, "after"_a,
             nb::sig("def __init__(self, atoms: Sequence[tuple[int, str, object]], boundary: "
                     "Sequence[bool], templates: Sequence[tuple[Sequence[str], "
                     "Sequence[tuple[int, int]], int]], before: Sequence[str], after: "
                     "Sequence[str]) -> None"))
        .def(
            "encode", &Extractor::encode, "columns"_a, "numeric"_a, "index"_a, "grow"_a,
            "threads"_a = 1,
            nb::sig("def encode(self, columns: Sequence[Sequence[Sequence[str]]], numeric: "
                    "Sequence[NDArray[numpy.float64]], index: Index, grow: bool, threads: int = 1) "
                    "-> tuple[NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.int32], "
                    "NDArray[numpy.float32] | None]"),
            "The attributes of every token: (offsets [N + 1], indptr [T + 1], ids, values).")
        .def("names", &Extractor::names, "columns"_a, "numeric"_a,
             nb::sig("def names(self, columns: Sequence[Sequence[Sequence[str]]], numeric: "
                     "Sequence[NDArray[numpy.float64]]) -> list[list[tuple[str, float]]]"),
             "The names and values of the attributes of every token, flat.")
        .def(
            "vocabulary",
            [](const Extractor& self, nb::handle sentences) {
                return Vocabulary(self.compiled(), sentences);
            },
            "sentences"_a, nb::keep_alive<0, 1>(),
            nb::sig("def vocabulary(self, sentences: Sequence[Sequence[str]]) -> Vocabulary"),
            "Read the words of sentences, for templates that are a chain.");

    nb::class_<PyRows>(m, "Rows",
                       "Rows of weights by attribute, checked once: W weights, K outputs.")
        .def(nb::init<const In<int64_t, 1>&, const Cols&, const In<float, 1>&, int64_t>(),
             "row_ptr"_a, "cols"_a, "weights"_a, "K"_a)
        .def("score", &PyRows::score, "indptr"_a, "ids"_a, "values"_a.none(), "threads"_a = 1,
             "Sum the weighted rows of the attributes of each token: [T, K].");

    nb::class_<Scorer>(
        m, "Scorer",
        "From sentences to scores: an extractor, and copies of an index and of rows of "
        "weights in a layout of their own.")
        .def(nb::init<nb::typed<nb::object, Extractor>, const PyIndex&, const In<int64_t, 1>&,
                      const Cols&, const In<float, 1>&, int64_t>(),
             "extractor"_a, "index"_a, "row_ptr"_a, "cols"_a, "weights"_a, "K"_a)
        .def("emit", &Scorer::emit, "columns"_a, "numeric"_a, "threads"_a = 1,
             nb::sig("def emit(self, columns: Sequence[Sequence[Sequence[str]]], numeric: "
                     "Sequence[NDArray[numpy.float64]], threads: int = 1) -> "
                     "tuple[NDArray[numpy.int64], NDArray[numpy.float32]]"),
             "Score the outputs of every token: (offsets [N + 1], emit [T, K]).")
        .def("edge", &Scorer::edge, "columns"_a, "numeric"_a, "threads"_a = 1,
             nb::sig("def edge(self, columns: Sequence[Sequence[Sequence[str]]], numeric: "
                     "Sequence[NDArray[numpy.float64]], threads: int = 1) -> "
                     "tuple[NDArray[numpy.int64], NDArray[numpy.float32]]"),
             "The same as moves, for K = Y * Y: (offsets [N + 1], edge [T, Y, Y]).");

    nb::class_<Decoder>(m, "Decoder", "From sentences to their best labels: a scorer, and moves.")
        .def(nb::init<nb::typed<nb::object, Scorer>, In<double, 2>, In<double, 1>, In<double, 1>,
                      nb::list>(),
             "scorer"_a, "trans"_a, "start"_a, "stop"_a, "labels"_a,
             nb::sig("def __init__(self, scorer: Scorer, trans: NDArray[numpy.float64], start: "
                     "NDArray[numpy.float64], stop: NDArray[numpy.float64], labels: list[str]) -> "
                     "None"))
        .def("tag", &Decoder::tag, "columns"_a, "numeric"_a, "threads"_a = 1,
             nb::sig("def tag(self, columns: Sequence[Sequence[Sequence[str]]], numeric: "
                     "Sequence[NDArray[numpy.float64]], threads: int = 1) -> "
                     "list[list[str]] | None"),
             "The best labels of every sentence; None if one has no path or no finite scores.")
        .def("tag_few", &Decoder::tag_few, "sentences"_a, "threads"_a = 1,
             nb::sig("def tag_few(self, sentences: object, threads: int = 1) -> "
                     "list[list[str]] | None"),
             "The same for a list of lists of tokens, at once; None if it is not, or too long.");
    m.def("label_lists", &label_lists, "path"_a, "offsets"_a, "labels"_a,
          nb::sig("def label_lists(path: NDArray[numpy.int32], offsets: NDArray[numpy.int64], "
                  "labels: list[str]) -> list[list[str]]"),
          "The labels of each sentence, from their numbers one after another.");
}

}  // namespace tagloom
