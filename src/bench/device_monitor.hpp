#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine.hpp"
#include "support/json.hpp"

namespace lathe {

/// Samples clocks, power, temperature and memory of devices while something is measured, on a thread of its own.
class DeviceMonitor {
public:
    using Sample = std::function<std::optional<DeviceSample>(int device)>;

    /// Begins. Every `interval_s`, and once at the beginning and the end.
    DeviceMonitor(Sample sample, std::vector<int> devices, double interval_s);
    ~DeviceMonitor();
    DeviceMonitor(const DeviceMonitor&) = delete;
    DeviceMonitor& operator=(const DeviceMonitor&) = delete;

    /// Ends. An array of {"device", "samples", "sm_clock_mhz": {"min", "median", "max"}, the same for
    /// "memory_clock_mhz", "power_watts", "temperature_celsius", "utilization_percent" and "memory_used_bytes",
    /// "memory_total_bytes", "slowed_by": {REASON: share of the samples}}; what nobody told is left out.
    Json finish();

private:
    struct State;
    std::unique_ptr<State> state_;
};

/// What of it makes a measurement doubtful, a sentence each: clocks held down by power, heat or another cause.
std::vector<std::string> device_warnings(const Json& devices);

} // namespace lathe
