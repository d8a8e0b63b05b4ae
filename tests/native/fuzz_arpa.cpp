// libFuzzer: any bytes as an ARPA file, in two pieces. It is refused with a line, or gives a model.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/arpa.hpp"

using namespace tagloom;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const std::size_t middle = size ? data[0] * size / 256 : 0;
    ArpaReader reader;
    try {
        reader.read(text.substr(0, middle));
        reader.read(text.substr(middle));
        const NGramArrays model = reader.finish(1);
        if (reader.take_vocabulary().size() < 3 || model.log_prob.size() < 3) std::abort();
        for (std::size_t i = 1; i < model.log_prob.size(); i++)
            if (!(model.log_prob[i] <= 0)) std::abort();
        for (const double weight : model.backoff)
            if (!(weight <= 700)) std::abort();
    } catch (const ArpaFault& fault) {
        if (fault.line < 0 || fault.expected.empty()) std::abort();
    }
    return 0;
}
