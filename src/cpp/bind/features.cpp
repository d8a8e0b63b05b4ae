#include "bind/bind.hpp"

namespace tagloom {

void bind_features(nanobind::module_&) {}

}  // namespace tagloom
