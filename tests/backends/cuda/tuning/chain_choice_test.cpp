// Which chains of operations get one kernel, from recorded times.
#include <gtest/gtest.h>

#include "backends/cuda/tuning/chain_choice.hpp"

namespace lathe::cuda {
namespace {

using Chosen = std::vector<std::size_t>;

TEST(CudaChainChoice, OnlyWhatIsClearlyFasterThanItsParts) {
    const std::vector<double> op_us{12, 21.6, 9};
    EXPECT_EQ(choose_chains({{{0, 1}, 30}}, op_us), Chosen{0});
    EXPECT_EQ(choose_chains({{{0, 1}, 33.2}}, op_us), Chosen{}); // 33.6 apart: within what measurements differ by
    EXPECT_EQ(choose_chains({{{0, 1}, 40}}, op_us), Chosen{});
}

TEST(CudaChainChoice, OfThoseThatShareOperationsTheOneThatSavesMost) {
    const std::vector<double> op_us{12, 21.6, 9, 20};
    EXPECT_EQ(choose_chains({{{0, 1, 2}, 30}, {{0, 1}, 15}, {{1, 2}, 25}}, op_us), Chosen{1});
    EXPECT_EQ(choose_chains({{{0, 1, 2}, 20}, {{0, 1}, 15}, {{1, 2}, 25}}, op_us), Chosen{0});
    EXPECT_EQ(choose_chains({{{0, 1}, 20}, {{2, 3}, 20}}, op_us), (Chosen{0, 1}));
}

TEST(CudaChainChoice, UnknownTimesDecideNothing) {
    EXPECT_EQ(choose_chains({{{0, 1}, 5}}, {0, 20}), Chosen{});
    EXPECT_EQ(choose_chains({{{0, 1}, 0}}, {20, 20}), Chosen{});
}

} // namespace
} // namespace lathe::cuda
