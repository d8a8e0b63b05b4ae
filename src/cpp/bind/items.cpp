// Features computed by the user: dicts and lists of features per token (items.hpp), and arrays of
// numbers. They are read in place, under the GIL, and go straight into the index.

#include "bind/items.hpp"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/index.hpp"
#include "core/index.hpp"

namespace nb = nanobind;

namespace tagloom {
namespace {

using Array = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// The encoded tokens so far, in CSR form.
struct Encoding {
    std::vector<int64_t> offsets{0}, indptr{0};
    std::vector<int32_t> ids;
    std::vector<float> values;
    bool all_one = true;

    void add(int32_t id, double value) {
        if (id < 0) return;
        ids.push_back(id);
        values.push_back(static_cast<float>(value));
        all_one &= value == 1.0;
    }
    void end_token() { indptr.push_back(static_cast<int64_t>(ids.size())); }
    void end_sentence(int64_t n_tokens) { offsets.push_back(offsets.back() + n_tokens); }
};

template <class T>
nb::object give(std::vector<T>&& from) {
    auto* held = new std::vector<T>(std::move(from));
    nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T>(held->data(), {held->size()}, owner));
}

nb::tuple give(Encoding&& encoding) {
    nb::object values = nb::none();
    if (!encoding.all_one) values = give(std::move(encoding.values));
    return nb::make_tuple(give(std::move(encoding.offsets)), give(std::move(encoding.indptr)),
                          give(std::move(encoding.ids)), values);
}

// number(fingerprint, name) returns the id of an attribute, -1 if it has none.
template <class Number>
struct Encoder {
    void operator()(NameBatch& batch) {
        uint64_t fingerprints[NameBatch::kMost];
        batch.hash(fingerprints);
        // Looked up one by one, each attribute would wait for the memory of its slot.
        for (int64_t i = 0; i < batch.size(); i++) table.prefetch_id(fingerprints[i]);
        int64_t i = 0;
        const auto add_up_to = [&](int64_t end) {
            for (; i < end; i++) {
                encoding.add(number(fingerprints[i], batch.name(i)), batch.values()[i]);
            }
        };
        for (const int64_t end : batch.ends()) {
            add_up_to(end);
            encoding.end_token();
        }
        add_up_to(batch.size());
    }
    void end_sentence(int64_t n) { encoding.end_sentence(n); }

    const Table& table;
    Encoding& encoding;
    Number number;
};

nb::tuple encode_items(nb::list sentences, PyIndex& index, bool grow) {
    Encoding encoding;
    if (grow) {
        const PyIndex::Growing growing(index);
        const auto number = [&](uint64_t h, std::string_view name) {
            return index.index.add(h, [&](std::string& out) { out.append(name); });
        };
        Encoder encoder{index.index.table(), encoding, number};
        // A value of 0 adds nothing to a score. In training it still counts as seen with its label
        // and so gets a weight, as in CRFsuite.
        Reader(sentences, encoder, true).read();
    } else {
        index.check_idle();
        const Table table = index.index.table();
        const auto number = [&](uint64_t h, std::string_view) { return table.find(h); };
        Encoder encoder{table, encoding, number};
        Reader(sentences, encoder, false).read();
    }
    return give(std::move(encoding));
}

// The names and values of each token.
struct NameLister {
    void operator()(NameBatch& batch) {
        int64_t i = 0;
        const auto add_up_to = [&](int64_t end) {
            for (; i < end; i++) {
                const std::string_view name = batch.name(i);
                token.append(nb::make_tuple(nb::str(name.data(), name.size()), batch.values()[i]));
            }
        };
        for (const int64_t end : batch.ends()) {
            add_up_to(end);
            tokens.append(std::exchange(token, nb::list()));
        }
        add_up_to(batch.size());
    }
    void end_sentence(int64_t) {}

    nb::list tokens, token;
};

nb::list item_names(nb::list sentences) {
    NameLister lister;
    Reader(sentences, lister, false).read();
    return lister.tokens;
}

// Arrays [T, D], one per sentence: number d of a token is attribute x[d].
nb::tuple encode_arrays(const std::vector<Array>& sentences, PyIndex& index, bool grow) {
    Encoding encoding;
    std::vector<std::string> names;
    std::vector<uint64_t> fingerprints;
    Place place;
    const auto read = [&](auto&& number_of) {
        for (const Array& array : sentences) {
            for (std::size_t d = names.size(); d < array.shape(1); d++) {
                names.push_back("x[" + std::to_string(d) + "]");
                fingerprints.push_back(fingerprint(names[d]));
            }
            const auto T = static_cast<int64_t>(array.shape(0));
            for (place.token = 0; place.token < T; place.token++) {
                for (std::size_t d = 0; d < array.shape(1); d++) {
                    const double value = array(place.token, d);
                    if (!std::isfinite(value)) {
                        throw nb::value_error((place.text() + ": the value of feature '" +
                                               names[d] + "' is " + std::to_string(value) +
                                               "; expected a finite number.")
                                                  .c_str());
                    }
                    if (value != 0.0) encoding.add(number_of(d), value);
                }
                encoding.end_token();
            }
            encoding.end_sentence(T);
            place.sentence++;
        }
    };
    if (grow) {
        const PyIndex::Growing growing(index);
        read([&](std::size_t d) {
            return index.index.add(fingerprints[d],
                                   [&](std::string& out) { out.append(names[d]); });
        });
    } else {
        index.check_idle();
        const Table table = index.index.table();
        read([&](std::size_t d) { return table.find(fingerprints[d]); });
    }
    return give(std::move(encoding));
}

}  // namespace

void bind_items(nb::module_& m) {
    using namespace nb::literals;
    m.def(
        "encode_items", &encode_items, "sentences"_a, "index"_a, "grow"_a,
        nb::sig("def encode_items(sentences: list[object], index: Index, grow: bool) -> "
                "tuple[NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.int32], "
                "NDArray[numpy.float32] | None]"),
        "Encode tokens given as dicts and lists: (offsets [N + 1], indptr [T + 1], ids, values).");
    m.def("item_names", &item_names, "sentences"_a,
          nb::sig("def item_names(sentences: list[object]) -> list[list[tuple[str, float]]]"),
          "The names and values of the attributes of every token, flat.");
    m.def("encode_arrays", &encode_arrays, "sentences"_a, "index"_a, "grow"_a,
          nb::sig("def encode_arrays(sentences: Sequence[NDArray[numpy.float64]], index: Index, "
                  "grow: bool) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64], "
                  "NDArray[numpy.int32], NDArray[numpy.float32] | None]"),
          "The same for arrays [T, D] of numbers: column d is attribute x[d]; zeros are left out.");
}

}  // namespace tagloom
