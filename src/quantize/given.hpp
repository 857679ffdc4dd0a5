#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "calibrate/given_ranges.hpp"
#include "graph/graph.hpp"
#include "support/json.hpp"

namespace lathe {

/// A tensor of another tool's file that the model does not have.
struct UnknownTensor {
    std::string name;
    std::size_t line = 0; ///< of the file; 0: not known
    std::string nearest;  ///< the tensor of the model that may be meant; empty if none is near
};

/// How another tool's ranges fit a model.
struct GivenMatch {
    std::size_t matched = 0;
    std::vector<UnknownTensor> unknown;
    /// Names that TensorRT gave to layers which the ONNX does not have, "(Unnamed Layer* 8) [Constant]_output".
    std::size_t internal = 0;
};

struct MatchedRanges {
    RangesFile ranges; ///< of this model, with its `source`; quantize_model takes them
    GivenMatch match;
};

/// The ranges of those tensors that the model has (what reshapes them has theirs: see range_behind). Where a Relu or a
/// Clip from 0 writes a tensor whose file knows magnitudes alone, it is taken as never negative (which matters to
/// unsigned targets). Errors: mismatch, with near names, if the model has none of them.
Result<MatchedRanges> match_given(const Model& model, const GivenRanges& given);

/// {"matched", "internal", "unknown": [{"tensor", "line", "nearest"}]}.
Json to_json(const GivenMatch& match);

/// Every float32 value that depends on the model's inputs, in graph order: what a calibration cache tells of, so that
/// TensorRT finds the scale of whatever it wants to write in int8.
std::vector<std::string> float_activations(const Model& model);

} // namespace lathe
