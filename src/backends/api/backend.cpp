#include "backends/api/backend.hpp"

#include "support/log.hpp"

namespace lathe {

Result<void> told_unless_asked(Result<void> audit, const CompileOptions& options) {
    if (audit || options.precision_is_asked || audit.error().code != ErrorCode::unsupported) return audit;
    const std::string& reasons = audit.error().message; // layer by layer, behind the first line
    log(LogLevel::warning, reasons.substr(0, reasons.find('\n')));
    return {};
}

Result<const Backend*> default_backend() {
    for (const auto& backend : backends()) {
        if (backend->availability().available) return backend.get();
    }
    return Error{ErrorCode::unsupported, "no backend is available on this machine", "", "see `lathe doctor`"};
}

Result<const Backend*> backend_for_device(std::string_view device) {
    std::string known;
    for (const auto& backend : backends()) {
        if (backend->device() == device) {
            const Availability state = backend->availability();
            if (state.available) return backend.get();
            return Error{ErrorCode::unsupported, "device " + std::string(device) + " cannot be used: " + state.cause,
                         "--device", state.cure};
        }
        known += (known.empty() ? "" : ", ") + backend->device();
    }
    return Error{ErrorCode::invalid_argument, "unknown device \"" + std::string(device) + "\"", "--device",
                 "known devices: " + known};
}

} // namespace lathe
