#include "backends/cuda/device/blob.hpp"

#include <cstring>

#include "support/json.hpp"

namespace lathe::cuda {

namespace {

constexpr char magic[] = "LATHECUD";
constexpr std::size_t magic_bytes = 8, fixed_bytes = 24, alignment = 256;
constexpr std::uint32_t version = 1;

Error corrupt(const std::string& why) {
    return {ErrorCode::corrupt, "the compiled form is damaged: " + why, "", "build the engine again"};
}

Json range_json(const ShapeRange& range) { return {range.min, range.opt, range.max}; }
ShapeRange range_from(const Json& json) {
    return {json.at(0).get<Shape>(), json.at(1).get<Shape>(), json.at(2).get<Shape>()};
}

Json io_json(const std::vector<IoInfo>& list) {
    Json array = Json::array();
    for (const IoInfo& io : list)
        array.push_back({{"name", io.name}, {"type", static_cast<int>(io.type)}, {"range", range_json(io.range)}});
    return array;
}

std::vector<IoInfo> io_from(const Json& array) {
    std::vector<IoInfo> list;
    for (const Json& entry : array) {
        list.push_back({entry.at("name").get<std::string>(), static_cast<DataType>(entry.at("type").get<int>()),
                        range_from(entry.at("range"))});
    }
    return list;
}

} // namespace

Result<std::string> write_blob(const EngineState& state) {
    Json profiles = Json::array();
    for (const auto& profile : state.profiles) {
        Json ranges = Json::array();
        for (const ShapeRange& range : profile)
            ranges.push_back(range_json(range));
        profiles.push_back(std::move(ranges));
    }
    const Json header{{"environment", state.environment},         {"inputs", io_json(state.inputs)},
                      {"outputs", io_json(state.outputs)},        {"profiles", profiles},
                      {"workspace_limit", state.workspace_limit}, {"arena_bytes", state.arena_bytes},
                      {"workspace_bytes", state.workspace_bytes}, {"tactics", state.tactics}};
    const std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
    LATHE_TRY(const std::string prepared, serialize(state.prepared));
    std::string blob(magic, magic_bytes);
    const auto append = [&](auto number) { blob.append(reinterpret_cast<const char*>(&number), sizeof(number)); };
    append(version);
    append(std::uint32_t{0});
    append(static_cast<std::uint64_t>(text.size()));
    blob += text;
    blob.resize((blob.size() + alignment - 1) / alignment * alignment, '\0');
    blob += prepared;
    return blob;
}

Result<std::shared_ptr<EngineState>> read_blob(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
    if (bytes.size() < fixed_bytes || std::memcmp(bytes.data(), magic, magic_bytes) != 0)
        return corrupt("it does not begin as one");
    std::uint32_t found = 0;
    std::uint64_t length = 0;
    std::memcpy(&found, bytes.data() + 8, sizeof(found));
    std::memcpy(&length, bytes.data() + 16, sizeof(length));
    if (found != version) {
        return Error{ErrorCode::mismatch,
                     "the compiled form has version " + std::to_string(found) + ", this program reads " +
                         std::to_string(version),
                     "", "build the engine again"};
    }
    if (length > bytes.size() - fixed_bytes) return corrupt("its header ends past its end");
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + fixed_bytes, length);
    LATHE_TRY(const Json header, parse_json(text, "compiled form"));
    auto state = std::make_shared<EngineState>();
    try {
        state->environment = header.at("environment").get<std::string>();
        state->inputs = io_from(header.at("inputs"));
        state->outputs = io_from(header.at("outputs"));
        for (const Json& profile : header.at("profiles")) {
            std::vector<ShapeRange> ranges;
            for (const Json& range : profile)
                ranges.push_back(range_from(range));
            if (ranges.size() != state->inputs.size()) return corrupt("a profile does not have a range an input");
            state->profiles.push_back(std::move(ranges));
        }
        state->workspace_limit = header.at("workspace_limit").get<std::size_t>();
        state->arena_bytes = header.at("arena_bytes").get<std::size_t>();
        state->workspace_bytes = header.at("workspace_bytes").get<std::size_t>();
        for (const auto& [signature, tactics] : header.at("tactics").items())
            state->tactics[signature] = tactics.get<std::vector<std::string>>();
    } catch (const Json::exception& error) {
        return corrupt(error.what());
    }
    const std::size_t at = (fixed_bytes + length + alignment - 1) / alignment * alignment;
    if (at > bytes.size()) return corrupt("it is cut off");
    LATHE_TRY(state->prepared, deserialize(bytes.subspan(at), std::move(owner)));
    return state;
}

} // namespace lathe::cuda
