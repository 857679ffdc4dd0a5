// Opens real pages in headless Chromium, with a probe script put in at their head, and looks at what it saw.

#include <algorithm>
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/document.hpp"
#include "report/html.hpp"
#include "report/images.hpp"
#include "report/process.hpp"
#include "report/sample.hpp"
#include "support/files.hpp"
#include "support_lib/command.hpp"

namespace lathe::report {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

/// Records every console message and error from the start; once the page has settled it writes what it sees as JSON
/// into the root element's data-probe.
constexpr const char* probe = R"js(<script>
(() => {
  const messages = [];
  for (const level of ["log", "info", "warn", "error", "debug"]) {
    console[level] = (...parts) => messages.push(level + ": " + parts.join(" "));
  }
  addEventListener("error", (event) => messages.push("error event: " + event.message));
  addEventListener("unhandledrejection", (event) => messages.push("rejection: " + event.reason));
  addEventListener("securitypolicyviolation", (event) => messages.push("blocked: " + event.blockedURI));
  addEventListener("load", () => setTimeout(() => {
    const canvases = [...document.querySelectorAll("canvas")].map((canvas) => {
      const { width, height } = canvas;
      const data = canvas.getContext("2d").getImageData(0, 0, width, height).data;
      const paper = [data[0], data[1], data[2]];
      let marked = 0;
      for (let i = 0; i < data.length; i += 4) {
        if (Math.abs(data[i] - paper[0]) + Math.abs(data[i + 1] - paper[1]) + Math.abs(data[i + 2] - paper[2]) > 60) marked += 1;
      }
      const box = canvas.getBoundingClientRect();
      return { id: canvas.id, paper, marked, label: canvas.getAttribute("aria-label") || "", role: canvas.getAttribute("role"), right: box.right, height: box.height };
    });
    const root = document.documentElement;
    root.dataset.probe = JSON.stringify({
      messages, canvases, width: innerWidth, scroll: root.scrollWidth,
      background: getComputedStyle(document.body).backgroundColor,
      heading: document.querySelector("h1") ? document.querySelector("h1").textContent : "",
      tables: Object.fromEntries([...document.querySelectorAll("[role=region][aria-label]")].filter((region) => region.querySelector("tbody")).map((region) => [region.getAttribute("aria-label"), region.querySelectorAll("tbody tr").length])),
      sections: [...document.querySelectorAll("section")].map((section) => section.id),
      emptySections: [...document.querySelectorAll("section, figure, table tbody")].filter((part) => part.textContent.trim() === "").length,
      undefinedText: (document.getElementById("page").textContent.match(/undefined|NaN|Infinity|\[object/g) || []).length,
      tableHeads: [...document.querySelectorAll("th")].map((cell) => cell.textContent),
      tableCells: [...document.querySelectorAll("td")].map((cell) => cell.textContent),
      images: document.images.length,
      marks: [...document.querySelectorAll("figure.detections svg > *")].map((node) => node.tagName + " " + (node.getAttribute("d") || "")),
      alerted: window.alerted || 0,
      whiskers: window.whiskers(),
    });
  }, 300));
})();
</script>)js";

/// Notes the whiskers that are drawn (lines 1.25 pixels wide) as their points; the last drawing of each canvas counts.
constexpr const char* whisker_probe = R"js(<script>
(() => {
  const strokes = new Map();
  const context = CanvasRenderingContext2D.prototype;
  let path = [];
  const before = (name, look) => {
    const plain = context[name];
    context[name] = function (...given) { look(this, given); return plain.apply(this, given); };
  };
  before("clearRect", (self) => strokes.set(self.canvas.id, []));
  before("beginPath", () => { path = []; });
  before("moveTo", (self, point) => path.push(point));
  before("lineTo", (self, point) => path.push(point));
  before("stroke", (self) => { if (self.lineWidth === 1.25) strokes.get(self.canvas.id)?.push(path); });
  const canvases = () => [...document.querySelectorAll("canvas")].filter((canvas) => Chart.getChart(canvas));
  window.whiskers = () => Object.fromEntries(canvases().map((canvas) => {
    const chart = Chart.getChart(canvas);
    const figure = canvas.closest("figure");
    const { left, right, top, bottom } = chart.chartArea;
    const label = chart.options.plugins.tooltip.callbacks.label;
    const tips = chart.data.datasets.filter((dataset) => dataset.intervalsAcross).map((dataset) => label({ dataset, raw: dataset.data[0] }));
    const text = (selector) => [...figure.querySelectorAll(selector)].map((found) => found.textContent).join(" ");
    return [canvas.id, {
      left, right, top, bottom, tips, min: chart.scales.x.min, max: chart.scales.x.max,
      note: text(".note"), table: text("table"), paths: strokes.get(canvas.id) || [],
    }];
  }));
})();
</script>)js";

