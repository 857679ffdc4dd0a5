#pragma once

#include <vector>

#include "../kernels/cases.hpp"

namespace lathe::cuda::test {

/// Seeded operations of every kind that kernels are generated for: types, odd sizes, broadcasts, layouts, int8 scales.
std::vector<Case> random_cases(unsigned seed);

} // namespace lathe::cuda::test
