#include "runtime/device_run.hpp"

#include <string>

#include "runtime/session.hpp"

namespace lathe {

Result<std::vector<TensorView>> run_on_device(Session& session, std::span<const TensorView> inputs) {
    SessionParts& parts = parts_of(session);
    BackendSession& backend = *parts.backend;
    LATHE_CHECK(parts.give(inputs, [&](std::size_t index, const TensorView& view) -> Result<void> {
        const std::size_t wanted = byte_size(view.type, static_cast<std::size_t>(element_count(view.shape)));
        if (view.bytes.size() != wanted) {
            return Error{ErrorCode::invalid_argument,
                         "input holds " + std::to_string(view.bytes.size()) + " bytes, not what shape " +
                             to_string(view.shape) + " of " + to_string(view.type) + " takes",
                         session.inputs()[index].name, ""};
        }
        return backend.set_device_input(index, {view.bytes.data(), view.type, view.shape, backend.device()});
    }));
    LATHE_CHECK(backend.run());
    return parts.outputs();
}

Result<std::vector<TensorView>> device_outputs(Session& session) {
    BackendSession& backend = *parts_of(session).backend;
    std::vector<TensorView> views;
    for (std::size_t i = 0; i < session.outputs().size(); ++i) {
        LATHE_TRY(const DeviceTensor tensor, backend.device_output(i));
        const std::size_t bytes = byte_size(tensor.type, static_cast<std::size_t>(element_count(tensor.shape)));
        views.push_back(
            {session.outputs()[i].name, tensor.type, tensor.shape, {static_cast<std::byte*>(tensor.data), bytes}});
    }
    return views;
}

} // namespace lathe
