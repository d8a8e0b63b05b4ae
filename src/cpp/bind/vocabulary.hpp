// The distinct words of a corpus, for taggers that learn by counting.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "bind/words.hpp"
#include "core/spelling_tree.hpp"

namespace tagloom {

class Vocabulary {
  public:
    template <class T, int N>
    using In =
        nanobind::ndarray<const T, nanobind::ndim<N>, nanobind::c_contig, nanobind::device::cpu>;

    // Reads a list of lists of str. The templates must read one token each.
    Vocabulary(const PyProgram& compiled, nanobind::handle sentences);
    Vocabulary(Vocabulary&&) = default;

    nanobind::tuple read();
    // May be called repeatedly, and by several threads.
    nanobind::tuple make_spelling_tree(In<double, 2> counts, In<bool, 1> is_rare,
                                       In<bool, 1> is_known, In<bool, 1> folds,
                                       nanobind::callable lower,
                                       nanobind::callable capitalise) const;

  private:
    LabelCounts check(const In<double, 2>& counts, const In<bool, 1>& is_rare,
                      const In<bool, 1>& is_known, const In<bool, 1>& folds) const;

    const PyProgram& compiled_;
    PyBatch read_;
    std::size_t V_ = 0;  // words of the sentences
};

}  // namespace tagloom
