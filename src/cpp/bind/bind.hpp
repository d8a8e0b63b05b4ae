// What module.cpp calls: one function per subject.
#pragma once

#include <nanobind/nanobind.h>

namespace tagloom {
void bind_evaluation(nanobind::module_& m);
void bind_sequences(nanobind::module_& m);
void bind_trellis(nanobind::module_& m);
}  // namespace tagloom
