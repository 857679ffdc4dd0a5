#include <cmath>
#include <limits>
#include <string>

#include "data/preprocess.hpp"

namespace lathe {

namespace {

constexpr double largest_side = 16384;

Error bad_key(std::string_view where, const std::string& key, const std::string& wanted) {
    return {ErrorCode::parse_error, "preprocess \"" + key + "\" must be " + wanted, std::string(where), ""};
}

bool is_side(const Json& json) {
    if (!json.is_number()) return false;
    const auto value = json.get<double>();
    return value >= 1 && value <= largest_side && value == std::floor(value);
}

/// [h, w], or one number for a square.
Result<Preprocess::Size> read_size(const Json& json, std::string_view where, const std::string& key) {
    if (is_side(json)) return Preprocess::Size{json.get<std::size_t>(), json.get<std::size_t>()};
    if (!json.is_array() || json.size() != 2 || !is_side(json[0]) || !is_side(json[1])) {
        return bad_key(where, key, "[height, width], whole numbers from 1 to 16384");
    }
    return Preprocess::Size{json[0].get<std::size_t>(), json[1].get<std::size_t>()};
}

/// One number for all channels, or three.
Result<std::array<double, 3>> read_channels(const Json& json, std::string_view where, const std::string& key) {
    if (json.is_number()) {
        const auto value = json.get<double>();
        return std::array<double, 3>{value, value, value};
    }
    if (!json.is_array() || json.size() != 3 || !json[0].is_number() || !json[1].is_number() || !json[2].is_number()) {
        return bad_key(where, key, "three numbers, one a channel");
    }
    return std::array<double, 3>{json[0].get<double>(), json[1].get<double>(), json[2].get<double>()};
}

/// The index of a string among the names of an enumeration.
Result<std::size_t> read_choice(const Json& json, std::string_view where, const std::string& key,
                                std::initializer_list<std::string_view> names) {
    std::string known;
    std::size_t index = 0;
    for (const std::string_view name : names) {
        if (json.is_string() && json.get<std::string>() == name) return index;
        known += (index == 0 ? "\"" : index + 1 == names.size() ? "\" or \"" : "\", \"") + std::string(name);
        ++index;
    }
    return bad_key(where, key, known + "\"");
}

Result<void> read_resize(Preprocess& preprocess, const Json& json, std::string_view where) {
    if (json.is_object()) {
        if (json.size() == 1 && json.contains("letterbox")) {
            LATHE_TRY(preprocess.letterbox, read_size(json["letterbox"], where, "letterbox"));
            return {};
        }
        if (json.size() != 1 || !json.contains("short_side") || !is_side(json["short_side"])) {
            return bad_key(where, "resize", R"([height, width], {"short_side": n} or {"letterbox": [height, width]})");
        }
        preprocess.short_side = json["short_side"].get<std::size_t>();
        return {};
    }
    LATHE_TRY(preprocess.resize, read_size(json, where, "resize"));
    return {};
}

Result<void> read_key(Preprocess& preprocess, const std::string& key, const Json& json, std::string_view where) {
    if (key == "resize") return read_resize(preprocess, json, where);
    if (key == "crop") {
        LATHE_TRY(preprocess.crop, read_size(json, where, key));
    } else if (key == "interpolation") {
        LATHE_TRY(const std::size_t index, read_choice(json, where, key, {"bilinear", "bicubic", "bilinear-opencv"}));
        preprocess.interpolation = static_cast<Interpolation>(index);
    } else if (key == "pad") {
        if (!json.is_number_integer() || json.get<double>() < 0 || json.get<double>() > 255) {
            return bad_key(where, key, "a pixel value, 0 to 255");
        }
        preprocess.pad = json.get<std::uint8_t>();
    } else if (key == "align") {
        LATHE_TRY(const std::size_t index, read_choice(json, where, key, {"center", "top-left"}));
        preprocess.align = index == 0 ? Alignment::centre : Alignment::top_left;
    } else if (key == "scale") {
        if (!json.is_number()) return bad_key(where, key, "a number");
        preprocess.scale = json.get<double>();
    } else if (key == "mean") {
        LATHE_TRY(preprocess.mean, read_channels(json, where, key));
    } else if (key == "std") {
        LATHE_TRY(preprocess.std, read_channels(json, where, key));
    } else if (key == "layout") {
        LATHE_TRY(const std::size_t index, read_choice(json, where, key, {"NCHW", "NHWC"}));
        preprocess.layout = index == 0 ? Layout::nchw : Layout::nhwc;
    } else if (key == "color") {
        LATHE_TRY(const std::size_t index, read_choice(json, where, key, {"RGB", "BGR"}));
        preprocess.color = index == 0 ? ColorOrder::rgb : ColorOrder::bgr;
    } else {
        return Error{ErrorCode::parse_error, "unknown preprocess key \"" + key + "\"", std::string(where),
                     "the keys are resize, crop, pad, align, interpolation, scale, mean, std, layout, color"};
    }
    return {};
}

} // namespace

Result<Preprocess> Preprocess::from_json(const Json& json, std::string_view where) {
    if (!json.is_object()) {
        return Error{
            ErrorCode::parse_error, "preprocessing must be a JSON object", std::string(where),
            R"(for example {"resize": {"short_side": 256}, "crop": [224, 224], "scale": 0.00392156862745098})"};
    }
    Preprocess preprocess;
    for (const auto& [key, value] : json.items())
        LATHE_CHECK(read_key(preprocess, key, value, where));
    LATHE_CHECK(preprocess.validate(where));
    return preprocess;
}

Result<Preprocess> Preprocess::from_file(const std::filesystem::path& path) {
    LATHE_TRY(const Json json, read_json_file(path));
    return from_json(json, path.string());
}

Result<std::optional<Preprocess>> Preprocess::from_text(std::string_view json, std::string_view where) {
    if (json.empty()) return std::optional<Preprocess>();
    LATHE_TRY(const Json parsed, parse_json(json, where));
    LATHE_TRY(const Preprocess preprocess, from_json(parsed, where));
    return std::optional<Preprocess>(preprocess);
}

Result<void> Preprocess::validate(std::string_view where) const {
    const auto refuse = [&](const std::string& message, const std::string& hint) {
        return Error{ErrorCode::invalid_argument, message, std::string(where), hint};
    };
    if (resize && short_side) return refuse("preprocess gives both a size and a short side to resize to", "give one");
    if (letterbox && (resize || short_side || crop)) {
        return refuse("preprocess gives a letterbox and another resize or crop", "give one");
    }
    if (!letterbox && align != Alignment::centre) {
        return refuse("preprocess \"align\" is of a letterbox", R"(give "resize": {"letterbox": [h, w]})");
    }
    if (!resize && !crop && !letterbox) {
        return refuse("preprocess leaves the size open", "give \"resize\": [h, w], or \"crop\": [h, w]");
    }
    if (!std::isfinite(scale) || scale == 0) return refuse("preprocess \"scale\" must be finite and not 0", "");
    for (std::size_t c = 0; c < 3; ++c) {
        if (!std::isfinite(mean[c])) return refuse("preprocess \"mean\" must be finite", "");
        const auto divisor = static_cast<float>(std[c]);
        if (!std::isfinite(divisor) || divisor <= 0) return refuse("preprocess \"std\" must be finite and above 0", "");
    }
    return {};
}

Json Preprocess::to_json() const {
    Json json = Json::object();
    if (resize) json["resize"] = {resize->height, resize->width};
    if (short_side) json["resize"] = {{"short_side", *short_side}};
    if (crop) json["crop"] = {crop->height, crop->width};
    if (letterbox) {
        json["resize"] = {{"letterbox", {letterbox->height, letterbox->width}}};
        json["align"] = align == Alignment::centre ? "center" : "top-left";
    }
    if (pad != 0) json["pad"] = pad;
    json["interpolation"] = to_string(interpolation);
    json["scale"] = scale;
    json["mean"] = mean;
    json["std"] = std;
    json["layout"] = layout == Layout::nchw ? "NCHW" : "NHWC";
    json["color"] = color == ColorOrder::rgb ? "RGB" : "BGR";
    return json;
}

} // namespace lathe
