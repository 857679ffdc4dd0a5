#include <algorithm>
#include <array>

#include "evaluate/run.hpp"

namespace lathe {

namespace {

Result<bool> only_when_named(const EvalRequest&) { return false; }
Result<bool> always(const EvalRequest&) { return true; }

Result<bool> has_boxes(const EvalRequest& request) {
    LATHE_TRY(const auto truth, find_detection_truth(request.data));
    return truth.has_value();
}

constexpr std::array<EvaluationTask, 4> tasks{{
    {"detection",
     "mAP as COCO has it, --data being pictures with COCO's JSON, YOLO's or Pascal VOC's boxes, or without any the "
     "reference's own detections being the truth",
     has_boxes, evaluate_detection_engines},
    {"similarity",
     "does the cosine between two texts' embeddings (or the one value of a model that reads both) follow their score",
     only_when_named, evaluate_similarity_engines},
    {"squad", "exact match and F1 of answers, --data being SQuAD's JSON file", only_when_named, evaluate_squad_engines},
    {"classification", "is the likeliest class right", always, evaluate_classification_engines},
}};

} // namespace

std::span<const EvaluationTask> evaluation_tasks() { return tasks; }

Result<const EvaluationTask*> evaluation_task(const EvalRequest& request) {
    for (const EvaluationTask& task : tasks) {
        if (!request.task.empty()) {
            if (request.task == task.name) return &task;
            continue;
        }
        LATHE_TRY(const bool suits, task.suits(request));
        if (suits) return &task;
    }
    std::string names;
    for (const EvaluationTask& task : tasks)
        names += (names.empty() ? "" : ", ") + std::string(task.name);
    return Error{ErrorCode::invalid_argument, "no task is called '" + request.task + "'", "--task",
                 "choose from " + names};
}

} // namespace lathe
