#include "plan/latency_curve.hpp"
#include "support/json_fault.hpp"

#include <algorithm>
#include <cmath>

namespace lathe {

namespace {

Error broken(const std::string& what, const std::string& where) {
    return {ErrorCode::parse_error, "this is not what lathe bench writes: " + what, where,
            "write it with lathe bench ENGINE --batch-sizes 1,2,4,8 --output bench.json"};
}

std::optional<double> optional_ms(const Json& row, const char* key) {
    const auto found = row.find(key);
    if (found == row.end() || !found->is_number()) return std::nullopt;
    return found->get<double>();
}

TimeDistribution distribution_of(const Json& row) {
    TimeDistribution::Quantiles measured;
    measured.min = positive_at(row, "min_ms");
    measured.median = positive_at(row, "median_ms");
    measured.p90 = positive_at(row, "p90_ms");
    measured.p95 = positive_at(row, "p95_ms");
    measured.p99 = positive_at(row, "p99_ms");
    measured.max = positive_at(row, "max_ms");
    measured.mean = positive_at(row, "mean_ms");
    return TimeDistribution::of_quantiles(measured);
}

CurvePoint point_of(const Json& row) {
    CurvePoint point;
    point.batch = row.at("batch").get<std::int64_t>();
    if (point.batch < 1 || point.batch > std::int64_t{1} << 16)
        throw Json::other_error::create(501, "batch is out of range", &row);
    point.time.time = distribution_of(row);
    if (const auto paused = row.find("after_pause"); paused != row.end()) {
        point.time.after_pause = distribution_of(*paused);
        point.time.pause_ms = positive_at(*paused, "pause_ms");
    }
    if (const auto other = row.find("after_other_size"); other != row.end())
        point.time.after_other_size = distribution_of(*other);
    point.time.copy_in_ms = optional_ms(row, "copy_in_ms").value_or(0);
    point.time.copy_out_ms = optional_ms(row, "copy_out_ms").value_or(0);
    point.preprocess_ms = optional_ms(row, "preprocess_ms");
    point.noisy = row.value("noisy", false);
    return point;
}

/// Which subject is meant, by its name.
Result<Json> chosen_subject(const Json& bench, const std::string& asked, const std::string& where) {
    std::string names;
    const Json* first = nullptr;
    for (const Json& subject : bench.at("subjects")) {
        const auto name = subject.at("name").get<std::string>();
        names += (names.empty() ? "" : ", ") + name;
        if (name == asked) return subject;
        const bool engine = subject.value("kind", "") == "engine";
        if (first == nullptr || (engine && first->value("kind", "") != "engine")) first = &subject;
    }
    if (first == nullptr) return broken("it has no subjects", where);
    if (!asked.empty()) {
        return Error{ErrorCode::not_found, "there is no subject \"" + asked + "\"", where, "its subjects: " + names};
    }
    return *first;
}

/// Calls a second by streams on one device, of a row of throughput.
std::map<std::size_t, double> rates_of(const Json& row, double mean_ms) {
    std::map<std::size_t, double> rates;
    if (const auto trials = row.find("trials"); trials != row.end()) {
        for (const Json& trial : *trials)
            rates[std::max<std::size_t>(1, count_of(trial.at("streams")))] = positive_at(trial, "qps");
        return rates;
    }
    const auto devices = row.find("per_device");
    const std::size_t machines = devices == row.end() ? 1 : std::max<std::size_t>(1, devices->size());
    rates[1] = 1000 / mean_ms;
    rates[std::max<std::size_t>(1, count_of(row.at("streams")) / machines)] =
        positive_at(row, "qps") / static_cast<double>(machines);
    return rates;
}

void add_streams(LatencyCurve& curve, const Json& throughput) {
    const auto is_ours = [&](const Json& row) {
        return row.value("subject", "") == curve.subject && row.value("inputs", "host") == "host";
    };
    for (const Json& row : throughput) {
        if (is_ours(row)) curve.streams = std::max(curve.streams, count_of(row.at("streams")));
    }
    for (const Json& row : throughput) {
        if (!is_ours(row)) continue;
        const auto batch = row.at("batch").get<std::int64_t>();
        const auto point = std::ranges::find(curve.points, batch, &CurvePoint::batch);
        if (point == curve.points.end()) continue;
        point->rates = rates_of(row, point->time.time.mean());
        if (count_of(row.at("streams")) != curve.streams) continue;
        const double call_ms = 1000 * static_cast<double>(curve.streams) / positive_at(row, "qps");
        point->slowdown = call_ms / point->time.time.mean();
    }
}

Result<LatencyCurve> read(const Json& bench, const std::string& asked, const std::string& where) {
    if (bench.value("kind", "") != "bench") return broken("its kind is not \"bench\"", where);
    LATHE_TRY(const Json subject, chosen_subject(bench, asked, where));
    LatencyCurve curve;
    curve.subject = subject.at("name").get<std::string>();
    curve.file = subject.value("file", "");
    curve.precision = subject.value("precision", "");
    if (const auto device = subject.find("device"); device != subject.end() && device->is_string())
        curve.device = device->get<std::string>();
    for (const Json& row : bench.at("latency")) {
        if (row.at("subject") == curve.subject) curve.points.push_back(point_of(row));
    }
    if (curve.points.empty()) {
        return Error{ErrorCode::not_found, "no latency of " + curve.subject + " was measured", where,
                     "bench it at several batch sizes"};
    }
    std::ranges::sort(curve.points, {}, &CurvePoint::batch);
    if (bench.contains("throughput")) add_streams(curve, bench["throughput"]);
    return curve;
}

/// The factor of the measured size nearest to `batch`; 1 if none was measured.
double slowdown_near(const std::vector<CurvePoint>& points, std::int64_t batch) {
    const CurvePoint* nearest = nullptr;
    for (const CurvePoint& point : points) {
        if (!point.slowdown) continue;
        if (nearest == nullptr || std::abs(point.batch - batch) < std::abs(nearest->batch - batch)) nearest = &point;
    }
    return nearest == nullptr ? 1 : *nearest->slowdown;
}

} // namespace

std::vector<BatchTime> LatencyCurve::batches(std::int64_t max_batch, std::size_t instances) const {
    std::vector<BatchTime> times;
    for (std::int64_t batch = 1; batch <= max_batch; ++batch) {
        const auto above = std::ranges::lower_bound(points, batch, {}, &CurvePoint::batch);
        BatchTime time = above->time;
        if (above->batch != batch && above != points.begin()) {
            const CurvePoint& below = *(above - 1);
            const double weight =
                static_cast<double>(batch - below.batch) / static_cast<double>(above->batch - below.batch);
            time.time = below.time.time.mixed(above->time.time, weight);
            time.copy_in_ms = std::lerp(below.time.copy_in_ms, above->time.copy_in_ms, weight);
            time.copy_out_ms = std::lerp(below.time.copy_out_ms, above->time.copy_out_ms, weight);
            for (const auto part : {&BatchTime::after_pause, &BatchTime::after_other_size}) {
                if (time.*part && below.time.*part)
                    time.*part = (below.time.*part)->mixed(*(above->time.*part), weight);
            }
        }
        if (instances > 1) {
            const double slower = slowdown_near(points, batch);
            time.time = time.time.scaled(slower);
            for (const auto part : {&BatchTime::after_pause, &BatchTime::after_other_size}) {
                if (time.*part) time.*part = (time.*part)->scaled(slower);
            }
            time.copy_in_ms *= slower;
            time.copy_out_ms *= slower;
        }
        times.push_back(std::move(time));
    }
    if (served) served->apply(times);
    return times;
}

std::optional<double> LatencyCurve::preprocess_ms() const {
    if (!points.front().preprocess_ms) return std::nullopt;
    return *points.front().preprocess_ms / static_cast<double>(points.front().batch);
}

Result<LatencyCurve> read_latency_curve(const Json& bench, const std::string& subject, const std::string& where) {
    try {
        return read(bench, subject, where);
    } catch (const Json::exception& failure) {
        return broken(json_fault(failure), where);
    }
}

} // namespace lathe
