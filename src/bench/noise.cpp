#include "bench/noise.hpp"

#include <array>
#include <cmath>
#include <fstream>
#include <sstream>

namespace lathe {

namespace {

double share(std::uint64_t part, std::uint64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string percent(double value) { return std::to_string(std::lround(100 * value)) + " %"; }

} // namespace

CpuTimes parse_cpu_times(const std::string& text) {
    std::istringstream stream(text);
    std::string label;
    // user nice system idle iowait irq softirq steal
    std::array<std::uint64_t, 8> fields{};
    if (!(stream >> label) || label != "cpu") return {};
    for (auto& field : fields) {
        if (!(stream >> field)) return {};
    }
    CpuTimes times;
    times.busy = fields[0] + fields[1] + fields[2] + fields[5] + fields[6];
    times.idle = fields[3] + fields[4];
    times.stolen = fields[7];
    return times;
}

CpuTimes cpu_times() {
    std::ifstream file("/proc/stat");
    std::string line;
    return std::getline(file, line) ? parse_cpu_times(line) : CpuTimes{};
}

std::vector<std::string> noise_notes(const Machine& machine, const CpuTimes& before_idle, const CpuTimes& before,
                                     const CpuTimes& after) {
    std::vector<std::string> notes;
    if (const double other = share(before.busy - before_idle.busy, before.total() - before_idle.total());
        other > 0.05) {
        notes.push_back("other processes used " + percent(other) + " of the processor just before the run");
    }
    if (const double stolen = share(after.stolen - before.stolen, after.total() - before.total()); stolen > 0.005) {
        notes.push_back("other virtual machines took " + percent(stolen) + " of the processor during the run");
    }
    if (machine.governor != "performance" && machine.governor != "unknown") {
        notes.push_back("the frequency governor is '" + machine.governor + "': the clock may change during the run");
    }
    if (machine.hypervisor) notes.push_back("this is a virtual machine: compare ratios, not times of different days");
    return notes;
}

} // namespace lathe
