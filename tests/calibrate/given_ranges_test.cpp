// Calibration caches of TensorRT and JSON of dynamic ranges: the files in caches/, written by hand in the forms that
// TensorRT 5 to 10, its converters and TAO give them.

#include "calibrate/given_ranges.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/files.hpp"
#include "support_lib/command.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

using ::testing::HasSubstr;

std::filesystem::path cache(const std::string& name) { return test::source_path("tests/calibrate/caches/" + name); }

struct Good {
    const char* file;
    const char* header;
    std::size_t tensors;
    const char* name; ///< one of them
    Range range;
};

/// 3c010a14 is 0.0078759380...: times 127, 1.0002441.
const std::vector<Good>& good_files() {
    constexpr float one = 1.0002441F;
    static const std::vector<Good> files{
        {"trt8601_entropy2.cache", "TRT-8601-EntropyCalibration2", 5, "input", {-one, one}},
        {"trt7103_minmax.cache", "TRT-7103-MinMaxCalibration", 3, "fc1_1", {-1270.0F, 1270.0F}},
        {"trt5105_legacy.cache", "TRT-5105-LegacyCalibration", 3, "prob", {-1.0561367F, 1.0561367F}},
        {"trt100300_entropy.cache", "TRT-100300-EntropyCalibration", 3, "output0", {-641.74005F, 641.74005F}},
        {"trt8205_unnamed_layers.cache",
         "TRT-8205-EntropyCalibration2",
         4,
         "(Unnamed Layer* 4) [ElementWise]_output",
         {-8.89F, 8.89F}},
        {"trt101303_entropy2.cache",
         "TRT-101303-EntropyCalibration2",
         6,
         "/stem/conv/Conv_output_0",
         {-11.049F, 11.049F}},
        {"crlf.cache", "TRT-8401-EntropyCalibration2", 2, "input", {-one, one}},
        {"names_with_colons_and_spaces.cache",
         "TRT-8503-EntropyCalibration2",
         5,
         "model/conv 1/Relu: out:0",
         {-4.9371247F, 4.9371247F}},
        {"zero_scales.cache", "TRT-8601-EntropyCalibration2", 3, "also_dead", {0.0F, 0.0F}},
        {"upper_case_no_final_newline.cache", "TRT-8601-EntropyCalibration2", 2, "x", {-one, one}},
        {"converter_header.cache", "TRT-8XXX-MinMaxCalibration", 1, "x", {-one, one}},
        {"magnitudes.json", "", 3, "/conv1/Conv_output_0", {-4.9375F, 4.9375F}},
        {"min_max.json", "", 3, "relu", {0.0F, 6.0F}},
        {"pairs.json", "", 2, "relu", {0.0F, 6.0F}},
        {"tao.json", "", 2, "Input", {-152.32F, 152.32F}},
        {"wrapped.json", "", 2, "y", {-3.0F, 1.0F}},
        {"nested_with_mixed_forms.json", "", 4, "/stem/conv/Conv_output_0", {-11.25F, 7.5F}},
    };
    return files;
}

struct Broken {
    const char* file;
    const char* where; ///< in the error
    const char* message;
};

const std::vector<Broken>& broken_files() {
    static const std::vector<Broken> files{
        {"broken_no_header.cache", "line 1", "begins with \"input: 3c010a14\""},
        {"broken_header_without_algorithm.cache", "line 1", "TRT-VERSION-ALGORITHM"},
        {"broken_cut_off.cache", "line 3", "/conv1/Conv_output_0 has 3 digits instead of 8"},
        {"broken_cut_off_in_name.cache", "line 3", "there is no colon"},
        {"broken_not_hexadecimal.cache", "line 3", "0.0078740"},
        {"broken_long_scale.cache", "line 2", "no hexadecimal scale of 32 bits"},
        {"broken_no_name.cache", "line 3", "name is missing"},
        {"broken_negative.cache", "line 3", "the scale of conv is -0.0388"},
        {"broken_nan.cache", "line 2", "the scale of input is nan"},
        {"broken_infinite.cache", "line 3", "the scale of conv is inf"},
        {"broken_little_endian.cache", "line 4", "big-endian"},
        {"broken_twice.cache", "line 4", "named in line 2 already"},
        {"broken_empty.cache", "line 1", "no TensorRT calibration cache"},
        {"broken_only_header.cache", "line 1", "names no tensor"},
        {"broken_binary.cache", "line 3", "no text"},
        {"broken_cut_off.json", "broken_cut_off.json", "not valid JSON"},
        {"broken_text.json", "tensor conv", "this string is no range"},
        {"broken_upside_down.json", "tensor conv", "above the greatest"},
        {"broken_negative.json", "tensor conv", "magnitude is negative"},
        {"broken_three_numbers.json", "tensor conv", "no range"},
        {"broken_no_tensor.json", "broken_no_tensor.json", "names no tensor"},
    };
    return files;
}

