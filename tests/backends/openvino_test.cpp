#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>

#include <sched.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/on_cpu.hpp"
#include "support/machine.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

CompileOptions batches(std::int64_t min, std::int64_t opt, std::int64_t max) {
    CompileOptions options;
    options.shapes["input"] = {{min, 3, 8, 8}, {opt, 3, 8, 8}, {max, 3, 8, 8}};
    return options;
}

void expect_close(const TensorView& scores, const std::vector<float>& expected) {
    ASSERT_EQ(scores.as<float>().size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(scores.as<float>()[i], expected[i], 1e-4F) << i;
}

void run_and_compare(BackendSession& session, const Model& model, std::int64_t batch, std::uint32_t seed) {
    HostTensor input = small_input(batch, seed);
    ASSERT_TRUE(session.set_input(0, input.view()));
    const auto ran = session.run();
    ASSERT_TRUE(ran) << ran.error().describe();
    const auto output = session.output(0);
    ASSERT_TRUE(output);
    EXPECT_EQ(output->shape, (Shape{batch, 5}));
    expect_close(*output, small_network_reference(model, input.as<float>(), static_cast<std::size_t>(batch)));
}

class BatchPlanTest : public testing::TestWithParam<BatchPlan> {};

INSTANTIATE_TEST_SUITE_P(All, BatchPlanTest, testing::Values(BatchPlan::measured, BatchPlan::whole, BatchPlan::pieces));

TEST_P(BatchPlanTest, EveryBatchOfTheRangeGivesTheReferenceResult) {
    const Model model = small_network();
    CompileOptions options = batches(1, 8, 17);
    options.batch_plan = GetParam();
    const auto compiled = cpu().compile(model, options);
    ASSERT_TRUE(compiled) << compiled.error().describe();
    auto session = (*compiled)->make_session();
    ASSERT_TRUE(session);
    for (std::int64_t batch = 17; batch >= 1; --batch)
        run_and_compare(**session, model, batch, static_cast<std::uint32_t>(batch));
}

TEST_P(BatchPlanTest, OutputsAreWrittenToGivenMemory) {
    const Model model = small_network();
    CompileOptions options = batches(8, 8, 8);
    options.batch_plan = GetParam();
    const auto compiled = cpu().compile(model, options);
    ASSERT_TRUE(compiled) << compiled.error().describe();
    auto session = (*compiled)->make_session();
    ASSERT_TRUE(session);
    std::vector<float> first(8 * 5), second(8 * 5);
    ASSERT_TRUE((*session)->set_output(0, std::as_writable_bytes(std::span(first))));
    run_and_compare(**session, model, 8, 1);
    EXPECT_EQ((*session)->output(0)->bytes.data(), reinterpret_cast<std::byte*>(first.data()));
    const std::vector<float> kept = first;
    ASSERT_TRUE((*session)->set_output(0, std::as_writable_bytes(std::span(second))));
    run_and_compare(**session, model, 8, 2);
    EXPECT_EQ(first, kept);
    EXPECT_NE(second, kept);
}

TEST(OpenVino, OutputsOfOneValueAreEachWrittenToTheirMemory) {
    const Model model = model_from_text("opset 18\n"
                                        "input %x: float32[2, 3]\n"
                                        "%a = Relu(%x)\n"
                                        "%b = Identity(%a)\n"
                                        "%c = Add(%a, %b)\n"
                                        "output %a: float32[2, 3]\n"
                                        "output %b: float32[2, 3]\n"
                                        "output %c: float32[2, 3]\n");
    const auto compiled = cpu().compile(model, {});
    ASSERT_TRUE(compiled) << compiled.error().describe();
    auto session = (*compiled)->make_session();
    ASSERT_TRUE(session);
    std::vector<float> values{-1, 2, -3, 4, -5, 6};
    ASSERT_TRUE((*session)->set_input(0, {"x", DataType::float32, {2, 3}, std::as_writable_bytes(std::span(values))}));
    std::vector<std::vector<float>> found(3, std::vector<float>(6, 7.0F));
    for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_TRUE((*session)->set_output(i, std::as_writable_bytes(std::span(found[i]))));
    const auto ran = (*session)->run();
    ASSERT_TRUE(ran) << ran.error().describe();
    EXPECT_EQ(found[0], (std::vector<float>{0, 2, 0, 4, 0, 6}));
    EXPECT_EQ(found[1], found[0]);
    EXPECT_EQ(found[2], (std::vector<float>{0, 4, 0, 8, 0, 12}));
}

TEST(OpenVino, MemoryForAnOutputMustBeAsLargeAsIt) {
    const auto fixed = cpu().compile(small_network(), batches(2, 2, 2));
    ASSERT_TRUE(fixed);
    auto session = (*fixed)->make_session();
    std::vector<float> memory(2 * 5);
    const auto small = (*session)->set_output(0, std::as_writable_bytes(std::span(memory).first(9)));
    ASSERT_FALSE(small);
    EXPECT_THAT(small.error().describe(), HasSubstr("36 bytes were given for an output of shape"));
    EXPECT_FALSE((*session)->set_output(1, std::as_writable_bytes(std::span(memory))));
    const auto varying = cpu().compile(small_network(), batches(1, 2, 2));
    ASSERT_TRUE(varying);
    session = (*varying)->make_session();
    const auto unknown = (*session)->set_output(0, std::as_writable_bytes(std::span(memory)));
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().code, ErrorCode::unsupported);
}

