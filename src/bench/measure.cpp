#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/bench.hpp"
#include "bench/scaling.hpp"
#include "bench/trtexec_json.hpp"

namespace lathe {

namespace {

double in_ms(double nanoseconds) { return nanoseconds * 1e-6; }

Json ms_or_null(const std::optional<double>& nanoseconds) {
    return nanoseconds ? Json(in_ms(*nanoseconds)) : Json(nullptr);
}

Json quantiles_json(const Summary& call) {
    return {{"median_ms", in_ms(call.median)}, {"mean_ms", in_ms(call.mean)}, {"p90_ms", in_ms(call.p90)},
            {"p95_ms", in_ms(call.p95)},       {"p99_ms", in_ms(call.p99)},   {"min_ms", in_ms(call.min)},
            {"max_ms", in_ms(call.max)},       {"count", call.count}};
}

Json latency_json(const SubjectInfo& info, std::int64_t batch, const InterleavedLatency& latency,
                  const std::vector<double>& preprocess_ms) {
    const Summary& call = latency.call_ns;
    Json json{{"subject", info.name},
              {"batch", batch},
              {"median_ms", in_ms(call.median)},
              {"mean_ms", in_ms(call.mean)},
              {"std_ms", in_ms(call.std)},
              {"p90_ms", in_ms(call.p90)},
              {"p95_ms", in_ms(call.p95)},
              {"p99_ms", in_ms(call.p99)},
              {"min_ms", in_ms(call.min)},
              {"max_ms", in_ms(call.max)},
              {"count", call.count},
              {"ci95_ms", {in_ms(call.ci95.low), in_ms(call.ci95.high)}},
              {"noisy", latency.noisy},
              {"p99_reliable", call.p99_reliable},
              {"copy_in_ms", ms_or_null(latency.copy_in_ns)},
              {"copy_out_ms", ms_or_null(latency.copy_out_ns)},
              {"device_ms", ms_or_null(latency.device_ns)}};
    if (!latency.percentiles_ns.empty()) {
        Json& percentiles = json["percentiles_ms"] = Json::object();
        for (const auto& [percent, nanoseconds] : latency.percentiles_ns)
            percentiles[percent_name(percent)] = in_ms(nanoseconds);
    }
    // The frameworks have loaders of their own; what was timed here is ours.
    const bool ours = info.kind == SubjectKind::engine && !preprocess_ms.empty();
    json["preprocess_ms"] = ours ? Json(summarize(preprocess_ms).median) : Json(nullptr);
    json["rounds"] = latency.burst_medians_ns.size();
    return json;
}

/// What is measured for its own sake, not to compare with.
bool is_own(const Subject& subject) {
    return subject.info().kind == SubjectKind::engine || subject.info().kind == SubjectKind::trtexec;
}

/// Every engine and plan against every other subject of the same rounds; of two of them, the one named first is the
/// reference.
void add_ratios(Json& ratios, std::int64_t batch, const std::vector<Subject*>& subjects,
                const std::vector<Result<InterleavedLatency>>& results) {
    for (std::size_t i = 0; i < subjects.size(); ++i) {
        if (!results[i] || !is_own(*subjects[i])) continue;
        for (std::size_t j = 0; j < subjects.size(); ++j) {
            if (j == i || !results[j] || (is_own(*subjects[j]) && j > i)) continue;
            const RatioSummary ratio = summarize_ratio(results[i]->burst_medians_ns, results[j]->burst_medians_ns);
            ratios.push_back({{"subject", subjects[i]->info().name},
                              {"reference", subjects[j]->info().name},
                              {"batch", batch},
                              {"speedup", ratio.median},
                              {"ci95", {ratio.ci95.low, ratio.ci95.high}},
                              {"pairs", ratio.pairs},
                              {"ci95_covered", ratio.ci95_covered}});
        }
    }
}

class Run {
public:
    Run(const std::vector<std::unique_ptr<Subject>>& subjects, const MeasureOptions& options, Progress& progress)
        : subjects_(subjects), options_(options), progress_(progress) {}

