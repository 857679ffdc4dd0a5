// lathe compare --against: ONNX Runtime's and the reference's numbers of the same file.

#include "cli/workspace.hpp"
#include "support_lib/places.hpp"

namespace lathe::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// The packages that compute lie in the Python that LATHE_PYTHON names, else python3.
class Against : public ::testing::TestWithParam<const char*> {
protected:
    void SetUp() override {
        const CommandResult tried = work_.lathe("compare m.onnx --shape 1x3x8x8 --against " + name());
        if (tried.errors.find("is not installed") != std::string::npos) GTEST_SKIP() << "SKIPPED: " << tried.errors;
        ASSERT_EQ(tried.exit_code, 0) << tried.output << tried.errors;
    }
    static std::string name() { return GetParam(); }
    static std::string against() { return " --against " + name(); }
    const Workspace work_;
};

TEST_P(Against, AModelItsSimplerFormAndItsEngineAreEqual) {
    const Json same = work_.good_json("compare m.onnx --data arrays.npy" + against());
    EXPECT_EQ(same["equal"], true);
    EXPECT_EQ(same["against"], name());
    EXPECT_EQ(same["second"], "m.onnx");
    EXPECT_EQ(same["libraries"].size(), 1U) << same["libraries"];
    EXPECT_GT(same["tensors"].size(), 5U) << "values inside are compared too";
    EXPECT_GT(same["tensors"][0]["shape"][0], 1) << "the file's batch";
    work_.make_simple();
    EXPECT_EQ(work_.good_json("compare m.onnx s.onnx --data arrays.npy" + against())["equal"], true);
    work_.good("build m.onnx -o float.engine");
    EXPECT_EQ(work_.good_json("compare m.onnx float.engine --outputs-only" + against())["tensors"].size(), 1U);
    EXPECT_EQ(work_.good_json("compare float.engine" + against())["equal"], true) << "the graph inside";
}

TEST_P(Against, WhatDiffersIsFoundAndCut) {
    work_.save(tiny_classifier(9), "other.onnx");
    const std::string arguments = "compare m.onnx other.onnx --data arrays.npy --reduce small.onnx";
    const CommandResult different = work_.lathe(arguments + against());
    EXPECT_EQ(different.exit_code, 5);
    EXPECT_THAT(different.errors, HasSubstr("made by Conv first"));
    EXPECT_THAT(different.output, HasSubstr(against()));
    EXPECT_EQ(load_onnx(work_.path("small.onnx"))->graph.nodes.size(), 1U);
    const CommandResult again = work_.lathe("compare small.reference.onnx small.onnx --data small.npz" + against());
    EXPECT_EQ(again.exit_code, 5) << again.output << again.errors;
}

TEST_P(Against, WhatCannotBeComputedIsASentence) {
    Model model = tiny_classifier();
    model.graph.nodes[2]->op_type = "NoSuchOperator";
    work_.save(model, "unknown.onnx");
    const CommandResult unknown = work_.lathe("compare unknown.onnx m.onnx --data arrays.npy" + against());
    EXPECT_EQ(unknown.exit_code, 4) << unknown.errors;
    EXPECT_THAT(unknown.errors, AllOf(HasSubstr("NoSuchOperator"), HasSubstr("unknown.onnx")));
}

INSTANTIATE_TEST_SUITE_P(All, Against, ::testing::Values("onnxruntime", "reference"),
                         [](const auto& info) { return std::string(info.param); });

TEST(AgainstWhat, IsToldWhereItIsMissing) {
    const Workspace work;
    const CommandResult missing = work.lathe("compare m.onnx --against onnxruntime",
                                             std::string("LATHE_PYTHON=python3 PYTHONPATH=") + test::fake_packages());
    EXPECT_EQ(missing.exit_code, 4);
    EXPECT_THAT(missing.errors,
                AllOf(HasSubstr("ONNX Runtime is not installed"), HasSubstr("pip install onnxruntime")));
    const CommandResult nothing = work.lathe("compare m.onnx");
    EXPECT_EQ(nothing.exit_code, 2);
    EXPECT_THAT(nothing.errors, HasSubstr("--against onnxruntime"));
    const CommandResult unknown = work.lathe("compare m.onnx --against caffe");
    EXPECT_EQ(unknown.exit_code, 2);
    EXPECT_THAT(unknown.errors, AllOf(HasSubstr("caffe"), HasSubstr("onnxruntime")));
    const CommandResult python = work.lathe("compare m.onnx --against onnxruntime", "LATHE_PYTHON=no-such-python");
    EXPECT_EQ(python.exit_code, 3);
    EXPECT_THAT(python.errors, HasSubstr("LATHE_PYTHON"));
}

} // namespace
} // namespace lathe::test
