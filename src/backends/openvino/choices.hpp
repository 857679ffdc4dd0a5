#pragma once

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

/// Gives results of an If with open sizes those sizes once more, computed from its condition too (times 0). OpenVINO's
/// plugin for CPUs (2026.4) makes room for all that follows whose sizes it knows once the If has run. Room that is
/// shared with the If's result and has to grow loses it, with each size that is larger than any before. It keeps the
/// result where sizes are data: then it stops in front of them.
void keep_chosen_results(ov::Model& model);

} // namespace lathe::openvino
