#include <cstdlib>
#include <filesystem>
#include <link.h>
#include <set>
#include <span>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/models.hpp"
#include "deploy/backend_folder.hpp"
#include "deploy/text_proto.hpp"
#include "deploy/triton.hpp"
#include "onnx/onnx.hpp"
#include "plan/machines.hpp"
#include "support/files.hpp"
#include "support_lib/command.hpp"
#include "support_lib/places.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(TextProtos, AreIndentedAndEscaped) {
    TextProto out;
    out.comment("why");
    out.text("name", "a \"b\"\\\n\x01 é");
    out.open("message");
    out.numbers("dims", {3, -1});
    out.numbers("none", {});
    out.name("kind", "KIND_CPU");
    out.close();
    out.number("size", -2);
    EXPECT_EQ(out.str(), "# why\nname: \"a \\\"b\\\"\\\\\\n\\001 é\"\nmessage {\n  dims: [3, -1]\n  kind: KIND_CPU\n}\n"
                         "size: -2\n");
}

TritonModel classifier() {
    TritonModel model;
    model.name = "m";
    model.info.inputs = {{"picture", DataType::float32, {{1, 3, 8, 8}, {4, 3, 8, 8}, {16, 3, 8, 8}}}};
    model.info.outputs = {{"scores", DataType::float32, {{-1, 3}, {-1, 3}, {-1, 3}}}};
    model.info.labels = {"ant", "bee", "cat"};
    model.sizing.max_batch = 8;
    model.sizing.preferred = {4, 8};
    model.sizing.max_queue_delay_us = 1500;
    return model;
}

TEST(TritonConfigs, SayWhatIsServedAndHow) {
    TritonModel model = classifier();
    const std::string text = *triton_config(model);
    EXPECT_THAT(text, HasSubstr("max_batch_size: 8\n"));
    EXPECT_THAT(text, HasSubstr("  dims: [3, 8, 8]\n")) << "without the samples";
    EXPECT_THAT(text, HasSubstr("  label_filename: \"labels.txt\"\n"));
    EXPECT_THAT(text, HasSubstr("  preferred_batch_size: [4, 8]\n  max_queue_delay_microseconds: 1500\n"));
    EXPECT_THAT(text, HasSubstr("kind: KIND_CPU"));
    EXPECT_THAT(text, Not(HasSubstr("ENABLE_BATCH_PADDING")));
    model.backend = TritonBackend::openvino;
    EXPECT_THAT(*triton_config(model), HasSubstr("ENABLE_BATCH_PADDING"));
    model.sizing.max_batch = 1;
    EXPECT_THAT(*triton_config(model), Not(HasSubstr("ENABLE_BATCH_PADDING")));
    EXPECT_THAT(*triton_config(model), Not(HasSubstr("dynamic_batching")));
    model.gpu = true;
    EXPECT_THAT(*triton_config(model), HasSubstr("kind: KIND_GPU"));
}

TEST(TritonConfigs, OddShapes) {
    // Of one size: there is no batching, and all sizes are told.
    TritonModel model = classifier();
    model.info.inputs[0].range.min = model.info.inputs[0].range.max;
    EXPECT_FALSE(has_open_batch(model.info));
    EXPECT_THAT(*triton_config(model), HasSubstr("max_batch_size: 0\n"));
    EXPECT_THAT(*triton_config(model), HasSubstr("  dims: [16, 3, 8, 8]\n"));
    // Texts: open lengths, indices that random numbers would exceed; one number a sample out.
    model = classifier();
    model.info.inputs = {{"ids", DataType::int64, {{1, 1}, {8, 64}, {32, 128}}}};
    model.info.outputs = {{"score", DataType::float32, {{-1}, {-1}, {-1}}}};
    const std::string text = *triton_config(model);
    EXPECT_THAT(text, HasSubstr("data_type: TYPE_INT64\n  dims: [-1]\n"));
    EXPECT_THAT(text, HasSubstr("dims: [64]\n      zero_data: true"));
    EXPECT_THAT(text, HasSubstr("dims: [1]\n  reshape {\n  }\n"));
    model.info.inputs[0].type = DataType::int4;
    const auto refused = triton_config(model);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
    EXPECT_EQ(refused.error().where, "ids");
}

