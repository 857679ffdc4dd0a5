#include "runtime/labels.hpp"

#include <gtest/gtest.h>

namespace lathe {
namespace {

using Names = std::vector<std::string>;

TEST(ClassLabels, FromTheMetadataThatFrameworksWrite) {
    struct Case {
        const char* key;
        const char* value;
        Names expected;
    };
    for (const Case& c :
         {Case{"lathe.labels", R"(["ant","bee"])", {"ant", "bee"}},
          Case{"names", "{0: 'person', 1: 'traffic light'}", {"person", "traffic light"}},
          Case{"names", "{2: \"men's\", 0: 'it\\'s'}", {"it's", "", "men's"}}, Case{"names", "['a', 'b']", {}},
          Case{"names", "{0: 'a', 0: 'b'}", {}}, Case{"names", "{0: 'a", {}}, Case{"names", "{0: 'a' 1: 'b'}", {}},
          Case{"names", "{99999999999: 'a'}", {}}, Case{"names", "{}", {}}, Case{"names", "{", {}},
          Case{"names", "", {}}, Case{"character", "0\n1\nä\n ", {"0", "1", "ä", " "}}, Case{"other", "x", {}}}) {
        Model model;
        model.set_metadata(c.key, c.value);
        const auto labels = class_labels(model);
        ASSERT_TRUE(labels) << labels.error().describe();
        EXPECT_EQ(*labels, c.expected) << c.key << " " << c.value;
    }
    Model both;
    both.set_metadata("names", "{0: 'a'}");
    both.set_metadata("lathe.labels", R"(["b"])");
    EXPECT_EQ(*class_labels(both), Names{"b"});
    both.set_metadata("lathe.labels", R"([1])");
    EXPECT_FALSE(class_labels(both));
}

} // namespace
} // namespace lathe
