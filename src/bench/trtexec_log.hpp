#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/result.hpp"

namespace lathe {

/// One line of trtexec's summary. All in ms.
struct TrtexecTimes {
    double min = 0;
    double max = 0;
    double mean = 0;
    double median = 0;
    std::map<double, double> percentiles; ///< by percent: {99: 1.31}

    std::optional<double> percentile(double percent) const;
};

/// Something in a log that a reader of its numbers must know.
struct TrtexecRemark {
    std::string name;      ///< stable: "bound_by_enqueue", "unstable", "int8_without_ranges", ...
    std::string text;      ///< one or two sentences
    std::size_t line = 0;  ///< where it was read first; 0 where it was concluded
    std::size_t count = 1; ///< how many lines say it
};

/// "=== Build Options ===" and what stands below it, in order.
struct TrtexecSection {
    std::string name; ///< "Build Options"
    std::vector<std::pair<std::string, std::string>> entries;

    /// The value, or "".
    std::string_view value(std::string_view key) const;
};

/// One run of trtexec as its log tells it.
struct TrtexecRun {
    std::string version;        ///< "8.6.1"; empty where the log does not say
    std::string command;        ///< as typed, from the line RUNNING; may be empty
    std::optional<bool> passed; ///< what the last line says; nothing where the log ends before it
    std::size_t first_line = 0;
    std::vector<TrtexecSection> sections;
    std::vector<std::pair<std::string, std::vector<std::int64_t>>> inputs; ///< with their shapes, as run

    std::optional<double> throughput_qps; ///< of queries; of samples with an implicit batch
    /// Copy in + compute + copy out of one query, waiting left out; and its parts, and the host's time to enqueue.
    std::optional<TrtexecTimes> latency, copy_in, compute, copy_out, enqueue;
    std::optional<TrtexecTimes> end_to_end; ///< from copy in to copy out with the waiting; of TensorRT up to 8.2
    std::optional<double> walltime_s, compute_total_s;
    std::optional<std::size_t> queries;
    std::optional<double> warm_up_ms;
    std::optional<double> build_s, load_s; ///< of the engine
    bool random_inputs = false;

    std::vector<TrtexecRemark> remarks;
    std::optional<TrtexecRemark> first_error; ///< the first line of severity E

    /// An empty one if the log does not have it.
    const TrtexecSection& section(std::string_view name) const;
    /// Samples a query: --batch, or the first dimension of the first input; 1 where neither is known.
    std::int64_t batch() const;
    bool implicit_batch() const;
    /// "fp32+fp16"; empty for a loaded engine and for a strongly typed network, whose graph has it.
    std::string precision() const;
    bool has_transfers() const;
    /// A summary was printed.
    bool measured() const { return throughput_qps && latency && compute; }
};

/// The runs in a log of trtexec of TensorRT 8 to 11, one after another. Colours, time stamps in front of lines and
/// other programs' lines between do not matter. A run without a summary is returned as it is, its error with it.
/// Errors: parse_error with the line: no log of trtexec, a summary whose figures cannot be read, one of TensorRT 7 or
/// older.
Result<std::vector<TrtexecRun>> parse_trtexec_log(std::string_view text, std::string_view where);

} // namespace lathe
