#include "api/ranges_export.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "api/calibrate.hpp"
#include "api/model_data.hpp"
#include "support/files.hpp"
#include "support/lost_inputs.hpp"

namespace lathe {

Result<void> check(const RangesFormat& format) {
    if (format.form != RangesForm::tensorrt_cache) return {};
    auto version = cache_version(format.tensorrt);
    if (!version) return std::move(version).error().in("--tensorrt");
    return {};
}

const char* extension_of(RangesForm form) { return form == RangesForm::tensorrt_cache ? ".cache" : ".json"; }

Result<void> write_given(const GivenRanges& ranges, const RangesFormat& format, const std::filesystem::path& output) {
    if (format.form == RangesForm::dynamic_ranges)
        return write_file(output, std::string_view(print_dynamic_ranges(ranges)));
    LATHE_TRY(const std::string version, cache_version(format.tensorrt));
    LATHE_TRY(const std::string text, print_tensorrt_cache(ranges, {version, format.algorithm}));
    return write_file(output, std::string_view(text));
}

Result<Calibration> calibrate_every_tensor(const Model& model, Data data, const CalibrationOptions& options) {
    CalibrateRequest request = request_of(options, data);
    request.all_activations = true;
    request.until_settled = false;
    Progress& progress = options.progress != nullptr ? *options.progress : no_progress();
    LATHE_TRY(CalibrateOutcome outcome, data.arrays.empty()
                                            ? calibrate_model(model, request, progress)
                                            : calibrate_arrays(model, std::move(data.arrays), request, progress));
    return Calibration(std::make_unique<Calibration::Impl>(Calibration::Impl{std::move(outcome.ranges)}));
}

Result<void> write_ranges(const Calibration& calibration, const std::filesystem::path& path,
                          const RangesFormat& format) {
    LATHE_CHECK(check(format));
    return write_given(given_of(calibration.impl().ranges), format, path);
}

Result<ConvertRangesResult> convert_ranges(const ConvertRangesRequest& request) {
    LATHE_CHECK(check(request.format));
    ConvertRangesResult result;
    result.output = request.output;
    if (result.output.empty()) {
        result.output = request.input;
        result.output.replace_extension(extension_of(request.format.form));
    }
    LATHE_CHECK(refuse_lost_inputs({result.output.string()}, {request.input.string()}));
    LATHE_TRY(std::optional<GivenRanges> given, load_given_ranges(request.input));
    result.ours = !given.has_value();
    if (result.ours) {
        LATHE_TRY(const RangesFile ranges, load_ranges(request.input));
        given = given_of(ranges);
    }
    LATHE_CHECK(write_given(*given, request.format, result.output));
    result.source = given->source;
    result.tensors = given->tensors.size();
    return result;
}

} // namespace lathe
