// Several GPUs, memory and its limits. What needs GPUs is skipped, with the cause, where there are too few.
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/cuda_backend.hpp"
#include "backends/cuda/device/cuda.hpp"
#include "backends/cuda/device/pinned_pool.hpp"
#include "backends/cuda/plan/networks.hpp"
#include "data/picture_batch.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

TEST(NoGpu, SaysWhichOfThreeCausesItIs) {
    constexpr int runtime = 13000;
    const auto [none, none_cure] = cuda::no_gpu(cudaErrorInsufficientDriver, 0, runtime);
    EXPECT_THAT(none, HasSubstr("no NVIDIA driver answers"));
    EXPECT_THAT(none_cure, HasSubstr("580 or newer"));
    EXPECT_THAT(none_cure, HasSubstr("--device cpu"));
    const auto [old, old_cure] = cuda::no_gpu(cudaErrorInsufficientDriver, 12040, runtime);
    EXPECT_THAT(old, HasSubstr("too old: it knows CUDA up to 12.4, this program needs 13.0"));
    EXPECT_THAT(old_cure, HasSubstr("CUDA 13"));
    const auto [hidden, hidden_cure] = cuda::no_gpu(cudaErrorNoDevice, 13000, runtime);
    EXPECT_THAT(hidden, HasSubstr("no NVIDIA GPU is visible"));
    EXPECT_THAT(hidden_cure, HasSubstr("CUDA_VISIBLE_DEVICES"));
    EXPECT_THAT(cuda::no_gpu(cudaErrorUnknown, 13000, runtime).first, HasSubstr("unknown error"));
}

class CudaDevices : public testing::Test {
protected:
    void SetUp() override {
        const Availability state = backend().availability();
        if (!state.available) GTEST_SKIP() << "SKIPPED: " << state.cause;
        ASSERT_EQ(cudaGetDeviceCount(&count_), cudaSuccess);
    }
    static const Backend& backend() {
        static const std::unique_ptr<Backend> made = make_cuda_backend();
        return *made;
    }
    static CompileOptions options() {
        CompileOptions options;
        options.precision = Precision::float16;
        options.shapes["x"] = {{1, 3, 32, 32}, {2, 3, 32, 32}, {4, 3, 32, 32}};
        options.tune = TuneEffort::fast;
        options.allow_fallback = true;
        options.timing_cache = std::filesystem::path(testing::TempDir()) / "cuda-devices-test-timings.json";
        return options;
    }
    static Result<std::vector<std::byte>> run(BackendSession& session, std::vector<HostTensor>& inputs) {
        for (std::size_t i = 0; i < inputs.size(); ++i)
            LATHE_CHECK(session.set_input(i, inputs[i].view()));
        LATHE_CHECK(session.run());
        LATHE_TRY(const TensorView view, session.output(0));
        return std::vector<std::byte>(view.bytes.begin(), view.bytes.end());
    }
    int count_ = 0;
};

