#include "backends/api/speed_limit.hpp"
#include "runtime/engine.hpp"
#include "support/json_fault.hpp"

namespace lathe {

namespace {

Json io_json(const std::vector<IoInfo>& list) {
    Json array = Json::array();
    for (const auto& io : list) {
        array.push_back({{"name", io.name},
                         {"type", to_string(io.type)},
                         {"shape", io.range.describe()},
                         {"min", io.range.min},
                         {"opt", io.range.opt},
                         {"max", io.range.max}});
    }
    return array;
}

std::vector<IoInfo> io_from_json(const Json& array) {
    std::vector<IoInfo> list;
    for (const auto& entry : array) {
        IoInfo io;
        io.name = entry.at("name").get<std::string>();
        io.type = data_type_from_name(entry.at("type").get<std::string>());
        io.range = {entry.at("min").get<Shape>(), entry.at("opt").get<Shape>(), entry.at("max").get<Shape>()};
        list.push_back(std::move(io));
    }
    return list;
}

Json profiles_json(const std::vector<std::map<std::string, ShapeRange>>& profiles) {
    Json array = Json::array();
    for (const auto& profile : profiles) {
        Json entry = Json::object();
        for (const auto& [name, range] : profile)
            entry[name] = {{"min", range.min}, {"opt", range.opt}, {"max", range.max}};
        array.push_back(std::move(entry));
    }
    return array;
}

std::vector<std::map<std::string, ShapeRange>> profiles_from_json(const Json& array) {
    std::vector<std::map<std::string, ShapeRange>> profiles;
    for (const auto& entry : array) {
        std::map<std::string, ShapeRange> profile;
        for (const auto& [name, range] : entry.items())
            profile[name] = {range.at("min").get<Shape>(), range.at("opt").get<Shape>(), range.at("max").get<Shape>()};
        profiles.push_back(std::move(profile));
    }
    return profiles;
}

/// Text that holds JSON, as JSON; null where it is empty or no JSON.
Json embedded(const std::string& text) {
    auto json = parse_json(text, "");
    return json ? *std::move(json) : Json();
}

/// A tokenizer's description without its graphs, which are kept in a section of their own.
Json without_graphs(const std::string& tokenizer) {
    Json json = embedded(tokenizer);
    if (!json.is_object()) return nullptr;
    json.erase("single");
    json.erase("pair");
    return json;
}

std::string embedded_text(const Json& json) { return json.is_null() ? "" : json.dump(); }

} // namespace

Json to_json(const EngineInfo& info) {
    Json hashes = Json::object();
    for (const auto& [name, digest] : info.hashes)
        hashes[name] = digest;
    Json json{{"name", info.name},
              {"device", info.device},
              {"backend", info.backend},
              {"precision", to_string(info.precision)},
              {"inputs", io_json(info.inputs)},
              {"outputs", io_json(info.outputs)},
              {"preprocess", embedded(info.preprocess)},
              {"labels", info.labels},
              {"source", info.source},
              {"hashes", hashes},
              {"calibration_digest", info.calibration_digest},
              {"lathe_version", info.lathe_version},
              {"library_version", info.library_version},
              {"command_line", info.command_line},
              {"time", info.time},
              {"machine", embedded(info.machine)},
              {"blob_key", info.blob_key},
              {"threads", info.threads},
              {"graph_bytes", info.graph_bytes},
              {"blob_bytes", info.blob_bytes},
              {"file_bytes", info.file_bytes},
              {"recompiled", info.recompiled},
              {"recompiled_reason", info.recompiled_reason}};
    if (!info.tokenizer.empty()) json["tokenizer"] = without_graphs(info.tokenizer);
    if (!info.profiles.empty()) json["profiles"] = profiles_json(info.profiles);
    return json;
}

std::string to_json_text(const EngineInfo& info) {
    return to_json(info).dump(2, ' ', false, Json::error_handler_t::replace);
}

Result<EngineInfo> engine_info_from_json(const Json& json) {
    EngineInfo info;
    try {
        info.name = json.at("name").get<std::string>();
        info.device = json.at("device").get<std::string>();
        info.backend = json.at("backend").get<std::string>();
        const auto precision = precision_from_name(json.at("precision").get<std::string>());
        if (!precision) return Error{ErrorCode::corrupt, "the engine has an unknown precision", "precision", ""};
        info.precision = *precision;
        info.inputs = io_from_json(json.at("inputs"));
        info.outputs = io_from_json(json.at("outputs"));
        if (json.contains("profiles")) info.profiles = profiles_from_json(json["profiles"]);
        info.preprocess = embedded_text(json.at("preprocess"));
        info.labels = json.at("labels").get<std::vector<std::string>>();
        info.source = json.at("source").get<std::string>();
        for (const auto& [name, digest] : json.at("hashes").items())
            info.hashes[name] = digest.get<std::string>();
        info.calibration_digest = json.at("calibration_digest").get<std::string>();
        info.lathe_version = json.at("lathe_version").get<std::string>();
        info.library_version = json.at("library_version").get<std::string>();
        info.command_line = json.at("command_line").get<std::string>();
        info.time = json.at("time").get<std::string>();
        info.machine = embedded_text(json.at("machine"));
        info.blob_key = json.at("blob_key").get<std::string>();
        info.threads = count_of(json.at("threads"));
        info.graph_bytes = count_of(json.at("graph_bytes"));
        info.blob_bytes = count_of(json.at("blob_bytes"));
    } catch (const Json::exception& error) {
        return Error{ErrorCode::corrupt, "the engine's description is not as expected: " + json_fault(error), "",
                     "build the engine again"};
    }
    for (const auto* list : {&info.inputs, &info.outputs}) {
        for (const auto& io : *list) {
            if (io.range.min.size() != io.range.max.size() || io.range.opt.size() != io.range.max.size()) {
                return Error{ErrorCode::corrupt, "the engine's description has contradicting shapes", io.name,
                             "build the engine again"};
            }
        }
    }
    return info;
}

Json to_json(const LayerInfo& layer) {
    return Json{{"name", layer.name},           {"type", layer.type},
                {"precision", layer.precision}, {"implementation", layer.implementation},
                {"ms", layer.milliseconds},     {"nodes", layer.nodes}};
}

Json to_json(const BuildReport& report) {
    Json ops = Json::array();
    for (const auto& op : report.ops) {
        Json candidates = Json::array();
        for (const auto& timing : op.candidates) {
            candidates.push_back({{"tactic", timing.tactic},
                                  {"mixed_us", timing.mixed_us},
                                  {"warm_us", timing.warm_us},
                                  {"cold_us", timing.cold_us},
                                  {"whole_ratio", timing.whole_ratio},
                                  {"refused", timing.refused},
                                  {"chosen", timing.chosen}});
        }
        ops.push_back({{"shape", op.shape},
                       {"name", op.name},
                       {"signature", op.signature},
                       {"precision", op.precision},
                       {"bytes", op.bytes},
                       {"operations", op.operations},
                       {"limit_us", op.limit_us},
                       {"candidates", std::move(candidates)}});
    }
    Json clamped = Json::array();
    for (const auto& constant : report.clamped) {
        clamped.push_back({{"name", constant.name},
                           {"type", constant.type},
                           {"elements", constant.elements},
                           {"from", constant.from},
                           {"to", constant.to}});
    }
    Json shapes = Json::array();
    for (const ShapeLimit& shape : limits_by_shape(report)) {
        shapes.push_back({{"shape", shape.shape},
                          {"us", shape.us},
                          {"limit_us", shape.limit_us},
                          {"reference_us", shape.reference_us}});
    }
    const MachineLimits& machine = report.limits;
    return Json{{"ops", std::move(ops)},
                {"shapes", std::move(shapes)},
                {"limits",
                 {{"memory_bytes_per_second", machine.memory_bytes_per_second},
                  {"cache_bytes_per_second", machine.cache_bytes_per_second},
                  {"cache_bytes", machine.cache_bytes},
                  {"launch_us", machine.launch_us},
                  {"operations_per_second", machine.operations_per_second}}},
                {"arena_bytes", report.arena_bytes},
                {"arena_lower_bound", report.arena_lower_bound},
                {"workspace_bytes", report.workspace_bytes},
                {"weight_bytes", report.weight_bytes},
                {"fallbacks", report.fallbacks},
                {"clamped", std::move(clamped)},
                {"precision_share", report.precision_share},
                {"build_seconds", report.build_seconds},
                {"check_seconds", report.check_seconds},
                {"checked_operations", report.checked_operations},
                {"checked_before", report.checked_before},
                {"check_notes", report.check_notes}};
}

} // namespace lathe
