#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/machine.hpp"

namespace lathe {

/// Processor time of the whole machine since it started, in ticks of /proc/stat. All 0 where there is none.
struct CpuTimes {
    std::uint64_t busy = 0;   ///< user, nice, system, interrupts
    std::uint64_t idle = 0;   ///< idle and waiting for disks
    std::uint64_t stolen = 0; ///< given to other virtual machines while this one wanted to run
    std::uint64_t total() const { return busy + idle + stolen; }
};
CpuTimes cpu_times();
/// The same from the text of /proc/stat.
CpuTimes parse_cpu_times(const std::string& text);

/// Remarks on what may have disturbed a measurement, each a sentence; empty if nothing is known to.
/// `before_idle` and `before` bracket a moment in which this process was idle; `before` and `after` the measurement.
std::vector<std::string> noise_notes(const Machine& machine, const CpuTimes& before_idle, const CpuTimes& before,
                                     const CpuTimes& after);

} // namespace lathe
