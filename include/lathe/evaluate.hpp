#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/data.hpp"
#include "lathe/engine.hpp"
#include "lathe/export.hpp"
#include "lathe/progress.hpp"
#include "lathe/result.hpp"
#include "lathe/sample_span.hpp"

namespace lathe {

/// What is measured, and how data and outputs are read for it. Fields of other tasks count for nothing.
struct TaskOptions {
    /// "classification", "keypoints", "detection", "instances", "segmentation", "regression", "text-recognition",
    /// "similarity", "squad", or FILE.py:function, your own metric, whose code is run. Empty: what data or outputs say.
    std::string name = {};
    std::string output_name = {};     ///< the output to judge; empty: the first, or the one that suits the task
    std::string head = {};            ///< detection: how outputs hold detections ("yolox", ...); empty: recognised
    float score_threshold = 0.001F;   ///< detection: the least score that counts
    float nms_overlap = 0.65F;        ///< detection: a box that overlaps a better one of its class by more goes
    std::int64_t ignored_label = 255; ///< segmentation: the masks' value of pixels that count for nothing
    std::int64_t first_label = 0;     ///< segmentation: the masks' value of class 0; less is no class
    double target_scale = 1.0 / 255;  ///< regression: what values of targets in PNG are multiplied by
    double peak = 0;                  ///< regression: the largest value there can be, for PSNR; 0: what a PNG can hold
    /// Text recognition: a file with a character a line, in the order of the classes; empty: the model's own.
    std::filesystem::path characters = {};
    bool blank_last = false; ///< text recognition: whether CTC's blank is the last class, not the first
};

struct EngineEvaluationOptions {
    std::size_t samples = 0;             ///< spread evenly over the data; 0: all
    std::optional<SampleSpan> part = {}; ///< of those, in their order, these alone
    std::size_t batch_size = 16;
    std::string preprocess = {};  ///< instead of the (reference) engine's own: see CalibrationOptions
    std::string output_name = {}; ///< the output with the scores; empty: the first
    Progress* progress = nullptr; ///< nullptr: silent
};

/// A value with its 95 % interval.
struct Measured {
    double value = 0;
    double low = 0;
    double high = 0;
};

/// How often a classifier was right.
struct EngineScores {
    std::string name;
    std::string precision; ///< "fp32", "int8", ...
    std::size_t samples = 0;
    std::size_t nonfinite = 0;    ///< samples with NaN or infinity in the output; they count as wrong
    std::optional<Measured> top1; ///< shares 0..1 of the labelled samples (Wilson's interval); absent without labels
    std::optional<Measured> top5;
    std::size_t labelled = 0; ///< samples with a label
    std::size_t top1_right = 0;
    std::size_t top5_right = 0;
};

/// How closely a subject follows a reference on the same samples.
struct EngineComparison {
    EngineScores reference;
    EngineScores subject;
    Measured agreement; ///< share of samples with the same most likely class
    double mean_kl = 0; ///< KL(reference || subject) in nats, mean over the samples
    double sqnr_db = 0; ///< 20 log10(|r| / |r - s|); infinite where the outputs are equal
    double cosine = 0;  ///< mean over the samples
    double max_abs_error = 0;
    std::optional<Measured> top1_delta; ///< subject minus reference; absent without labels
    std::optional<double> p_value;      ///< McNemar's exact test that both are right equally often
};

/// Accuracy of one engine. Errors: invalid_argument (data without labels), what the data gives, mismatch, out_of_range
/// (a label that the output has no class for), cancelled.
LATHE_API Result<EngineScores> evaluate_engine(const Engine& engine, Data data,
                                               const EngineEvaluationOptions& options = {});

/// What several machines found, each on its own part of the data: counts add up, so figures and intervals are those of
/// one evaluation. Errors: invalid_argument (none), mismatch (of different engines).
LATHE_API Result<EngineScores> merge_scores(std::span<const EngineScores> parts);

/// Samples as an engine takes them.
struct EngineSamples {
    std::vector<std::string> names; ///< of files, or numbers
    std::vector<HostTensor> inputs; ///< one an input; axis 0 is the sample
};

/// How many samples there are, `options.part` left aside. Errors: what the data gives.
LATHE_API Result<std::size_t> count_samples(const Engine& engine, Data data,
                                            const EngineEvaluationOptions& options = {});
/// Reads samples as evaluate_engine does. Errors: what the data gives; out_of_range where there are none.
LATHE_API Result<EngineSamples> read_samples(const Engine& engine, Data data,
                                             const EngineEvaluationOptions& options = {});

/// Runs both engines on the same samples, labelled or not. Errors: as evaluate_engine; mismatch where the outputs'
/// shapes differ.
LATHE_API Result<EngineComparison> compare_engines(const Engine& reference, const Engine& subject, Data data,
                                                   const EngineEvaluationOptions& options = {});

} // namespace lathe