    Result<Json> all() {
        double seconds = 0; // of the batch size before
        std::int64_t before = 0;
        for (const std::int64_t batch : options_.batch_sizes) {
            if (before > 0 && seconds * static_cast<double>(batch) / static_cast<double>(before) > left()) {
                leave_out("batch " + std::to_string(batch));
                continue;
            }
            const double had = left();
            LATHE_CHECK(one_batch_size(batch));
            if (!options_.left_s) continue;
            seconds = had - left();
            before = batch;
        }
        progress_.end();
        Json document{{"latency", std::move(latency_)},
                      {"throughput", std::move(throughput_)},
                      {"ratios", std::move(ratios_)},
                      {"unavailable", std::move(unavailable_)}};
        if (options_.scaling) document["scaling"] = std::move(scaling_);
        return document;
    }

private:
    double left() const { return options_.left_s ? options_.left_s() : std::numeric_limits<double>::infinity(); }
    void leave_out(const std::string& what) {
        unavailable_.push_back(to_json(Unavailable{what, 0, over_budget, "measure longer"}));
    }

    Result<void> one_batch_size(std::int64_t batch) {
        const std::string title = "batch " + std::to_string(batch);
        LATHE_TRY(auto specs, options_.inputs(batch));
        LATHE_TRY(const InputSets inputs, make_inputs(std::move(specs)));
        progress_.begin(title + ": prepare", subjects_.size());
        std::vector<Subject*> ready;
        for (const auto& subject : subjects_) {
            LATHE_CHECK(progress_.check());
            auto prepared = subject->prepare(inputs, progress_);
            if (!prepared)
                LATHE_CHECK(set_aside(*subject, batch, std::move(prepared).error()));
            else
                ready.push_back(subject.get());
            progress_.advance();
        }
        progress_.begin(title + ": latency", 0);
        InterleaveOptions interleaving = options_.interleave;
        interleaving.time_limit_s = options_.time_limit_s;
        if (options_.left_s) {
            // Warming up comes on top; throughput shall have its part.
            const double share = 0.6 * left() / (1.2 * static_cast<double>(std::max<std::size_t>(1, ready.size())));
            interleaving.time_limit_s = std::clamp(share, 0.05, options_.time_limit_s);
            interleaving.warm_bursts = 1;
        }
        LATHE_TRY(const auto results, interleave(ready, interleaving, progress_));
        for (std::size_t i = 0; i < ready.size(); ++i) {
            if (!results[i])
                LATHE_CHECK(set_aside(*ready[i], batch, results[i].error()));
            else
                add_latency(ready[i]->info(), batch, *results[i], inputs.preprocess_ms());
        }
        add_ratios(ratios_, batch, ready, results);
        if (options_.duration_s <= 0) return {};
        // A few requests of each stream are begun whatever the time.
        double needed = 0;
        for (const auto& result : results)
            if (result) needed += options_.duration_s + 2e-9 * result->call_ns.median;
        if (needed > left()) {
            leave_out("throughput at batch " + std::to_string(batch));
            return {};
        }
        return serve(ready, results, batch);
    }

    void add_latency(const SubjectInfo& info, std::int64_t batch, const InterleavedLatency& latency,
                     const std::vector<double>& preprocess_ms) {
        Json row = latency_json(info, batch, latency, preprocess_ms);
        if (latency.paused_ns) {
            row["after_pause"] = quantiles_json(*latency.paused_ns);
            row["after_pause"]["pause_ms"] = options_.interleave.call_pause_ms;
        }
        if (latency.other_size_ns) row["after_other_size"] = quantiles_json(*latency.other_size_ns);
        latency_.push_back(std::move(row));
    }

    Result<InputSets> make_inputs(std::vector<InputSpec> specs) {
        const std::size_t cache = last_level_cache_bytes();
        if (options_.data == nullptr) return InputSets::random(std::move(specs), options_.seed, cache);
        options_.data->rewind();
        return InputSets::from_data(std::move(specs), *options_.data, cache, progress_);
    }

