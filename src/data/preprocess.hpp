#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "data/image.hpp"
#include "data/resize.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"
#include "support/json.hpp"

namespace lathe {

/// Order of the axes of one sample: channels first (3xHxW) or last (HxWx3).
enum class Layout { nchw, nhwc };
enum class ColorOrder { rgb, bgr };
/// Where a picture lies in a letterbox.
enum class Alignment { centre, top_left };

/// What turns a picture into a model's input: resize, centre crop or padding, then per channel
/// (pixel * scale - mean) / std with pixel in 0..255. `mean` and `std` are given in the order of the model's channels
/// (so for BGR, blue first).
///
/// JSON form (metadata key `lathe.preprocess`, option --preprocess):
/// {"resize": [h, w] or {"short_side": n} or {"letterbox": [h, w]}, "crop": [h, w], "pad": 0..255,
///  "align": "center" or "top-left", "interpolation": "bilinear", "bicubic" or "bilinear-opencv", "scale": s,
///  "mean": [3 numbers], "std": [3 numbers], "layout": "NCHW" or "NHWC", "color": "RGB" or "BGR"}
struct Preprocess {
    struct Size {
        std::size_t height = 0;
        std::size_t width = 0;
        bool operator==(const Size&) const = default;
    };

    std::optional<Size> resize;            ///< to exactly this size
    std::optional<std::size_t> short_side; ///< or: the shorter side to this, the longer to int(n * long / short)
    /// Or: as large as fits in this size, the rest filled with `pad`. The sides are rounded as Ultralytics' letterbox
    /// does in the centre, and cut to whole pixels as YOLOX does at the top left.
    std::optional<Size> letterbox;
    std::optional<Size> crop;            ///< centre crop (torchvision's CenterCrop, zero-padded if too small)
    std::uint8_t pad = 0;                ///< pixel value around the picture, of all channels
    Alignment align = Alignment::centre; ///< of the letterbox
    Interpolation interpolation = Interpolation::bilinear;
    double scale = 1.0;
    std::array<double, 3> mean{0, 0, 0};
    std::array<double, 3> std{1, 1, 1};
    Layout layout = Layout::nchw;
    ColorOrder color = ColorOrder::rgb;

    bool operator==(const Preprocess&) const = default;

    /// `where` (a file, or "metadata of MODEL") goes into errors. Unknown keys, wrong types, a zero std and a size
    /// that is left open are parse_error or invalid_argument, naming the key.
    static Result<Preprocess> from_json(const Json& json, std::string_view where);
    static Result<Preprocess> from_file(const std::filesystem::path& path);
    /// The same from JSON text, as models and engines carry it; nothing for an empty text.
    static Result<std::optional<Preprocess>> from_text(std::string_view json, std::string_view where);
    /// The JSON form with all keys that have a value; from_json(to_json()) gives the same back.
    Json to_json() const;
    /// Whether the settings make sense together; from_json has checked it already.
    Result<void> validate(std::string_view where) const;

    /// Height and width of what `apply` writes.
    Size output_size() const;
    /// {1, 3, h, w} or {1, h, w, 3}.
    Shape output_shape() const;
    /// Floats that `apply` writes: 3 * height * width.
    std::size_t output_count() const;

    /// Where a picture goes: it is resized to `full`; of that, `region` is put at (left, top) of the output.
    struct Placement {
        Size full;
        Region region;
        std::size_t left = 0, top = 0; ///< more than 0 where the crop or letterbox is larger: `pad` around it
        Size canvas;                   ///< what is written: the crop, the letterbox, or `full`
    };
    Placement place(std::size_t width, std::size_t height) const;

    /// Where a picture's points are in the model's input: x * scale_x + left, y * scale_y + top.
    struct Mapping {
        double scale_x = 1, scale_y = 1, left = 0, top = 0;
    };
    /// In a letterbox both scales are the exact ratio, not that of the rounded sides, as detectors map boxes back.
    Mapping mapping(std::size_t width, std::size_t height) const;

    /// Resized and cropped pixels, before normalisation.
    Result<Image> resize_and_crop(const Image& image) const;
    /// One sample. `out` has output_count() elements, in the order of `layout` and `color`.
    Result<void> apply(const Image& image, std::span<float> out) const;

    /// The model's value for each pixel value of channel `c` (in the model's channel order). Computed in float32 in
    /// torchvision's order (scale, subtract, divide), so that tensors equal torchvision's.
    std::array<float, 256> channel_values(std::size_t c) const;
};

} // namespace lathe
