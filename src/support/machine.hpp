#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "support/json.hpp"

namespace lathe {

/// The machine a result was taken on.
struct Machine {
    std::string cpu_model;              ///< as /proc/cpuinfo says
    std::size_t cores = 0;              ///< cores this process may use
    std::vector<std::string> cpu_flags; ///< only those that matter to inference: avx2, avx512f, avx512_vnni, ...
    std::string governor;               ///< frequency governor; "unknown" where the kernel does not say
    std::size_t memory_bytes = 0;
    std::string os;          ///< kernel name and release
    bool hypervisor = false; ///< a virtual machine: other guests can disturb timings

    bool has_flag(std::string_view flag) const;
    bool multiplies_bfloat16() const;
    /// Identifies the instruction sets that compiled kernels may depend on.
    std::string fingerprint() const;
};

Machine this_machine();
Json to_json(const Machine& machine);

/// Resident memory of this process in bytes: now, and its peak so far.
std::size_t resident_bytes();
std::size_t peak_resident_bytes();

} // namespace lathe
