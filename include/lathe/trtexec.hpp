#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/export.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// What `lathe trtexec-log` does: reads what trtexec of TensorRT 8 to 11 printed.
struct TrtexecLogsRequest {
    std::vector<std::filesystem::path> logs; ///< a file may hold several runs
    std::string command_line = {};           ///< for the document
};

/// "Build Options" and other headings of a log, with what stands below each, in order.
struct TrtexecSettings {
    std::string heading;
    std::vector<std::pair<std::string, std::string>> entries;
};

/// A run that was measured. Times are medians in ms, as trtexec counts them: `median_ms` is copy in + compute + copy
/// out of a query, without waiting for earlier ones. What a log does not tell is absent.
struct TrtexecMeasurement {
    std::string name; ///< of model and precision; no two of a result are equal
    std::filesystem::path log;
    std::string model;     ///< the engine or model that was run; may be empty
    std::string version;   ///< of TensorRT: "8.6.1"; may be empty
    std::string device;    ///< the GPU; may be empty
    std::string precision; ///< "fp32+fp16"; empty where the log does not tell
    std::int64_t batch = 1;
    double samples_per_second = 0;
    double median_ms = 0, mean_ms = 0, min_ms = 0, max_ms = 0;
    std::optional<double> p90_ms, p95_ms, p99_ms;
    std::optional<double> copy_in_ms, compute_ms, copy_out_ms, enqueue_ms;
    std::vector<std::string> warnings; ///< what a reader of these figures must know, sentences
    std::vector<TrtexecSettings> settings;
};

/// A run without a summary.
struct TrtexecGap {
    std::string name;
    std::string reason;
    std::string cure;
};

struct TrtexecLogs {
    std::vector<TrtexecMeasurement> measured;
    std::vector<TrtexecGap> unavailable;
    std::string document; ///< as JSON text in the form of `lathe bench`, which `lathe report` takes
};

/// Errors: invalid_argument (no log), not_found, io; parse_error naming the line (no log of trtexec, figures that
/// cannot be read, TensorRT 7 or older), and where no run has figures.
LATHE_API Result<TrtexecLogs> read_trtexec_logs(const TrtexecLogsRequest& request);

} // namespace lathe
