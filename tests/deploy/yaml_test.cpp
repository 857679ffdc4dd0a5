#include "deploy/yaml.hpp"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(Yaml, BlocksAreNestedAndTextIsQuoted) {
    struct Case {
        const char* json;
        const char* yaml;
    };
    for (const Case& each : {
             Case{R"({})", "{}\n"},
             Case{R"([])", "[]\n"},
             Case{R"("no")", "\"no\"\n"},
             Case{R"({"a": 1, "b": "1", "c": true, "d": null, "e": [], "f": {}})",
                  "a: 1\nb: \"1\"\nc: true\nd: null\ne: []\nf: {}\n"},
             Case{R"({"a": {"b": {"c": 0.5}}, "d": "x"})", "a:\n  b:\n    c: 0.5\nd: \"x\"\n"},
             Case{R"({"a": [1, "b: c", [2, 3], {"d": 4, "e": {"f": 5}}, {}]})",
                  "a:\n  - 1\n  - \"b: c\"\n  - - 2\n    - 3\n  - d: 4\n    e:\n      f: 5\n  - {}\n"},
             Case{R"({"no": 1, "a b": 2, "1st": 3, "x.io/y-z": 4, "": 5})",
                  "\"no\": 1\n\"a b\": 2\n\"1st\": 3\nx.io/y-z: 4\n\"\": 5\n"},
             Case{R"({"a": "line\nbreak \"quoted\" # no comment"})",
                  "a: \"line\\nbreak \\\"quoted\\\" # no comment\"\n"},
         }) {
        EXPECT_EQ(to_yaml(Json::parse(each.json)), each.yaml) << each.json;
    }
}

} // namespace
} // namespace lathe
