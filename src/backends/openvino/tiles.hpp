#pragma once

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

/// Gives a Tile of four or five axes with open sizes, of which axis 1 or all behind it may be of one element, six axes
/// while it repeats. OpenVINO's plugin for CPUs (2026.4) asks such a value's description whether channels come last,
/// which is as true as that they do not, and repeats along other axes. Where repeats are not known it has no form for
/// many axes either: these are repeated one after another.
void keep_tiles_plain(ov::Model& model);

} // namespace lathe::openvino
