// The page of lathe show: what it holds, and in headless Chromium what it draws and how it answers.

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/graph_page.hpp"
#include "report/images.hpp"
#include "report/process.hpp"
#include "support/files.hpp"
#include "support_lib/command.hpp"

namespace lathe::report {
namespace {

using testing::HasSubstr;
using testing::Not;

Json value(const std::string& name) { return {{"name", name}, {"type", "float32"}, {"shape", {1, "batch", nullptr}}}; }

/// A chain with a bridge over every sixth node and a constant for every fourth.
Json chain(std::size_t count) {
    Json nodes = Json::array();
    for (std::size_t i = 0; i < count; ++i) {
        Json in = Json::array({value(i == 0 ? "x" : "v" + std::to_string(i - 1))});
        if (i >= 12 && i % 6 == 0) in.push_back(value("v" + std::to_string(i - 12 + i % 5)));
        if (i % 4 == 0) in.push_back(value("weight" + std::to_string(i)));
        nodes.push_back({{"name", "layer" + std::to_string(i)},
                         {"op", i % 2 == 0 ? "Conv" : "Relu"},
                         {"precision", i % 2 == 0 ? "int8" : "fp32"},
                         {"in", std::move(in)},
                         {"out", Json::array({value("v" + std::to_string(i))})},
                         {"attributes", {{"group", "1"}}},
                         {"macs", i % 2 == 0 ? 1000 : 0},
                         {"parameters", 10},
                         {"time_ms", i % 2 == 0 ? 0.5 : 0.0},
                         {"reasons", {"v is int8: its range is known"}}});
    }
    return {{"title", "chain"},
            {"inputs", Json::array({value("x")})},
            {"outputs", Json::array({value("v" + std::to_string(count - 1))})},
            {"nodes", std::move(nodes)}};
}

TEST(GraphPage, AsksForNothingElseAndStaysSmall) {
    const std::string page = render_graph_html(chain(2000));
    EXPECT_LT(page.size(), 3U << 20);
    EXPECT_THAT(page, HasSubstr("default-src 'none'"));
    EXPECT_THAT(page, Not(HasSubstr("src=\"")));
    EXPECT_THAT(page, Not(HasSubstr("{{")));
}

TEST(GraphPage, HostileNamesStayText) {
    Json graph = chain(3);
    const std::string evil = "</script><script>window.alerted = 1</script><!-- \xFF {{data}}";
    graph["title"] = evil;
    graph["nodes"][1]["name"] = evil;
    graph["nodes"][1]["attributes"][evil] = evil;
    EXPECT_THAT(render_graph_html(graph), Not(HasSubstr("<script>window")));
}

/// Boxes and labels of the last picture, then what a click, a search and the keyboard bring.
constexpr const char* graph_probe = R"js(<script>
(() => {
  const problems = [];
  addEventListener("error", (event) => problems.push(event.message));
  addEventListener("securitypolicyviolation", (event) => problems.push("blocked: " + event.blockedURI));
  const pen = CanvasRenderingContext2D.prototype, box = pen.roundRect, clear = pen.fillRect;
  let boxes = [], pictures = 0;
  pen.fillRect = function (...given) { boxes = []; ++pictures; return clear.apply(this, given); };
  pen.roundRect = function (x, y, w, h, r) {
    const m = this.getTransform();
    boxes.push([m.a * x + m.e, m.d * y + m.f, m.a * w, m.d * h]);
    return box.call(this, x, y, w, h, r);
  };
  // Headless Chromium draws when it likes: here a frame is what the test says.
  let asked = [];
  window.requestAnimationFrame = (callback) => asked.push(callback);
  const frame = () => { const now = asked; asked = []; now.forEach((callback) => callback(0)); };
  const title = () => document.querySelector("#details h2").textContent;
  addEventListener("load", async () => {
    await new Promise((done) => setTimeout(done, 300));
    frame();
    const canvas = document.getElementById("graph"), find = document.getElementById("find"), ratio = devicePixelRatio;
    const seen = { boxes, title: title(), colours: [...document.querySelectorAll("#colour option")].map((one) => one.value) };
    const at = (x, y) => { const frame = canvas.getBoundingClientRect(); return { clientX: frame.left + x, clientY: frame.top + y, pointerId: 1, bubbles: true }; };
    canvas.setPointerCapture = () => {};
    const [x, y, w, h] = boxes[1];
    canvas.dispatchEvent(new PointerEvent("pointerdown", at((x + w / 2) / ratio, (y + h / 2) / ratio)));
    canvas.dispatchEvent(new PointerEvent("pointerup", at((x + w / 2) / ratio, (y + h / 2) / ratio)));
    frame();
    seen.clicked = document.getElementById("details").textContent;
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
    frame();
    seen.below = title();
    find.value = "layer7";
    find.dispatchEvent(new Event("input"));
    frame();
    seen.found = title();
    seen.count = document.getElementById("found").textContent;
    find.value = "no such layer";
    find.dispatchEvent(new Event("input"));
    seen.none = document.getElementById("found").textContent;
    const colour = document.getElementById("colour");
    colour.value = "time";
    colour.dispatchEvent(new Event("change"));
    frame();
    seen.legend = document.getElementById("legend").textContent;
    const before = pictures;
    for (let i = 0; i < 50; ++i) canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: 40, offsetX: 100, bubbles: true, cancelable: true }));
    frame();
    seen.drawnForFiftyTurns = pictures - before;
    seen.farBoxes = boxes.length;
    seen.problems = problems;
    seen.alerted = window.alerted || 0;
    document.documentElement.dataset.result = btoa(unescape(encodeURIComponent(JSON.stringify(seen))));
  });
})();
</script>)js";

