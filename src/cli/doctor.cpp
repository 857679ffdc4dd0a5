#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "backends/api/backend.hpp"
#include "bench/trtexec_subject.hpp"
#include "cli/commands.hpp"
#include "support/machine.hpp"
#include "support/python.hpp"

namespace lathe::cli {

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

struct PythonState {
    std::string interpreter;
    bool found = false;
    std::string version;
    std::string torch; ///< empty if absent
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
    return state;
}

Json backend_json(const Backend& backend, const Availability& state) {
    return Json{{"backend", backend.name()}, {"device", backend.device()}, {"available", state.available},
                {"version", state.version},  {"devices", state.devices},   {"cause", state.cause},
                {"cure", state.cure}};
}

Result<void> run_doctor(const Context& context) {
    const Machine machine = this_machine();
    const PythonState python = look_at_python();
    Json document{{"kind", "doctor"},
                  {"version", 1},
                  {"machine", to_json(machine)},
                  {"backends", Json::array()},
                  {"features", Json::array()}};
    context.print(context.bold("Backends"));
    bool any = false;
    for (const auto& backend : backends()) {
        const Availability state = backend->availability();
        any = any || state.available;
        document["backends"].push_back(backend_json(*backend, state));
        const std::string head = "--device " + backend->device() + " (" + backend->name() + ")";
        if (state.available) {
            context.print("  " + context.green("found  ") + " " + head + ", version " + state.version);
            for (const auto& device : state.devices)
                context.print("            " + device);
        } else {
            context.print("  " + context.yellow("missing") + " " + head);
            context.print("            cause: " + state.cause);
            context.print("            cure:  " + state.cure);
        }
    }
    context.print("\n" + context.bold("Processor"));
    context.print("  " + machine.cpu_model + ", " + std::to_string(machine.cores) + " cores usable, " +
                  std::to_string(machine.memory_bytes >> 30) + " GiB memory, governor " + machine.governor);
    if (machine.hypervisor) {
        context.print("  a virtual machine: other guests can disturb timings; trust ratios of interleaved runs only");
    }
    for (const auto& feature : features) {
        const bool has = machine.has_flag(feature.flag);
        const char* meaning = has ? feature.present : feature.absent;
        document["features"].push_back(
            {{"flag", feature.flag}, {"name", feature.name}, {"present", has}, {"meaning", meaning}});
        std::string name = feature.name;
        name.resize(14, ' ');
        context.print("  " + (has ? context.green("yes") : context.yellow("no ")) + " " + name + meaning);
    }
    context.print("\n" + context.bold("Python (for `lathe export` and the framework baselines of `lathe bench`)"));
    const std::string cure = "set LATHE_PYTHON to an interpreter with PyTorch (pip install -r requirements/python.txt)";
    document["python"] = {{"interpreter", python.interpreter},
                          {"found", python.found},
                          {"version", python.version},
                          {"torch", python.torch},
                          {"cure", python.torch.empty() ? cure : ""}};
    if (!python.found) {
        context.print("  " + context.yellow("missing") + " " + python.interpreter + " does not run");
        context.print("            cure:  " + cure);
    } else if (python.torch.empty()) {
        context.print("  " + context.yellow("missing") + " " + python.interpreter + " " + python.version +
                      " has no PyTorch");
        context.print("            cure:  " + cure);
    } else {
        context.print("  " + context.green("found  ") + " " + python.interpreter + " " + python.version + ", PyTorch " +
                      python.torch);
    }
    context.print("\n" + context.bold("trtexec (for `lathe bench PLAN --via trtexec`)"));
    const auto trtexec = find_trtexec("trtexec");
    document["trtexec"] = {{"found", trtexec.has_value()},
                           {"file", trtexec ? trtexec->string() : ""},
                           {"cure", trtexec ? "" : trtexec.error().hint}};
    if (trtexec) {
        context.print("  " + context.green("found  ") + " " + trtexec->string());
    } else {
        context.print("  " + context.yellow("missing") + " " + trtexec.error().message);
        context.print("            cure:  " + trtexec.error().hint);
    }
    context.print_json(document);
    if (!any) {
        return Error{ErrorCode::unsupported, "no backend is available on this machine", "", "see the cures above"};
    }
    return {};
}

} // namespace

void add_doctor(Commands& commands) {
    Context& context = commands.context();
    commands.add({"doctor",
                  "Show which backends and devices can be used here, and what to do about those that cannot.",
                  {"lathe doctor", "lathe doctor --json"}},
                 [&context] { return run_doctor(context); });
}

} // namespace lathe::cli
