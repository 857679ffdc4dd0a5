#pragma once

#include <filesystem>

#include "calibrate/given_ranges.hpp"
#include "lathe/ranges.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// invalid_argument for a version of TensorRT that has no cache.
Result<void> check(const RangesFormat& format);

/// ".cache" or ".json".
const char* extension_of(RangesForm form);

/// Writes the file, whole or not at all.
Result<void> write_given(const GivenRanges& ranges, const RangesFormat& format, const std::filesystem::path& output);

} // namespace lathe
