#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands.hpp"
#include "cli/numbers.hpp"
#include "lathe/plan.hpp"
#include "support/json.hpp"

namespace lathe::cli {

namespace {

struct PlanOptions {
    PlanRequest request;
    double max_utilisation = 95; ///< percent
    std::string try_engine;
    double try_seconds = 10;
    std::string prices;
    std::string output;
};

std::string ms(double value) { return fixed(value, value >= 100 ? 0 : value >= 10 ? 1 : value >= 0.1 ? 2 : 3); }
std::string percent(double share) { return fixed(100 * share, 0) + " %"; }

std::string in_words(const PlannedConfiguration& choice) {
    const std::string instances =
        choice.instances == 1 ? "one instance" : std::to_string(choice.instances) + " instances";
    return std::to_string(choice.machines) + (choice.machines == 1 ? " machine" : " machines") + " with " + instances +
           ", batches up to " + std::to_string(choice.max_batch) + ", the oldest request waits " +
           (choice.max_wait_ms > 0 ? "at most " + ms(choice.max_wait_ms) + " ms" : "for nobody");
}

std::string stage_table(const PlanResult& plan) {
    std::vector<std::vector<std::string>> rows{
        {"stage", "mean ms", "median", "p99", "of a request at " + plan.objective, "share"}};
    double total = 0;
    for (const PlannedStage& stage : plan.stages)
        total += stage.at_slo_ms;
    for (const PlannedStage& stage : plan.stages) {
        rows.push_back({stage.name, ms(stage.mean_ms), ms(stage.median_ms), ms(stage.p99_ms), ms(stage.at_slo_ms),
                        percent(stage.at_slo_ms / total)});
    }
    rows.push_back({"total", ms(plan.mean_ms), ms(plan.median_ms), ms(plan.p99_ms), ms(total), "100 %"});
    return table(rows);
}

/// What the table has no rows for, in a line.
std::string left_open(const PlanResult& plan) {
    std::string line;
    const auto append = [&](const std::string& part, const char* between) {
        line += (line.empty() ? "" : between) + part;
    };
    for (const std::string& stage : plan.not_measured)
        append(stage, ", ");
    if (!line.empty()) line = "not measured and not in --stages: " + line;
    for (const std::string& fact : plan.remarks)
        append(fact, "; ");
    return line;
}

std::string batch_table(const PlanResult& plan) {
    std::vector<std::vector<std::string>> rows{
        {"batches up to", "machines", "instances", "wait ms", plan.objective + " ms", "utilisation"}};
    for (const PlannedConfiguration& row : plan.by_batch) {
        rows.push_back({std::to_string(row.max_batch), std::to_string(row.machines), std::to_string(row.instances),
                        ms(row.max_wait_ms), ms(row.slo_ms), percent(row.utilisation)});
    }
    return table(rows);
}

void print_plan(const Context& context, const PlanResult& plan) {
    const PlannedConfiguration& choice = plan.choice;
    const std::string promise =
        plan.objective + " within " + ms(plan.objective_ms) + " ms at " + fixed(plan.rate, 0) + " requests/s";
    context.print(plan.meets ? context.bold(promise + ": " + in_words(choice))
                             : context.red("not possible: " + promise) + "; nearest: " + in_words(choice));
    context.print(plan.objective + " " + ms(choice.slo_ms) + " ms (± " + ms(plan.slo_half_width_ms) + "), mean batch " +
                  fixed(plan.mean_batch, 1) + ", " + percent(choice.utilisation) + " of the " +
                  fixed(plan.machine_capacity, 0) + " requests/s that a machine can serve" +
                  (plan.without_one_ms ? "; with one machine down " + ms(*plan.without_one_ms) + " ms" : ""));
    context.print("");
    context.print(stage_table(plan));
    if (const std::string open = left_open(plan); !open.empty()) context.print(open);
    if (plan.by_batch.size() > 1) {
        context.print("");
        context.print(context.bold("Fewest machines by batch size"));
        context.print(batch_table(plan));
    }
    for (const std::string& warning : plan.warnings)
        context.warn(warning);
}

void add_rows(std::vector<std::vector<std::string>>& rows, const PlanTrial& trial, const std::string& predicted_from) {
    const auto row = [&](const std::string& name, const LoadLatency& latency) {
        rows.push_back({name, ms(latency.mean_ms), ms(latency.median_ms), ms(latency.p90_ms), ms(latency.p99_ms),
                        fixed(latency.mean_batch, 2)});
    };
    row("predicted from " + predicted_from, trial.predicted);
    row("measured", trial.measured);
}

void print_trials(const Context& context, const PlanTrials& trials) {
    std::vector<std::vector<std::string>> rows{{"", "mean ms", "median", "p90", "p99", "mean batch"}};
    add_rows(rows, trials.from_bench, "the bench");
    add_rows(rows, trials.from_load, "the first load");
    context.print("");
    context.print(context.bold("Served here: one machine's share, " + fixed(trials.rate, 0) +
                               " requests/s, two loads of " + fixed(trials.from_load.seconds, 0) +
                               " s, without the stages outside the engine"));
    context.print(table(rows));
    if (!trials.from_bench.p99_reliable) context.warn("p99 is of fewer than 662 requests; raise --try-seconds");
}

std::string in_words(const std::optional<PricedMix>& mix, const PricePlanResult& plan) {
    if (!mix) return "nothing";
    std::string machines;
    for (std::size_t k = 0; k < mix->counts.size(); ++k) {
        if (mix->counts[k] == 0) continue;
        machines += (machines.empty() ? "" : " and ") + std::to_string(mix->counts[k]) + " x " + plan.kinds[k].name;
    }
    return machines + ", " + fixed(mix->per_hour, 2) + " " + plan.currency + "/h";
}

/// What becomes of a mix at the rate, and when a machine fails.
std::string under_failure(const PricedMix& mix, const PricePlanResult& plan) {
    const auto at = [&](const std::optional<double>& slo_ms, double of_held) {
        return slo_ms ? plan.objective + " " + ms(*slo_ms) + " ms at " + percent(of_held) + " of what they hold"
                      : std::string(std::isfinite(of_held) ? "overloaded" : "nothing is left");
    };
    return at(mix.slo_ms, mix.of_held) + "; with one " + mix.failing + " less " +
           at(mix.without_one_ms, mix.without_one_of_held);
}

void print_prices(const Context& context, const PricePlanResult& plan) {
    context.print(plan.objective + " within " + ms(plan.objective_ms) + " ms at " + fixed(plan.rate, 0) +
                  " requests/s");
    std::vector<std::vector<std::string>> rows{{"machine", plan.currency + "/h", "holds requests/s", "instances",
                                                "batches up to", "wait ms", "alone", plan.currency + "/h"}};
    for (const PricedKind& kind : plan.kinds) {
        const auto& choice = kind.choice;
        rows.push_back({kind.name, fixed(kind.per_hour, 3), fixed(kind.rate_each, 0),
                        choice ? std::to_string(choice->instances) : "",
                        choice ? std::to_string(choice->max_batch) : "", choice ? ms(choice->max_wait_ms) : "",
                        kind.alone ? std::to_string(*kind.alone) : "not at all",
                        kind.alone ? fixed(kind.alone_per_hour, 2) : ""});
    }
    context.print(table(rows));
    context.print(context.bold("cheapest: ") + in_words(plan.cheapest, plan));
    if (plan.cheapest) context.print("  " + under_failure(*plan.cheapest, plan));
    const std::string more = plan.cheapest && plan.with_spare
                                 ? " (" + fixed(plan.with_spare->per_hour - plan.cheapest->per_hour, 2) + " more)"
                                 : "";
    context.print("if any one machine may fail: " + in_words(plan.with_spare, plan) + more);
    if (plan.with_spare) context.print("  " + under_failure(*plan.with_spare, plan));
}

/// The plan by price, without one engine's plan in detail.
Result<void> run_prices(const PlanOptions& options, const Context& context) {
    const PlanRequest& given = options.request;
    if (given.rate.empty() || !given.trace.empty() || !given.subject.empty() || !given.served.empty() ||
        given.machines > 0 || !options.try_engine.empty()) {
        return Error{ErrorCode::invalid_argument, "prices are of machines for a rate", "--prices",
                     "give --rate, and leave out --trace, --subject, --served, --machines and --try"};
    }
    PricePlanRequest request;
    request.prices = options.prices;
    request.slo = given.slo;
    request.rate = given.rate;
    request.stages = given.stages;
    request.batch_sizes = given.batch_sizes;
    request.max_wait = given.max_wait;
    request.instances = given.instances;
    request.max_utilisation = given.max_utilisation;
    request.progress = &context.progress();
    LATHE_CHECK(check_writable({options.output}));
    LATHE_TRY(const PricePlanResult plan, plan_prices(request));
    print_prices(context, plan);
    LATHE_TRY(Json document, parse_json(plan.document, "plan"));
    document["command"] = context.command_line();
    if (!options.output.empty()) LATHE_CHECK(write_json_file(options.output, document));
    context.print_json(std::move(document));
    if (plan.cheapest) return {};
    return Error{ErrorCode::verification_failed, "no kind of machine holds the objective at any rate", given.slo,
                 "a faster engine or shorter stages are needed"};
}

Result<void> run_plan(const PlanOptions& options, const Context& context) {
    if (options.prices.empty() == options.request.bench.empty()) {
        return Error{ErrorCode::invalid_argument,
                     "what was measured comes from --from, or for several kinds of machine "
                     "from --prices",
                     "", "give one of the two"};
    }
    if (!options.prices.empty()) return run_prices(options, context);
    PlanRequest request = options.request;
    request.progress = &context.progress();
    LATHE_CHECK(check_writable({options.output}));
    LATHE_TRY(const PlanResult found, plan(request));
    print_plan(context, found);
    LATHE_TRY(Json document, parse_json(found.document, "plan"));
    document["command"] = context.command_line();
    if (!options.try_engine.empty()) {
        LATHE_TRY(const PlanTrials trials, try_plan(request, found.choice, options.try_engine, options.try_seconds));
        print_trials(context, trials);
        LATHE_TRY(document["tried"], parse_json(trials.document, "plan"));
    }
    if (!options.output.empty()) LATHE_CHECK(write_json_file(options.output, document));
    context.print_json(std::move(document));
    if (found.meets) return {};
    return Error{ErrorCode::verification_failed, "the objective cannot be met", options.request.slo,
                 found.floor_ms > found.objective_ms ? "a faster engine or shorter stages are needed"
                                                     : "allow more machines, or other batch sizes"};
}

} // namespace

void add_plan(Commands& commands) {
    const auto options = std::make_shared<PlanOptions>();
    Context& context = commands.context();
    CLI::App& command = commands.add(
        {"plan",
         "From measured latencies to a latency budget by stage and the machines, batches and waiting time for an "
         "objective",
         {"lathe bench int8.engine --batch-sizes 1,2,4,8,16 --pause 2 --output bench.json",
          "lathe plan --slo p99=20ms --rate 1500/s --from bench.json",
          "lathe plan --slo p99=50ms --rate 90000/min --from bench.json --stages stages.json --json",
          "lathe plan --slo p99=30ms --trace arrivals.csv --rate 4000/s --from bench.json --max-wait 2ms",
          "lathe plan --slo p99=20ms --rate 300/s --from bench.json --machines 2 --try int8.engine --output tried.json",
          "lathe plan --slo p99=20ms --rate 1500/s --from bench.json --served tried.json",
          "lathe plan --slo p99=20ms --rate 1500/s --prices prices.json",
          ("echo '{\"currency\": \"USD\", \"machines\": [{\"name\": \"cpu-8\", \"per_hour\": 0.34, \"from\": "
           "\"bench.json\"}]}' > prices.json"),
          ("echo '{\"stages\": [{\"name\": \"network\", \"median_ms\": 0.8, \"p99_ms\": 3}, {\"name\": \"decode\", "
           "\"ms\": 2, \"workers\": 4}, {\"name\": \"postprocess\", \"ms\": 0.3}]}' > stages.json")}},
        [options, &context] {
            options->request.max_utilisation = options->max_utilisation / 100;
            return run_plan(*options, context);
        });
    command.add_option("--slo", options->request.slo, "Objective for the whole latency: p99=20ms, p99.9=1s, p50=800us")
        ->required();
    command.add_option("--rate", options->request.rate,
                       "Requests of one sample each, over all machines: 1500/s, 90000/min; with --trace: stretch it to "
                       "this rate");
    command.add_option("--trace", options->request.trace,
                       "Arrival times in seconds, one a line or a JSON list (default: a Poisson process)");
    command.add_option("--from", options->request.bench, "Results of lathe bench at several batch sizes");
    command.add_option(
        "--prices", options->prices,
        "In place of --from: a JSON or CSV file of kinds of machine, each with its price an hour and its bench; the "
        "cheapest mix that holds the objective, what it costs that one may fail, and what happens when one does");
    command.add_option("--subject", options->request.subject,
                       "Whose latencies (default: the first engine in the file)");
    command.add_option("--served", options->request.served,
                       "An earlier --output of --try: batches take as long as they did when served there");
    command.add_option("--stages", options->request.stages,
                       "JSON file of what requests pass outside the engine; see the last example. A stage takes ms, "
                       "mean_ms (exponential), median_ms with p99_ms (log-normal), or samples_ms; workers: so many at "
                       "once on a machine; where: before or after the engine");
    command
        .add_option("--batch", options->request.batch_sizes,
                    "Only these largest batches (default: all up to the measured)")
        ->delimiter(',')
        ->check(positive_number());
    command.add_option("--max-wait", options->request.max_wait,
                       "Let the oldest request wait at most so long for others: 2ms, 0ms");
    command
        .add_option("--instances", options->request.instances,
                    "Sessions a machine: 1, or the streams of the bench's throughput")
        ->check(positive_number());
    command.add_option("--machines", options->request.machines, "What these machines can do, instead of the fewest")
        ->check(positive_number());
    command.add_option("--max-utilisation", options->max_utilisation, "Percent of its capacity to load a machine with")
        ->check(CLI::Range(1.0, 99.0))
        ->capture_default_str();
    command.add_option(
        "--try", options->try_engine,
        "Serve one machine's share here with this engine, twice: against the prediction from the bench, and "
        "against that from what the first load showed");
    command.add_option("--try-seconds", options->try_seconds, "How long each")
        ->check(CLI::Range(0.1, 3600.0))
        ->capture_default_str();
    command.add_option("-o,--output", options->output, "Write the plan as JSON");
}

} // namespace lathe::cli
