// A function of weights that can be minimised: what the batch optimisers need of a model, and all
// that they see of it.
#pragma once

#include <cstdint>

namespace tagloom {

class Objective {
  public:
    virtual ~Objective() = default;

    virtual int64_t size() const = 0;  // n, the number of weights

    // The loss at theta [n]. Its gradient overwrites grad [n] unless that is null; entries of
    // masked weights are zero. The numbers do not depend on the number of threads.
    virtual double evaluate(const double* theta, double* grad, int64_t threads) const = 0;

    // [n] true for the weights that may change, the others stay 0; null: all may.
    virtual const uint8_t* mask() const { return nullptr; }

    // Relative differences of the loss below this are rounding errors.
    virtual double rounding() const { return 1e-14; }
};

}  // namespace tagloom