/// A graph for classifier(): its scores are the sums of a picture's channels.
std::string channel_sums() {
    const Model model = model_from_text("opset 18\ninput %picture: float32[N, 3, 8, 8]\n"
                                        "const %axes: int64[2] = {2, 3}\n"
                                        "%scores = ReduceSum(%picture, %axes) {keepdims = 0}\n"
                                        "output %scores: float32[N, 3]\n");
    return *serialize_onnx(model);
}

TEST(TritonRepositories, OnnxRuntimeOnAGpuPassesTheSchema) {
    const TemporaryFolder folder;
    TritonModel model = classifier();
    model.gpu = true;
    model.sizing.instances = 2;
    const std::string graph = channel_sums();
    const DeployableEngine engine{"m.engine", model.info, std::as_bytes(std::span(graph)), ""};
    ASSERT_TRUE(write_triton_model(model, engine, "", folder / "repo"));
    EXPECT_THAT(*read_text_file(folder / "repo/m/config.pbtxt"), HasSubstr("count: 2\n  kind: KIND_GPU\n"));
    const char* python = std::getenv("LATHE_PYTHON");
    if (python == nullptr || *python == '\0') GTEST_SKIP() << "SKIPPED: LATHE_PYTHON is not set";
    const CommandResult result =
        run_command("'" + std::string(python) + "' '" + test::source_path("tests/deploy/check_repository.py") + "' '" +
                    (folder / "repo").string() + "'");
    if (result.exit_code == 77) GTEST_SKIP() << result.output;
    EXPECT_EQ(result.exit_code, 0) << result.output << result.errors;
    // The check refuses what Triton's OpenVINO backend cannot do.
    model.name = "wrong";
    model.backend = TritonBackend::openvino;
    ASSERT_TRUE(write_triton_model(model, engine, "", folder / "other"));
    const CommandResult refused =
        run_command("'" + std::string(python) + "' '" + test::source_path("tests/deploy/check_repository.py") + "' '" +
                    (folder / "other").string() + "'");
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_THAT(refused.errors, HasSubstr("runs on the CPU"));
}

TEST(TritonSizings, FollowTheMeasuredCost) {
    // A sample costs 2.5, 1.5, 1, 0.99, 1.2 ms: beyond batches of 4 there is nothing to gain.
    const auto curve = *read_latency_curve(bench_document({{1, 2.5}, {2, 3}, {4, 4}, {8, 7.92}, {16, 19.2}}), "", "");
    const TritonSizing sizing = *size_for(curve, 16, false, std::nullopt);
    EXPECT_EQ(sizing.max_batch, 4);
    EXPECT_EQ(sizing.preferred, (std::vector<std::int64_t>{2, 4}));
    EXPECT_NEAR(static_cast<double>(sizing.max_queue_delay_us), 1250, 15);
    EXPECT_EQ(size_for(curve, 2, false, std::nullopt)->max_batch, 2) << "the engine's limit";

    const ServingGoal goal{{0.99, 30}, 600};
    const TritonSizing planned = *size_for(curve, 16, false, goal);
    EXPECT_GE(planned.max_batch, 2);
    EXPECT_THAT(planned.reason, HasSubstr("p99"));
    // Where batches are filled up, large ones cost what they cost even for one request.
    const ServingGoal quick{{0.99, 8}, 100};
    ASSERT_TRUE(size_for(curve, 16, true, quick));
    EXPECT_LE(size_for(curve, 16, true, quick)->max_batch, 2);
    const auto refused = size_for(curve, 16, false, ServingGoal{{0.99, 3}, 900});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::verification_failed);
    EXPECT_THAT(size_for(curve, 16, false, ServingGoal{{0.99, 300}, 2000}).error().describe(), HasSubstr("--rate"));
}

