#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/open_dataset.hpp"
#include "data/preprocess_presets.hpp"
#include "evaluate/counted.hpp"
#include "evaluate/detection.hpp"
#include "evaluate/evaluate.hpp"
#include "evaluate/squad.hpp"
#include "evaluate/task_judge.hpp"
#include "lathe/engine.hpp"
#include "lathe/evaluate.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe {

struct EvaluationTask;
struct PoseHead;

/// The engine's own preprocessing; nothing where it has none. Errors: parse_error.
Result<std::optional<Preprocess>> preprocess_of(const EngineInfo& engine);
/// What the request says, else what the engine says.
Result<std::optional<Preprocess>> preprocess_for(const PreprocessChoice& choice, const EngineInfo& engine);

/// What the engine expects of data, input by input: -1 for the batch and for sizes that it leaves open.
std::vector<InputSpec> input_specs(const EngineInfo& engine);

/// Whether the engine's output is an embedding a text, to be compared with others', as its tokenizer's description
/// says.
bool gives_embeddings(const EngineInfo& engine);

/// The options with the engine's tokenizer and class names, and the sequence lengths that it takes.
DatasetOptions with_lengths(DatasetOptions options, const EngineInfo& engine);

/// Samples for an engine, with its own preprocessing unless another is given, and its own tokenizer (which
/// `options.text.make_tokenizer` makes) and sequence lengths.
Result<std::unique_ptr<Dataset>> open_dataset(const std::filesystem::path& path, const PreprocessChoice& choice,
                                              const EngineInfo& engine, const DatasetOptions& options);

struct EvalRequest {
    std::vector<std::filesystem::path> engines;
    std::filesystem::path reference; ///< an engine; empty: accuracy alone. May be one of `engines`
    std::string task; ///< the name of one of evaluation_tasks(), or FILE.py:function; empty: the first that suits the
                      ///< data, and where it has no labels the one that the outputs tell, if they do
    std::filesystem::path data;
    std::string columns;               ///< of a text file; see parse_text_columns
    TokenizerFactory make_tokenizer;   ///< for texts
    std::size_t samples = 0;           ///< 0: all
    PreprocessChoice preprocess;       ///< instead of the first engine's own
    bool preprocess_on_device = false; ///< pictures are resized and normalised by the engines' device, not the CPU
    std::string output_name;           ///< of the output to judge; empty: the first
    EvaluateOptions options;
    SquadOptions squad;         ///< of the task squad; batch_size and samples are the request's
    DetectionOptions detection; ///< of the task detection; batch_size and worst are the request's
    CountedOptions counted;     ///< of segmentation, regression and text recognition
    std::string command_line;   ///< for the record
};

/// The request's task, with what is said of how its data and outputs are read.
void set_task(EvalRequest& request, const TaskOptions& task);
/// Digest of all that TaskOptions say; of a metric of the user's own with its file's. Errors: not_found, io_error.
Result<std::string> task_digest(const TaskOptions& task);

/// What is told of an evaluation's engines together.
struct LoadedEngines {
    EngineInfo first;                ///< the reference, if there is one
    Json libraries = Json::object(); ///< versions by backend
};
/// Loads the reference, if there is one, and then the engines but that file again; `take` gets each with a name that
/// none before it has. Errors: invalid_argument for no engine; what loading or `take` gives; cancelled.
Result<LoadedEngines> load_engines(const EvalRequest& request,
                                   const std::function<Result<void>(const Engine&, const std::string&)>& take,
                                   Progress& progress);
/// The eval document without its subjects.
Json eval_document(const EvalRequest& request, const Json& libraries, const std::string& digest, std::size_t samples);

/// The head of a detector's engine: the one named (a HeadForm's name), else the one that its outputs tell.
/// Errors: invalid_argument (no such name), mismatch (named, but the outputs are others), unsupported (none is told).
Result<DetectionHead> detection_head(const EngineInfo& engine, const std::string& name);

/// The same with masks. Errors: also unsupported, where the head has none.
Result<DetectionHead> instance_head(const EngineInfo& engine, const std::string& name);
/// The head of a pose network's engine. Errors: unsupported.
Result<PoseHead> keypoint_head(const EngineInfo& engine);

/// The engine's outputs; sizes that it leaves open are -1, as is the sample's axis.
std::vector<OutputShape> output_shapes(const EngineInfo& engine);
/// The task that the outputs themselves tell, where it is another than classification; else null. `head`: a detection
/// head that was named, or empty.
const EvaluationTask* task_of_outputs(const EngineInfo& engine, const std::string& head);
/// Height and width of the one input that takes pictures. Errors: unsupported (other inputs).
Result<Preprocess::Size> picture_input(const EngineInfo& engine);

