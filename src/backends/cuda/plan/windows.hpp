#pragma once

#include "backends/cuda/plan/ir.hpp"
#include "graph/graph.hpp"
#include "lathe/result.hpp"

namespace lathe::cuda {

/// What a window's attributes say, along each spatial axis of the input.
struct Spans {
    std::vector<std::int64_t> kernel, strides, dilations, pads; ///< pads: before all, then behind all
};
/// Of a Conv or pooling node over a value of these sizes, auto_pad worked out. Errors: unsupported.
Result<Spans> spans_of(const Node& node, const Shape& input, std::vector<std::int64_t> kernel);

/// For each tap of the window, and for each result, which of the pixels it meets; their number where it meets none. x
/// and y are the node's sizes [N, C, ...].
std::vector<std::int64_t> places_of_windows(const Spans& spans, const Shape& x, const Shape& y);

/// The window of a Conv or pooling node over an image of dims N,C,H,W or N,C,W (which is taken as one row high).
/// unsupported for other ranks.
Result<Window> window_of(const Node& node, const Shape& input, std::vector<std::int64_t> kernel);

/// A window's extent along the depth of a volume.
struct DepthWindow {
    std::int64_t kernel = 1, stride = 1, dilation = 1, before = 0, after = 0;
};
/// The window of a node over a volume N,C,D,H,W: along its depth, and over each of its images.
struct VolumeWindow {
    DepthWindow depth;
    Window plane;
};
/// Errors as window_of's.
Result<VolumeWindow> volume_window_of(const Node& node, const Shape& input, std::vector<std::int64_t> kernel);

} // namespace lathe::cuda