class Browser : public testing::Test {
protected:
    void SetUp() override {
        const auto found = find_chromium();
        if (!found) GTEST_SKIP() << "SKIPPED: " << found.error().describe();
        chromium_ = *found;
    }

    /// What the probe saw in a page shown in a window `width` wide.
    Json look(std::string html, int width, const std::vector<std::string>& flags = {}) {
        html.insert(html.find("<meta charset"), std::string(whisker_probe) + probe);
        // A frame, because Chromium's window does not get narrower than 500 pixels. The frame's document has its
        // origin.
        std::string source;
        for (const char c : html)
            source += c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
        const std::string frame =
            "<!doctype html><meta charset=\"utf-8\"><iframe style=\"border:0;height:900px;width:" +
            std::to_string(width) + "px\" srcdoc=\"" + source +
            "\"></iframe><script>setInterval(() => { const probe = document.querySelector('iframe').contentDocument"
            ".documentElement.dataset.probe; if (probe) document.documentElement.dataset.result = probe; }, "
            "100);</script>";
        const auto page = folder_ / "page.html";
        EXPECT_TRUE(write_file(page, std::string_view(frame)));
        auto arguments = chromium_arguments(chromium_, folder_ / "profile");
        arguments.insert(arguments.end(), flags.begin(), flags.end());
        arguments.insert(arguments.end(), {"--enable-logging=stderr", "--v=0", "--window-size=1400,1000",
                                           "--virtual-time-budget=6000", "--dump-dom", "file://" + page.string()});
        const auto ran = run_process(arguments, std::chrono::seconds(90), no_progress());
        if (!ran) {
            ADD_FAILURE() << ran.error().describe();
            return {};
        }
        EXPECT_EQ(ran->errors.find("CONSOLE"), std::string::npos) << ran->errors;
        const std::string open = "data-result=\"";
        const std::size_t start = ran->output.find(open);
        if (start == std::string::npos) {
            ADD_FAILURE() << "the probe reported nothing: " << ran->errors;
            return {};
        }
        std::string text = ran->output.substr(start + open.size());
        text.resize(text.find('"'));
        for (const auto& [entity, character] :
             {std::pair{"&quot;", "\""}, {"&lt;", "<"}, {"&gt;", ">"}, {"&nbsp;", "\xC2\xA0"}, {"&amp;", "&"}}) {
            const std::string name = entity;
            for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1))
                text.replace(at, name.size(), character);
        }
        auto json = parse_json(text, "probe");
        EXPECT_TRUE(json) << text.substr(0, 300);
        return json ? *json : Json();
    }

    static std::string page_of(const Json& json) {
        const auto document = test::document_of(json);
        EXPECT_TRUE(document) << document.error().describe();
        return document ? render_html(*document) : "";
    }

    static void expect_good(const Json& seen) {
        ASSERT_TRUE(seen.contains("messages"));
        EXPECT_THAT(seen["messages"], IsEmpty()) << seen["messages"];
        EXPECT_LE(seen["scroll"], seen["width"]) << "the page scrolls sideways";
        EXPECT_EQ(seen["emptySections"], 0);
        EXPECT_EQ(seen["undefinedText"], 0);
        for (const Json& canvas : seen["canvases"]) {
            EXPECT_GT(canvas["marked"], 400) << canvas["id"] << " is blank";
            EXPECT_LE(canvas["right"], seen["width"]) << canvas["id"];
            EXPECT_EQ(canvas["role"], "img");
            EXPECT_GT(canvas["label"].get<std::string>().size(), 30U) << canvas["id"];
        }
    }

    /// The whiskers of one chart, after a look whether each lies inside the frame.
    static Json whiskers_of(const Json& seen, const std::string& id) {
        const Json chart = seen["whiskers"][id];
        EXPECT_THAT(chart["paths"], Not(IsEmpty())) << id;
        for (const Json& path : chart["paths"]) {
            for (const Json& point : path) {
                EXPECT_GE(point[0], chart["left"]) << id << ": " << path;
                EXPECT_LE(point[0], chart["right"]) << id << ": " << path;
                EXPECT_GE(point[1], chart["top"]) << id << ": " << path;
                EXPECT_LE(point[1], chart["bottom"]) << id << ": " << path;
            }
        }
        return chart;
    }

    /// Where the whisker that reaches farthest right ends, and whether in an arrow: then its points include the tip.
    static std::pair<double, bool> farthest(const Json& chart) {
        std::pair<double, bool> found{0, false};
        for (const Json& path : chart["paths"]) {
            for (const Json& point : path)
                if (point[0] > found.first) found = {point[0].get<double>(), path.size() > 6};
        }
        return found;
    }

    static std::set<std::string> charts(const Json& seen) {
        std::set<std::string> ids;
        for (const Json& canvas : seen["canvases"])
            ids.insert(canvas["id"]);
        return ids;
    }

    test::TemporaryFolder folder_;
    std::filesystem::path chromium_;
};

