#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include <lathe/calibrate.hpp>
#include <lathe/data.hpp>
#include <lathe/engine.hpp>
#include <lathe/evaluate.hpp>
#include <lathe/model.hpp>
#include <lathe/quantize.hpp>
#include <lathe/simplify.hpp>

#include "support_lib/command.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

using testing::HasSubstr;

const std::filesystem::path data_folder = test::build_path("tests/api/data");
const std::filesystem::path samples_file = data_folder / "data.npy";

ModelPtr small_model() { return load_model(data_folder / "small.onnx").value(); }

ModelPtr simplified_model() {
    ModelPtr model = small_model();
    EXPECT_TRUE(simplify(*model));
    return model;
}

/// `count` samples of noise between -1 and 1.
HostTensor noise(std::int64_t count) {
    HostTensor tensor("input", DataType::float32, {count, 3, 8, 8});
    std::uint32_t seed = 5;
    for (float& value : tensor.as<float>()) {
        seed = seed * 1664525U + 1013904223U;
        value = static_cast<float>(seed >> 8) / 8388608.0F - 1.0F;
    }
    return tensor;
}

Engine build(const Model& model, Precision precision) {
    BuildOptions options;
    options.name = to_string(precision);
    options.precision = precision;
    return Engine::build(model, options).value();
}

/// An 8x8 picture whose pixels are first, first + 1, ...
std::vector<std::uint8_t> write_picture(const std::filesystem::path& path, std::uint8_t first) {
    std::vector<std::uint8_t> pixels(8 * 8 * 3);
    for (std::size_t i = 0; i < pixels.size(); ++i)
        pixels[i] = static_cast<std::uint8_t>(first + i);
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    image.width = 8;
    image.height = 8;
    image.format = PNG_FORMAT_RGB;
    EXPECT_EQ(png_image_write_to_file(&image, path.c_str(), 0, pixels.data(), 0, nullptr), 1);
    return pixels;
}

class Cancelled final : public Progress {
public:
    bool cancelled() const override { return true; }
};

TEST(Simplify, FoldsAndVerifies) {
    const ModelPtr model = small_model();
    const auto report = simplify(*model);
    ASSERT_TRUE(report) << report.error().describe();
    EXPECT_EQ(report->before_nodes, 7U);
    EXPECT_EQ(report->after_nodes, 5U); // without BatchNormalization and Identity
    EXPECT_EQ(report->samples, 3U);
    EXPECT_LE(report->max_error, 1e-3);

    const auto again = simplify(*model);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->after_nodes, again->before_nodes);
}

TEST(Simplify, KeepsTheFunction) {
    const ModelPtr original = small_model();
    const Engine before = build(*original, Precision::float32);
    const Engine after = build(*simplified_model(), Precision::float32);
    const auto result = compare_engines(before, after, Data({noise(16)}));
    ASSERT_TRUE(result) << result.error().describe();
    EXPECT_GT(result->sqnr_db, 90.0);
}

TEST(Simplify, RefusesAnUnknownPass) {
    const ModelPtr model = small_model();
    const auto report = simplify(*model, {.disabled = {"no-such-pass"}});
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(report.error().describe(), HasSubstr("no-such-pass"));
}

TEST(LoadImages, NormalisesEachFileInOrder) {
    const test::TemporaryFolder folder;
    std::vector<std::filesystem::path> files;
    std::vector<std::vector<std::uint8_t>> pixels;
    for (const int first : {0, 60}) {
        files.push_back(folder / (std::to_string(first) + ".png"));
        pixels.push_back(write_picture(files.back(), static_cast<std::uint8_t>(first)));
    }
    const std::string preprocess = preprocess_json(*small_model());
    ASSERT_FALSE(preprocess.empty());
    const auto images = load_images(files, preprocess, "input");
    ASSERT_TRUE(images) << images.error().describe();
    EXPECT_EQ(images->name, "input");
    EXPECT_EQ(images->shape, (Shape{2, 3, 8, 8}));
    const auto values = images->as<float>();
    for (std::size_t n = 0; n < 2; ++n) {
        for (std::size_t c = 0; c < 3; ++c) {
            for (std::size_t i = 0; i < 64; ++i) {
                const double expected = pixels[n][i * 3 + c] / 127.5 - 1; // the model's scale and mean
                ASSERT_NEAR(values[(n * 3 + c) * 64 + i], expected, 1e-6);
            }
        }
    }
}

