#pragma once

namespace lathe {

/// Why an edge is quantised or not: one vocabulary for --explain, reports and tests.
enum class Reason {
    // quantised
    heavy_input,       ///< activation that a Conv, ConvTranspose, Gemm or MatMul multiplies
    heavy_weight,      ///< its constant weights
    residual_input,    ///< input of a residual Add whose output is wanted in int8
    moved_before,      ///< read through a reshaping op, which commutes with quantisation
    concat_shared,     ///< input of a Concat: all inputs share one scale
    pool_input,        ///< AveragePool stays int8 between pairs on both sides
    output_for_fusion, ///< this target runs int8 only where the producer's readers all read the quantised value
    // not quantised
    excluded_by_user,
    op_stays_float,   ///< the operation is precision-sensitive, or gains nothing
    bias_stays_float, ///< added in the accumulator
    fused_output,     ///< the output of a convolution that fuses what follows
    too_few_channels,
    single_row_or_column,
    too_small_matmul,
    weight_not_constant,
    weight_overridable, ///< an initializer that is a graph input: a caller may replace it
    weight_on_left,     ///< the constant is the left factor: no output channel to scale by
    not_float32,
    output_stays_float,   ///< what follows stays float, so int8 here would only lose accuracy
    producer_stays_float, ///< what precedes stays float, so int8 here would save nothing
    unlike_parts,         ///< what the Concat joins differs so much in size that one scale would drown the smaller
    reads_original,       ///< the tensor is quantised for others; this reader stays float and reads the original
    graph_output,         ///< its result is the model's output
    inside_subgraph,      ///< bodies of If, Loop and Scan are left alone
    activation_matmul,    ///< both factors are activations, which this target runs better in float
    too_noisy,            ///< its output in int8 would be noise for a good part, and float costs next to nothing
    range_missing,        ///< ranges of another tool do not tell that of an input, or of what shares its scale
};

bool is_quantized(Reason reason);
/// The name used in JSON ("heavy_input").
const char* to_string(Reason reason);
/// One sentence for people.
const char* explain(Reason reason);

} // namespace lathe
