// Tensors of real photos against torchvision's transforms on Pillow's pictures: they must be the same, bit for bit.

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "data/npy.hpp"
#include "data/open_dataset.hpp"
#include "support/files.hpp"
#include "support_lib/command.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

struct TorchvisionCase {
    const char* name;
    const char* folder;
    const char* preprocess;
};

/// GoogleTest names a parameter by this.
void PrintTo(const TorchvisionCase& c, std::ostream* out) { *out << c.name; }

class Torchvision : public testing::TestWithParam<TorchvisionCase> {};

TEST_P(Torchvision, TensorsAreTheSame) {
    const char* python = std::getenv("LATHE_PYTHON");
    if (python == nullptr) GTEST_SKIP() << "SKIPPED: LATHE_PYTHON names no Python with torchvision";
    const std::filesystem::path folder = test::shared_data(GetParam().folder);
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << "SKIPPED: no " << folder;
    const auto json = parse_json(GetParam().preprocess, "test");
    ASSERT_TRUE(json);
    const auto preprocess = Preprocess::from_json(*json, "test");
    ASSERT_TRUE(preprocess) << preprocess.error().describe();
    Shape shape = preprocess->output_shape();
    const auto dataset = open_dataset(folder, *preprocess, {{"images", DataType::float32, shape}}, {60, 0, {}});
    ASSERT_TRUE(dataset) << dataset.error().describe();
    auto batch = (*dataset)->next(60);
    ASSERT_TRUE(batch) << batch.error().describe();

    const test::TemporaryFolder temporary;
    ASSERT_TRUE(write_npz(temporary / "ours.npz", std::vector{(*batch)->inputs[0].view()}));
    ASSERT_TRUE(write_file(temporary / "preprocess.json", GetParam().preprocess));
    std::string names;
    for (const std::string& name : (*batch)->names)
        names += (folder / name).string() + "\n";
    ASSERT_TRUE(write_file(temporary / "names.txt", names));
    const auto result =
        test::run_command(std::string(python) + " " + test::source_path("tests/data/torchvision_parity.py") + " " +
                          temporary.path().string());
    if (result.exit_code == 77) GTEST_SKIP() << "SKIPPED: " << result.errors;
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(result.output, "60 samples, largest difference 0\n");
}

INSTANTIATE_TEST_SUITE_P(
    Models, Torchvision,
    testing::Values(TorchvisionCase{"ResnetTinyImagenet", "tiny-imagenet/validation",
                                    R"({"resize": [224, 224], "interpolation": "bilinear", "scale": 0.00392156862745098,
                             "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]})"},
                    TorchvisionCase{"Lite0", "imagenet/validation",
                                    R"({"resize": {"short_side": 256}, "crop": [224, 224], "interpolation": "bicubic",
                             "scale": 1, "mean": [127, 127, 127], "std": [128, 128, 128]})"},
                    TorchvisionCase{"BilinearShortSide", "imagenet/calibration",
                                    R"({"resize": {"short_side": 232}, "crop": [224, 224], "interpolation": "bilinear",
                             "scale": 0.00392156862745098, "mean": [0.5, 0.5, 0.5], "std": [0.25, 0.5, 0.75],
                             "layout": "NHWC", "color": "BGR"})"},
                    TorchvisionCase{"CropWiderThanThePicture", "tiny-imagenet/calibration",
                                    R"({"crop": [72, 60], "scale": 0.00392156862745098})"}),
    [](const auto& info) { return info.param.name; });

} // namespace
} // namespace lathe
