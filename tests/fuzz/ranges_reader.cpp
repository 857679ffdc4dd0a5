#include <cstddef>
#include <cstdint>
#include <string_view>

#include "calibrate/given_ranges.hpp"
#include "calibrate/ranges_file.hpp"

// Lathe's ranges, TensorRT's calibration cache, dynamic ranges as JSON.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    (void)lathe::parse_ranges(text, "fuzz");
    (void)lathe::parse_tensorrt_cache(text, "fuzz");
    (void)lathe::parse_dynamic_ranges(text, "fuzz");
    return 0;
}
