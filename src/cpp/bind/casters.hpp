// Converts str, lists, tuples, dicts and None to the containers of C++, and back.
//
// nanobind's own converters of arguments must not throw, so a lack of memory in them ends the
// process. Those below throw: nanobind then raises MemoryError. All files of bind/ include this
// file in place of nanobind/stl: two converters of one type in one program would be undefined.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/detail/nb_dict.h>
#include <nanobind/stl/detail/nb_list.h>
#include <nanobind/stl/detail/nb_optional.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace nanobind::detail {

// Reads one value; false if it has another type.
template <class T, class Take>
bool take_value(handle source, uint32_t flags, cleanup_list* cleanup, const Take& take) {
    make_caster<T> caster;
    if (!caster.from_python(source, flags_for_local_caster<T>(flags), cleanup) ||
        !caster.template can_cast<T>())
        return false;
    take(caster.operator cast_t<T>());
    return true;
}

template <>
struct type_caster<std::string> {
    NB_TYPE_CASTER(std::string, const_name("str"))

    bool from_python(handle source, uint32_t, cleanup_list*) {
        if (!PyUnicode_Check(source.ptr())) return false;
        Py_ssize_t size;
        const char* text = PyUnicode_AsUTF8AndSize(source.ptr(), &size);
        if (!text) {
            PyErr_Clear();
            return false;
        }
        value.assign(text, static_cast<std::size_t>(size));
        return true;
    }
    static handle from_cpp(const std::string& text, rv_policy, cleanup_list*) noexcept {
        return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
    }
};

template <class T>
struct type_caster<std::vector<T>> : list_caster<std::vector<T>, T> {
    bool from_python(handle source, uint32_t flags, cleanup_list* cleanup) {
        std::size_t size;
        PyObject* copy;
        PyObject** items = NB_CALL(seq_get)(source.ptr(), &size, &copy);
        const object held = steal(copy);
        if (!items) return false;
        this->value.clear();
        this->value.reserve(size);
        for (std::size_t i = 0; i < size; i++) {
            if (!take_value<T>(items[i], flags, cleanup, [this](auto&& x) {
                    this->value.push_back(std::forward<decltype(x)>(x));
                }))
                return false;
        }
        return true;
    }
};

template <class T>
struct remove_opt_mono<std::optional<T>> : remove_opt_mono<T> {};
template <class T>
struct has_arg_defaults<std::optional<T>> : std::true_type {};
template <>
struct type_caster<std::nullopt_t> : none_caster<std::nullopt_t> {};
template <class T>
struct type_caster<std::optional<T>> : optional_caster<std::optional<T>> {
    bool from_python(handle source, uint32_t flags, cleanup_list* cleanup) {
        this->value.reset();
        return source.is_none() || take_value<T>(source, flags, cleanup, [this](auto&& x) {
                   this->value.emplace(std::forward<decltype(x)>(x));
               });
    }
};

template <class Key, class T>
struct type_caster<std::map<Key, T>> : dict_caster<std::map<Key, T>, Key, T> {
    bool from_python(handle source, uint32_t flags, cleanup_list* cleanup) {
        std::size_t size;
        PyObject* copy;
        PyObject** items = NB_CALL(mapping_get)(source.ptr(), &size, &copy);
        const object held = steal(copy);
        if (!items) return false;
        this->value.clear();
        for (std::size_t i = 0; i < size; i++) {
            const bool is_read = take_value<Key>(items[2 * i], flags, cleanup, [&](const Key& key) {
                if (!take_value<T>(items[2 * i + 1], flags, cleanup, [&](auto&& x) {
                        this->value.emplace(key, std::forward<decltype(x)>(x));
                    }))
                    throw next_overload();
            });
            if (!is_read) return false;
        }
        return true;
    }
};

// The parts of a tuple are made when it is cast: they may have no default.
template <class... Ts>
struct tuple_caster {
    template <class T>
    using Cast = std::tuple<Ts...>;
    using Indices = std::index_sequence_for<Ts...>;
    static constexpr auto Name =
        const_name("tuple[") + concat(make_caster<Ts>::Name...) + const_name("]");

    bool from_python(handle source, uint32_t flags, cleanup_list* cleanup) {
        PyObject* copy;
        PyObject** items = NB_CALL(seq_get_with_size)(source.ptr(), sizeof...(Ts), &copy);
        held = steal(copy);
        return items && read(items, flags, cleanup, Indices{});
    }
    template <class T>
    static handle from_cpp(T&& tuple, rv_policy policy, cleanup_list* cleanup) noexcept {
        return write(std::forward<T>(tuple), policy, cleanup, Indices{});
    }
    template <class>
    bool can_cast() const noexcept {
        return std::apply([](auto&... x) { return (x.template can_cast<Ts>() && ...); }, casters);
    }

    std::tuple<make_caster<Ts>...> casters;
    object held;

  private:
    template <std::size_t... i>
    bool read(PyObject** items, uint32_t flags, cleanup_list* cleanup, std::index_sequence<i...>) {
        return (std::get<i>(casters).from_python(items[i], flags_for_local_caster<Ts>(flags),
                                                 cleanup) &&
                ...);
    }
    template <class T, std::size_t... i>
    static handle write(T&& tuple, rv_policy policy, cleanup_list* cleanup,
                        std::index_sequence<i...>) noexcept {
        PyObject* items[sizeof...(Ts)]{};
        (void)(... && ((items[i] = make_caster<Ts>::from_cpp(forward_like_<T>(std::get<i>(tuple)),
                                                             policy, cleanup)
                                       .ptr()) != nullptr));
        return NB_CALL(tuple_new)(items, sizeof...(Ts));
    }
};

template <class... Ts>
struct type_caster<std::tuple<Ts...>> : tuple_caster<Ts...> {
    using Value = std::tuple<Ts...>;
    explicit operator Value() {
        return std::apply([](auto&... x) { return Value(x.operator cast_t<Ts>()...); },
                          this->casters);
    }
};
template <class A, class B>
struct type_caster<std::pair<A, B>> : tuple_caster<A, B> {
    using Value = std::pair<A, B>;
    template <class T>
    using Cast = Value;
    explicit operator Value() {
        return Value(std::get<0>(this->casters).operator cast_t<A>(),
                     std::get<1>(this->casters).operator cast_t<B>());
    }
};

// The first alternative that the value has without a conversion, else the first with one.
template <class... Ts>
struct type_caster<std::variant<Ts...>> {
    NB_TYPE_CASTER(std::variant<Ts...>, union_name(make_caster<Ts>::Name...))

    bool from_python(handle source, uint32_t flags, cleanup_list* cleanup) {
        const auto any_of = [&](uint32_t with) {
            return (take_value<Ts>(source, with, cleanup,
                                   [this](auto&& x) { value = std::forward<decltype(x)>(x); }) ||
                    ...);
        };
        if (flags & cast_flags::convert) {
            if (any_of(flags & ~static_cast<uint32_t>(cast_flags::convert))) return true;
        }
        return any_of(flags);
    }
    template <class T>
    static handle from_cpp(T&& value, rv_policy policy, cleanup_list* cleanup) noexcept {
        return std::visit(
            [&](auto&& x) {
                return make_caster<decltype(x)>::from_cpp(std::forward<decltype(x)>(x), policy,
                                                          cleanup);
            },
            std::forward<T>(value));
    }
};

}  // namespace nanobind::detail
