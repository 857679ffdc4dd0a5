#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lathe/evaluate.hpp"
#include "lathe/export.hpp"
#include "lathe/progress.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// How questions of the task "squad" are cut into windows and answered.
struct QuestionOptions {
    std::size_t max_length = 384;  ///< tokens of a window, special ones included
    std::size_t doc_stride = 128;  ///< tokens from one window's begin to the next's
    std::size_t max_question = 64; ///< tokens; longer questions are cut
    std::size_t n_best = 20;       ///< begins and ends considered a window
    std::size_t max_answer = 30;   ///< tokens
    double null_threshold = 0;     ///< version 2.0: no answer, where its score beats the best answer's by more
};

/// Whether a classifier's outputs are logits or probabilities.
enum class ScoreKind { automatic, logits, probabilities };

/// What `lathe eval` does: engines judged by a task's metric, and against a reference.
struct EvaluateTaskRequest {
    std::vector<std::filesystem::path> engines; ///< engine files
    std::filesystem::path reference = {};       ///< an engine whose answers the others should give; empty: none
    /// As Data::path; of other tasks pictures with boxes (COCO, YOLO, Pascal VOC), masks/ beside images/, targets/
    /// beside inputs/, texts.csv, or SQuAD's JSON. Without truth, with a reference, its answers are the truth.
    std::filesystem::path data;
    TaskOptions task = {};
    std::string columns = {};                    ///< see Data::columns
    std::size_t samples = 0;                     ///< spread evenly over the data; 0: all
    std::size_t batch_size = 16;                 ///< samples decoded and run together
    std::string preprocess = {};                 ///< instead of the first engine's own: see CalibrationOptions
    bool preprocess_on_device = false;           ///< pictures are resized and normalised by the engines' GPU
    ScoreKind score_kind = ScoreKind::automatic; ///< automatic: by the reference's first batch
    std::size_t worst = 10;                      ///< samples that differ most, listed in the document
    QuestionOptions questions = {};              ///< of the task "squad"
    std::string command_line = {};               ///< for the document
    Progress* progress = nullptr;                ///< nullptr: silent
};

/// How a figure is written.
enum class FigureForm {
    share,  ///< 0..1, as per cent
    points, ///< a difference of shares, in percentage points
    number, ///< as it is
    count,
    decibel, ///< no value: the outputs are equal
};

/// A figure of a task, such as its metric.
struct TaskFigure {
    std::string title; ///< "mAP", for people
    std::string key;   ///< "map", in the document
    FigureForm form = FigureForm::number;
    std::optional<double> value;               ///< absent: there is none here, or as FigureForm says
    std::optional<double> low = {}, high = {}; ///< of its 95 % interval, where there is one
};

struct TaskSubject {
    std::string name;
    std::string precision;                     ///< "fp32", "int8", ...
    std::size_t nonfinite = 0;                 ///< samples with NaN or infinity; they count as wrong, or as not alike
    std::vector<TaskFigure> figures;           ///< the task's own
    std::string reference;                     ///< the name of what the next are against; empty: nothing
    std::vector<TaskFigure> against_reference; ///< closeness, and differences (subject less reference, paired)
    LATHE_API std::optional<TaskFigure> metric() const; ///< of `figures`, what judges: the first
};

struct EvaluateTaskResult {
    std::string task;    ///< "classification", "detection", ...; FILE.py:function as given
    std::string heading; ///< what was judged on how many samples
    std::size_t samples = 0;
    std::vector<TaskSubject> subjects; ///< the reference first, if there is one
    std::string document;              ///< everything, as JSON text: what `lathe eval --json` prints
};

/// Errors: what the engines give first (not_found, corrupt, parse_error); then invalid_argument (no engine, an unknown
/// task, neither truth nor reference), unsupported (outputs of no known form), mismatch (truth that the outputs cannot
/// give), what the data gives; cancelled.
LATHE_API Result<EvaluateTaskResult> evaluate_task(const EvaluateTaskRequest& request);

} // namespace lathe
