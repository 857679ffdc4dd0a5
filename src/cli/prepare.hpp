#pragma once

#include "cli/commands.hpp"
#include "cli/context.hpp"
#include "cli/numbers.hpp"
#include "cli/preprocess.hpp"

namespace lathe::cli {

/// Adds the options that `lathe sensitivity` and `lathe tune` share, to a SensitivityRequest or a TuneRequest.
template <class Request>
void add_prepare_options(CLI::App& command, Request& request) {
    command.add_option("model", request.model, "ONNX model in floating point (see lathe export)")->required();
    command.add_option("--data", request.data, "Samples to judge on: images, arrays or texts, best labelled")
        ->required();
    command.add_option("--calibrate", request.calibrate, "Samples to calibrate on (default: those of --data)");
    command.add_option("--ranges", request.ranges, "Ranges file of lathe calibrate, instead of calibrating");
    command.add_option("--calibrate-samples", request.calibrate_samples, "How many samples to calibrate on; 0: all")
        ->capture_default_str();
    command.add_option("--method", request.method, "Range estimator: minmax, percentile, entropy, mse")
        ->capture_default_str();
    command.add_option("--columns", request.columns, columns_help);
    command.add_option("--length", request.length, "Tokens a sample, of texts")
        ->check(positive_number())
        ->capture_default_str();
    command.add_option("--preprocess", request.preprocess, preprocess_help());
    command.add_option("--threads", request.threads, "Threads (default: all cores)");
}

} // namespace lathe::cli
