#include <set>

#include <gtest/gtest.h>

#include "backends/cuda/kernels/sm90/geometry.hpp"

namespace lathe::cuda::kernels::sm90 {
namespace {

TEST(Sm90Geometry, SwizzlePermutesPiecesWithinEightRows) {
    for (const int row_bytes : {64, 128}) {
        std::set<int> seen;
        for (int row = 0; row < 16; ++row)
            for (int column = 0; column < row_bytes; ++column) {
                const int at = swizzled_offset(row, column, row_bytes);
                EXPECT_EQ(at / row_bytes, row);
                EXPECT_EQ(at % 16, column % 16);
                seen.insert(at);
            }
        EXPECT_EQ(seen.size(), static_cast<std::size_t>(16 * row_bytes));
    }
    EXPECT_EQ(swizzled_offset(3, 0, 128), 3 * 128 + 3 * 16);
    EXPECT_EQ(swizzled_offset(3, 0, 64), 3 * 64 + 16);
}

TEST(Sm90Geometry, PixelBoxHoldsExactlyTheOutputs) {
    for (const int extent : {7, 14, 15, 56})
        for (const int stride : {1, 2, 3})
            for (const int pad : {0, 1, 3})
                for (int outputs = 1; outputs <= extent / stride; ++outputs) {
                    const PixelBox box = pixel_box(extent, outputs, stride, pad);
                    const int width = extent + box.upper - box.lower;
                    EXPECT_EQ((width + stride - 1) / stride, outputs);
                    EXPECT_EQ(box.lower, -pad);
                }
}

TEST(Sm90Geometry, FirstPixelWalksImagesRowsColumns) {
    int index = 0;
    for (int n = 0; n < 3; ++n)
        for (int p = 0; p < 4; ++p)
            for (int q = 0; q < 5; ++q, ++index) {
                const FirstPixel pixel = first_pixel(index, 4, 5, 2, 3, 1, 2);
                EXPECT_EQ(pixel.n, n);
                EXPECT_EQ(pixel.h, p * 2 - 1);
                EXPECT_EQ(pixel.w, q * 3 - 2);
            }
}

TEST(Sm90Geometry, ColumnsOfAThreadAreChannelsNextToEachOther) {
    for (const int output_bytes : {1, 2, 4})
        for (const int n : {32, 64, 128, 256}) {
            const int run = run_of(output_bytes, n);
            EXPECT_LE(run * output_bytes, 16);
            EXPECT_EQ(n % (4 * run), 0);
            std::set<int> channels;
            for (int column = 0; column < n; ++column)
                channels.insert(channel_of_column(column, run));
            EXPECT_EQ(channels.size(), static_cast<std::size_t>(n));
            EXPECT_EQ(*channels.rbegin(), n - 1);
            for (int t = 0; t < 4; ++t)
                for (int i = 0; i < n / 4; ++i) // thread t's sums in order
                    EXPECT_EQ(channel_of_column(8 * (i / 2) + 2 * t + i % 2, run),
                              i / run * 4 * run + t * run + i % run)
                        << output_bytes << ' ' << n << ' ' << t << ' ' << i;
        }
}

TEST(Sm90Geometry, ScalesOfARunAreReadSixteenBytesAtATime) {
    for (const int output_bytes : {1, 2, 4})
        for (const int n : {32, 64, 128, 256}) {
            const int run = run_of(output_bytes, n);
            std::set<int> places;
            for (int channel = 0; channel < n; ++channel) {
                const int first = channel - channel % run;
                const int piece = run < 4 ? 0 : channel % run / 4 * 16;
                EXPECT_EQ(vector_place(channel, run),
                          vector_place(first, run) + piece + channel % run - piece / 16 * 4);
                places.insert(vector_place(channel, run));
            }
            EXPECT_EQ(places.size(), static_cast<std::size_t>(n));
            EXPECT_EQ(*places.rbegin(), n - 1);
            if (run < 4) continue;
            std::set<int> banks; // four lanes, one 16-byte piece each
            for (int t = 0; t < 4; ++t)
                banks.insert(vector_place(t * run, run) / 4 % 8);
            EXPECT_EQ(banks.size(), 4U);
        }
}

TEST(Sm90Geometry, StagingHasNoBankConflicts) {
    for (const int n : {32, 64, 128, 256}) {
        std::set<int> pieces;
        for (int piece = 0; piece < n / 4; ++piece)
            pieces.insert(staging_piece(piece));
        EXPECT_EQ(pieces.size(), static_cast<std::size_t>(n / 4));
        EXPECT_EQ(*pieces.rbegin(), n / 4 - 1);
        // half a warp writes 8 bytes a lane: four rows, two pieces each
        for (int j = 0; j < n / 8; ++j) {
            std::set<int> banks;
            for (int lane = 0; lane < 16; ++lane)
                banks.insert((lane / 4 * staging_pitch(n) + staging_piece(2 * j + lane % 4 / 2) * 16 + lane % 2 * 8) %
                             128);
            EXPECT_EQ(banks.size(), 16U);
        }
        // eight lanes read 16 bytes each of their 64 (int8) or 32 (half) bytes; the narrowest tile takes two turns
        if (n == 32) continue;
        for (const int pieces_per_lane : {4, 2}) {
            const int lanes_per_row = n / 4 / pieces_per_lane;
            if (lanes_per_row < 4) continue;
            for (int i = 0; i < pieces_per_lane; ++i) {
                std::set<int> banks;
                for (int lane = 0; lane < 8; ++lane)
                    banks.insert((lane / lanes_per_row * staging_pitch(n) +
                                  staging_piece(lane % lanes_per_row * pieces_per_lane + i) * 16) %
                                 128);
                EXPECT_EQ(banks.size(), 8U) << n << ' ' << pieces_per_lane << ' ' << i;
            }
        }
    }
}

TEST(Sm90Geometry, StripsCoverEveryRowOnce) {
    for (const int n : {1, 7, 32})
        for (const int p : {1, 5, 33, 56, 64})
            for (const int most : {1, 66, 132}) {
                const Strips strips = cut_strips(n, p, most, 3);
                EXPECT_GE(strips.rows * strips.down, p);
                EXPECT_LT(strips.rows * (strips.down - 1), p);
                EXPECT_EQ(strips.count, n * strips.down);
                EXPECT_LE(strips.blocks, most);
                EXPECT_LE(strips.blocks, strips.count);
                EXPECT_GT(strips.cost, 0);
            }
    EXPECT_GT(cut_strips(32, 56, 132, 3).rows, cut_strips(1, 56, 132, 3).rows);
}

} // namespace
} // namespace lathe::cuda::kernels::sm90
