// `lathe calibrate` as a user runs it, on a model of a few lines and arrays made here.

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "calibrate/ranges_file.hpp"
#include "data/npy.hpp"
#include "graph/text.hpp"
#include "onnx/onnx.hpp"
#include "support/files.hpp"
#include "support_lib/command.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

using test::CommandResult;

constexpr const char* command_model_text = R"(opset 18
input %x: float32[N, 4, 6, 6]
const %w: float32[4, 4, 1, 1] = {1, 2, 3, 4, -1, -2, -3, -4, 0.5, 0.25, 0, 1, 3, -3, 3, -3}
%y = Conv(%x, %w)
%z = Relu(%y)
%p = GlobalAveragePool(%z)
output %p: float32[N, 4, 1, 1]
)";

class CalibrateCommand : public ::testing::Test {
protected:
    void SetUp() override {
        write_model("m.onnx", command_model_text);
        write_data("d.npy", 40, 1);
    }

    std::string path(const std::string& name) const { return (folder_ / name).string(); }

    void write_model(const std::string& name, const std::string& text) {
        auto model = parse_graph_text(text);
        ASSERT_TRUE(model) << model.error().describe();
        model->ir_version = 9;
        ASSERT_TRUE(save_onnx(*model, path(name)));
    }

    void write_data(const std::string& name, std::size_t samples, std::uint32_t seed) {
        HostTensor values(name, DataType::float32, {static_cast<std::int64_t>(samples), 4, 6, 6});
        std::mt19937 random(seed);
        std::normal_distribution<float> normal;
        for (float& value : values.as<float>())
            value = normal(random);
        ASSERT_TRUE(write_npy(path(name), values.view()));
    }

    CommandResult calibrate(const std::string& options, const std::string& model = "m.onnx",
                            const std::string& data = "d.npy") const {
        return test::run_command(test::lathe_binary() + " calibrate " + path(model) + " --data " + path(data) + " " +
                                 options);
    }
    std::string to(const std::string& name) const { return " --output " + path(name); }

    std::string read(const std::string& name) const {
        auto text = read_text_file(path(name));
        EXPECT_TRUE(text);
        return text ? *text : "";
    }

    void expect_refusal(const CommandResult& result, int code, const std::string& words) const {
        EXPECT_EQ(result.exit_code, code) << result.errors;
        EXPECT_NE(result.errors.find(words), std::string::npos) << result.errors;
    }

private:
    test::TemporaryFolder folder_;
};

TEST_F(CalibrateCommand, WritesWhatTheLibraryReads) {
    const CommandResult result = calibrate(to("m.ranges"));
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    const auto ranges = load_ranges(path("m.ranges"));
    ASSERT_TRUE(ranges) << ranges.error().describe();
    EXPECT_EQ(ranges->method, Method::mse);
    EXPECT_EQ(ranges->samples_seen, 40U);
    const TensorRange* input = ranges->find("x");
    ASSERT_NE(input, nullptr);
    EXPECT_EQ(input->histogram.count(), 40U * 4 * 6 * 6);
    const auto model = load_onnx(path("m.onnx"));
    ASSERT_TRUE(model);
    EXPECT_TRUE(validate_ranges(*ranges, *model));
}

TEST_F(CalibrateCommand, NamesTheFileAfterTheModel) {
    ASSERT_EQ(calibrate("").exit_code, 0);
    EXPECT_TRUE(load_ranges(path("m.ranges")));
}

TEST_F(CalibrateCommand, BatchSizeAndThreadsChangeNothing) {
    ASSERT_EQ(calibrate(to("a.ranges")).exit_code, 0);
    for (const char* options : {"--batch-size 7", "--batch-size 40", "--threads 1", "--threads 2 --batch-size 3"}) {
        ASSERT_EQ(calibrate(options + to("b.ranges") + " --force").exit_code, 0);
        EXPECT_EQ(read("b.ranges"), read("a.ranges")) << options;
    }
}

