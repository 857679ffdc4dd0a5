#pragma once

#include <filesystem>
#include <string>

#include <CLI/CLI.hpp>

#include "calibrate/given_ranges.hpp"
#include "lathe/result.hpp"

namespace lathe::cli {

/// How ranges are written for other tools.
struct GivenFormatArguments {
    std::string name = "ranges"; ///< "ranges" (Lathe's own), "tensorrt-cache", "dynamic-ranges"
    std::string tensorrt = "10.3.0";
    std::string algorithm = CacheHeader{}.algorithm;
};

/// --format, --tensorrt and --algorithm. `with_ours`: Lathe's own format is one of them, and the default; else
/// tensorrt-cache is.
void add_given_format(CLI::App& command, GivenFormatArguments& arguments, bool with_ours);

/// invalid_argument for a version of TensorRT that has no cache.
Result<void> check(const GivenFormatArguments& arguments);

/// ".ranges", ".cache" or ".json".
std::string extension_of(const GivenFormatArguments& arguments);

/// Writes the file, whole or not at all. The format must be one of other tools.
Result<void> write_given(const GivenRanges& ranges, const GivenFormatArguments& arguments,
                         const std::filesystem::path& output);

} // namespace lathe::cli