TEST_F(CudaDevices, EachGpuGivesTheSameFromItsOwnWeights) {
    if (count_ < 2) GTEST_SKIP() << "SKIPPED: this machine has " << count_ << " GPU, the test needs 2";
    const Model model = network(residual_network());
    CompileOptions both = options();
    both.devices = {1, 0};
    const auto engine = backend().compile(model, both);
    ASSERT_TRUE(engine) << engine.error().describe();
    auto inputs = random_inputs(model, {{4, 3, 32, 32}});
    std::atomic<int> wrong = 0;
    std::vector<std::byte> expected;
    {
        auto first = (*engine)->make_session_on(0);
        ASSERT_TRUE(first) << first.error().describe();
        EXPECT_EQ((*first)->device(), 0);
        auto result = run(**first, inputs);
        ASSERT_TRUE(result) << result.error().describe();
        expected = std::move(*result);
    }
    const std::size_t weights = (*engine)->memory()->weights;
    std::vector<std::jthread> threads;
    for (const int device : {0, 1, 0, 1}) {
        threads.emplace_back([&, device] {
            auto session = (*engine)->make_session_on(device);
            auto own = inputs;
            for (int i = 0; session && i < 20; ++i) {
                const auto result = run(**session, own);
                wrong += result && *result == expected ? 0 : 1;
            }
            wrong += session && (*session)->device() == device ? 0 : 100;
        });
    }
    threads.clear();
    EXPECT_EQ(wrong, 0);
    // Two sessions a GPU hold their own activations, and the weights once.
    const EngineMemory memory = *(*engine)->memory();
    EXPECT_EQ(memory.devices, (std::vector<int>{1, 0}));
    EXPECT_EQ(memory.weights, weights);
    EXPECT_FALSE((*engine)->make_session_on(7));
    // Without a wish they take turns.
    auto a = (*engine)->make_session();
    auto b = (*engine)->make_session();
    ASSERT_TRUE(a && b);
    EXPECT_NE((*a)->device(), (*b)->device());
}

TEST_F(CudaDevices, KeptInputsGiveTheSameAgainAndAgain) {
    const Model model = network(residual_network());
    const auto engine = backend().compile(model, options());
    ASSERT_TRUE(engine) << engine.error().describe();
    auto session = (*engine)->make_session();
    ASSERT_TRUE(session) << session.error().describe();
    auto inputs = random_inputs(model, {{4, 3, 32, 32}});
    const auto expected = run(**session, inputs);
    ASSERT_TRUE(expected) << expected.error().describe();
    ASSERT_TRUE((*session)->keep_input(0, inputs[0].view()));
    std::fill(inputs[0].bytes.begin(), inputs[0].bytes.end(), std::byte{0}); // it was copied
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE((*session)->run());
        const auto view = (*session)->output(0);
        ASSERT_TRUE(view) << view.error().describe();
        EXPECT_TRUE(std::equal(view->bytes.begin(), view->bytes.end(), expected->begin()));
    }
    const auto zeros = run(**session, inputs); // set_input ends it
    ASSERT_TRUE(zeros);
    EXPECT_NE(*zeros, *expected);
}

/// Libraries make a handle for each thread, which must not happen while a graph is recorded.
TEST_F(CudaDevices, ASessionWorksInAnotherThreadThanBefore) {
    ASSERT_EQ(::setenv("LATHE_CUDA_PROVIDERS", "cudnn,cublaslt", 1), 0);
    const Model model = network(residual_network());
    CompileOptions vendor = options();
    vendor.timing_cache = std::filesystem::path(testing::TempDir()) / "cuda-devices-test-vendor-timings.json";
    const auto engine = backend().compile(model, vendor);
    ASSERT_TRUE(engine) << engine.error().describe();
    auto session = (*engine)->make_session();
    ASSERT_TRUE(session) << session.error().describe();
    auto inputs = random_inputs(model, {{4, 3, 32, 32}});
    const auto expected = run(**session, inputs);
    ASSERT_TRUE(expected) << expected.error().describe();
    std::thread([&] {
        EXPECT_TRUE(run(**session, inputs)); // the graph is there already
        ASSERT_TRUE((*session)->keep_input(0, inputs[0].view()));
        const auto again = (*session)->run(); // another graph is recorded
        ASSERT_TRUE(again) << again.error().describe();
        const auto view = (*session)->output(0);
        ASSERT_TRUE(view) << view.error().describe();
        EXPECT_TRUE(std::equal(view->bytes.begin(), view->bytes.end(), expected->begin()));
    }).join();
    ASSERT_EQ(::unsetenv("LATHE_CUDA_PROVIDERS"), 0);
}

