#pragma once

#include <cstddef>

#include <CLI/CLI.hpp>

#include "api/calibrate.hpp"
#include "cli/context.hpp"

namespace lathe::cli {

/// How many samples to read, as --samples says it: a number (0: all), or "auto": at most 300, until the ranges settle.
struct SampleCount {
    std::size_t samples = 300;
    bool until_settled = true;
};
/// Adds --samples. `given` (may be nullptr) becomes true where the user gave it.
void add_samples_option(CLI::App& command, SampleCount& count, bool* given = nullptr);

/// lathe::calibrate_model with the context's progress; says what was reused.
Result<CalibrateOutcome> calibrate_model(const Model& model, const CalibrateRequest& request, const Context& context);

} // namespace lathe::cli