std::string from_base64(const std::string& text) {
    std::string bytes;
    unsigned bits = 0;
    int held = 0;
    for (const char c : text) {
        static const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const auto at = letters.find(c);
        if (at == std::string::npos) break;
        bits = bits << 6U | static_cast<unsigned>(at);
        held += 6;
        if (held < 8) continue;
        held -= 8;
        bytes += static_cast<char>(bits >> static_cast<unsigned>(held) & 0xFFU);
    }
    return bytes;
}

class GraphInBrowser : public testing::Test {
protected:
    void SetUp() override {
        const auto found = find_chromium();
        if (!found) GTEST_SKIP() << "SKIPPED: " << found.error().describe();
        chromium_ = *found;
    }

    Json look(const Json& graph) {
        std::string html = render_graph_html(graph);
        html.insert(html.find("<meta charset"), graph_probe);
        const auto page = folder_ / "graph.html";
        EXPECT_TRUE(write_file(page, std::string_view(html)));
        auto arguments = chromium_arguments(chromium_, folder_ / "profile");
        arguments.insert(arguments.end(), {"--window-size=1200,900", "--virtual-time-budget=8000", "--dump-dom",
                                           "file://" + page.string()});
        const auto ran = run_process(arguments, std::chrono::seconds(90), no_progress());
        if (!ran) {
            ADD_FAILURE() << ran.error().describe();
            return {};
        }
        const std::string open = "data-result=\"";
        const auto start = ran->output.find(open);
        if (start == std::string::npos) {
            ADD_FAILURE() << "the page gave no answer: " << ran->errors;
            return {};
        }
        const auto json = parse_json(from_base64(ran->output.substr(start + open.size())), "probe");
        EXPECT_TRUE(json);
        return json ? *json : Json();
    }

    std::filesystem::path chromium_;
    test::TemporaryFolder folder_;
};

/// Left, top, width, height.
bool overlap(const Json& a, const Json& b) {
    const auto apart = [&](std::size_t axis) {
        const double low = std::max(a[axis].get<double>(), b[axis].get<double>());
        const double high = std::min(a[axis].get<double>() + a[axis + 2].get<double>(),
                                     b[axis].get<double>() + b[axis + 2].get<double>());
        return high <= low;
    };
    return !apart(0) && !apart(1);
}

