#include "data/preprocess_presets.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>

#include "support/near_name.hpp"

namespace lathe {
namespace {

constexpr std::array<double, 3> imagenet_mean{0.485, 0.456, 0.406};
constexpr std::array<double, 3> imagenet_std{0.229, 0.224, 0.225};
// The figures of openai/CLIP's own preprocessing.
constexpr std::array<double, 3> clip_mean{0.48145466, 0.4578275, 0.40821073};
constexpr std::array<double, 3> clip_std{0.26862954, 0.26130258, 0.27577711};
constexpr std::array<double, 3> zeros{0, 0, 0};
constexpr std::array<double, 3> ones{1, 1, 1};
constexpr double usual_crop = 0.875; // 224 of 256

constexpr std::array<PreprocessPreset, 7> presets{{
    {"imagenet", "torchvision's and timm's usual: 0..1, less ImageNet's mean, by its deviation",
     Interpolation::bilinear, usual_crop, 1.0 / 255, imagenet_mean, imagenet_std},
    {"imagenet-0..1", "the same crop, values 0..1", Interpolation::bilinear, usual_crop, 1.0 / 255, zeros, ones},
    {"tf", "TensorFlow's: the same crop, values -1..1", Interpolation::bilinear, usual_crop, 1.0 / 127.5, ones, ones},
    {"clip", "CLIP's: bicubic, the whole shorter side, its own mean and deviation", Interpolation::bicubic, 1.0,
     1.0 / 255, clip_mean, clip_std},
    {"raw-0..255", "resized to the input's size, values 0..255", Interpolation::bilinear, 0, 1.0, zeros, ones},
    {"yolo", "Ultralytics': as large as fits, in the middle of grey, values 0..1", Interpolation::bilinear_opencv, 0,
     1.0 / 255, zeros, ones, Alignment::centre},
    {"yolox", "YOLOX's: as large as fits, top left on grey, blue first, values 0..255", Interpolation::bilinear_opencv,
     0, 1.0, zeros, ones, Alignment::top_left, ColorOrder::bgr},
}};
/// Of them, those in front that have no letterbox.
constexpr auto tried = static_cast<std::size_t>(
    std::ranges::find_if(presets, [](const PreprocessPreset& each) { return each.letterbox.has_value(); }) -
    presets.begin());
constexpr std::uint8_t grey = 114;

/// The channel axis of a picture input, 1 or 3; 0 for any other.
std::size_t channel_axis(const InputSpec& input) {
    if (input.shape.size() != 4) return 0;
    if (input.shape[1] == 3) return 1;
    return input.shape[3] == 3 ? 3 : 0;
}

std::optional<Preprocess::Size> parse_size(std::string_view text) {
    Preprocess::Size size;
    const char* const end = text.data() + text.size();
    const auto height = std::from_chars(text.data(), end, size.height);
    if (height.ec != std::errc{} || height.ptr == end || *height.ptr != 'x') return std::nullopt;
    const auto width = std::from_chars(height.ptr + 1, end, size.width);
    if (width.ec != std::errc{} || width.ptr != end || size.height == 0 || size.width == 0) return std::nullopt;
    return size;
}

const PreprocessPreset* find_preset(std::string_view name) {
    for (const PreprocessPreset& preset : presets) {
        if (name == preset.name) return &preset;
    }
    return nullptr;
}

Error unknown(std::string_view text) {
    std::vector<std::string> names;
    for (const PreprocessPreset& preset : presets)
        names.emplace_back(preset.name);
    const std::string nearest = nearest_name(text, names);
    return {ErrorCode::invalid_argument,
            "neither a preprocessing that is known here nor a JSON file" +
                (nearest.empty() ? "" : "; is " + nearest + " meant?"),
            std::string(text), "give one of " + preset_names() + ", or a JSON file"};
}

} // namespace

std::string preset_names() {
    std::string list;
    for (const PreprocessPreset& preset : presets)
        list += (list.empty() ? "" : ", ") + std::string(preset.name);
    return list;
}

std::span<const PreprocessPreset> preprocess_presets() { return presets; }
std::span<const PreprocessPreset> tried_presets() { return std::span(presets).first<tried>(); }

Result<Preprocess> make_preprocess(const PreprocessPreset& preset, std::span<const InputSpec> inputs,
                                   std::optional<Preprocess::Size> size) {
    const auto refuse = [&](const std::string& why, const std::string& cure) {
        return Error{ErrorCode::invalid_argument, why, std::string("preprocessing ") + preset.name, cure};
    };
    const InputSpec* picture = nullptr;
    for (const InputSpec& input : inputs) {
        if (channel_axis(input) != 0) picture = picture == nullptr ? &input : nullptr;
    }
    if (picture == nullptr) {
        return refuse("the model has no one input for pictures (Nx3xHxW or NxHxWx3)",
                      "give its inputs as arrays: .npy or .npz");
    }
    Preprocess made;
    made.layout = channel_axis(*picture) == 1 ? Layout::nchw : Layout::nhwc;
    const std::size_t first = made.layout == Layout::nchw ? 2 : 1;
    if (picture->shape[first] > 0 && picture->shape[first + 1] > 0) {
        const Preprocess::Size own{static_cast<std::size_t>(picture->shape[first]),
                                   static_cast<std::size_t>(picture->shape[first + 1])};
        if (size && *size != own) {
            return refuse("the model's input is " + std::to_string(own.height) + "x" + std::to_string(own.width) +
                              ", not " + std::to_string(size->height) + "x" + std::to_string(size->width),
                          "leave the size out");
        }
        size = own;
    }
    if (!size) {
        return refuse("the model leaves the size of its pictures open",
                      std::string("say it: ") + preset.name + "@224x224");
    }
    made.interpolation = preset.interpolation;
    made.scale = preset.scale;
    made.mean = preset.mean;
    made.std = preset.std;
    made.color = preset.color;
    if (preset.letterbox) {
        made.letterbox = size;
        made.align = *preset.letterbox;
        made.pad = grey;
    } else if (preset.crop > 0) {
        const auto shorter = static_cast<double>(std::min(size->height, size->width));
        made.short_side = static_cast<std::size_t>(std::lround(shorter / preset.crop));
        made.crop = size;
    } else {
        made.resize = size;
    }
    LATHE_CHECK(made.validate(preset.name));
    return made;
}

Result<Preprocess> preprocess_named(std::string_view text, std::span<const InputSpec> inputs) {
    if (text.starts_with('{')) {
        LATHE_TRY(const Json json, parse_json(text, "preprocessing"));
        return Preprocess::from_json(json, "preprocessing");
    }
    const std::size_t at = text.find('@');
    if (const PreprocessPreset* preset = find_preset(text.substr(0, at)); preset != nullptr) {
        if (at == std::string_view::npos) return make_preprocess(*preset, inputs);
        const auto size = parse_size(text.substr(at + 1));
        if (!size) {
            return Error{ErrorCode::invalid_argument, "behind @ stands no size", std::string(text),
                         std::string("write it so: ") + preset->name + "@224x224"};
        }
        return make_preprocess(*preset, inputs, size);
    }
    std::error_code failed;
    const std::filesystem::path file{std::string(text)};
    if (!std::filesystem::exists(file, failed) && file.extension() != ".json") return unknown(text);
    return Preprocess::from_file(file);
}

Result<std::optional<Preprocess>> PreprocessChoice::resolve(std::span<const InputSpec> inputs) const {
    if (text_.empty()) return settings_;
    LATHE_TRY(Preprocess named, preprocess_named(text_, inputs));
    return std::optional(std::move(named));
}

} // namespace lathe
