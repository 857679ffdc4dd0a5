#include <algorithm>
#include <array>

#include "evaluate/run.hpp"
#include "support/hash.hpp"
#include "support/log.hpp"
#include "tasks/detection/keypoints.hpp"

namespace lathe {

namespace fs = std::filesystem;

namespace {

Result<bool> only_when_named(const EvalRequest&) { return false; }
Result<bool> always(const EvalRequest&) { return true; }
Result<EvaluationData> as_given(const EvalRequest& request) { return EvaluationData{request.data, ""}; }

Result<bool> has_boxes(const EvalRequest& request) {
    LATHE_TRY(const auto truth, find_detection_truth(request.data));
    return truth.has_value();
}
Result<bool> has_keypoints(const EvalRequest& request) {
    LATHE_TRY(const auto truth, find_keypoint_truth(request.data));
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

constexpr std::array<EvaluationTask, 9> tasks{{
    {"keypoints",
     "OKS AP of poses as COCO has it, its data being pictures with COCO's keypoints, or without any the reference's "
     "own "
     "poses being the truth",
     has_keypoints, with_boxes, evaluate_keypoint_engines, judge_keypoints},
    {"detection",
     "mAP as COCO has it, its data being pictures with COCO's JSON, YOLO's or Pascal VOC's boxes, or without any the "
     "reference's own detections being the truth",
     has_boxes, with_boxes, evaluate_detection_engines, judge_detection},
    {"instances",
     "mAP of masks as COCO has it (instance segmentation), its data being pictures with the outlines of COCO's "
     "instances.json, or without any the reference's own masks being the truth",
     only_when_named, with_boxes, evaluate_instance_engines, judge_instances},
    {"segmentation",
     "mean IoU of a class a pixel, its data holding images/ and masks/ (PNG), or without masks the reference's own "
     "classes being the truth",
     is_found<masks>, data_found<masks>, evaluate_segmentation_engines, judge_segmentation},
    {"regression",
     "R2, mean absolute error and PSNR of numbers, its data holding inputs/ and targets/ (.npy or PNG), or without "
     "targets against the reference's own numbers",
     is_found<targets>, data_found<targets>, evaluate_regression_engines, judge_regression},
    {"text-recognition",
     "character error rate of text read by CTC, its data being pictures with texts.csv (file,text), or without it "
     "against what the reference reads",
     is_found<texts>, data_found<texts>, evaluate_text_engines, judge_text_recognition},
    {"similarity",
     "does the cosine between two texts' embeddings (or the one value of a model that reads both) follow their score",
     only_when_named, as_given, evaluate_similarity_engines, nullptr},
    {"squad", "exact match and F1 of answers, its data being SQuAD's JSON file", only_when_named, as_given,
     evaluate_squad_engines, nullptr},
    {"classification", "is the likeliest class right", always, as_given, evaluate_classification_engines, nullptr},
}};

/// Not in the list: it has no name of its own.
constexpr EvaluationTask own_metric{"FILE.py:function", "a metric of the user's own", only_when_named,
                                    as_given,           evaluate_engines_by_metric,   nullptr};

} // namespace

std::span<const EvaluationTask> evaluation_tasks() { return tasks; }

void set_task(EvalRequest& request, const TaskOptions& task) {
    request.task = task.name;
    request.output_name = task.output_name;
    request.detection.head = task.head;
    request.detection.decode.score_threshold = task.score_threshold;
    request.detection.decode.overlap_threshold = task.nms_overlap;
    request.counted.ignored_label = task.ignored_label;
    request.counted.first_label = task.first_label;
    request.counted.target_scale = task.target_scale;
    request.counted.peak = task.peak;
    request.counted.characters = task.characters;
    request.counted.blank_last = task.blank_last;
}

Result<std::string> task_digest(const TaskOptions& task) {
    const Json told{task.name,        task.output_name,         task.head,        task.score_threshold,
                    task.nms_overlap, task.ignored_label,       task.first_label, task.target_scale,
                    task.peak,        task.characters.string(), task.blank_last};
    Hasher digest;
    digest.update(std::string_view(told.dump()));
    std::vector<fs::path> files;
    if (names_a_metric(task.name)) files.emplace_back(task.name.substr(0, task.name.rfind(':')));
    if (!task.characters.empty()) files.push_back(task.characters);
    for (const auto& file : files) {
        LATHE_TRY(const std::string hash, hash_file(file));
        digest.update(std::string_view(hash));
    }
    return digest.hex();
}

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