TEST_P(BatchPlanTest, SavedAndLoadedGivesTheSame) {
    const Model model = small_network();
    CompileOptions options = batches(1, 8, 16);
    options.batch_plan = GetParam();
    const auto compiled = cpu().compile(model, options);
    ASSERT_TRUE(compiled);
    const auto chain = (*compiled)->save();
    ASSERT_TRUE(chain);
    const std::string blob = chain->flat();
    const auto loaded = cpu().load(std::as_bytes(std::span(blob)), nullptr, batches(1, 8, 16));
    ASSERT_TRUE(loaded) << loaded.error().describe();
    auto session = (*loaded)->make_session();
    for (const std::int64_t batch : {1, 2, 5, 8, 16})
        run_and_compare(**session, model, batch, 3);
    const auto again = (*loaded)->save();
    ASSERT_TRUE(again);
    EXPECT_EQ((*loaded)->inputs()[0].range.describe(), "1x3x8x8..8x3x8x8..16x3x8x8");
}

TEST_P(BatchPlanTest, ManySessionsOnManyThreads) {
    const Model model = small_network();
    CompileOptions options = batches(1, 4, 8);
    options.batch_plan = GetParam();
    const auto compiled = cpu().compile(model, options);
    ASSERT_TRUE(compiled);
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < 8; ++t) {
        threads.emplace_back([&, t] {
            auto session = (*compiled)->make_session();
            ASSERT_TRUE(session);
            for (std::uint32_t i = 0; i < 20; ++i)
                run_and_compare(**session, model, 1 + (i + t) % 8, t * 100 + i);
        });
    }
    for (auto& thread : threads)
        thread.join();
}

/// How many processors a thread of this process may run on, the fewest of all.
int fewest_processors() {
    int fewest = CPU_SETSIZE;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
        cpu_set_t set;
        CPU_ZERO(&set);
        const int thread = std::stoi(entry.path().filename().string());
        if (sched_getaffinity(thread, sizeof(set), &set) == 0) fewest = std::min(fewest, CPU_COUNT(&set));
    }
    return fewest;
}

