#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/api/compiled_form.hpp"
#include "graph/graph.hpp"
#include "lathe/result.hpp"
#include "support/json.hpp"

namespace lathe {

/// What `--device tensorrt` takes beside precision, shapes, workspace and timing cache. It travels in the model's
/// metadata ("lathe.tensorrt", JSON), so that an engine that is compiled anew elsewhere is built the same way.
struct TensorRtOptions {
    std::optional<int> optimization_level; ///< 0 (built fast) to 5 (searched longest); absent: TensorRT's own
    bool version_compatible = false;       ///< the plan runs in later TensorRT versions too
    bool hardware_compatible = false;      ///< and on every GPU generation from Ampere on (not TensorRT-RTX)
    bool strip_weights = false;            ///< leave out weights that a refit gives back
    bool refittable = false;               ///< weights can be exchanged in the finished plan
    /// TensorRT-RTX: GPU generations to compile for, such as 89 and 120; empty: those it chooses itself.
    std::vector<int> compute_capabilities;

    bool operator==(const TensorRtOptions&) const = default;
};

Json to_json(const TensorRtOptions& options);
/// Errors: parse_error, at `where`.
Result<TensorRtOptions> tensorrt_options_from(const Json& json, const std::string& where);

void set_tensorrt_options(Model& model, const TensorRtOptions& options);
/// Defaults where the model has none. Errors: parse_error.
Result<TensorRtOptions> tensorrt_options_of(const Model& model);

/// The compiled form of a TensorRT engine in an engine file: its body is TensorRT's own plan, which trtexec and Triton
/// read.
inline constexpr CompiledFormat tensorrt_format{"LATHETRT", 1};

} // namespace lathe
