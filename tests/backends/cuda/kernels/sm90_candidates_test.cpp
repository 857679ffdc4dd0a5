// Which of the Hopper kernels take a problem and which are timed first. Needs no GPU.
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "backends/cuda/tactics/sm90_cost.hpp"

namespace lathe::cuda {
namespace {

using namespace kernels;

/// A convolution n,c,hw,hw -> k of a square window padded by half of it, int8 throughout.
ImplicitGemmParams convolution(int n, int hw, int c, int k, int window, int stride) {
    ImplicitGemmParams params{};
    params.n = n;
    params.h = params.w = hw;
    params.c = params.c_stride = params.c_pitch = c;
    params.k = params.k_stride = params.k_pitch = k;
    params.r = params.s = window;
    params.stride_h = params.stride_w = stride;
    params.pad_h = params.pad_w = window / 2;
    params.dil_h = params.dil_w = 1;
    params.p = params.q = (hw + 2 * (window / 2) - window) / stride + 1;
    params.epilogue.output_scale_inverse = 1;
    return params;
}

/// The int8 tiles of a kind that take the problem, in any number of parts.
int takers(int kind, const ImplicitGemmParams& params) {
    int count = 0, found = 0;
    const TileConfig* tiles = sm90_tiles(count);
    for (int i = 0; i < count; ++i)
        if (tiles[i].kind == kind && tiles[i].in_type == type_s8 && tiles[i].out_type == type_s8)
            for (const int split : {1, 2, 4, 8})
                found += sm90_takes(i, split, params) ? 1 : 0;
    return found;
}

/// The kind of the tile that is timed first.
int first_kind(const ImplicitGemmParams& params) {
    int count = 0, kind = -1;
    const TileConfig* tiles = sm90_tiles(count);
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < count; ++i) {
        if (tiles[i].in_type != type_s8 || tiles[i].out_type != type_s8) continue;
        for (const int split : {1, 2, 4, 8}) {
            if (!sm90_takes(i, split, params)) continue;
            const double cost = sm90_cost(tiles[i], split, params, 1, 1, 132);
            EXPECT_GT(cost, 0) << tiles[i].name;
            if (cost < least) least = cost, kind = tiles[i].kind;
        }
    }
    return kind;
}

TEST(Sm90Candidates, EveryTileHasANameOfItsOwn) {
    int count = 0;
    const TileConfig* tiles = sm90_tiles(count);
    for (int i = 0; i < count; ++i)
        for (int j = 0; j < i; ++j)
            EXPECT_FALSE(tiles[i].out_type == tiles[j].out_type && std::string(tiles[i].name) == tiles[j].name)
                << tiles[i].name;
}

TEST(Sm90Candidates, WeightsStayWhereTheyFitAndResultsGoStraightToMemory) {
    EXPECT_GT(takers(kind_kept, convolution(32, 56, 64, 256, 1, 1)), 0);
    EXPECT_GT(takers(kind_kept, convolution(32, 56, 256, 512, 1, 2)), 0);
    EXPECT_GT(takers(kind_kept, convolution(32, 56, 64, 64, 3, 1)), 0);
    EXPECT_EQ(takers(kind_kept, convolution(32, 56, 64, 64, 3, 2)), 0);    // windows in steps of one alone
    EXPECT_EQ(takers(kind_kept, convolution(32, 7, 1024, 1024, 3, 1)), 0); // 576 KiB for 64 channels
    ImplicitGemmParams params = convolution(32, 56, 64, 256, 1, 1);
    params.epilogue.act = 7; // SiLU is quick enough to stand behind all sums
    EXPECT_GT(takers(kind_kept, params), 0);
    params.epilogue.act = 6; // a sigmoid is not
    EXPECT_EQ(takers(kind_kept, params), 0);
    EXPECT_GT(takers(kind_streamed, params), 0);
}

TEST(Sm90Candidates, RunsOfPixelsNeedACentredWindowInStepsOfOneOrTwo) {
    EXPECT_GT(takers(kind_window, convolution(32, 14, 256, 256, 3, 1)), 0);
    EXPECT_GT(takers(kind_window, convolution(32, 28, 256, 256, 3, 2)), 0);
    EXPECT_GT(takers(kind_window, convolution(2, 27, 256, 256, 3, 2)), 0);
    EXPECT_GT(takers(kind_window, convolution(2, 27, 64, 64, 5, 1)), 0);
    EXPECT_EQ(takers(kind_window, convolution(32, 14, 256, 256, 1, 1)), 0);
    EXPECT_EQ(takers(kind_window, convolution(32, 28, 256, 256, 3, 3)), 0);
    ImplicitGemmParams params = convolution(32, 14, 256, 256, 3, 1);
    params.dil_h = params.dil_w = 2;
    EXPECT_EQ(takers(kind_window, params), 0);
    params = convolution(32, 14, 256, 256, 3, 1);
    params.pad_h = 0;
    params.p = 12;
    EXPECT_EQ(takers(kind_window, params), 0);
}

TEST(Sm90Candidates, StripsAreForFewChannelsOfWideImages) {
    EXPECT_GT(takers(kind_strip, convolution(32, 56, 64, 64, 3, 1)), 0);
    EXPECT_GT(takers(kind_strip, convolution(32, 64, 16, 192, 3, 1)), 0);
    EXPECT_EQ(takers(kind_strip, convolution(32, 65, 64, 64, 3, 1)), 0);
    EXPECT_EQ(takers(kind_strip, convolution(32, 32, 64, 64, 3, 1)), 0); // half of each product would be thrown away
    EXPECT_EQ(takers(kind_strip, convolution(32, 56, 128, 64, 3, 1)), 0);
    EXPECT_EQ(takers(kind_strip, convolution(32, 56, 64, 64, 3, 2)), 0);
    EXPECT_EQ(takers(kind_strip, convolution(32, 56, 64, 64, 1, 1)), 0);
}

TEST(Sm90Candidates, WhatMeasurementsFoundBestIsTimedFirst) {
    ImplicitGemmParams expand = convolution(32, 56, 64, 256, 1, 1);
    expand.epilogue.residual_scale = 0.5F;
    EXPECT_EQ(first_kind(expand), kind_kept);
    EXPECT_EQ(first_kind(convolution(256, 28, 128, 128, 3, 1)), kind_kept);
    EXPECT_EQ(first_kind(convolution(256, 56, 64, 64, 3, 1)), kind_strip);
    EXPECT_EQ(first_kind(convolution(1, 7, 2048, 512, 1, 1)), kind_streamed);
}

} // namespace
} // namespace lathe::cuda
