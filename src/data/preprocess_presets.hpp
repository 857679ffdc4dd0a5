#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/open_dataset.hpp"
#include "data/preprocess.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// A way of preparing pictures that many models share, but for the size, which is the model's.
struct PreprocessPreset {
    const char* name;
    const char* summary; ///< for help texts
    Interpolation interpolation;
    double crop; ///< share of the resized picture's shorter side that is kept; 0: resized to the size itself, uncropped
    double scale;
    std::array<double, 3> mean;
    std::array<double, 3> std;
    std::optional<Alignment> letterbox = {}; ///< as large as fits, there, the rest grey (114); then no crop
    ColorOrder color = ColorOrder::rgb;
};

/// All of them.
std::span<const PreprocessPreset> preprocess_presets();
/// Those without a letterbox, in the order in which they are tried where nobody says which one is meant.
std::span<const PreprocessPreset> tried_presets();

/// "imagenet, imagenet-0..1, ...": all names, for errors.
std::string preset_names();

/// The preset for the only picture input among `inputs`: 1x3xHxW or 1xHxWx3, which also tells the layout. `size`
/// stands in for sizes that the input leaves open. Errors: invalid_argument (no such input, an open size).
Result<Preprocess> make_preprocess(const PreprocessPreset& preset, std::span<const InputSpec> inputs,
                                   std::optional<Preprocess::Size> size = {});

/// What --preprocess takes: a preset's name, "NAME@HxW" where the model leaves the size open, JSON text (it begins with
/// a brace), or a JSON file. Errors: invalid_argument, with the names that exist; not_found; parse_error.
Result<Preprocess> preprocess_named(std::string_view text, std::span<const InputSpec> inputs);

/// How pictures become the input where a caller may say so: as the model itself says, by settings, or by what
/// --preprocess takes, whose names ask the model for the size.
class PreprocessChoice {
public:
    PreprocessChoice() = default; ///< as the model itself says
    PreprocessChoice(std::optional<Preprocess> settings) : settings_(std::move(settings)) {}
    explicit PreprocessChoice(std::string text) : text_(std::move(text)) {}

    /// For a model of these inputs; nothing where it is the model that says. Errors: preprocess_named.
    Result<std::optional<Preprocess>> resolve(std::span<const InputSpec> inputs) const;

private:
    std::optional<Preprocess> settings_;
    std::string text_; ///< what preprocess_named reads, if not empty
};

} // namespace lathe
