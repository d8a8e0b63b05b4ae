// The distinct words of a corpus, for taggers that learn by counting.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "bind/words.hpp"
#include "core/chains.hpp"

namespace tagloom {

class Vocabulary {
  public:
    template <class T, int N>
    using In =
        nanobind::ndarray<const T, nanobind::ndim<N>, nanobind::c_contig, nanobind::device::cpu>;

    // Reads a list of lists of str with templates that look at one token each.
    Vocabulary(const PyProgram& compiled, nanobind::handle sentences);
    Vocabulary(Vocabulary&&) = default;

    nanobind::tuple read();
    nanobind::tuple find_alike(In<double, 2> counts, In<bool, 1> chosen, nanobind::callable lower,
                               nanobind::callable capitalise);
    nanobind::tuple make_chains(In<double, 2> counts, In<bool, 1> is_rare, In<bool, 1> is_known);

  private:
    LabelCounts check(const In<double, 2>& counts, const In<bool, 1>& one,
                      const In<bool, 1>& other) const;

    const PyProgram& compiled_;
    PyBatch read_;
    std::size_t V_ = 0;  // words of the sentences; variants come after them
};

}  // namespace tagloom