TEST_F(Browser, WholeReportOnADesktop) {
    const Json seen = look(page_of(test::sample()), 1280);
    expect_good(seen);
    EXPECT_EQ(seen["heading"], "ResNet-50 (sample)");
    EXPECT_THAT(charts(seen),
                UnorderedElementsAre("chart-latency", "chart-throughput", "chart-speedup", "chart-size", "chart-memory",
                                     "chart-accuracy-speed", "chart-layers", "chart-precision-share",
                                     "chart-histogram-1", "chart-histogram-2", "chart-histogram-3", "chart-histogram-4",
                                     "chart-histogram-5", "chart-histogram-6", "chart-sensitivity", "chart-mix"));
    EXPECT_EQ(seen["sections"].size(), 16U);
    const Json whole = test::sample();
    EXPECT_EQ(seen["tables"]["Corrections of the quantisation"], 6) << "five steps and what they come to together";
    EXPECT_EQ(seen["tables"]["Corrections of INT8 before the search"], 5) << "the search decides about the last layers";
    EXPECT_EQ(seen["tables"]["Sensitivity"], whole["sensitivity"]["layers"].size() + 1) << "and everything in INT8";
    EXPECT_EQ(seen["tables"]["Trials"], whole["tune"]["trials"].size());
    EXPECT_EQ(seen["background"], "rgb(255, 255, 255)");
}

TEST_F(Browser, WholeReportOnAPhone) {
    const Json seen = look(page_of(test::sample()), 390);
    EXPECT_EQ(seen["width"], 390);
    expect_good(seen);
    EXPECT_EQ(seen["canvases"].size(), 16U);
}

TEST_F(Browser, DarkRecoloursPageAndCharts) {
    const Json seen = look(page_of(test::sample()), 1280, {"--force-dark-mode"});
    expect_good(seen);
    EXPECT_EQ(seen["background"], "rgb(18, 23, 28)");
    for (const Json& canvas : seen["canvases"])
        EXPECT_EQ(canvas["paper"], Json({18, 23, 28})) << canvas["id"];
}

