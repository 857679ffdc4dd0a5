#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/export.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"

namespace lathe {

/// Numeric precision the backend is asked to compute in where the graph does not say (no Q/DQ, no Cast).
/// tensor_float32: float32 values, products of the matrix units' 19-bit form (GPU).
enum class Precision { float32, bfloat16, float16, int8, tensor_float32 };
LATHE_API std::string to_string(Precision precision); ///< "fp32", "bf16", "fp16", "int8", "tf32"
LATHE_API std::optional<Precision> precision_from_name(std::string_view name);

/// min..opt..max of one input's shape; equal for a static input.
struct LATHE_API ShapeRange {
    Shape min;
    Shape opt;
    Shape max;
    bool operator==(const ShapeRange&) const = default;
    bool is_static() const { return min == max; }
    /// Same rank, and every dimension within min..max.
    bool contains(const Shape& shape) const;
    /// "1x3x224x224..8x3x224x224..32x3x224x224", or one shape if static.
    std::string describe() const;
};

/// How long a backend that times kernels while building may search.
enum class TuneEffort { fast, standard, full };

/// Where the time of a session's last run went, by the device's clock. Sizes: milliseconds, but `enqueue_us`.
struct RunTimes {
    double copy_in_ms = 0;  ///< host to device
    double compute_ms = 0;  ///< kernels
    double copy_out_ms = 0; ///< device to host
    double enqueue_us = 0;  ///< what the calling thread spent on handing over the work
};

/// Memory that an engine takes on its device. Sizes in bytes.
struct EngineMemory {
    std::size_t weights = 0;     ///< once a device
    std::size_t activations = 0; ///< each session, for the largest shapes
    std::size_t workspace = 0;   ///< each session
    std::size_t staging = 0;     ///< each session, page-locked memory of the host
    std::size_t peak = 0;        ///< most that this process had allocated at once on the engine's first device so far
    std::size_t sessions = 0;    ///< made so far
    std::vector<int> devices;    ///< indices it runs on
};

/// One kernel that was tried for an operation. Times in microseconds a launch; 0 where not timed.
struct TacticTiming {
    std::string tactic;  ///< "provider:id"
    std::string refused; ///< why it may not be used; empty if it may
    double mixed_us = 0; ///< weights cold, activations as the launch before left them: what is compared
    double warm_us = 0;  ///< all in the cache
    double cold_us = 0;  ///< nothing in the cache
    /// In the whole network: its time with this kernel to that with the one that was fastest alone; 0 where not tried.
    double whole_ratio = 0;
    bool chosen = false;
};

/// A constant whose masks of attention scores (-3.4e38) a 16-bit type lacks, and what is computed with instead.
struct ClampedConstant {
    std::string name;
    std::string type;         ///< that lacks them: "float16" or "bfloat16"
    std::size_t elements = 0; ///< how many were replaced
    double from = 0;          ///< the lowest of them
    double to = 0;
};

/// What a machine reaches at most, measured once and kept with the kernels' times. 0 or absent: not known.
struct MachineLimits {
    double memory_bytes_per_second = 0; ///< a copy far larger than the cache, bytes read plus bytes written
    double cache_bytes_per_second = 0;  ///< a copy that stays in the last cache
    double cache_bytes = 0;             ///< what that cache holds
    double launch_us = 0;               ///< from one kernel of a graph that does nothing to the next
    /// Of the largest matrix product that any kernel here computes, by precision ("fp16", "int8", ...): multiplications
    /// plus additions a second.
    std::map<std::string, double> operations_per_second;
};

/// What a build decided and why (`lathe build --explain`).
struct BuildReport {
    struct Op {
        std::string shape;     ///< the input shapes it was tuned for
        std::string name;      ///< of its main node
        std::string signature; ///< all that its speed depends on
        std::string precision; ///< what its products are computed in
        std::vector<TacticTiming> candidates;
        double bytes = 0;      ///< that it must read and write at least, each value once
        double operations = 0; ///< multiplications and additions of its products
        double limit_us = 0;   ///< the least time these take on this machine; 0: not known
    };
    std::vector<Op> ops;
    MachineLimits limits;
    std::size_t arena_bytes = 0; ///< activations of one session
    std::size_t arena_lower_bound = 0;
    std::size_t workspace_bytes = 0;
    std::size_t weight_bytes = 0;
    std::vector<std::string> fallbacks;            ///< what runs in another precision than asked, and why
    std::vector<ClampedConstant> clamped;          ///< by name
    std::map<std::string, double> precision_share; ///< of the multiply-accumulates
    double build_seconds = 0;
    double check_seconds = 0;           ///< of them for checking the finished networks; 0: not checked
    std::size_t checked_operations = 0; ///< found right there, of all tuned shapes
    std::size_t checked_before = 0;     ///< of them in an earlier build, which the timing cache remembers
    /// Kernels that were wrong there, with the error and what is used instead; shapes that could not be checked.
    std::vector<std::string> check_notes;
};

/// One executed layer as the backend fused it.
struct LayerInfo {
    std::string name;               ///< the backend's own name
    std::vector<std::string> nodes; ///< ONNX nodes fused into it, where the backend tells
    std::string type;               ///< "Convolution", "Eltwise", "Reorder", ...
    std::string precision;          ///< what it computes in: "int8", "fp32", "bf16", ...
    std::string implementation;     ///< the kernel's name, as the backend tells it
    double milliseconds = 0;        ///< time of the last run; 0 where not profiled
    double macs = 0; ///< multiply-accumulates, open sizes counted as 1; 0 where there are none or nobody tells
};

/// What an engine reads or writes.
struct IoInfo {
    std::string name;
    DataType type = DataType::undefined;
    ShapeRange range; ///< for outputs, dims that depend on the input are -1
};

/// "NAME:SHAPE", "NAME:MIN..MAX" (opt is max) or "NAME:MIN..OPT..MAX", with shapes like 1x3x224x224.
/// Without "NAME:" the name is empty: a model's only input. Errors: invalid_argument, saying what was expected.
LATHE_API Result<std::pair<std::string, ShapeRange>> parse_shape_range(std::string_view text);

} // namespace lathe
