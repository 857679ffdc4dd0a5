#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "bench/device_monitor.hpp"

namespace lathe::test {
namespace {

TEST(DeviceMonitor, SumsUpWhatWasSampled) {
    std::atomic<unsigned> calls = 0;
    const auto sample = [&](int device) -> std::optional<DeviceSample> {
        if (device == 7) return std::nullopt;
        const unsigned call = calls++;
        DeviceSample now;
        now.sm_clock_mhz = 1000 + 10 * call;
        now.power_watts = 300.5;
        now.memory_total_bytes = 80;
        if (call == 0) now.slowed_by = {"power cap"};
        return now;
    };
    DeviceMonitor monitor(sample, {2, 7}, 0.005);
    while (calls < 5)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const Json devices = monitor.finish();
    ASSERT_EQ(devices.size(), 1U) << "nobody tells of device 7";
    EXPECT_EQ(devices[0]["device"], 2);
    const auto samples = devices[0]["samples"].get<unsigned>();
    EXPECT_EQ(samples, calls);
    EXPECT_EQ(devices[0]["sm_clock_mhz"]["min"], 1000.0);
    EXPECT_EQ(devices[0]["sm_clock_mhz"]["max"], 1000.0 + 10 * (samples - 1));
    EXPECT_EQ(devices[0]["power_watts"]["median"], 300.5);
    EXPECT_FALSE(devices[0].contains("temperature_celsius"));
    EXPECT_NEAR(devices[0]["slowed_by"]["power cap"].get<double>(), 1.0 / samples, 1e-9);
    EXPECT_EQ(monitor.finish().size(), 1U) << "asking twice is harmless";
}

TEST(DeviceMonitor, WarnsOfWhatHeldTheClocksDown) {
    const Json devices = Json::array({{{"device", 0}, {"slowed_by", {{"power cap", 0.42}, {"thermal", 0.001}}}},
                                      {{"device", 1}, {"slowed_by", Json::object()}}});
    const auto warnings = device_warnings(devices);
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_NE(warnings[0].find("GPU 0"), std::string::npos);
    EXPECT_NE(warnings[0].find("power cap in 42 %"), std::string::npos);
    EXPECT_TRUE(device_warnings(Json::array()).empty());
}

} // namespace
} // namespace lathe::test
