#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "api/plan.hpp"
#include "bench/inputs.hpp"
#include "bench/statistics.hpp"
#include "cli/commands.hpp"
#include "cli/numbers.hpp"
#include "lathe/batching.hpp"
#include "plan/coverage.hpp"
#include "plan/load.hpp"
#include "plan/prices.hpp"
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

std::string in_words(const Configuration& choice) {
    const std::string instances =
        choice.instances == 1 ? "one instance" : std::to_string(choice.instances) + " instances";
    return std::to_string(choice.machines) + (choice.machines == 1 ? " machine" : " machines") + " with " + instances +
           ", batches up to " + std::to_string(choice.max_batch) + ", the oldest request waits " +
           (choice.max_wait_ms > 0 ? "at most " + ms(choice.max_wait_ms) + " ms" : "for nobody");
}

std::string stage_table(const CapacityPlan& plan, const Slo& slo) {
    std::vector<std::vector<std::string>> rows{
        {"stage", "mean ms", "median", "p99", "of a request at " + slo.name(), "share"}};
    double total = 0;
    for (const StageBudget& stage : plan.stages)
        total += stage.at_slo;
    for (const StageBudget& stage : plan.stages) {
        rows.push_back({stage.name, ms(stage.mean), ms(stage.median), ms(stage.p99), ms(stage.at_slo),
                        percent(stage.at_slo / total)});
    }
    rows.push_back({"total", ms(plan.mean_ms), ms(plan.median_ms), ms(plan.p99_ms), ms(total), "100 %"});
    return table(rows);
}

/// What the table has no rows for, in a line.
std::string left_open(const StageCoverage& coverage) {
    std::string line;
    const auto append = [&](const std::string& part, const char* between) {
        line += (line.empty() ? "" : between) + part;
    };
    for (const std::string& stage : coverage.missing)
        append(stage, ", ");
    if (!line.empty()) line = "not measured and not in --stages: " + line;
    for (const std::string& fact : coverage.facts)
        append(fact, "; ");
    return line;
}

std::string batch_table(const CapacityPlan& plan, const Slo& slo) {
    std::vector<std::vector<std::string>> rows{
        {"batches up to", "machines", "instances", "wait ms", slo.name() + " ms", "utilisation"}};
    for (const Configuration& row : plan.by_batch) {
        rows.push_back({std::to_string(row.max_batch), std::to_string(row.machines), std::to_string(row.instances),
                        ms(row.max_wait_ms), ms(row.slo_ms), percent(row.utilisation)});
    }
    return table(rows);
}

void print_plan(const Context& context, const CapacityPlan& plan, const CapacityRequest& request) {
    const Configuration& choice = plan.choice;
    const std::string promise = request.slo.name() + " within " + ms(request.slo.limit_ms) + " ms at " +
                                fixed(request.arrivals.rate(), 0) + " requests/s";
    context.print(plan.meets ? context.bold(promise + ": " + in_words(choice))
                             : context.red("not possible: " + promise) + "; nearest: " + in_words(choice));
    context.print(request.slo.name() + " " + ms(choice.slo_ms) + " ms (± " + ms(plan.slo_half_width_ms) +
                  "), mean batch " + fixed(plan.mean_batch, 1) + ", " + percent(choice.utilisation) + " of the " +
                  fixed(plan.machine_capacity, 0) + " requests/s that a machine can serve" +
                  (plan.without_one_ms ? "; with one machine down " + ms(*plan.without_one_ms) + " ms" : ""));
    context.print("");
    context.print(stage_table(plan, request.slo));
    if (const std::string open = left_open(coverage_of(plan, request)); !open.empty()) context.print(open);
    if (plan.by_batch.size() > 1) {
        context.print("");
        context.print(context.bold("Fewest machines by batch size"));
        context.print(batch_table(plan, request.slo));
    }
    for (const CurvePoint& point : request.curve.points) {
        if (point.noisy)
            context.warn("batch " + std::to_string(point.batch) + " of " + request.curve.subject +
                         " was measured on a disturbed machine (noisy): the plan is as uncertain");
    }
    if (std::ranges::none_of(request.curve.points, [](const CurvePoint& p) { return p.time.after_pause.has_value(); }))
        context.warn(
            "the bench timed calls one after another only; in a server with little to do each is slower: bench "
            "with --pause 2 for a p99 nearer the truth");
    if (!plan.meets && plan.floor_ms > request.slo.limit_ms) {
        context.warn("even a request that waits for nobody has " + request.slo.name() + " " + ms(plan.floor_ms) +
                     " ms: a faster engine or shorter stages are needed, not more machines");
    }
}

