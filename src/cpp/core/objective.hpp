// A function of weights to be minimised: the interface between models and batch optimisers.
#pragma once

#include <cstdint>

namespace tagloom {

class Objective {
  public:
    virtual ~Objective() = default;

    virtual int64_t size() const = 0;  // n, the number of weights

    // The loss at theta [n]. Overwrites grad [n] with its gradient unless grad is null; entries of
    // masked weights are zero. The results do not depend on the number of threads.
    virtual double evaluate(const double* theta, double* grad, int64_t threads) const = 0;

    // [n] true for free weights, the others stay 0; null: all are free.
    virtual const uint8_t* mask() const { return nullptr; }

    // Relative differences of the loss below this are rounding errors.
    virtual double rounding() const { return 1e-14; }
};

}  // namespace tagloom
