#pragma once

// The engine as the rest of Lathe uses it: the public header and the types it only names.
#include "backends/api/backend.hpp"
#include "graph/graph.hpp"
#include "lathe/engine.hpp"
#include "support/json.hpp"

namespace lathe {

/// The info as JSON: for `inspect`, reports, and the header of the file.
Json to_json(const EngineInfo& info);
/// Backwards. Errors: corrupt, naming the field.
Result<EngineInfo> engine_info_from_json(const Json& json);

Json to_json(const LayerInfo& layer);
Json to_json(const BuildReport& report);

/// The ranges for every input of the model: those given, and batches 1..8..32 for inputs whose only open size is
/// axis 0. Errors: invalid_argument for unknown names, wrong rank, and open sizes nobody gave.
Result<std::map<std::string, ShapeRange>> complete_shapes(const Model& model,
                                                          const std::map<std::string, ShapeRange>& given);

} // namespace lathe
