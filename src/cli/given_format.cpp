#include "cli/given_format.hpp"

#include <vector>

#include "api/ranges_export.hpp"

namespace lathe::cli {

void add_given_format(CLI::App& command, GivenFormatArguments& arguments, bool with_ours) {
    std::vector<std::string> formats{"tensorrt-cache", "dynamic-ranges"};
    if (with_ours) {
        formats.insert(formats.begin(), "ranges");
    } else {
        arguments.name = formats.front();
    }
    command
        .add_option("--format", arguments.name,
                    "tensorrt-cache: calibration cache for TensorRT up to 10; dynamic-ranges: JSON, the largest "
                    "magnitude a tensor" +
                        std::string(with_ours ? "; ranges: Lathe's own, with histograms" : ""))
        ->check(CLI::IsMember(formats))
        ->capture_default_str();
    command
        .add_option("--tensorrt", arguments.tensorrt,
                    "Of a calibration cache: the version that will read it, which takes no other's")
        ->capture_default_str();
    command
        .add_option("--algorithm", arguments.algorithm,
                    "Of a calibration cache: the kind of calibrator that will read it; trtexec's is "
                    "EntropyCalibration2. It says nothing of how the ranges were found")
        ->check(CLI::IsMember({"EntropyCalibration2", "MinMaxCalibration", "EntropyCalibration", "LegacyCalibration"}))
        ->capture_default_str();
}

RangesFormat format_of(const GivenFormatArguments& arguments) {
    const RangesForm form =
        arguments.name == "dynamic-ranges" ? RangesForm::dynamic_ranges : RangesForm::tensorrt_cache;
    return {form, arguments.tensorrt, arguments.algorithm};
}

std::string extension_of(const GivenFormatArguments& arguments) {
    if (arguments.name == "ranges") return ".ranges";
    return extension_of(format_of(arguments).form);
}

} // namespace lathe::cli
