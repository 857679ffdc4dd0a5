#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "runtime/engine.hpp"
#include "runtime/engine_file.hpp"
#include "support/hash.hpp"

// Reads arbitrary bytes as an engine file, as far as the compiled part (OpenVINO's own format, guarded by a digest).
// Digests would keep the fuzzer at the door, so an input that starts with the magic is also tried with the header's
// digest and the file's length set right.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto read = [](std::span<const std::byte> bytes) {
        const auto contents = lathe::parse_engine(bytes, "fuzz");
        if (!contents) return;
        (void)lathe::engine_info_from_json(contents->info);
        (void)contents->section("graph.onnx");
    };
    read({reinterpret_cast<const std::byte*>(data), size});

    constexpr std::size_t front = 56;
    std::string whole(front, '\0');
    whole.replace(0, 8, "LATHEENG");
    whole.append(reinterpret_cast<const char*>(data), size);
    const std::uint32_t version = lathe::engine_format_version;
    const auto header = static_cast<std::uint32_t>(size);
    const auto length = static_cast<std::uint64_t>(whole.size());
    std::memcpy(whole.data() + 8, &version, sizeof version);
    std::memcpy(whole.data() + 12, &header, sizeof header);
    std::memcpy(whole.data() + 16, &length, sizeof length);
    const std::string digest = lathe::hash_hex({reinterpret_cast<const std::byte*>(data), size});
    whole.replace(24, digest.size(), digest);
    read(std::as_bytes(std::span(whole)));
    return 0;
}
