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

// Attributes and ends of tokens that wait to be encoded, some tokens at a time: looked up one by
// one, each attribute would wait for the memory of its slot.
class Waiting {
  public:
    explicit Waiting(bool keeps_names) : keeps_names_(keeps_names) {}

    void add(const Table& table, std::string_view name, double value) {
        const uint64_t h = fingerprint(name);
        table.prefetch_id(h);
        all_.push_back({h, value, names_.size(), false});
        if (keeps_names_) names_.append(name);  // the str may be gone when it is numbered
    }
    void end_token() { all_.push_back({0, 0, names_.size(), true}); }
    bool is_full() const { return all_.size() >= kMost; }

    // Calls encoding.add(number(fingerprint, name), value) or encoding.end_token() in order.
    template <class Number>
    void flush(Encoding& encoding, const Number& number) {
        for (std::size_t i = 0; i < all_.size(); i++) {
            if (all_[i].is_end) {
                encoding.end_token();
            } else {  // an end follows
                const std::string_view names(names_.data() + all_[i].begin,
                                             all_[i + 1].begin - all_[i].begin);
                encoding.add(number(all_[i].fingerprint, names), all_[i].value);
            }
        }
        all_.clear();
        names_.clear();
    }

  private:
    static constexpr std::size_t kMost = 256;
    struct One {
        uint64_t fingerprint;
        double value;
        std::size_t begin;  // of the name
        bool is_end;        // of a token
    };
    const bool keeps_names_;
    std::vector<One> all_;
    std::string names_;
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

template <class Number>
void encode_tokens(nb::handle sentences, const Table& table, bool grow, Encoding& encoding,
                   const Number& number) {
    Place place;
    Waiting waiting(grow);
    const auto take = [&](std::string_view name, double value) { waiting.add(table, name, value); };
    // A value of 0 adds nothing to a score. In training it still counts as seen with its label
    // and so gets a weight, as in CRFsuite.
    Reader reader(place, take, grow);
    const auto read = [&](nb::handle item) {
        reader.item(item);
        waiting.end_token();
        if (waiting.is_full()) waiting.flush(encoding, number);
    };
    for_each_token(sentences, place, read, [&](int64_t n) { encoding.end_sentence(n); });
    waiting.flush(encoding, number);
}

nb::tuple encode_items(nb::list sentences, PyIndex& index, bool grow) {
    Encoding encoding;
    if (grow) {
        const PyIndex::Growing growing(index);
        encode_tokens(sentences, index.index.table(), grow, encoding,
                      [&](uint64_t h, std::string_view name) {
                          return index.index.add(h, [&](std::string& out) { out.append(name); });
                      });
    } else {
        index.check_idle();
        const Table table = index.index.table();
        encode_tokens(sentences, table, grow, encoding,
                      [&](uint64_t h, std::string_view) { return table.find(h); });
    }
    return give(std::move(encoding));
}

nb::list item_names(nb::list sentences) {
    Place place;
    nb::list tokens, found;
    const auto take = [&](std::string_view name, double value) {
        found.append(nb::make_tuple(nb::str(name.data(), name.size()), value));
    };
    Reader reader(place, take, false);
    const auto read = [&](nb::handle item) {
        found = nb::list();
        reader.item(item);
        tokens.append(found);
    };
    for_each_token(sentences, place, read, [](int64_t) {});
    return tokens;
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
