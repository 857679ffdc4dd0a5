#pragma once

#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// What a model's metadata call its classes, in their order; empty where nothing does: a JSON list in "lathe.labels",
/// Ultralytics' "names" ({0: 'person', 1: 'bicycle'}), or PaddleOCR's "character" (one a line, of text recognition).
/// Errors: parse_error ("lathe.labels" is no such list). What others wrote and is not understood is left.
Result<std::vector<std::string>> class_labels(const Model& model);

} // namespace lathe