TEST(GivenRanges, EveryGoodFileIsRead) {
    for (const Good& good : good_files()) {
        const auto read = load_given_ranges(cache(good.file));
        ASSERT_TRUE(read) << good.file << ": " << read.error().describe();
        ASSERT_TRUE(*read) << good.file;
        EXPECT_EQ((*read)->cache_header, good.header) << good.file;
        ASSERT_EQ((*read)->tensors.size(), good.tensors) << good.file;
        const auto found = std::ranges::find((*read)->tensors, good.name, &GivenRange::name);
        ASSERT_NE(found, (*read)->tensors.end()) << good.file;
        EXPECT_FLOAT_EQ(found->range.low, good.range.low) << good.file;
        EXPECT_FLOAT_EQ(found->range.high, good.range.high) << good.file;
    }
}

TEST(GivenRanges, EveryBrokenFileIsRefusedWithItsLine) {
    for (const Broken& broken : broken_files()) {
        const auto read = load_given_ranges(cache(broken.file));
        ASSERT_FALSE(read) << broken.file;
        EXPECT_EQ(read.error().code, ErrorCode::parse_error) << broken.file;
        const std::string told = read.error().describe();
        EXPECT_THAT(told, HasSubstr(broken.where)) << broken.file;
        EXPECT_THAT(told, HasSubstr(broken.message)) << broken.file;
        EXPECT_THAT(told, HasSubstr(broken.file));
    }
}

TEST(GivenRanges, NoFileOfTheFolderIsForgotten) {
    std::set<std::string> listed;
    for (const Good& good : good_files())
        listed.insert(good.file);
    for (const Broken& broken : broken_files())
        listed.insert(broken.file);
    std::set<std::string> present;
    for (const auto& entry : std::filesystem::directory_iterator(cache("")))
        present.insert(entry.path().filename().string());
    EXPECT_EQ(listed, present);
}

TEST(GivenRanges, AZeroInsideIsKept) {
    const auto read = load_given_ranges(cache("min_max.json"));
    ASSERT_TRUE(read);
    const auto far = std::ranges::find((*read)->tensors, "far", &GivenRange::name); // 2 .. 3
    EXPECT_EQ(far->range, (Range{0.0F, 3.0F}));
}

TEST(GivenRanges, ARangesFileOfLatheIsNotOne) {
    const test::TemporaryFolder folder;
    RangesFile ranges;
    ASSERT_TRUE(save_ranges(folder / "m.ranges", ranges));
    const auto read = load_given_ranges(folder / "m.ranges");
    ASSERT_TRUE(read) << read.error().describe();
    EXPECT_FALSE(*read);
}

TEST(GivenRanges, CacheRoundTrip) {
    std::mt19937 random(5);
    std::uniform_real_distribution<float> exponent(-20.0F, 20.0F);
    GivenRanges given;
    for (int i = 0; i < 2000; ++i) {
        const float magnitude = std::exp2(exponent(random));
        given.tensors.push_back({"a name: with " + std::to_string(i), {-magnitude, magnitude}, 0});
    }
    given.tensors.push_back({"zeros", {0.0F, 0.0F}, 0});
    const auto text = print_tensorrt_cache(given, {"8601", "MinMaxCalibration"});
    ASSERT_TRUE(text);
    EXPECT_TRUE(text->starts_with("TRT-8601-MinMaxCalibration\n"));
    const auto read = parse_tensorrt_cache(*text, "cache");
    ASSERT_TRUE(read) << read.error().describe();
    ASSERT_EQ(read->tensors.size(), given.tensors.size());
    for (std::size_t i = 0; i + 1 < given.tensors.size(); ++i) {
        EXPECT_EQ(read->tensors[i].name, given.tensors[i].name);
        EXPECT_FLOAT_EQ(read->tensors[i].range.high, given.tensors[i].range.high);
    }
    // What was read writes the same bits: the way back and forth settles at once.
    const auto again = print_tensorrt_cache(*read, {"8601", "MinMaxCalibration"});
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, *text);
}

TEST(GivenRanges, JsonRoundTrip) {
    const auto read = load_given_ranges(cache("magnitudes.json"));
    ASSERT_TRUE(read);
    const auto again = parse_dynamic_ranges(print_dynamic_ranges(**read), "again");
    ASSERT_TRUE(again) << again.error().describe();
    ASSERT_EQ(again->tensors.size(), (*read)->tensors.size());
    for (std::size_t i = 0; i < again->tensors.size(); ++i)
        EXPECT_EQ(again->tensors[i].range, (*read)->tensors[i].range);
}

TEST(GivenRanges, NamesThatNoLineHoldsAreRefused) {
    GivenRanges given;
    given.tensors.push_back({"two\nlines", {-1.0F, 1.0F}, 0});
    EXPECT_FALSE(print_tensorrt_cache(given, {}));
}

TEST(GivenRanges, Versions) {
    for (const auto& [text, header] :
         {std::pair{"8.6.1", "8601"}, std::pair{"8.5.3.1", "8503"}, std::pair{"10.3.0", "100300"},
          std::pair{"10.13", "101300"}, std::pair{"8601", "8601"}, std::pair{"100300", "100300"}}) {
        const auto version = cache_version(text);
        ASSERT_TRUE(version) << text;
        EXPECT_EQ(*version, header);
    }
    for (const char* text :
         {"", "eight", "8.x", "11.0.0", "110000", "8.6.1.6.1", "-8.1", "8.", "999999999.1", "8.1.100"})
        EXPECT_FALSE(cache_version(text)) << text;
}

} // namespace
} // namespace lathe
