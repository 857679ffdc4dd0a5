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

namespace lathe {

/// What `lathe bench` does: engines and frameworks timed in turns, in one run.
struct BenchmarkRequest {
    std::vector<std::filesystem::path> engines; ///< engine files, at least one; ratios are those of engines
    /// "pytorch", "torch-compile", "onnxruntime", "openvino"; the last two also "NAME=MODELFILE", the first two
    /// "NAME=bf16", and beside GPU engines "NAME=fp16". One that cannot run here is told in the result.
    std::vector<std::string> against = {};
    std::filesystem::path model = {};           ///< ONNX for the frameworks; empty: the one the engines were built from
    std::string source = {};                    ///< as OptimizeRequest::source
    std::vector<std::int64_t> batch_sizes = {}; ///< empty: those of 1, 4, 8, 16, 32 that the first engine takes
    double duration_s = 3;                      ///< of each throughput measurement; 0: none
    double time_limit_s = 10;                   ///< of each latency measurement, at most
    std::filesystem::path data = {};            ///< real inputs, as Data::path takes them; empty: random ones
    std::string columns = {};                   ///< of text files, as Data::columns
    std::string preprocess = {};                ///< instead of the engine's own: see CalibrationOptions
    std::size_t samples = 0;                    ///< of the data; 0: all
    std::vector<std::string> program = {};      ///< as OptimizeRequest::program
    std::string command_line = {};              ///< for the record
    Progress* progress = nullptr;               ///< nullptr: silent
};

/// One engine or framework at one batch size.
struct BenchmarkRow {
    std::string name;                         ///< "int8", "onnxruntime"
    std::string kind;                         ///< "engine", "pytorch", ...
    std::string precision;                    ///< "int8", "fp32", ...
    std::int64_t batch = 0;                   ///< samples a call
    Measured latency_ms;                      ///< median of a call
    double p99_ms = 0;                        ///< of 100 calls 99 take at most this
    std::size_t calls = 0;                    ///< that were timed
    std::optional<double> samples_per_second; ///< with several streams; absent where it was not measured
};

/// How many times as fast as `reference` a subject is, from turns side by side.
struct BenchmarkRatio {
    std::string name;
    std::string reference;
    std::int64_t batch = 0;
    Measured speedup;
    std::size_t pairs = 0; ///< of turns
};

/// What was not measured.
struct BenchmarkGap {
    std::string name;
    std::int64_t batch = 0; ///< 0: at no batch size
    std::string reason;
    std::string cure; ///< may be empty
};

struct BenchmarkResult {
    std::vector<BenchmarkRow> rows;
    std::vector<BenchmarkRatio> ratios;
    std::vector<BenchmarkGap> gaps;
    std::vector<std::string> notes; ///< what a reader of the figures should know
    std::string document;           ///< everything, as JSON text: what `lathe bench --json` prints
};

/// Errors: invalid_argument (no engine, a framework of another name, a batch size that the engine does not take),
/// not_found, what the engines and the data give, cancelled.
LATHE_API Result<BenchmarkResult> benchmark(const BenchmarkRequest& request);

} // namespace lathe
