#pragma once

#include <string_view>

namespace lathe::deploy {

/// A file of this folder, by its name; embedded at build time.
std::string_view asset(std::string_view name);

} // namespace lathe::deploy
