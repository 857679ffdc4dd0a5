#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/preprocess.hpp"
#include "evaluate/engine_predictor.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"
#include "tasks/detection/average_precision.hpp"
#include "tasks/detection/head.hpp"
#include "tasks/detection/truth.hpp"

namespace lathe {

struct DetectionOptions {
    std::string head; ///< a HeadForm's name; empty: recognised
    DecodeOptions decode{};
    float least_true_score = 0.25F; ///< without truth, the reference's detections from that score on are the truth
    std::size_t batch_size = 16;
    std::size_t worst = 10;       ///< how many of the pictures that differ most are listed
    std::size_t resamples = 1000; ///< of the bootstrap
};

/// One detector's answers.
struct DetectionSubject {
    std::string name;
    std::string precision;
    std::vector<std::vector<Detection>> detections; ///< one list a picture, in the picture's pixels
    std::size_t nonfinite = 0;                      ///< pictures with a NaN or infinity among the outputs
};

struct DetectionEvaluation {
    DetectionHead head;
    std::vector<std::string> pictures;          ///< names
    std::vector<std::vector<TrueObject>> truth; ///< one list a picture; empty without truth
    std::size_t left_out = 0;                   ///< pictures that the truth does not speak of
    bool has_reference = false;                 ///< it is the first subject then
    std::vector<DetectionSubject> subjects;
};

/// Runs every detector over the pictures and keeps what each finds. `truth` may be null; its classes become the
/// model's through `classes`. Boxes are mapped back through `preprocess` where the data are pictures.
/// Errors: what the data or a predictor gives; mismatch (outputs that are not the head's); cancelled.
Result<DetectionEvaluation> evaluate_detection(std::span<OutputsPredictor* const> detectors, bool has_reference,
                                               Dataset& data, const Preprocess& preprocess, const DetectionHead& head,
                                               const DetectionTruth* truth, const std::vector<std::int32_t>& classes,
                                               const DetectionOptions& options, Progress& progress);

/// The model's class names; of those it does not tell, the truth's, whose classes become the model's through `classes`.
std::vector<std::string> class_names_of(std::vector<std::string> own, const DetectionHead& head,
                                        const DetectionTruth* truth, const std::vector<std::int32_t>& classes);

/// Puts the first of each subject's "worst" pictures themselves into the document, small, for the report to draw into.
/// Nothing is put where `folder` is none.
void show_pictures(Json& subjects, const std::filesystem::path& folder);

/// The "subjects" array of the eval JSON. `class_names` are by the model's class index and may be empty.
Json to_json(const DetectionEvaluation& evaluation, const std::vector<std::string>& class_names,
             const DetectionOptions& options);

} // namespace lathe
