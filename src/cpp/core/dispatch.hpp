// Chooses the kernels: those of the widest instruction set that this machine has, unless another is
// selected.
#pragma once

#include <string>
#include <vector>

#include "core/kernels.hpp"

namespace tagloom {

std::vector<std::string> instruction_sets();        // those this machine can run, narrowest first
const Kernels& kernels();                           // the ones in use
bool use_instruction_set(const std::string& name);  // false if this machine cannot run it

}  // namespace tagloom
