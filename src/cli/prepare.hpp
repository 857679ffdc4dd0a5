#pragma once

#include "api/prepare.hpp"
#include "cli/context.hpp"

namespace lathe::cli {

/// Adds the options that `lathe sensitivity` and `lathe tune` share.
void add_prepare_options(CLI::App& command, PrepareOptions& options);

/// lathe::prepare_model with the context's progress; tells the notices.
Result<PreparedModel> prepare_model(const PrepareOptions& options, const Context& context,
                                    const OwnSamples& own_samples = {});

} // namespace lathe::cli
