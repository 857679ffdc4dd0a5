#pragma once

#include <string_view>
#include <vector>

namespace lathe {

/// Numbers of a kernel's list like "0-3,8,10-11". Empty for what is no such list.
std::vector<int> parse_cpu_list(std::string_view text);

/// Those of a kernel's list that this process may run on.
std::vector<int> usable_cpus(std::string_view list);

/// Keeps the calling thread, and threads it starts later, on these processors. Nothing happens for an empty list or
/// where the system does not allow it: it is about speed alone.
void stay_on_cpus(const std::vector<int>& cpus);

} // namespace lathe
