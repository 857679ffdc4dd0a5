#include "quantize/reason.hpp"

#include <array>
#include <cstddef>

namespace lathe {
namespace {

struct Entry {
    Reason reason;
    const char* name;
    const char* sentence;
    bool quantized;
};

constexpr std::array entries{
    Entry{Reason::heavy_input, "heavy_input", "multiplied in int8", true},
    Entry{Reason::heavy_weight, "heavy_weight", "weights in int8, symmetric", true},
    Entry{Reason::residual_input, "residual_input", "residual input in int8, so that the fused sum is written in int8",
          true},
    Entry{Reason::moved_before, "moved_before", "commutes with quantisation, which is done before it", true},
    Entry{Reason::concat_shared, "concat_shared", "inputs of the Concat share one scale, so that it only copies int8",
          true},
    Entry{Reason::pool_input, "pool_input", "average pooling stays int8 between quantised tensors on both sides", true},
    Entry{Reason::output_for_fusion, "output_for_fusion",
          "this runtime makes an int8 kernel only if all readers take its quantised output", true},
    Entry{Reason::excluded_by_user, "excluded_by_user", "excluded by --exclude", false},
    Entry{Reason::op_stays_float, "op_stays_float", "this operation stays in float", false},
    Entry{Reason::bias_stays_float, "bias_stays_float", "the bias is added in the accumulator and stays float", false},
    Entry{Reason::fused_output, "fused_output", "fused with the operation that produces it", false},
    Entry{Reason::too_few_channels, "too_few_channels", "too few channels for int8 to pay", false},
    Entry{Reason::single_row_or_column, "single_row_or_column", "a matrix of one row or column does not pay in int8",
          false},
    Entry{Reason::too_small_matmul, "too_small_matmul", "too small a matrix for int8 to pay", false},
    Entry{Reason::weight_not_constant, "weight_not_constant", "the weights are computed at run time", false},
    Entry{Reason::weight_overridable, "weight_overridable",
          "the weights are a graph input, which a caller may replace: remove it from the inputs to quantise", false},
    Entry{Reason::weight_on_left, "weight_on_left", "the constant is the left factor of the MatMul", false},
    Entry{Reason::not_float32, "not_float32", "not a float32 tensor", false},
    Entry{Reason::output_stays_float, "output_stays_float", "what follows stays in float", false},
    Entry{Reason::producer_stays_float, "producer_stays_float", "what precedes stays in float", false},
    Entry{Reason::unlike_parts, "unlike_parts",
          "what the Concat joins differs so much in size that in one scale the smaller would be noise", false},
    Entry{Reason::reads_original, "reads_original", "stays in float and reads the tensor before quantisation", false},
    Entry{Reason::graph_output, "graph_output", "its result is an output of the model", false},
    Entry{Reason::inside_subgraph, "inside_subgraph", "bodies of If, Loop and Scan are left alone", false},
    Entry{Reason::activation_matmul, "activation_matmul", "both factors are activations, better in float here", false},
    Entry{Reason::too_noisy, "too_noisy", "int8 would add much noise to its output, and float costs next to nothing",
          false},
    Entry{Reason::range_missing, "range_missing", "the given ranges do not tell what it needs", false},
};

const Entry& entry_of(Reason reason) { return entries.at(static_cast<std::size_t>(reason)); }

consteval bool entries_are_in_order() {
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (entries.at(i).reason != static_cast<Reason>(i)) return false;
    }
    return true;
}
static_assert(entries_are_in_order());

} // namespace

bool is_quantized(Reason reason) { return entry_of(reason).quantized; }
const char* to_string(Reason reason) { return entry_of(reason).name; }
const char* explain(Reason reason) { return entry_of(reason).sentence; }

} // namespace lathe
