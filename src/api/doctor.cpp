#include "lathe/doctor.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "backends/api/backend.hpp"
#include "bench/trtexec_subject.hpp"
#include "support/json.hpp"
#include "support/machine.hpp"
#include "support/python.hpp"

namespace lathe {
namespace {

struct Feature {
    const char* flag;
    const char* name;
    const char* present;
    const char* absent;
};

// What a processor feature means to somebody choosing a precision.
constexpr Feature features[] = {
    {"avx2", "AVX2", "256-bit vectors", "inference will be slow on this processor"},
    {"avx512f", "AVX-512", "512-bit vectors", "256-bit vectors are used; fp32 runs at about half the speed"},
    {"avx512_vnni", "AVX-512 VNNI", "int8 runs at up to 4x the arithmetic of fp32",
     "int8 may be no faster than fp32; lathe quantize keeps weights from overflowing its sums"},
    {"avx_vnni", "AVX-VNNI", "int8 dot products on 256-bit vectors", "see AVX-512 VNNI"},
    {"avx512_bf16", "AVX-512 BF16", "bf16 is computed directly; measure before use, it is not faster everywhere",
     "bf16 is refused"},
    {"avx512_fp16", "AVX-512 FP16", "fp16 is computed directly", "fp16 is refused"},
    {"amx_int8", "AMX int8", "int8 matrix tiles: the fastest int8 on a CPU", "int8 uses vectors"},
    {"amx_bf16", "AMX BF16", "bf16 matrix tiles: bf16 is worth trying", "bf16, if any, uses vectors"},
};

/// Standard output of a command, and whether it succeeded.
std::pair<std::string, bool> output_of(const std::string& command) {
    FILE* pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return {"", false};
    std::string text;
    char buffer[256];
    for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
        text.append(buffer, n);
    const bool success = ::pclose(pipe) == 0;
    while (!text.empty() && text.back() == '\n')
        text.pop_back();
    return {text, success};
}

std::string shell_quoted(const std::string& text) {
    std::string quoted = "'";
    for (const char c : text)
        quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return quoted + "'";
}

PythonState look_at_python() {
    PythonState state;
    state.interpreter = python_interpreter();
    state.cure = "set LATHE_PYTHON to an interpreter with PyTorch (pip install -r requirements/python.txt)";
    // Metadata alone: importing torch takes seconds. -I: no module of the working folder is run.
    const auto [version, runs] = output_of(shell_quoted(state.interpreter) +
                                           " -I -c 'import platform; print(platform.python_version())' 2>/dev/null");
    state.found = runs;
    state.version = version;
    if (!runs) return state;
    const auto [torch, has_torch] =
        output_of(shell_quoted(state.interpreter) +
                  " -I -c 'import importlib.metadata as m; print(m.version(\"torch\"))' 2>/dev/null");
    if (has_torch) state.torch = torch;
    if (!state.torch.empty()) state.cure.clear();
    return state;
}

TrtexecState look_for_trtexec() {
    const auto found = find_trtexec("trtexec");
    if (found) return {true, found->string(), "", ""};
    return {false, "", found.error().message, found.error().hint};
}

BackendState state_of(const Backend& backend) {
    Availability state = backend.availability();
    return {backend.name(),           backend.device(),       state.available,      std::move(state.version),
            std::move(state.devices), std::move(state.cause), std::move(state.cure)};
}

Json to_json(const DoctorReport& report, const Machine& machine) {
    Json document{{"kind", "doctor"},
                  {"version", 1},
                  {"machine", to_json(machine)},
                  {"backends", Json::array()},
                  {"features", Json::array()}};
    for (const BackendState& backend : report.backends) {
        document["backends"].push_back({{"backend", backend.name},
                                        {"device", backend.device},
                                        {"available", backend.available},
                                        {"version", backend.version},
                                        {"devices", backend.devices},
                                        {"cause", backend.cause},
                                        {"cure", backend.cure}});
    }
    for (const ProcessorFeature& feature : report.features) {
        document["features"].push_back({{"flag", feature.flag},
                                        {"name", feature.name},
                                        {"present", feature.present},
                                        {"meaning", feature.meaning}});
    }
    const PythonState& python = report.python;
    document["python"] = {{"interpreter", python.interpreter},
                          {"found", python.found},
                          {"version", python.version},
                          {"torch", python.torch},
                          {"cure", python.cure}};
    const TrtexecState& trtexec = report.trtexec;
    document["trtexec"] = {{"found", trtexec.found}, {"file", trtexec.file}, {"cure", trtexec.cure}};
    return document;
}

} // namespace

bool DoctorReport::any_backend() const { return std::ranges::any_of(backends, &BackendState::available); }

DoctorReport doctor() {
    const Machine machine = this_machine();
    DoctorReport report;
    for (const auto& backend : lathe::backends())
        report.backends.push_back(state_of(*backend));
    report.cpu_model = machine.cpu_model;
    report.cores = machine.cores;
    report.memory_bytes = machine.memory_bytes;
    report.governor = machine.governor;
    report.hypervisor = machine.hypervisor;
    for (const Feature& feature : features) {
        const bool has = machine.has_flag(feature.flag);
        report.features.push_back({feature.flag, feature.name, has, has ? feature.present : feature.absent});
    }
    report.python = look_at_python();
    report.trtexec = look_for_trtexec();
    report.document = to_json(report, machine).dump(2, ' ', false, Json::error_handler_t::replace);
    return report;
}

} // namespace lathe
