#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/calibrate.hpp"
#include "lathe/correction.hpp"
#include "lathe/engine_types.hpp"
#include "lathe/evaluate.hpp"
#include "lathe/export.hpp"
#include "lathe/progress.hpp"
#include "lathe/quantize.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// What `lathe optimize` does, in one call: simplify, calibrate, quantise, build, evaluate, benchmark, judge, report.
struct OptimizeRequest {
    std::filesystem::path model;     ///< ONNX file in floating point
    std::filesystem::path calibrate; ///< data as Data::path takes them; needed for int8
    std::filesystem::path evaluate;  ///< labelled data to judge on, not those of the calibration; empty: no accuracy
    std::string columns = {};        ///< of text files, as Data::columns
    TaskOptions task = {};           ///< what `evaluate` is judged by; without: what data and outputs tell
    /// Folder for engines, JSON and the report, made if it is not there. Steps whose inputs have not changed since an
    /// earlier call with the same folder are not done again.
    std::filesystem::path output = "out";
    /// A verdict within a minute on two cores, as far as a single inference allows: shorter measurements and fewer
    /// samples where the fields below leave them open, and what would pass the minute (samples of the calibration and
    /// the evaluation, corrections, layer times, peers, batch sizes, throughput) is cut or left out. One of
    /// OptimizeResult::reasons tells what was.
    bool quick = false;
    std::string preprocess = {}; ///< a preset's name, JSON text or a JSON file, instead of the model's own

    Method method = Method::mse;
    bool ranges_by_error = false; ///< for each tensor the range with the least error in what reads it (--method auto)
    std::size_t samples = 300;    ///< to calibrate on, spread evenly over the data; 0: all
    /// Stop earlier once the ranges stand still; absent: unless an effort is asked for.
    std::optional<bool> until_settled = {};
    std::vector<std::string> exclude = {}; ///< left in float: as QuantizeRequest::exclude
    /// As QuantizeRequest::effort. Absent: 1, and 0 where the calibration's samples are too few to correct on or it
    /// takes longer than answer_limit_s, which is told.
    std::optional<int> effort = {};
    CorrectionChoice corrections = {}; ///< in place of what the effort means
    /// Where int8 loses more than max_drop on the evaluation's data, a network corrected with effort 2 is made
    /// beside it ("int8-effort2"), judged and measured like the others, if that takes no longer than answer_limit_s.
    bool answer_loss = true;
    std::optional<double> answer_limit_s = {}; ///< absent: 90, quick: 15
    std::optional<WeightGranularity> weights = {};
    std::optional<ActivationScheme> activations = {};

    std::string device = "cpu";
    /// Empty: fp32, bf16, int8; on a GPU fp32, fp16, int8. fp32 must be there. With bf16 and int8 on a CPU that has
    /// BF16, INT8 whose other layers are BF16 is one more engine ("int8-bf16") where that is faster.
    std::vector<Precision> precisions = {};
    std::map<std::string, ShapeRange> shapes = {}; ///< as BuildOptions::shapes
    std::filesystem::path timing_cache = {};       ///< GPU: as BuildOptions::timing_cache
    TuneEffort tune = TuneEffort::standard;        ///< GPU
    bool allow_fallback = false;                   ///< GPU: as BuildOptions::allow_fallback
    std::size_t threads = 0;                       ///< 0: all cores

    /// Frameworks to measure beside the engines: "pytorch", "torch-compile", "onnxruntime", "openvino". Absent: those
    /// usual beside the device. One that cannot run here is told in the report.
    std::optional<std::vector<std::string>> against = {};
    /// FILE.py:function whose code PyTorch's peers may run, where the model was exported from it; else they are left
    /// out.
    std::string source = {};
    std::vector<std::int64_t> batch_sizes = {};       ///< to measure; empty: those of 1, 8, 16 that the engine takes
    std::optional<std::size_t> evaluate_samples = {}; ///< 0: all; absent: all, quick: 200
    double max_drop = 1.0;                   ///< largest acceptable loss of the task's metric (top-1), in points
    std::optional<double> duration_s = {};   ///< of each throughput measurement; 0: none; absent: 1.5, quick: 0.3
    std::optional<double> time_limit_s = {}; ///< of each latency measurement, at most; absent: 4, quick: 1

    bool force = false; ///< do every step anew, whatever the folder holds
    /// The words that start the lathe program, which measures load time and memory; none: not measured.
    std::vector<std::string> program = {};
    std::string command_line = {}; ///< for the record
    Progress* progress = nullptr;  ///< nullptr: silent
    /// Called with lines for a person: a step that is done, what was reused, what a correction gained. Empty: untold.
    std::function<void(std::string_view)> tell = {};
};

/// One engine or framework at one batch size.
struct OptimizedRow {
    std::string name;                    ///< "m.int8", "onnxruntime"
    std::string precision;               ///< "int8", "fp32", ...
    std::int64_t batch = 0;              ///< samples a call
    Measured latency_ms;                 ///< median of a call
    std::optional<Measured> speedup;     ///< over the FP32 engine, pair by pair; absent for that engine itself
    std::optional<Measured> top1;        ///< share 0..1; absent where there are no labels, and for frameworks
    std::optional<Measured> top1_change; ///< against the FP32 engine, on the same samples
    /// What the task is judged by: "top-1", "mAP", "Spearman", ...; empty where nothing was evaluated, and for
    /// frameworks.
    std::string metric;
    std::optional<Measured> score;        ///< that figure; the most is 1
    std::optional<Measured> score_change; ///< against the FP32 engine, on the same samples
    std::filesystem::path engine;         ///< its file; empty for frameworks
};

struct OptimizeResult {
    std::string verdict;              ///< one line
    std::vector<std::string> reasons; ///< sentences, the weightiest first
    std::filesystem::path engine;     ///< the recommended one; empty where the results support no choice
    std::filesystem::path report;     ///< HTML file
    std::filesystem::path folder;     ///< with all engines and results
    std::vector<OptimizedRow> rows;
    std::string document; ///< everything, as JSON text: what `lathe optimize --json` prints
};

/// The whole job. Errors: invalid_argument (int8 without data to calibrate on, no fp32, a name that does not exist, a
/// task without data to judge on, a result that would be written over an input), not_found, what the steps give,
/// cancelled (the same call goes on from there). A precision that this machine lacks is left out and told.
LATHE_API Result<OptimizeResult> optimize(const OptimizeRequest& request);

} // namespace lathe
