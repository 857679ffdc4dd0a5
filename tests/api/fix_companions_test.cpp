#include "api/fix_companions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/model_data.hpp"
#include "api/simplify.hpp"
#include "data/companions.hpp"
#include "onnx/models.hpp"
#include "onnx/onnx.hpp"
#include "runtime/engine.hpp"

namespace lathe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A picture's mean, once for each number of a companion, and the companion itself as floats: [N, 2].
Model told_size(const std::string& picture, const std::string& type, const std::string& companion,
                const std::string& name = "orig_target_sizes") {
    return test::model_from("agraph (float[" + picture + "] images, " + type + "[" + companion + "] " + name +
                            ") => (float[N,2] y) { a = Constant <value = int64[3] {1, 2, 3}> () "
                            "m = ReduceMean <keepdims = 0> (images, a) b = Constant <value = int64[1] {1}> () "
                            "u = Unsqueeze(m, b) z = Mul(u, zero) f = Cast <to = 1> (" +
                            name + ") y = Add(z, f) }");
}

Model with_zero(Model model) {
    test::add_initializer(model, Tensor::of_floats("zero", {1}, std::vector<float>{0}));
    return model;
}

/// What `model`, run on pictures of that shape, gives.
std::vector<float> run_on(const Model& model, const Shape& pictures) {
    BuildOptions build;
    build.shapes["images"] = ShapeRange{pictures, pictures, pictures};
    const auto engine = Engine::build(model, build);
    if (!engine) throw std::runtime_error(engine.error().describe());
    auto session = engine->make_session();
    if (!session) throw std::runtime_error(session.error().describe());
    HostTensor zeros("images", DataType::float32, pictures);
    const auto outputs = session->run(std::vector<TensorView>{zeros.view()});
    if (!outputs) throw std::runtime_error(outputs.error().describe());
    const auto values = outputs->front().as<const float>();
    return {values.begin(), values.end()};
}

struct SizeCase {
    std::string picture;
    std::string type;
    std::string companion;
    std::string name;
    std::vector<float> says; ///< of each sample, for pictures of 16 rows and 24 columns
};

class Fixed : public testing::TestWithParam<SizeCase> {};

TEST_P(Fixed, SaysTheSizeOfTheInput) {
    const SizeCase& given = GetParam();
    Model model = with_zero(told_size(given.picture, given.type, given.companion, given.name));
    const auto fixed = fix_companions(model);
    ASSERT_TRUE(fixed) << fixed.error().describe();
    ASSERT_TRUE(*fixed);
    EXPECT_THAT((*fixed)->told, HasSubstr(given.name));
    ASSERT_EQ(input_specs(model).size(), 1U);
    ASSERT_NE(model.find_metadata("lathe.fixed_inputs"), nullptr);
    EXPECT_THAT(*model.find_metadata("lathe.fixed_inputs"), HasSubstr(given.name));
    ASSERT_TRUE(verify(model));
    ASSERT_TRUE(check_onnx(model, {.full = true}));
    for (const std::int64_t samples : {1, 3}) {
        if (given.picture[0] != 'N' && given.picture[0] - '0' != samples) continue;
        std::vector<float> expected;
        for (std::int64_t i = 0; i < samples; ++i)
            expected.insert(expected.end(), given.says.begin(), given.says.end());
        const Shape shape = given.picture.ends_with(",3") ? Shape{samples, 16, 24, 3} : Shape{samples, 3, 16, 24};
        EXPECT_EQ(run_on(model, shape), expected) << samples;
        // The same once sizes are known and folded.
        Model folded = model;
        ASSERT_TRUE(simplify_model(folded, {}));
        EXPECT_EQ(run_on(folded, shape), expected) << samples << " folded";
    }
}

INSTANTIATE_TEST_SUITE_P(Families, Fixed,
                         testing::Values(SizeCase{"1,3,16,24", "int64", "1,2", "orig_target_sizes", {24, 16}},
                                         SizeCase{"3,3,16,24", "int64", "3,2", "orig_target_sizes", {24, 16}},
                                         SizeCase{"N,3,16,24", "int64", "N,2", "orig_target_sizes", {24, 16}},
                                         SizeCase{"N,3,H,W", "int64", "N,2", "orig_target_sizes", {24, 16}},
                                         SizeCase{"N,3,H,24", "float", "2", "orig_target_sizes", {24, 16}},
                                         SizeCase{"N,3,16,24", "int32", "1,2", "orig_target_sizes", {24, 16}},
                                         SizeCase{"1,3,16,24", "float", "1,2", "im_shape", {16, 24}},
                                         SizeCase{"N,3,H,W", "float", "M,2", "im_shape", {16, 24}},
                                         SizeCase{"N,3,H,W", "float", "M,2", "scale_factor", {1, 1}},
                                         SizeCase{"1,3,16,24", "float", "1,2", "scale_factor", {1, 1}},
                                         SizeCase{"N,16,24,3", "float", "N,2", "image_shape", {16, 24}},
                                         SizeCase{"N,3,H,W", "float", "1,2", "image_shape", {16, 24}},
                                         SizeCase{"N,H,W,3", "double", "N,2", "image_shape", {16, 24}}));

TEST(FixCompanions, KnownSizesAreOneConstant) {
    Model model = with_zero(told_size("2,3,16,24", "int64", "N,2"));
    const std::size_t nodes = model.graph.nodes.size();
    ASSERT_TRUE(*fix_companions(model));
    EXPECT_EQ(model.graph.nodes.size(), nodes);
    const Tensor* value = model.graph.constant("orig_target_sizes");
    ASSERT_NE(value, nullptr);
    EXPECT_EQ(value->shape(), (Shape{2, 2}));
    EXPECT_THAT(value->to_int64s(), ElementsAre(24, 16, 24, 16));
}

