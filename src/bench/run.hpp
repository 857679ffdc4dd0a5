#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/length_mix.hpp"
#include "bench/subject.hpp"
#include "data/preprocess_presets.hpp"
#include "data/tokenizer.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe {

/// Something to compare the engines with.
struct PeerRequest {
    SubjectKind kind = SubjectKind::openvino;
    std::filesystem::path file; ///< a model file of its own; empty: the model that the engines came from
    std::string precision{}; ///< of PyTorch: "fp32", "bf16", on a GPU "fp16", compiled on the CPU "int8"; empty: fp32
};

/// "pytorch", "torch-compile", "onnxruntime", "openvino", the last two also "NAME=FILE", the first two also
/// "NAME=PRECISION".
/// Errors: invalid_argument naming the known ones; not_found for the file.
Result<PeerRequest> parse_peer(const std::string& text);
/// Whether `source` is empty or FILE.py:function with a file that is there. Errors: invalid_argument, not_found.
Result<void> check_source(const std::string& source);

/// Real inputs that are tensors' bytes and nothing else, for the first engine.
struct RawInputs {
    std::string files; ///< for the record; empty: there are none
    std::function<Result<std::vector<HostTensor>>(const std::vector<IoInfo>& inputs)> load;
};

struct BenchRequest {
    std::vector<std::filesystem::path>
        engines;                              ///< this or `plans`: at least one; ratios are those of engines and plans
    std::vector<std::filesystem::path> plans; ///< TensorRT's own, run by trtexec (trtexec_subject.hpp)
    std::string trtexec = "trtexec";          ///< looked up on PATH, or a path
    std::vector<PeerRequest> against;
    std::filesystem::path model; ///< ONNX for the peers; empty: found through the engines
    /// FILE.py:function whose code the user lets PyTorch's peers run, for a model exported from such a file. A model's
    /// own word for where its code is runs nothing.
    std::string code{};
    std::vector<std::int64_t> batch_sizes; ///< empty: those of 1, 4, 8, 16, 32 that the first engine can run
    double duration_s = 3;                 ///< of each throughput measurement; 0 leaves throughput out
    double time_limit_s = 10;              ///< a subject and batch size, for latency
    /// Seconds for the whole run: what would pass them (peers, load times, larger batch sizes, throughput) is left out
    /// and listed as unavailable with the reason `over_budget`. The engines' latency at the first batch size is always
    /// measured. 0: no limit.
    double budget_s = 0;
    double warm_up_ms = 0;           ///< least time to warm up; trtexec's own 200 ms where 0
    double pause_ms = 0;             ///< engines' calls after such a pause are timed too; 0: they are not
    std::size_t min_calls = 0;       ///< of each subject and batch size, whatever the interval says
    std::vector<double> percentiles; ///< to tell beside 90, 95 and 99
    std::vector<int> devices;        ///< GPUs to serve on, by index; latency is that of the first. Empty: GPU 0
    bool scaling = false;            ///< throughput on 1, 2, 4, ... of them in turns
    std::filesystem::path data;      ///< real inputs; empty: `raw_inputs`, or random ones
    RawInputs raw_inputs{};          ///< without batch_sizes: at the number of samples that they are
    std::string columns;             ///< of a text file; see parse_text_columns
    TokenizerFactory make_tokenizer; ///< for texts, which are filled up and cut to the engine's favourite length
    PreprocessChoice preprocess;     ///< instead of the engine's own
    std::size_t samples = 0;         ///< of the data; 0: all
    /// A text file whose requests, each of its own length, are measured instead of equal ones (see measure_length_mix);
    /// then there is one batch size, 1 if not given. Empty: not.
    std::filesystem::path lengths_from{};
    std::vector<Padding> paddings{}; ///< what engines' requests are filled up to there; empty: their own lengths
    /// Starts a process that answers `answer_probe` (load time and memory); empty: those are not measured.
    std::vector<std::string> probe_command;
    std::string command_line; ///< for the record
};

/// Measures engines and peers in one interleaved run and returns the bench document (kind "bench", version 1).
/// Peers that cannot run here are listed in it with reason and cure.
/// With `lengths_from` it has the key "length_mix", and no latency or throughput of equal requests.
/// Errors: a bad engine or request; no trtexec, or a plan that it does not run; cancelled.
Result<Json> bench(const BenchRequest& request, Progress& progress);

} // namespace lathe
