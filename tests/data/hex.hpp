#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::test {

/// Small files as they stand in tests.
inline std::vector<std::byte> from_hex(std::string_view hex) {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
        bytes.push_back(static_cast<std::byte>(std::stoul(std::string(hex.substr(i, 2)), nullptr, 16)));
    return bytes;
}

} // namespace lathe::test
