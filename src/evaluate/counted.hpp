#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
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
#include "tasks/counted.hpp"

namespace lathe {

struct CountedOptions {
    std::int64_t ignored_label = 255; ///< of a mask: pixels that count for nothing
    std::int64_t first_label = 0;     ///< of a mask: what class 0 is called; less is no class
    double target_scale = 1.0 / 255;  ///< of targets in PNG: a value's meaning is this many times it
    double peak = 0;                  ///< of regression: as RegressionOptions; 0: what a PNG can hold at most
    std::filesystem::path characters; ///< of text recognition: a character a line; empty: the model's own (`labels`)
    bool blank_last = false;          ///< of text recognition: as TextRecognitionOptions
    std::size_t resamples = 1000;     ///< of the bootstrap
};

/// What is true of a sample, as people wrote it down beside the samples.
struct CountedTruth {
    std::filesystem::path samples; ///< where the engines' inputs lie
    std::filesystem::path source;
    std::string format; ///< "masks", "targets", "texts"
    std::string digest;
    bool pictures = false; ///< of regression: it is in PNG
    /// Nothing for a sample that the truth does not speak of. `picture`: its size where it is one; `given`: an answer,
    /// whose form the truth takes.
    std::function<Result<std::optional<Answer>>(const std::string& sample, const std::optional<PictureSize>& picture,
                                                const Answer& given)>
        of;
};

/// Masks in PNG, of the pictures' names: masks/ beside images/, or SegmentationClass/ beside JPEGImages/ (Pascal VOC).
/// Each pixel of an answer is compared with the mask at its centre's place in the picture, which `preprocess` tells;
/// what is outside the picture counts for nothing. Nothing where `path` has no such folders. `classes`: of the model, 0
/// where any may be. Errors: while reading: not_found, unsupported (colours), out_of_range (more classes).
Result<std::optional<CountedTruth>> find_masks(const std::filesystem::path& path, const CountedOptions& options,
                                               const Preprocess& preprocess, std::size_t classes);

/// Targets: targets/ beside inputs/, a .npy or .png of the sample's name each; or targets.npy beside inputs.npy, a row
/// a sample. A PNG's values are taken times `target_scale`, colours as 3xHxW.
Result<std::optional<CountedTruth>> find_targets(const std::filesystem::path& path, const CountedOptions& options);

/// Texts of pictures in the folder: texts.csv ("file,text"), or rec_gt.txt as PaddleOCR writes it (file, tab, text).
Result<std::optional<CountedTruth>> find_texts(const std::filesystem::path& path);

struct CountedSubject {
    std::string name;
    std::string precision;
    std::size_t nonfinite = 0;
    SampleCounts truth;     ///< against the truth; empty without
    SampleCounts reference; ///< against the reference's answers; empty without
};

struct CountedEvaluation {
    std::vector<std::string> samples;
    std::size_t left_out = 0; ///< samples that the truth does not speak of
    bool labelled = false;
    bool has_reference = false; ///< it is the first subject then
    std::vector<CountedSubject> subjects;
};

/// Runs every engine over the samples and counts its answers beside the truth (which may be null), and beside the
/// reference's, the first. Errors: what the data, an engine or the truth gives; mismatch; cancelled.
Result<CountedEvaluation> evaluate_counted(const CountedTask& task, std::span<OutputsPredictor* const> engines,
                                           bool has_reference, Dataset& data, const CountedTruth* truth,
                                           std::size_t batch_size, Progress& progress);

/// The "subjects" array of the eval JSON: each figure with its interval, against the truth, or without one against the
/// reference's answers; and, where those were counted, `worst` samples that agree least with the reference. The first
/// figure judges.
Json to_json(const CountedEvaluation& evaluation, const std::vector<CountedFigure>& figures, std::size_t worst,
             std::size_t resamples);

} // namespace lathe