Result<Session> single_threaded_session(const std::string& file) {
    EngineLoadOptions load;
    load.threads = 1;
    LATHE_TRY(const Engine engine, Engine::load(file, load));
    return engine.make_session();
}

/// Engines for `instances` side by side: on the CPU each with a thread of its own, as lathe bench measures them.
Result<BatchingSession> serve(const Engine& engine, const std::string& file, const Configuration& choice) {
    std::vector<Session> sessions;
    for (std::size_t i = 0; i < choice.instances; ++i) {
        const bool shared = choice.instances == 1 || engine.sessions_share_engine();
        LATHE_TRY(Session session, shared ? engine.make_session() : single_threaded_session(file));
        sessions.push_back(std::move(session));
    }
    BatchingOptions options;
    options.max_batch = choice.max_batch;
    options.max_wait = std::chrono::microseconds(std::llround(1000 * choice.max_wait_ms));
    options.queue_capacity = 1U << 20U;
    options.warm_up = true;
    return BatchingSession::start(std::move(sessions), options);
}

Result<std::vector<std::vector<HostTensor>>> samples_for(const Engine& engine) {
    std::vector<InputSpec> specs;
    for (const IoInfo& input : engine.info().inputs) {
        Shape shape = input.range.opt;
        shape[0] = 1;
        specs.push_back({input.name, input.type, shape});
    }
    LATHE_TRY(const InputSets sets, InputSets::random(std::move(specs), 1, last_level_cache_bytes()));
    std::vector<std::vector<HostTensor>> samples;
    for (std::size_t i = 0; i < sets.count(); ++i)
        samples.push_back(sets.set(i));
    return samples;
}

/// A load as it was served, beside what the simulation says of the same arrivals.
struct Trial {
    Summary predicted;
    Summary measured;
    double predicted_batch = 0;
    double measured_batch = 0;
    double late_p99_ms = 0;
    double seconds = 0;

    Json json() const {
        const auto side = [](const Summary& summary, double batch) {
            return Json{{"mean_ms", summary.mean},
                        {"median_ms", summary.median},
                        {"p90_ms", summary.p90},
                        {"p99_ms", summary.p99},
                        {"mean_batch", batch}};
        };
        return {{"requests", measured.count},
                {"seconds", seconds},
                {"predicted", side(predicted, predicted_batch)},
                {"measured", side(measured, measured_batch)},
                {"p99_ratio", measured.p99 / predicted.p99},
                {"sender_late_p99_ms", late_p99_ms}};
    }

    void add_rows(std::vector<std::vector<std::string>>& rows, const std::string& predicted_from) const {
        const auto row = [&](const std::string& name, const Summary& summary, double batch) {
            rows.push_back(
                {name, ms(summary.mean), ms(summary.median), ms(summary.p90), ms(summary.p99), fixed(batch, 2)});
        };
        row("predicted from " + predicted_from, predicted, predicted_batch);
        row("measured", measured, measured_batch);
    }
};

/// The sender's own lateness is in what was measured, and is no server's fault.
Trial compared(const MachineModel& model, const LoadResult& load, std::vector<double> sent, std::uint64_t seed) {
    for (std::size_t i = 0; i < sent.size(); ++i)
        sent[i] += load.late_ms[i];
    Simulation simulation = simulate(model, sent, 0, seed);
    for (std::size_t i = 0; i < sent.size(); ++i)
        simulation.total[i] += load.late_ms[i];
    return {summarize(simulation.total), summarize(load.latency_ms),
            simulation.mean_batch,       static_cast<double>(load.samples) / static_cast<double>(load.batches),
            summarize(load.late_ms).p99, load.seconds};
}

void print_trials(const Context& context, const Trial& first, const Trial& second, double rate) {
    std::vector<std::vector<std::string>> rows{{"", "mean ms", "median", "p90", "p99", "mean batch"}};
    first.add_rows(rows, "the bench");
    second.add_rows(rows, "the first load");
    context.print("");
    context.print(context.bold("Served here: one machine's share, " + fixed(rate, 0) + " requests/s, two loads of " +
                               fixed(second.seconds, 0) + " s, without the stages outside the engine"));
    context.print(table(rows));
    if (!first.measured.p99_reliable) context.warn("p99 is of fewer than 662 requests; raise --try-seconds");
}

