#include "data/text_pieces.hpp"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/json.hpp"

namespace lathe {
namespace {

using testing::HasSubstr;

TEST(Utf8, StopsWhereRfc3629Does) {
    struct Case {
        std::string text;
        std::optional<std::size_t> stop;
    };
    const std::string nul(1, '\0');
    const Case cases[] = {
        {"", {}},
        {"plain" + nul + "\x7F", {}},
        {"\xC2\x80 \xDF\xBF \xE0\xA0\x80 \xED\x9F\xBF \xEE\x80\x80 \xEF\xBF\xBF \xF0\x90\x80\x80 \xF4\x8F\xBF\xBF", {}},
        {"caf\xE9", 3},              // Latin-1
        {"\xFF\xFEh" + nul, 0},      // UTF-16
        {"ab\x80", 2},               // goes on without a beginning
        {"a\xC0\xAF", 1},            // overlong, two bytes
        {"a\xC1\xBF", 1},            // the same
        {"\xE0\x9F\xBF", 0},         // overlong, three
        {"\xF0\x8F\xBF\xBF", 0},     // overlong, four
        {"\xED\xA0\x80", 0},         // a surrogate
        {"\xED\xBF\xBF", 0},         // the last of them
        {"\xF4\x90\x80\x80", 0},     // beyond U+10FFFF
        {"\xF5\x80\x80\x80", 0},     // far beyond
        {"\xF8\x88\x80\x80\x80", 0}, // five bytes
        {"ok \xC3", 3},              // breaks off
        {"ok \xE2\x82", 3},
        {"ok \xF0\x9F\x98", 3},
        {"\xE2\x82z", 0},
        {"\xC3\xA9\xF0\x9F\x98z", 2},
    };
    for (const auto& each : cases)
        EXPECT_EQ(first_not_utf8(each.text), each.stop) << testing::PrintToString(each.text);
}

// The JSON library's reader has an automaton of its own.
TEST(Utf8, AgreesWithTheJsonReader) {
    constexpr std::array<unsigned char, 25> edges{'A',  0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0,
                                                  0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF,
                                                  0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xF8, 0xFF};
    std::size_t valid = 0;
    for (std::size_t i = 0; i < edges.size() * edges.size() * edges.size() * edges.size(); ++i) {
        std::string text;
        for (std::size_t rest = i, n = 0; n < 4; ++n, rest /= edges.size())
            text.push_back(static_cast<char>(edges[rest % edges.size()]));
        const bool accepted = Json::accept("\"" + text + "\"");
        valid += accepted ? 1 : 0;
        ASSERT_EQ(!first_not_utf8(text).has_value(), accepted) << testing::PrintToString(text);
    }
    EXPECT_GT(valid, 100U);
}

TEST(Utf8, ErrorTellsByteAndCure) {
    const Error error = not_utf8("caf\xE9", 3, "a.csv, row 2", 11);
    EXPECT_EQ(error.code, ErrorCode::parse_error);
    EXPECT_THAT(error.describe(), HasSubstr("0xE9 at byte 14"));
    EXPECT_THAT(error.describe(), HasSubstr("a.csv, row 2"));
    EXPECT_THAT(error.hint, HasSubstr("iconv"));
}

} // namespace
} // namespace lathe