TEST(LoadImages, NamesWhatIsWrong) {
    const test::TemporaryFolder folder;
    const std::filesystem::path good = folder / "good.png";
    const std::filesystem::path text = folder / "text.png";
    const std::filesystem::path missing = folder / "missing.png";
    write_picture(good, 0);
    std::ofstream(text) << "no picture";
    const std::string size = R"({"resize": [8, 8]})";
    struct Case {
        std::vector<std::filesystem::path> files;
        std::string preprocess;
        std::string expected;
    };
    const std::vector<Case> cases{
        {{}, size, "no image files"},        {{good}, "", "need preprocessing"}, {{good}, "{\"resize\": ", "prep"},
        {{good}, R"({"scale": 1})", "prep"}, {{good, missing}, size, "missing"}, {{good, text}, size, "text.png"},
    };
    for (const Case& each : cases) {
        const auto images = load_images(each.files, each.preprocess);
        ASSERT_FALSE(images) << each.expected;
        EXPECT_THAT(images.error().describe(), HasSubstr(each.expected));
    }
}

TEST(Calibrate, ArraysGiveWhatTheirFileGives) {
    const ModelPtr model = simplified_model();
    const test::TemporaryFolder folder;
    const auto from_file = Calibration::run(*model, samples_file, {.until_settled = false});
    ASSERT_TRUE(from_file) << from_file.error().describe();
    EXPECT_EQ(from_file->convergence(), nullptr);
    EXPECT_EQ(from_file->samples(), 64U);
    EXPECT_EQ(from_file->method(), Method::mse);
    for (const auto& tensor : from_file->tensors()) {
        EXPECT_LE(tensor.low, 0) << tensor.name;
        EXPECT_LT(tensor.low, tensor.high) << tensor.name;
        EXPECT_GT(tensor.sqnr_db, 20) << tensor.name;
    }

    const auto ranges_of = [&](Data data) {
        const auto calibration = Calibration::run(*model, std::move(data), {.method = Method::minmax}).value();
        std::vector<std::tuple<std::string, float, float>> ranges;
        for (const auto& tensor : calibration.tensors())
            ranges.emplace_back(tensor.name, tensor.low, tensor.high);
        return ranges;
    };
    HostTensor samples("input", DataType::float32, {64, 3, 8, 8});
    std::ifstream file(samples_file, std::ios::binary); // a header, then the numbers
    file.seekg(-static_cast<std::streamoff>(samples.bytes.size()), std::ios::end);
    ASSERT_TRUE(
        file.read(reinterpret_cast<char*>(samples.bytes.data()), static_cast<std::streamsize>(samples.bytes.size())));
    EXPECT_EQ(ranges_of(Data({samples})), ranges_of(samples_file));
}

TEST(Calibrate, SavesAndLoads) {
    const test::TemporaryFolder folder;
    const ModelPtr model = simplified_model();
    const auto made = Calibration::run(*model, Data({noise(40)}), {.method = Method::entropy});
    ASSERT_TRUE(made) << made.error().describe();
    ASSERT_TRUE(made->save(folder / "m.ranges"));
    const auto loaded = Calibration::load(folder / "m.ranges");
    ASSERT_TRUE(loaded) << loaded.error().describe();
    EXPECT_EQ(loaded->method(), Method::entropy);
    EXPECT_EQ(loaded->samples(), made->samples());
    ASSERT_NE(loaded->convergence(), nullptr); // by default reading stops when the ranges stand still
    EXPECT_EQ(loaded->convergence()->available, 40U);
    EXPECT_EQ(loaded->convergence()->rounds.back().samples, made->samples());
    const auto before = made->tensors();
    const auto after = loaded->tensors();
    ASSERT_EQ(before.size(), after.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
        EXPECT_EQ(before[i].name, after[i].name);
        EXPECT_EQ(before[i].high, after[i].high);
    }
    EXPECT_EQ(Calibration::load(folder / "absent").error().code, ErrorCode::not_found);
}

TEST(Calibrate, ReportsFindingsAndErrors) {
    const ModelPtr model = simplified_model();
    HostTensor constant("input", DataType::float32, {4, 3, 8, 8});
    const auto calibration = Calibration::run(*model, Data({constant}));
    ASSERT_TRUE(calibration) << calibration.error().describe();
    std::vector<std::string> names;
    for (const auto& finding : calibration->findings())
        names.push_back(finding.name);
    EXPECT_THAT(names, testing::IsSupersetOf({"constant_images", "duplicates", "too_few_samples"}));

    EXPECT_EQ(Calibration::run(*model, "absent").error().code, ErrorCode::not_found);
    HostTensor narrow("input", DataType::float32, {4, 3, 8, 7});
    EXPECT_EQ(Calibration::run(*model, Data({narrow})).error().code, ErrorCode::mismatch);
    EXPECT_EQ(Calibration::run(*model, Data({noise(4)}), {.percentile = 0}).error().code, ErrorCode::invalid_argument);
    Cancelled cancelled;
    EXPECT_EQ(Calibration::run(*model, Data({noise(4)}), {.progress = &cancelled}).error().code, ErrorCode::cancelled);
}

