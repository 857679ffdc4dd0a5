#include <algorithm>
#include <array>

#include "evaluate/run.hpp"
#include "support/log.hpp"

namespace lathe {

namespace {

Result<bool> only_when_named(const EvalRequest&) { return false; }
Result<bool> always(const EvalRequest&) { return true; }
Result<EvaluationData> as_given(const EvalRequest& request) { return EvaluationData{request.data, ""}; }

Result<bool> has_boxes(const EvalRequest& request) {
    LATHE_TRY(const auto truth, find_detection_truth(request.data));
    return truth.has_value();
}
Result<EvaluationData> with_boxes(const EvalRequest& request) {
    LATHE_TRY(const auto truth, find_detection_truth(request.data));
    return truth ? EvaluationData{truth->pictures, truth->digest} : EvaluationData{request.data, ""};
}

/// Of the tasks whose truth find_masks, find_targets and find_texts find.
template <class Find>
Result<EvaluationData> found_by(const EvalRequest& request, const Find& find) {
    LATHE_TRY(const std::optional<CountedTruth> truth, find(request));
    return truth ? EvaluationData{truth->samples, truth->digest} : EvaluationData{request.data, ""};
}
Result<std::optional<CountedTruth>> masks(const EvalRequest& request) {
    return find_masks(request.data, request.counted, Preprocess{}, 0);
}
Result<std::optional<CountedTruth>> targets(const EvalRequest& request) {
    return find_targets(request.data, request.counted);
}
Result<std::optional<CountedTruth>> texts(const EvalRequest& request) { return find_texts(request.data); }

template <Result<std::optional<CountedTruth>> (*find)(const EvalRequest&)>
Result<bool> is_found(const EvalRequest& request) {
    const auto data = found_by(request, find);
    if (!data && data.error().code == ErrorCode::parse_error) { // a file of the name, not of the form
        log(LogLevel::warning, "not taken for what is true: " + data.error().describe());
        return false;
    }
    if (!data) return data.error();
    return !data->truth_digest.empty();
}
template <Result<std::optional<CountedTruth>> (*find)(const EvalRequest&)>
Result<EvaluationData> data_found(const EvalRequest& request) {
    return found_by(request, find);
}

constexpr std::array<EvaluationTask, 7> tasks{{
    {"detection",
     "mAP as COCO has it, --data being pictures with COCO's JSON, YOLO's or Pascal VOC's boxes, or without any the "
     "reference's own detections being the truth",
     has_boxes, with_boxes, evaluate_detection_engines},
    {"segmentation",
     "mean IoU of a class a pixel, --data holding images/ and masks/ (PNG), or without masks the reference's own "
     "classes being the truth",
     is_found<masks>, data_found<masks>, evaluate_segmentation_engines},
    {"regression",
     "R2, mean absolute error and PSNR of numbers, --data holding inputs/ and targets/ (.npy or PNG), or without "
     "targets against the reference's own numbers",
     is_found<targets>, data_found<targets>, evaluate_regression_engines},
    {"text-recognition",
     "character error rate of text read by CTC, --data being pictures with texts.csv (file,text), or without it "
     "against "
     "what the reference reads",
     is_found<texts>, data_found<texts>, evaluate_text_engines},
    {"similarity",
     "does the cosine between two texts' embeddings (or the one value of a model that reads both) follow their score",
     only_when_named, as_given, evaluate_similarity_engines},
    {"squad", "exact match and F1 of answers, --data being SQuAD's JSON file", only_when_named, as_given,
     evaluate_squad_engines},
    {"classification", "is the likeliest class right", always, as_given, evaluate_classification_engines},
}};

/// Not in the list: it has no name of its own.
constexpr EvaluationTask own_metric{"FILE.py:function", "a metric of the user's own", only_when_named, as_given,
                                    evaluate_engines_by_metric};

} // namespace

std::span<const EvaluationTask> evaluation_tasks() { return tasks; }

Result<const EvaluationTask*> evaluation_task(const EvalRequest& request) {
    if (names_a_metric(request.task)) return &own_metric;
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
                 "choose from " + names + ", or give FILE.py:function"};
}

} // namespace lathe
