#pragma once

#include "api/prepare.hpp"
#include "cli/context.hpp"

namespace lathe::cli {

/// Adds the options that `lathe sensitivity` and `lathe tune` share.
void add_prepare_options(CLI::App& command, PrepareOptions& options);

} // namespace lathe::cli
