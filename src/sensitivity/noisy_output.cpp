#include "sensitivity/noisy_output.hpp"

namespace lathe {
namespace {

/// Groups that cover all channels, in order. Throws Json::exception where a field is missing or of another kind.
bool read_groups(const Json& json, OutputGroups& groups) {
    std::size_t end = 0;
    groups = {count_of(json.at("axis")), count_of(json.at("channels")), count_of(json.at("inner")), {}};
    for (const Json& each : json.at("groups")) {
        groups.groups.push_back({count_of(each.at("begin")), count_of(each.at("end")), positive_at(each, "power")});
        if (groups.groups.back().begin != end || groups.groups.back().end <= end) return false;
        end = groups.groups.back().end;
    }
    return end > 0 && end == groups.channels && groups.inner > 0;
}

} // namespace

Json to_json(const std::vector<NoisyOutput>& outputs) {
    Json json = Json::array();
    for (const NoisyOutput& output : outputs) {
        Json groups = Json::array();
        for (const OutputGroups::Group& each : output.groups.groups)
            groups.push_back({{"begin", each.begin}, {"end", each.end}, {"power", each.power}});
        json.push_back({{"name", output.name},
                        {"scale", output.scale},
                        {"axis", output.groups.axis},
                        {"channels", output.groups.channels},
                        {"inner", output.groups.inner},
                        {"groups", std::move(groups)}});
    }
    return json;
}

Result<std::vector<NoisyOutput>> noisy_outputs_from(const Json& json, const Error& damaged) {
    if (!json.is_array() || json.empty()) return damaged;
    std::vector<NoisyOutput> outputs;
    try {
        for (const Json& each : json) {
            NoisyOutput& output = outputs.emplace_back();
            output.name = each.at("name").get<std::string>();
            output.scale = each.at("scale").get<double>();
            if (!read_groups(each, output.groups)) return damaged;
        }
    } catch (const Json::exception&) {
        return damaged;
    }
    return outputs;
}

} // namespace lathe
