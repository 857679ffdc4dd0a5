#include "support/memory_limit.hpp"

#include <gtest/gtest.h>

namespace lathe::test {
namespace {

TEST(MemoryLimit, WhatIsFoldedIsBoundedByTheWeightsUnlessALimitWasGiven) {
    constexpr std::uint64_t gib = std::uint64_t{1} << 30;
    EXPECT_LE(folding_limit(0), gib);
    EXPECT_LE(folding_limit(gib / 8), gib + gib / 2);
    EXPECT_LE(folding_limit(std::uint64_t{1} << 62), memory_limit()); // no overflow
    set_memory_limit(16 * gib);
    EXPECT_EQ(folding_limit(0), 16 * gib);
    set_memory_limit(0);
    EXPECT_LE(folding_limit(0), gib);
}

} // namespace
} // namespace lathe::test
