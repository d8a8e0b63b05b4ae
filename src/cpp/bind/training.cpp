#include "bind/bind.hpp"

namespace tagloom {

void bind_training(nanobind::module_&) {}

}  // namespace tagloom
