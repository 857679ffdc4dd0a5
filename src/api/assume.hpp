#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "data/preprocess.hpp"
#include "graph/graph.hpp"
#include "lathe/engine_types.hpp"
#include "lathe/result.hpp"
#include "support/progress.hpp"

namespace lathe {

/// The data that a model which leaves something open is met with.
struct AssumeRequest {
    std::optional<Preprocess> preprocess = {}; ///< what is known of it already
    std::filesystem::path calibrate = {};      ///< may be empty, as may be the next
    std::filesystem::path evaluate = {};
    bool fix_sizes = true;                         ///< sizes that inputs leave open, but for the batch
    std::map<std::string, ShapeRange> shapes = {}; ///< of inputs, by the user
    double size_limit_s = 20;                      ///< of looking for a size that the network takes
    double preset_limit_s = 0; ///< of trying presets, on fewer pictures then, or not at all; 0: none
    std::function<void(std::string_view)> tell = [](std::string_view) {};
    Progress* progress = nullptr; ///< must be there
};

/// What a person would otherwise have to say of a model before data can be put into it. Each assumption is told in a
/// line, with what says otherwise.
///  - Inputs beside a picture that only say its size or scale, where the data are pictures: see fix_companions. Where
///  the outputs list the detections of all samples and `fix_sizes`, the number of samples becomes 1.
///  - Open sizes of pictures: those that `preprocess` makes, else the metadata "imgsz", else what guess_picture_size
///    finds; those of which `shapes` leave no choice. Of arrays: those of the first sample. They are fixed in `model`.
///  - How pictures become the input: as is usual for a detector with such inputs, for a detector's head, or for a
///  reader of lines of text; else the preset (preprocess_presets) with which
///    the float network gets most labels right, without labels the one with which it tells pictures apart best.
/// Returns the preprocessing, which is also written into the model's metadata; nothing for models without pictures.
/// Errors: what folding, the data and running the network give; cancelled.
Result<std::optional<Preprocess>> assume_inputs(Model& model, const AssumeRequest& request);

} // namespace lathe
