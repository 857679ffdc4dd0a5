#pragma once

#include <filesystem>
#include <vector>

#include "api/summary.hpp"
#include "lathe/inspect.hpp"
#include "onnx/onnx.hpp"
#include "support/json.hpp"

namespace lathe {

struct Inspection {
    Model model;
    ModelSummary summary;
    std::vector<NonfiniteTensor> nonfinite;
};

Result<Inspection> inspect_model(const std::filesystem::path& file);

/// The result document. Errors: io (the file, which is hashed).
Result<Json> inspection_document(const Inspection& inspection, const std::filesystem::path& file, bool with_layers);

} // namespace lathe
