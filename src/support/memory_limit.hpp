#pragma once

#include <cstdint>
#include <string>

#include "lathe/result.hpp"

namespace lathe {

/// The most bytes that a single value of a model, or all that is computed from its constants alone, may take. What
/// would take more is refused before it is allocated. By default three quarters of the memory that was available when
/// first asked, within the limit of the process's control group and address space.
std::uint64_t memory_limit();
void set_memory_limit(std::uint64_t bytes);

/// "1.5 GB", "12 kB".
std::string readable_bytes(double bytes);

} // namespace lathe