TEST_F(Browser, ProbeSeesBlankChartsAndMessages) {
    std::string html = page_of(test::sample());
    const std::string call = "page.replaceChildren(";
    html.replace(html.find(call), call.size(), "drawn.length = 0; console.warn('seen'); page.replaceChildren(");
    const Json seen = look(html, 1280);
    EXPECT_EQ(seen["messages"], Json({"warn: seen"}));
    ASSERT_THAT(seen["canvases"], Not(IsEmpty()));
    for (const Json& canvas : seen["canvases"])
        EXPECT_EQ(canvas["marked"], 0);
}

TEST_F(Browser, AnyPartAloneHasNoEmptyBoxes) {
    const Json whole = test::sample();
    const std::vector<std::pair<std::string, std::set<std::string>>> parts{
        {"bench", {"chart-latency", "chart-throughput", "chart-speedup", "chart-size", "chart-memory"}},
        {"eval", {}},
        {"layers", {"chart-layers", "chart-precision-share"}},
        {"calibration",
         {"chart-histogram-1", "chart-histogram-2", "chart-histogram-3", "chart-histogram-4", "chart-histogram-5",
          "chart-histogram-6"}},
        {"sensitivity", {"chart-sensitivity"}},
        {"tune", {"chart-mix"}}};
    for (const auto& [part, expected] : parts) {
        SCOPED_TRACE(part);
        const Json seen = look(page_of(whole[part]), 390);
        expect_good(seen);
        EXPECT_EQ(charts(seen), expected);
    }
}

TEST_F(Browser, AccuracyOfTextModelsHasItsOwnColumns) {
    const Json squad = look(page_of(test::squad_eval()), 1280);
    expect_good(squad);
    EXPECT_EQ(squad["tables"]["Accuracy"], 2);
    for (const char* title : {"Exact match", "F1", "With answer: exact", "With answer: F1", "Without: right",
                              "Exact change, pt", "F1 change, pt", "Same answer"})
        EXPECT_THAT(squad["tableHeads"], testing::Contains(title)) << title;
    for (const char* title : {"Top-1", "Spearman", "Agreement"})
        EXPECT_THAT(squad["tableHeads"], Not(testing::Contains(title))) << title;
    const std::string cells = squad["tableCells"].dump();
    for (const char* figure : {"75.25\u202F%", "81.25\u202F%", "83.00\u202F%"})
        EXPECT_THAT(cells, HasSubstr(figure));

    const Json similarity = look(page_of(test::similarity_eval()), 390);
    expect_good(similarity);
    for (const char* title : {"Spearman", "Pearson", "Spearman change", "Rank agreement", "Least cosine"})
        EXPECT_THAT(similarity["tableHeads"], testing::Contains(title)) << title;
    EXPECT_THAT(similarity["tableHeads"], Not(testing::Contains("F1")));
    for (const char* figure : {"0.8274", "0.99876", "\u22120.0009"})
        EXPECT_THAT(similarity["tableCells"].dump(), HasSubstr(figure));
}

TEST_F(Browser, ATaskTellsItsColumnsAndDetectorsShowPictures) {
    const Json seen = look(page_of(test::detection_eval()), 1280);
    expect_good(seen);
    for (const char* title : {"mAP 0.50:0.95", "mAP change, pt", "same detections"})
        EXPECT_THAT(seen["tableHeads"], testing::Contains(title)) << title;
    EXPECT_THAT(seen["tableHeads"], Not(testing::Contains("Top-1")));
    EXPECT_EQ(seen["tables"]["Worst pictures of INT8"], 1);
    for (const char* figure : {"30.00\u202F%", "95.0\u202F%", "25.00\u202F%"})
        EXPECT_THAT(seen["tableCells"].dump(), HasSubstr(figure));
}