// OpenVINO binds a thread that runs an engine to the first core. Engines of one thread each then share it, and leave
// the others idle.
TEST(OpenVino, FewerThreadsThanCoresAreNotBoundToTheFirst) {
    const int all = fewest_processors();
    CompileOptions options = batches(64, 64, 64);
    options.threads = 1;
    const Model model = small_network();
    const auto compiled = cpu().compile(model, options);
    ASSERT_TRUE(compiled);
    auto session = (*compiled)->make_session();
    ASSERT_TRUE(session);
    std::atomic<bool> looked = false;
    std::thread runs([&] {
        for (std::uint32_t i = 0; i < 10 || !looked; ++i)
            run_and_compare(**session, model, 64, i);
    });
    int fewest = all;
    for (int i = 0; i < 300; ++i) {
        fewest = std::min(fewest, fewest_processors());
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    looked = true;
    runs.join();
    EXPECT_EQ(fewest, all);
}

// OpenVINO's own infer() returned as if all were well, with the outputs of the run before, and crashed later.
TEST(OpenVino, WhatFailsWhileRunningIsAnErrorOnAnyNumberOfThreads) {
    const Model model = model_from_text("opset 17\ninput %x: float32[4, 3]\ninput %k: int64[1]\n"
                                        "%y, %i = TopK(%x, %k) {axis = 0}\noutput %y: float32[?, 3]\n");
    for (const std::size_t threads : {1U, 2U}) {
        for (int engine = 0; engine < 4; ++engine) {
            CompileOptions options;
            options.threads = threads;
            const auto compiled = cpu().compile(model, options);
            ASSERT_TRUE(compiled) << compiled.error().describe();
            const auto chain = (*compiled)->save();
            ASSERT_TRUE(chain);
            const std::string blob = chain->flat();
            const auto loaded = cpu().load(std::as_bytes(std::span(blob)), nullptr, options);
            ASSERT_TRUE(loaded) << loaded.error().describe();
            for (const CompiledModel* each : {compiled->get(), loaded->get()}) {
                const auto session = each->make_session();
                HostTensor x("x", DataType::float32, {4, 3}), k("k", DataType::int64, {1});
                for (const std::int64_t count : {2, 0, 3}) {
                    k.as<std::int64_t>()[0] = count;
                    ASSERT_TRUE((*session)->set_input(0, x.view()));
                    ASSERT_TRUE((*session)->set_input(1, k.view()));
                    EXPECT_EQ(static_cast<bool>((*session)->run()), count > 0) << threads << " threads, " << count;
                }
            }
        }
    }
}

// OpenVINO's requests have one tensor for an output that is an input: cut into pieces, or written to memory that was
// given, it stayed as it was.
TEST(OpenVino, InputsThatAreOutputsToo) {
    const Model model = model_from_text("opset 17\ninput %x: float32[N, 3]\ninput %k: int64[N]\n"
                                        "%y = Relu(%x)\n%z = Max(%k)\noutput %y: float32[N, 3]\n"
                                        "output %z: int64[N]\noutput %x: float32[N, 3]\n");
    for (const BatchPlan plan : {BatchPlan::whole, BatchPlan::pieces}) {
        CompileOptions options;
        options.threads = 1;
        options.batch_plan = plan;
        options.shapes = {{"x", {{3, 3}, {3, 3}, {3, 3}}}, {"k", {{3}, {3}, {3}}}};
        const auto compiled = cpu().compile(model, options);
        ASSERT_TRUE(compiled) << compiled.error().describe();
        const auto chain = (*compiled)->save();
        ASSERT_TRUE(chain);
        const std::string blob = chain->flat();
        const auto loaded = cpu().load(std::as_bytes(std::span(blob)), nullptr, options);
        ASSERT_TRUE(loaded) << loaded.error().describe();
        for (const CompiledModel* each : {compiled->get(), loaded->get()}) {
            for (const bool placed : {false, true}) {
                const auto session = each->make_session();
                ASSERT_TRUE(session);
                HostTensor x("x", DataType::float32, {3, 3}), k("k", DataType::int64, {3});
                for (std::size_t i = 0; i < 9; ++i)
                    x.as<float>()[i] = static_cast<float>(i) - 4;
                for (std::size_t i = 0; i < 3; ++i)
                    k.as<std::int64_t>()[i] = (std::int64_t{1} << 60) + static_cast<std::int64_t>(i);
                std::vector<std::byte> kept(24);
                ASSERT_TRUE((*session)->set_input(0, x.view()));
                ASSERT_TRUE((*session)->set_input(1, k.view()));
                if (placed) {
                    ASSERT_TRUE((*session)->set_output(1, kept));
                }
                ASSERT_TRUE((*session)->run());
                const auto z = (*session)->output(1), same = (*session)->output(2);
                ASSERT_TRUE(z);
                ASSERT_TRUE(same);
                EXPECT_TRUE(std::ranges::equal(z->bytes, k.bytes));
                EXPECT_TRUE(std::ranges::equal(same->bytes, x.bytes));
                EXPECT_NE(same->bytes.data(), x.bytes.data()) << "the caller's memory is no answer";
                EXPECT_EQ(z->bytes.data() == kept.data(), placed);
            }
        }
    }
}

TEST(OpenVino, RefusesWhatDoesNotFit) {
    const auto compiled = cpu().compile(small_network(), batches(2, 4, 8));
    ASSERT_TRUE(compiled);
    auto session = (*compiled)->make_session();
    ASSERT_TRUE(session);
    HostTensor small = small_input(1);
    auto refused = (*session)->set_input(0, small.view());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::out_of_range);
    EXPECT_THAT(refused.error().describe(), HasSubstr("1x3x8x8"));
    EXPECT_THAT(refused.error().describe(), HasSubstr("2x3x8x8..4x3x8x8..8x3x8x8"));
    EXPECT_THAT(refused.error().describe(), HasSubstr("input"));
    HostTensor integers("input", DataType::int32, {2, 3, 8, 8});
    EXPECT_EQ((*session)->set_input(0, integers.view()).error().code, ErrorCode::invalid_argument);
    HostTensor fine = small_input(2);
    TensorView cut = fine.view();
    cut.bytes = cut.bytes.first(100);
    EXPECT_EQ((*session)->set_input(0, cut).error().code, ErrorCode::invalid_argument);
    EXPECT_FALSE((*session)->run()) << "input never set";
    EXPECT_FALSE((*session)->output(0));
}

