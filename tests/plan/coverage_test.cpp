// Which of the usual stages a plan has no figures for, and what is said of those without a row.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/coverage.hpp"
#include "plan/machines.hpp"

namespace lathe::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

CapacityPlan with_rows(const std::vector<std::string>& names) {
    CapacityPlan plan;
    for (const std::string& name : names)
        plan.stages.push_back({name, 1, 1, 1, 1});
    return plan;
}

/// A curve as a bench on `device` gives it; empty: of a bench that does not say.
CapacityRequest benched_on(const std::string& device, bool with_data = false) {
    Json bench = bench_document({{1, 2.5}, {4, 4}});
    if (!device.empty()) bench["subjects"][1]["device"] = device;
    for (Json& row : bench["latency"])
        if (with_data) row["preprocess_ms"] = 1.5 * row["batch"].get<double>();
    CapacityRequest request;
    request.curve = *read_latency_curve(bench, "", "");
    return request;
}

TEST(StageCoverage, OmissionsAndFacts) {
    // On the CPU nothing is copied, which is no omission.
    const StageCoverage cpu = coverage_of(with_rows({"queue", "compute"}), benched_on("cpu"));
    EXPECT_THAT(cpu.missing, ElementsAre("decode", "preprocess", "postprocess"));
    EXPECT_THAT(cpu.facts, ElementsAre(HasSubstr("no copies in or out: the engine computes on the CPU")));
    // A GPU's copies were measured, or are missing.
    const StageCoverage gpu = coverage_of(with_rows({"queue", "copy in", "compute", "copy out"}), benched_on("cuda"));
    EXPECT_THAT(gpu.missing, ElementsAre("decode", "preprocess", "postprocess"));
    EXPECT_THAT(gpu.facts, IsEmpty());
    EXPECT_THAT(coverage_of(with_rows({"queue", "compute"}), benched_on("cuda")).missing,
                ElementsAre("decode", "preprocess", "copy in", "copy out", "postprocess"));
    EXPECT_THAT(coverage_of(with_rows({"queue", "compute"}), benched_on("")).missing,
                ElementsAre("decode", "preprocess", "copy in", "copy out", "postprocess"));
}

TEST(StageCoverage, TheBenchsPreprocessingHoldsDecoding) {
    CapacityRequest request = benched_on("cpu", true);
    request.preprocess_of_bench = true;
    const StageCoverage held = coverage_of(with_rows({"preprocess", "queue", "compute", "postprocess"}), request);
    EXPECT_THAT(held.missing, IsEmpty());
    EXPECT_THAT(held.facts, testing::Contains(HasSubstr("holds decoding")));
    // The file gives decode alone: the bench's figure would count it twice, so it is left out, and that is said.
    request.preprocess_of_bench = false;
    const StageCoverage apart = coverage_of(with_rows({"decode", "queue", "compute"}), request);
    EXPECT_THAT(apart.missing, ElementsAre("preprocess", "postprocess"));
    EXPECT_THAT(apart.facts, testing::Contains(HasSubstr("give preprocess there too")));
    EXPECT_EQ(to_json(apart)["not_measured"], (Json{"preprocess", "postprocess"}));
}

} // namespace
} // namespace lathe::test
