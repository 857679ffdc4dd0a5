#pragma once

#include <memory>

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

// OpenVINO (2026.4) takes a time that grows with the square of the number of nodes where a network is a long chain.
// What is here keeps it from that; networks without such chains are compiled as they are. Seconds are for 10,000 nodes,
// one compilation, alone on a core.

/// A small constant that many nodes read becomes one for each: its readers are compared with each other, in reshape()
/// already (Add of a shared scalar: 91 s before, 62 after).
void copy_shared_constants(ov::Model& model);

/// Compiles for the CPU. Changes `model`: long runs of additions and multiplications by constants become one of each.
ov::CompiledModel compile_on_cpu(const std::shared_ptr<ov::Model>& model, ov::AnyMap properties);

} // namespace lathe::openvino
