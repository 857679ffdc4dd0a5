#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/engine_types.hpp"
#include "lathe/types.hpp"

namespace lathe {

// Attention masks as exporters write them: 0, and numbers so far below every score (-3.4e38, the lowest float32; -1e9)
// that a softmax gives those places nothing. FP16 ends at -65504 and BF16 just above the lowest float32, so both would
// make infinities of them, and a row that is masked throughout would become NaN.

/// What stands for such a number in a format that lacks it: a softmax makes 0 of it as well, and with a score, or with
/// another mask, added it stays finite.
inline constexpr float narrow_mask = -30000.0F;

/// The values with masks that `type` (float16 or bfloat16) lacks replaced by narrow_mask. Nothing if it lacks none, or
/// lacks numbers that are no masks.
std::optional<std::vector<float>> clamped_masks(std::span<const float> values, DataType type);
/// What happened to a constant, for reports.
std::string describe_clamped(const std::string& constant, DataType type);
/// The same with figures: `values` were clamped for `type`, none of them infinite.
ClampedConstant clamped_constant(const std::string& name, std::span<const float> values, DataType type);
std::string describe_clamped(const ClampedConstant& constant);

} // namespace lathe
