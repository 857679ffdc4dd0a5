#pragma once

#include <string>
#include <string_view>

#include "graph/graph.hpp"

namespace lathe {

/// The text form, for golden tests and `simplify --dump`. Small constants are printed whole, large ones as type, shape
/// and a digest unless `full_constants`. `parse_graph_text` reads what `print` writes with full constants.
///
///     opset 18
///     input %x: float32[N, 3, 224, 224]
///     const %w: float32[1] = {2.0}
///     %y = Mul(%x, %w)
///     %z = Clip(%y, , %w) {name = "relu6", axis = 1, ints = [1, 2], s = "text", alpha = 0.5}
///     output %z: float32[N, 3, 224, 224]
struct TextOptions {
    bool full_constants = false;
    std::size_t small_constant = 16; ///< elements printed whole even without full_constants
};
std::string print(const Model& model, const TextOptions& options = {});
Result<Model> parse_graph_text(std::string_view text);

} // namespace lathe
