// An If that OpenVINO could not compile becomes the branch that it takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/api/backend.hpp"
#include "backends/models.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

// As PyTorch exports a module that takes a signal with a batch and without: OpenVINO needs the number of dimensions,
// and sizes that are given answer what the If asks.
TEST(OpenVino, AnIfThatSizesAnswerIsItsBranch) {
    const Model model = model_from_text("opset 17\ninput %x: float32[N, T]\n"
                                        "const %one: int64[] = {1}\nconst %axis: int64[1] = {1}\n"
                                        "const %w: float32[1, 1, 2] = {1, 2}\n"
                                        "%s = Shape(%x)\n%n = Gather(%s, %one) {axis = 0}\nconst %four: int64[] = {4}\n"
                                        "%is = Equal(%n, %four)\n"
                                        "%r = If(%is) {then_branch = graph {\n%t = Unsqueeze(%x, %axis)\n"
                                        "output %t: float32[a, b, c]\n}, else_branch = graph {\n%e = Identity(%x)\n"
                                        "output %e: float32[d, f]\n}}\n"
                                        "%y = Conv(%r, %w)\noutput %y: float32[g, h, i]\n");
    CompileOptions options;
    options.shapes["x"] = {{1, 4}, {1, 4}, {2, 4}};
    const auto compiled = (*backend_for_device("cpu"))->compile(model, options);
    ASSERT_TRUE(compiled) << compiled.error().describe();
    auto session = (*compiled)->make_session();
    ASSERT_TRUE(session);
    HostTensor input("x", DataType::float32, {2, 4});
    for (std::size_t i = 0; i < 8; ++i)
        input.as<float>()[i] = static_cast<float>(i);
    ASSERT_TRUE((*session)->set_input(0, input.view()));
    const auto ran = (*session)->run();
    ASSERT_TRUE(ran) << ran.error().describe();
    const auto output = (*session)->output(0);
    ASSERT_TRUE(output);
    EXPECT_EQ(output->shape, (Shape{2, 1, 3}));
    EXPECT_THAT(output->as<float>(), testing::ElementsAre(2, 5, 8, 14, 17, 20));
    // What stays open is refused as before, with what to do.
    options.shapes["x"] = {{1, 4}, {1, 4}, {2, 5}};
    const auto open = (*backend_for_device("cpu"))->compile(model, options);
    ASSERT_FALSE(open);
    EXPECT_THAT(open.error().message, HasSubstr("leaves that open"));
}

} // namespace
} // namespace lathe::test
