#pragma once

#include "backends/openvino/core.hpp"
#include "graph/graph.hpp"

namespace lathe::openvino {

/// Writes rotary positions (Su et al., RoFormer, 2021) whose pairs are neighbours so that OpenVINO 2026.4 need not take
/// them apart one number at a time: stack(-x[..., 1::2], x[..., ::2]), as timm, GPT-J and RoFormer turn, becomes a
/// Gather along the last axis times signs; tokens that are not turned (EVA-02's class token) are turned by nothing, and
/// not cut off and joined again. Strided Slices and Concat took half of the time of an EVA-02.
void write_rotations(Model& model);

/// Puts Maximum(x, x), which is x, before a Concat whose first part is a rotation that others read, too (an output).
/// OpenVINO 2026.4 gathers a rotation of a part and what it is joined with in one node, and gives that to all of them.
void keep_shared_rotations(ov::Model& model);

} // namespace lathe::openvino
