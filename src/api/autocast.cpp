#include "lathe/autocast.hpp"

#include <array>
#include <string>
#include <utility>

#include "api/calibrate.hpp"
#include "autocast/autocast.hpp"
#include "autocast/document.hpp"
#include "backends/api/typed_graph.hpp"
#include "onnx/onnx.hpp"
#include "onnx/preconditions.hpp"
#include "support/json.hpp"
#include "support/lost_inputs.hpp"
#include "support/writable.hpp"

namespace lathe {
namespace {

Result<HalfFormat> half_format_of(Precision precision) { return half_format_from_name(to_string(precision)); }

Result<AutocastOptions> options_of(const AutocastRequest& request) {
    AutocastOptions options;
    LATHE_TRY(options.format, half_format_of(request.format));
    if (request.io_types) {
        LATHE_TRY(const HalfFormat io, half_format_of(*request.io_types));
        options.io_type = io.type;
    }
    options.headroom = request.headroom;
    options.error_limit = request.error_limit;
    options.accumulators = request.wide_sums ? Accumulators::fp32 : Accumulators::own;
    options.open_size = request.open_size;
    options.exclude = request.exclude;
    return options;
}

/// Before any work.
Result<void> check_files(const AutocastRequest& request) {
    if (request.output.empty()) return {};
    LATHE_CHECK(refuse_lost_inputs({request.output.string()}, {request.model.string(), request.data.string(),
                                                               request.ranges.string(), request.preprocess}));
    return check_writable({request.output.string()});
}

Result<RangesFile> ranges_of(const AutocastRequest& request, const Model& model, AutocastResult& result,
                             Progress& progress) {
    if (request.data.empty()) return load_ranges(request.ranges);
    CalibrateRequest calibrate;
    calibrate.data = request.data;
    calibrate.columns = request.columns;
    calibrate.samples = request.samples;
    calibrate.threads = request.threads;
    calibrate.all_activations = true;
    calibrate.method = Method::minmax; // no clipping is asked for, so no search for it
    calibrate.output = request.ranges;
    calibrate.force = request.force;
    calibrate.preprocess = PreprocessChoice(request.preprocess);
    LATHE_TRY(CalibrateOutcome outcome, calibrate_model(model, calibrate, progress));
    result.reused = std::move(outcome.reuse);
    return std::move(outcome.ranges);
}

Result<AutocastResult> cast_by_range(const AutocastRequest& request, Progress& progress) {
    LATHE_TRY(const AutocastOptions options, options_of(request));
    LATHE_CHECK(check_files(request));
    LATHE_TRY(const Model model, load_onnx(request.model));
    warn_about_nonfinite(model);
    AutocastResult result;
    result.measured = true;
    LATHE_TRY(const RangesFile ranges, ranges_of(request, model, result, progress));
    auto outcome = autocast_model(model, ranges, options);
    if (!outcome) return std::move(outcome).error().in(request.model.string());
    LATHE_CHECK(progress.check());
    if (!request.output.empty()) LATHE_CHECK(save_onnx(outcome->model, request.output));
    result.opset = outcome->model.opset();
    result.converted_from = outcome->converted_from;
    result.cast_nodes = outcome->cast_nodes;
    result.fp32_nodes = outcome->kept_nodes;
    result.casts = outcome->casts;
    result.constants_in_16_bits = outcome->constants;
    result.remarks = std::move(outcome->remarks);
    result.samples = ranges.samples_seen;
    tell(outcome->plan, options, result);
    result.model = ModelPtr(new Model(std::move(outcome->model)));
    Json document = to_json(result, options);
    if (!request.output.empty()) document["file"] = request.output.string();
    result.document = document.dump(2, ' ', false, Json::error_handler_t::replace);
    return result;
}

/// What judges measured values, where there are none.
Result<void> check_unmeasured(const AutocastRequest& request) {
    const AutocastRequest usual;
    const std::array asked{std::pair("columns", request.columns != usual.columns),
                           std::pair("samples", request.samples != usual.samples),
                           std::pair("preprocess", request.preprocess != usual.preprocess),
                           std::pair("force", request.force != usual.force),
                           std::pair("io_types", request.io_types != usual.io_types),
                           std::pair("headroom", request.headroom != usual.headroom),
                           std::pair("error_limit", request.error_limit != usual.error_limit),
                           std::pair("wide_sums", request.wide_sums != usual.wide_sums),
                           std::pair("open_size", request.open_size != usual.open_size),
                           std::pair("exclude", request.exclude != usual.exclude)};
    for (const auto& [name, given] : asked) {
        if (given)
            return Error{ErrorCode::invalid_argument, "this judges measured values, and there are none", name,
                         "give data to measure the model on, or ranges of every activation"};
    }
    return {};
}

/// Without measurements: what each operation does decides, and Q/DQ stays int8.
Result<AutocastResult> cast_by_operation(const AutocastRequest& request, Progress& progress) {
    LATHE_CHECK(check_unmeasured(request));
    LATHE_TRY(const HalfFormat format, half_format_of(request.format));
    LATHE_CHECK(check_files(request));
    LATHE_TRY(const Model model, load_onnx(request.model));
    warn_about_nonfinite(model);
    auto typed = write_precision(model, request.format);
    if (!typed) return std::move(typed).error().in(request.model.string());
    typed->model.set_metadata("lathe.autocast", Json{{"format", format.name}, {"by", "operation"}}.dump());
    LATHE_CHECK(check_onnx(typed->model, {.full = true}));
    LATHE_CHECK(progress.check());
    if (!request.output.empty()) LATHE_CHECK(save_onnx(typed->model, request.output));
    AutocastResult result;
    result.format = format.name;
    result.opset = typed->model.opset();
    if (result.opset != model.opset()) result.converted_from = model.opset();
    result.cast_nodes = typed->report.low_nodes;
    for (const auto& [op, count] : typed->report.kept_ops)
        result.fp32_nodes += count;
    result.casts = typed->report.casts;
    result.remarks = std::move(typed->notes);
    result.kept_ops = std::move(typed->report.kept_ops);
    result.kept_for_range = std::move(typed->report.kept_for_range);
    result.model = ModelPtr(new Model(std::move(typed->model)));
    Json document{{"kind", "autocast"},
                  {"version", 1},
                  {"by", "operation"},
                  {"format", result.format},
                  {"opset", result.opset},
                  {"cast_nodes", result.cast_nodes},
                  {"fp32_nodes", result.fp32_nodes},
                  {"added_casts", result.casts},
                  {"kept_ops", result.kept_ops},
                  {"kept_for_range", result.kept_for_range}};
    if (!request.output.empty()) document["file"] = request.output.string();
    result.document = document.dump(2, ' ', false, Json::error_handler_t::replace);
    return result;
}

} // namespace

Result<AutocastResult> autocast(const AutocastRequest& request) {
    Progress& progress = request.progress != nullptr ? *request.progress : no_progress();
    return request.data.empty() && request.ranges.empty() ? cast_by_operation(request, progress)
                                                          : cast_by_range(request, progress);
}

} // namespace lathe
