#pragma once

#include <cstddef>

namespace lathe {

/// Some samples of a dataset, by their places in the order in which they are read.
struct SampleSpan {
    std::size_t first = 0;
    std::size_t count = 0;
};

} // namespace lathe