    Result<void> serve(const std::vector<Subject*>& ready, const std::vector<Result<InterleavedLatency>>& results,
                       std::int64_t batch) {
        progress_.begin("batch " + std::to_string(batch) + ": throughput", ready.size());
        for (std::size_t i = 0; i < ready.size(); ++i) {
            LATHE_CHECK(progress_.check());
            if (!results[i]) continue;
            LATHE_CHECK(add(*ready[i], batch, ready[i]->throughput(options_.duration_s, progress_), InputPlace::host));
            if (const std::size_t devices = ready[i]->devices(); devices > 0) {
                const SpreadPlan plan{options_.duration_s, devices, InputPlace::device};
                LATHE_CHECK(add(*ready[i], batch, ready[i]->spread(plan, progress_), plan.inputs));
                if (options_.scaling) LATHE_CHECK(scale(*ready[i], batch));
            }
            progress_.advance();
        }
        return {};
    }

    Result<void> add(const Subject& subject, std::int64_t batch, const Result<Throughput>& served, InputPlace place) {
        if (!served) return set_aside(subject, batch, served.error());
        Json row{{"subject", subject.info().name},
                 {"batch", batch},
                 {"inputs", to_string(place)},
                 {"qps", served->qps()},
                 {"samples_per_second", served->qps() * static_cast<double>(batch)},
                 {"duration_s", served->seconds},
                 {"requests", served->requests},
                 {"streams", served->streams}};
        if (!served->devices.empty()) row["per_device"] = shares_json(*served, batch);
        for (const Throughput::Trial& trial : served->trials)
            row["trials"].push_back({{"streams", trial.streams}, {"qps", trial.qps}});
        throughput_.push_back(std::move(row));
        return {};
    }

    Result<void> scale(Subject& subject, std::int64_t batch) {
        ScalingOptions scaling;
        scaling.round_s = options_.duration_s;
        auto rows = measure_scaling(subject, batch, scaling, progress_);
        if (!rows) return set_aside(subject, batch, std::move(rows).error());
        for (Json& row : *rows)
            scaling_.push_back(std::move(row));
        return {};
    }

    Result<void> set_aside(const Subject& subject, std::int64_t batch, Error error) {
        if (error.code == ErrorCode::cancelled) return error;
        unavailable_.push_back(to_json(Unavailable{subject.info().name, batch, error.message, error.hint}));
        return {};
    }

    const std::vector<std::unique_ptr<Subject>>& subjects_;
    const MeasureOptions& options_;
    Progress& progress_;
    Json latency_ = Json::array();
    Json throughput_ = Json::array();
    Json scaling_ = Json::array();
    Json ratios_ = Json::array();
    Json unavailable_ = Json::array();
};

} // namespace

Result<Json> measure(const std::vector<std::unique_ptr<Subject>>& subjects, const MeasureOptions& options,
                     Progress& progress) {
    return Run(subjects, options, progress).all();
}

Json to_json(const SubjectInfo& info) {
    Json json{{"name", info.name},          {"kind", to_string(info.kind)},  {"precision", info.precision},
              {"file", info.file.string()}, {"file_bytes", info.file_bytes}, {"hash", info.hash}};
    json["load_ms"] = info.load_ms ? Json(*info.load_ms) : Json(nullptr);
    json["peak_rss_bytes"] = info.peak_rss_bytes ? Json(*info.peak_rss_bytes) : Json(nullptr);
    json["peak_rss_batch"] = info.peak_rss_batch;
    json["device"] = info.device;
    json["device_memory"] = info.device_memory;
    json["notes"] = info.notes;
    return json;
}

Json to_json(const Unavailable& unavailable) {
    Json json{{"subject", unavailable.subject}, {"reason", unavailable.reason}};
    if (unavailable.batch > 0) json["batch"] = unavailable.batch;
    if (!unavailable.cure.empty()) json["cure"] = unavailable.cure;
    return json;
}

} // namespace lathe
