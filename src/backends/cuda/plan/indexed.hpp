#pragma once

#include <string>

#include "backends/cuda/plan/indexed_kind.hpp"

namespace lathe::cuda {

/// One operation of IndexedKind, which says what the fields mean. Values are linear, unless the kind says more; `axis`
/// counts from the front. Indices below 0 count from the end; those out of bounds have no defined result: kernels clamp
/// rather than read beyond.
struct Indexed {
    IndexedKind kind = IndexedKind::gather_elements;
    std::int64_t axis = 0;
    std::int64_t number = 0;
    std::int32_t mode = 0;
    bool first = false, second = false;
    float factor = 0, limit = 0;
};
/// " scatter_nd axis=1 ...": for texts and signatures.
std::string describe(const Indexed& detail);

} // namespace lathe::cuda