TEST_F(CalibrateCommand, ReusesAValidFile) {
    ASSERT_EQ(calibrate(to("m.ranges")).exit_code, 0);
    const std::string first = read("m.ranges");
    const CommandResult again = calibrate(to("m.ranges"));
    EXPECT_EQ(again.exit_code, 0);
    EXPECT_NE(again.output.find("Reusing"), std::string::npos) << again.output;
    EXPECT_EQ(read("m.ranges"), first);

    // A given number of samples serves another method too; which ones are read until the ranges settle depends on it.
    ASSERT_EQ(calibrate("--samples 40 --force" + to("m.ranges")).exit_code, 0);
    const CommandResult other = calibrate("--samples 40 --method percentile --percentile 99" + to("m.ranges"));
    EXPECT_EQ(other.exit_code, 0);
    EXPECT_NE(other.output.find("percentile instead of mse"), std::string::npos) << other.output;
    ASSERT_EQ(calibrate("--samples 40 --method percentile --percentile 99" + to("anew.ranges")).exit_code, 0);
    EXPECT_EQ(read("m.ranges"), read("anew.ranges"));

    ASSERT_EQ(calibrate("--force" + to("m.ranges")).exit_code, 0);
    const CommandResult anew = calibrate("--method minmax" + to("m.ranges"));
    EXPECT_EQ(anew.exit_code, 0);
    EXPECT_EQ(anew.output.find("Reusing"), std::string::npos) << anew.output;
    ASSERT_EQ(calibrate("--method minmax" + to("anew.ranges") + " --force").exit_code, 0);
    EXPECT_EQ(read("m.ranges"), read("anew.ranges"));
}

TEST_F(CalibrateCommand, ReadsUntilTheRangesSettle) {
    HostTensor values("d", DataType::float32, {200, 4, 6, 6}); // the same in every sample
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<float> one(144);
    for (float& value : one)
        value = normal(random);
    for (std::size_t i = 0; i < values.as<float>().size(); ++i)
        values.as<float>()[i] = one[i % one.size()];
    ASSERT_TRUE(write_npy(path("same.npy"), values.view()));

    const CommandResult result = calibrate("--explain" + to("m.ranges"), "m.onnx", "same.npy");
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_NE(result.output.find("Read 32 of 200 samples; the last 16 changed"), std::string::npos) << result.output;
    EXPECT_NE(result.output.find("noise changed by"), std::string::npos) << result.output;
    const auto ranges = load_ranges(path("m.ranges"));
    ASSERT_TRUE(ranges);
    EXPECT_EQ(ranges->samples_seen, 32U);

    const CommandResult json = calibrate("--json" + to("j.ranges"), "m.onnx", "same.npy");
    const auto document = parse_json(json.output, "output");
    ASSERT_TRUE(document) << json.output;
    EXPECT_EQ((*document)["samples"], 32);
    EXPECT_EQ((*document)["convergence"]["available"], 200);
    EXPECT_TRUE((*document)["convergence"]["settled"].get<bool>());

    // A number that is given is kept, and neither passes for the other.
    expect_refusal(calibrate("--samples 200" + to("m.ranges"), "m.onnx", "same.npy"), 3, "--samples auto");
    ASSERT_EQ(calibrate("--samples 200 --force" + to("m.ranges"), "m.onnx", "same.npy").exit_code, 0);
    EXPECT_EQ(load_ranges(path("m.ranges"))->samples_seen, 200U);
    EXPECT_EQ(read("m.ranges").find("convergence"), std::string::npos);
    expect_refusal(calibrate(to("m.ranges"), "m.onnx", "same.npy"), 3, "not until they settle");
    expect_refusal(calibrate("--samples some" + to("m.ranges"), "m.onnx", "same.npy"), 2, "--samples");
    expect_refusal(calibrate("--samples -3" + to("m.ranges"), "m.onnx", "same.npy"), 2, "--samples");
    // Extremes for casting to 16 bits go on growing: all samples.
    ASSERT_EQ(calibrate("--all-tensors" + to("all.ranges"), "m.onnx", "same.npy").exit_code, 0);
    EXPECT_EQ(load_ranges(path("all.ranges"))->samples_seen, 200U);
}

