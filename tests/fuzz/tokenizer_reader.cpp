#include <cstddef>
#include <cstdint>
#include <string_view>

#include "backends/openvino/tokenizer.hpp"

// A tokenizer's description in a model's metadata. What its graphs hold is OpenVINO's own format, read by OpenVINO.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    (void)lathe::openvino::make_tokenizer(text, 16);
    return 0;
}
