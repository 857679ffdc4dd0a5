#include "cli/prepare.hpp"

#include "cli/commands.hpp"
#include "cli/numbers.hpp"

namespace lathe::cli {

void add_prepare_options(CLI::App& command, PrepareOptions& options) {
    command.add_option("model", options.model, "ONNX model in floating point (see lathe export)")->required();
    command.add_option("--data", options.data, "Samples to judge on: images, arrays or texts, best labelled")
        ->required();
    command.add_option("--calibrate", options.calibrate, "Samples to calibrate on (default: those of --data)");
    command.add_option("--ranges", options.ranges, "Ranges file of lathe calibrate, instead of calibrating");
    command.add_option("--calibrate-samples", options.calibrate_samples, "How many samples to calibrate on; 0: all")
        ->capture_default_str();
    command.add_option("--method", options.method, "Range estimator: minmax, percentile, entropy, mse")
        ->capture_default_str();
    command.add_option("--columns", options.columns, columns_help);
    command.add_option("--length", options.length, "Tokens a sample, of texts")
        ->check(positive_number())
        ->capture_default_str();
    command.add_option("--preprocess", options.preprocess, "JSON file that overrides the model's preprocessing");
    command.add_option("--threads", options.threads, "Threads (default: all cores)");
}

} // namespace lathe::cli
