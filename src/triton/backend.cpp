// What the server calls. Nothing is thrown across this border.
#include <exception>
#include <memory>

#include "support/log.hpp"
#include "triton/instance.hpp"
#include "triton/model.hpp"
#include "triton/server.hpp"

namespace lathe::triton {

namespace {

// The interface that the declarations were written from; later minor versions only add to it.
constexpr std::uint32_t api_major = 1;
constexpr std::uint32_t api_minor = 16;

template <class Call>
TRITONSERVER_Error* guarded(Call call) {
    try {
        return made(call());
    } catch (const std::exception& failure) {
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, failure.what());
    }
}

TRITONSERVER_LogLevel level_for(LogLevel level) {
    switch (level) {
        case LogLevel::error: return TRITONSERVER_LOG_ERROR;
        case LogLevel::warning: return TRITONSERVER_LOG_WARN;
        case LogLevel::info: return TRITONSERVER_LOG_INFO;
        default: return TRITONSERVER_LOG_VERBOSE;
    }
}

Result<void> initialize() {
    std::uint32_t major = 0;
    std::uint32_t minor = 0;
    LATHE_CHECK(taken(TRITONBACKEND_ApiVersion(&major, &minor)));
    if (major != api_major || minor < api_minor) {
        return Error{ErrorCode::mismatch,
                     "the server speaks version " + std::to_string(major) + "." + std::to_string(minor) +
                         " of the interface for backends, and this backend needs " + std::to_string(api_major) + "." +
                         std::to_string(api_minor),
                     "backend lathe", "use Triton 23.10 or later"};
    }
    set_log_sink(
        [](LogLevel level, std::string_view message) { log_to_server(level_for(level), std::string(message)); });
    return {};
}

Result<void> load_model(TRITONBACKEND_Model* model) {
    LATHE_TRY(auto served, ServedModel::load(model));
    LATHE_CHECK(taken(TRITONBACKEND_ModelSetState(model, served.get())));
    (void)served.release(); // the server has it until unload_model
    return {};
}

Result<void> unload_model(TRITONBACKEND_Model* model) {
    void* state = nullptr;
    LATHE_CHECK(taken(TRITONBACKEND_ModelState(model, &state)));
    const std::unique_ptr<ServedModel> served(static_cast<ServedModel*>(state));
    return {};
}

Result<void> make_instance(TRITONBACKEND_ModelInstance* handle) {
    TRITONBACKEND_Model* model = nullptr;
    void* state = nullptr;
    LATHE_CHECK(taken(TRITONBACKEND_ModelInstanceModel(handle, &model)));
    LATHE_CHECK(taken(TRITONBACKEND_ModelState(model, &state)));
    auto& served = *static_cast<ServedModel*>(state);
    auto instance = Instance::make(handle, served);
    if (!instance) return std::move(instance).error().in(served.name());
    LATHE_CHECK(taken(TRITONBACKEND_ModelInstanceSetState(handle, instance->get())));
    (void)instance->release(); // the server has it until remove_instance
    return {};
}

Result<Instance*> instance_of(TRITONBACKEND_ModelInstance* handle) {
    void* state = nullptr;
    LATHE_CHECK(taken(TRITONBACKEND_ModelInstanceState(handle, &state)));
    return static_cast<Instance*>(state);
}

} // namespace

} // namespace lathe::triton

using namespace lathe::triton;

TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend* /*backend*/) { return guarded(initialize); }

TRITONSERVER_Error* TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend* /*backend*/,
                                                      TRITONBACKEND_BackendAttribute* attributes) {
    return TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(attributes, true);
}

TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
    return guarded([&] { return load_model(model); });
}

TRITONSERVER_Error* TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model) {
    return guarded([&] { return unload_model(model); });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance) {
    return guarded([&] { return make_instance(instance); });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* instance) {
    return guarded([&]() -> lathe::Result<void> {
        LATHE_TRY(Instance * state, instance_of(instance));
        const std::unique_ptr<Instance> owned(state);
        return {};
    });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* instance,
                                                       TRITONBACKEND_Request** requests, std::uint32_t count) {
    return guarded([&]() -> lathe::Result<void> {
        LATHE_TRY(Instance * state, instance_of(instance));
        state->execute({requests, count});
        return {};
    });
}
