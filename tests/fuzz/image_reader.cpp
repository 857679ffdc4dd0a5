#include <cstddef>
#include <cstdint>
#include <span>

#include "data/image.hpp"

// PNG and JPEG. Pictures of more than 16 megapixels are left out: the decoders' time, not their faults.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size > 24 && data[0] == 0x89) {
        const auto number = [&](std::size_t at) {
            return (std::uint64_t{data[at]} << 24) | (std::uint64_t{data[at + 1]} << 16) |
                   (std::uint64_t{data[at + 2]} << 8) | data[at + 3];
        };
        if (number(16) * number(20) > (1U << 24)) return 0;
    }
    (void)lathe::decode_image({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    return 0;
}
