#include "backends/cuda/device/blob.hpp"

#include "backends/api/compiled_form.hpp"
#include "support/json_fault.hpp"

namespace lathe::cuda {

namespace {

constexpr CompiledFormat format{"LATHECUD", 2};

} // namespace

Result<ByteChain> write_blob(const EngineState& state) {
    Json header{{"environment", state.environment},
                {"workspace_limit", state.workspace_limit},
                {"arena_bytes", state.arena_bytes},
                {"workspace_bytes", state.workspace_bytes},
                {"tactics", state.tactics}};
    add_bindings(header, {state.inputs, state.outputs, state.profiles});
    LATHE_TRY(ByteChain prepared, serialize(state.prepared));
    // Generated kernels lie behind the model.
    header["prepared_bytes"] = prepared.size();
    header["code"] = Json::array();
    for (const auto& [key, code] : state.code) {
        header["code"].push_back({{"key", key}, {"bytes", code->size()}});
        prepared.add(std::as_bytes(std::span(*code)), code);
    }
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
    std::size_t at = 0;
    try {
        state->environment = header.at("environment").get<std::string>();
        state->workspace_limit = count_of(header.at("workspace_limit"));
        state->arena_bytes = count_of(header.at("arena_bytes"));
        state->workspace_bytes = count_of(header.at("workspace_bytes"));
        for (const auto& [signature, tactics] : header.at("tactics").items())
            state->tactics[signature] = tactics.get<std::vector<std::string>>();
        const std::size_t prepared = count_of(header.at("prepared_bytes"));
        at = prepared;
        for (const Json& each : header.at("code")) {
            const std::size_t size = count_of(each.at("bytes"));
            if (at > form.body.size() || size > form.body.size() - at)
                return damaged_form("a generated kernel lies beyond its end");
            const auto* from = reinterpret_cast<const char*>(form.body.data() + at);
            state->code.emplace(each.at("key").get<std::string>(), std::make_shared<const std::string>(from, size));
            at += size;
        }
        if (prepared > form.body.size()) return damaged_form("the model lies beyond its end");
        at = prepared;
    } catch (const Json::exception& error) {
        return damaged_form(json_fault(error));
    }
    LATHE_TRY(state->prepared, deserialize(form.body.first(at), std::move(owner)));
    return state;
}

} // namespace lathe::cuda
