#include "api/optimized_rows.hpp"

#include <gtest/gtest.h>

namespace lathe {
namespace {

Json bench() {
    return Json::parse(R"({
        "subjects": [{"name": "fp32", "kind": "engine", "precision": "fp32"},
                     {"name": "int8", "kind": "engine", "precision": "int8"},
                     {"name": "onnxruntime", "kind": "onnxruntime", "precision": "fp32"}],
        "latency": [{"subject": "fp32", "batch": 1, "median_ms": 4, "ci95_ms": [3, 5]},
                    {"subject": "int8", "batch": 1, "median_ms": 2, "ci95_ms": [1, 3]},
                    {"subject": "onnxruntime", "batch": 1, "median_ms": 6, "ci95_ms": [5, 7]}],
        "ratios": [{"subject": "fp32", "reference": "int8", "batch": 1, "speedup": 0.5, "ci95": [0.4, 0.8]}]})");
}

void expect(const std::optional<Measured>& found, const std::optional<Measured>& wanted, const std::string& what) {
    ASSERT_EQ(found.has_value(), wanted.has_value()) << what;
    if (!found) return;
    EXPECT_DOUBLE_EQ(found->value, wanted->value) << what;
    EXPECT_DOUBLE_EQ(found->low, wanted->low) << what;
    EXPECT_DOUBLE_EQ(found->high, wanted->high) << what;
}

struct Case {
    const char* eval;
    const char* metric; ///< of the int8 engine
    std::optional<Measured> score;
    std::optional<Measured> change;
    std::optional<Measured> top1;
};

TEST(OptimizedRows, WhatTheTaskIsJudgedBy) {
    const Case cases[] = {
        {R"({"subjects": [{"name": "fp32", "top1": 0.9, "top1_ci95": [0.8, 0.95]},
                          {"name": "int8", "top1": 0.875, "top1_ci95": [0.75, 0.9375],
                           "vs_reference": {"top1_delta": -0.025, "top1_delta_ci95": [-0.05, 0.01]}}]})",
         "top-1", Measured{0.875, 0.75, 0.9375}, Measured{-0.025, -0.05, 0.01}, Measured{0.875, 0.75, 0.9375}},
        {R"({"metric": {"name": "mAP", "key": "map"},
             "subjects": [{"name": "int8", "map": 0.5, "map_ci95": [0.4, 0.6],
                           "vs_reference": {"map_delta": 0.01, "map_delta_ci95": [0, 0.02]}}]})",
         "mAP",
         Measured{0.5, 0.4, 0.6},
         Measured{0.01, 0, 0.02},
         {}},
        // Without labels there is only the agreement with the FP32 engine, and nothing that it changes.
        {R"({"metric": {"name": "agreement", "key": "agreement"},
             "subjects": [{"name": "int8", "vs_reference": {"agreement": 0.75}}]})",
         "agreement",
         Measured{0.75, 0.75, 0.75},
         {},
         {}},
        {R"({"metric": {"name": "mAP", "key": "map"}, "subjects": [{"name": "int8", "map": null}]})", "", {}, {}, {}},
        {R"({"metric": 3, "subjects": [{"name": "int8", "map": 0.5}]})", "", {}, {}, {}},
        {"{}", "", {}, {}, {}},
    };
    for (const Case& each : cases) {
        const auto rows = optimized_rows(bench(), Json::parse(each.eval), "out");
        ASSERT_EQ(rows.size(), 3U) << each.eval;
        EXPECT_EQ(rows[1].metric, each.metric) << each.eval;
        expect(rows[1].score, each.score, each.eval);
        expect(rows[1].score_change, each.change, each.eval);
        expect(rows[1].top1, each.top1, each.eval);
        EXPECT_EQ(rows[2].metric, "") << "frameworks are not judged";
    }
}

TEST(OptimizedRows, ARatioMeasuredTheOtherWayRoundIsTurned) {
    const auto rows = optimized_rows(bench(), Json::object(), "out");
    expect(rows[1].speedup, Measured{2, 1.25, 2.5}, "int8");
    EXPECT_FALSE(rows[0].speedup);
    EXPECT_EQ(rows[1].engine, std::filesystem::path("out") / "int8.engine");
}

} // namespace
} // namespace lathe
