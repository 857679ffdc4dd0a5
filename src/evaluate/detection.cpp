#include "evaluate/detection.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "data/encode.hpp"
#include "data/resize.hpp"
#include "evaluate/fidelity.hpp"
#include "evaluate/figures.hpp"
#include "support/base64.hpp"

namespace lathe {

namespace {

constexpr std::size_t pictures_shown = 4;  ///< a subject; each some 30 KB in the document
constexpr std::size_t picture_width = 480; ///< pixels, at most

/// One sample of a batch, as a batch.
Batch sample_of(const Batch& batch, std::size_t sample) {
    Batch one;
    for (const HostTensor& whole : batch.inputs) {
        Shape shape = whole.shape;
        shape[0] = 1;
        HostTensor& input = one.inputs.emplace_back(whole.name, whole.type, std::move(shape));
        std::memcpy(input.bytes.data(), whole.bytes.data() + sample * input.bytes.size(), input.bytes.size());
    }
    if (!batch.pictures.empty()) one.pictures.push_back(batch.pictures[sample]);
    one.names.push_back(batch.names[sample]);
    one.labels.push_back(-1);
    return one;
}

std::vector<DetectedPicture> pictures_of(const std::vector<std::vector<TrueObject>>& truth,
                                         const DetectionSubject& subject) {
    std::vector<DetectedPicture> pictures;
    for (std::size_t i = 0; i < subject.detections.size(); ++i)
        pictures.push_back({truth.at(i), subject.detections[i]});
    return pictures;
}

std::vector<std::vector<TrueObject>> answers_as_truth(const DetectionSubject& reference, float least_score) {
    std::vector<std::vector<TrueObject>> truth;
    for (const auto& detections : reference.detections)
        truth.push_back(as_truth(detections, least_score));
    return truth;
}

/// -1, where there was nothing to find, is null.
Json boxes_of(const std::vector<Detection>& detections, float least_score) {
    Json boxes = Json::array();
    for (const Detection& detection : detections) {
        if (detection.score < least_score) continue;
        boxes.push_back(to_json(detection));
    }
    return boxes;
}

/// The pictures on which a subject's answers are least like the reference's, the worst first.
Json worst_of(const DetectionEvaluation& evaluation, const DetectionSubject& subject,
              const std::vector<std::vector<TrueObject>>& expected, const DetectionOptions& options) {
    struct Entry {
        std::size_t picture;
        double agreement;
    };
    std::vector<Entry> entries;
    for (std::size_t i = 0; i < evaluation.pictures.size(); ++i) {
        const DetectedPicture picture{expected[i], subject.detections[i]};
        const double agreement = DetectionMatches({&picture, 1}).average_precision(OverlapRange::half);
        if (agreement > -1) entries.push_back({i, agreement});
    }
    std::ranges::stable_sort(entries, {}, &Entry::agreement);
    if (entries.size() > options.worst) entries.resize(options.worst);
    Json worst = Json::array();
    for (const Entry& entry : entries) {
        const DetectionSubject& reference = evaluation.subjects.front();
        worst.push_back({{"sample", evaluation.pictures[entry.picture]},
                         {"agreement", entry.agreement},
                         {"reference_boxes", boxes_of(reference.detections[entry.picture], options.least_true_score)},
                         {"subject_boxes", boxes_of(subject.detections[entry.picture], options.least_true_score)}});
    }
    return worst;
}

Json classes_of(const AveragePrecision& figures, const std::vector<std::string>& names) {
    Json classes = Json::array();
    for (std::size_t i = 0; i < figures.class_ap.size(); ++i) {
        if (figures.class_ap[i] <= -1) continue;
        classes.push_back(
            {{"class", i}, {"name", i < names.size() ? names[i] : std::to_string(i)}, {"map", figures.class_ap[i]}});
    }
    return classes;
}

} // namespace

Result<DetectionEvaluation> evaluate_detection(std::span<OutputsPredictor* const> detectors, bool has_reference,
                                               Dataset& data, const Preprocess& preprocess, const DetectionHead& head,
                                               const DetectionTruth* truth, const std::vector<std::int32_t>& classes,
                                               const DetectionOptions& options, Progress& progress) {
    DetectionEvaluation evaluation;
    evaluation.head = head;
    evaluation.has_reference = has_reference;
    for (OutputsPredictor* const detector : detectors)
        evaluation.subjects.push_back({detector->name(), detector->precision(), {}, 0});

    progress.begin("evaluate", data.size());
    while (true) {
        LATHE_CHECK(progress.check());
        LATHE_TRY(const std::optional<Batch> batch, data.next(std::max<std::size_t>(options.batch_size, 1)));
        if (!batch || batch->size() == 0) break;
        const bool pictures = !batch->sizes.empty();
        if (truth != nullptr && !pictures) {
            return Error{ErrorCode::invalid_argument, "the truth is of pictures, but the data are arrays", "", ""};
        }
        std::vector<bool> chosen(batch->size(), true);
        for (std::size_t i = 0; i < batch->size(); ++i) {
            if (truth != nullptr) {
                auto objects = truth->of(batch->names[i], batch->sizes[i]);
                chosen[i] = objects.has_value();
                if (!objects) {
                    ++evaluation.left_out;
                    continue;
                }
                for (TrueObject& object : *objects)
                    object.class_index = classes.at(static_cast<std::size_t>(object.class_index));
                evaluation.truth.push_back(*std::move(objects));
            }
            evaluation.pictures.push_back(batch->names[i]);
        }
        for (std::size_t s = 0; s < detectors.size(); ++s) {
            const auto place = [&](Error error) { return std::move(error).in(detectors[s]->name()); };
            DetectionSubject& subject = evaluation.subjects[s];
            std::vector<HostTensor> outputs;
            if (!head.one_sample) {
                auto all = detectors[s]->predict_all(*batch);
                if (!all) return place(std::move(all).error());
                outputs = *std::move(all);
            }
            for (std::size_t i = 0; i < batch->size(); ++i) {
                if (!chosen[i]) continue;
                if (head.one_sample) {
                    auto own = detectors[s]->predict_all(sample_of(*batch, i));
                    if (!own) return place(std::move(own).error());
                    outputs = *std::move(own);
                }
                auto found = decode(head, outputs, head.one_sample ? 0 : i, options.decode);
                if (!found) return place(std::move(found).error());
                if (pictures) map_back(*found, preprocess.mapping(batch->sizes[i].width, batch->sizes[i].height));
                subject.detections.push_back(*std::move(found));
                const bool finite =
                    head.one_sample ? all_outputs_finite(outputs, 0, 1) : all_outputs_finite(outputs, i, batch->size());
                if (!finite) ++subject.nonfinite;
            }
        }
        progress.advance(batch->size());
    }
    progress.end();
    if (evaluation.pictures.empty()) {
        return Error{ErrorCode::invalid_argument, "the data holds no pictures that the truth speaks of",
                     truth != nullptr ? truth->source.string() : std::string(), "do its file names fit?"};
    }
    return evaluation;
}

std::vector<std::string> class_names_of(std::vector<std::string> own, const DetectionHead& head,
                                        const DetectionTruth* truth, const std::vector<std::int32_t>& classes) {
    for (std::size_t i = 0; truth != nullptr && own.size() < head.classes && i < classes.size(); ++i) {
        const auto index = static_cast<std::size_t>(classes[i]);
        if (own.size() <= index) own.resize(index + 1);
        own[index] = truth->classes[i];
    }
    return own;
}

void show_pictures(Json& subjects, const std::filesystem::path& folder) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(folder, ignored)) return;
    for (Json& subject : subjects) {
        if (!subject.contains("worst")) continue;
        std::size_t shown = 0;
        for (Json& entry : subject["worst"]) {
            if (shown++ == pictures_shown) break;
            // One that cannot be read any more is not shown; its boxes are listed all the same.
            const auto image = read_image(folder / entry["sample"].get<std::string>());
            if (!image) continue;
            const std::size_t width = std::min(picture_width, image->width);
            const std::size_t height = std::max<std::size_t>(1, image->height * width / image->width);
            const auto small = resize(*image, width, height, Interpolation::bilinear);
            if (!small) continue;
            const auto bytes = encode_jpeg(*small, 80);
            if (!bytes) continue;
            entry["width"] = image->width;
            entry["height"] = image->height;
            entry["picture"] = "data:image/jpeg;base64," + encode_base64(*bytes);
        }
    }
}

