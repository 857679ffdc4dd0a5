#include "backends/cuda/device/nvml.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <string>
#include <utility>

#include "backends/cuda/device/libraries.hpp"
#include "support/affinity.hpp"

namespace lathe::cuda {

namespace {

// NVML's header is not part of the toolkit everywhere; its interface is stable, and this is all we use of it.
using Handle = void*;
struct Utilization {
    unsigned gpu, memory;
};
struct Memory {
    unsigned long long total, free, used;
};

template <class Function>
Function* function(const char* name) {
    return reinterpret_cast<Function*>(nvml_library().symbol(name));
}

constexpr std::pair<unsigned long long, const char*> reasons[] = {
    {0x2, "application clocks"}, {0x4, "power cap"},         {0x8, "hardware slowdown"},     {0x10, "sync boost"},
    {0x20, "thermal"},           {0x40, "hardware thermal"}, {0x80, "hardware power brake"},
};

} // namespace

std::optional<DeviceSample> sample_device(int device) {
    if (!nvml_library().found) return std::nullopt;
    char bus[32] = {};
    if (cudaDeviceGetPCIBusId(bus, sizeof(bus), device) != cudaSuccess) return std::nullopt;
    Handle handle = nullptr;
    const auto find = function<int(const char*, Handle*)>("nvmlDeviceGetHandleByPciBusId_v2");
    if (find == nullptr || find(bus, &handle) != 0) return std::nullopt;
    DeviceSample state;
    const auto number = [&](const char* name, auto... arguments) -> std::optional<unsigned> {
        const auto read = function<int(Handle, decltype(arguments)..., unsigned*)>(name);
        unsigned value = 0;
        if (read == nullptr || read(handle, arguments..., &value) != 0) return std::nullopt;
        return value;
    };
    state.sm_clock_mhz = number("nvmlDeviceGetClockInfo", 1);
    state.memory_clock_mhz = number("nvmlDeviceGetClockInfo", 2);
    state.temperature_celsius = number("nvmlDeviceGetTemperature", 0);
    if (const auto milliwatts = number("nvmlDeviceGetPowerUsage")) state.power_watts = *milliwatts / 1000.0;
    Utilization utilization{};
    if (const auto read = function<int(Handle, Utilization*)>("nvmlDeviceGetUtilizationRates");
        read != nullptr && read(handle, &utilization) == 0)
        state.utilization_percent = utilization.gpu;
    Memory memory{};
    if (const auto read = function<int(Handle, Memory*)>("nvmlDeviceGetMemoryInfo");
        read != nullptr && read(handle, &memory) == 0) {
        state.memory_used_bytes = memory.used;
        state.memory_total_bytes = memory.total;
    }
    unsigned long long bits = 0;
    auto events = function<int(Handle, unsigned long long*)>("nvmlDeviceGetCurrentClocksEventReasons");
    if (events == nullptr)
        events = function<int(Handle, unsigned long long*)>("nvmlDeviceGetCurrentClocksThrottleReasons");
    if (events != nullptr && events(handle, &bits) == 0) {
        for (const auto& [bit, name] : reasons)
            if ((bits & bit) != 0) state.slowed_by.emplace_back(name);
    }
    return state;
}

std::vector<int> cpus_near(int device) {
    char bus[32] = {};
    if (cudaDeviceGetPCIBusId(bus, sizeof(bus), device) != cudaSuccess) return {};
    std::string folder = bus; // sysfs writes it in small letters
    std::transform(folder.begin(), folder.end(), folder.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::ifstream file("/sys/bus/pci/devices/" + folder + "/local_cpulist");
    std::string list;
    if (!std::getline(file, list)) return {};
    return usable_cpus(list);
}

} // namespace lathe::cuda
