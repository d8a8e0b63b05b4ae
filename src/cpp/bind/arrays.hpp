// NumPy arrays in and out of the bindings, and the checks that keep every read inside its array.
#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bind/casters.hpp"

namespace tagloom {

namespace nb = nanobind;

template <class T, int D>
using Array = nb::ndarray<T, nb::numpy, nb::ndim<D>, nb::c_contig, nb::device::cpu>;
template <class T, int D>
using Maybe = std::optional<Array<T, D>>;

inline void require(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
}

template <class A>
auto data_or_null(const std::optional<A>& array) -> decltype(array->data()) {
    return array ? array->data() : nullptr;
}

// A NumPy array that owns the vector's memory.
template <class T>
nb::object to_numpy(std::vector<T>&& values, std::initializer_list<size_t> shape) {
    auto* own = new std::vector<T>(std::move(values));
    nb::capsule owner(own, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T>(own->data(), shape, owner));
}

inline void check_offsets(const Array<const int64_t, 1>& offsets, int64_t tokens) {
    const int64_t n = offsets.shape(0);
    require(n >= 1 && offsets(0) == 0 && offsets(n - 1) == tokens,
            "offsets must run from 0 to the number of tokens");
    for (int64_t i = 0; i + 1 < n; ++i)
        require(offsets(i) <= offsets(i + 1), "offsets must not decrease");
}

}  // namespace tagloom
