// Reads str, lists and tuples of Python directly, or by functions where a module for the stable ABI
// is built (Py_LIMITED_API), in which objects are opaque.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tagloom {

#ifdef Py_LIMITED_API

inline Py_ssize_t list_size(PyObject* list) { return PyList_Size(list); }
inline PyObject* list_item(PyObject* list, Py_ssize_t i) { return PyList_GetItem(list, i); }
// Takes over the reference to the item; the list is new.
inline void set_item(PyObject* list, Py_ssize_t i, PyObject* item) {
    PyList_SetItem(list, i, item);
}
inline double float_value(PyObject* number) { return PyFloat_AsDouble(number); }
inline Py_ssize_t text_length(PyObject* text) { return PyUnicode_GetLength(text); }
inline Py_UCS4 read_point(PyObject* text, Py_ssize_t i) { return PyUnicode_ReadChar(text, i); }

// The text of a str in ASCII; no data if it has other characters.
inline std::string_view ascii_text(PyObject* text) {
    Py_ssize_t size;
    const char* data = PyUnicode_AsUTF8AndSize(text, &size);  // which the object keeps
    if (!data) PyErr_Clear();
    if (!data || size != PyUnicode_GetLength(text)) return {};
    return {data, static_cast<std::size_t>(size)};
}
// Whether the bytes of ascii_text() follow a header in the memory of the object.
inline bool is_after_header(PyObject*) { return false; }

inline std::string type_name(PyObject* object) {
    return nanobind::cast<std::string>(nanobind::handle(Py_TYPE(object)).attr("__name__"));
}

#else

inline Py_ssize_t list_size(PyObject* list) { return PyList_GET_SIZE(list); }
inline PyObject* list_item(PyObject* list, Py_ssize_t i) { return PyList_GET_ITEM(list, i); }
inline void set_item(PyObject* list, Py_ssize_t i, PyObject* item) {
    PyList_SET_ITEM(list, i, item);
}
inline double float_value(PyObject* number) { return PyFloat_AS_DOUBLE(number); }
inline Py_ssize_t text_length(PyObject* text) { return PyUnicode_GET_LENGTH(text); }
inline Py_UCS4 read_point(PyObject* text, Py_ssize_t i) { return PyUnicode_READ_CHAR(text, i); }

inline std::string_view ascii_text(PyObject* text) {
    if (!PyUnicode_IS_COMPACT_ASCII(text)) {
        if (!PyUnicode_IS_ASCII(text)) return {};
    }
    return {static_cast<const char*>(PyUnicode_DATA(text)),
            static_cast<std::size_t>(PyUnicode_GET_LENGTH(text))};
}
inline bool is_after_header(PyObject* text) { return PyUnicode_IS_COMPACT_ASCII(text) != 0; }

inline std::string type_name(PyObject* object) { return Py_TYPE(object)->tp_name; }

#endif

// The elements of a list or tuple, borrowed; size is -1 for anything else. No Python code may run
// while it is in use.
class Items {
  public:
    explicit Items(PyObject* sequence) {
#ifdef Py_LIMITED_API
        sequence_ = sequence;
        is_list_ = PyList_Check(sequence);
        if (is_list_) {
            size = PyList_Size(sequence);
        } else if (PyTuple_Check(sequence)) {
            size = PyTuple_Size(sequence);
        }
#else
        if (PyList_Check(sequence)) {
            items_ = reinterpret_cast<PyListObject*>(sequence)->ob_item;
            size = PyList_GET_SIZE(sequence);
        } else if (PyTuple_Check(sequence)) {
            items_ = reinterpret_cast<PyTupleObject*>(sequence)->ob_item;
            size = PyTuple_GET_SIZE(sequence);
        }
#endif
    }
    PyObject* operator[](Py_ssize_t i) const {
#ifdef Py_LIMITED_API
        return is_list_ ? PyList_GetItem(sequence_, i) : PyTuple_GetItem(sequence_, i);
#else
        return items_[i];
#endif
    }
    // The memory of the first elements.
    [[gnu::always_inline]] void prefetch() const {
#ifndef Py_LIMITED_API
        __builtin_prefetch(items_);
        __builtin_prefetch(items_ + 8);
#endif
    }

    Py_ssize_t size = -1;

  private:
#ifdef Py_LIMITED_API
    PyObject* sequence_ = nullptr;
    bool is_list_ = false;
#else
    PyObject** items_ = nullptr;
#endif
};

}  // namespace tagloom
