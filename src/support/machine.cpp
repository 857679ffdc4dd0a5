#include "support/machine.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string_view>
#include <sys/utsname.h>

#include "support/hash.hpp"
#include "support/thread_pool.hpp"

namespace lathe {

namespace {

constexpr std::array<std::string_view, 14> relevant_flags{
    "sse4_2",   "avx",      "avx2",        "fma",         "f16c",        "avx_vnni", "avx512f",
    "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_int8", "amx_bf16",
};

/// "VmRSS:   1234 kB" of /proc/self/status, in bytes.
std::size_t status_field(std::string_view field) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (!line.starts_with(field)) continue;
        std::istringstream rest(line.substr(field.size()));
        std::size_t kilobytes = 0;
        rest >> kilobytes;
        return kilobytes * 1024;
    }
    return 0;
}

} // namespace

bool Machine::multiplies_bfloat16() const { return has_flag("avx512_bf16") || has_flag("amx_bf16"); }

bool Machine::has_flag(std::string_view flag) const {
    return std::find(cpu_flags.begin(), cpu_flags.end(), flag) != cpu_flags.end();
}

std::string Machine::fingerprint() const {
    Hasher hasher;
    hasher.update(std::string_view(cpu_model));
    for (const auto& flag : cpu_flags)
        hasher.update(std::string_view(flag));
    return hasher.hex();
}

Machine this_machine() {
    Machine machine;
    machine.cores = available_cores();
    machine.governor = "unknown";
    std::ifstream cpuinfo("/proc/cpuinfo");
    for (std::string line; std::getline(cpuinfo, line);) {
        const auto colon = line.find(':');
        if (colon == std::string::npos) {
            if (!machine.cpu_flags.empty()) break;
            continue;
        }
        const std::string value = colon + 2 <= line.size() ? line.substr(colon + 2) : "";
        if (line.starts_with("model name")) machine.cpu_model = value;
        if (line.starts_with("flags")) {
            std::istringstream flags(value);
            for (std::string flag; flags >> flag;) {
                if (flag == "hypervisor") machine.hypervisor = true;
                if (std::find(relevant_flags.begin(), relevant_flags.end(), flag) != relevant_flags.end()) {
                    machine.cpu_flags.push_back(flag);
                }
            }
            std::sort(machine.cpu_flags.begin(), machine.cpu_flags.end());
        }
    }
    std::ifstream governor("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    if (std::string name; governor >> name) machine.governor = name;
    std::ifstream meminfo("/proc/meminfo");
    std::string label;
    std::size_t kilobytes = 0;
    if (meminfo >> label >> kilobytes) machine.memory_bytes = kilobytes * 1024;
    utsname names{};
    if (::uname(&names) == 0) machine.os = std::string(names.sysname) + " " + names.release;
    return machine;
}

Json to_json(const Machine& machine) {
    return Json{{"cpu", machine.cpu_model},
                {"cores", machine.cores},
                {"flags", machine.cpu_flags},
                {"governor", machine.governor},
                {"memory_bytes", machine.memory_bytes},
                {"os", machine.os},
                {"virtual_machine", machine.hypervisor}};
}

std::size_t resident_bytes() { return status_field("VmRSS:"); }
std::size_t peak_resident_bytes() { return status_field("VmHWM:"); }

} // namespace lathe
