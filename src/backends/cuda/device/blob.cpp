#include "backends/cuda/device/blob.hpp"

#include "backends/api/compiled_form.hpp"

namespace lathe::cuda {

namespace {

constexpr CompiledFormat format{"LATHECUD", 1};

} // namespace

Result<ByteChain> write_blob(const EngineState& state) {
    Json header{{"environment", state.environment},
                {"workspace_limit", state.workspace_limit},
                {"arena_bytes", state.arena_bytes},
                {"workspace_bytes", state.workspace_bytes},
                {"tactics", state.tactics}};
    add_bindings(header, {state.inputs, state.outputs, state.profiles});
    LATHE_TRY(ByteChain prepared, serialize(state.prepared));
    return write_compiled(format, header, std::move(prepared));
}

Result<std::shared_ptr<EngineState>> read_blob(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
    LATHE_TRY(const CompiledForm form, read_compiled(format, bytes));
    LATHE_TRY(const Json header, parse_json(form.header, "compiled form"));
    LATHE_TRY(CompiledBindings bindings, read_bindings(header));
    auto state = std::make_shared<EngineState>();
    state->inputs = std::move(bindings.inputs);
    state->outputs = std::move(bindings.outputs);
    state->profiles = std::move(bindings.profiles);
    try {
        state->environment = header.at("environment").get<std::string>();
        state->workspace_limit = count_of(header.at("workspace_limit"));
        state->arena_bytes = count_of(header.at("arena_bytes"));
        state->workspace_bytes = count_of(header.at("workspace_bytes"));
        for (const auto& [signature, tactics] : header.at("tactics").items())
            state->tactics[signature] = tactics.get<std::vector<std::string>>();
    } catch (const Json::exception& error) {
        return damaged_form(error.what());
    }
    LATHE_TRY(state->prepared, deserialize(form.body, std::move(owner)));
    return state;
}

} // namespace lathe::cuda