TEST_F(GraphInBrowser, DrawsLayersApartAndAnswers) {
    const Json seen = look(chain(60));
    ASSERT_TRUE(seen.is_object());
    EXPECT_TRUE(seen["problems"].empty()) << seen["problems"];
    EXPECT_EQ(seen["title"], "chain");
    EXPECT_EQ(seen["colours"], Json({"precision", "time", "work"}));
    const Json& boxes = seen["boxes"];
    ASSERT_GT(boxes.size(), 8U);
    for (std::size_t i = 0; i < boxes.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j)
            EXPECT_FALSE(overlap(boxes[i], boxes[j])) << i << " and " << j;
    }
    const auto clicked = seen["clicked"].get<std::string>();
    EXPECT_THAT(clicked, HasSubstr("layer0"));
    EXPECT_THAT(clicked, HasSubstr("weight0: float32 1×batch×? (constant)"));
    EXPECT_THAT(clicked, HasSubstr("group = 1"));
    EXPECT_THAT(clicked, HasSubstr("its range is known"));
    EXPECT_EQ(seen["below"], "layer1");
    EXPECT_EQ(seen["found"], "layer7");
    EXPECT_EQ(seen["count"], "1 found");
    EXPECT_EQ(seen["none"], "0 found");
    EXPECT_THAT(seen["legend"].get<std::string>(), HasSubstr("0.500 ms"));
}

TEST_F(GraphInBrowser, DrawsOfTwoThousandNodesOnlyWhatIsSeenAndOncePerFrame) {
    const Json seen = look(chain(2000));
    ASSERT_TRUE(seen.is_object());
    EXPECT_TRUE(seen["problems"].empty()) << seen["problems"];
    EXPECT_LT(seen["boxes"].size(), 200U);
    EXPECT_GT(seen["farBoxes"], seen["boxes"].size());
    EXPECT_EQ(seen["drawnForFiftyTurns"], 1);
}

/// Exporters leave shapes to be computed from constants, hundreds of them: at the top they would be all that is seen.
TEST_F(GraphInBrowser, WhatIsComputedFromConstantsStandsOverItsReader) {
    Json graph = chain(8);
    Json& nodes = graph["nodes"];
    Json computed = nodes[0];
    computed["name"] = "fill";
    computed["in"] = Json::array();
    computed["out"] = Json::array({value("filled")});
    nodes.insert(nodes.begin(), computed);
    computed["name"] = "unsqueeze";
    computed["in"] = Json::array({value("filled")});
    computed["out"] = Json::array({value("wide")});
    nodes.insert(nodes.begin() + 1, computed);
    nodes[8]["in"].push_back(value("wide")); // layer6
    const Json seen = look(graph);
    ASSERT_TRUE(seen.is_object());
    ASSERT_EQ(seen["boxes"].size(), 12U);
    std::map<double, int> in_row;
    for (const Json& box : seen["boxes"])
        ++in_row[box[1].get<double>()];
    int row = 0;
    for (const auto& [top, count] : in_row) {
        EXPECT_EQ(count, row == 5 || row == 6 ? 2 : 1) << row; // beside layer4 and layer5: row 0 is the input
        ++row;
    }
}

TEST_F(GraphInBrowser, HostileNamesDoNoHarm) {
    Json graph = chain(3);
    const std::string evil = "</script><script>window.alerted = 1</script><img src=x onerror=\"window.alerted = 1\">";
    graph["title"] = evil;
    graph["nodes"][0]["name"] = evil;
    graph["nodes"][0]["reasons"][0] = evil;
    const Json seen = look(graph);
    ASSERT_TRUE(seen.is_object());
    EXPECT_EQ(seen["alerted"], 0);
    EXPECT_EQ(seen["title"], evil);
    EXPECT_TRUE(seen["problems"].empty()) << seen["problems"];
}

} // namespace
} // namespace lathe::report
