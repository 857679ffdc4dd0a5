#pragma once

#include "graph/graph.hpp"

namespace lathe::openvino {

/// Writes rotary positions (Su et al., RoFormer, 2021) whose pairs are neighbours so that OpenVINO 2026.4 need not take
/// them apart one number at a time: stack(-x[..., 1::2], x[..., ::2]), as timm, GPT-J and RoFormer turn, becomes a
/// Gather along the last axis times signs; tokens that are not turned (EVA-02's class token) are turned by nothing, and
/// not cut off and joined again. Strided Slices and Concat took half of the time of an EVA-02.
void write_rotations(Model& model);

} // namespace lathe::openvino
