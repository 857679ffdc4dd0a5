#include <algorithm>
#include <atomic>
#include <ctime>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lathe/result.hpp"
#include "lathe/types.hpp"
#include "support/base64.hpp"
#include "support/huge_pages.hpp"
#include "support/json.hpp"
#include "support/machine.hpp"
#include "support/progress.hpp"
#include "support/thread_pool.hpp"
#include "support_lib/command.hpp"

namespace lathe {
namespace {

using testing::HasSubstr;

Result<int> half_of(int value) {
    if (value % 2 != 0) return Error{ErrorCode::invalid_argument, "odd", "value", "give an even one"};
    return value / 2;
}

Result<int> quarter_of(int value) {
    LATHE_TRY(const int half, half_of(value));
    LATHE_TRY(const int quarter, half_of(half));
    return quarter;
}

Result<void> check_even(int value) {
    LATHE_CHECK(half_of(value));
    return {};
}

TEST(Result, ValueOrError) {
    EXPECT_EQ(*quarter_of(12), 3);
    EXPECT_EQ(quarter_of(6).error().message, "odd");
    EXPECT_TRUE(check_even(2));
    EXPECT_EQ(check_even(3).error().code, ErrorCode::invalid_argument);
    EXPECT_THROW(static_cast<void>(quarter_of(6).value()), std::bad_variant_access);
}

TEST(Error, DescribesPlaceAndCure) {
    const Error error = Error{ErrorCode::io, "disk full", "tensor t", "free space"}.in("file f");
    const std::string text = error.describe();
    for (const char* part : {"disk full", "file f", "tensor t", "free space"})
        EXPECT_THAT(text, HasSubstr(part));
    EXPECT_LT(text.find("file f"), text.find("tensor t"));
}

TEST(Json, DepthIsLimited) {
    const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
    EXPECT_TRUE(parse_json(nested(150), "t"));
    const auto deep = parse_json(nested(300), "deep.json");
    ASSERT_FALSE(deep);
    EXPECT_THAT(deep.error().describe(), HasSubstr("deep.json"));
    EXPECT_FALSE(parse_json(nested(2'000'000), "t"));
    EXPECT_FALSE(parse_json(std::string(2'000'000, '['), "t"));
    for (const char* text : {"", "{", "{\"a\":}", "nul", "1 2", "\"\xFF\""})
        EXPECT_FALSE(parse_json(text, "t")) << text;
}

TEST(Json, NestsToTwoHundredLevels) {
    const auto lists = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
    const auto objects = [](std::size_t depth) {
        std::string text;
        for (std::size_t i = 0; i < depth; ++i)
            text += R"({"a":)";
        return text + "1" + std::string(depth, '}');
    };
    EXPECT_TRUE(parse_json(lists(200), "t"));
    EXPECT_TRUE(parse_json(objects(200), "t"));
    for (const std::string& text : {lists(201), objects(201)}) {
        const auto deep = parse_json(text, "deep.json");
        ASSERT_FALSE(deep);
        EXPECT_THAT(deep.error().describe(), HasSubstr("deeper than 200 levels"));
    }
}

/// Every kind of value, in and beside containers, as the JSON library's own reader has it.
TEST(Json, IsReadAsTheLibraryReadsIt) {
    for (const char* text : {"null", " true ", "-7", "18446744073709551615", "-1.25e-3", R"("a\u00e9\n")", "[]", "{}",
                             R"([1, [2, {"x": [], "y": {}}, 3], "four", null, {"z": false}, 5.5])",
                             R"({"b": {"c": [1, {"d": "e"}], "f": -1}, "a": [[], [[1]]], "g": "h", "": 0})"}) {
        const auto json = parse_json(text, "t");
        ASSERT_TRUE(json) << json.error().describe();
        EXPECT_EQ(*json, Json::parse(text)) << text;
        EXPECT_EQ(json->dump(), Json::parse(text).dump()) << text;
    }
}

TEST(Json, TheLaterOfTwoMembersOfOneKeyCounts) {
    for (const int between : {1, 100}) { // looked for one by one, and in a table
        std::string text = R"({"a": 1, )";
        for (int i = 0; i < between; ++i)
            text += "\"k" + std::to_string(i) + "\": " + std::to_string(i) + ", ";
        text += R"("a": [2], "k0": "last"})";
        const auto json = parse_json(text, "t");
        ASSERT_TRUE(json) << json.error().describe();
        EXPECT_EQ(*json, Json::parse(text)) << text;
        EXPECT_EQ(json->begin().value(), Json({2}));
        EXPECT_EQ(json->at("k0"), "last");
        EXPECT_EQ(json->size(), static_cast<std::size_t>(between) + 1);
    }
}

/// A tokenizer's vocabulary is one object. Looked through for each new key, this one takes minutes.
TEST(Json, AnObjectOfManyMembersTakesLinearTime) {
    constexpr int members = 300'000;
    std::string text = "{";
    for (int i = 0; i < members; ++i)
        text += (i == 0 ? "\"word" : ",\"word") + std::to_string(i) + "\":" + std::to_string(i);
    text += "}";
    const std::clock_t start = std::clock();
    const auto json = parse_json(text, "vocabulary");
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 20.0);
    ASSERT_TRUE(json) << json.error().describe();
    EXPECT_EQ(json->size(), static_cast<std::size_t>(members));
    EXPECT_EQ(json->back(), members - 1);
}

TEST(Json, WritesTextThatIsNotUtf8) {
    const test::TemporaryFolder folder;
    ASSERT_TRUE(write_json_file(folder / "a.json", Json{{"b", "\xFFx"}, {"a", 1}}));
    const auto json = read_json_file(folder / "a.json");
    ASSERT_TRUE(json) << json.error().describe();
    EXPECT_EQ(json->begin().key(), "b") << "keys keep their order";
}

TEST(HugePages, RoomIsMadeAroundWhatIsThere) {
    std::vector<int> values{1, 2, 3};
    constexpr std::size_t count = std::size_t{5} << 20U; // 20 MiB: several slices
    reserve_huge(values, count, 2);
    EXPECT_GE(values.capacity(), count);
    EXPECT_EQ(values, (std::vector<int>{1, 2, 3}));
    const int* const place = values.data();
    values.resize(count);
    EXPECT_EQ(values.data(), place);
    EXPECT_EQ(std::ranges::count(values, 0), static_cast<std::ptrdiff_t>(count - 3));
}

TEST(ThreadPool, EveryIndexOnce) {
    for (const std::size_t threads : {1U, 2U, 5U}) {
        ThreadPool pool(threads);
        EXPECT_EQ(pool.size(), threads);
        for (const std::size_t count : {0U, 1U, 3U, 1000U}) {
            std::vector<std::atomic<int>> calls(count);
            pool.for_each(count, [&](std::size_t i) { ++calls[i]; });
            for (const auto& call : calls)
                ASSERT_EQ(call.load(), 1);
        }
    }
    EXPECT_GE(available_cores(), 1U);
}

TEST(Types, NamesAndSizes) {
    for (const DataType type : {DataType::float32, DataType::int4, DataType::boolean, DataType::bfloat16})
        EXPECT_EQ(data_type_from_name(to_string(type)), type);
    EXPECT_EQ(data_type_from_name("float31"), DataType::undefined);
    EXPECT_EQ(to_string(static_cast<DataType>(99)), "type 99");
    EXPECT_EQ(bit_width(static_cast<DataType>(-1)), 0U);
    EXPECT_EQ(byte_size(DataType::int4, 3), 2U);
    EXPECT_EQ(to_string(Shape{1, -1, 3}), "1x?x3");
    EXPECT_EQ(to_string(Shape{}), "scalar");
    EXPECT_EQ(element_count({}), 1);
    EXPECT_EQ(element_count({2, 0, -1}), -1);
    EXPECT_EQ(element_count({std::numeric_limits<std::int64_t>::max(), 2}), -1);
    EXPECT_EQ(element_count({std::numeric_limits<std::int64_t>::max(), 0, 9}), 0);
}

class Cancelled final : public Progress {
public:
    bool cancelled() const override { return true; }
};

TEST(Progress, CheckFailsOnceCancelled) {
    EXPECT_TRUE(no_progress().check());
    EXPECT_EQ(Cancelled().check().error().code, ErrorCode::cancelled);
}

TEST(Machine, KnowsItself) {
    const Machine machine = this_machine();
    EXPECT_FALSE(machine.cpu_model.empty());
    EXPECT_GT(machine.memory_bytes, 0U);
    EXPECT_GT(peak_resident_bytes(), 0U);
    EXPECT_LE(resident_bytes(), peak_resident_bytes() + (1U << 20));
    EXPECT_FALSE(machine.has_flag("no_such_flag"));
}

// Found by fuzzing: as an unsigned integer such a number has no meaning, not even a defined one.
TEST(Json, NumbersThatNoIntegerHoldsAreFound) {
    EXPECT_TRUE(holds_huge_number(Json::parse(R"({"a": [1, {"b": 1.639e101}]})")));
    EXPECT_TRUE(holds_huge_number(Json::parse("[-1e19]")));
    EXPECT_FALSE(holds_huge_number(Json::parse(R"({"a": [1, -2.5, 18446744073709551615], "b": "1e99"})")));
}

TEST(Json, CountsAreIntegersFromZeroUp) {
    EXPECT_EQ(count_of(Json::parse("7")), 7U);
    for (const char* text : {"-1", "1.5", "1e101", "-2.5", "\"7\"", "null"})
        EXPECT_THROW(count_of(Json::parse(text)), Json::exception) << text;
}

/// The test vectors of RFC 4648, section 10.
TEST(Base64, EncodesAsTheStandardSays) {
    for (const auto& [plain, encoded] : std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                                                         {"f", "Zg=="},
                                                                                         {"fo", "Zm8="},
                                                                                         {"foo", "Zm9v"},
                                                                                         {"foob", "Zm9vYg=="},
                                                                                         {"fooba", "Zm9vYmE="},
                                                                                         {"foobar", "Zm9vYmFy"}})
        EXPECT_EQ(encode_base64(std::as_bytes(std::span(plain))), encoded);
}

} // namespace
} // namespace lathe
