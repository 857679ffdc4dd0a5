#pragma once

#include <string>

#include "calibrate/ranges_file.hpp"
#include "graph/graph.hpp"
#include "quantize/placement.hpp"

namespace lathe {

/// The calibrated tensor that a value's numbers come from: itself or, where only operations lie between with which
/// quantisation commutes (pooling of maxima, reshaping), what they read; else what such an operation makes of it.
/// nullptr if none was calibrated.
const TensorRange* range_behind(const Graph& graph, const RangesFile& ranges, std::string name);

/// The format of a group's activations in its plan: from zero up, the grid is that of uint8.
NumberFormat format_of(const ScaleGroup& group, const QuantizationPlan& plan);

/// A tensor's range in its group, by the file's method; groups that keep their whole range by minmax, where it
/// was measured.
Range range_in_group(const TensorRange& tensor, const ScaleGroup& group, const RangesFile& ranges,
                     const QuantizationPlan& plan);

} // namespace lathe
