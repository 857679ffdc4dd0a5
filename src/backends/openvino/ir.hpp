#pragma once

#include <filesystem>

#include "graph/graph.hpp"
#include "lathe/result.hpp"

namespace lathe::openvino {

/// Writes the model as OpenVINO's intermediate representation: `xml`, and the weights beside it with the ending .bin,
/// both as they are (floats stay as wide as they are). Errors: unsupported (an operator that OpenVINO lacks), io.
Result<void> write_ir(const Model& model, const std::filesystem::path& xml);

} // namespace lathe::openvino