TEST(Quantize, ExplainsExcludesAndRefuses) {
    const ModelPtr model = simplified_model();
    const auto plan = explain_quantization(*model, {});
    ASSERT_TRUE(plan) << plan.error().describe();
    EXPECT_EQ(plan->quantized_nodes, plan->heavy_nodes);
    EXPECT_EQ(plan->heavy_nodes, 2U);

    const auto calibration = Calibration::run(*model, samples_file).value();
    const auto quantized = quantize(*model, calibration, {.exclude = {"Gemm"}, .method = Method::minmax});
    ASSERT_TRUE(quantized) << quantized.error().describe();
    EXPECT_EQ(quantized->plan.quantized_nodes, 1U);
    EXPECT_EQ(quantized->method, Method::minmax);
    bool told = false;
    for (const auto& decision : quantized->plan.decisions)
        told |= decision.op_type == "Gemm" && decision.reason == "excluded_by_user" && !decision.explanation.empty();
    EXPECT_TRUE(told);

    EXPECT_EQ(quantize(*small_model(), calibration).error().code, ErrorCode::mismatch); // not simplified: another model
    EXPECT_EQ(explain_quantization(*quantized->model, {}).error().code, ErrorCode::invalid_argument);
    EXPECT_FALSE(quantize(*model, calibration, {.exclude = {"nothing-has-this-name"}}));
    const auto whole = explain_quantization(*model, {.weights = WeightGranularity::per_tensor});
    ASSERT_TRUE(whole);
    for (const auto& decision : whole->decisions) {
        if (decision.reason != "heavy_weight") continue;
        EXPECT_EQ(decision.detail, "one scale for all");
    }
    EXPECT_EQ(quantize(*model, calibration, {.target = Target::tensorrt, .activations = ActivationScheme::asymmetric})
                  .error()
                  .code,
              ErrorCode::unsupported);
    EXPECT_EQ(target_from_name("abacus").error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(target_from_name("tensorrt").value(), Target::tensorrt);
}

double sqnr_of(const Model& model, const Model& quantized, Data data) {
    return compare_engines(build(model, Precision::float32), build(quantized, Precision::int8), std::move(data))
        .value()
        .sqnr_db;
}

TEST(Quantize, CorrectsOnAPathOrOnArrays) {
    const ModelPtr model = simplified_model();
    const auto calibration = Calibration::run(*model, samples_file).value();
    const auto plain = quantize(*model, calibration).value();
    EXPECT_TRUE(plain.corrections.empty());
    const auto corrected = quantize(*model, calibration, {.effort = 2, .data = samples_file});
    ASSERT_TRUE(corrected) << corrected.error().describe();
    std::vector<std::string> methods;
    bool kept = false;
    for (const QuantizeCorrection& each : corrected->corrections) {
        methods.push_back(each.method);
        kept |= each.kept;
        EXPECT_FALSE(each.detail.empty()) << each.method;
        EXPECT_GT(each.sqnr_db_before, 10) << each.method;
    }
    EXPECT_THAT(methods, testing::IsSupersetOf({"equalize", "rounding"}));
    ASSERT_TRUE(kept) << "nothing gained on this model: then there is nothing to compare";
    EXPECT_GT(sqnr_of(*model, *corrected->model, samples_file), sqnr_of(*model, *plain.model, samples_file));

    const auto on_arrays = quantize(*model, calibration, {.effort = 1, .data = Data({noise(64)})});
    ASSERT_TRUE(on_arrays) << on_arrays.error().describe();
    ASSERT_EQ(on_arrays->corrections.size(), 2U);
    EXPECT_EQ(on_arrays->corrections[0].method, "smooth");
    EXPECT_EQ(on_arrays->corrections[1].method, "bias-correction");
}

TEST(Quantize, SaysWhatCorrectingLacks) {
    const ModelPtr model = simplified_model();
    const auto calibration = Calibration::run(*model, samples_file).value();
    EXPECT_EQ(quantize(*model, calibration, {.effort = 1}).error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(quantize(*model, calibration, {.effort = 4, .data = samples_file}).error().code,
              ErrorCode::invalid_argument);
    EXPECT_EQ(quantize(*model, calibration, {.effort = 1, .data = "absent"}).error().code, ErrorCode::not_found);
    EXPECT_EQ(quantize(*model, calibration, {.preprocess = "{"}).error().code, ErrorCode::parse_error);
    Cancelled cancelled;
    const QuantizeRequest stopped{.effort = 2, .data = samples_file, .progress = &cancelled};
    EXPECT_EQ(quantize(*model, calibration, stopped).error().code, ErrorCode::cancelled);
}

TEST(Quantize, TakesRangesByHand) {
    const ModelPtr model = simplified_model();
    const auto calibration = Calibration::run(*model, samples_file).value();
    const auto plain = quantize(*model, calibration).value();
    // A hundredth of the input's range: nearly all of it is clipped.
    const auto narrow = quantize(*model, calibration, {.overrides = {{"input", -0.01F, 0.01F}}});
    ASSERT_TRUE(narrow) << narrow.error().describe();
    EXPECT_LT(sqnr_of(*model, *narrow->model, samples_file), sqnr_of(*model, *plain.model, samples_file) - 10);
    EXPECT_EQ(quantize(*model, calibration, {.overrides = {{"nothing", -1, 1}}}).error().code, ErrorCode::not_found);
    EXPECT_EQ(quantize(*model, calibration, {.overrides = {{"input", 1, 2}}}).error().code,
              ErrorCode::invalid_argument);
}

TEST(Compare, Int8FollowsFloat) {
    const ModelPtr model = simplified_model();
    const auto calibration = Calibration::run(*model, samples_file).value();
    const auto quantized = quantize(*model, calibration).value();
    const Engine reference = build(*model, Precision::float32);
    const Engine subject = build(*quantized.model, Precision::int8);
    const auto result = compare_engines(reference, subject, samples_file);
    ASSERT_TRUE(result) << result.error().describe();
    EXPECT_EQ(result->subject.precision, "int8");
    EXPECT_EQ(result->subject.samples, 64U);
    EXPECT_GT(result->sqnr_db, 25);
    EXPECT_TRUE(std::isfinite(result->sqnr_db)); // int8 is not float
    EXPECT_GT(result->mean_kl, 0);
    EXPECT_GT(result->agreement.value, 0.9);
    EXPECT_LE(result->agreement.low, result->agreement.value);
    EXPECT_FALSE(result->reference.top1) << "the data has no labels";

    const auto same = compare_engines(reference, reference, samples_file);
    ASSERT_TRUE(same);
    EXPECT_EQ(same->sqnr_db, std::numeric_limits<double>::infinity());
    EXPECT_EQ(same->agreement.value, 1);
    EXPECT_EQ(same->mean_kl, 0);
}

TEST(Evaluate, CountsRightAnswers) {
    const Engine engine = build(*simplified_model(), Precision::float32);
    HostTensor input = noise(8);
    const TensorView view = input.view();
    Session session = engine.make_session().value();
    const auto outputs = session.run({&view, 1}).value();
    const auto scores = outputs.at(0).as<float>();
    std::vector<std::int64_t> labels;
    for (std::size_t i = 0; i < 8; ++i) {
        const auto row = scores.subspan(i * 5, 5);
        labels.push_back(std::max_element(row.begin(), row.end()) - row.begin());
    }
    labels[0] = (labels[0] + 1) % 5; // one wrong of eight
    const auto result = evaluate_engine(engine, Data({input}, labels));
    ASSERT_TRUE(result) << result.error().describe();
    ASSERT_TRUE(result->top1);
    EXPECT_DOUBLE_EQ(result->top1->value, 7.0 / 8);
    EXPECT_LT(result->top1->low, 7.0 / 8);
    EXPECT_DOUBLE_EQ(result->top5->value, 1);

    const auto both = compare_engines(engine, engine, Data({input}, labels));
    ASSERT_TRUE(both && both->top1_delta && both->p_value);
    EXPECT_EQ(both->top1_delta->value, 0);
    EXPECT_EQ(*both->p_value, 1);

    EXPECT_EQ(evaluate_engine(engine, Data({input})).error().code, ErrorCode::invalid_argument);
    labels[3] = 5;
    EXPECT_EQ(evaluate_engine(engine, Data({input}, labels)).error().code, ErrorCode::out_of_range);
    labels[3] = 4;
    EXPECT_EQ(evaluate_engine(engine, Data({input}, labels), {.output_name = "absent"}).error().code,
              ErrorCode::not_found);
}

} // namespace
} // namespace lathe
