#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/estimate.hpp"
#include "cli/calibrate.hpp"
#include "cli/context.hpp"
#include "cli/correction.hpp"
#include "cli/number_formats.hpp"
#include "lathe/result.hpp"

namespace lathe::cli {

/// What `lathe optimize` was asked for.
struct OptimizeOptions {
    std::string model;
    std::string calibrate;
    std::string evaluate;
    std::string columns;
    std::string output = "out";
    std::string preprocess;
    std::string method = to_string(Method::mse);
    std::vector<std::string> exclude;
    CorrectionArguments correction;
    FormatArguments formats;
    std::vector<std::string> shapes;
    std::string device = "cpu";
    std::string timing_cache;
    std::string tune = "default";
    std::vector<std::string> precisions; ///< empty: those of the device
    std::vector<std::string> against;    ///< empty: those usual beside the device; one empty text: none
    std::string source;                  ///< FILE.py:function that PyTorch's peers may run
    std::vector<std::int64_t> batch_sizes{1, 8, 16};
    SampleCount samples;
    bool samples_given = false; ///< else all 300 where corrections follow
    std::size_t evaluate_samples = 0;
    std::size_t threads = 0;
    double max_drop = 1.0;
    double duration_s = 1.5;
    double time_limit_s = 4;
    bool allow_fallback = false;
    bool force = false;

    bool on_gpu() const { return device != "cpu"; }
};

/// The whole job over one output folder, which is there. Each step reads what the step before wrote, so that any of
/// them can be redone by hand with the command of its name; steps whose inputs have not changed are not done again.
/// Errors: what the steps give; a precision that this machine lacks is left out and reported.
Result<void> run_optimizer(const OptimizeOptions& options, const Context& context);

} // namespace lathe::cli
