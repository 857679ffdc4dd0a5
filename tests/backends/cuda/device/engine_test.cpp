// The whole engine on a GPU, against the plan's interpreter on the CPU. Skipped, with the cause, where there is none.
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include <cuda_runtime_api.h>

#include "backends/cuda/cuda_backend.hpp"
#include "backends/cuda/device/cuda.hpp"
#include "backends/cuda/plan/networks.hpp"

namespace lathe::test {
namespace {

const Backend& backend() {
    static const std::unique_ptr<Backend> made = make_cuda_backend();
    return *made;
}

TEST(CudaBackend, SaysWhyThereIsNone) {
    const Availability state = backend().availability();
    if (state.available) GTEST_SKIP() << "SKIPPED: there is a GPU here";
    EXPECT_FALSE(state.cause.empty());
    EXPECT_FALSE(state.cure.empty());
    const auto compiled = backend().compile(network(residual_network()), {});
    ASSERT_FALSE(compiled);
    EXPECT_EQ(compiled.error().code, ErrorCode::unsupported);
    EXPECT_EQ(compiled.error().message, state.cause);
}

struct Case {
    std::string name, text;
    Precision precision;
    double limit; ///< relative to the interpreter
    std::int64_t side = 32, channels = 3;
};

/// GoogleTest names a parameter by this.
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class CudaEngine : public testing::TestWithParam<Case> {
protected:
    void SetUp() override {
        const Availability state = backend().availability();
        if (!state.available) GTEST_SKIP() << "SKIPPED: " << state.cause;
    }

    static Shape input(std::int64_t batch) { return {batch, GetParam().channels, GetParam().side, GetParam().side}; }

    static CompileOptions options() {
        CompileOptions options;
        options.precision = GetParam().precision;
        options.shapes["x"] = {input(1), input(2), input(4)};
        options.tune = TuneEffort::fast;
        options.allow_fallback = true;
        options.timing_cache = std::filesystem::path(testing::TempDir()) / "cuda-engine-test-timings.json";
        return options;
    }

    /// The case's model, compiled, with a session.
    struct Ready {
        Model model = network(GetParam().text);
        std::unique_ptr<CompiledModel> engine;
        std::unique_ptr<BackendSession> session;

        Ready() {
            auto made = backend().compile(model, options());
            if (!made) throw std::runtime_error(made.error().describe());
            engine = std::move(*made);
            auto opened = engine->make_session();
            if (!opened) throw std::runtime_error(opened.error().describe());
            session = std::move(*opened);
        }
    };
};

std::vector<Case> cases() {
    return {{"ResidualFp32", residual_network(), Precision::float32, 1e-4},
            {"ResidualTf32", residual_network(), Precision::tensor_float32, 5e-3},
            {"ResidualFp16", residual_network(), Precision::float16, 5e-3},
            {"ResidualBf16", residual_network(), Precision::bfloat16, 4e-2},
            {"DepthwiseFp32", depthwise_network(), Precision::float32, 1e-4, 24},
            {"DepthwiseTf32", depthwise_network(), Precision::tensor_float32, 5e-3, 24},
            {"DepthwiseBf16", depthwise_network(), Precision::bfloat16, 4e-2, 24},
            {"DepthwiseFp16", depthwise_network(), Precision::float16, 5e-3, 24},
            {"PartedFp32", parted_network(), Precision::float32, 1e-4, 16},
            {"PartedFp16", parted_network(), Precision::float16, 5e-3, 16},
            {"PartedBf16", parted_network(), Precision::bfloat16, 4e-2, 16},
            {"QuantisedInt8", quantised_network(), Precision::int8, 3e-2},
            {"BottlenecksInt8", bottleneck_network(), Precision::int8, 3e-2, 20, 64}};
}
INSTANTIATE_TEST_SUITE_P(All, CudaEngine, testing::ValuesIn(cases()), [](const auto& info) { return info.param.name; });

std::vector<HostTensor> run(BackendSession& session, const CompiledModel& model, std::vector<HostTensor>& inputs) {
    const auto must = [](auto result) {
        if (!result) throw std::runtime_error(result.error().describe());
        return result;
    };
    for (std::size_t i = 0; i < inputs.size(); ++i)
        static_cast<void>(must(session.set_input(i, inputs[i].view())));
    static_cast<void>(must(session.run()));
    std::vector<HostTensor> outputs;
    for (std::size_t i = 0; i < model.outputs().size(); ++i) {
        const TensorView view = *must(session.output(i));
        HostTensor tensor(view.name, view.type, view.shape);
        std::copy(view.bytes.begin(), view.bytes.end(), tensor.bytes.begin());
        outputs.push_back(std::move(tensor));
    }
    return outputs;
}

TEST_P(CudaEngine, AgreesWithTheInterpreter) {
    const auto [model, engine, session] = Ready();
    // 3 was not tuned for.
    for (const std::int64_t batch : {2, 1, 4, 3, 2}) {
        const std::vector<Shape> shapes{input(batch)};
        auto inputs = random_inputs(model, shapes);
        const auto expected = interpreted(plan_of(model, GetParam().precision, shapes), inputs, true);
        const auto actual = run(*session, *engine, inputs);
        ASSERT_EQ(actual.size(), expected.size());
        for (std::size_t i = 0; i < actual.size(); ++i)
            EXPECT_LE(relative_difference(expected[i], actual[i]), GetParam().limit) << "batch " << batch;
    }
}

TEST_P(CudaEngine, IsCheckedAsAWhole) {
    const Model model = network(GetParam().text);
    auto asked = options();
    asked.timing_cache = std::filesystem::path(testing::TempDir()) / "cuda-engine-test-checks.json";
    std::filesystem::remove(asked.timing_cache);
    const auto checked = backend().compile(model, asked);
    ASSERT_TRUE(checked) << checked.error().describe();
    const auto report = (*checked)->report();
    ASSERT_TRUE(report) << report.error().describe();
    EXPECT_GT(report->check_seconds, 0);
    const auto runs = std::ranges::count_if(report->ops, [](const auto& op) {
        return std::ranges::any_of(op.candidates,
                                   [](const auto& each) { return each.chosen && each.tactic != "apart"; });
    });
    EXPECT_EQ(report->checked_operations, static_cast<std::size_t>(runs)) << "every operation at every tuned shape";
    for (const std::string& note : report->check_notes)
        ADD_FAILURE() << note;
    EXPECT_EQ(report->checked_before, 0U);
    const auto again = backend().compile(model, asked);
    ASSERT_TRUE(again) << again.error().describe();
    const auto known = (*again)->report();
    ASSERT_TRUE(known) << known.error().describe();
    EXPECT_EQ(known->checked_operations, report->checked_operations);
    EXPECT_EQ(known->checked_before, report->checked_operations) << "the same kernels, unless timings are within 1 %";
    asked.check = false;
    const auto unchecked = backend().compile(model, asked);
    ASSERT_TRUE(unchecked) << unchecked.error().describe();
    const auto other = (*unchecked)->report();
    ASSERT_TRUE(other) << other.error().describe();
    EXPECT_EQ(other->checked_operations, 0U);
}

TEST(CudaBackend, SaysThatOutputsPassFloat16) {
    if (const Availability state = backend().availability(); !state.available)
        GTEST_SKIP() << "SKIPPED: " << state.cause;
    const Model model = network("opset 18\ninput %x: float32[N, 8, 16, 16]\ninput %w_a: float32[8, 8, 1, 1]\n"
                                "%x2 = Mul(%x, %x)\n%x4 = Mul(%x2, %x2)\n%x8 = Mul(%x4, %x4)\n%x16 = Mul(%x8, %x8)\n"
                                "%x32 = Mul(%x16, %x16)\n%y = Conv(%x32, %w_a)\noutput %y: float32[N, 8, 16, 16]\n");
    CompileOptions options;
    const Shape one{1, 8, 16, 16};
    options.shapes["x"] = {one, one, one};
    options.tune = TuneEffort::fast;
    options.timing_cache = std::filesystem::path(testing::TempDir()) / "cuda-engine-test-overflow.json";
    for (const Precision precision : {Precision::float16, Precision::float16, Precision::bfloat16}) {
        options.precision = precision;
        const auto made = backend().compile(model, options);
        ASSERT_TRUE(made) << made.error().describe();
        const auto report = (*made)->report();
        ASSERT_TRUE(report) << report.error().describe();
        if (precision == Precision::bfloat16) {
            EXPECT_TRUE(report->check_notes.empty()) << report->check_notes.front();
            continue;
        }
        ASSERT_EQ(report->check_notes.size(), 1U) << "each time, known kernels or not";
        EXPECT_NE(report->check_notes.front().find("--precision bf16"), std::string::npos);
    }
}

TEST_P(CudaEngine, GivesTheSameAfterSavingAndLoading) {
    const auto [model, engine, first] = Ready();
    auto inputs = random_inputs(model, {input(3)});
    const auto expected = run(*first, *engine, inputs);
    auto blob = engine->save();
    ASSERT_TRUE(blob) << blob.error().describe();
    const auto kept = std::make_shared<const std::string>(blob->flat());
    auto loaded = backend().load(std::as_bytes(std::span(*kept)), kept, options());
    ASSERT_TRUE(loaded) << loaded.error().describe();
    auto second = (*loaded)->make_session();
    ASSERT_TRUE(second) << second.error().describe();
    const auto actual = run(**second, **loaded, inputs);
    for (std::size_t i = 0; i < actual.size(); ++i)
        EXPECT_EQ(actual[i].bytes, expected[i].bytes);
}

TEST_P(CudaEngine, TellsTimesAndLayers) {
    const auto [model, engine, made] = Ready();
    BackendSession& session = *made;
    auto inputs = random_inputs(model, {input(2)});
    const auto plain = run(session, *engine, inputs);
    ASSERT_TRUE(session.set_timing(true));
    const auto timed = run(session, *engine, inputs);
    const auto times = session.times();
    ASSERT_TRUE(times) << times.error().describe();
    EXPECT_GT(times->compute_ms, 0);
    EXPECT_GT(times->enqueue_us, 0);
    const auto overhead = session.host_overhead_us();
    ASSERT_TRUE(overhead) << overhead.error().describe();
    EXPECT_GT(*overhead, 0);
    EXPECT_LT(*overhead, times->enqueue_us);
    EXPECT_EQ(plain[0].bytes, timed[0].bytes);
    const auto layers = session.profile();
    ASSERT_TRUE(layers) << layers.error().describe();
    EXPECT_FALSE(layers->empty());
    for (const LayerInfo& layer : *layers)
        EXPECT_GT(layer.milliseconds, 0) << layer.name;
    ASSERT_TRUE(session.set_timing(false));
    EXPECT_EQ(run(session, *engine, inputs)[0].bytes, plain[0].bytes);
}

TEST_P(CudaEngine, SessionsServeSideBySide) {
    const Ready ready;
    const CompiledModel& engine = *ready.engine;
    auto inputs = random_inputs(ready.model, {input(4)});
    const auto expected = run(*ready.session, engine, inputs);
    std::vector<std::jthread> threads;
    std::atomic<int> wrong = 0;
    for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&] {
            auto session = engine.make_session();
            auto own = inputs;
            for (int i = 0; session && i < 20; ++i)
                wrong += run(**session, engine, own)[0].bytes == expected[0].bytes ? 0 : 1;
            wrong += session ? 0 : 100;
        });
    }
    threads.clear();
    EXPECT_EQ(wrong, 0);
}

