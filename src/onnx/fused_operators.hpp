#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/node_writer.hpp"

namespace lathe {

/// Writes the nodes; false, before anything is written, where the node is used in a way that has no such form here.
struct FusedForm {
    bool (*write)(NodeWriter&);
    std::size_t inputs = 1; ///< that have to be there, from the first on
};
using FusedForms = std::map<std::string, FusedForm, std::less<>>;

/// Attention, MultiHeadAttention, GroupQueryAttention and RotaryEmbedding of com.microsoft.
const FusedForms& fused_attention_forms();
/// MatMulNBits and GatherBlockQuantized of com.microsoft: weights of 2, 4 or 8 bits in blocks with a scale each.
const FusedForms& block_weight_forms();

/// Of DequantizeLinear with a scale for each block.
inline constexpr std::int64_t first_opset_in_blocks = 21;

// What several of them are made of.
std::string added(NodeWriter& to, const std::string& value, const std::string& optional);
std::string unsqueezed(NodeWriter& to, const std::string& value, std::vector<std::int64_t> axes);
/// The last dimension in parts of these sizes.
std::vector<std::string> split(NodeWriter& to, const std::string& value, const std::vector<std::int64_t>& sizes);
/// The size of a dimension as the model runs, a scalar.
std::string running_size(NodeWriter& to, const std::string& value, std::int64_t axis);
/// ReduceMean or ReduceSum over one axis.
std::string reduced(NodeWriter& to, const char* type, const std::string& value, std::int64_t axis, bool keep);
/// x / sqrt(mean(x^2) + epsilon) * scale over the last dimension; in float32 where x has fewer bits.
std::string rms_normalised(NodeWriter& to, const std::string& x, const std::string& scale, double epsilon);

} // namespace lathe
