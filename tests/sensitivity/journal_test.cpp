#include "sensitivity/journal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/files.hpp"
#include "support_lib/command.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

TEST(Journal, KeepsTheStateOfOneKey) {
    const TemporaryFolder folder;
    const auto file = folder.path() / "j";
    const Journal journal(file, "key");
    EXPECT_EQ(journal.read().value(), std::nullopt);
    ASSERT_TRUE(journal.write({{"x", 0.1}}));
    EXPECT_EQ(journal.read().value().value()["x"], 0.1);

    const auto other = Journal(file, "another").read();
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().code, ErrorCode::mismatch);
    EXPECT_THAT(other.error().hint, HasSubstr("--force"));

    ASSERT_TRUE(write_file(file, std::string_view("{\"kind\": \"bench\"}")));
    EXPECT_EQ(journal.read().error().code, ErrorCode::corrupt);
    ASSERT_TRUE(write_file(file, std::string_view("half a fi")));
    EXPECT_EQ(journal.read().error().code, ErrorCode::corrupt);
    journal.remove();
    EXPECT_EQ(journal.read().value(), std::nullopt);
}

TEST(Journal, SaysAtOnceThatItCannotBeWritten) {
    EXPECT_FALSE(Journal("/no/such/folder/j", "key").read());
    EXPECT_EQ(Journal("", "key").read().value(), std::nullopt) << "no journal is no failure";
}

} // namespace
} // namespace lathe::test
