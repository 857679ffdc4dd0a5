// `lathe autocast`, end to end on a tiny classifier.
#include "cli/workspace.hpp"
#include "support/machine.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

TEST(Autocast, HelpSaysWhoHonoursTheCasts) {
    const std::string help = Workspace().good("autocast --help").output;
    for (const char* words : {"tensorrt", "avx512_fp16", "cuda"})
        EXPECT_THAT(help, HasSubstr(words));
}

/// What the help says of BF16 on the CPU: the result is that of BF16, not of FP32.
TEST(Autocast, TheCpuComputesBf16AsWritten) {
    const Machine machine = this_machine();
    if (!machine.has_flag("avx512_bf16") && !machine.has_flag("amx_bf16")) GTEST_SKIP() << "SKIPPED: no BF16 here";
    const Workspace work;
    work.good("simplify m.onnx --output s.onnx");
    work.good("autocast s.onnx --data arrays.npy --ranges s.ranges --to bf16 --output bf16.onnx");
    work.good("build s.onnx -o s.engine --precision fp32");
    work.good("build bf16.onnx -o bf16.engine --precision fp32");
    const Json eval = work.good_json("eval bf16.engine --reference s.engine --data arrays.npy");
    const double sqnr = eval["subjects"][1]["vs_reference"]["sqnr_db"].get<double>();
    EXPECT_GT(sqnr, 30) << "BF16 has 8 bits";
    EXPECT_LT(sqnr, 65) << "FP32 has 24";
}

TEST(Autocast, CastsAPlainModelAndSaysSo) {
    const Workspace work;
    work.good("simplify m.onnx --output s.onnx");
    const Json document = work.good_json("autocast s.onnx --data arrays.npy --ranges s.ranges --output half.onnx");
    EXPECT_EQ(document["kind"], "autocast");
    EXPECT_EQ(document["fp32_nodes"], 0);
    EXPECT_EQ(document["added_casts"], 2);
    EXPECT_EQ(document["io_type"], "float32");
    EXPECT_TRUE(document["overflow"]["tensors"].empty());
    for (const Json& decision : document["decisions"])
        EXPECT_TRUE(decision["cast"].get<bool>()) << decision.dump();

    // What is written is sound, keeps its edges, and computes nearly the same.
    const auto cast = load_onnx(work.path("half.onnx"));
    ASSERT_TRUE(cast) << cast.error().describe();
    EXPECT_EQ(cast->graph.inputs[0].type, DataType::float32);
    EXPECT_EQ(cast->graph.outputs[0].type, DataType::float32);
    EXPECT_TRUE(check_onnx(*cast, {.full = true}));
    work.good("build s.onnx -o s.engine --precision fp32");
    const CommandResult built = work.good("build half.onnx -o half.engine --precision fp32");
    if (const Machine machine = this_machine(); !machine.has_flag("avx512_fp16") && !machine.has_flag("amx_fp16")) {
        EXPECT_THAT(built.errors, HasSubstr("no FP16"));
    }
    const Json eval = work.good_json("eval half.engine --reference s.engine --data arrays.npy");
    EXPECT_LT(eval["subjects"][1]["vs_reference"]["max_abs_error"].get<double>(), 0.02);

    // The ranges are reused, without the data too.
    const CommandResult again = work.lathe("autocast s.onnx --data arrays.npy --ranges s.ranges --explain");
    EXPECT_EQ(again.exit_code, 0) << again.errors;
    EXPECT_THAT(again.output, HasSubstr("Reusing"));
    EXPECT_THAT(again.output, HasSubstr("error bound"));
    const Json edges = work.good_json("autocast s.onnx --ranges s.ranges --io-types fp16 --output h.onnx");
    EXPECT_EQ(edges["added_casts"], 0);
    EXPECT_EQ(load_onnx(work.path("h.onnx"))->graph.inputs[0].type, DataType::float16);
}

