#include "api/judged_by.hpp"

#include <utility>

#include "data/labels.hpp"
#include "evaluate/run.hpp"
#include "sensitivity/measure.hpp"
#include "support/json.hpp"

namespace lathe {

namespace {

IoInfo io_of(const ValueInfo& value) {
    IoInfo info;
    info.name = value.name;
    info.type = value.type;
    if (!value.dims) return info;
    for (const Dimension& dimension : *value.dims)
        info.range.opt.push_back(dimension.size.value_or(-1));
    info.range.min = info.range.opt;
    info.range.max = info.range.opt;
    return info;
}

EvalRequest request_of(const std::filesystem::path& data, const TaskOptions& task) {
    EvalRequest request;
    request.data = data;
    set_task(request, task);
    return request;
}

} // namespace

EngineInfo info_of(const PreparedModel& prepared, std::size_t length) {
    EngineInfo info;
    info.name = prepared.model.graph.name;
    // Where shapes cannot be told the outputs' are what the model says of them.
    auto fixed = with_fixed_shapes(prepared.model, 1, length);
    const Graph& graph = fixed ? fixed->graph : prepared.model.graph;
    for (const ValueInfo& input : graph.inputs) {
        if (graph.initializer(input.name) == nullptr) info.inputs.push_back(io_of(input));
    }
    for (const ValueInfo& output : graph.outputs)
        info.outputs.push_back(io_of(output));
    if (prepared.preprocess) info.preprocess = prepared.preprocess->to_json().dump();
    if (const std::string* stored = prepared.model.find_metadata("lathe.labels"); stored != nullptr) {
        if (const auto json = parse_json(*stored, "metadata lathe.labels")) {
            if (auto names = class_names_from_json(*json, "metadata lathe.labels")) info.labels = *std::move(names);
        }
    }
    return info;
}

Result<std::filesystem::path> samples_of(const std::filesystem::path& data, const TaskOptions& task) {
    const EvalRequest request = request_of(data, task);
    LATHE_TRY(const EvaluationTask* const found, evaluation_task(request));
    LATHE_TRY(EvaluationData where, found->data(request));
    return std::move(where.samples);
}

Result<JudgedBy> judged_by(const PreparedModel& prepared, const std::filesystem::path& data, const TaskOptions& task,
                           const std::string& metric, DamageMetric otherwise, std::size_t length) {
    JudgedBy by;
    by.metric = otherwise;
    const bool classes = task.name == "classification";
    if (!metric.empty()) {
        LATHE_TRY(by.metric, damage_metric_from_name(metric));
        if (by.metric != DamageMetric::task) {
            const bool fits = classes && (by.metric == DamageMetric::top1 || by.metric == DamageMetric::agreement);
            if (task.name.empty() || fits) return by;
            return Error{ErrorCode::invalid_argument, "--metric " + metric + " is not that of --task " + task.name,
                         "--metric", "leave one of the two out"};
        }
    }
    const EvalRequest request = request_of(data, task);
    LATHE_TRY(by.task, find_task_judging(request, info_of(prepared, length)));
    if (by.task) {
        by.metric = DamageMetric::task;
    } else if (!metric.empty()) {
        return Error{ErrorCode::invalid_argument, "--metric task, but no task is told", data.string(),
                     classes ? "of --task classification the metrics are top1 and agreement"
                             : "name one with --task, or put its truth beside the samples"};
    } else if (classes) {
        by.metric = DamageMetric::top1;
    }
    return by;
}

} // namespace lathe
