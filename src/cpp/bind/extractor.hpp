// A compiled list of templates as a Python object.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bind/index.hpp"
#include "bind/words.hpp"

namespace tagloom {

// (column, kind, argument)
using AtomSpec = std::tuple<int32_t, std::string, nanobind::object>;
// (literals, (atom, offset) of each factor, numeric column or -1)
using TemplateSpec =
    std::tuple<std::vector<std::string>, std::vector<std::pair<uint32_t, int32_t>>, int32_t>;

class Extractor {
  public:
    Extractor(const std::vector<AtomSpec>& atoms, const std::vector<bool>& boundary,
              const std::vector<TemplateSpec>& templates, std::vector<std::string> before,
              std::vector<std::string> after);

    const PyProgram& compiled() const { return compiled_; }

    nanobind::tuple encode(nanobind::handle columns, nanobind::handle numeric, PyIndex& index,
                           bool grow, int64_t threads) const;
    // The names and values of attributes, for display; needs no index.
    nanobind::list names(nanobind::handle columns, nanobind::handle numeric) const;

  private:
    PyProgram compiled_;
};

}  // namespace tagloom
