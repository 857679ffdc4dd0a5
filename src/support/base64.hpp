#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace lathe {

/// Bytes as base64 text (RFC 4648, with padding), as data: URLs take it.
std::string encode_base64(std::span<const std::byte> bytes);

} // namespace lathe
