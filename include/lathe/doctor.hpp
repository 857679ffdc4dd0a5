#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lathe/export.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// A backend, and what to do where it cannot be used.
struct BackendState {
    std::string name;   ///< "openvino", ...
    std::string device; ///< as BuildOptions::device names it
    bool available = false;
    std::string version;              ///< of its library
    std::vector<std::string> devices; ///< names for people
    std::string cause;                ///< why it is not available; else empty, as is the next
    std::string cure;
};

/// What a feature of the processor means to somebody who chooses a precision.
struct ProcessorFeature {
    std::string flag; ///< as /proc/cpuinfo has it
    std::string name;
    bool present = false;
    std::string meaning; ///< of its being there, or missing
};

/// Python, for `lathe export` and frameworks as subjects of a benchmark.
struct PythonState {
    std::string interpreter;
    bool found = false; ///< it runs
    std::string version;
    std::string torch; ///< PyTorch's version; empty where it is missing
    std::string cure;  ///< empty where nothing is missing
};

/// TensorRT's trtexec, for `lathe bench --via trtexec`.
struct TrtexecState {
    bool found = false;
    std::string file;
    std::string cause; ///< empty where it was found, as is the next
    std::string cure;
};

/// What `lathe doctor` tells.
struct DoctorReport {
    std::vector<BackendState> backends; ///< all that there are
    std::string cpu_model;
    std::size_t cores = 0; ///< that this process may use
    std::size_t memory_bytes = 0;
    std::string governor;    ///< of the frequency; "unknown" where the kernel does not say
    bool hypervisor = false; ///< a virtual machine: other guests can disturb timings
    std::vector<ProcessorFeature> features;
    PythonState python;
    TrtexecState trtexec;
    std::string document; ///< all of it, as JSON text: what `lathe doctor --json` prints

    LATHE_API bool any_backend() const;
};

/// Which backends and devices can be used on this machine, and what to do about those that cannot. Runs Python twice,
/// for its version and PyTorch's.
LATHE_API DoctorReport doctor();

} // namespace lathe
