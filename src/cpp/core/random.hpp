// Random numbers of the samplers: SplitMix64 (Steele, Lea and Flood 2014) and the distributions
// drawn from it. A generator is a seed and a stream, so that work items which each take their own
// stream give the same bits on any number of threads.
#pragma once

#include <cmath>
#include <cstdint>

namespace tagloom {

inline uint64_t mix_bits(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

class Random {
  public:
    explicit Random(uint64_t seed, uint64_t stream = 0)
        : state_(mix_bits(mix_bits(seed) + (stream + 1) * kStep)) {}

    uint64_t bits() { return mix_bits(state_ += kStep); }
    double uniform() { return double(bits() >> 11) * 0x1p-53; }           // in [0, 1)
    double positive() { return (double(bits() >> 11) + 0.5) * 0x1p-53; }  // in (0, 1)
    int64_t below(int64_t n) { return int64_t(uniform() * double(n)); }

    // Polar method of Marsaglia, one of the two numbers.
    double normal() {
        for (;;) {
            const double x = 2 * uniform() - 1, y = 2 * uniform() - 1, s = x * x + y * y;
            if (s < 1 && s > 0) return x * std::sqrt(-2 * std::log(s) / s);
        }
    }

    // A gamma variable of scale 1. May underflow to 0 for a small shape; log_gamma does not.
    double gamma(double shape) { return shape < 1 ? small_gamma(shape) : large_gamma(shape); }

    // The logarithm of a gamma variable: log G(a) = log G(a + 1) + log(U) / a.
    double log_gamma(double shape) {
        if (shape >= 1) return std::log(large_gamma(shape));
        return std::log(large_gamma(shape + 1)) + std::log(positive()) / shape;
    }

    double beta(double a, double b) {
        const double difference = log_gamma(b) - log_gamma(a);
        return 1 / (1 + std::exp(difference));
    }

  private:
    static constexpr uint64_t kStep = 0x9E3779B97F4A7C15u;

    // Marsaglia and Tsang 2000.
    double large_gamma(double shape) {
        const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
        for (;;) {
            const double x = normal(), root = 1 + c * x;
            if (root <= 0) continue;
            const double v = root * root * root;
            if (std::log(positive()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
        }
    }

    // Ahrens and Dieter 1974, GS; the smaller the shape, the rarer a rejection.
    double small_gamma(double shape) {
        const double b = 1 + shape / 2.71828182845904523536;
        for (;;) {
            const double p = b * positive(), u = positive();
            if (p <= 1) {
                const double x = std::exp(std::log(p) / shape);
                if (u <= 1 - x || u <= std::exp(-x)) return x;
            } else {
                const double x = -std::log((b - p) / shape);
                if (std::log(u) <= (shape - 1) * std::log(x)) return x;
            }
        }
    }

    uint64_t state_;
};

}  // namespace tagloom
