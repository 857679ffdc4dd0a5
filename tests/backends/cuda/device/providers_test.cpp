// Which kernels are offered to which GPU, with recorded properties: needs no GPU.
#include <algorithm>
#include <ostream>

#include <gtest/gtest.h>

#include "backends/cuda/plan/networks.hpp"
#include "backends/cuda/tactics/provider.hpp"
#include "backends/cuda/tactics/shared_memory.hpp"

namespace lathe::cuda {

/// gtest would print the bytes.
static void PrintTo(const Device& device, std::ostream* out) { *out << device.name; }

} // namespace lathe::cuda

namespace lathe::test {
namespace {

/// Properties as cudaGetDeviceProperties gives them.
cuda::Device recorded(const std::string& name, int sm, int multiprocessors, std::size_t shared_kib) {
    cuda::Device device;
    device.name = name;
    device.sm = sm;
    device.multiprocessors = multiprocessors;
    device.shared_per_block = shared_kib << 10;
    device.l2_bytes = std::size_t{40} << 20;
    device.memory_bytes = std::size_t{24} << 30;
    device.driver = "580.0";
    return device;
}

class Gpus : public testing::TestWithParam<cuda::Device> {};

INSTANTIATE_TEST_SUITE_P(All, Gpus,
                         testing::Values(recorded("NVIDIA A100", 80, 108, 163), recorded("NVIDIA A10", 86, 72, 99),
                                         recorded("NVIDIA L4", 89, 58, 99), recorded("NVIDIA H100", 90, 132, 227),
                                         recorded("NVIDIA B200", 100, 148, 227),
                                         recorded("NVIDIA RTX PRO 6000", 120, 188, 99)),
                         [](const auto& info) { return "sm" + std::to_string(info.param.sm); });

const cuda::Provider& provider(const std::string& name) {
    for (const auto& one : cuda::providers())
        if (one->name() == name) return *one;
    throw std::runtime_error("no provider " + name);
}

TEST_P(Gpus, EveryOperationHasKernels) {
    const cuda::Device& device = GetParam();
    struct Case {
        std::string text;
        Precision precision;
    };
    for (const Case& each : {Case{residual_network(), Precision::float32},
                             {residual_network(), Precision::float16},
                             {residual_network(), Precision::bfloat16},
                             {quantised_network(), Precision::int8},
                             {depthwise_network(), Precision::float16}}) {
        const Model model = network(each.text);
        const std::int64_t side = each.text == depthwise_network() ? 24 : 32;
        const cuda::Plan plan = plan_of(model, each.precision, {{2, 3, side, side}});
        for (const cuda::FusedOp& op : plan.ops) {
            const auto offered = [&](const char* name, std::string& why) {
                return provider(name).candidates(op, plan, device, cuda::Effort::full, why);
            };
            std::string why;
            EXPECT_FALSE(offered("reference", why).empty()) << op.name << ": " << why;
            const auto hopper = offered("lathe90", why = "");
            if (device.sm != 90) {
                EXPECT_TRUE(hopper.empty()) << op.name << ": " << hopper.front() << " needs wgmma";
            }
            const auto general = offered("lathe", why = "");
            // What is not Hopper's own is there on every GPU, with smaller tiles where shared memory is smaller.
            const auto on_hopper =
                provider("lathe").candidates(op, plan, recorded("NVIDIA H100", 90, 132, 227), cuda::Effort::full, why);
            const bool general_on_hopper = std::any_of(on_hopper.begin(), on_hopper.end(), [](const std::string& id) {
                return id.find("wgmma") == std::string::npos;
            });
            EXPECT_EQ(!general.empty(), general_on_hopper) << op.name << ": " << why;
            for (const std::string& id : general) {
                if (device.sm == 90) continue;
                EXPECT_EQ(id.find("wgmma"), std::string::npos) << id << " needs compute capability 9.0";
            }
        }
    }
}

TEST_P(Gpus, TilesFitSharedMemory) {
    int count = 0;
    const cuda::kernels::TileConfig* tiles = cuda::kernels::mma_tiles(count);
    ASSERT_GT(count, 0);
    std::map<int, int> fitting; // by type of the inputs
    for (int t = 0; t < count; ++t) {
        const std::size_t bytes = cuda::mma_tile_shared_bytes(tiles[t]);
        EXPECT_GT(bytes, 0U);
        EXPECT_LE(bytes, std::size_t{227} << 10) << tiles[t].name;
        fitting[tiles[t].in_type] += bytes <= GetParam().shared_per_block ? 1 : 0;
    }
    for (const auto& [type, tiles_left] : fitting)
        EXPECT_GT(tiles_left, 0) << "no tile for inputs of type " << type;
}

} // namespace
} // namespace lathe::test
