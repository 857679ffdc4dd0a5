#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "lathe/ranges.hpp"

namespace lathe::cli {

/// How ranges are written for other tools.
struct GivenFormatArguments {
    std::string name = "ranges"; ///< "ranges" (Lathe's own), "tensorrt-cache", "dynamic-ranges"
    std::string tensorrt = RangesFormat{}.tensorrt;
    std::string algorithm = RangesFormat{}.algorithm;
};

/// --format, --tensorrt and --algorithm. `with_ours`: Lathe's own format is one of them, and the default; else
/// tensorrt-cache is.
void add_given_format(CLI::App& command, GivenFormatArguments& arguments, bool with_ours);

/// The form of another tool that they name; of "ranges" nothing but the names counts.
RangesFormat format_of(const GivenFormatArguments& arguments);

/// ".ranges", ".cache" or ".json".
std::string extension_of(const GivenFormatArguments& arguments);

} // namespace lathe::cli