Json to_json(const DetectionEvaluation& evaluation, const std::vector<std::string>& class_names,
             const DetectionOptions& options) {
    const bool labelled = !evaluation.truth.empty();
    std::vector<std::vector<TrueObject>> expected;
    if (evaluation.has_reference) expected = answers_as_truth(evaluation.subjects.front(), options.least_true_score);
    std::optional<DetectionMatches> reference;
    std::optional<DetectionMatches> reference_itself;
    Json subjects = Json::array();
    for (std::size_t s = 0; s < evaluation.subjects.size(); ++s) {
        const DetectionSubject& subject = evaluation.subjects[s];
        Json json{{"name", subject.name},
                  {"precision", subject.precision},
                  {"samples", evaluation.pictures.size()},
                  {"nonfinite_samples", subject.nonfinite}};
        std::optional<DetectionMatches> matches;
        if (labelled) {
            matches.emplace(pictures_of(evaluation.truth, subject));
            const AveragePrecision figures = matches->figures();
            json["map"] = known_or_null(figures.ap);
            json["map_ci95"] = to_json(bootstrap_interval(*matches, OverlapRange::coco, options.resamples));
            json["map50"] = known_or_null(figures.ap50);
            json["map75"] = known_or_null(figures.ap75);
            json["map_small"] = known_or_null(figures.ap_small);
            json["map_medium"] = known_or_null(figures.ap_medium);
            json["map_large"] = known_or_null(figures.ap_large);
            json["recall_1"] = known_or_null(figures.recall_1);
            json["recall_10"] = known_or_null(figures.recall_10);
            json["recall_100"] = known_or_null(figures.recall_100);
            json["classes"] = classes_of(figures, class_names);
        }
        if (evaluation.has_reference) {
            const DetectionMatches alike(pictures_of(expected, subject));
            const double agreement = alike.average_precision(OverlapRange::half);
            const Interval interval = bootstrap_interval(alike, OverlapRange::half, options.resamples);
            if (!labelled) {
                json["agreement"] = known_or_null(agreement);
                json["agreement_ci95"] = to_json(interval);
            }
            if (s == 0) {
                reference_itself = alike;
            } else {
                Json versus{{"reference", evaluation.subjects.front().name},
                            {"agreement", known_or_null(agreement)},
                            {"agreement_ci95", to_json(interval)}};
                if (labelled) {
                    versus["map_delta"] = matches->average_precision(OverlapRange::coco) -
                                          reference->average_precision(OverlapRange::coco);
                    versus["map_delta_ci95"] =
                        to_json(bootstrap_difference(*matches, *reference, OverlapRange::coco, options.resamples));
                } else {
                    versus["agreement_delta"] = agreement - reference_itself->average_precision(OverlapRange::half);
                    versus["agreement_delta_ci95"] =
                        to_json(bootstrap_difference(alike, *reference_itself, OverlapRange::half, options.resamples));
                }
                json["vs_reference"] = std::move(versus);
                json["worst"] = worst_of(evaluation, subject, expected, options);
            }
        }
        if (s == 0) reference = std::move(matches);
        subjects.push_back(std::move(json));
    }
    return subjects;
}

} // namespace lathe