/// Every way of resizing and cropping: the engine gets bit for bit what the CPU would have given it.
TEST_F(CudaDevices, PicturesAreMadeInputsAsOnTheCpu) {
    const Model model = network(residual_network());
    const auto engine = backend().compile(model, options());
    ASSERT_TRUE(engine) << engine.error().describe();
    auto session = (*engine)->make_session();
    ASSERT_TRUE(session) << session.error().describe();
    std::mt19937 generator(3); // NOLINT: the same pictures every time
    std::vector<Image> images;
    for (const auto& [width, height] : {std::pair{50, 40}, {33, 200}, {32, 32}, {17, 9}}) {
        images.emplace_back(static_cast<std::size_t>(width), static_cast<std::size_t>(height));
        for (std::uint8_t& value : images.back().pixels)
            value = static_cast<std::uint8_t>(generator() & 0xFFU);
    }
    for (
        const char* text :
        {R"({"resize":{"short_side":40},"crop":[32,32],"scale":0.0039215686,"mean":[0.5,0.4,0.3],"std":[0.2,0.3,0.4]})",
         R"({"resize":[32,32],"interpolation":"bicubic","color":"BGR","scale":0.01})", R"({"crop":[32,32]})"}) {
        const auto json = parse_json(text, "test");
        const auto preprocess = Preprocess::from_json(*json, "test");
        ASSERT_TRUE(preprocess) << preprocess.error().describe();
        std::vector<HostTensor> inputs;
        inputs.emplace_back("x", DataType::float32, Shape{4, 3, 32, 32});
        for (std::size_t i = 0; i < images.size(); ++i) {
            const std::size_t count = preprocess->output_count();
            ASSERT_TRUE(preprocess->apply(images[i], inputs[0].as<float>().subspan(i * count, count)));
        }
        const auto expected = run(**session, inputs);
        ASSERT_TRUE(expected) << expected.error().describe();
        const auto batch = picture_batch(images, *preprocess);
        ASSERT_TRUE(batch) << batch.error().describe();
        ASSERT_TRUE((*session)->keep_pictures(0, *batch)) << text;
        ASSERT_TRUE((*session)->run());
        const auto view = (*session)->output(0);
        ASSERT_TRUE(view) << view.error().describe();
        EXPECT_TRUE(std::equal(view->bytes.begin(), view->bytes.end(), expected->begin())) << text;
    }
    PictureBatch wrong;
    wrong.height = wrong.width = 32;
    wrong.pictures.resize(1);
    EXPECT_FALSE((*session)->keep_pictures(0, wrong));
    wrong.pictures.resize(9); // more than the engine was built for
    EXPECT_EQ((*session)->keep_pictures(0, wrong).error().code, ErrorCode::out_of_range);
}

TEST_F(CudaDevices, CopiesOverlapWithKernelsOfAnotherSession) {
    const Model model = network(residual_network());
    CompileOptions wide = options();
    wide.shapes["x"] = {{1, 3, 32, 32}, {512, 3, 32, 32}, {512, 3, 32, 32}};
    const auto engine = backend().compile(model, wide);
    ASSERT_TRUE(engine) << engine.error().describe();
    auto inputs = random_inputs(model, {{512, 3, 32, 32}});
    std::vector<std::unique_ptr<BackendSession>> sessions;
    for (int i = 0; i < 2; ++i) {
        auto session = (*engine)->make_session();
        ASSERT_TRUE(session) << session.error().describe();
        ASSERT_TRUE(run(**session, inputs));
        sessions.push_back(std::move(*session));
    }
    // Both are started before either is waited for, and each gives its own right result.
    const auto expected = run(*sessions[0], inputs);
    ASSERT_TRUE(expected);
    for (int round = 0; round < 5; ++round) {
        for (auto& session : sessions) {
            ASSERT_TRUE(session->set_input(0, inputs[0].view()));
            ASSERT_TRUE(session->start());
        }
        for (auto& session : sessions) {
            ASSERT_TRUE(session->wait());
            const auto view = session->output(0);
            ASSERT_TRUE(view) << view.error().describe();
            EXPECT_TRUE(std::equal(view->bytes.begin(), view->bytes.end(), expected->begin()));
        }
    }
}

