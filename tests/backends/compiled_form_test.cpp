// The frame of a backend's compiled form, and what its header tells of inputs and outputs.
#include <string>

#include <gtest/gtest.h>

#include "backends/api/compiled_form.hpp"

namespace lathe {
namespace {

constexpr CompiledFormat format{"LATHETST", 3};

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

CompiledBindings bindings() {
    CompiledBindings some;
    some.inputs = {{"x", DataType::float16, {{1, 3}, {2, 3}, {8, 3}}}};
    some.outputs = {{"y", DataType::int64, {{-1}, {-1}, {-1}}}};
    some.profiles = {{{{1, 3}, {2, 3}, {4, 3}}}, {{{8, 3}, {8, 3}, {8, 3}}}};
    return some;
}

TEST(CompiledForm, ReadsWhatItWrote) {
    Json header{{"own", 7}};
    add_bindings(header, bindings());
    const std::string blob = write_compiled(format, header, bytes_of("the body")).flat();
    EXPECT_EQ(blob.find("the body") % 256, 0U); // for what is read in place
    const auto form = read_compiled(format, bytes_of(blob));
    ASSERT_TRUE(form) << form.error().describe();
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(form->body.data()), form->body.size()), "the body");
    const auto again = parse_json(form->header, "header");
    ASSERT_TRUE(again);
    EXPECT_EQ(again->at("own"), 7);
    const auto read = read_bindings(*again);
    ASSERT_TRUE(read) << read.error().describe();
    ASSERT_EQ(read->inputs.size(), 1U);
    EXPECT_EQ(read->inputs[0].name, "x");
    EXPECT_EQ(read->inputs[0].type, DataType::float16);
    EXPECT_EQ(read->inputs[0].range.max, (Shape{8, 3}));
    EXPECT_EQ(read->outputs[0].type, DataType::int64);
    ASSERT_EQ(read->profiles.size(), 2U);
    EXPECT_EQ(read->profiles[0][0].opt, (Shape{2, 3}));
}

TEST(CompiledForm, RefusesWhatIsDamaged) {
    Json header;
    add_bindings(header, bindings());
    const std::string blob = write_compiled(format, header, bytes_of("the body")).flat();
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{7}, std::size_t{23}, std::size_t{100}, std::size_t{256}}) {
        const auto form = read_compiled(format, bytes_of(blob).first(size));
        ASSERT_FALSE(form) << size;
        EXPECT_EQ(form.error().code, ErrorCode::corrupt) << form.error().describe();
    }
    EXPECT_EQ(read_compiled({"LATHEOTH", 3}, bytes_of(blob)).error().code, ErrorCode::corrupt);
    EXPECT_EQ(read_compiled({"LATHETST", 4}, bytes_of(blob)).error().code, ErrorCode::mismatch);
    for (const auto& [change, what] :
         {std::pair{R"([{"op":"remove","path":"/inputs"}])", "nothing of the inputs"},
          std::pair{R"([{"op":"replace","path":"/inputs/0/type","value":"floot"}])", "no type"},
          std::pair{R"([{"op":"replace","path":"/inputs/0/type","value":999}])", "no type"},
          std::pair{R"([{"op":"remove","path":"/inputs/0/range/2"}])", "no greatest shape"},
          std::pair{R"([{"op":"replace","path":"/inputs/0/range/2/0","value":1.6e101}])",
                    "a size that no integer holds"},
          std::pair{R"([{"op":"replace","path":"/profiles/1","value":[]}])", "a profile without inputs"}}) {
        const auto read = read_bindings(header.patch(Json::parse(change)));
        ASSERT_FALSE(read) << what;
        EXPECT_EQ(read.error().code, ErrorCode::corrupt) << what;
    }
}

TEST(CompiledForm, TypesWereNumbersOnce) {
    Json header;
    add_bindings(header, bindings());
    header["inputs"][0]["type"] = static_cast<int>(DataType::float16);
    const auto read = read_bindings(header);
    ASSERT_TRUE(read) << read.error().describe();
    EXPECT_EQ(read->inputs[0].type, DataType::float16);
}

} // namespace
} // namespace lathe
