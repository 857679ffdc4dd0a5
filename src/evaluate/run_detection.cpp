#include <algorithm>

#include "evaluate/detection.hpp"
#include "evaluate/figures.hpp"
#include "evaluate/run.hpp"
#include "runtime/engine.hpp"
#include "support/hash.hpp"
#include "support/log.hpp"

namespace lathe {

std::vector<OutputShape> output_shapes(const EngineInfo& engine) {
    // The samples that all runs have, where an input fixes them.
    std::int64_t samples = -1;
    if (engine.inputs.size() == 1 && !engine.inputs.front().range.opt.empty()) {
        const ShapeRange& range = engine.inputs.front().range;
        if (range.min[0] == range.max[0]) samples = range.opt[0];
    }
    std::vector<OutputShape> outputs;
    for (const IoInfo& output : engine.outputs) {
        Shape shape = output.range.opt;
        for (std::size_t axis = 0; axis < shape.size(); ++axis)
            if (output.range.min[axis] != output.range.max[axis]) shape[axis] = -1;
        const bool sampled = shape.empty() || is_sampled(shape[0], samples);
        if (sampled && !shape.empty()) shape[0] = -1;
        outputs.push_back({output.name, std::move(shape), sampled});
    }
    return outputs;
}

Result<Preprocess::Size> picture_input(const EngineInfo& engine) {
    if (engine.inputs.size() == 1 && engine.inputs.front().range.opt.size() == 4) {
        const Shape& shape = engine.inputs.front().range.opt;
        const std::size_t first = shape[1] == 3 || shape[3] != 3 ? 2 : 1;
        return Preprocess::Size{static_cast<std::size_t>(shape[first]), static_cast<std::size_t>(shape[first + 1])};
    }
    return Error{ErrorCode::unsupported, "models with one input of pictures can be evaluated so, this one has another",
                 engine.name, ""};
}

Result<DetectionHead> detection_head(const EngineInfo& engine, const std::string& name) {
    LATHE_TRY(const Preprocess::Size size, picture_input(engine));
    const std::vector<OutputShape> outputs = output_shapes(engine);
    if (!name.empty()) {
        const auto form = head_form_from_name(name);
        if (!form) {
            return Error{ErrorCode::invalid_argument, "no detection head is called '" + name + "'", "--head",
                         "choose from " + head_form_names()};
        }
        return make_head(*form, outputs, size.height, size.width);
    }
    if (auto head = recognise_head(outputs, size.height, size.width)) return *std::move(head);
    std::string found;
    for (const OutputShape& output : outputs)
        found += (found.empty() ? "" : ", ") + output.name + " " + to_string(output.shape);
    return Error{ErrorCode::unsupported, "the outputs are those of no detection head that is known: " + found,
                 engine.name, "name it with --head: " + head_form_names()};
}

Result<Json> evaluate_detection_engines(const EvalRequest& request, Progress& progress) {
    LATHE_TRY(const auto truth, find_detection_truth(request.data));
    if (!truth && request.reference.empty()) {
        return Error{ErrorCode::invalid_argument, "the data has no boxes and there is no reference engine",
                     request.data.string(),
                     "add COCO's instances.json, YOLO's labels/ or Pascal VOC's Annotations/, or give --reference "
                     "fp32.engine"};
    }
    std::vector<std::unique_ptr<OutputsPredictor>> owned; // the reference first, if there is one
    std::optional<Preprocess> preprocess;
    DetectionHead head;
    const auto take = [&](const Engine& engine, const std::string& name) -> Result<void> {
        if (!preprocess) {
            LATHE_TRY(preprocess, preprocess_for(request.preprocess, engine.info()));
        }
        if (owned.empty()) {
            LATHE_TRY(head, detection_head(engine.info(), request.detection.head));
        }
        std::vector<std::string> outputs;
        for (const IoInfo& output : engine.info().outputs)
            outputs.push_back(output.name);
        LATHE_TRY(auto predictor, make_outputs_predictor(
                                      engine, name, outputs, request.preprocess_on_device ? preprocess : std::nullopt,
                                      head.one_sample ? OutputsHold::one_sample : OutputsHold::numbers));
        owned.push_back(std::move(predictor));
        return {};
    };
    LATHE_TRY(const LoadedEngines loaded, load_engines(request, take, progress));
    LATHE_TRY(const bool by_masks, judged_by_masks(request, head, truth));
    if (by_masks) return evaluate_instance_engines(request, progress);
    std::vector<OutputsPredictor*> detectors;
    for (const auto& predictor : owned)
        detectors.push_back(predictor.get());

    DetectionOptions options = request.detection;
    options.batch_size = request.options.batch_size;
    options.worst = request.options.worst;
    std::vector<std::int32_t> classes;
    std::vector<std::string> class_names = loaded.first.labels;
    if (truth) {
        LATHE_TRY(classes, map_classes(*truth, class_names, head.classes));
        class_names = class_names_of(std::move(class_names), head, &*truth, classes);
    }
    DatasetOptions opening;
    opening.samples = request.samples;
    opening.pictures = request.preprocess_on_device;
    LATHE_TRY(const auto data, open_dataset(truth ? truth->pictures : request.data, preprocess, loaded.first, opening));
    LATHE_TRY(const DetectionEvaluation evaluation,
              evaluate_detection(detectors, !request.reference.empty(), *data, preprocess.value_or(Preprocess{}), head,
                                 truth ? &*truth : nullptr, classes, options, progress));
    if (evaluation.left_out > 0) {
        log(LogLevel::warning, std::to_string(evaluation.left_out) +
                                   " pictures are left out: " + truth->source.string() + " does not speak of them");
    }
    if (!truth) {
        log(LogLevel::warning,
            "the data has no boxes: the reference's own detections with a score of at least 0.25 are "
            "taken for the truth");
    }
    LATHE_TRY(const std::string pictures_digest, data->digest());
    Hasher digest;
    digest.update(std::string_view(pictures_digest));
    if (truth) digest.update(std::string_view(truth->digest));
    Json json = eval_document(request, loaded.libraries, digest.hex(), evaluation.pictures.size());
    json["task"] = "detection";
    json["head"] = to_string(head.form);
    json["truth"] = truth ? Json{{"format", truth->format}, {"path", truth->source.string()}} : Json(nullptr);
    json["score_threshold"] = options.decode.score_threshold;
    json["nms_overlap"] = options.decode.overlap_threshold;
    json["class_names"] = class_names;
    json["subjects"] = to_json(evaluation, class_names, options);
    show_pictures(json["subjects"], truth ? truth->pictures : request.data);
    const std::string pictures = std::to_string(evaluation.pictures.size()) + " pictures";
    using enum FigureFormat;
    if (truth) {
        describe_figures(
            json, {"mAP", "map"}, "Detection on " + pictures + " (" + truth->format + ")",
            {{"mAP 0.50:0.95", "map", share, 2},
             {"mAP 0.50", "map50", share, 2},
             {"mAP 0.75", "map75", share, 2},
             {"small", "map_small", share, 1},
             {"medium", "map_medium", share, 1},
             {"large", "map_large", share, 1},
             {"recall at 100", "recall_100", share, 1}},
            {{"mAP change", "map_delta", points, 2}, {"same detections (mAP 0.50)", "agreement", share, 2}});
    } else {
        describe_figures(json, {"mAP 0.50 against the reference's detections", "agreement"},
                         "Detection on " + pictures + " without truth", {},
                         {{"same detections (mAP 0.50)", "agreement", share, 2}});
    }
    return json;
}

} // namespace lathe