TEST_F(Browser, MasksAndKeypointsAreDrawnIntoThePictures) {
    Json instances = test::detection_eval();
    instances["task"] = "instances";
    Json& worst = instances["subjects"][1]["worst"][0];
    // Of 2 x 4 pixels the second column, and the upper one of the third.
    worst["reference_boxes"][0]["mask"] = {{"size", {2, 4}}, {"counts", "233"}};
    worst["subject_boxes"] = worst["reference_boxes"];
    worst["subject_boxes"][0]["mask"]["counts"] = "\x01<script>";
    const Json masks = look(page_of(instances), 1280);
    expect_good(masks);
    EXPECT_EQ(masks["marks"], Json::parse(R"(["image ", "path M1.5 0v2M2.5 0v1", "rect ", "text ",
                                               "image ", "rect ", "text "])"));
    EXPECT_THAT(masks["tableHeads"], testing::Contains("Same masks"));

    Json keypoints = test::detection_eval();
    keypoints["task"] = "keypoints";
    Json& person = keypoints["subjects"][1]["worst"][0]["reference_boxes"][0];
    for (int i = 0; i < 17; ++i)
        person["points"].push_back({i % 4, 1, i == 13 || i == 15 || i == 2 ? 0.9 : 0.1});
    const Json points = look(page_of(keypoints), 1280);
    expect_good(points);
    // One limb has both of its ends.
    EXPECT_EQ(points["marks"],
              Json::parse(R"(["image ", "line ", "circle ", "circle ", "circle ", "rect ", "text ", "image "])"));
    EXPECT_THAT(points["tableHeads"], testing::Contains("Same poses"));
}

TEST_F(Browser, LengthsOfTextsAreDrawn) {
    for (const int width : {1280, 390}) {
        const Json seen = look(page_of(test::text_lengths()), width);
        expect_good(seen);
        EXPECT_EQ(charts(seen), std::set<std::string>{"chart-text-lengths"});
        EXPECT_EQ(seen["tables"]["Lengths to fill up to"], 3) << "nothing, one length, two";
        EXPECT_EQ(seen["tables"]["Samples by length"], 30) << "3 to 92 in steps of three";
        EXPECT_THAT(seen["canvases"][0]["label"].get<std::string>(), HasSubstr("From 3 to 90 tokens"));
    }
    Json odd = test::text_lengths();
    odd["histogram"] = Json::parse("[[-1e308, 1], [1e308, 2], [5, 4]]");
    odd["proposals"] = nullptr;
    odd["percentiles"] = nullptr;
    odd["own"] = nullptr;
    const Json seen = look(page_of(odd), 390);
    expect_good(seen);
    EXPECT_EQ(seen["tables"]["Samples by length"], 1);
}

TEST_F(Browser, HostileAndBareValuesStayTextAndQuiet) {
    const std::string hostile =
        "</script><script>window.alerted=1</script><img src=x onerror='window.alerted=2'>" + std::string(300, 'w');
    Json json = test::sample();
    json["model"]["name"] = hostile;
    json["provenance"]["command"] = hostile;
    json["quantization"]["decisions"][0]["reason"] = hostile;
    json["layers"]["subjects"][1]["layers"][0]["name"] = hostile;
    json["calibration"]["tensors"][0]["name"] = hostile;
    json["quantization"]["corrections"]["steps"][0]["detail"] = hostile;
    json["sensitivity"]["layers"][0]["node"] = hostile;
    json["sensitivity"]["advice"] = {hostile};
    json["tune"]["trials"][3]["name"] = hostile;
    json["tune"]["reasons"] = {hostile};
    json["stages"] = {{{"name", hostile}, {"seconds", 0.0}}};
    for (Json& subject : json["bench"]["subjects"])
        if (subject["name"] == "openvino") subject["file"] = hostile;
    // Only what is required, null for the rest, one batch size.
    Json rows = Json::array();
    for (const Json& row : json["bench"]["latency"])
        if (row["batch"] == 1)
            rows.push_back(
                {{"subject", row["subject"]}, {"batch", 1}, {"median_ms", row["median_ms"]}, {"ci95_ms", nullptr}});
    json["bench"]["latency"] = rows;
    json["bench"]["throughput"] = Json::array({{{"subject", "int8"}, {"batch", 1}, {"samples_per_second", 160}}});
    json["bench"]["ratios"] =
        Json::array({{{"subject", "int8"}, {"reference", "pytorch"}, {"batch", 1}, {"speedup", 6.4}}});
    for (Json& tensor : json["calibration"]["tensors"])
        for (const char* key : {"min", "max", "low", "high", "clipped_fraction", "sqnr_db"})
            tensor[key] = nullptr;
    for (Json& step : json["tune"]["corrections"]["steps"])
        step = {{"method", step["method"]}, {"kept", false}, {"before", nullptr}};
    const Json seen = look(page_of(json), 390);
    expect_good(seen);
    EXPECT_EQ(seen["alerted"], 0);
    EXPECT_EQ(seen["images"], 0);
    EXPECT_EQ(seen["heading"], hostile);
}

