#include "support/affinity.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>

namespace lathe {

std::vector<int> parse_cpu_list(std::string_view text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' '))
        text.remove_suffix(1);
    std::vector<int> cpus;
    const char* at = text.data();
    const char* const end = text.data() + text.size();
    constexpr int most = 1 << 16;
    while (at != end) {
        int first = 0;
        auto read = std::from_chars(at, end, first);
        if (read.ec != std::errc() || first < 0 || first > most) return {};
        int last = first;
        if (read.ptr != end && *read.ptr == '-') {
            read = std::from_chars(read.ptr + 1, end, last);
            if (read.ec != std::errc() || last < first || last > most) return {};
        }
        for (int cpu = first; cpu <= last; ++cpu)
            cpus.push_back(cpu);
        at = read.ptr;
        if (at == end) break;
        if (*at != ',' || at + 1 == end) return {};
        ++at;
    }
    return cpus;
}

std::vector<int> usable_cpus(std::string_view list) {
    std::vector<int> cpus = parse_cpu_list(list);
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return {};
    std::erase_if(cpus, [&](int cpu) { return cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &allowed); });
    return cpus;
}

void stay_on_cpus(const std::vector<int>& cpus) {
    if (cpus.empty()) return;
    cpu_set_t wanted;
    CPU_ZERO(&wanted);
    for (const int cpu : cpus) {
        if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(cpu, &wanted);
    }
    static_cast<void>(::sched_setaffinity(0, sizeof(wanted), &wanted));
}

} // namespace lathe
