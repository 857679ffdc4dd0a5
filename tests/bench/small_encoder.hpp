#pragma once

#include "graph/graph.hpp"

namespace lathe::test {

/// One encoder layer of two heads and 16 features, its tokens' mean without the padding: [N, S] to [N, 16].
Model small_encoder();

} // namespace lathe::test
