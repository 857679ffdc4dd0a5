#pragma once

#include <string_view>

#include "lathe/result.hpp"
#include "lathe/types.hpp"

namespace lathe {

/// A 16-bit floating-point format (IEEE 754 binary16; bfloat16 as ONNX defines it).
struct HalfFormat {
    const char* name = ""; ///< "fp16", "bf16"
    DataType type = DataType::undefined;
    double largest = 0;            ///< finite
    double smallest_normal = 0;    ///< below it a value loses bits
    double smallest_subnormal = 0; ///< below half of it a value becomes 0
    double unit_roundoff = 0;      ///< u: |round(x) - x| <= u |x| for normal x
};

inline constexpr HalfFormat fp16{"fp16", DataType::float16, 65504.0, 0x1p-14, 0x1p-24, 0x1p-11};
inline constexpr HalfFormat bf16{"bf16", DataType::bfloat16, 0x1.FEp127, 0x1p-126, 0x1p-133, 0x1p-8};

/// "fp16" or "bf16"; invalid_argument for any other name.
Result<HalfFormat> half_format_from_name(std::string_view name);

/// The value rounded to the format and back.
float rounded_to(const HalfFormat& format, float value);

} // namespace lathe