// Without an objective: the fewest that serve nearly as much as was seen with any number.
TEST(TritonSizings, InstancesFollowTheMeasuredThroughput) {
    struct Case {
        const char* what;
        Json row; ///< of throughput, beside subject and batch; null: none was measured
        std::size_t instances;
        const char* why; ///< in the reason
    };
    const auto trials = [](std::initializer_list<std::pair<int, double>> list) {
        Json row{{"streams", 1}, {"qps", 1000.0}, {"trials", Json::array()}};
        for (const auto& [streams, qps] : list)
            row["trials"].push_back({{"streams", streams}, {"qps", qps}});
        return row;
    };
    // A call of four samples takes 4.04 ms: 247.5 calls a second one after another.
    for (const Case& each :
         {Case{"more streams serve more", trials({{1, 250}, {2, 400}, {4, 480}, {8, 500}}), 4,
               "1920 with 4, 2000 with 8"},
          Case{"they do not", trials({{1, 250}, {2, 255}, {4, 240}}), 1, "1000 with 1"},
          Case{"they are slower", trials({{1, 250}, {2, 200}}), 1, "800 with 2"},
          Case{"older files, gain", Json{{"streams", 2}, {"qps", 450.0}}, 2, ", 1800 with 2"},
          Case{"older files, little gain", Json{{"streams", 2}, {"qps", 255.0}}, 1, "1020 with 2"},
          Case{"two GPUs: instances are those of each",
               Json{{"streams", 4}, {"qps", 1000.0}, {"per_device", {{{"device", 0}}, {{"device", 1}}}}}, 2,
               "2000 with 2"},
          Case{"nothing measured", Json(), 1, "no throughput was measured at batches of 4"}}) {
        Json bench = bench_document({{1, 2.5}, {2, 3}, {4, 4}, {8, 7.92}});
        for (const int batch : {1, 4}) {
            if (each.row.is_null()) continue;
            Json row = each.row;
            row["subject"] = "int8";
            row["batch"] = batch;
            if (batch == 1) row["qps"] = 1.0, row.erase("trials"); // another batch size says nothing of this one
            bench["throughput"].push_back(std::move(row));
        }
        const auto curve = read_latency_curve(bench, "", "");
        ASSERT_TRUE(curve) << each.what;
        const auto sizing = size_for(*curve, 16, false, std::nullopt);
        ASSERT_TRUE(sizing) << each.what;
        EXPECT_EQ(sizing->max_batch, 4) << each.what;
        EXPECT_EQ(sizing->instances, each.instances) << each.what << ": " << sizing->reason;
        EXPECT_EQ(sizing->one_thread_each, each.instances > 1) << each.what;
        EXPECT_THAT(sizing->reason, HasSubstr(each.why)) << each.what;
    }
}

/// Where a library of this process lies.
std::filesystem::path loaded(const std::string& beginning) {
    std::pair<std::string, std::filesystem::path> wanted{beginning, {}};
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* found) {
            auto& [start, path] = *static_cast<std::pair<std::string, std::filesystem::path>*>(found);
            const std::filesystem::path file = info->dlpi_name == nullptr ? "" : info->dlpi_name;
            if (file.filename().string().starts_with(start)) path = file;
            return 0;
        },
        &wanted);
    return wanted.second;
}

/// A program that uses the library has libraries of its own, which the backend does not need.
TEST(CopiedBackends, HaveTheLibrariesThatTheyNeedAndNoOthers) {
    const TemporaryFolder folder;
    std::filesystem::create_directories(folder / "installed" / "lathe");
    const auto backend = folder / "installed" / "lathe" / "libtriton_lathe.so";
    ASSERT_FALSE(loaded("libopenvino.so").empty());
    ASSERT_FALSE(loaded("libprotobuf.so").empty());
    std::filesystem::copy_file(loaded("libprotobuf.so"), backend); // in place of the backend: it needs libz
    ASSERT_TRUE(copy_triton_backend(folder / "installed", folder / "copied", {}));
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "copied" / "lathe"))
        names.insert(entry.path().filename().string());
    EXPECT_EQ(names, (std::set<std::string>{"libtriton_lathe.so", loaded("libz.so").filename().string()}));

    ASSERT_TRUE(write_file(backend, "\177ELF cut off"));
    const auto cut = copy_triton_backend(folder / "installed", folder / "other", {});
    ASSERT_FALSE(cut);
    EXPECT_EQ(cut.error().code, ErrorCode::corrupt);
    EXPECT_FALSE(std::filesystem::exists(folder / "other" / "lathe"));
}

} // namespace
} // namespace lathe::test
