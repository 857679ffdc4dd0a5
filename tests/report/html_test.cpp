#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/assets.hpp"
#include "report/html.hpp"
#include "report/sample.hpp"
#include "support_lib/page.hpp"

namespace lathe::report {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t occurrences(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
        ++count;
    return count;
}

TEST(Html, AssetsAreEmbeddedWhole) {
    EXPECT_THAT(std::string(asset("chart.min.js")), HasSubstr("Chart.js v3"));
    EXPECT_TRUE(std::string(asset("chart.min.js")).ends_with("window.Chart=bn),bn}));\n") ||
                asset("chart.min.js").size() > 150000U);
    for (const char* name : {"report.html", "report.css", "format.js", "tables.js", "charts.js", "figures.js", "mix.js",
                             "sections.js", "main.js"})
        EXPECT_GT(asset(name).size(), 500U) << name;
    EXPECT_TRUE(asset("nothing").empty());
}

TEST(Html, HoldsTheDocumentUnchanged) {
    const auto document = test::document_of(test::sample());
    ASSERT_TRUE(document) << document.error().describe();
    const std::string html = render_html(*document);
    EXPECT_EQ(Json::parse(test::page_data_of(html)), *document);
    EXPECT_THAT(html, Not(HasSubstr("{{")));
}

TEST(Html, AsksForNothingElse) {
    const std::string html = render_html(*test::document_of(test::sample()));
    for (const char* part : {" src=\"", "@import", "url(", "<link rel=\"stylesheet", "fetch(", "XMLHttpRequest"})
        EXPECT_THAT(html, Not(HasSubstr(part)));
    EXPECT_THAT(html, HasSubstr("default-src 'none'"));
}

TEST(Html, HostileStringsStayText) {
    const std::string hostile =
        "</script><script>alert(1)</script><!-- {{data}} \xE2\x80\xA8 & \" ' <img src=x onerror=alert(2)>";
    Json json = test::sample();
    json["model"]["name"] = hostile;
    json["bench"]["subjects"][0]["file"] = hostile;
    json["provenance"]["command"] = hostile;
    const auto document = test::document_of(json);
    ASSERT_TRUE(document);
    const std::string html = render_html(*document);
    const std::string clean = render_html(*test::document_of(test::sample()));
    EXPECT_EQ(occurrences(html, "</script"), occurrences(clean, "</script"));
    EXPECT_EQ(occurrences(html, "<script"), occurrences(clean, "<script"));
    EXPECT_EQ(occurrences(html, "<!--"), occurrences(clean, "<!--"));
    EXPECT_EQ(occurrences(html, "<img"), 0U);
    const std::string data = test::page_data_of(html);
    EXPECT_EQ(data.find_first_of("<>&"), std::string::npos);
    EXPECT_EQ(data.find("\xE2\x80\xA8"), std::string::npos) << "U+2028 must be escaped";
    EXPECT_EQ(Json::parse(data)["model"]["name"], hostile);
}

TEST(Html, TextThatIsNotUtf8IsReplaced) {
    Json json = test::sample();
    json["model"]["name"] = "bad \xFF\xFE name";
    const std::string html = render_html(*test::document_of(json));
    EXPECT_THAT(html, HasSubstr("<title>bad \xEF\xBF\xBD\xEF\xBF\xBD name"));
    EXPECT_EQ(Json::parse(test::page_data_of(html))["model"]["name"], "bad \xEF\xBF\xBD\xEF\xBF\xBD name");
}

} // namespace
} // namespace lathe::report