/// Serves one machine's share of the plan here, twice. The first load is compared with what the plan made of the bench,
/// and shows how long batches take when served; the second with what the simulation makes of that.
Result<Json> try_here(const PlanOptions& options, const CapacityPlan& plan, CapacityRequest request,
                      const Context& context) {
    const Configuration& choice = plan.choice;
    LATHE_TRY(const Engine engine, Engine::load(options.try_engine));
    LATHE_TRY(auto samples, samples_for(engine));
    LATHE_TRY(BatchingSession session, serve(engine, options.try_engine, choice));
    request.stages = {};
    const double rate = request.arrivals.rate() / static_cast<double>(choice.machines);
    const auto count = std::max<std::size_t>(100, static_cast<std::size_t>(rate * options.try_seconds));
    const std::vector<double> arrivals = request.arrivals.at_one_of(choice.machines, 2 * count);
    const auto load_of = [&](std::size_t first) -> Result<std::pair<LoadResult, std::vector<double>>> {
        std::vector<double> times(arrivals.begin() + static_cast<std::ptrdiff_t>(first),
                                  arrivals.begin() + static_cast<std::ptrdiff_t>(first + count));
        for (double& time : times)
            time -= first == 0 ? 0 : arrivals[first - 1];
        LATHE_TRY(LoadResult load, run_load(session, times, samples, context.progress()));
        if (load.failed == 0) return std::pair(std::move(load), std::move(times));
        return Error{ErrorCode::verification_failed, std::to_string(load.failed) + " of the requests tried failed",
                     options.try_engine, ""};
    };
    const auto model = [&] { return machine_model(request, choice.max_batch, choice.instances, choice.max_wait_ms); };
    LATHE_TRY(const auto first, load_of(0));
    const Trial from_bench = compared(model(), first.first, first.second, request.seed);
    request.curve.served.reset();
    LATHE_TRY(request.curve.served, ServedTimes::learn(model().batches, first.first.served));
    LATHE_TRY(const auto second, load_of(count));
    const Trial from_served = compared(model(), second.first, second.second, request.seed);
    print_trials(context, from_bench, from_served, rate);
    Json document = from_bench.json();
    document["rate"] = rate;
    document["served"] = request.curve.served->json();
    document["again"] = from_served.json();
    return document;
}

std::string in_words(const std::optional<MachineMix>& mix, const PriceTable& prices) {
    if (!mix) return "nothing";
    std::string machines;
    for (std::size_t k = 0; k < mix->counts.size(); ++k) {
        if (mix->counts[k] == 0) continue;
        machines += (machines.empty() ? "" : " and ") + std::to_string(mix->counts[k]) + " x " + prices.kinds[k].name;
    }
    return machines + ", " + fixed(mix->per_hour, 2) + " " + prices.currency + "/h";
}

/// What becomes of a mix at the rate, and when a machine fails.
std::string in_words(const MixUnderFailure& load, const PriceTable& prices, const Slo& slo) {
    const auto at = [&](const MixLoad& state) {
        return state.slo_ms
                   ? slo.name() + " " + ms(*state.slo_ms) + " ms at " + percent(state.of_held) + " of what they hold"
                   : std::string(std::isfinite(state.of_held) ? "overloaded" : "nothing is left");
    };
    return at(load.whole) + "; with one " + prices.kinds[load.failing].name + " less " + at(load.one_less);
}

void print_prices(const Context& context, const PricePlan& plan, const PriceTable& prices,
                  std::span<const HeldByOne> held, const Slo& slo, const std::optional<MixUnderFailure>& cheapest,
                  const std::optional<MixUnderFailure>& with_spare) {
    std::vector<std::vector<std::string>> rows{{"machine", prices.currency + "/h", "holds requests/s", "instances",
                                                "batches up to", "wait ms", "alone", prices.currency + "/h"}};
    for (std::size_t k = 0; k < plan.kinds.size(); ++k) {
        const auto& alone = plan.kinds[k].alone;
        const auto& choice = held[k].choice;
        rows.push_back({prices.kinds[k].name, fixed(prices.kinds[k].per_hour, 3), fixed(plan.kinds[k].rate_each, 0),
                        choice ? std::to_string(choice->instances) : "",
                        choice ? std::to_string(choice->max_batch) : "", choice ? ms(choice->max_wait_ms) : "",
                        alone ? std::to_string(alone->counts[k]) : "not at all",
                        alone ? fixed(alone->per_hour, 2) : ""});
    }
    context.print(table(rows));
    context.print(context.bold("cheapest: ") + in_words(plan.cheapest, prices));
    if (cheapest) context.print("  " + in_words(*cheapest, prices, slo));
    const std::string more = plan.cheapest && plan.with_spare
                                 ? " (" + fixed(plan.with_spare->per_hour - plan.cheapest->per_hour, 2) + " more)"
                                 : "";
    context.print("if any one machine may fail: " + in_words(plan.with_spare, prices) + more);
    if (with_spare) context.print("  " + in_words(*with_spare, prices, slo));
}

