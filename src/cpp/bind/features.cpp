// Python bindings of the index and of feature extraction. Programs, batches and arrays are checked
// here, so that core may trust them.

#include <nanobind/ndarray.h>

#include <algorithm>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/extractor.hpp"
#include "bind/gil.hpp"
#include "bind/index.hpp"
#include "bind/vocabulary.hpp"
#include "bind/words.hpp"
#include "core/extract.hpp"
#include "core/index.hpp"

namespace nb = nanobind;

namespace tagloom {
namespace {

template <typename T, int N>
using In = nb::ndarray<const T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Out = nb::ndarray<nb::numpy, T>;

[[noreturn]] void fail(const std::string& what) { throw nb::value_error(what.c_str()); }

// A NumPy array that takes over the memory.
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
            fail("The offsets of the names must be " + std::to_string(size + 1) +
                 " numbers that rise from 0 to " + std::to_string(blob.size()) + ".");
        }
        return PyIndex(Index(own, std::string(blob.c_str(), blob.size()),
                             std::vector<int64_t>(offsets.data(), offsets.data() + size + 1)));
    } catch (const std::invalid_argument& error) {
        fail("Not the keys of an index: " + std::string(error.what()) + ".");
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
    if (!self.index.can_grow()) fail("This Index has no names: it was built from keys alone.");
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
        fail("mask must have one bool for each of " + std::to_string(self.index.size()) +
             " attributes; got " + std::to_string(mask.shape(0)) + ".");
    }
    return PyIndex(self.index.keep(mask.data()));
}

Out<uint64_t> index_keys(const PyIndex& self) {
    self.check_idle();
    const std::vector<uint64_t> keys = self.index.keys();
    return copy_array(keys.data(), keys.size());
}

nb::tuple merge(const std::vector<In<uint64_t, 1>>& keys,
                const std::vector<In<int64_t, 1>>& counts) {
    if (keys.size() != counts.size()) fail("keys and counts must have one array for each shard.");
    std::vector<std::span<const uint64_t>> all_keys;
    std::vector<std::span<const int64_t>> all_counts;
    for (std::size_t s = 0; s < keys.size(); s++) {
        if (keys[s].shape(0) != counts[s].shape(0)) {
            fail("keys and counts of shard " + std::to_string(s) + " must have one length.");
        }
        all_keys.emplace_back(keys[s].data(), keys[s].shape(0));
        all_counts.emplace_back(counts[s].data(), counts[s].shape(0));
    }
    MergedKeys merged;
    {
        const WithoutGil unlocked;
        merged = merge_keys(all_keys, all_counts);
    }
    nb::list ids;
    for (const std::vector<int32_t>& of : merged.ids) ids.append(copy_array(of.data(), of.size()));
    return nb::make_tuple(copy_array(merged.keys.data(), merged.keys.size()),
                          copy_array(merged.counts.data(), merged.counts.size()), ids);
}

// ---- Extractor ----

template <class T>
T argument(std::size_t a, const std::string& kind, const nb::object& given, const char* expected) {
    T value;
    if (!nb::try_cast(given, value)) {
        fail("atom " + std::to_string(a) + ", '" + kind + "': expected " + expected + ", found " +
             nb::repr(given).c_str() + ".");
    }
    return value;
}

}  // namespace

Extractor::Extractor(const std::vector<AtomSpec>& atoms, const std::vector<bool>& boundary,
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
            fail("atom " + std::to_string(a) + ": unknown kind '" + name + "'; the kinds are " +
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

nb::tuple Extractor::encode(nb::handle columns, nb::handle numeric, PyIndex& index, bool grow,
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

nb::list Extractor::names(nb::handle columns, nb::handle numeric) const {
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

void bind_features(nb::module_& m) {
    using namespace nb::literals;
    m.def("fingerprint", &fold, "parts"_a, "The fingerprint of a name, or of the parts of one.");
    m.def(
        "hash_data",
        [](const In<uint8_t, 1>& data) {
            const WithoutGil unlocked;
            return hash_data({reinterpret_cast<const char*>(data.data()), data.shape(0)});
        },
        "data"_a, "A 64-bit hash of an array of bytes.");

    m.def("merge_keys", &merge, "keys"_a, "counts"_a,
          nb::sig("def merge_keys(keys: Sequence[NDArray[numpy.uint64]], counts: "
                  "Sequence[NDArray[numpy.int64]]) -> tuple[NDArray[numpy.uint64], "
                  "NDArray[numpy.int64], list[NDArray[numpy.int32]]]"),
          "Merge the attributes of shards in order: their keys and counts, and the number of each "
          "attribute of each shard.");
    nb::class_<PyIndex>(m, "Index", "Numbers attributes: fingerprint -> id in [0, size).")
        .def(nb::init<>())
        .def_static("from_keys", &index_from_keys, "keys"_a, "names"_a = nb::none(),
                    nb::sig("def from_keys(keys: NDArray[numpy.uint64], names: tuple[bytes, "
                            "NDArray[numpy.int64]] | None = None) -> Index"),
                    "Rebuild an index from its keys(), numbered in order; with its names() it can "
                    "grow.")
        .def_prop_ro(
            "size", [](const PyIndex& self) { return self.index.size(); },
            "The number of attributes.")
        .def("add", &index_add, "name"_a,
             "The number of a name, or of the parts of one, new if need be; counts it once more.")
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
        .def(
            "counts_of",
            [](const PyIndex& self, In<int32_t, 1> ids) {
                const auto& counts = named(self).counts();
                auto out = std::make_unique_for_overwrite<int64_t[]>(ids.shape(0));
                for (std::size_t i = 0; i < ids.shape(0); i++) {
                    if (ids(i) < 0 || static_cast<std::size_t>(ids(i)) >= counts.size()) {
                        fail("id " + std::to_string(ids(i)) + " is out of range.");
                    }
                    out[i] = counts[static_cast<std::size_t>(ids(i))];
                }
                return give(std::move(out), {ids.shape(0)});
            },
            "ids"_a, "How often some attributes were added.")
        .def("names", &index_names,
             nb::sig("def names(self) -> tuple[bytes, NDArray[numpy.int64]]"),
             "All names in UTF-8, one after another, and their offsets [size + 1].")
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
            "Read the words of sentences, for templates from general to specific.");
}

}  // namespace tagloom