TEST_F(Browser, EveryInt8NetworkIsShown) {
    Json json = test::sample();
    Json answer = json["quantization"];
    Json& corrections = answer["corrections"];
    corrections["after"]["metric_name"] = "mean IoU";
    for (Json& step : corrections["steps"])
        step["after"]["metric"] = step["before"]["metric"] = 0.97;
    json["quantization"].erase("corrections");
    json["quantizations"] = {{"int8", json["quantization"]}, {"int8-effort2", answer}};
    const Json seen = look(page_of(json), 1280);
    expect_good(seen);
    EXPECT_FALSE(seen["tables"].contains("Corrections of int8"));
    EXPECT_EQ(seen["tables"]["Corrections of int8-effort2"], 6);
    for (const char* network : {"int8", "int8-effort2"})
        EXPECT_TRUE(seen["tables"].contains("Quantisation decisions by reason of " + std::string(network)));
    EXPECT_THAT(seen["tableHeads"].get<std::vector<std::string>>(), testing::Contains(HasSubstr("Task's metric")));

    json["quantizations"]["int8"]["decisions"] = 3;
    EXPECT_FALSE(make_document({{"bad.json", json}}, {}));
    json["quantizations"]["int8"] = 3;
    EXPECT_FALSE(make_document({{"bad.json", json}}, {}));
}

/// What `lathe tune` writes: FP32, INT8 and a mix between that wins by chance, and one that could not be built.
Json tune_result(const std::string& metric, const std::string& ranked_by) {
    const auto trial = [](const char* name, double speedup, double drop, double loss, double kl, bool chosen) {
        return Json{{"name", name},
                    {"phase", "int8"},
                    {"latency_ms", 10 / speedup},
                    {"speedup", speedup},
                    {"drop", drop},
                    {"loss", loss},
                    {"mean_kl", kl},
                    {"feasible", true},
                    {"pareto", true},
                    {"chosen", chosen},
                    {"float_layers", Json::array()}};
    };
    Json result{{"kind", "tune"},
                {"version", 1},
                {"metric", metric},
                {"max_drop", 0.5},
                {"drop_unit", "pt"},
                {"seconds", 60},
                {"search_samples", 100},
                {"chosen", "INT8"},
                {"text", "INT8: use it"},
                {"layers", {{{"node", "conv"}, {"precision", "int8"}, {"damage", 0.002}, {"gain_ms", 0.5}}}}};
    result["trials"] = {trial("FP32", 1, 0, 0, 0, false),
                        trial("INT8", 3, 0.25, 0.0625, 0.0078125, true),
                        trial("INT8, 1 layer FP32", 2.5, -0.1, 0.03125, 0.00390625, false),
                        {{"name", "INT8 (rest BF16)"}, {"failed", "no bf16"}, {"pareto", false}, {"chosen", false}}};
    if (!ranked_by.empty()) {
        result["ranked_by"] = ranked_by;
    } else { // as results were before front and ranks were told apart
        for (Json& one : result["trials"])
            one.erase("loss");
    }
    return result;
}

