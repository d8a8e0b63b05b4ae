#include "bind/bind.hpp"
namespace nb = nanobind;
namespace tagloom {
void bind_trellis(nb::module_& m) {
    m.def("instruction_sets", [] { return nb::make_tuple("baseline"); });
}
}  // namespace tagloom
