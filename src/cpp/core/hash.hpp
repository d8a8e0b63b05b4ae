// Fingerprints: 64-bit hashes of attribute names. A name is a list of parts (the literals and
// values of a template). Its fingerprint folds the hashes of the non-empty parts, so a hash
// computed once per word serves every template. Two names collide with probability 2^-64: among ten
// million names, some pair does with probability 3e-6. The hash is not cryptographic; a deliberate
// collision only costs accuracy.
//
// Model files contain fingerprints: any change here needs a new version of the file format.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/hash_constants.hpp"

namespace tagloom {

static_assert(std::endian::native == std::endian::little,
              "hashes in model files are little-endian");

// A bijection in which every bit of x reaches every bit of the result.
inline uint64_t scramble(uint64_t x) {
    x = (x ^ x >> 32) * kGolden;
    x = (x ^ x >> 29) * kEuler;
    return x ^ x >> 32;
}

// Reserved values, which hash64 never returns.
constexpr uint64_t kNone = 0;   // no value
constexpr uint64_t kEmpty = 1;  // the empty string, such as a flag that is true

inline uint64_t load8(const char* p) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    return word;
}

// One scramble for each eight bytes. The length is hashed too, so zero bytes count.
inline uint64_t hash64(std::string_view s) {
    const char* p = s.data();
    std::size_t n = s.size();
    uint64_t h = n * kGolden;
    for (; n > 8; n -= 8, p += 8) h = scramble(h ^ load8(p));
    uint64_t word = 0;
    if (n == 8 || s.size() >= 8) {
        word = load8(p + n - 8);  // may overlap the eight bytes before
    } else if (n >= 4) {
        uint32_t low, high;
        std::memcpy(&low, p, 4);
        std::memcpy(&high, p + n - 4, 4);
        word = low | uint64_t{high} << 32;
    } else if (n > 0) {
        const auto byte = [p](std::size_t i) { return uint64_t{static_cast<uint8_t>(p[i])}; };
        word = byte(0) | byte(n / 2) << 8 | byte(n - 1) << 16;
    }
    h = scramble(h ^ word);
    return h > kEmpty ? h : h + 2;
}

// The same for a text after at least eight bytes that may be read, such as the header of an object:
// without the branches on short lengths, which are unpredictable.
inline uint64_t hash64_after_header(std::string_view s) {
    const char* p = s.data();
    std::size_t n = s.size();
    uint64_t h = n * kGolden;
    for (; n > 8; n -= 8, p += 8) h = scramble(h ^ load8(p));
    const uint64_t end = load8(s.data() + s.size() - 8);
    const std::size_t size = s.size() < 8 ? s.size() : 8;
    const uint64_t begin = end >> (64 - 8 * size) % 64;  // the text, if it is that short
    const uint64_t high = ~uint64_t{0} << 32;
    const uint64_t few = (begin & 0xff) | (begin >> size / 2 * 8 & 0xff) << 8 | end >> 56 << 16;
    h = scramble(h ^ (size < 4 ? few : (begin & ~high) | (end & high)));
    return h > kEmpty ? h : h + 2;
}

// Whether two texts of the same length and hash are equal. Up to eight bytes hash64 is a bijection,
// except for the two reserved values that it remaps, so only longer texts are compared.
inline bool is_same(std::string_view one, std::string_view other, uint64_t hash) {
    return (one.size() <= 8 && hash > kEmpty + 2) || one == other;
}

// Folds one more part, given by its hash, into a fingerprint. kEmpty leaves it as it is.
inline uint64_t mix(uint64_t h, uint64_t part) {
    // Without a branch: whether a flag holds is unpredictable.
    const uint64_t mixed = scramble(h ^ part), empty = -uint64_t{part == kEmpty};
    return mixed ^ ((mixed ^ h) & empty);
}

// The hash of a large block of data: four independent lanes run at memory bandwidth.
inline uint64_t hash_data(std::string_view s) {
    uint64_t lanes[4] = {1, 2, 3, 4}, h = s.size();
    for (; s.size() >= 32; s.remove_prefix(32))
        for (int i = 0; i < 4; i++) lanes[i] = scramble(lanes[i] ^ load8(s.data() + 8 * i));
    for (const uint64_t lane : lanes) h = scramble(h ^ lane);
    return scramble(h ^ hash64(s));
}

// The hash of a part that may be empty.
inline uint64_t hash_part(std::string_view s) { return s.empty() ? kEmpty : hash64(s); }

}  // namespace tagloom