TEST_F(Browser, TuneChartSaysWhatItDraws) {
    for (const auto& [metric, ranked_by, loss, figure, ranks] :
         {std::tuple{"top1", "kl", "top-1, smoothed, pt", "0.25", "Ranked by KL"},
          std::tuple{"sqnr", "sqnr", "noise over signal", "0.063", "Ranked by noise over signal"},
          std::tuple{"kl", "kl", "mean KL, nats", "0.063", "Ranked by KL"},
          std::tuple{"top1", "", "mean KL, nats", "0.0078", "Ranked by KL"}}) {
        SCOPED_TRACE(std::string(metric) + " " + ranked_by);
        const std::string html = page_of(tune_result(metric, ranked_by));
        const Json seen = look(html, 1280);
        expect_good(seen);
        ASSERT_EQ(charts(seen), std::set<std::string>{"chart-mix"});
        const std::string label = seen["canvases"][0]["label"];
        EXPECT_THAT(label, testing::HasSubstr("Loss: " + std::string(loss) + ". "));
        EXPECT_THAT(label, testing::HasSubstr("INT8: 3.00×, loses " + std::string(figure)));
        EXPECT_THAT(seen["tableHeads"].dump(), testing::HasSubstr(ranks));
    }
}

/// The sample with an interval of INT8's latency at batch 1 up to `high`, in ms; the slowest median there is 38.9.
Json sample_with_interval(double high) {
    Json json = test::sample();
    for (Json& row : json["bench"]["latency"])
        if (row["batch"] == 1 && row["subject"] == "int8") row["ci95_ms"] = {5.5, high};
    return json;
}

TEST_F(Browser, AxesGoOnToTheEndsOfIntervals) {
    const Json seen = look(page_of(sample_with_interval(60)), 1280);
    expect_good(seen);
    for (const char* id : {"chart-latency", "chart-speedup"})
        whiskers_of(seen, id);
    const Json chart = whiskers_of(seen, "chart-accuracy-speed");
    EXPECT_EQ(chart["paths"].size(), 6U) << "two a subject";
    const double width = chart["right"].get<double>() - chart["left"].get<double>();
    const auto [end, arrow] = farthest(chart);
    ASSERT_EQ(chart["min"], 0);
    EXPECT_NEAR(end, chart["left"].get<double>() + width * 60 / chart["max"].get<double>(), 0.01);
    EXPECT_FALSE(arrow);
    EXPECT_THAT(chart["note"].get<std::string>(), Not(HasSubstr("arrow")));
}

TEST_F(Browser, IntervalsTooLongForTheirAxisAreCutWithAnArrow) {
    Json json = sample_with_interval(4000);
    const Json seen = look(page_of(json), 1280);
    expect_good(seen);
    const Json chart = whiskers_of(seen, "chart-accuracy-speed");
    EXPECT_DOUBLE_EQ(chart["max"], 2 * 37.7) << "twice the slowest of those evaluated";
    EXPECT_EQ(farthest(chart), std::pair(chart["right"].get<double>(), true));
    EXPECT_THAT(chart["note"].get<std::string>(), HasSubstr("An arrow: the interval runs on"));
    EXPECT_THAT(chart["table"].get<std::string>(), HasSubstr("to 4000\u202Fms"));
    EXPECT_THAT(chart["tips"].dump(), HasSubstr("to 4000\u202Fms"));

    // Bars, and the label behind them.
    Json rows = Json::array();
    for (const Json& row : json["bench"]["latency"])
        if (row["batch"] == 1) rows.push_back(row);
    json["bench"]["latency"] = rows;
    const Json bars = whiskers_of(look(page_of(json), 390), "chart-latency");
    EXPECT_DOUBLE_EQ(bars["max"], 2 * 38.9);
    EXPECT_EQ(farthest(bars), std::pair(bars["right"].get<double>(), true));
}

