// An n-gram model as a Python object, and the arrays in and out of it. Shared by the files that
// bind n-grams.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bind/gil.hpp"
#include "core/ngrams.hpp"

namespace tagloom {

namespace nb = nanobind;

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <class T>
Out<T> give(std::vector<T> numbers) {
    auto* held = new std::vector<T>(std::move(numbers));
    const nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return Out<T>(held->data(), {held->size()}, owner);
}

template <class T>
std::span<const T> view(const In<T>& array) {
    return {array.data(), array.size()};
}

// Whether offsets rise from 0 to `end`.
inline bool is_rising(std::span<const int64_t> offsets, std::size_t end) {
    bool fits = !offsets.empty() && offsets[0] == 0 && offsets.back() == static_cast<int64_t>(end);
    for (std::size_t i = 1; fits && i < offsets.size(); i++) fits = offsets[i - 1] <= offsets[i];
    return fits;
}

// A model over arrays that Python holds.
class NGrams {
  public:
    NGrams(In<int64_t> level, In<int32_t> word, In<int32_t> first, In<int32_t> suffix,
           In<double> log_prob, In<double> backoff)
        : arrays_(nb::make_tuple(level, word, first, suffix, log_prob, backoff)),
          table_{static_cast<int64_t>(level.size()) - 2,
                 view(level),
                 view(word),
                 view(first),
                 view(suffix),
                 view(log_prob),
                 view(backoff)} {
        std::string fault;
        {
            const WithoutGil unlocked;
            fault = table_.find_fault();
        }
        if (!fault.empty()) throw nb::value_error(fault.c_str());
    }

    const NGramTable& table() const { return table_; }

  private:
    nb::tuple arrays_;  // keeps them alive
    NGramTable table_;
};

}  // namespace tagloom
