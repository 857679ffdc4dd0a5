#pragma once

#include <string>

#include "cli/commands.hpp"
#include "quantize/placement.hpp"

namespace lathe::cli {

/// The options that choose number formats in place of the target's own.
struct FormatArguments {
    std::string weights; ///< empty: what the target runs best; likewise below
    std::string activations;
};

void add_format_options(CLI::App& command, FormatArguments& arguments);
/// invalid_argument for a name that does not exist.
Result<void> choose_formats(const FormatArguments& arguments, PlacementOptions& placement);

} // namespace lathe::cli
