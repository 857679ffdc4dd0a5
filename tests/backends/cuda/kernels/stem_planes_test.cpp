// Which stems the Hopper kernel with planes takes, and that its tiles are timed first. Needs no GPU.
#include <algorithm>

#include <gtest/gtest.h>

#include "backends/cuda/device/cuda.hpp"
#include "backends/cuda/kernels/stems.hpp"
#include "backends/cuda/tactics/provider.hpp"
#include "cases.hpp"

namespace lathe::cuda::test {
namespace {

using namespace kernels;

/// ResNet's stem on images of h x w, to int8.
StemParams resnet_stem(int h, int w) {
    StemParams p{};
    p.weight_type = type_f16;
    p.output_type = type_s8;
    p.weight_c = 4;
    p.n = 2;
    p.c = 3;
    p.h = h;
    p.w = w;
    p.k = p.k_stride = 64;
    p.window = {7, 7, 2, 2, 1, 1, 3, 3, 3, 3};
    p.p = (h - 1) / 2 + 1;
    p.q = (w - 1) / 2 + 1;
    p.pooled = 1;
    p.pool_p = (p.p - 1) / 2 + 1;
    p.pool_q = (p.q - 1) / 2 + 1;
    p.epilogue.act = 1; // relu
    p.epilogue.output_scale_inverse = 1;
    return p;
}

TEST(StemPlanes, TakesPooledWindowsOfSeven) {
    const StemPlanesTile wide{7, 112}, narrow{1, 64};
    EXPECT_TRUE(stem_planes_takes(resnet_stem(224, 224), wide));
    EXPECT_TRUE(stem_planes_takes(resnet_stem(224, 224), narrow));
    EXPECT_FALSE(stem_planes_takes(resnet_stem(288, 288), wide)); // 144 columns
    EXPECT_TRUE(stem_planes_takes(resnet_stem(288, 288), narrow));
    EXPECT_FALSE(stem_planes_takes(resnet_stem(224, 226), narrow)); // rows that do not start on 16 bytes
    EXPECT_FALSE(stem_planes_takes(resnet_stem(222, 224), narrow)); // 111 rows
    EXPECT_FALSE(stem_planes_takes(resnet_stem(224, 224), {0, 112}));
    EXPECT_FALSE(stem_planes_takes(resnet_stem(224, 224), {1, 96}));
    const auto refused = [](auto change) {
        StemParams p = resnet_stem(224, 224);
        change(p);
        return !stem_planes_takes(p, {7, 112});
    };
    EXPECT_TRUE(refused([](StemParams& p) { p.pooled = 0; }));
    EXPECT_TRUE(refused([](StemParams& p) { p.epilogue.act = 3; })); // not a clamp
    EXPECT_TRUE(refused([](StemParams& p) { p.epilogue.output_scale_inverse = 2; }));
    EXPECT_TRUE(refused([](StemParams& p) { p.c = 4; }));
    EXPECT_TRUE(refused([](StemParams& p) { p.window.pad_w = 2; }));
}

TEST(StemPlanes, IsTimedFirstAndOnHopperAlone) {
    const auto own = make_own_provider();
    int found = 0;
    for (const Case& c : table()) {
        if (c.name.find("stem7x7_224_pooled") == std::string::npos) continue;
        ++found;
        const TestPlan test = c.make();
        Device device;
        device.multiprocessors = 132;
        device.shared_per_block = 227 << 10;
        std::string why;
        const auto count = [&](int sm) {
            device.sm = sm;
            const auto ids = own->candidates(test.plan.ops.at(0), test.plan, device, Effort::full, why);
            EXPECT_FALSE(ids.empty()) << c.name << ": " << why;
            if (sm == 90) {
                EXPECT_TRUE(ids.at(0).starts_with("stem_planes")) << ids.at(0);
            }
            return std::ranges::count_if(ids, [](const auto& id) { return id.starts_with("stem_planes"); });
        };
        EXPECT_EQ(count(90), 14) << c.name;
        EXPECT_EQ(count(80), 0) << c.name;
    }
    EXPECT_EQ(found, 2);
}

} // namespace
} // namespace lathe::cuda::test
