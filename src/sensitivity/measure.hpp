#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "backends/api/backend.hpp"
#include "calibrate/ranges_file.hpp"
#include "data/dataset.hpp"
#include "graph/graph.hpp"
#include "lathe/progress.hpp"
#include "lathe/quantize.hpp"
#include "lathe/result.hpp"
#include "sensitivity/score.hpp"

namespace lathe {

/// One Conv, ConvTranspose, Gemm or MatMul, and what quantising it alone does to the model's output.
struct LayerSensitivity {
    std::string node; ///< Node::label
    std::string op_type;
    std::string role;         ///< for people: "first convolution", "classifier", "depthwise convolution", ...
    std::int64_t macs = 0;    ///< of one sample
    std::string float_reason; ///< why it is not quantised; empty where it is
    Score score;              ///< empty where it is not quantised
};

struct Sensitivity {
    std::size_t samples = 0;
    std::size_t classes = 0; ///< values of the output a sample
    OutputKind output_kind = OutputKind::logits;
    std::vector<LayerSensitivity> layers; ///< in graph order
    Score everything;                     ///< the whole model quantised
    std::size_t segments = 0;             ///< that the network was cut into
    std::size_t batch_size = 1;
    double seconds = 0; ///< all of it, compiling and earlier runs included
    double float_seconds =
        0; ///< the whole float model alone, for as many samples; timed on some batches between the rest
    std::size_t resumed_samples = 0;
    std::vector<std::string> outputs; ///< that noise is measured at; `classes` and KL are of the first
    std::string task;                 ///< that judged; empty: none did
    std::string task_metric;          ///< for people
    bool task_labelled = false;       ///< by the truth, not by the float network's answers
    Interval task_change;             ///< 95 %: of the metric, `everything` minus float
    std::size_t left_out = 0;         ///< samples that the truth does not speak of
};

struct SensitivityOptions {
    Target target = Target::openvino;
    /// Samples at once, where the model's batch size is open; 0: one a core. More need more memory and gain nothing.
    std::size_t batch_size = 0;
    std::size_t threads = 0;  ///< 0: all cores
    std::size_t length = 128; ///< of a text model's samples, where that is open
    std::string output_name;  ///< of the output to judge; empty: all that are float and end the network
    /// By what the answers are judged as well, each layer's score then having a `task`. Answers are kept in memory and
    /// not in the record, so a run with it begins anew. It must outlive the call; null: none.
    const TaskJudging* judging = nullptr;
    /// Record of what is done, so that a run that was stopped goes on; empty: none.
    std::filesystem::path journal;
    std::string key;            ///< digest of what else the result depends on: data, ranges
    double journal_seconds = 2; ///< how often it is written, at most
};

/// The model with batch size `batch` and every other open size of its inputs `length`, shapes inferred.
/// Errors: unsupported where the batch size cannot be set; out_of_range for an open size in a model that takes no
/// texts.
Result<Model> with_fixed_shapes(const Model& model, std::size_t batch, std::size_t length);

/// The batch size to run with: the model's own where it is fixed; `wanted` 0: one sample for each of `threads` (0: of
/// all cores).
std::size_t runnable_batch(const Model& model, std::size_t wanted, std::size_t threads);

/// Quantises one layer at a time, all others in float32, and compares the model's output with that of the float model
/// on the data. `model` is the one that was calibrated. The backend is the one that computes (the CPU's, whatever the
/// target: numbers are those of the target's Q/DQ graph).
///
/// How it is fast: the float network is run once a batch, and what the layers read is kept. For a layer, its own
/// segment is run with the layer quantised, from the layer to the next cut, and then what lies behind that cut, in
/// float, both on what was kept. Nothing before the layer is run again, nothing is copied, and memory does not grow
/// with the samples (see `divide` for what the cuts cost and save). Where the processor multiplies in BF16, heavy float
/// layers multiply only the difference to what was kept (see `in_differences`). The data are read once.
///
/// Errors: what the data, the ranges or the backend give; verification_failed where the segments do not compute what
/// the whole model does; cancelled, with the record written.
Result<Sensitivity> measure_sensitivity(const Model& model, const RangesFile& ranges, Dataset& data,
                                        const Backend& backend, const SensitivityOptions& options, Progress& progress);

} // namespace lathe
