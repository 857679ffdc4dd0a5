#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "backends/cuda/tactics/provider.hpp"

namespace lathe::cuda {

/// A value without a place in memory.
struct Placeless {
    ValueId value = none;
    std::size_t bytes = 0;
};

/// Kernels enqueued one behind the other, as one: a chain's parts. Values without a place lie in the workspace, in
/// front of what the kernels need of it, which they use in turn.
std::unique_ptr<PreparedKernel> make_sequence(std::vector<std::unique_ptr<PreparedKernel>> kernels,
                                              std::vector<Placeless> placeless);

} // namespace lathe::cuda
