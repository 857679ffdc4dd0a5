#include <gtest/gtest.h>

#include "backends/cuda/device/blob.hpp"
#include "backends/cuda/plan/networks.hpp"

namespace lathe::test {
namespace {

/// An engine of the residual network without a device, as a build leaves it.
std::shared_ptr<cuda::EngineState> built() {
    auto made = std::make_shared<cuda::EngineState>();
    cuda::EngineState& state = *made;
    auto prepared = cuda::prepare(network(residual_network()), Precision::float16);
    EXPECT_TRUE(prepared) << prepared.error().describe();
    state.prepared = std::move(*prepared);
    const ShapeRange range{{1, 3, 32, 32}, {2, 3, 32, 32}, {4, 3, 32, 32}};
    state.profiles = {{range}, {{{8, 3, 32, 32}, {8, 3, 32, 32}, {8, 3, 32, 32}}}};
    state.inputs = {{"x", DataType::float32, {{1, 3, 32, 32}, {2, 3, 32, 32}, {8, 3, 32, 32}}}};
    state.outputs = {{"y", DataType::float32, {{-1, 10}, {-1, 10}, {-1, 10}}}};
    state.environment = "a GPU; sm_90";
    state.workspace_limit = 1 << 20;
    state.arena_bytes = 12345;
    state.workspace_bytes = 678;
    state.tactics = {{"conv one", {"lathe:a", "cudnn:b"}}, {"conv two", {"reference:conv"}}};
    for (const auto& shapes : state.points()) {
        const auto plan = cuda::lower(state.prepared, shapes);
        EXPECT_TRUE(plan) << plan.error().describe();
    }
    return made;
}

std::shared_ptr<const std::string> blob_of(const cuda::EngineState& state) {
    auto text = cuda::write_blob(state);
    EXPECT_TRUE(text) << text.error().describe();
    return std::make_shared<const std::string>(text->flat());
}

TEST(CudaBlob, ReadsWhatItWrote) {
    const auto made = built();
    cuda::EngineState& state = *made;
    const auto blob = blob_of(state);
    auto read = cuda::read_blob(std::as_bytes(std::span(*blob)), blob);
    ASSERT_TRUE(read) << read.error().describe();
    EXPECT_EQ((*read)->environment, state.environment);
    EXPECT_EQ((*read)->tactics, state.tactics);
    EXPECT_EQ((*read)->arena_bytes, state.arena_bytes);
    EXPECT_EQ((*read)->workspace_bytes, state.workspace_bytes);
    EXPECT_EQ((*read)->workspace_limit, state.workspace_limit);
    EXPECT_EQ((*read)->points(), state.points());
    ASSERT_EQ((*read)->inputs.size(), 1U);
    EXPECT_EQ((*read)->inputs[0].name, "x");
    EXPECT_EQ((*read)->outputs[0].range.max, (Shape{-1, 10}));
    // Without the model's own weights the same plan comes out, for tuned shapes and others.
    for (const std::int64_t batch : {1, 2, 3, 8}) {
        const std::vector<Shape> shapes{{batch, 3, 32, 32}};
        const auto before = cuda::lower(state.prepared, shapes);
        const auto after = cuda::lower((*read)->prepared, shapes);
        ASSERT_TRUE(before && after) << (after ? before.error() : after.error()).describe();
        EXPECT_EQ(cuda::print(*before), cuda::print(*after));
    }
}

TEST(CudaBlob, RefusesWhatIsDamaged) {
    const auto blob = blob_of(*built());
    const auto bytes = std::as_bytes(std::span(*blob));
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{7}, std::size_t{23}, std::size_t{100}, bytes.size() / 2}) {
        const auto read = cuda::read_blob(bytes.first(size), blob);
        ASSERT_FALSE(read) << size;
        EXPECT_EQ(read.error().code, ErrorCode::corrupt) << read.error().describe();
    }
    std::string other = *blob;
    other[8] = 9;
    const auto read = cuda::read_blob(std::as_bytes(std::span(other)), nullptr);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::mismatch);
}

TEST(CudaEngineState, KnowsItsProfiles) {
    const auto made = built();
    const cuda::EngineState& state = *made;
    EXPECT_EQ(state.points(), (std::vector<std::vector<Shape>>{
                                  {{2, 3, 32, 32}}, {{1, 3, 32, 32}}, {{4, 3, 32, 32}}, {{8, 3, 32, 32}}}));
    EXPECT_TRUE(state.covers({{3, 3, 32, 32}}));
    EXPECT_TRUE(state.covers({{8, 3, 32, 32}}));
    EXPECT_FALSE(state.covers({{5, 3, 32, 32}}));
}

} // namespace
} // namespace lathe::test
