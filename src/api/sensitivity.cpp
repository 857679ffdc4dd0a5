#include "lathe/sensitivity.hpp"

#include <utility>

#include "api/judged_by.hpp"
#include "api/prepare.hpp"
#include "evaluate/run.hpp"
#include "sensitivity/document.hpp"
#include "sensitivity/measure.hpp"
#include "support/clock.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"
#include "support/lost_inputs.hpp"
#include "support/machine.hpp"
#include "support/writable.hpp"

namespace lathe {
namespace {

SensitiveLayer told_of(const LayerSensitivity& layer) {
    SensitiveLayer told;
    told.node = layer.node;
    told.op = layer.op_type;
    told.role = layer.role;
    told.reason = layer.float_reason;
    told.macs = layer.macs;
    if (!layer.float_reason.empty()) return told;
    told.sqnr_db = layer.score.sqnr_db();
    told.mean_kl = layer.score.mean_kl();
    told.agreement = layer.score.agreement();
    if (layer.score.task) {
        told.task_delta = 0.0 - layer.score.task->loss();
        told.task_agreement = layer.score.task->agreement;
    }
    if (layer.score.labelled > 0) told.top1_delta = 0.0 - layer.score.top1_drop();
    return told;
}

SensitivityResult result_of(const Sensitivity& found, DamageMetric metric) {
    SensitivityResult result;
    for (const RankedLayer& each : rank_layers(found, metric)) {
        SensitiveLayer layer = told_of(found.layers[each.layer]);
        layer.damage_share = each.damage_share;
        layer.macs_share = each.macs_share;
        result.layers.push_back(std::move(layer));
    }
    for (const LayerSensitivity& layer : found.layers) {
        if (!layer.float_reason.empty()) result.layers.push_back(told_of(layer));
    }
    for (const RankedLayer& each : outstanding_layers(found, metric))
        result.outstanding.push_back(found.layers[each.layer].node);
    result.advice = advise(found, metric);
    result.samples = found.samples;
    result.resumed_samples = found.resumed_samples;
    result.seconds = found.seconds;
    return result;
}

} // namespace

Result<SensitivityResult> sensitivity(const SensitivityRequest& request) {
    Progress& progress = request.progress != nullptr ? *request.progress : no_progress();
    if (!request.metric.empty()) {
        if (auto known = damage_metric_from_name(request.metric); !known) return std::move(known).error();
    }
    if (!request.output.empty()) {
        const std::string output = request.output.string();
        LATHE_CHECK(refuse_lost_inputs({output, output + ".part"},
                                       {request.model.string(), request.data.string(), request.calibrate.string(),
                                        request.ranges.string(), request.preprocess}));
        LATHE_CHECK(check_writable({output}));
    }
    SensitivityOptions measure;
    LATHE_TRY(measure.target, target_from_name(request.target));
    LATHE_TRY(const Backend* backend, default_backend());
    PrepareOptions prepare = prepare_options(request);
    TaskOptions task = request.task;
    if (!request.output_name.empty()) task.output_name = request.output_name;
    LATHE_CHECK(look_for({prepare.model, prepare.data}));
    LATHE_TRY(const auto samples, samples_of(request.data, task));
    prepare.data = samples.string();
    LATHE_TRY(PreparedModel prepared, prepare_model(prepare, progress));
    LATHE_TRY(JudgedBy by, judged_by(prepared, request.data, task, request.metric, DamageMetric::sqnr, request.length));
    LATHE_TRY(const auto data, open_labelled(samples, prepared, prepare));
    if (task.name == "classification" && request.metric.empty() && !data->has_labels())
        by.metric = DamageMetric::agreement;
    const DamageMetric metric = by.metric;
    if (by.task) measure.judging = &*by.task;
    if (metric == DamageMetric::top1 && !data->has_labels()) {
        return Error{ErrorCode::invalid_argument, "--metric top1 needs labels, and the data has none", prepare.data,
                     "add labels.csv or class subfolders, or use --metric sqnr, kl or agreement"};
    }
    LATHE_TRY(const std::string digest, data->digest());
    measure.threads = request.threads;
    measure.length = request.length;
    measure.batch_size = request.batch_size;
    measure.output_name = task.output_name;
    Hasher hasher;
    for (const std::string& part : {prepared.key, digest, request.target, measure.output_name})
        hasher.update(part);
    hasher.update(static_cast<std::int64_t>(measure.batch_size));
    hasher.update(static_cast<std::int64_t>(measure.length));
    hasher.update(static_cast<std::int64_t>(data->size()));
    measure.key = hasher.hex();
    std::error_code ignored;
    if (!request.output.empty()) {
        if (!by.task) measure.journal = request.output.string() + ".part";
        if (request.force) std::filesystem::remove(measure.journal, ignored);
    }
    LATHE_TRY(const Sensitivity found,
              measure_sensitivity(prepared.model, prepared.ranges, *data, *backend, measure, progress));
    Json document = to_json(found, metric);
    document["outputs"] = found.outputs;
    document["target"] = request.target;
    document["method"] = to_string(prepared.ranges.method);
    document["model"] = {
        {"name", request.model.stem().string()}, {"file", prepare.model}, {"hash", prepared.source_hash}};
    document["data"] = {{"path", request.data.string()}, {"digest", digest}, {"samples", found.samples}};
    document["lathe_version"] = LATHE_VERSION;
    document["machine"] = to_json(this_machine());
    document["command"] = request.command_line;
    document["time"] = utc_now();
    if (!request.output.empty()) {
        LATHE_CHECK(write_json_file(request.output, document));
        std::filesystem::remove(measure.journal, ignored);
    }
    SensitivityResult result = result_of(found, metric);
    result.notices = std::move(prepared.notices);
    result.document = document.dump(2, ' ', false, Json::error_handler_t::replace);
    return result;
}

} // namespace lathe
