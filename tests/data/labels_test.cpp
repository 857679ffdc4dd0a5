#include "data/labels.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/csv.hpp"
#include "support/files.hpp"
#include "support_lib/command.hpp"

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Csv, QuotesAndLineEnds) {
    const auto rows = parse_csv("\xEF\xBB\xBF"
                                "a,b\r\n\r\n1,\"x, \"\"y\"\"\"\n,\n\"two\nlines\",2",
                                "t");
    ASSERT_TRUE(rows);
    EXPECT_THAT(*rows, ElementsAre(ElementsAre("a", "b"), ElementsAre("1", "x, \"y\""), ElementsAre("", ""),
                                   ElementsAre("two\nlines", "2")));
    const auto open = parse_csv("a\nb,\"c\n", "open.csv");
    ASSERT_FALSE(open);
    EXPECT_THAT(open.error().message, HasSubstr("line 2"));
}

TEST(ClassNames, FromEveryKindOfFile) {
    const test::TemporaryFolder folder;
    ASSERT_TRUE(write_file(folder / "classes.csv", "name,class_index,wnid\n\"cat, tabby\",1,n1\ndog,0,n0\n"));
    ASSERT_TRUE(write_file(folder / "names.txt", "dog\r\ncat, tabby\n\n"));
    ASSERT_TRUE(write_file(folder / "names.json", R"(["dog", "cat, tabby"])"));
    ASSERT_TRUE(write_file(folder / "map.json", R"({"1": "cat, tabby", "0": "dog"})"));
    for (const char* name : {"classes.csv", "names.txt", "names.json", "map.json"}) {
        const auto names = read_class_names(folder / name);
        ASSERT_TRUE(names) << names.error().describe();
        EXPECT_THAT(*names, ElementsAre("dog", "cat, tabby")) << name;
    }
    const auto classes = read_classes_csv(folder / "classes.csv");
    ASSERT_TRUE(classes);
    EXPECT_EQ(classes->index_of.at("n1"), 1);
    EXPECT_EQ(classes->index_of.at("dog"), 0);
}

TEST(ClassNames, WrongFilesAreErrors) {
    const test::TemporaryFolder folder;
    const std::map<std::string, std::string> files{{"a.csv", "index,name\n0,x\n"},
                                                   {"b.csv", "class_index,name\nx,y\n"},
                                                   {"c.csv", "class_index,name\n99999999,y\n"},
                                                   {"d.csv", "class_index,name\n0\n"},
                                                   {"e.csv", ""},
                                                   {"f.json", "[1]"},
                                                   {"g.json", "{\"a\": \"b\"}"},
                                                   {"h.json", "3"},
                                                   {"i.txt", "\n\n"}};
    for (const auto& [name, text] : files) {
        ASSERT_TRUE(write_file(folder / name, text));
        const auto names = read_class_names(folder / name);
        ASSERT_FALSE(names) << name;
        EXPECT_THAT(names.error().where, HasSubstr(name));
    }
}

TEST(ClassNames, NumberWhereThereIsNoName) {
    EXPECT_EQ(class_name({"a", ""}, 0), "a");
    EXPECT_EQ(class_name({"a", ""}, 1), "class 1");
    EXPECT_EQ(class_name({"a", ""}, 7), "class 7");
    EXPECT_EQ(class_name({}, -1), "class -1");
}

} // namespace
} // namespace lathe