TEST_F(CalibrateCommand, RefusesAFileThatDoesNotBelong) {
    ASSERT_EQ(calibrate(to("m.ranges")).exit_code, 0);
    const std::string before = read("m.ranges");
    write_data("e.npy", 40, 2);
    std::string changed = command_model_text;
    write_model("n.onnx", changed.replace(changed.find("0.25"), 4, "0.75"));

    expect_refusal(calibrate(to("m.ranges"), "m.onnx", "e.npy"), 3, "other data");
    expect_refusal(calibrate(to("m.ranges"), "n.onnx"), 3, "another model");
    expect_refusal(calibrate("--samples 33" + to("m.ranges")), 3, "samples");
    expect_refusal(calibrate(to("m.ranges"), "n.onnx"), 3, "--force");
    EXPECT_EQ(read("m.ranges"), before);

    EXPECT_EQ(calibrate("--force" + to("m.ranges"), "n.onnx").exit_code, 0);
    EXPECT_NE(read("m.ranges"), before);
}

TEST_F(CalibrateCommand, RefusesADamagedFile) {
    ASSERT_EQ(calibrate(to("m.ranges")).exit_code, 0);
    const std::string good = read("m.ranges");
    ASSERT_TRUE(write_file(path("m.ranges"), std::string_view(good).substr(0, good.size() / 2)));
    expect_refusal(calibrate(to("m.ranges")), 3, "truncated or damaged");
    ASSERT_TRUE(write_file(path("m.ranges"), std::string_view("my notes")));
    expect_refusal(calibrate(to("m.ranges")), 3, "not a ranges file");
    EXPECT_EQ(read("m.ranges"), "my notes");
}

TEST_F(CalibrateCommand, RefusesBadInput) {
    std::string text = command_model_text;
    auto model = parse_graph_text(text);
    ASSERT_TRUE(model);
    std::vector<float> weights(16, 1.0F);
    weights[3] = std::numeric_limits<float>::quiet_NaN();
    model->graph.initializers["w"] = Tensor::of_floats("w", {4, 4, 1, 1}, weights);
    model->ir_version = 9;
    ASSERT_TRUE(save_onnx(*model, path("nan.onnx")));
    expect_refusal(calibrate(to("m.ranges"), "nan.onnx"), 3, "w");
    expect_refusal(calibrate(to("m.ranges"), "nan.onnx"), 3, "NaN");

    expect_refusal(calibrate("--method magic" + to("m.ranges")), 2, "minmax, percentile, entropy, mse");
    expect_refusal(calibrate("--percentile 101" + to("m.ranges")), 2, "percentile");
    expect_refusal(calibrate(to("m.ranges"), "m.onnx", "absent.npy"), 3, "absent.npy");
    expect_refusal(calibrate(to("m.ranges"), "absent.onnx"), 3, "absent.onnx");
    EXPECT_NE(calibrate(" --output /nonexistent/m.ranges").exit_code, 0);
    write_model("relu.onnx",
                "opset 18\ninput %x: float32[N, 4, 6, 6]\n%y = Relu(%x)\noutput %y: float32[N, 4, 6, 6]\n");
    expect_refusal(calibrate(to("m.ranges"), "relu.onnx"), 2, "nothing in this model to calibrate");
    EXPECT_FALSE(std::filesystem::exists(path("m.ranges")));
}

TEST_F(CalibrateCommand, AFixedBatchIsRunWhole) {
    std::string text = command_model_text;
    for (std::size_t at = text.find("[N,"); at != std::string::npos; at = text.find("[N,"))
        text.replace(at, 3, "[16,");
    write_model("fixed.onnx", text);
    const CommandResult result = calibrate(to("m.ranges"), "fixed.onnx");
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    const auto ranges = load_ranges(path("m.ranges"));
    ASSERT_TRUE(ranges);
    EXPECT_EQ(ranges->samples_seen, 32U);
    expect_refusal(calibrate("--batch-size 5 --force" + to("m.ranges"), "fixed.onnx"), 2, "fixed at 16");
}

