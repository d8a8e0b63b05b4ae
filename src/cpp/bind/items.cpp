#include "bind/bind.hpp"

namespace tagloom {

void bind_items(nanobind::module_&) {}

}  // namespace tagloom
