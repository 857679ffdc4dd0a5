#include "plan/coverage.hpp"

#include <algorithm>

namespace lathe {

namespace {

constexpr const char* usual_way[] = {"decode", "preprocess", "copy in", "queue", "compute", "copy out", "postprocess"};

bool is_copy(const std::string& stage) { return stage == "copy in" || stage == "copy out"; }

} // namespace

StageCoverage coverage_of(const CapacityPlan& plan, const CapacityRequest& request) {
    StageCoverage coverage;
    const auto has_row = [&](const std::string& name) {
        return std::ranges::find(plan.stages, name, &StageBudget::name) != plan.stages.end();
    };
    const bool on_cpu = request.curve.device == "cpu";
    for (const std::string name : usual_way) {
        const bool told =
            has_row(name) || (name == "decode" && request.preprocess_of_bench) || (is_copy(name) && on_cpu);
        if (!told) coverage.missing.push_back(name);
    }
    if (request.preprocess_of_bench) coverage.facts.emplace_back("preprocess is the bench's figure and holds decoding");
    if (!request.preprocess_of_bench && !has_row("preprocess") && request.curve.preprocess_ms()) {
        coverage.facts.emplace_back("the bench's preprocessing is left out, since it holds decoding, which --stages "
                                    "gives: give preprocess there too");
    }
    if (on_cpu && !has_row("copy in"))
        coverage.facts.emplace_back("no copies in or out: the engine computes on the CPU, where the requests are");
    return coverage;
}

Json to_json(const StageCoverage& coverage) {
    return {{"not_measured", coverage.missing}, {"remarks", coverage.facts}};
}

} // namespace lathe