TEST_F(CalibrateCommand, JsonIsTheReportsCalibration) {
    const CommandResult result = calibrate("--json --method entropy" + to("m.ranges"));
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    const auto json = parse_json(result.output, "output");
    ASSERT_TRUE(json) << result.output;
    EXPECT_EQ((*json)["kind"], "calibration");
    EXPECT_EQ((*json)["method"], "entropy");
    EXPECT_EQ((*json)["samples"], 40);
    EXPECT_FALSE((*json)["reused"].get<bool>());
    EXPECT_GT((*json)["tensors"].size(), 0U);
}

TEST_F(CalibrateCommand, ARangeThatThrowsTheSignalAwayIsToldAndReplaced) {
    // Channels that always hold one value, as dead ones do, among others: entropy keeps the least of them only.
    HostTensor values("d", DataType::float32, {40, 4, 6, 6});
    std::mt19937 random(6);
    std::exponential_distribution<float> others(0.7F);
    constexpr std::array spikes{0.33F, 0.693F, 3.05F};
    std::size_t i = 0;
    for (float& value : values.as<float>()) {
        const float other = std::min(6.0F, others(random));
        const std::size_t kind = i++ % 20;
        value = kind < 9 ? spikes.at(kind / 3) : other;
    }
    ASSERT_TRUE(write_npy(path("spiked.npy"), values.view()));
    const auto high_of_input = [&] {
        const auto ranges = load_ranges(path("m.ranges"));
        EXPECT_TRUE(ranges);
        return ranges ? ranges->find("x")->uint8.high : 0.0F;
    };

    const CommandResult guarded = calibrate("--samples 0 --method entropy" + to("m.ranges"), "m.onnx", "spiked.npy");
    ASSERT_EQ(guarded.exit_code, 0) << guarded.errors;
    EXPECT_NE(guarded.errors.find("collapsed_range (x): entropy clips"), std::string::npos) << guarded.errors;
    EXPECT_NE(guarded.errors.find("--method mse"), std::string::npos) << guarded.errors;
    EXPECT_NE(guarded.output.find("entropy (mse for 1 tensor)"), std::string::npos) << guarded.output;
    EXPECT_GT(high_of_input(), 5.9F);

    const CommandResult textbook =
        calibrate("--samples 0 --method entropy --no-guard" + to("m.ranges"), "m.onnx", "spiked.npy");
    ASSERT_EQ(textbook.exit_code, 0) << textbook.errors;
    EXPECT_NE(textbook.errors.find("may ruin the network"), std::string::npos) << textbook.errors;
    EXPECT_NE(textbook.output.find("without the guard"), std::string::npos) << textbook.output;
    EXPECT_LT(high_of_input(), 3.0F);

    const CommandResult json =
        calibrate("--samples 0 --json --method entropy" + to("m.ranges"), "m.onnx", "spiked.npy");
    const auto document = parse_json(json.output, "output");
    ASSERT_TRUE(document) << json.output;
    EXPECT_TRUE((*document)["guard"].get<bool>());
    const auto& findings = (*document)["findings"];
    EXPECT_TRUE(std::any_of(findings.begin(), findings.end(), [](const Json& finding) {
        return finding["name"] == "collapsed_range" && finding["tensor"] == "x" && finding["severity"] == "warning";
    })) << findings.dump();
    for (const Json& tensor : (*document)["tensors"])
        EXPECT_EQ(tensor["fallback"].get<bool>(), tensor["name"] == "x") << tensor["name"];

    EXPECT_EQ(
        calibrate("--samples 0 --method mse" + to("m.ranges"), "m.onnx", "spiked.npy").errors.find("collapsed_range"),
        std::string::npos);
}

TEST_F(CalibrateCommand, WarnsOfTooFewSamples) {
    write_data("few.npy", 4, 3);
    const CommandResult result = calibrate(to("m.ranges"), "m.onnx", "few.npy");
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_NE(result.errors.find("too_few_samples"), std::string::npos) << result.errors;
    // Reusing the file says it again.
    EXPECT_NE(calibrate(to("m.ranges"), "m.onnx", "few.npy").errors.find("too_few_samples"), std::string::npos);
}

} // namespace
} // namespace lathe
