#include "backends/api/backend.hpp"

namespace lathe {

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
