#include "support/json_fault.hpp"

#include <functional>

#include <gtest/gtest.h>

namespace lathe::test {
namespace {

TEST(JsonFault, IsToldInTermsOfTheDocument) {
    struct Case {
        std::function<void(const Json&)> read;
        std::string text;
    };
    const Case cases[] = {
        {[](const Json& json) { (void)json.at("gone"); }, R"(the field "gone" is missing)"},
        {[](const Json& json) { (void)json.at("word").get<bool>(); }, "a value must be boolean, but is string"},
        {[](const Json& json) { (void)json.at("word").at("x"); },
         "there is a value of kind string where a list or an object belongs"},
        {[](const Json& json) { (void)count_of(json.at("less")); }, "a value must be an integer from 0 up"},
        {[](const Json& json) { (void)positive_at(json, "less"); }, "less is not positive"},
    };
    const Json json = {{"word", "text"}, {"less", -1}};
    for (const Case& each : cases) {
        try {
            each.read(json);
            FAIL() << "nothing was thrown: " << each.text;
        } catch (const Json::exception& failure) {
            EXPECT_EQ(json_fault(failure), each.text);
        }
    }
}

} // namespace
} // namespace lathe::test
