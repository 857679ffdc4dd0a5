#include "bench/scaling.hpp"

#include "bench/statistics.hpp"

namespace lathe {

std::vector<std::size_t> device_counts(std::size_t devices) {
    std::vector<std::size_t> counts;
    for (std::size_t count = 1; count < devices; count *= 2)
        counts.push_back(count);
    if (devices > 0) counts.push_back(devices);
    return counts;
}

Json shares_json(const Throughput& served, std::int64_t batch) {
    Json list = Json::array();
    for (const auto& share : served.devices) {
        const double qps = served.seconds > 0 ? static_cast<double>(share.requests) / served.seconds : 0;
        list.push_back({{"device", share.device},
                        {"samples_per_second", qps * static_cast<double>(batch)},
                        {"streams", share.streams}});
    }
    return list;
}

Result<Json> measure_scaling(Subject& subject, std::int64_t batch, const ScalingOptions& options, Progress& progress) {
    Json rows = Json::array();
    const auto counts = device_counts(subject.devices());
    for (const InputPlace place : {InputPlace::device, InputPlace::host}) {
        std::vector<std::vector<double>> rates(counts.size());
        std::vector<Throughput> last(counts.size());
        for (std::size_t round = 0; round < options.rounds; ++round) {
            for (std::size_t i = 0; i < counts.size(); ++i) {
                LATHE_TRY(last[i], subject.spread({options.round_s, counts[i], place}, progress));
                rates[i].push_back(last[i].qps() * static_cast<double>(batch));
            }
        }
        for (std::size_t i = 0; i < counts.size(); ++i) {
            std::vector<double> ratios;
            for (std::size_t round = 0; round < options.rounds; ++round)
                ratios.push_back(rates[0][round] > 0 ? rates[i][round] / rates[0][round] : 0);
            rows.push_back({{"subject", subject.info().name},
                            {"batch", batch},
                            {"inputs", to_string(place)},
                            {"devices", counts[i]},
                            {"samples_per_second", summarize(rates[i]).median},
                            {"times_one_device", summarize(ratios).median},
                            {"rounds", rates[i]},
                            {"per_device", shares_json(last[i], batch)}});
        }
    }
    return rows;
}

} // namespace lathe
