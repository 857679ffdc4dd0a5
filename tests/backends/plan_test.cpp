#include "backends/openvino/plan.hpp"

#include <numeric>

#include <gtest/gtest.h>

namespace lathe::openvino {
namespace {

TEST(Plan, EveryBatchIsCoveredOnceInOrder) {
    for (const std::size_t threads : {1U, 2U, 3U, 16U}) {
        for (const auto& sizes : {std::vector<std::int64_t>{2}, std::vector<std::int64_t>{4, 2}}) {
            const auto parts = split_parts({{1, 3, 8, 8}}, sizes, threads, 1, 100);
            for (std::int64_t batch = 1; batch <= 100; ++batch) {
                std::int64_t next = 0;
                for (const auto& round : cut_batch(parts, batch)) {
                    for (const auto& piece : round.pieces) {
                        EXPECT_EQ(piece.first, next);
                        EXPECT_EQ(piece.count, parts[round.part].batch());
                        next += piece.count;
                    }
                }
                EXPECT_EQ(next, batch) << threads << " threads";
            }
        }
    }
}

TEST(Plan, LargePiecesComeFirstAndFillAllStreams) {
    const auto parts = split_parts({{1, 3}}, {4, 2}, 2, 1, 32);
    ASSERT_EQ(parts.size(), 3U);
    const auto rounds = cut_batch(parts, 15); // 8 + 4 + 1 + 1 + 1
    ASSERT_EQ(rounds.size(), 5U);
    EXPECT_EQ(parts[rounds[0].part].batch(), 4);
    EXPECT_EQ(rounds[0].pieces, (std::vector<Piece>{{0, 4}, {4, 4}}));
    EXPECT_EQ(rounds[1].pieces, (std::vector<Piece>{{8, 2}, {10, 2}}));
    EXPECT_EQ(rounds[4].pieces, (std::vector<Piece>{{14, 1}}));
}

TEST(Plan, OnlyPartsThatSomeBatchNeedsAreCompiled) {
    EXPECT_EQ(split_parts({{1, 3}}, {4, 2}, 2, 8, 8).size(), 1U);
    EXPECT_EQ(split_parts({{1, 3}}, {4, 2}, 2, 1, 1).size(), 1U);
}

TEST(Plan, PartsThatCannotMakeUpTheBatchGiveNothing) {
    EXPECT_TRUE(cut_batch({{{{4, 3}}, 2}}, 9).empty());
    EXPECT_TRUE(cut_batch({}, 1).empty());
}

} // namespace
} // namespace lathe::openvino