TEST(OpenVino, MixedSamplesRunWholeAndRight) {
    // The mean over the batch must see all samples: cut in pieces the result would be wrong.
    Model model =
        model_from_text("opset 18\ninput %x: float32[N, 4]\nconst %a: int64[1] = {0}\n"
                        "%m = ReduceMean(%x, %a) {keepdims = 1}\n%y = Sub(%x, %m)\noutput %y: float32[N, 4]\n");
    CompileOptions options;
    options.shapes["x"] = {{1, 4}, {8, 4}, {16, 4}};
    options.batch_plan = BatchPlan::pieces;
    const auto compiled = cpu().compile(model, options);
    ASSERT_TRUE(compiled) << compiled.error().describe();
    auto session = (*compiled)->make_session();
    for (const std::int64_t batch : {16, 7, 8, 1}) {
        HostTensor x("x", DataType::float32, {batch, 4});
        for (std::size_t i = 0; i < x.as<float>().size(); ++i)
            x.as<float>()[i] = static_cast<float>(i / 4);
        ASSERT_TRUE((*session)->set_input(0, x.view()));
        ASSERT_TRUE((*session)->run());
        const auto y = (*session)->output(0);
        EXPECT_NEAR(y->as<float>()[0], -static_cast<float>(batch - 1) / 2.0F, 1e-5F) << batch;
    }
}

/// Both sizes open, as a text's are.
Model open_lengths() {
    return model_from_text(
        "opset 18\ninput %x: float32[N, L]\n%y = Softmax(%x) {axis = -1}\noutput %y: float32[N, L]\n");
}

void expect_softmax(BackendSession& session, std::int64_t batch, std::int64_t length) {
    HostTensor x("x", DataType::float32, {batch, length});
    for (std::int64_t i = 0; i < batch * length; ++i)
        x.as<float>()[static_cast<std::size_t>(i)] = static_cast<float>(i % length);
    ASSERT_TRUE(session.set_input(0, x.view()));
    const auto ran = session.run();
    ASSERT_TRUE(ran) << ran.error().describe();
    const auto y = session.output(0);
    EXPECT_EQ(y->shape, (Shape{batch, length}));
    // A geometric series: the largest of n is (1 - 1/e) / (1 - e^-n).
    const double largest = (1 - std::exp(-1.0)) / (1 - std::exp(-static_cast<double>(length)));
    for (std::int64_t row = 1; row <= batch; ++row)
        EXPECT_NEAR(y->as<float>()[static_cast<std::size_t>(row * length - 1)], largest, 1e-5) << length;
}

