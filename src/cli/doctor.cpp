#include <string>

#include "cli/commands.hpp"
#include "lathe/doctor.hpp"
#include "support/json.hpp"

namespace lathe::cli {

namespace {

void print_backends(const DoctorReport& report, const Context& context) {
    context.print(context.bold("Backends"));
    for (const BackendState& backend : report.backends) {
        const std::string head = "--device " + backend.device + " (" + backend.name + ")";
        if (backend.available) {
            context.print("  " + context.green("found  ") + " " + head + ", version " + backend.version);
            for (const auto& device : backend.devices)
                context.print("            " + device);
        } else {
            context.print("  " + context.yellow("missing") + " " + head);
            context.print("            cause: " + backend.cause);
            context.print("            cure:  " + backend.cure);
        }
    }
}

void print_processor(const DoctorReport& report, const Context& context) {
    context.print("\n" + context.bold("Processor"));
    context.print("  " + report.cpu_model + ", " + std::to_string(report.cores) + " cores usable, " +
                  std::to_string(report.memory_bytes >> 30) + " GiB memory, governor " + report.governor);
    if (report.hypervisor) {
        context.print("  a virtual machine: other guests can disturb timings; trust ratios of interleaved runs only");
    }
    for (const ProcessorFeature& feature : report.features) {
        std::string name = feature.name;
        name.resize(14, ' ');
        context.print("  " + (feature.present ? context.green("yes") : context.yellow("no ")) + " " + name +
                      feature.meaning);
    }
}

void print_python(const PythonState& python, const Context& context) {
    context.print("\n" + context.bold("Python (for `lathe export` and the framework baselines of `lathe bench`)"));
    if (!python.found) {
        context.print("  " + context.yellow("missing") + " " + python.interpreter + " does not run");
        context.print("            cure:  " + python.cure);
    } else if (python.torch.empty()) {
        context.print("  " + context.yellow("missing") + " " + python.interpreter + " " + python.version +
                      " has no PyTorch");
        context.print("            cure:  " + python.cure);
    } else {
        context.print("  " + context.green("found  ") + " " + python.interpreter + " " + python.version + ", PyTorch " +
                      python.torch);
    }
}

void print_trtexec(const TrtexecState& trtexec, const Context& context) {
    context.print("\n" + context.bold("trtexec (for `lathe bench PLAN --via trtexec`)"));
    if (trtexec.found) {
        context.print("  " + context.green("found  ") + " " + trtexec.file);
    } else {
        context.print("  " + context.yellow("missing") + " " + trtexec.cause);
        context.print("            cure:  " + trtexec.cure);
    }
}

Result<void> run_doctor(const Context& context) {
    const DoctorReport report = doctor();
    print_backends(report, context);
    print_processor(report, context);
    print_python(report.python, context);
    print_trtexec(report.trtexec, context);
    LATHE_TRY(Json document, parse_json(report.document, "doctor"));
    context.print_json(std::move(document));
    if (!report.any_backend()) {
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
