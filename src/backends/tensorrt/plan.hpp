#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/api/backend.hpp"
#include "backends/api/compiled_form.hpp"

namespace lathe::tensorrt {

/// A serialized engine ("plan") and what is known of it without running it. Immutable. Ranges of inputs are the hull of
/// all profiles.
struct Plan : CompiledBindings {
    std::vector<LayerInfo> layers;     ///< of the network as parsed
    std::string environment;           ///< library version that built it
    BuildReport report;                ///< empty where loaded
    std::string own;                   ///< where built here
    std::shared_ptr<const void> owner; ///< where loaded: keeps `bytes` alive
    std::span<const std::byte> bytes;  ///< TensorRT's own form
};

/// "TensorRT-RTX 1.7.1": what a plan depends on as far as the library goes.
std::string environment();

/// Parses and builds. Errors: unsupported (nodes that TensorRT refuses, with its reasons; options it lacks),
/// invalid_argument (shapes), cancelled.
Result<std::shared_ptr<const Plan>> build_plan(const Model& model, const CompileOptions& options);

/// As backends/api/tensorrt.hpp describes it.
std::string write_blob(const Plan& plan);
/// Errors: corrupt, mismatch (another version of this form or of TensorRT).
Result<std::shared_ptr<const Plan>> read_blob(std::span<const std::byte> blob, std::shared_ptr<const void> owner);

std::unique_ptr<CompiledModel> make_compiled(std::shared_ptr<const Plan> plan);

} // namespace lathe::tensorrt
