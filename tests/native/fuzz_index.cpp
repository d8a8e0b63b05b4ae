// libFuzzer: any bytes as the keys of an index, as a model file has them. They are refused, or
// every key is found again; then the index grows.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/index.hpp"

using namespace tagloom;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
    std::vector<uint64_t> keys(size / 8);
    if (!keys.empty()) std::memcpy(keys.data(), data, 8 * keys.size());
    std::vector<int64_t> offsets(keys.size() + 1, 0);
    try {
        Index index(keys, "", offsets);
        for (std::size_t i = 0; i < keys.size(); i++) {
            if (index.table().find(keys[i]) != static_cast<int32_t>(i)) std::abort();
        }
        const auto before = static_cast<int32_t>(index.size());
        for (uint64_t key = 1; key < 40; key++) {
            const bool is_new = index.table().find(key) < 0;
            const int32_t id = index.add(key, [](std::string& out) { out += "x"; });
            if (is_new != (id >= before)) std::abort();
        }
        index.truncate(static_cast<std::size_t>(before));
        if (index.keys() != keys) std::abort();
    } catch (const std::invalid_argument&) {
    }
    return 0;
}
