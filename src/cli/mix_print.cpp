#include "cli/mix_print.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

namespace lathe::cli {

namespace {

std::string number(const Json& value, const char* format) {
    char text[48];
    std::snprintf(text, sizeof(text), format, value.get<double>());
    return text;
}

} // namespace

void print_trial(const Trial& trial, bool is_best, const SearchOptions& options, const Context& context) {
    char text[200];
    if (trial.as_tried) {
        std::snprintf(text, sizeof(text), "%-9s %-24s %7.3f ms  %5.2fx  timed longer; %.2fx when tried%s", "again",
                      trial.mix.name().c_str(), trial.latency_ms, trial.speedup, trial.as_tried->speedup,
                      is_best ? "  <- best so far" : "");
        context.print(text);
    } else if (trial.failed.empty()) {
        std::snprintf(text, sizeof(text), "%-9s %-24s %7.3f ms  %5.2fx  loses %.3g %s, %s %.2g%s", trial.phase.c_str(),
                      trial.mix.name().c_str(), trial.latency_ms, trial.speedup, drop_of(trial.score, options.metric),
                      drop_unit(options.metric), loss_name(options.metric), loss_of(trial.score, options.metric),
                      is_best ? "  <- best so far" : "");
        context.print(text);
    } else {
        context.print(trial.phase + " " + trial.mix.name() + ": " + trial.failed);
    }
}

void print_mix(const Json& document, const std::vector<Trial>& trials, const SearchOptions& options,
               const Context& context) {
    std::vector<std::vector<std::string>> rows{{"Pareto front by " + std::string(to_string(options.metric)), "ms",
                                                "x FP32", "loses " + std::string(drop_unit(options.metric)),
                                                "ranked by " + std::string(loss_name(options.metric)), ""}};
    std::vector<std::size_t> shown = pareto_front(trials, options.metric);
    const std::size_t chosen = choose(trials, options).value();
    const bool beaten = std::ranges::find(shown, chosen) == shown.end();
    if (beaten) shown.push_back(chosen);
    for (const std::size_t i : shown) {
        const Json& trial = document["trials"][i];
        rows.push_back({trial["name"].get<std::string>(), number(trial["latency_ms"], "%.3f"),
                        number(trial["speedup"], "%.2f"), number(trial["drop"], "%.3g"), number(trial["loss"], "%.2g"),
                        i != chosen ? ""
                        : beaten    ? "chosen, not on the front"
                                    : "chosen"});
    }
    context.print("\n" + table(rows) + "\n");
    std::string kept;
    for (const Json& layer : document["layers"]) {
        if (layer["precision"] != "int8")
            kept += (kept.empty() ? "" : ", ") + layer["node"].get<std::string>() + " (" +
                    layer["precision"].get<std::string>() + ")";
    }
    if (!kept.empty() && document["chosen"].get<std::string>().starts_with("INT8"))
        context.print("Not in INT8: " + kept);
    rows = {{"saved engine again, in turns with", "ms", "saved is faster (95 %)"}};
    for (const Json& engine : document["judged"]["timed"]) {
        rows.push_back({engine["name"].get<std::string>(), number(engine["latency_ms"], "%.3f"),
                        number(engine["speedup"], "%.3f") + "x (" + number(engine["speedup_ci95"][0], "%.3f") + ".." +
                            number(engine["speedup_ci95"][1], "%.3f") + ")"});
    }
    context.print(table(rows) + "\n");
    context.print(context.bold(document["text"].get<std::string>()));
    for (const Json& reason : document["reasons"])
        context.print("  " + reason.get<std::string>());
    context.print("Engine: " + document["engine"].get<std::string>());
}

} // namespace lathe::cli
