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
///     %p, %q = com.example::Halves(%z)
///     output %z: float32[N, 3, 224, 224]
///
/// `float32` alone has no known rank, `float32[]` is a scalar, `?` an unknown dimension. Names that are no identifiers
/// are quoted (%"my value"). Other attribute values: `float32[2] {1.0, 2.0}`, `graph { ... }`, `ref "name" 2`, and for
/// empty lists `floats []`, `strings []`. `meta "key" = "value"`, `ir 8` and `opset "domain" 1` complete a model.
/// `{1.0, 2.0, ...}` repeats numbers until a constant is full; it is read and never printed. `#` begins a comment.
/// Document strings and the metadata of nodes and values are not part of the text.
struct PrintOptions {
    bool full_constants = false;
    std::size_t small_constant = 16; ///< elements printed whole even without full_constants
    bool value_infos = false;        ///< also what is known of intermediate values, as `value %y: float32[1, 3]`
};
std::string print(const Model& model, const PrintOptions& options = {});
/// The error's `where` is line and column.
Result<Model> parse_graph_text(std::string_view text);

} // namespace lathe
