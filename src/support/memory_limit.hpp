#pragma once

#include <cstdint>
#include <string>

#include "lathe/result.hpp"

namespace lathe {

/// The most bytes that a single value of a model may take. What would take more is refused before it is allocated. By
/// default three quarters of the memory that was available when first asked, within the limit of the process's control
/// group and address space.
std::uint64_t memory_limit();
void set_memory_limit(std::uint64_t bytes);

/// The most bytes of what a model computes from its constants alone: memory_limit() where that was set; by default also
/// no more than 1 GiB and four times the model's weights, since a file of a few bytes can ask for all there is.
std::uint64_t folding_limit(std::uint64_t weight_bytes);

/// What the process's limit of addresses (ulimit -v) leaves it; the greatest number where there is none.
std::uint64_t address_space_left();

/// "1.5 GB", "12 kB".
std::string readable_bytes(double bytes);

} // namespace lathe
