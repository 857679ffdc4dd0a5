#include "passes/channel_affine.hpp"

#include <algorithm>
#include <cmath>

namespace lathe::passes {

std::optional<Affine> affine_of_norm(const Match& match, const Node& norm, std::size_t channels) {
    const auto values = [&](const char* name) {
        const Tensor& tensor = match.constant(name);
        auto found = tensor.to_floats();
        return found.size() == channels && tensor.shape().size() == 1 ? std::optional(std::move(found)) : std::nullopt;
    };
    const auto scale = values("scale");
    const auto shift = values("shift");
    const auto mean = values("mean");
    const auto variance = values("variance");
    if (!scale || !shift || !mean || !variance) return std::nullopt;
    const double epsilon = norm.float_or("epsilon", 1e-5F);
    Affine affine;
    for (std::size_t c = 0; c < channels; ++c) {
        affine.scale.push_back((*scale)[c] / std::sqrt((*variance)[c] + epsilon));
        affine.shift.push_back((*shift)[c] - (*mean)[c] * affine.scale[c]);
    }
    return affine;
}

bool is_inference(const Node& norm, std::int64_t opset) {
    const bool one_output =
        std::all_of(norm.outputs.begin() + 1, norm.outputs.end(), [](const std::string& name) { return name.empty(); });
    // Before opset 7 is_test decides; before 9 spatial may ask for statistics per element.
    return one_output && opset >= 7 && norm.int_or("training_mode", 0) == 0 && norm.int_or("spatial", 1) == 1;
}

} // namespace lathe::passes
