#pragma once

#include <cstdint>

#include "lathe/engine_types.hpp"

namespace lathe::openvino {

/// Whether an engine build times batches in one piece against batches cut into pieces, for a network of so many
/// multiply-accumulates a sample. Each trial runs four samples a thread, several times: of a very heavy network that
/// takes minutes, and its layers fill the cores also in one piece. With TuneEffort::fast, of a heavy one.
bool times_batches(std::int64_t macs, TuneEffort effort);

} // namespace lathe::openvino
