#include "cli/preprocess.hpp"

#include "data/preprocess_presets.hpp"

namespace lathe::cli {

std::string preprocess_help() {
    std::string names;
    for (const PreprocessPreset& preset : preprocess_presets())
        names += (names.empty() ? "" : "; ") + std::string(preset.name) + ": " + preset.summary;
    return "How pictures become the input, in place of what the model says: a name (" + names +
           "; NAME@HxW where the model leaves the size open), or JSON, as text or file, with the keys resize ([h, w], "
           "{\"short_side\": n} or {\"letterbox\": [h, w]} with pad and align), crop [h, w], interpolation, scale, "
           "mean, std, layout, color";
}

} // namespace lathe::cli