TEST(OpenVino, FurtherShapesGetFormsOfTheirOwn) {
    CompileOptions options;
    options.shapes["x"] = {{1, 1}, {2, 8}, {4, 32}};
    const auto exactly = [](const Shape& shape) {
        return std::map<std::string, ShapeRange>{{"x", {shape, shape, shape}}};
    };
    options.more_profiles = {exactly({1, 5}), exactly({2, 8})}; // the second has one already
    const auto compiled = cpu().compile(open_lengths(), options);
    ASSERT_TRUE(compiled) << compiled.error().describe();
    const auto chain = (*compiled)->save();
    ASSERT_TRUE(chain);
    const std::string blob = chain->flat();
    const std::string header = blob.substr(0, blob.find("PK")); // JSON in front, with every form's shapes
    for (const char* shapes : {"[[1,5]]", "[[2,8]]", "[[1,1]]", "[[4,32]]", "[]"})
        EXPECT_THAT(header, HasSubstr("\"shapes\":" + std::string(shapes)));
    const std::string twice = "\"shapes\":[[2,8]]";
    EXPECT_EQ(header.find(twice), header.rfind(twice));
    const auto loaded = cpu().load(std::as_bytes(std::span(blob)), nullptr, options);
    ASSERT_TRUE(loaded) << loaded.error().describe();
    for (const auto* model : {&*compiled, &*loaded}) {
        auto session = (*model)->make_session();
        ASSERT_TRUE(session);
        for (const auto& [batch, length] : {std::pair{1, 5}, {1, 6}, {2, 5}, {1, 5}, {2, 8}, {4, 32}})
            expect_softmax(**session, batch, length);
    }

    options.more_profiles = {{{"x", {{1, 4}, {1, 5}, {1, 6}}}}};
    EXPECT_THAT(cpu().compile(open_lengths(), options).error().describe(), HasSubstr("is not one shape"));
    options.more_profiles = {exactly({1, 33})};
    EXPECT_THAT(cpu().compile(open_lengths(), options).error().describe(), HasSubstr("outside the first range"));
}

TEST(OpenVino, LayersNameTheirOnnxNodesAndPrecision) {
    auto compiled = cpu().compile_profiled(small_network(), batches(2, 2, 2));
    ASSERT_TRUE(compiled);
    const auto layers = (*compiled)->layers();
    ASSERT_TRUE(layers);
    const auto conv = std::find_if(layers->begin(), layers->end(),
                                   [](const LayerInfo& layer) { return layer.type == "Convolution"; });
    ASSERT_NE(conv, layers->end());
    EXPECT_EQ(conv->precision, "fp32");
    EXPECT_FALSE(conv->nodes.empty());
    auto session = (*compiled)->make_session();
    HostTensor input = small_input(2);
    ASSERT_TRUE((*session)->set_input(0, input.view()));
    EXPECT_FALSE((*session)->profile()) << "nothing ran yet";
    ASSERT_TRUE((*session)->run());
    const auto profile = (*session)->profile();
    ASSERT_TRUE(profile);
    double total = 0;
    for (const auto& layer : *profile)
        total += layer.milliseconds;
    EXPECT_GT(total, 0.0);
}

TEST(OpenVino, PrecisionIsNeverSilentlyAnother) {
    CompileOptions options = batches(1, 1, 1);
    options.precision = Precision::int8;
    const auto unquantized = cpu().compile(small_network(), options);
    ASSERT_FALSE(unquantized);
    EXPECT_THAT(unquantized.error().describe(), HasSubstr("lathe quantize"));
    const Machine machine = this_machine();
    options.precision = Precision::float16;
    const auto half = cpu().compile(small_network(), options);
    const bool has_half = machine.has_flag("avx512_fp16") || machine.has_flag("amx_fp16");
    EXPECT_EQ(half.has_value(), has_half) << (half ? "" : half.error().describe());
    if (!half) {
        EXPECT_THAT(half.error().describe(), HasSubstr("avx512_fp16"));
    }
}

