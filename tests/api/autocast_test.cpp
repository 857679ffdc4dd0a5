// autocast, as programs that link liblathe.so call it.
#include <algorithm>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lathe/autocast.hpp>
#include <lathe/compare.hpp>
#include <lathe/model.hpp>
#include <lathe/simplify.hpp>

#include "support_lib/command.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

const std::filesystem::path data = test::build_path("tests/api/data");
const std::filesystem::path small_file = data / "small.onnx";

std::filesystem::path simplified(const test::TemporaryFolder& folder) {
    const ModelPtr model = load_model(small_file).value();
    EXPECT_TRUE(simplify(*model));
    EXPECT_TRUE(save_model(*model, folder / "s.onnx"));
    return folder / "s.onnx";
}

/// Signal to noise of the outputs, the worst of them.
double worst_sqnr_db(const std::filesystem::path& first, const std::filesystem::path& second) {
    CompareModelsRequest request{.first = first, .second = second};
    request.rtol = 1;
    request.atol = 1;
    double worst = 1e9;
    const CompareModelsResult found = compare_models(request).value();
    for (const ComparedValue& value : found.values)
        worst = std::min(worst, value.output ? value.sqnr_db : worst);
    return worst;
}

TEST(Autocast, MeasuredValuesDecide) {
    const test::TemporaryFolder folder;
    AutocastRequest request{.model = simplified(folder), .output = folder / "half.onnx"};
    request.data = data / "data.npy";
    request.ranges = folder / "all.ranges";
    const AutocastResult found = autocast(request).value();
    EXPECT_TRUE(found.measured);
    EXPECT_EQ(found.format, "fp16");
    EXPECT_EQ(found.fp32_nodes, 0U);
    EXPECT_EQ(found.casts, 2U);
    EXPECT_EQ(found.samples, 64U);
    EXPECT_EQ(found.cast_nodes, found.decisions.size());
    EXPECT_THAT(found.overflow, IsEmpty());
    EXPECT_EQ(found.largest, 65504);
    EXPECT_GT(found.activations.values, 0U);
    const auto gemm = std::ranges::find(found.decisions, "Gemm", &AutocastDecision::op);
    ASSERT_NE(gemm, found.decisions.end());
    EXPECT_TRUE(gemm->cast);
    EXPECT_EQ(gemm->reason, "cast");
    EXPECT_GT(gemm->absmax, 0);
    EXPECT_EQ(gemm->sum.value().terms, 8);
    EXPECT_TRUE(gemm->sum->in_fp32);
    EXPECT_THAT(found.document, HasSubstr("\"file\": \"" + request.output.string()));
    const double sqnr = worst_sqnr_db(request.model, request.output);
    EXPECT_GT(sqnr, 40) << "FP16 has 11 bits";
    ASSERT_TRUE(save_model(*found.model, folder / "again.onnx"));
    EXPECT_GT(worst_sqnr_db(request.output, folder / "again.onnx"), 150) << "the model is the one written";

    // Kept ranges serve without the data, and nothing needs to be written to see the decisions.
    EXPECT_EQ(found.reused, "");
    EXPECT_THAT(autocast(request).value().reused, HasSubstr("Reusing"));
    request.data.clear();
    request.output.clear();
    request.error_limit = 1e-4;
    request.exclude = {"Gemm"};
    request.io_types = Precision::float16;
    const AutocastResult strict = autocast(request).value();
    EXPECT_EQ(std::ranges::find(strict.decisions, "Gemm", &AutocastDecision::op)->reason, "excluded_by_user");
    const auto pool = std::ranges::find(strict.decisions, "GlobalAveragePool", &AutocastDecision::op);
    ASSERT_NE(pool, strict.decisions.end());
    EXPECT_EQ(pool->reason, "deep_reduction");
    EXPECT_GT(pool->sum.value().error_bound, 1e-4);
    EXPECT_GT(strict.fp32_nodes, 1U);
    EXPECT_THAT(strict.document, testing::Not(HasSubstr("\"file\"")));
}

TEST(Autocast, WithoutMeasurementsOperationsDecide) {
    AutocastRequest request{.model = small_file};
    request.format = Precision::bfloat16;
    const AutocastResult found = autocast(request).value();
    EXPECT_FALSE(found.measured);
    EXPECT_EQ(found.format, "bf16");
    EXPECT_EQ(found.opset, 22);
    EXPECT_EQ(found.converted_from, 18);
    EXPECT_EQ(found.casts, 2U);
    EXPECT_THAT(found.kept_ops, IsEmpty());
    EXPECT_THAT(found.decisions, IsEmpty());
    EXPECT_NE(found.model, nullptr);
}

TEST(Autocast, SaysWhatIsWrong) {
    const test::TemporaryFolder folder;
    const auto code = [](const AutocastRequest& request) {
        const auto found = autocast(request);
        return found ? ErrorCode::cancelled : found.error().code;
    };
    EXPECT_EQ(code({.model = "none.onnx"}), ErrorCode::not_found);
    EXPECT_EQ(code({.model = small_file, .format = Precision::int8}), ErrorCode::invalid_argument);
    AutocastRequest unmeasured{.model = small_file};
    unmeasured.headroom = 3;
    const Error refused = autocast(unmeasured).error();
    EXPECT_EQ(refused.code, ErrorCode::invalid_argument);
    EXPECT_EQ(refused.where, "headroom");
    EXPECT_EQ(code({.model = small_file, .output = folder / "no" / "such" / "m.onnx"}), ErrorCode::not_found);
    std::filesystem::copy_file(small_file, folder / "m.onnx");
    EXPECT_EQ(code({.model = folder / "m.onnx", .output = folder / "m.onnx"}), ErrorCode::invalid_argument);
    EXPECT_TRUE(load_model(folder / "m.onnx"));
    AutocastRequest measured{.model = small_file, .output = folder / "half.onnx", .data = data / "data.npy"};
    measured.headroom = 0;
    EXPECT_EQ(code(measured), ErrorCode::invalid_argument);
    measured.headroom = 2;
    measured.exclude = {"nosuch"};
    EXPECT_EQ(code(measured), ErrorCode::not_found);
    measured.exclude.clear();
    measured.io_types = Precision::bfloat16;
    EXPECT_EQ(code(measured), ErrorCode::invalid_argument) << "not the format";
    EXPECT_FALSE(std::filesystem::exists(folder / "half.onnx"));
    class Stopped final : public Progress {
        bool cancelled() const override { return true; }
    } stopped;
    measured.io_types.reset();
    measured.progress = &stopped;
    const auto interrupted = autocast(measured);
    ASSERT_FALSE(interrupted);
    EXPECT_EQ(interrupted.error().code, ErrorCode::cancelled);
    EXPECT_FALSE(std::filesystem::exists(folder / "half.onnx"));
}

} // namespace
} // namespace lathe
