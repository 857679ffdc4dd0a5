#include "cli/mix_print.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace lathe::cli {

void print_trial(const TuneTrial& trial, bool is_best, const Context& context) {
    if (!trial.failed.empty()) {
        context.print(trial.phase + " " + trial.name + ": " + trial.failed);
        return;
    }
    const std::string phase = trial.first_speedup ? "again" : trial.phase;
    char text[200];
    std::snprintf(text, sizeof(text), "%-9s %-24s %7.3f ms  %5.2fx  ", phase.c_str(), trial.name.c_str(),
                  trial.latency_ms, trial.speedup.value);
    const std::string times = text;
    if (trial.first_speedup) {
        std::snprintf(text, sizeof(text), "timed longer; %.2fx when tried", *trial.first_speedup);
    } else {
        std::snprintf(text, sizeof(text), "loses %.3g %s, %s %.2g", trial.drop, trial.drop_unit.c_str(),
                      trial.loss_name.c_str(), trial.loss);
    }
    context.print(times + text + (is_best ? "  <- best so far" : ""));
}

void print_mix(const TuneResult& result, const Context& context) {
    std::vector<std::vector<std::string>> rows{{"Pareto front by " + result.metric, "ms", "x FP32",
                                                "loses " + result.drop_unit, "ranked by " + result.loss_name, ""}};
    std::vector<std::size_t> shown = result.front;
    const auto chosen = std::ranges::find(result.trials, true, &TuneTrial::chosen);
    const bool beaten = !chosen->pareto;
    if (beaten) shown.push_back(static_cast<std::size_t>(chosen - result.trials.begin()));
    for (const std::size_t i : shown) {
        const TuneTrial& trial = result.trials[i];
        rows.push_back({trial.name, number(trial.latency_ms, "%.3f"), number(trial.speedup.value, "%.2f"),
                        number(trial.drop, "%.3g"), number(trial.loss, "%.2g"),
                        !trial.chosen ? ""
                        : beaten      ? "chosen, not on the front"
                                      : "chosen"});
    }
    context.print("\n" + table(rows) + "\n");
    std::string kept;
    for (const TunedLayer& layer : result.layers) {
        if (layer.precision != "int8") kept += (kept.empty() ? "" : ", ") + layer.node + " (" + layer.precision + ")";
    }
    if (!kept.empty() && result.chosen.starts_with("INT8")) context.print("Not in INT8: " + kept);
    rows = {{"saved engine again, in turns with", "ms", "saved is faster (95 %)"}};
    for (const TimedBeside& engine : result.timed) {
        rows.push_back({engine.name, number(engine.latency_ms.value, "%.3f"),
                        number(engine.speedup.value, "%.3f") + "x (" + number(engine.speedup.low, "%.3f") + ".." +
                            number(engine.speedup.high, "%.3f") + ")"});
    }
    context.print(table(rows) + "\n");
    context.print(context.bold(result.text));
    for (const std::string& reason : result.reasons)
        context.print("  " + reason);
    context.print("Engine: " + result.engine.string());
}

} // namespace lathe::cli
