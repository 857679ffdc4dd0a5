#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/api/backend.hpp"
#include "backends/api/tensorrt_form.hpp"

namespace lathe::tensorrt {

/// A serialized engine ("plan") and what is known of it without running it. Immutable. Ranges of inputs are the hull of
/// all profiles.
struct Plan : TensorRtForm {
    BuildReport report;                ///< empty where loaded
    std::string own;                   ///< where built here
    std::string onnx;                  ///< where built here and stripped: what gives it its weights back
    std::shared_ptr<const void> owner; ///< where loaded: keeps `bytes` and `graph` alive
    std::span<const std::byte> bytes;  ///< TensorRT's own form
    std::span<const std::byte> graph;  ///< where loaded: the engine file's graph, which `onnx` follows from
    Precision precision = Precision::float32;
};

/// "TensorRT-RTX 1.7.1": what a plan depends on as far as the library goes.
std::string environment();

/// A plan on the first GPU, shared by its sessions (session.hpp).
class LoadedPlan;
struct BuiltPlan {
    std::shared_ptr<const Plan> plan;
    std::shared_ptr<const LoadedPlan> loaded; ///< nullptr where no GPU loads it
};

/// Parses and builds. Layers and precisions are those of the finished engine where a GPU here loads it and its
/// inspector tells enough, else the parsed network's; the report says which. Errors: unsupported (nodes that TensorRT
/// refuses, with its reasons; options it lacks), invalid_argument (shapes), cancelled.
Result<BuiltPlan> build_plan(const Model& model, const CompileOptions& options);

/// As backends/api/tensorrt.hpp describes it.
ByteChain write_blob(const Plan& plan);
/// Errors: corrupt, mismatch (another version of this form, or of TensorRT that does not load the plan).
Result<std::shared_ptr<const Plan>> read_blob(std::span<const std::byte> blob, std::shared_ptr<const void> owner,
                                              const CompileOptions& options);

std::unique_ptr<CompiledModel> make_compiled(BuiltPlan built);

} // namespace lathe::tensorrt
