#include "bench/device_monitor.hpp"

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "bench/statistics.hpp"

namespace lathe {

/// Values of one device, by field.
struct DeviceSeries {
    std::size_t samples = 0;
    std::map<std::string, std::vector<double>> fields;
    std::map<std::string, std::size_t> slowed;
    std::optional<std::uint64_t> total_bytes;

    void add(const DeviceSample& sample) {
        ++samples;
        const auto take = [&](const char* name, const auto& value) {
            if (value) fields[name].push_back(static_cast<double>(*value));
        };
        take("sm_clock_mhz", sample.sm_clock_mhz);
        take("memory_clock_mhz", sample.memory_clock_mhz);
        take("power_watts", sample.power_watts);
        take("temperature_celsius", sample.temperature_celsius);
        take("utilization_percent", sample.utilization_percent);
        take("memory_used_bytes", sample.memory_used_bytes);
        if (sample.memory_total_bytes) total_bytes = sample.memory_total_bytes;
        for (const std::string& reason : sample.slowed_by)
            ++slowed[reason];
    }

    Json json(int device) const {
        Json result{{"device", device}, {"samples", samples}};
        for (const auto& [name, values] : fields) {
            const Summary summary = summarize(values);
            result[name] = {{"min", summary.min}, {"median", summary.median}, {"max", summary.max}};
        }
        if (total_bytes) result["memory_total_bytes"] = *total_bytes;
        Json reasons = Json::object();
        for (const auto& [reason, count] : slowed)
            reasons[reason] = static_cast<double>(count) / static_cast<double>(samples);
        result["slowed_by"] = std::move(reasons);
        return result;
    }
};

struct DeviceMonitor::State {
    Sample sample;
    std::vector<int> devices;
    std::map<int, DeviceSeries> series;
    std::mutex mutex;
    std::condition_variable_any wake;
    std::jthread thread;

    void take() {
        for (const int device : devices)
            if (const auto now = sample(device)) series[device].add(*now);
    }
};

DeviceMonitor::DeviceMonitor(Sample sample, std::vector<int> devices, double interval_s)
    : state_(std::make_unique<State>()) {
    state_->sample = std::move(sample);
    state_->devices = std::move(devices);
    state_->thread = std::jthread([state = state_.get(), interval_s](const std::stop_token& stop) {
        std::unique_lock lock(state->mutex);
        do {
            state->take();
        } while (!state->wake.wait_for(lock, stop, std::chrono::duration<double>(interval_s),
                                       [&] { return stop.stop_requested(); }));
        state->take();
    });
}

DeviceMonitor::~DeviceMonitor() = default;

Json DeviceMonitor::finish() {
    state_->thread.request_stop();
    if (state_->thread.joinable()) state_->thread.join();
    Json list = Json::array();
    for (const auto& [device, series] : state_->series)
        list.push_back(series.json(device));
    return list;
}

std::vector<std::string> device_warnings(const Json& devices) {
    std::vector<std::string> warnings;
    for (const Json& device : devices) {
        for (const auto& [reason, share] : device["slowed_by"].items()) {
            const double percent = 100 * share.get<double>();
            if (percent < 1) continue;
            warnings.push_back("GPU " + device["device"].dump() + " was slowed by " + reason + " in " +
                               std::to_string(std::lround(percent)) + " % of the samples: its times are not its best");
        }
    }
    return warnings;
}

} // namespace lathe