TEST_F(CudaDevices, MemoryIsToldAndGivenBack) {
    const Model model = network(residual_network());
    const std::size_t before = cuda::memory_account().used(0);
    {
        const auto engine = backend().compile(model, options());
        ASSERT_TRUE(engine) << engine.error().describe();
        auto session = (*engine)->make_session();
        ASSERT_TRUE(session) << session.error().describe();
        auto inputs = random_inputs(model, {{4, 3, 32, 32}});
        ASSERT_TRUE(run(**session, inputs));
        const auto memory = (*engine)->memory();
        ASSERT_TRUE(memory) << memory.error().describe();
        EXPECT_GT(memory->weights, 0U);
        EXPECT_GT(memory->activations, 0U);
        EXPECT_GE(memory->staging, inputs[0].bytes.size());
        EXPECT_GE(memory->peak, memory->weights + memory->activations + memory->workspace);
        EXPECT_GE(cuda::memory_account().used(0) - before, memory->activations + memory->workspace);
    }
    EXPECT_EQ(cuda::memory_account().used(0), before);
}

TEST_F(CudaDevices, AFullGpuIsToldAndLeftAsItWas) {
    const Model model = network(residual_network());
    // Small requests may still fit in a page that the driver holds; those of such a session do not.
    CompileOptions large = options();
    large.shapes["x"].max[0] = 1024;
    const auto engine = backend().compile(model, large);
    ASSERT_TRUE(engine) << engine.error().describe();
    std::vector<void*> taken;
    for (std::size_t piece = std::size_t{16} << 30; piece >= (std::size_t{64} << 10); piece /= 2) {
        void* data = nullptr;
        while (cudaMalloc(&data, piece) == cudaSuccess)
            taken.push_back(data);
        static_cast<void>(cudaGetLastError());
    }
    const auto session = (*engine)->make_session();
    const auto again = backend().compile(model, large);
    for (void* data : taken)
        EXPECT_EQ(cudaFree(data), cudaSuccess);
    ASSERT_FALSE(session) << "nothing was refused on a full GPU";
    for (const Error* error : {session ? nullptr : &session.error(), again ? nullptr : &again.error()}) {
        if (error == nullptr) continue;
        EXPECT_EQ(error->code, ErrorCode::out_of_memory) << error->describe();
        EXPECT_THAT(error->describe(), HasSubstr("MiB are free"));
    }
    auto after = (*engine)->make_session();
    ASSERT_TRUE(after) << after.error().describe();
    auto inputs = random_inputs(model, {{4, 3, 32, 32}});
    EXPECT_TRUE(run(**after, inputs));
}

TEST_F(CudaDevices, StagingMemoryIsUsedAgain) {
    cuda::PinnedPool pool;
    auto first = pool.take(std::size_t{1} << 20, "a test");
    ASSERT_TRUE(first) << first.error().describe();
    const std::byte* const address = first->data();
    pool.give(std::move(*first));
    EXPECT_EQ(pool.kept_bytes(), std::size_t{1} << 20);
    auto other = pool.take(1000, "a test"); // far too large a piece for it
    ASSERT_TRUE(other);
    EXPECT_NE(other->data(), address);
    auto second = pool.take(std::size_t{700} << 10, "a test");
    ASSERT_TRUE(second);
    EXPECT_EQ(second->data(), address);
    EXPECT_EQ(pool.kept_bytes(), 0U);
}

TEST_F(CudaDevices, ItsStateIsSampled) {
    const auto sample = backend().sample(0);
    if (!sample) GTEST_SKIP() << "SKIPPED: NVML is not here";
    EXPECT_TRUE(sample->sm_clock_mhz || sample->temperature_celsius || sample->power_watts);
    EXPECT_GT(sample->memory_total_bytes.value_or(1), sample->memory_used_bytes.value_or(0));
}

} // namespace
} // namespace lathe::test
