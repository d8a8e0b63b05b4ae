// The constants of hash.hpp, free of the standard library: kernels include them, too.
#pragma once

#include <cstdint>

namespace tagloom {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
constexpr uint64_t kEuler = 0xadf85458a2bb4a9b;   // fraction of e, in bits
constexpr uint64_t kSeed = kEuler;                // of a fingerprint without parts

}  // namespace tagloom