TEST(OpenVino, OperationsItLacksAreNamed) {
    Model model = model_from_text("opset 18\ninput %x: float32[2]\n%y = Relu(%x)\noutput %y: float32[2]\n");
    EXPECT_TRUE(cpu().supports(*model.graph.nodes[0], model).supported);
    model.graph.nodes[0]->op_type = "NoSuchOperation";
    const Support support = cpu().supports(*model.graph.nodes[0], model);
    EXPECT_FALSE(support.supported);
    EXPECT_THAT(support.reason, HasSubstr("NoSuchOperation"));
    const auto compiled = cpu().compile(model, {});
    ASSERT_FALSE(compiled);
    EXPECT_THAT(compiled.error().describe(), HasSubstr("NoSuchOperation"));
}

TEST(OpenVino, DamagedBlobsAreErrors) {
    const auto compiled = cpu().compile(small_network(), batches(1, 1, 1));
    const auto chain = (*compiled)->save();
    ASSERT_TRUE(chain);
    const std::string blob = chain->flat();
    for (const std::size_t length : {std::size_t{0}, std::size_t{3}, std::size_t{8}, std::size_t{100}}) {
        const auto cut = std::as_bytes(std::span(blob)).first(length);
        EXPECT_FALSE(cpu().load(cut, nullptr, batches(1, 1, 1))) << length;
    }
}

TEST(Backends, AbsentOnesSayWhyAndWhatToDo) {
    for (const char* device : {"cuda", "tensorrt"}) {
        const auto backend = backend_for_device(device);
        if (backend) {
            EXPECT_TRUE((*backend)->availability().available) << device;
            continue;
        }
        EXPECT_EQ(backend.error().code, ErrorCode::unsupported);
        EXPECT_FALSE(backend.error().hint.empty());
    }
    const auto unknown = backend_for_device("no-such-device");
    ASSERT_FALSE(unknown);
    EXPECT_THAT(unknown.error().describe(), HasSubstr("cpu, cuda, tensorrt"));
}

/// small_network with an input that nothing reads, between the two that matter.
Model network_with_unread_input() {
    Model model = small_network();
    ValueInfo mask;
    mask.name = "mask";
    mask.type = DataType::int64;
    mask.dims = {Dimension::named("N"), Dimension::of(7)};
    model.graph.inputs.insert(model.graph.inputs.begin(), mask);
    return model;
}

TEST_P(BatchPlanTest, InputsThatNothingReadStayInputs) {
    const Model model = network_with_unread_input();
    CompileOptions options = batches(1, 8, 17);
    options.shapes["mask"] = {{1, 7}, {8, 7}, {17, 7}};
    options.batch_plan = GetParam();
    const auto compiled = cpu().compile(model, options);
    ASSERT_TRUE(compiled) << compiled.error().describe();
    const auto chain = (*compiled)->save();
    ASSERT_TRUE(chain);
    const std::string blob = chain->flat();
    const auto loaded = cpu().load(std::as_bytes(std::span(blob)), nullptr, options);
    ASSERT_TRUE(loaded) << loaded.error().describe();
    for (const CompiledModel* each : {compiled->get(), loaded->get()}) {
        ASSERT_EQ(each->inputs().size(), 2U);
        EXPECT_EQ(each->inputs()[0].name, "mask");
        auto session = each->make_session();
        ASSERT_TRUE(session);
        for (const std::int64_t batch : {1, 5, 17}) {
            HostTensor mask("mask", DataType::int64, {batch, 7});
            HostTensor input = small_input(batch, 3);
            ASSERT_TRUE((*session)->set_input(1, input.view()));
            if (batch == 1) {
                EXPECT_FALSE((*session)->run()) << "it is an input all the same";
            }
            ASSERT_TRUE((*session)->set_input(0, mask.view()));
            HostTensor wrong("mask", DataType::int64, {batch, 8});
            EXPECT_FALSE((*session)->set_input(0, wrong.view()));
            const auto ran = (*session)->run();
            ASSERT_TRUE(ran) << ran.error().describe();
            const auto output = (*session)->output(0);
            ASSERT_TRUE(output);
            expect_close(*output, small_network_reference(model, input.as<float>(), static_cast<std::size_t>(batch)));
        }
    }
}

