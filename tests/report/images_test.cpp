#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/images.hpp"
#include "report/process.hpp"
#include "support/files.hpp"
#include "support_lib/command.hpp"

namespace lathe::report {
namespace {

using testing::HasSubstr;

/// Sets an environment variable for a scope.
class Environment {
public:
    Environment(const char* name, const std::string& value) : name_(name) {
        if (const char* old = std::getenv(name)) old_ = old;
        ::setenv(name, value.c_str(), 1);
    }
    ~Environment() { ::setenv(name_, old_.c_str(), 1); }
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;

private:
    const char* name_;
    std::string old_;
};

std::string program(const test::TemporaryFolder& folder, const std::string& script) {
    const auto path = folder / "browser";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path.string();
}

TEST(Chromium, AbsentSaysTheCure) {
    const Environment none("LATHE_CHROMIUM", "");
    const Environment path("PATH", "/nonexistent");
    const auto found = find_chromium();
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, ErrorCode::unsupported);
    EXPECT_THAT(found.error().hint, HasSubstr("apt-get install chromium"));
}

TEST(Chromium, WrongChoiceIsNamed) {
    const Environment wrong("LATHE_CHROMIUM", "/nonexistent/browser");
    const auto found = find_chromium();
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, ErrorCode::not_found);
    EXPECT_EQ(found.error().where, "/nonexistent/browser");
}

TEST(Chromium, OneThatHangsIsKilledWithItsChildren) {
    const test::TemporaryFolder folder;
    const auto mark = folder / "still-alive";
    const Environment fake("LATHE_CHROMIUM", program(folder, "(sleep 3; touch " + mark.string() + ") & sleep 30"));
    const auto start = std::chrono::steady_clock::now();
    const auto images = write_images("<html>", folder / "charts", no_progress(), std::chrono::milliseconds(500));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
    ASSERT_FALSE(images);
    EXPECT_THAT(images.error().message, HasSubstr("did not finish"));
    std::this_thread::sleep_for(std::chrono::seconds(4));
    EXPECT_FALSE(std::filesystem::exists(mark));
    EXPECT_FALSE(std::filesystem::exists(folder / "charts"));
}

struct BadBrowser {
    const char* name;
    const char* script;
    ErrorCode code;
    const char* message;
};

/// GoogleTest names a parameter by this.
void PrintTo(const BadBrowser& c, std::ostream* out) { *out << c.name; }

class BadBrowsers : public testing::TestWithParam<BadBrowser> {};

TEST_P(BadBrowsers, GiveAnErrorAndNoFiles) {
    const test::TemporaryFolder folder;
    const Environment fake("LATHE_CHROMIUM", program(folder, GetParam().script));
    const auto images = write_images("<html>", folder / "charts");
    ASSERT_FALSE(images);
    EXPECT_EQ(images.error().code, GetParam().code) << images.error().describe();
    EXPECT_THAT(images.error().message, HasSubstr(GetParam().message));
    EXPECT_TRUE(!std::filesystem::exists(folder / "charts") || std::filesystem::is_empty(folder / "charts"));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadBrowsers,
    testing::Values(
        BadBrowser{"Fails", "echo no display >&2; exit 3", ErrorCode::io, "code 3: no display"},
        BadBrowser{"Killed", "kill -9 $$", ErrorCode::io, "code 137"},
        BadBrowser{"SaysNothing", "exit 0", ErrorCode::internal, "did not draw"},
        BadBrowser{"SaysNonsense", "echo '<script id=\"lathe-export\">nonsense</script>'", ErrorCode::parse_error,
                   "not valid JSON"},
        BadBrowser{"NameLeavesTheFolder",
                   R"(echo '<script id="lathe-export">[{"id":"../x","png":"data:image/png;base64,AAAA"}]</script>')",
                   ErrorCode::internal, "no picture"},
        BadBrowser{"NoPicture", R"(echo '<script id="lathe-export">[{"id":"latency","png":"data:,"}]</script>')",
                   ErrorCode::internal, "no picture"}),
    [](const auto& info) { return info.param.name; });

TEST(Process, GivesOutputErrorsAndCode) {
    const auto ran =
        run_process({"/bin/sh", "-c", "echo out; echo err >&2; exit 7"}, std::chrono::seconds(10), no_progress());
    ASSERT_TRUE(ran);
    EXPECT_EQ(ran->output, "out\n");
    EXPECT_EQ(ran->errors, "err\n");
    EXPECT_EQ(ran->exit_code, 7);
}

TEST(Process, StopsWhenCancelled) {
    struct Cancelled final : Progress {
        bool cancelled() const override { return true; }
    } cancelled;
    const auto ran = run_process({"/bin/sleep", "20"}, std::chrono::seconds(30), cancelled);
    ASSERT_FALSE(ran);
    EXPECT_EQ(ran.error().code, ErrorCode::cancelled);
}

TEST(Base64, DecodesAndRefuses) {
    for (const auto& [text, bytes] : std::vector<std::pair<std::string, std::string>>{
             {"", ""}, {"TQ==", "M"}, {"TWE=", "Ma"}, {"TWFu", "Man"}, {"+/8A", std::string("\xFB\xFF\x00", 3)}}) {
        const auto decoded = decode_base64(text);
        ASSERT_TRUE(decoded) << text;
        EXPECT_EQ(*decoded, bytes);
    }
    for (const char* text : {"A", "AA=A", "A*==", "TWF", "===="})
        EXPECT_FALSE(decode_base64(text)) << text;
}

} // namespace
} // namespace lathe::report