/// The plan by price, without one engine's plan in detail.
Result<void> run_prices(const PlanOptions& options, const Context& context) {
    const PlanRequest& given = options.request;
    if (given.rate.empty() || !given.trace.empty() || !given.subject.empty() || !given.served.empty() ||
        given.machines > 0 || !options.try_engine.empty()) {
        return Error{ErrorCode::invalid_argument, "prices are of machines for a rate", "--prices",
                     "give --rate, and leave out --trace, --subject, --served, --machines and --try"};
    }
    PlanRequest common = given;
    common.bench.clear();
    LATHE_TRY(const CapacityRequest request, capacity_request(common));
    LATHE_CHECK(check_writable({options.output}));
    LATHE_TRY(const PriceTable prices, PriceTable::read(options.prices));
    std::vector<HeldByOne> held;
    std::vector<double> rates, per_hour;
    for (const MachineKind& kind : prices.kinds) {
        LATHE_TRY(held.emplace_back(), held_by_one(request, kind.curve, context.progress()));
        rates.push_back(held.back().rate);
        per_hour.push_back(kind.per_hour);
    }
    const PricePlan plan = cheapest_machines(rates, per_hour, request.arrivals.rate());
    context.print(request.slo.name() + " within " + ms(request.slo.limit_ms) + " ms at " +
                  fixed(request.arrivals.rate(), 0) + " requests/s");
    Json priced = to_json(plan, prices);
    std::optional<MixUnderFailure> cheapest, with_spare;
    const auto judge = [&](const std::optional<MachineMix>& mix, const char* name,
                           std::optional<MixUnderFailure>& load) -> Result<void> {
        if (!mix) return {};
        LATHE_TRY(load, under_failure(request, prices, held, *mix, context.progress()));
        priced[name]["load"] = to_json(*load, prices);
        return {};
    };
    LATHE_CHECK(judge(plan.cheapest, "cheapest", cheapest));
    LATHE_CHECK(judge(plan.with_spare, "with_spare", with_spare));
    for (std::size_t k = 0; k < held.size(); ++k) {
        if (!held[k].choice) continue;
        priced["kinds"][k]["instances"] = held[k].choice->instances;
        priced["kinds"][k]["max_batch"] = held[k].choice->max_batch;
        priced["kinds"][k]["max_wait_ms"] = held[k].choice->max_wait_ms;
    }
    print_prices(context, plan, prices, held, request.slo, cheapest, with_spare);
    Json document{{"kind", "prices"},
                  {"version", 1},
                  {"prices", std::move(priced)},
                  {"rate", request.arrivals.rate()},
                  {"command", context.command_line()}};
    if (!options.output.empty()) LATHE_CHECK(write_json_file(options.output, document));
    context.print_json(document);
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
    LATHE_TRY(const CapacityRequest request, capacity_request(options.request));
    LATHE_CHECK(check_writable({options.output}));
    LATHE_TRY(const CapacityPlan plan, plan_capacity(request, context.progress()));
    print_plan(context, plan, request);
    Json document = plan_document(plan, request);
    document["command"] = context.command_line();
    if (!options.try_engine.empty()) {
        LATHE_TRY(document["tried"], try_here(options, plan, request, context));
    }
    if (!options.output.empty()) LATHE_CHECK(write_json_file(options.output, document));
    context.print_json(document);
    if (plan.meets) return {};
    return Error{ErrorCode::verification_failed, "the objective cannot be met", options.request.slo,
                 plan.floor_ms > request.slo.limit_ms ? "a faster engine or shorter stages are needed"
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
    command.add_option("--output", options->output, "Write the plan as JSON");
}

} // namespace lathe::cli
