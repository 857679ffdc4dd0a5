#include "support/memory_limit.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <limits>
#include <sys/resource.h>
#include <unistd.h>

namespace lathe {

namespace {

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

std::uint64_t available() {
    std::ifstream file("/proc/meminfo");
    std::string key;
    std::uint64_t kilobytes = 0;
    for (std::string unit; file >> key >> kilobytes && std::getline(file, unit);)
        if (key == "MemAvailable:") return kilobytes * 1024;
    return no_limit;
}

/// Of a container; of version 2 of control groups, which is mounted as the container sees it.
std::uint64_t group_limit() {
    std::ifstream file("/sys/fs/cgroup/memory.max");
    std::uint64_t bytes = 0;
    return file >> bytes ? bytes : no_limit; // "max" is no number
}

std::uint64_t address_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return no_limit;
    return limit.rlim_cur;
}

std::atomic<std::uint64_t>& given() {
    static std::atomic<std::uint64_t> bytes{0};
    return bytes;
}

} // namespace

std::uint64_t memory_limit() {
    if (const std::uint64_t bytes = given(); bytes != 0) return bytes;
    static const std::uint64_t usual = std::min({available(), group_limit(), address_limit()}) / 4 * 3;
    return usual;
}

std::uint64_t folding_limit(std::uint64_t weight_bytes) {
    constexpr std::uint64_t few = std::uint64_t{1} << 30;
    const std::uint64_t most = memory_limit();
    return given() != 0 || weight_bytes > most / 4 ? most : std::min(most, few + 4 * weight_bytes);
}

std::uint64_t address_space_left() {
    const std::uint64_t limit = address_limit();
    if (limit == no_limit) return no_limit;
    std::ifstream file("/proc/self/statm");
    std::uint64_t pages = 0;
    file >> pages;
    const std::uint64_t taken = pages * static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PAGESIZE)));
    return limit > taken ? limit - taken : 0;
}

void set_memory_limit(std::uint64_t bytes) { given() = bytes; }

std::string readable_bytes(double bytes) {
    constexpr std::array units{"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
    std::size_t unit = 0;
    for (; bytes >= 1000 && unit + 1 < units.size(); ++unit)
        bytes /= 1000;
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), bytes < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text.data();
}

} // namespace lathe
