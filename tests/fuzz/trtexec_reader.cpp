#include <cstddef>
#include <cstdint>
#include <string_view>

#include "bench/trtexec_log.hpp"
#include "bench/trtexec_subject.hpp"

// What trtexec prints, and what it exports of times.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    (void)lathe::parse_trtexec_log(text, "fuzz");
    (void)lathe::parse_trtexec_times(text, "fuzz", 1.0);
    return 0;
}
