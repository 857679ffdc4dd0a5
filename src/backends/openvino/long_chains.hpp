#pragma once

#include <cstddef>
#include <memory>

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

// OpenVINO (2026.4) takes a time that grows with the square of the number of nodes where a network is a long chain.
// What is here keeps it from that; networks without such chains are compiled as they are. Seconds are for 10,000 nodes,
// one compilation, alone on a core.

/// A small constant that many nodes read becomes one for each: its readers are compared with each other, in reshape()
/// already (Add of a shared scalar: 91 s before, 62 after). How many constants were added.
std::size_t copy_shared_constants(ov::Model& model);

/// Runs of additions and multiplications by constants are joined, as OpenVINO does one by one, each time copying the
/// names of all nodes before (62 s before, 1 after). How many nodes are gone.
std::size_t join_linear_runs(ov::Model& model);

/// Whether elementwise nodes follow each other for very long. OpenVINO is then not to gather them in kernels of its own
/// making, copying the kernel so far for each (over 240 s before, 6 after).
bool has_long_elementwise_run(const ov::Model& model);

/// Compiles for the CPU with the last two, which change `model`.
ov::CompiledModel compile_on_cpu(const std::shared_ptr<ov::Model>& model, ov::AnyMap properties);

} // namespace lathe::openvino
