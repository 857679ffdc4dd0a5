#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lathe/evaluate.hpp"
#include "lathe/export.hpp"
#include "lathe/progress.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"

namespace lathe {

/// What `lathe compare` does: two models or engines on the same inputs, value by value. (How closely an engine follows
/// another on a dataset is `compare_engines`.)
struct CompareModelsRequest {
    std::filesystem::path first;  ///< the reference: ONNX model, Lathe engine or OpenVINO IR (.xml)
    std::filesystem::path second; ///< empty with `against`: the first, run by Lathe
    /// "onnxruntime" (ONNX Runtime on the CPU, each node as written) or "reference" (ONNX's own reference, slow): what
    /// computes the first one, of an engine the graph inside; both run in the Python that LATHE_PYTHON names. Empty:
    /// Lathe's own.
    std::string against = {};
    std::filesystem::path data = {};        ///< .npz by input names, or .npy for the only one; empty: random inputs
    std::vector<std::string> shapes = {};   ///< "NAME:1x3x224x224": sizes of random inputs
    std::uint64_t seed = 1;                 ///< of random inputs
    double rtol = 1e-3;                     ///< a tensor may differ by atol + rtol times its largest magnitude
    double atol = 1e-6;                     ///< see rtol
    std::optional<double> min_sqnr_db = {}; ///< instead: the least signal to noise, for quantised models
    bool outputs_only = false;
    /// What the models are for: the second's answers are judged by the task's metric, the first's being the truth.
    /// Empty name: by numbers alone.
    TaskOptions task = {};
    std::size_t threads = 0;      ///< 0: all cores
    Progress* progress = nullptr; ///< nullptr: silent
};

/// One value that both have.
struct ComparedValue {
    std::string name;
    std::string node_first, op_first, node_second, op_second; ///< which make it; empty for inputs
    bool output = false;                                      ///< of the first model
    Shape shape;
    double max_abs = 0; ///< largest |first - second|
    double max_rel = 0; ///< largest |first - second| / |first|, of elements that are not 0
    double sqnr_db = 0; ///< 20 log10(|first| / |first - second|); infinite where equal
    double cosine = 1;
    std::optional<double> agreement; ///< share of rows with the greatest element at the same place
    std::string problem;             ///< why there are no figures: other shape, other type, NaN on one side
    bool past = false;               ///< the tolerance
};

/// How far the second model's answers are the first's, by a task's metric.
struct ComparedAnswers {
    std::string task;   ///< "detection"
    std::string metric; ///< for people
    double value = 0;   ///< 1: the same answers
    /// Of `value` minus what the first model has against itself: a bootstrap's 95 % over the samples.
    double low = 0;
    double high = 0;
    std::size_t samples = 0;
};

struct CompareModelsResult {
    std::vector<ComparedValue> values;      ///< in the first model's order; outputs are among them
    std::optional<ComparedAnswers> answers; ///< where a task was named
    std::string first_past;                 ///< name of the first value past tolerance; empty: all are within
    std::string document;                   ///< everything, as JSON text: what `lathe compare --json` prints
};

/// Of ONNX models every float value of one name is compared, of engines and IR their outputs. A difference is no error.
/// Errors: not_found, parse_error, invalid_argument (a shape of no input, one array for several inputs, no second and
/// no `against`, IR with `against`), unsupported (what `against` needs is not installed, a task that cannot judge so),
/// mismatch (inputs or outputs that do not fit each other), what running gives, cancelled.
LATHE_API Result<CompareModelsResult> compare_models(const CompareModelsRequest& request);

} // namespace lathe