/// Where an evaluation's samples lie, and the digest of their truth where that lies apart; else empty.
struct EvaluationData {
    std::filesystem::path samples;
    std::string truth_digest;
};

/// What an evaluation measures: the seam behind which a task reads samples and truth, makes answers of outputs and
/// judges them. Its document says through describe_figures what is shown of it.
struct EvaluationTask {
    const char* name; ///< as --task takes it
    const char* help; ///< what it measures and of which data
    /// Whether data that nothing else was said of are for this task.
    Result<bool> (*suits)(const EvalRequest& request);
    Result<EvaluationData> (*data)(const EvalRequest& request);
    Result<Json> (*evaluate)(const EvalRequest& request, Progress& progress);
    /// How `lathe sensitivity`, `tune` and `compare` judge by it; null where they cannot.
    Result<TaskJudging> (*judge)(const EvalRequest& request, const EngineInfo& model);
};
/// All tasks, in the order in which they are asked whether data suit them; the last suits any.
std::span<const EvaluationTask> evaluation_tasks();
/// The task that the request names, or that suits its data. Errors: invalid_argument for an unknown name.
Result<const EvaluationTask*> evaluation_task(const EvalRequest& request);

Result<Json> evaluate_classification_engines(const EvalRequest& request, Progress& progress);
/// How well the cosine between the outputs for two texts (or, of a model that reads both and gives one value, that
/// value) follows the score that people gave them.
Result<Json> evaluate_similarity_engines(const EvalRequest& request, Progress& progress);
/// Engines with the outputs start_logits and end_logits on a SQuAD file. The first engine's tokenizer serves all.
/// Errors: unsupported, where the model carries no tokenizer.
Result<Json> evaluate_squad_engines(const EvalRequest& request, Progress& progress);
/// Detectors on pictures with boxes (find_detection_truth), or against the reference's own detections.
/// Errors: unsupported where the outputs are those of no known head.
Result<Json> evaluate_detection_engines(const EvalRequest& request, Progress& progress);

/// Poses judged by OKS AP with COCO's keypoints (find_keypoint_truth), or with the reference's own poses.
/// Errors: unsupported where the outputs are those of no known pose network; mismatch (another number of keypoints).
Result<Json> evaluate_keypoint_engines(const EvalRequest& request, Progress& progress);

/// Instances judged by the mAP of their masks with COCO's segmentations (find_instance_truth), or with the reference's
/// own masks. Errors: unsupported where the outputs are those of no known head with masks; mismatch (masks of another
/// size than the pictures).
Result<Json> evaluate_instance_engines(const EvalRequest& request, Progress& progress);
/// Whether a network is judged by its masks although that was not asked for: where the data alone told the task and it
/// finds instances, but not with a truth of boxes alone.
Result<bool> judged_by_masks(const EvalRequest& request, const DetectionHead& head,
                             const std::optional<DetectionTruth>& truth);

/// A class for every pixel, judged by mean IoU with masks (find_masks) or with the reference's own classes.
Result<Json> evaluate_segmentation_engines(const EvalRequest& request, Progress& progress);
/// Numbers judged by R2 with targets (find_targets) or with the reference's own numbers.
Result<Json> evaluate_regression_engines(const EvalRequest& request, Progress& progress);
/// Text judged by the character error rate, with texts (find_texts) or what the reference reads.
Result<Json> evaluate_text_engines(const EvalRequest& request, Progress& progress);

/// Whether a task is named as FILE.py:function: a metric of the user's own.
bool names_a_metric(std::string_view task);
/// By that function, which a Python process runs: it is given a batch's outputs as NumPy arrays by name and the
/// samples' names and labels, and gives a number a sample, 1 being perfect; the figure is their mean. The file is code:
/// only what the user named is run. Errors: not_found (file, function, Python), invalid_argument (what it raises, no
/// finite number a sample).
Result<Json> evaluate_engines_by_metric(const EvalRequest& request, Progress& progress);

/// Evaluates engines, by the task asked for, on labelled (or, against a reference, unlabelled) data and returns the
/// eval document (kind "eval", version 1). Errors: bad engines or data; mismatch; cancelled.
Result<Json> evaluate_engines(const EvalRequest& request, Progress& progress);

} // namespace lathe