TEST(OpenVino, ConstantsWithoutElementsKeepTheirShape) {
    // OpenVINO's own reader takes %empty for a scalar and refuses the Concat.
    const Model model = model_from_text("opset 18\n"
                                        "input %x: float32[2, 4, 8]\n"
                                        "const %empty: float32[2, 4, 0] = {}\n"
                                        "%y = Concat(%empty, %x) {axis = 2}\n"
                                        "output %y: float32[2, 4, 8]\n");
    const auto compiled = cpu().compile(model, {});
    ASSERT_TRUE(compiled) << compiled.error().describe();
    const auto session = (*compiled)->make_session();
    ASSERT_TRUE(session);
    HostTensor x("x", DataType::float32, {2, 4, 8});
    x.as<float>()[9] = 3.0F;
    ASSERT_TRUE((*session)->set_input(0, x.view()));
    ASSERT_TRUE((*session)->run());
    const auto y = (*session)->output(0);
    ASSERT_TRUE(y);
    EXPECT_EQ(y->shape, x.shape);
    EXPECT_EQ(y->as<float>()[9], 3.0F);
}

/// Keeps what is shown, a tensor an entry.
ActivationSource::Observer keep_in(std::vector<std::vector<float>>& seen) {
    return [&seen](std::size_t tensor, std::span<const float> values, const Shape& /*shape*/) {
        seen.at(tensor).assign(values.begin(), values.end());
    };
}

TEST(ActivationSource, InputsThatNothingReadAreAccepted) {
    const Model model = network_with_unread_input();
    auto source = cpu().observe(model, {"input", "relu"}, 1);
    ASSERT_TRUE(source) << source.error().describe();
    HostTensor mask("mask", DataType::int64, {2, 7});
    HostTensor input = small_input(2, 1);
    const std::vector<TensorView> given{mask.view(), input.view()};
    std::vector<std::vector<float>> seen(2);
    const auto ran = (*source)->run(0, given, keep_in(seen));
    ASSERT_TRUE(ran) << ran.error().describe();
    EXPECT_EQ(seen[1].size(), 2U * 4 * 8 * 8);
}

TEST(ActivationSource, ShowsInputsAndInnerTensors) {
    const Model model = small_network();
    auto source = cpu().observe(model, {"input", "relu", "scores", "conv"}, 0);
    ASSERT_TRUE(source) << source.error().describe();
    for (const std::size_t lanes : {1, 2}) {
        const std::size_t granted = (*source)->set_lanes(lanes);
        ASSERT_GE(granted, 1U);
        ASSERT_LE(granted, lanes);
        for (const std::int64_t batch : {4, 1, 3, 4}) {
            for (std::size_t lane = 0; lane < granted; ++lane) {
                HostTensor input = small_input(batch, static_cast<std::uint32_t>(batch));
                TensorView view = input.view();
                std::vector<std::vector<float>> seen(4);
                const auto ran = (*source)->run(lane, {&view, 1}, keep_in(seen));
                ASSERT_TRUE(ran) << ran.error().describe();
                EXPECT_TRUE(std::ranges::equal(seen[0], input.as<float>()));
                ASSERT_EQ(seen[1].size(), static_cast<std::size_t>(batch) * 4 * 8 * 8);
                ASSERT_EQ(seen[3].size(), seen[1].size());
                for (std::size_t i = 0; i < seen[1].size(); ++i)
                    ASSERT_EQ(seen[1][i], std::max(0.0F, seen[3][i]));
                const Shape shape{batch, static_cast<std::int64_t>(seen[2].size()) / batch};
                const TensorView scores{"scores", DataType::float32, shape, std::as_writable_bytes(std::span(seen[2]))};
                const auto samples = static_cast<std::size_t>(batch);
                expect_close(scores, small_network_reference(model, input.as<float>(), samples));
            }
        }
    }
    const auto whole_numbers = cpu().observe(network_with_unread_input(), {"mask"}, 1);
    ASSERT_TRUE(whole_numbers);
    HostTensor mask("mask", DataType::int64, {2, 7});
    HostTensor input = small_input(2, 1);
    const std::vector<TensorView> given{mask.view(), input.view()};
    std::vector<std::vector<float>> seen(1);
    const auto refused = (*whole_numbers)->run(0, given, keep_in(seen));
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("not float32"), std::string::npos) << refused.error().message;
    const auto missing = cpu().observe(model, {"nothing"}, 0);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ErrorCode::not_found);
}

