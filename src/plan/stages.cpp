#include "plan/stages.hpp"

#include <cmath>
#include <set>
#include <string>

#include "support/json.hpp"

namespace lathe {

namespace {

constexpr const char* time_help = "its time is one of ms, mean_ms, median_ms with p99_ms, samples_ms";

Error bad(const std::string& name, const std::string& what) {
    return {ErrorCode::parse_error, what, "stage " + name, time_help};
}

/// Numbers >= 0; a negative value stands for what is none.
double number(const Json& stage, const char* key) {
    const auto found = stage.find(key);
    if (found == stage.end() || !found->is_number() || !std::isfinite(found->get<double>())) return -1;
    return found->get<double>();
}

Result<TimeDistribution> time_of(const Json& stage, const std::string& name) {
    int given = 0;
    for (const char* key : {"ms", "mean_ms", "median_ms", "samples_ms"})
        given += stage.contains(key) ? 1 : 0;
    if (given != 1) return bad(name, "a stage has one time, this one has " + std::to_string(given));
    if (stage.contains("ms")) {
        if (number(stage, "ms") < 0) return bad(name, "ms is no number from 0 up");
        return TimeDistribution::fixed(number(stage, "ms"));
    }
    if (stage.contains("mean_ms")) {
        if (number(stage, "mean_ms") < 0) return bad(name, "mean_ms is no number from 0 up");
        return TimeDistribution::exponential(number(stage, "mean_ms"));
    }
    if (stage.contains("median_ms")) {
        const double median = number(stage, "median_ms");
        const double p99 = number(stage, "p99_ms");
        if (median <= 0 || p99 < median) return bad(name, "median_ms over 0 and p99_ms of at least that are needed");
        return TimeDistribution::lognormal(median, p99);
    }
    std::vector<double> samples;
    for (const Json& value : stage["samples_ms"]) {
        if (!value.is_number() || !(value.get<double>() >= 0)) return bad(name, "samples_ms holds " + value.dump());
        samples.push_back(value.get<double>());
    }
    if (samples.empty()) return bad(name, "samples_ms is empty");
    return TimeDistribution::of_samples(std::move(samples));
}

Result<void> add_stage(OuterStages& stages, std::set<std::string>& seen, const Json& json) {
    if (!json.is_object() || !json.contains("name") || !json["name"].is_string())
        return bad(json.dump().substr(0, 60), "a stage has a name");
    Stage stage;
    stage.name = json["name"].get<std::string>();
    static const std::set<std::string> ours{"queue", "copy in", "compute", "copy out", "total"};
    if (ours.contains(stage.name)) return bad(stage.name, "this one is measured by lathe bench, or follows from it");
    if (!seen.insert(stage.name).second) return bad(stage.name, "there are two of this name");
    for (const auto& [key, value] : json.items()) {
        static const std::set<std::string> known{"name",   "ms",         "mean_ms", "median_ms",
                                                 "p99_ms", "samples_ms", "where",   "workers"};
        if (!known.contains(key)) return bad(stage.name, "unknown key \"" + key + "\"");
    }
    LATHE_TRY(stage.time, time_of(json, stage.name));
    if (json.contains("workers")) {
        if (!json["workers"].is_number_unsigned() || json["workers"] == 0 || json["workers"] > 65536)
            return bad(stage.name, "workers is no number from 1 to 65536");
        stage.workers = json["workers"].get<std::size_t>();
    }
    const Json where = json.value("where", Json(stage.name == "postprocess" ? "after" : "before"));
    if (where != "before" && where != "after") return bad(stage.name, "where is \"before\" or \"after\"");
    (where == "before" ? stages.before : stages.after).push_back(std::move(stage));
    return {};
}

} // namespace

Result<OuterStages> read_stages(const std::filesystem::path& file) {
    LATHE_TRY(const Json json, read_json_file(file));
    if (!json.is_object() || !json.contains("stages") || !json["stages"].is_array()) {
        return Error{ErrorCode::parse_error, "there is no list \"stages\"", file.string(),
                     R"(write {"stages": [{"name": "network", "ms": 0.5}]})"};
    }
    OuterStages stages;
    std::set<std::string> seen;
    for (const Json& stage : json["stages"]) {
        auto added = add_stage(stages, seen, stage);
        if (!added) return std::move(added).error().in(file.string());
    }
    return stages;
}

} // namespace lathe