TEST_F(Browser, ARatioThatDidNotSettleSetsNoScale) {
    Json json = test::sample();
    Json& ratios = json["bench"]["ratios"];
    const std::string subject = "int8"; // which its verdict recommends
    double largest = 0;
    Json* wild = nullptr;
    for (Json& row : ratios) {
        if (row["subject"] != subject) continue;
        if (wild == nullptr)
            wild = &row;
        else
            largest = std::max(largest, row["speedup"].get<double>());
    }
    ASSERT_NE(wild, nullptr);
    ASSERT_GT(largest, 0);
    (*wild)["speedup"] = 1802;
    (*wild)["ci95"] = {2, 9000};
    const auto chart_of = [&](bool noisy) {
        for (Json& row : json["bench"]["latency"])
            if (row["batch"] == (*wild)["batch"] && row["subject"] == (*wild)["reference"]) row["noisy"] = noisy;
        const Json seen = look(page_of(json), 1280);
        expect_good(seen);
        return whiskers_of(seen, "chart-speedup");
    };
    const Json torn = chart_of(true);
    EXPECT_LE(torn["max"].get<double>(), 2 * largest);
    EXPECT_THAT(torn["note"].get<std::string>(), HasSubstr("A torn bar goes on beyond the frame"));
    EXPECT_THAT(torn["table"].get<std::string>(), HasSubstr("1802"));
    // One that settled is believed, however large.
    (*wild)["ci95"] = {1700, 1900};
    const Json whole = chart_of(false);
    EXPECT_GE(whole["max"].get<double>(), 1802);
    EXPECT_THAT(whole["note"].get<std::string>(), Not(HasSubstr("torn")));
}

TEST_F(Browser, ImagesOfEveryChart) {
    const auto files = write_images(page_of(test::sample()), folder_ / "charts");
    ASSERT_TRUE(files) << files.error().describe();
    ASSERT_EQ(files->size(), 16U);
    EXPECT_EQ(files->front().filename(), "latency.png");
    for (const auto& file : *files) {
        const auto bytes = read_text_file(file);
        ASSERT_TRUE(bytes);
        ASSERT_GT(bytes->size(), 8000U) << file << " is blank";
        EXPECT_EQ(bytes->substr(0, 8), "\x89PNG\r\n\x1A\n");
        // Width, big-endian at byte 16 of the first chunk.
        EXPECT_EQ(bytes->substr(16, 4), std::string("\x00\x00\x07\x80", 4)) << file << " is not 1920 wide";
    }
}

TEST_F(Browser, PrintsOnAFewPages) {
    const auto page = folder_ / "report.html";
    const auto pdf = folder_ / "report.pdf";
    ASSERT_TRUE(write_file(page, std::string_view(page_of(test::sample()))));
    auto arguments = chromium_arguments(chromium_, folder_ / "profile");
    arguments.insert(arguments.end(),
                     {"--enable-logging=stderr", "--v=0", "--force-dark-mode", "--virtual-time-budget=6000",
                      "--print-to-pdf=" + pdf.string(), "file://" + page.string()});
    const auto ran = run_process(arguments, std::chrono::seconds(90), no_progress());
    ASSERT_TRUE(ran) << ran.error().describe();
    EXPECT_EQ(ran->errors.find("CONSOLE"), std::string::npos) << ran->errors;
    const auto bytes = read_text_file(pdf);
    ASSERT_TRUE(bytes);
    EXPECT_EQ(bytes->substr(0, 5), "%PDF-");
    // Fewer would mean that charts are missing, more that each stands on a page of its own.
    std::size_t pages = 0;
    for (std::size_t at = bytes->find("/Type /Page\n"); at != std::string::npos;
         at = bytes->find("/Type /Page\n", at + 1))
        ++pages;
    EXPECT_GE(pages, 4U);
    EXPECT_LE(pages, 12U);
}

} // namespace
} // namespace lathe::report
