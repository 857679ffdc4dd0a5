#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "autocast/decide.hpp"
#include "autocast/insert.hpp"
#include "calibrate/ranges_file.hpp"
#include "graph/graph.hpp"

namespace lathe {

struct AutocastOutcome {
    Model model;
    AutocastPlan plan;
    std::size_t cast_nodes = 0;
    std::size_t kept_nodes = 0;
    std::size_t casts = 0;           ///< Cast nodes that were added
    std::int64_t converted_from = 0; ///< the opset before lifting; 0 where that was not needed
    std::size_t constants = 0;       ///< that became 16 bits wide
    std::vector<std::string> remarks;
};

/// The model as calibration and decisions see it: Constant nodes as initializers, types and shapes inferred.
Result<Model> prepared_for_casting(const Model& model);

/// The whole step: check that the ranges belong to the model, lift the opset where the format needs it (Conv and
/// pooling know bfloat16 from opset 22 on), decide, insert Casts, and pass the result through the ONNX checker.
/// Errors: mismatch (ranges of another model), those of plan_autocast and insert_casts, verification_failed.
Result<AutocastOutcome> autocast_model(const Model& model, const RangesFile& ranges, const AutocastOptions& options);

} // namespace lathe
