#include <array>
#include <cstddef>

#include "autocast/decide.hpp"

namespace lathe {

namespace {

struct Words {
    const char* name;
    const char* sentence;
};

constexpr std::array words{
    Words{"cast", "its values and the depth of its sums fit"},
    Words{"excluded_by_user", "excluded by the caller"},
    Words{"has_body", "bodies of If, Loop and Scan are left alone"},
    Words{"custom_op", "not an operator of ONNX's own domain, so its types are not known"},
    Words{"op_fixed_type", "ONNX does not define the operator in this type at this opset"},
    Words{"makes_float", "it takes no floating-point tensor, its type is its own"},
    Words{"recurrent", "rounding errors would add up over the steps"},
    Words{"not_measured", "the range of one of its tensors was not measured"},
    Words{"weight_overflow", "a constant is above the largest finite value"},
    Words{"weight_underflow", "a constant would lose too much to subnormals"},
    Words{"activation_overflow", "measured values come too near the largest finite value"},
    Words{"activation_underflow", "measured values are so small that too much would be lost to subnormals"},
    Words{"product_overflow", "a product or square inside it may pass the largest finite value"},
    Words{"sum_overflow", "a partial sum inside it may pass the largest finite value"},
    Words{"deep_reduction", "it adds up so many terms that rounding errors pass the limit"},
    Words{"unknown_depth", "it adds up terms, and how many is not known"},
    Words{"feeds_exact", "what reads it needs more bits: an angle, a position or an integer"},
    Words{"between_floats", "it would fit, but stands between FP32 nodes, where casts cost more than it saves"},
};

const Words& of(CastReason reason) { return words.at(static_cast<std::size_t>(reason)); }

} // namespace

const char* to_string(CastReason reason) { return of(reason).name; }
const char* explain(CastReason reason) { return of(reason).sentence; }

} // namespace lathe
