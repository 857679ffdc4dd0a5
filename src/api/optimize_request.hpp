#pragma once

#include "lathe/optimize.hpp"

namespace lathe {

/// What is left open becomes what is usual for the device, and for a quick job; what cannot be is told now, not after
/// minutes of work: an output that is one of the inputs, INT8 without data, unknown peers, files that are not there.
Result<OptimizeRequest> completed(OptimizeRequest request);

} // namespace lathe
