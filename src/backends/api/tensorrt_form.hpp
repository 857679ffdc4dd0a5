#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/api/compiled_form.hpp"
#include "backends/api/tensorrt.hpp"
#include "backends/api/tensorrt_audit.hpp"
#include "graph/graph.hpp"
#include "lathe/engine_types.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// What is known of a TensorRT engine without TensorRT: the header of its compiled form.
struct TensorRtForm : CompiledBindings {
    std::string environment;       ///< what built it: "TensorRT 10.16.0", "TensorRT-RTX 1.7.1"
    std::vector<LayerInfo> layers; ///< without times and multiply-accumulates
    LayerSource layer_source = LayerSource::network;
    /// Absent in forms written before they were noted: such a plan may have any of them.
    std::optional<TensorRtOptions> options;
    std::string graph_digest; ///< of the ONNX that TensorRT parsed; empty where the plan holds its weights
};

/// As `tensorrt_format` describes it. `plan`: TensorRT's own bytes.
ByteChain write_tensorrt_form(const TensorRtForm& form, ByteChain plan);

struct TensorRtFormAndPlan {
    TensorRtForm form;
    std::span<const std::byte> plan; ///< views the blob
};
/// Errors: corrupt, mismatch (another version of the form), parse_error (options that cannot be).
Result<TensorRtFormAndPlan> read_tensorrt_form(std::span<const std::byte> blob);

/// Whether the library `here` ("TensorRT 11.0.0") loads the plan: the one that built it; a version-compatible plan also
/// every later one of TensorRT, across major versions too, never an earlier one (TensorRT's documentation, "Version
/// Compatibility"). TensorRT-RTX loads its own release's plans only. Errors: mismatch, with what differs.
Result<void> check_tensorrt_version(const TensorRtForm& form, const std::string& here);

/// The ONNX that TensorRT parses for a model in this precision: `write_precision`, serialized.
Result<std::string> tensorrt_onnx(const Model& model, Precision precision);

/// The ONNX that gives a stripped plan its weights back, from the graph in the engine file; it must be the one that the
/// plan was built from, byte by byte. Errors: mismatch (another graph), not_found (no graph given), those of
/// `tensorrt_onnx`.
Result<std::string> onnx_for_refit(const TensorRtForm& form, std::span<const std::byte> graph, Precision precision);

} // namespace lathe
