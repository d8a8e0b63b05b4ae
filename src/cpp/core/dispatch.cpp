#include "core/dispatch.hpp"

#include <atomic>

namespace tagloom {
namespace {

#if defined(TL_EMULATE)
constexpr bool emulate = true;  // all kernels are compiled for the baseline machine
#else
constexpr bool emulate = false;
#endif

std::vector<const Kernels*> available() {
    std::vector<const Kernels*> sets = {&kernels_baseline()};
#if defined(TL_HAVE_AVX2)
    if (emulate || (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")))
        sets.push_back(&kernels_avx2());
#endif
#if defined(TL_HAVE_AVX512)
    if (emulate || (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("fma")))
        sets.push_back(&kernels_avx512());
#endif
    return sets;
}

std::atomic<const Kernels*> in_use{nullptr};

}  // namespace

std::vector<std::string> instruction_sets() {
    std::vector<std::string> names;
    for (const Kernels* k : available()) names.emplace_back(k->name);
    return names;
}

const Kernels& kernels() {
    const Kernels* k = in_use.load(std::memory_order_relaxed);
    if (!k) {
        k = available().back();
        in_use = k;
    }
    return *k;
}

bool use_instruction_set(const std::string& name) {
    for (const Kernels* k : available())
        if (name == k->name) {
            in_use = k;
            return true;
        }
    return false;
}

}  // namespace tagloom
