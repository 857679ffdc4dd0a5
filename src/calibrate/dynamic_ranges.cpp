#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "calibrate/given_ranges.hpp"

namespace lathe {
namespace {

constexpr std::string_view forms =
    "a range is a number (the largest magnitude), {\"min\": -1, \"max\": 2} or [-1, 2], by tensor name";

Error wrong(std::string message, std::string_view where, const std::string& tensor) {
    return {ErrorCode::parse_error, std::move(message), std::string(where) + ", tensor " + tensor, std::string(forms)};
}

Result<float> finite_number(const Json& json, std::string_view where, const std::string& tensor) {
    if (!json.is_number()) return wrong(std::string("there is ") + json.type_name() + " for a number", where, tensor);
    const auto value = json.get<double>();
    if (!std::isfinite(value) || std::fabs(value) > static_cast<double>(std::numeric_limits<float>::max())) {
        return wrong("the range is not finite", where, tensor);
    }
    return static_cast<float>(value);
}

Result<Range> parse_range(const Json& json, std::string_view where, const std::string& tensor) {
    if (json.is_number()) {
        LATHE_TRY(const float magnitude, finite_number(json, where, tensor));
        if (magnitude < 0.0F) return wrong("the largest magnitude is negative", where, tensor);
        return Range{-magnitude, magnitude};
    }
    const Json* low = nullptr;
    const Json* high = nullptr;
    if (json.is_object() && json.contains("min") && json.contains("max")) {
        low = &json.at("min");
        high = &json.at("max");
    } else if (json.is_array() && json.size() == 2) {
        low = &json[0];
        high = &json[1];
    } else {
        return wrong(std::string("this ") + json.type_name() + " is no range", where, tensor);
    }
    LATHE_TRY(const float lowest, finite_number(*low, where, tensor));
    LATHE_TRY(const float highest, finite_number(*high, where, tensor));
    if (lowest > highest) return wrong("the least value is above the greatest", where, tensor);
    // Zero stays exact: see Range.
    return Range{std::min(lowest, 0.0F), std::max(highest, 0.0F)};
}

} // namespace

Result<GivenRanges> parse_dynamic_ranges(std::string_view text, std::string_view where) {
    LATHE_TRY(const Json document, parse_json(text, where));
    const Json* tensors = &document;
    for (const char* wrapper : {"tensor_scales", "dynamic_ranges"}) {
        if (document.is_object() && document.contains(wrapper) && document.at(wrapper).is_object()) {
            tensors = &document.at(wrapper);
            break;
        }
    }
    if (!tensors->is_object() || tensors->empty()) {
        return Error{ErrorCode::parse_error, "the JSON names no tensor", std::string(where), std::string(forms)};
    }
    GivenRanges ranges;
    ranges.source = "dynamic ranges in JSON";
    for (const auto& [name, value] : tensors->items()) {
        LATHE_TRY(const Range range, parse_range(value, where, name));
        ranges.tensors.push_back({name, range, 0});
    }
    return ranges;
}

std::string print_dynamic_ranges(const GivenRanges& ranges) {
    Json json = Json::object();
    for (const GivenRange& tensor : ranges.tensors)
        json[tensor.name] = static_cast<double>(std::max(-tensor.range.low, tensor.range.high));
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace lathe
