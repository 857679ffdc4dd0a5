#include <algorithm>

#include "data/labels.hpp"
#include "evaluate/counted.hpp"
#include "evaluate/figures.hpp"
#include "evaluate/run.hpp"
#include "runtime/engine.hpp"
#include "support/hash.hpp"
#include "support/log.hpp"
#include "tasks/regression.hpp"
#include "tasks/segmentation.hpp"
#include "tasks/text_recognition.hpp"

namespace lathe {

namespace {

/// The output that an engine's task is about, and the task of it as the only one.
struct Judged {
    std::string output;
    std::unique_ptr<CountedTask> task;
};

/// What the three tasks here do not share.
struct CountedPlan {
    const char* name;
    const char* missing; ///< what to do where there is neither truth nor reference
    std::function<Result<Judged>(const EngineInfo&)> judged;
    std::function<Result<std::optional<CountedTruth>>(const Preprocess&)> truth;
    std::function<void(Json&, const CountedTruth*, const std::string& samples)> describe;
    const char* metric; ///< its first figure, for people
};

Result<Json> evaluate_engines_by(const CountedPlan& plan, const EvalRequest& request, Progress& progress) {
    std::vector<std::unique_ptr<OutputsPredictor>> owned; // the reference first, if there is one
    std::optional<Preprocess> preprocess;
    Judged judged;
    const auto take = [&](const Engine& engine, const std::string& name) -> Result<void> {
        if (owned.empty()) {
            if (!preprocess) {
                LATHE_TRY(preprocess, preprocess_for(request.preprocess, engine.info()));
            }
            LATHE_TRY(judged, plan.judged(engine.info()));
        }
        LATHE_TRY(auto predictor, make_outputs_predictor(engine, name, {judged.output},
                                                         request.preprocess_on_device ? preprocess : std::nullopt,
                                                         OutputsHold::numbers));
        owned.push_back(std::move(predictor));
        return {};
    };
    LATHE_TRY(const LoadedEngines loaded, load_engines(request, take, progress));
    LATHE_TRY(const auto truth, plan.truth(preprocess.value_or(Preprocess{})));
    if (!truth && request.reference.empty()) {
        return Error{ErrorCode::invalid_argument, "the data has no truth and there is no reference engine",
                     request.data.string(), std::string(plan.missing) + ", or give --reference fp32.engine"};
    }
    std::vector<OutputsPredictor*> engines;
    for (const auto& predictor : owned)
        engines.push_back(predictor.get());
    DatasetOptions opening;
    opening.samples = request.samples;
    opening.pictures = request.preprocess_on_device;
    LATHE_TRY(const auto data, open_dataset(truth ? truth->samples : request.data, preprocess, loaded.first, opening));
    LATHE_TRY(const CountedEvaluation evaluation,
              evaluate_counted(*judged.task, engines, !request.reference.empty(), *data, truth ? &*truth : nullptr,
                               request.options.batch_size, progress));
    if (evaluation.left_out > 0) {
        log(LogLevel::warning, std::to_string(evaluation.left_out) +
                                   " samples are left out: " + truth->source.string() + " does not speak of them");
    }
    if (!truth) log(LogLevel::warning, "the data has no truth: the reference's own answers are taken for it");
    LATHE_TRY(const std::string samples_digest, data->digest());
    Hasher digest;
    digest.update(std::string_view(samples_digest));
    if (truth) digest.update(std::string_view(truth->digest));
    Json json = eval_document(request, loaded.libraries, digest.hex(), evaluation.samples.size());
    json["task"] = plan.name;
    json["output"] = judged.output;
    json["truth"] = truth ? Json{{"format", truth->format}, {"path", truth->source.string()}} : Json(nullptr);
    json["subjects"] = to_json(evaluation, judged.task->figures(), request.options.worst, request.counted.resamples);
    plan.describe(json, truth ? &*truth : nullptr, std::to_string(evaluation.samples.size()));
    return json;
}

Result<TaskJudging> judge_by(const CountedPlan& plan, const EvalRequest& request, const EngineInfo& model) {
    LATHE_TRY(const std::optional<Preprocess> preprocess, preprocess_for(request.preprocess, model));
    LATHE_TRY(Judged judged, plan.judged(model));
    LATHE_TRY(auto found, plan.truth(preprocess.value_or(Preprocess{})));
    const auto output = std::ranges::find(model.outputs, judged.output, &IoInfo::name);
    TaskJudging judging;
    judging.task = plan.name;
    judging.metric = std::string(plan.metric) + (found ? "" : " against the float network's answers");
    judging.labelled = found.has_value();
    judging.samples = found ? found->samples : request.data;
    if (found) judging.digest = found->digest;
    const std::shared_ptr<const CountedTask> task = std::move(judged.task);
    const std::shared_ptr<const CountedTruth> truth =
        found ? std::make_shared<const CountedTruth>(*std::move(found)) : nullptr;
    judging.make = [task, truth, index = static_cast<std::size_t>(output - model.outputs.begin())] {
        return make_counted_judge(task, index, truth);
    };
    return judging;
}

/// The position of the output asked for; the first where none is.
Result<std::size_t> output_index(const EngineInfo& engine, const std::string& name) {
    const auto found = std::ranges::find(engine.outputs, name, &IoInfo::name);
    if (name.empty() || found != engine.outputs.end())
        return name.empty() ? 0 : static_cast<std::size_t>(found - engine.outputs.begin());
    return Error{ErrorCode::not_found, "the engine has no output '" + name + "'", engine.name, ""};
}

std::string against(const CountedTruth* truth) {
    return truth != nullptr ? " (" + truth->format + ")" : " against the reference's answers";
}

Result<std::vector<std::string>> characters_of(const EvalRequest& request, const EngineInfo& engine) {
    if (!request.counted.characters.empty()) return read_class_names(request.counted.characters);
    if (!engine.labels.empty()) return engine.labels;
    return Error{ErrorCode::invalid_argument, "the model does not say which characters its classes are", engine.name,
                 "give --characters FILE, a character a line in the order of the classes"};
}

/// `request` must outlive it.
Result<CountedPlan> segmentation_plan(const EvalRequest& request) {
    const auto classes = std::make_shared<std::size_t>(0);
    CountedPlan plan;
    plan.metric = "mean IoU";
    plan.name = "segmentation";
    plan.missing = "put masks in PNG, named as the pictures, into masks/ beside images/";
    plan.judged = [&request, classes](const EngineInfo& engine) -> Result<Judged> {
        LATHE_TRY(const Preprocess::Size size, picture_input(engine));
        std::vector<OutputShape> outputs = output_shapes(engine);
        if (!request.output_name.empty()) {
            LATHE_TRY(const std::size_t index, output_index(engine, request.output_name));
            outputs = {outputs[index]};
        }
        LATHE_TRY(SegmentationHead head, segmentation_head(outputs, size.height, size.width));
        *classes = head.classes > 1 ? head.classes : 0;
        const std::string output = outputs[head.output].name;
        head.output = 0;
        return Judged{output, make_segmentation_task(head)};
    };
    plan.truth = [&request, classes](const Preprocess& preprocess) {
        return find_masks(request.data, request.counted, preprocess, *classes);
    };
    plan.describe = [](Json& json, const CountedTruth* truth, const std::string& samples) {
        using enum FigureFormat;
        describe_figures(json, {"mean IoU", "miou"}, "Segmentation of " + samples + " pictures" + against(truth),
                         {{"mean IoU", "miou", share, 2}, {"right pixels", "pixel_accuracy", share, 2}},
                         {{"mean IoU change", "miou_delta", points, 2},
                          {"mean IoU with the reference's classes", "agreement", share, 2}});
    };
    return plan;
}

/// `request` must outlive it.
Result<CountedPlan> regression_plan(const EvalRequest& request) {
    CountedPlan plan;
    plan.metric = "R2";
    double peak = request.counted.peak;
    plan.name = "regression";
    plan.missing = "put targets, named as the samples, into targets/ beside inputs/";
    LATHE_TRY(const auto found, find_targets(request.data, request.counted));
    if (peak <= 0 && found && found->pictures) peak = 255 * request.counted.target_scale;
    plan.judged = [&request, peak](const EngineInfo& engine) -> Result<Judged> {
        LATHE_TRY(const std::size_t index, output_index(engine, request.output_name));
        return Judged{engine.outputs.at(index).name, make_regression_task({0, peak})};
    };
    plan.truth = [found](const Preprocess&) -> Result<std::optional<CountedTruth>> { return found; };
    plan.describe = [peak](Json& json, const CountedTruth* truth, const std::string& samples) {
        using enum FigureFormat;
        const std::string heading = "Regression on " + samples + " samples" + against(truth);
        const Figure change{"R2 change", "r2_delta", points, 2};
        const Figure same{"R2 with the reference's numbers", "agreement", share, 2};
        const Figure r2{"R2", "r2", share, 2};
        const Figure mae{"mean absolute error", "mae", number, 5};
        const Figure rmse{"RMSE", "rmse", number, 5};
        const Figure psnr{"PSNR dB", "psnr", decibel, 2};
        if (peak > 0) {
            json["peak"] = peak;
            describe_figures(json, {"R2", "r2"}, heading, {r2, mae, rmse, psnr}, {change, same});
        } else {
            describe_figures(json, {"R2", "r2"}, heading, {r2, mae, rmse}, {change, same});
        }
    };
    return plan;
}

/// `request` must outlive it.
Result<CountedPlan> text_plan(const EvalRequest& request) {
    CountedPlan plan;
    plan.metric = "right characters";
    plan.name = "text-recognition";
    plan.missing = "add texts.csv (file,text) to the folder of pictures";
    plan.judged = [&request](const EngineInfo& engine) -> Result<Judged> {
        LATHE_TRY(const std::size_t index, output_index(engine, request.output_name));
        LATHE_TRY(auto characters, characters_of(request, engine));
        return Judged{engine.outputs.at(index).name,
                      make_text_recognition_task({0, std::move(characters), request.counted.blank_last})};
    };
    plan.truth = [&request](const Preprocess&) { return find_texts(request.data); };
    plan.describe = [](Json& json, const CountedTruth* truth, const std::string& samples) {
        using enum FigureFormat;
        describe_figures(json, {"character accuracy", "character_accuracy"},
                         "Text recognition on " + samples + " pictures" + against(truth),
                         {{"right characters", "character_accuracy", share, 2},
                          {"character error rate", "cer", share, 2},
                          {"right lines", "line_accuracy", share, 2}},
                         {{"change", "character_accuracy_delta", points, 2},
                          {"same characters as the reference", "agreement", share, 2}});
    };
    return plan;
}

} // namespace

Result<Json> evaluate_segmentation_engines(const EvalRequest& request, Progress& progress) {
    LATHE_TRY(const CountedPlan plan, segmentation_plan(request));
    return evaluate_engines_by(plan, request, progress);
}

Result<Json> evaluate_regression_engines(const EvalRequest& request, Progress& progress) {
    LATHE_TRY(const CountedPlan plan, regression_plan(request));
    return evaluate_engines_by(plan, request, progress);
}

Result<Json> evaluate_text_engines(const EvalRequest& request, Progress& progress) {
    LATHE_TRY(const CountedPlan plan, text_plan(request));
    return evaluate_engines_by(plan, request, progress);
}

Result<TaskJudging> judge_segmentation(const EvalRequest& request, const EngineInfo& model) {
    LATHE_TRY(const CountedPlan plan, segmentation_plan(request));
    return judge_by(plan, request, model);
}

Result<TaskJudging> judge_regression(const EvalRequest& request, const EngineInfo& model) {
    LATHE_TRY(const CountedPlan plan, regression_plan(request));
    return judge_by(plan, request, model);
}

Result<TaskJudging> judge_text_recognition(const EvalRequest& request, const EngineInfo& model) {
    LATHE_TRY(const std::size_t index, output_index(model, request.output_name));
    const IoInfo& output = model.outputs.at(index);
    const Shape& shape = output.range.opt;
    if (shape.size() == 3 && shape[0] >= 0 && shape[1] < 0) {
        return Error{ErrorCode::unsupported, "layers are not judged by texts that are read from scores by step (TxNxC)",
                     output.name, "put a Transpose to NxTxC behind the model; lathe eval takes it as it is"};
    }
    LATHE_TRY(const CountedPlan plan, text_plan(request));
    return judge_by(plan, request, model);
}

} // namespace lathe