TEST(Autocast, SaysWhatStaysAndWhy) {
    const Workspace work;
    work.good("simplify m.onnx --output s.onnx");
    const Json document =
        work.good_json("autocast s.onnx --data arrays.npy --exclude Gemm --error-limit 0.0001 --output half.onnx");
    std::map<std::string, std::string> found;
    for (const Json& decision : document["decisions"])
        found[decision["op_type"]] = decision["reason"];
    EXPECT_EQ(found["Conv"], "cast");
    EXPECT_EQ(found["Gemm"], "excluded_by_user");
    EXPECT_EQ(found["GlobalAveragePool"], "deep_reduction");
    EXPECT_GT(document["fp32_nodes"], 0);
}

DataType type_of_first(const Model& model, const std::string& op) {
    for (const auto& node : model.graph.nodes) {
        if (node->is(op)) return model.graph.info(node->output(0)).value_or(ValueInfo{}).type;
    }
    return DataType::undefined;
}

TEST(Autocast, WithoutMeasurementsOperationsDecide) {
    const Workspace work;
    const Json document = work.good_json("autocast m.onnx --to bf16 --output half.onnx");
    EXPECT_EQ(document["by"], "operation");
    EXPECT_EQ(document["opset"], 22);
    EXPECT_EQ(document["fp32_nodes"], 0);
    EXPECT_EQ(document["added_casts"], 2);
    auto cast = load_onnx(work.path("half.onnx"));
    ASSERT_TRUE(cast) << cast.error().describe();
    ASSERT_TRUE(infer_shapes(*cast));
    EXPECT_EQ(type_of_first(*cast, "Conv"), DataType::bfloat16);
    EXPECT_EQ(type_of_first(*cast, "BatchNormalization"), DataType::undefined); // folded
    EXPECT_EQ(cast->graph.outputs[0].type, DataType::float32);

    // The float part of a quantised model; its scales stay as they are.
    work.make_int8();
    const CommandResult mixed = work.good("autocast q.onnx --output mixed.onnx");
    EXPECT_THAT(mixed.output, HasSubstr("to 23"));
    auto typed = load_onnx(work.path("mixed.onnx"));
    ASSERT_TRUE(typed) << typed.error().describe();
    ASSERT_TRUE(infer_shapes(*typed));
    EXPECT_EQ(type_of_first(*typed, "DequantizeLinear"), DataType::float16);
    EXPECT_EQ(type_of_first(*typed, "Conv"), DataType::float16);
    const CommandResult ranges = work.lathe("autocast q.onnx --data arrays.npy --output x.onnx");
    EXPECT_NE(ranges.exit_code, 0);
    EXPECT_FALSE(std::filesystem::exists(work.path("x.onnx")));
}

TEST(Autocast, RefusesWithTheCure) {
    const Workspace work;
    const CommandResult nothing = work.lathe("autocast m.onnx --headroom 3 --output half.onnx");
    EXPECT_EQ(nothing.exit_code, 2);
    EXPECT_THAT(nothing.errors, HasSubstr("--headroom"));
    EXPECT_THAT(nothing.errors, HasSubstr("--all-tensors"));
    EXPECT_EQ(work.lathe("autocast m.onnx").exit_code, 2);
    work.good("calibrate m.onnx --data arrays.npy --all-tensors --output m.ranges");
    EXPECT_EQ(work.lathe("autocast m.onnx --ranges m.ranges --headroom 0 --output half.onnx").exit_code, 2);
    EXPECT_EQ(work.lathe("autocast m.onnx --ranges m.ranges --io-types bf16 --output half.onnx").exit_code, 2);
    EXPECT_EQ(work.lathe("autocast m.onnx --ranges m.ranges --exclude nosuch --output half.onnx").exit_code, 3);
    EXPECT_FALSE(std::filesystem::exists(work.path("half.onnx")));
}

} // namespace
} // namespace lathe::test
