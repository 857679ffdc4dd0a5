#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "api/prepare.hpp"
#include "evaluate/task_judge.hpp"
#include "lathe/evaluate.hpp"
#include "lathe/result.hpp"
#include "sensitivity/score.hpp"

namespace lathe {

/// By what layers and mixes are judged.
struct JudgedBy {
    DamageMetric metric = DamageMetric::sqnr;
    std::optional<TaskJudging> task; ///< where `metric` is task
};

/// A model that is no engine yet, as a task sees it: inputs, outputs (sizes that are not known -1), class names and
/// preprocessing. `length`: of a text model's samples.
EngineInfo info_of(const PreparedModel& prepared, std::size_t length);

/// Where the samples lie in data of the task, with its truth beside them: pictures/ of a folder with labels/, say.
/// Errors: invalid_argument (no such task); what reading the truth gives.
Result<std::filesystem::path> samples_of(const std::filesystem::path& data, const TaskOptions& task);

/// `metric`: a name; empty: the task's where one is named or is told by the data or the outputs, else `otherwise`. With
/// --task classification that is top1, or agreement without labels.
/// Errors: invalid_argument (metrics that contradict the task, "task" where nothing tells one), unsupported (a task
/// that cannot judge layers), what reading the truth gives.
Result<JudgedBy> judged_by(const PreparedModel& prepared, const std::filesystem::path& data, const TaskOptions& task,
                           const std::string& metric, DamageMetric otherwise, std::size_t length);

} // namespace lathe
