#include "calibrate/ranges_file.hpp"

#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "calibrate/model_key.hpp"
#include "calibrate/report.hpp"
#include "graph/text.hpp"
#include "samples.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"
#include "support_lib/command.hpp"

namespace lathe {
namespace {

RangesFile sample_ranges(Method method = Method::entropy) {
    ActivationStatistics statistics;
    statistics.samples = 290;
    for (const auto& samples : test::all_samples())
        statistics.tensors.push_back({"tensor \"" + samples.name + "\"", test::histogram_of(samples.values)});
    RangesFile ranges =
        make_ranges(std::move(statistics), {"model-key", "data-digest", R"({"scale":1})", 300}, method, {});
    ranges.findings = {{"dead_activation", "t", "always zero", FindingSeverity::warning},
                       {"duplicates", "", "two are the same", FindingSeverity::information}};
    return ranges;
}

std::string saved_text(const RangesFile& ranges) {
    const test::TemporaryFolder folder;
    EXPECT_TRUE(save_ranges(folder / "m.ranges", ranges));
    auto text = read_text_file(folder / "m.ranges");
    EXPECT_TRUE(text);
    return text ? *text : "";
}

/// The file with its checksum made right again after an edit: the reader must then find the fault itself.
std::string resealed(std::string text) {
    const std::size_t line = text.find('\n');
    const std::string digest = hash_hex(std::as_bytes(std::span(text).subspan(line + 1)));
    const std::size_t at = text.find("\"checksum\":\"") + 12;
    return text.replace(at, digest.size(), digest);
}

TEST(RangesFile, OfBeforeThereWasAGuardHasItsMethodsRanges) {
    for (const Method method : {Method::minmax, Method::percentile, Method::entropy, Method::mse}) {
        std::string text = saved_text(sample_ranges(method));
        const std::string member = "\"guard\":true,\n";
        ASSERT_NE(text.find(member), std::string::npos);
        const auto ranges = parse_ranges(resealed(text.erase(text.find(member), member.size())), "m.ranges");
        ASSERT_TRUE(ranges) << ranges.error().describe();
        EXPECT_EQ(ranges->options.guard, method == Method::minmax || method == Method::mse) << to_string(method);
    }
}

TEST(RangesFile, ComesBackAsItWasWritten) {
    const RangesFile ranges = sample_ranges();
    const auto again = parse_ranges(saved_text(ranges), "m.ranges");
    ASSERT_TRUE(again) << again.error().describe();
    EXPECT_EQ(again->key.model, ranges.key.model);
    EXPECT_EQ(again->key.data, ranges.key.data);
    EXPECT_EQ(again->key.preprocess, ranges.key.preprocess);
    EXPECT_EQ(again->key.samples, 300U);
    EXPECT_EQ(again->samples_seen, 290U);
    EXPECT_EQ(again->method, Method::entropy);
    EXPECT_EQ(again->options.percentile, 99.99);
    ASSERT_EQ(again->tensors.size(), ranges.tensors.size());
    for (std::size_t i = 0; i < ranges.tensors.size(); ++i) {
        EXPECT_EQ(again->tensors[i].name, ranges.tensors[i].name);
        EXPECT_TRUE(again->tensors[i].histogram == ranges.tensors[i].histogram) << ranges.tensors[i].name;
        EXPECT_EQ(again->tensors[i].uint8, ranges.tensors[i].uint8);
        EXPECT_EQ(again->tensors[i].int8, ranges.tensors[i].int8);
    }
    ASSERT_EQ(again->findings.size(), 2U);
    EXPECT_EQ(again->findings[0].tensor, "t");
    EXPECT_EQ(again->findings[1].severity, FindingSeverity::information);
    EXPECT_EQ(saved_text(*again), saved_text(ranges));
}

TEST(RangesFile, ReestimatingEqualsCalibratingAnew) {
    RangesFile ranges = sample_ranges(Method::minmax);
    reestimate(ranges, Method::mse, {}, 2);
    EXPECT_EQ(saved_text(ranges), saved_text(sample_ranges(Method::mse)));
}

TEST(RangesFile, RangeIsTheMethodsForAnyFormat) {
    const RangesFile ranges = sample_ranges();
    const TensorRange* tensor = ranges.find("tensor \"normal\"");
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(ranges.range(*tensor, NumberFormat::uint8()), tensor->uint8);
    EXPECT_EQ(ranges.range(*tensor, NumberFormat::int8()), tensor->int8);
    const NumberFormat seven_bits{true, 127};
    EXPECT_EQ(ranges.range(*tensor, seven_bits), estimate(tensor->histogram, Method::entropy, seven_bits));
    EXPECT_EQ(ranges.find("absent"), nullptr);
}

TEST(RangesFile, EveryTruncationIsAnError) {
    const std::string text = saved_text(sample_ranges());
    for (std::size_t size = 0; size < text.size(); size += 1 + size / 50) {
        const auto result = parse_ranges(std::string_view(text).substr(0, size), "m.ranges");
        ASSERT_FALSE(result) << size;
        EXPECT_TRUE(result.error().code == ErrorCode::corrupt || result.error().code == ErrorCode::parse_error);
    }
}

TEST(RangesFile, AnyChangedByteIsNoticed) {
    const std::string text = saved_text(sample_ranges());
    const auto seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const std::size_t body = text.find('\n') + 1;
    for (int i = 0; i < 100; ++i) {
        std::string changed = text;
        const std::size_t at = body + random() % (text.size() - body);
        changed[at] = static_cast<char>(changed[at] ^ (1 << (random() % 7)));
        EXPECT_FALSE(parse_ranges(changed, "m.ranges")) << at;
    }
}

TEST(RangesFile, HostileContentIsAnError) {
    ActivationStatistics statistics;
    statistics.samples = 1;
    statistics.tensors.push_back({"t", test::histogram_of({0.0F, 1.0F, 0.75F})});
    const std::string good = saved_text(make_ranges(std::move(statistics), {"m", "d", "", 1}, Method::minmax, {}));
    ASSERT_TRUE(parse_ranges(resealed(good), "m.ranges"));
    struct Case {
        const char* name;
        std::string from;
        std::string to;
    };
    const std::vector<Case> cases{
        {"count beyond 64 bits", "\"zeros\":1", "\"zeros\":99999999999999999999999"},
        {"count near 2^64", "\"zeros\":1", "\"zeros\":18446744073709551615"},
        {"negative count", "\"zeros\":1", "\"zeros\":-1"},
        {"fractional count", "\"zeros\":1", "\"zeros\":1.5"},
        {"missing count", "\"zeros\":1", "\"noughts\":1"},
        {"text for a number", "\"min\":0.0", "\"min\":\"0\""},
        {"null for a number", "\"max\":1.0", "\"max\":null"},
        {"not a float", "\"max\":1.0", "\"max\":1.00000000001"},
        {"beyond float", "\"max\":1.0", "\"max\":1e300"},
        {"beyond double", "\"max\":1.0", "\"max\":1e400"},
        {"NaN", "\"max\":1.0", "\"max\":NaN"},
        {"another exponent", "\"exponent\":-11", "\"exponent\":-10"},
        {"huge exponent", "\"exponent\":-11", "\"exponent\":9223372036854775807"},
        {"huge run of empty bins", "\"counts\":[-", "\"counts\":[-9223372036854775807,-"},
        {"runs past the end", "\"counts\":[-", "\"counts\":[-8192,-8192,-"},
        {"counts of another kind", "\"counts\":[-", "\"counts\":[[],-"},
        {"first bin outside", "\"first\":0", "\"first\":5000"},
        {"low over zero", "\"uint8\":[0.0", "\"uint8\":[0.5"},
        {"three ends", "\"uint8\":[0.0", "\"uint8\":[0.0,0.0"},
        {"histogram of another kind", "\"histogram\":{", "\"histogram\":[],\"was\":{"},
        {"no tensors", "\"tensors\":[", "\"tenses\":["},
        {"tensors of another kind", "\"tensors\":[", "\"tensors\":[7,"},
        {"same tensor twice", "\"tensors\":[\n{\"name\":\"t\"", "\"tensors\":[\n{\"name\":\"u\",\"name\":7"},
        {"unknown method", "\"method\":\"minmax\"", "\"method\":\"magic\""},
        {"percentile over 100", "\"percentile\":99.99", "\"percentile\":100.5"},
        {"samples negative", "\"samples\":1", "\"samples\":-5"},
        {"samples missing", "\"samples_seen\":1", "\"samples_son\":1"},
        {"model of another kind", "\"model\":\"m\"", "\"model\":{}"},
        {"findings of another kind", "\"findings\":[", "\"findings\":[7,"},
        {"no findings", "\"findings\":[", "\"foundlings\":["},
        {"other version", "\"version\":1", "\"version\":2"},
        {"other kind", "\"kind\":\"ranges\"", "\"kind\":\"bench\""},
    };
    for (const Case& c : cases) {
        SCOPED_TRACE(c.name);
        std::string text = good;
        const std::size_t at = text.find(c.from);
        ASSERT_NE(at, std::string::npos) << text;
        const auto result = parse_ranges(resealed(text.replace(at, c.from.size(), c.to)), "m.ranges");
        ASSERT_FALSE(result);
        EXPECT_NE(result.error().describe().find("m.ranges"), std::string::npos) << result.error().describe();
    }
    std::string twice = good;
    const std::size_t line = twice.find("{\"name\":\"t\"");
    const std::string tensor = twice.substr(line, twice.find('\n', line) - line);
    const auto result = parse_ranges(resealed(twice.insert(line, tensor + ",\n")), "m.ranges");
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().describe().find("twice"), std::string::npos);
}

TEST(RangesFile, OtherFilesAreRecognised) {
    for (const char* text : {"", "hello", "[]", "{}", "42", "{\"kind\":\"eval\"}", "\x08\x01\x12\xff"}) {
        const auto result = parse_ranges(text, "x");
        ASSERT_FALSE(result) << text;
        EXPECT_EQ(result.error().code, ErrorCode::parse_error);
    }
    const auto deep = parse_ranges(std::string(100'000, '['), "x");
    EXPECT_FALSE(deep);
    const auto absent = load_ranges("/nonexistent/m.ranges");
    ASSERT_FALSE(absent);
    EXPECT_NE(absent.error().describe().find("m.ranges"), std::string::npos);
}

TEST(ValidateRanges, GivesTheReason) {
    const RangesFile ranges = sample_ranges();
    const RangesKey good = ranges.key;
    const std::vector<std::string> known{"tensor \"normal\""};
    EXPECT_TRUE(validate_ranges(ranges, good, known));
    EXPECT_TRUE(validate_ranges(ranges, {}, known));
    struct Case {
        const char* reason;
        RangesKey key;
    };
    const std::vector<Case> cases{
        {"another model", {"other", good.data, good.preprocess, 300}},
        {"other data", {good.model, "other", good.preprocess, 300}},
        {"other preprocessing", {good.model, "other", R"({"scale":2})", 300}},
        {"300 samples, not 100", {good.model, "other", good.preprocess, 100}},
    };
    for (const Case& c : cases) {
        const auto result = validate_ranges(ranges, c.key);
        ASSERT_FALSE(result) << c.reason;
        EXPECT_EQ(result.error().code, ErrorCode::mismatch);
        EXPECT_NE(result.error().message.find(c.reason), std::string::npos) << result.error().message;
        EXPECT_FALSE(result.error().hint.empty());
    }
    const std::vector<std::string> missing{"tensor \"normal\"", "conv1", "conv2"};
    const auto result = validate_ranges(ranges, good, missing);
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message.find("conv1, conv2"), std::string::npos);
}

constexpr const char* model_text = R"(opset 18
input %x: float32[N, 3]
const %w: float32[3, 2] = {1, 2, 3, 4, 5, 6}
%y = MatMul(%x, %w) {name = "first"}
%z = Relu(%y)
output %z: float32[N, 2]
)";

Model parsed(std::string text) {
    auto model = parse_graph_text(text);
    EXPECT_TRUE(model) << (model ? "" : model.error().describe());
    return model ? std::move(*model) : Model{};
}

std::string replaced(const std::string& from, const std::string& to) {
    std::string text = model_text;
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
        text.replace(at, from.size(), to);
    return text;
}

TEST(CalibrationKey, IgnoresWhatDoesNotMatter) {
    const std::string key = calibration_key(parsed(model_text));
    EXPECT_EQ(key.size(), 32U);
    EXPECT_EQ(calibration_key(parsed(model_text)), key);
    EXPECT_EQ(calibration_key(parsed(replaced("first", "renamed"))), key);
    EXPECT_EQ(calibration_key(parsed(replaced("[N,", "[batch,"))), key);
    Model model = parsed(model_text);
    model.doc = "words";
    model.producer_name = "exporter";
    model.set_metadata("lathe.labels", "[]");
    model.graph.doc = "more words";
    model.graph.name = "g";
    model.graph.nodes[0]->doc = "and more";
    model.graph.value_infos["y"] = ValueInfo{"y", DataType::float32, {}, "", {}, ""};
    EXPECT_EQ(calibration_key(model), key);
}

TEST(CalibrationKey, SeesWhatMatters) {
    const std::string key = calibration_key(parsed(model_text));
    for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
             {"5, 6", "5, 7"},
             {"Relu", "Sigmoid"},
             {"opset 18", "opset 17"},
             {"%y", "%other"},
             {"[N, 3]", "[1, 3]"},
             {"{name = \"first\"}", "{axis = 1}"},
         }) {
        EXPECT_NE(calibration_key(parsed(replaced(from, to))), key) << from << " to " << to;
    }
}