TEST(ActivationSource, SequencesOfAnyLength) {
    const Model model = model_from_text("opset 18\n"
                                        "input %x: float32[batch, sequence]\n"
                                        "%y = Add(%x, %x)\n"
                                        "%z = Relu(%y)\n"
                                        "output %z: float32[batch, sequence]\n");
    auto source = cpu().observe(model, {"x", "z"}, 2);
    ASSERT_TRUE(source) << source.error().describe();
    const std::size_t lanes = (*source)->set_lanes(2);
    std::uint32_t seed = 1;
    for (const std::int64_t length : {3, 9, 1, 40, 5, 3, 17, 9}) {
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            HostTensor x("x", DataType::float32, {2, length});
            const auto values = noise(static_cast<std::size_t>(2 * length), seed++);
            std::ranges::copy(values, x.as<float>().begin());
            const TensorView view = x.view();
            std::vector<std::vector<float>> seen(2);
            const auto ran = (*source)->run(lane, {&view, 1}, keep_in(seen));
            ASSERT_TRUE(ran) << ran.error().describe();
            EXPECT_EQ(seen[0], values);
            ASSERT_EQ(seen[1].size(), values.size());
            for (std::size_t i = 0; i < values.size(); ++i)
                ASSERT_EQ(seen[1][i], std::max(0.0F, 2 * values[i]));
        }
    }
}

TEST(ActivationSource, LanesRunSideBySide) {
    const Model model = small_network();
    auto source = cpu().observe(model, {"relu", "scores"}, 2);
    ASSERT_TRUE(source) << source.error().describe();
    constexpr std::size_t inputs = 40;
    const auto seen_by = [&](std::size_t lane, std::size_t i) {
        HostTensor input = small_input(1 + static_cast<std::int64_t>(i % 3), static_cast<std::uint32_t>(i));
        TensorView view = input.view();
        std::vector<std::vector<float>> seen(2);
        const auto ran = (*source)->run(lane, {&view, 1}, keep_in(seen));
        EXPECT_TRUE(ran) << ran.error().describe();
        return seen;
    };
    std::vector<std::vector<std::vector<float>>> alone(inputs);
    for (std::size_t i = 0; i < inputs; ++i)
        alone[i] = seen_by(0, i);
    ASSERT_EQ((*source)->set_lanes(2), 2U);
    std::vector<std::vector<std::vector<float>>> beside(inputs);
    const auto every_other = [&](std::size_t lane) {
        for (std::size_t i = lane; i < inputs; i += 2)
            beside[i] = seen_by(lane, i);
    };
    std::thread other(every_other, 1);
    every_other(0);
    other.join();
    for (std::size_t i = 0; i < inputs; ++i) {
        for (std::size_t t = 0; t < 2; ++t) {
            ASSERT_EQ(beside[i][t].size(), alone[i][t].size());
            for (std::size_t k = 0; k < alone[i][t].size(); ++k)
                ASSERT_NEAR(beside[i][t][k], alone[i][t][k], 1e-4F) << "input " << i << ", tensor " << t;
        }
    }
}

} // namespace
} // namespace lathe::test
