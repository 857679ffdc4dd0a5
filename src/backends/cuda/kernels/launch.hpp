#pragma once
// Between tactics (C++20, g++) and .cu files: plain structs and functions, no templates, no CUDA types but the stream.
//
// Every launch function enqueues one kernel (or the few it names) and returns the launch's error; none allocates or
// synchronises, so all run under stream capture. `programmatic` asks for programmatic dependent launch: all kernels
// here wait for the kernel before them ahead of their first access to activations.

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

namespace lathe::cuda::kernels {

/// Numbered as lathe::cuda::ElementType.
enum Type : std::int32_t { type_f32, type_f16, type_bf16, type_s8, type_s32, type_s64, type_boolean };

struct EpilogueParams {
    const float* scale;
    const float* bias;
    const void* residual;
    float residual_scale;
    std::int32_t act;
    float low, high, alpha, output_scale_inverse;
    std::int32_t residual_is_s8;
    std::int32_t residual_stride; ///< elements from pixel to pixel; 0: as the output's
    std::int32_t residual_last;   ///< it is added behind the activation
};
/// Convolution and gemm alike: gemm is a 1x1 convolution on an image of m x 1. Types: 0 f32, 1 f16, 2 bf16, 3 s8.
struct ImplicitGemmParams {
    const void* input;
    const void* weight;
    void* output;
    /// c_stride, k_stride: channels with their padding. c_pitch, k_pitch: elements from pixel to pixel, more than that
    /// where the image is a part of another one's channels.
    std::int32_t n, h, w, c, c_stride, c_pitch, k, k_stride, k_pitch, r, s, p, q;
    std::int32_t pad_h, pad_w, stride_h, stride_w, dil_h, dil_w;
    /// More than 1: c, k and k_stride are of one, whose channels and weights lie behind the one's before. On mma.sync
    /// alone.
    std::int32_t groups;
    EpilogueParams epilogue;
};
/// The kernels of sm90/: operands stream through shared memory; weights stay there; pixels come once for all taps; the
/// same for few channels.
enum { kind_streamed, kind_kept, kind_window, kind_strip };
/// One tile configuration of implicit_gemm_sm90.cu / implicit_gemm_mma.cu; names as "igemm_s8_m128n128k128_s5_wgmma".
struct TileConfig {
    const char* name;
    int in_type, out_type;
    int m, n, k_bytes, stages, consumers;
    int min_sm, max_sm;
    int kind = kind_streamed;
    int blocks = 0; ///< of a multiprocessor (kept weights, windows)
};
const TileConfig* sm90_tiles(int& count);
const TileConfig* mma_tiles(int& count);
/// Whether this tile, in this many parts, can take the problem (shared memory, alignment, ranges of the copy engine).
bool sm90_takes(int tile, int split, const ImplicitGemmParams& params);
/// `maps`: three 128-byte CUtensorMaps made by encode_maps_sm90 (pixels, weights, residual). split: CTAs of a cluster
/// along K (1..8).
cudaError_t encode_maps_sm90(int tile, const ImplicitGemmParams& params, void* maps);
cudaError_t launch_implicit_gemm_sm90(int tile, int split, const ImplicitGemmParams& params, const void* maps,
                                      cudaStream_t stream, bool programmatic);
/// `tile`: index in mma_tiles. `split` > 1 (at most 8, a divisor of the tile's rows) needs compute capability 9.0 or
/// later: the CTAs of a cluster add up through distributed shared memory, in fixed order. c and k are those of the
/// weight's packing ([k][r][s][c]); c and c_stride times the element size are multiples of 16.
cudaError_t launch_implicit_gemm_mma(int tile, int split, const ImplicitGemmParams& params, int output_type,
                                     cudaStream_t stream, bool programmatic);

/// 1x1 convolution of few input channels (up to 288 bytes a pixel), result and residual of the input's type f16 or s8,
/// activation none, relu or clip, of f16 also leaky relu, SiLU or hard swish. A warp keeps the channels of 8 * `halves`
/// (2, 4) pixels in registers, `turns` times (0: as often as lets all blocks run at once); blocks take a share of the
/// output channels each, of `splits`.
struct PointwiseTile {
    std::int32_t halves, splits, turns;
};
bool pointwise_mma_takes(const ImplicitGemmParams& params, int type, const PointwiseTile& tile);
cudaError_t launch_pointwise_mma(const ImplicitGemmParams& params, int type, const PointwiseTile& tile,
                                 cudaStream_t stream, bool programmatic);

inline constexpr int max_rank = 8;
/// A tensor as the general kernels see it: dims in ONNX order, strides in elements, so that a layout, a transposition,
/// a slice or a broadcast (stride 0) is only other strides. real = scale * stored for s8, else scale is 1.
struct TensorDesc {
    void* data = nullptr;
    std::int32_t type = type_f32;
    std::int32_t rank = 0;
    std::int64_t dims[max_rank] = {};
    std::int64_t strides[max_rank] = {};
    float scale = 1;
    /// Channels a pixel has in memory; those from dims[1] on are written as zeros. 0: no such padding.
    std::int64_t channel_stride = 0;
};

struct WindowParams {
    std::int32_t kernel_h, kernel_w, stride_h, stride_w, dil_h, dil_w, pad_h, pad_w, pad_bottom, pad_right;
};

/// A window's third dimension: taps are images of a sample, which are one behind the other.
struct DepthParams {
    std::int32_t kernel = 1, stride = 1, dilation = 1, before = 0, in = 1, out = 1; ///< in, out: images a sample
};

// ---- reference.cu: one thread an output element, any layout; the yardstick of every other kernel ----

/// Convolution (any groups, depthwise packing [r][s][c] too), with an optional max pool behind the activation.
struct ConvGeneralParams {
    TensorDesc x, y; ///< rank 4
    TensorDesc residual;
    const void* weight;
    std::int32_t weight_type;
    std::int32_t weight_c; ///< channels of a tap in the packing
    std::int32_t groups, depthwise;
    WindowParams window;
    DepthParams depths;          ///< depthwise convolutions alone have more than one
    std::int32_t conv_h, conv_w; ///< size of the convolution's own result
    std::int32_t pooled;
    WindowParams pool;
    std::int32_t pad_value; ///< s8: the input's zero point, which lies around the image
    EpilogueParams epilogue;
};
cudaError_t launch_conv_general(const ConvGeneralParams& params, cudaStream_t stream, bool programmatic);

struct GemmParams {
    const void* input;
    const void* weight;
    void* output;
    std::int32_t input_type, weight_type, output_type;
    std::int64_t m, n, k, output_stride;
    EpilogueParams epilogue;
};
cudaError_t launch_gemm_general(const GemmParams& params, cudaStream_t stream, bool programmatic);

/// c[b] = alpha * op(a[b]) * op(b[b]); strides of the two operands by batch index over up to 6 outer dims.
struct BatchedGemmParams {
    const void *a, *b;
    void* c;
    std::int32_t a_type, b_type, c_type, transpose_a, transpose_b;
    float a_scale, b_scale, c_scale;
    std::int64_t m, n, k, batch;
    std::int64_t a_pitch; ///< from row to row of a
    std::int32_t outer_rank;
    std::int64_t outer_dims[max_rank], a_strides[max_rank], b_strides[max_rank];
    float alpha;
};
cudaError_t launch_batched_gemm_general(const BatchedGemmParams& params, cudaStream_t stream, bool programmatic);

/// Added to scores; keys are contiguous. Sample b has mask b % batches.
struct AttentionMask {
    const void* data;
    std::int32_t type;
    std::int64_t batches, batch_stride, head_stride, row_stride;
};
/// Strides in elements of [batch][sequence][head]; depth is contiguous. Offsets are of the operands' first element from
/// where their values lie.
struct AttentionParams {
    const void *q, *k, *v;
    void* output;
    std::int32_t type, output_type;
    std::int64_t batch, heads, kv_heads, q_len, kv_len, depth;
    std::int64_t value_depth; ///< of v and of the output
    std::int64_t q_strides[3], k_strides[3], v_strides[3], o_strides[3];
    std::int64_t q_offset, k_offset, v_offset, o_offset;
    AttentionMask mask, second_mask;
    std::int32_t masks;         ///< how many of the two there are
    std::int32_t causal;        ///< row i reads the first i + 1 + kv_len - q_len keys
    std::int32_t empty_is_zero; ///< of a row whose scores are all -inf; else NaN
    float scale;
    float output_scale; ///< s8 output: real = scale * stored
};
/// What kernels for encoders take: as many heads of keys as of queries, values as wide as keys, at most one mask that
/// is the same for all heads.
inline bool is_plain_attention(const AttentionParams& p) {
    return p.kv_heads == p.heads && p.value_depth == p.depth && p.masks <= 1 && p.causal == 0 &&
           (p.masks == 0 || (p.mask.head_stride == 0 && (p.mask.batches == 1 || p.mask.batches == p.batch)));
}
/// Rows of q, k, v and of the result begin at multiples of 16 bytes, for types of 2 bytes.
inline bool attention_is_aligned(const AttentionParams& p) {
    std::int64_t all = p.q_offset | p.k_offset | p.v_offset | p.o_offset;
    for (int i = 0; i < 3; ++i)
        all |= p.q_strides[i] | p.k_strides[i] | p.v_strides[i] | p.o_strides[i];
    return all % 8 == 0;
}
/// Any depth up to 256, one warp a row of the output. Several passes over K; no scores in memory.
cudaError_t launch_attention_general(const AttentionParams& params, cudaStream_t stream, bool programmatic);

struct PoolParams {
    TensorDesc x, y;
    WindowParams window;
    std::int32_t average, count_pad;
    float rescale;
};
cudaError_t launch_pool_general(const PoolParams& params, cudaStream_t stream, bool programmatic);

struct GlobalPoolParams {
    TensorDesc x, y; ///< y may be rank 2 or 4
    std::int32_t average;
    float rescale;
};
cudaError_t launch_global_pool_general(const GlobalPoolParams& params, cudaStream_t stream, bool programmatic);

struct SoftmaxParams {
    const void* x;
    void* y;
    std::int32_t x_type, y_type;
    float x_scale, y_scale;
    std::int64_t rows, columns;
    std::int32_t log;
};
cudaError_t launch_softmax_general(const SoftmaxParams& params, cudaStream_t stream, bool programmatic);

struct LayerNormParams {
    const void *x, *residual;
    const float *gamma, *beta;
    void *y, *quantized, *sum; ///< quantized, sum: null if not asked for
    std::int32_t x_type, residual_type, y_type, sum_type;
    float x_scale, residual_scale, y_scale, quantized_scale, sum_scale;
    std::int64_t rows, columns;
    float epsilon;
};
cudaError_t launch_layer_norm_general(const LayerNormParams& params, cudaStream_t stream, bool programmatic);

struct ReduceParams {
    TensorDesc x, y; ///< [outer, reduced, inner] and [outer, inner]
    std::int32_t kind;
};
cudaError_t launch_reduce_general(const ReduceParams& params, cudaStream_t stream, bool programmatic);

inline constexpr int max_tables = 4;
/// y[o, i, t] = sum over tables of table[o, index[i], t]. With several tables outer is 1.
struct GatherParams {
    const void* tables[max_tables];
    const void* indices[max_tables];
    std::int32_t table_types[max_tables], index_types[max_tables];
    float table_scales[max_tables];
    std::int64_t table_rows[max_tables];
    std::int64_t index_counts[max_tables]; ///< indices repeat: i % count (one row for all: count 1)
    std::int32_t count;
    void* y;
    std::int32_t y_type;
    float y_scale;
    std::int64_t outer, index_count, inner;
};
cudaError_t launch_gather_general(const GatherParams& params, cudaStream_t stream, bool programmatic);

/// y[i] = convert(x[i]) over y's dims; x's strides say where. Reformat, transpose, slice, each input of a concat.
/// `raw`: the stored numbers are moved, scales ignored.
struct CopyParams {
    TensorDesc x, y;
    std::int32_t nhwc_order; ///< walk y with dim 1 innermost
};
cudaError_t launch_copy_general(const CopyParams& params, cudaStream_t stream, bool programmatic);

struct ResizeParams {
    TensorDesc x, y;
    std::int32_t mode;        ///< 0 nearest, 1 linear, 2 cubic
    std::int32_t coordinates; ///< 0 half_pixel, 1 asymmetric, 2 align_corners, 3 pytorch_half_pixel
    std::int32_t nearest;     ///< 0 round_prefer_floor, 1 round_prefer_ceil, 2 floor, 3 ceil
    float cubic_a;
    float scales[max_rank];
};
cudaError_t launch_resize_general(const ResizeParams& params, cudaStream_t stream, bool programmatic);

inline constexpr int max_point_inputs = 8, max_point_outputs = 4, max_point_code = 24, max_point_registers = 12;
struct PointCode {
    std::uint8_t op, a, b, c;
    float x, y;
};
struct PointwiseParams {
    TensorDesc inputs[max_point_inputs]; ///< broadcast to the output: strides of 0
    TensorDesc outputs[max_point_outputs];
    std::int32_t input_count, output_count, code_count;
    std::uint8_t results[max_point_outputs];
    PointCode code[max_point_code];
    std::int32_t nhwc_order;
    std::int64_t count; ///< elements, without padding
    /// pointwise.cu only: an input is 0 dense (same memory order as the output), 1 one value, 2 one value a run of
    /// `inner[i]` elements (index / inner % period), period[i] values in all.
    std::int32_t access[max_point_inputs];
    std::int64_t inner[max_point_inputs], period[max_point_inputs];
};
cudaError_t launch_pointwise_general(const PointwiseParams& params, cudaStream_t stream, bool programmatic);

// ---- fast kernels; each says what it needs ----

/// Pool over nhwc of one type, 16-byte channel vectors.
struct PoolFastParams {
    const void* input;
    void* output;
    std::int32_t type, n, h, w, c, c_stride, p, q;
    WindowParams window;
    std::int32_t average, count_pad;
    float rescale;
};
cudaError_t launch_pool(const PoolFastParams& params, cudaStream_t stream, bool programmatic);
/// Mean or max over all pixels of nhwc; output [n][c] of type `output_type`, `output_stride` elements an image.
struct GlobalPoolFastParams {
    const void* input;
    void* output;
    std::int32_t type, output_type, n, pixels, c, c_stride, output_stride;
    std::int32_t average;
    float rescale; ///< out = in * rescale
};
cudaError_t launch_global_pool(const GlobalPoolFastParams& params, cudaStream_t stream, bool programmatic);

/// m <= 16: weights are streamed once, a warp a few output columns. k * element size a multiple of 16.
bool small_gemm_takes(const GemmParams& params);
cudaError_t launch_small_gemm(const GemmParams& params, cudaStream_t stream, bool programmatic);

/// Rows of at most 4096 columns (a multiple of 8) in registers of one warp or block.
bool layer_norm_takes(const LayerNormParams& params);
cudaError_t launch_layer_norm(const LayerNormParams& params, cudaStream_t stream, bool programmatic);
bool softmax_takes(const SoftmaxParams& params);
cudaError_t launch_softmax(const SoftmaxParams& params, cudaStream_t stream, bool programmatic);

/// Dense inputs, or broadcasts of the kinds that `access` names; 8 elements a thread and step.
cudaError_t launch_pointwise(const PointwiseParams& params, cudaStream_t stream, bool programmatic);

/// Same element order on both sides; conversion alone, 16 elements a thread.
struct ConvertParams {
    const void* x;
    void* y;
    std::int32_t x_type, y_type;
    float factor; ///< stored y = stored x * factor
    float lowest; ///< values below are raised to it (f16 masks)
    std::int64_t count;
};
cudaError_t launch_convert(const ConvertParams& params, cudaStream_t stream, bool programmatic);
/// [batch][rows][columns] to [batch][columns][rows] with strides of rows; both sides coalesced through shared memory.
struct TransposeParams {
    const void* x;
    void* y;
    std::int32_t x_type, y_type;
    float factor;
    std::int64_t batch, rows, columns, x_batch, x_row, y_batch, y_row;
    std::int64_t y_columns; ///< columns of y written, those beyond `rows` as zeros
};
cudaError_t launch_transpose(const TransposeParams& params, cudaStream_t stream, bool programmatic);

/// y = epilogue(y) over [rows][channels] of f32, f16 or bf16, for products that a library left bare.
struct EpilogueInPlaceParams {
    void* data;
    std::int32_t type, channels;
    std::int64_t rows;
    EpilogueParams epilogue;
};
cudaError_t launch_epilogue_in_place(const EpilogueInPlaceParams& params, cudaStream_t stream, bool programmatic);

/// Embedding rows of f16, f32 or bf16 tables, 16 bytes a thread; inner * element size a multiple of 16, outer 1.
bool gather_takes(const GatherParams& params);
cudaError_t launch_gather(const GatherParams& params, cudaStream_t stream, bool programmatic);

} // namespace lathe::cuda::kernels
