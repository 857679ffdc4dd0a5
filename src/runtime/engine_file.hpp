#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/result.hpp"
#include "support/byte_chain.hpp"
#include "support/json.hpp"

namespace lathe {

/// The engine file, little-endian:
///
///     0   8 bytes  "LATHEENG"
///     8   u32      format version
///     12  u32      header length in bytes
///     16  u64      length of the whole file
///     24  u128     XXH3-128 of the header's text, as 32 hexadecimal digits (to byte 56)
///     56           header: JSON, {"info": {...}, "sections": [{"name", "offset", "size", "digest"}]}
///     ...          sections, each at a multiple of 4096
///
/// Digests find damage, not forgery: an engine is code, load only those you trust.
inline constexpr std::uint32_t engine_format_version = 1;

/// The section of the model's metadata `lathe.tokenizer`, in engines that have it.
inline constexpr const char* tokenizer_section = "tokenizer";

struct EngineSection {
    std::string name;
    std::span<const std::byte> bytes;
};

struct EngineContents {
    Json info;
    std::vector<EngineSection> sections; ///< views into the bytes parsed

    bool has(std::string_view name) const;
    /// The section's bytes, or an error (corrupt) if there is none of this name.
    Result<std::span<const std::byte>> section(std::string_view name) const;
};

/// Check and take apart the bytes of an engine file. `where` goes into errors.
/// Errors: parse_error (no engine file), mismatch (another format version), corrupt (truncated, damaged).
Result<EngineContents> parse_engine(std::span<const std::byte> bytes, std::string_view where);

struct NewSection {
    std::string name;
    ByteChain bytes;
};
/// Write atomically. Returns the file's length in bytes.
Result<std::size_t> write_engine(const std::filesystem::path& path, const Json& info,
                                 const std::vector<NewSection>& sections);

} // namespace lathe
