#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "calibrate/given_ranges.hpp"
#include "calibrate/ranges_file.hpp"
#include "support/hash.hpp"

// Lathe's ranges, TensorRT's calibration cache, dynamic ranges as JSON. The checksum would keep the fuzzer at the door
// of the first, so what follows a first line is also tried with the right one.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    (void)lathe::parse_ranges(text, "fuzz");
    (void)lathe::parse_tensorrt_cache(text, "fuzz");
    (void)lathe::parse_dynamic_ranges(text, "fuzz");
    const std::string_view body = text.substr(text.find('\n') == std::string_view::npos ? 0 : text.find('\n') + 1);
    const std::string digest = lathe::hash_hex(std::as_bytes(std::span(body)));
    (void)lathe::parse_ranges(R"({"kind":"ranges","version":1,"checksum":")" + digest + "\",\n" + std::string(body),
                              "fuzz");
    return 0;
}