TEST(FixCompanions, ManySamplesAreNotWrittenOut) {
    Model model = with_zero(told_size("1000000000000,3,16,24", "int64", "N,2"));
    const auto fixed = fix_companions(model);
    ASSERT_TRUE(fixed);
    EXPECT_FALSE(*fixed);
}

TEST(FixCompanions, WithoutInputsThereAreNone) {
    Model model = test::model_from("agraph () => (float y) { y = Constant <value = float {1}> () }");
    const auto fixed = fix_companions(model);
    ASSERT_TRUE(fixed);
    EXPECT_FALSE(*fixed);
}

/// What cannot be told stays as it is.
TEST(FixCompanions, OthersStayInputs) {
    for (const auto& [picture, type, companion, name] : std::vector<std::array<std::string, 4>>{
             {"N,3,16,24", "int64", "N,2", "lengths"},              // another name
             {"N,3,16,24", "int64", "N,3", "orig_target_sizes"},    // more than a size
             {"N,3,16,24", "int64", "N,2,1", "orig_target_sizes"},  // another rank
             {"N,3,16,24", "bool", "N,2", "orig_target_sizes"},     // no numbers
             {"N,3,16,24", "int64", "N,2", "scale_factor"},         // a scale in whole numbers
             {"N,3,16,24", "int64", "4,2", "orig_target_sizes"},    // of four pictures, always
             {"2,3,16,24", "int64", "4,2", "orig_target_sizes"},    // of more than there are
             {"N,8,16,24", "int64", "N,2", "orig_target_sizes"}}) { // beside no picture
        Model model = with_zero(told_size(picture, type, companion, name));
        const auto fixed = fix_companions(model);
        ASSERT_TRUE(fixed);
        EXPECT_FALSE(*fixed) << name << " " << companion << " beside " << picture;
        EXPECT_EQ(input_specs(model).size(), 2U);
        EXPECT_EQ(model.find_metadata("lathe.fixed_inputs"), nullptr);
    }
    // One that is not told keeps the other: a network is fed whole or not at all.
    const std::vector<InputSpec> three{{"image", DataType::float32, {-1, 3, 8, 8}},
                                       {"scale_factor", DataType::float32, {-1, 2}},
                                       {"prompt", DataType::int64, {-1, 2}}};
    EXPECT_THAT(companions_of(three).others, IsEmpty());
    EXPECT_EQ(companions_of(std::span(three).first(2)).others.size(), 1U);
    EXPECT_THAT(companions_of(std::span(three).first(1)).others, IsEmpty());
    EXPECT_THAT(companions_of({}).others, IsEmpty());
}

TEST(FixCompanions, OpenSizesNeedExpand) {
    Model model = with_zero(told_size("N,3,16,24", "int64", "N,2"));
    model.opsets[""] = 7;
    const auto fixed = fix_companions(model);
    ASSERT_TRUE(fixed);
    EXPECT_FALSE(*fixed);
}

TEST(FixCompanions, TellsTheFamily) {
    const auto family = [](Model model) {
        const auto fixed = fix_companions(model);
        return (*fixed)->detector;
    };
    EXPECT_EQ(family(with_zero(told_size("1,3,16,24", "int64", "1,2"))), SizedDetector::transformer);
    EXPECT_EQ(family(with_zero(told_size("1,3,16,24", "float", "1,2", "image_shape"))), SizedDetector::keras_yolo);
    EXPECT_EQ(family(with_zero(told_size("1,3,16,24", "float", "1,2", "scale_factor"))), SizedDetector::paddle);
    EXPECT_EQ(family(with_zero(told_size("1,3,16,24", "float", "1,2", "im_shape"))), SizedDetector::paddle_no_nms);
    const Model suppressed = test::model_from(
        "agraph (float[1,3,16,24] image, float[1,2] im_shape, float[1,1,4] b, float[1,1,1] s) => (int64[K,3] y)"
        "{ y = NonMaxSuppression(b, s) }");
    Model constant = suppressed;
    constant.graph.inputs.resize(2);
    test::add_initializer(constant, test::ramp("b", {1, 1, 4}));
    test::add_initializer(constant, test::ramp("s", {1, 1, 1}));
    EXPECT_EQ(family(constant), SizedDetector::paddle);
}

TEST(FixCompanions, UsualPreprocessingIsValid) {
    for (const SizedDetector detector :
         {SizedDetector::transformer, SizedDetector::paddle, SizedDetector::paddle_no_nms, SizedDetector::keras_yolo}) {
        for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
            const Preprocess preprocess = usual_preprocess(detector, {16, 24}, layout);
            EXPECT_TRUE(preprocess.validate("test"));
            EXPECT_EQ(preprocess.output_size(), (Preprocess::Size{16, 24}));
            EXPECT_EQ(preprocess.layout, layout);
            EXPECT_EQ(preprocess.letterbox.has_value(), detector == SizedDetector::keras_yolo);
        }
    }
}

TEST(ListsAllSamples, AreRowsAndTheirCount) {
    const auto lists = [](const std::string& outputs) {
        return lists_all_samples(test::model_from("agraph (float[N,3,8,8] x) => (" + outputs + ") { }").graph);
    };
    EXPECT_TRUE(lists("float[K,6] rows, int32[N] count"));
    EXPECT_FALSE(lists("float[K,6] rows"));
    EXPECT_FALSE(lists("float[K,6] rows, float[N] count"));
    EXPECT_FALSE(lists("float[N,K,6] rows, int32[N] count"));
    EXPECT_FALSE(lists("float[K,6] rows, int32[N] count, float[N,8] more"));
}

} // namespace
} // namespace lathe
