#include <memory>

#include "cli/commands.hpp"
#include "cli/given_format.hpp"
#include "lathe/ranges.hpp"

namespace lathe::cli {

namespace {

struct ConvertRangesArguments {
    std::string input;
    std::string output;
    GivenFormatArguments format;
};

Result<void> convert(const ConvertRangesArguments& options, const Context& context) {
    const ConvertRangesRequest request{options.input, options.output, format_of(options.format)};
    LATHE_TRY(const ConvertRangesResult result, convert_ranges(request));
    if (result.ours && options.format.name == "tensorrt-cache") {
        context.warn("a ranges file holds the tensors that Lathe's quantiser asks for; TensorRT keeps layers in float "
                     "whose output's scale it does not find: lathe calibrate --format tensorrt-cache writes all");
    }
    const std::string output = result.output.string();
    context.print(context.bold(output) + ": " + std::to_string(result.tensors) + " tensors of " + result.source);
    context.print_json({{"kind", "convert-ranges"},
                        {"version", 1},
                        {"from", result.source},
                        {"format", options.format.name},
                        {"tensors", result.tensors},
                        {"file", output}});
    return {};
}

} // namespace

void add_convert_ranges(Commands& commands) {
    auto options = std::make_shared<ConvertRangesArguments>();
    Context& context = commands.context();
    CLI::App& command = commands.add({"convert-ranges",
                                      "Turn calibrated ranges into the form of another tool: TensorRT's calibration "
                                      "cache, or JSON of dynamic ranges",
                                      {"lathe convert-ranges m.ranges --tensorrt 8.6.1 --output m.cache",
                                       "lathe convert-ranges calibration.cache --format dynamic-ranges -o ranges.json",
                                       "lathe convert-ranges ranges.json --format tensorrt-cache -o m.cache"}},
                                     [options, &context] { return convert(*options, context); });
    command
        .add_option("input", options->input,
                    "Ranges file of lathe calibrate, calibration cache of TensorRT, or JSON of dynamic ranges")
        ->required();
    command.add_option("-o,--output", options->output, "File to write (default: the input's name, .cache or .json)");
    add_given_format(command, options->format, false);
}

} // namespace lathe::cli