TEST(ValidateRanges, ForAModel) {
    const Model model = parsed(model_text);
    ActivationStatistics statistics;
    statistics.samples = 1;
    statistics.tensors.push_back({"x", test::histogram_of({1.0F})});
    statistics.tensors.push_back({"y", test::histogram_of({2.0F})});
    const RangesFile ranges =
        make_ranges(std::move(statistics), {calibration_key(model), "d", "", 1}, Method::minmax, {});
    EXPECT_TRUE(validate_ranges(ranges, model));

    const auto renamed = validate_ranges(ranges, parsed(replaced("%y", "%other")));
    ASSERT_FALSE(renamed);
    EXPECT_EQ(renamed.error().code, ErrorCode::mismatch);
    EXPECT_NE(renamed.error().message.find("does not have: y"), std::string::npos) << renamed.error().message;

    const auto retrained = validate_ranges(ranges, parsed(replaced("5, 6", "5, 7")));
    ASSERT_FALSE(retrained);
    EXPECT_NE(retrained.error().message.find("another model"), std::string::npos);
}

TEST(Report, ThinsHistogramsWithoutLosingACount) {
    const RangesFile ranges = sample_ranges(Method::mse);
    const Json json = calibration_to_json(ranges, NumberFormat::uint8(), 1.5);
    EXPECT_EQ(json["kind"], "calibration");
    EXPECT_EQ(json["method"], "mse");
    EXPECT_EQ(json["samples"], 290);
    EXPECT_EQ(json["findings"][0]["severity"], "warning");
    EXPECT_EQ(json["findings"][0]["detail"], "t: always zero");
    EXPECT_EQ(json["findings"][1]["detail"], "two are the same");
    ASSERT_EQ(json["tensors"].size(), ranges.tensors.size());
    double previous = -1e9;
    for (const Json& tensor : json["tensors"]) {
        const TensorRange* source = ranges.find(tensor["name"].get<std::string>());
        ASSERT_NE(source, nullptr);
        const Json& histogram = tensor["histogram"];
        EXPECT_LE(histogram["counts"].size(), 257U);
        ASSERT_EQ(histogram["edges"].size(), histogram["counts"].size() + 1);
        std::uint64_t sum = 0;
        for (const Json& count : histogram["counts"])
            sum += count.get<std::uint64_t>();
        EXPECT_EQ(sum, source->histogram.finite_count()) << source->name;
        if (source->histogram.finite_count() > 0) {
            EXPECT_LE(histogram["edges"].front().get<double>(), static_cast<double>(source->histogram.min()));
            EXPECT_GE(histogram["edges"].back().get<double>(), static_cast<double>(source->histogram.max()));
        }
        const double sqnr = tensor["sqnr_db"].is_null() ? 1e9 : tensor["sqnr_db"].get<double>();
        EXPECT_GE(sqnr, previous);
        previous = sqnr;
    }
}

} // namespace
} // namespace lathe