TEST_P(CudaEngine, ReadsAndGivesDeviceMemory) {
    const auto [model, engine, made] = Ready();
    BackendSession& session = *made;
    auto inputs = random_inputs(model, {input(2)});
    const auto expected = run(session, *engine, inputs);
    auto memory = cuda::DeviceMemory::allocate(inputs[0].bytes.size(), "a test");
    ASSERT_TRUE(memory) << memory.error().describe();
    ASSERT_EQ(cudaMemcpy(memory->data(), inputs[0].bytes.data(), inputs[0].bytes.size(), cudaMemcpyHostToDevice),
              cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess); // a copy from pageable memory may return too early
    ASSERT_TRUE(session.set_device_input(0, {memory->data(), inputs[0].type, inputs[0].shape, 0}));
    ASSERT_TRUE(session.start());
    ASSERT_TRUE(session.wait());
    const auto output = session.device_output(0);
    ASSERT_TRUE(output) << output.error().describe();
    HostTensor actual("y", output->type, output->shape);
    ASSERT_EQ(cudaMemcpy(actual.bytes.data(), output->data, actual.bytes.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(actual.bytes, expected[0].bytes);
}

TEST_P(CudaEngine, RefusesWhatItWasNotBuiltFor) {
    const auto [model, engine, session] = Ready();
    auto inputs = random_inputs(model, {input(5)});
    const auto set = session->set_input(0, inputs[0].view());
    ASSERT_FALSE(set);
    EXPECT_EQ(set.error().code, ErrorCode::out_of_range);
    EXPECT_FALSE(session->run());
    EXPECT_FALSE(session->output(0));
}

} // namespace
} // namespace lathe::test
