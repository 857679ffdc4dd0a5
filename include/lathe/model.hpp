#pragma once

#include <filesystem>
#include <memory>

#include "lathe/export.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// A network as read from an ONNX file. What is in it is not part of the public interface: it is loaded, handed to
/// Engine::build, and saved.
struct Model;

struct LATHE_API ModelDeleter {
    void operator()(Model* model) const;
};
using ModelPtr = std::unique_ptr<Model, ModelDeleter>;

/// Read an ONNX model, external data included.
/// Errors: not_found, io, parse_error (naming the node or tensor), unsupported.
LATHE_API Result<ModelPtr> load_model(const std::filesystem::path& path);

/// Write the model as ONNX, atomically; weights over 2 GB go to a file beside it.
LATHE_API Result<void> save_model(const Model& model, const std::filesystem::path& path);

} // namespace lathe
