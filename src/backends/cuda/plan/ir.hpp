#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "backends/cuda/plan/indexed.hpp"
#include "backends/cuda/plan/recurrent_kind.hpp"
#include "lathe/engine_types.hpp"
#include "lathe/types.hpp"

namespace lathe::cuda {

/// How numbers are stored; kernels know them by these numbers (kernels/launch.hpp, kernels/stored.cuh). The first four
/// are what is computed in. Behind `boolean` stand types that models' inputs and outputs have: they are moved,
/// converted, read by elementwise programs, and computed with as whole numbers (see type_misuse).
enum class ElementType : std::uint8_t { f32, f16, bf16, s8, s32, s64, boolean, u8, s16, u16, u32, u64, f64 };
std::size_t bytes_of(ElementType type);
constexpr bool is_real(ElementType type) {
    return type == ElementType::f32 || type == ElementType::f16 || type == ElementType::bf16;
}
/// Integers of the model, int8 and truth values left out: no scale, nothing lost by another width but what wraps
/// around.
constexpr bool is_whole(ElementType type) {
    return type == ElementType::s32 || type == ElementType::s64 ||
           (type >= ElementType::u8 && type <= ElementType::u64);
}
const char* to_string(ElementType type); ///< "fp32", "fp16", "bf16", "int8", ...

/// linear: row-major over `dims`. nhwc: dims stay N,C,H,W (or N,C,W, or N,C,D,H,W) but C is innermost, `channel_stride`
/// elements a pixel.
enum class Layout : std::uint8_t { linear, nhwc };

using ValueId = std::uint32_t;
using WeightId = std::uint32_t;
inline constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

enum class Role : std::uint8_t { input, output, activation, constant };

/// One tensor of a plan; all sizes are known. int8: real = scale * (stored - zero_point).
struct Value {
    std::string name; ///< of the ONNX value it stands for; "" for temporaries
    Role role = Role::activation;
    ElementType type = ElementType::f16;
    Shape dims; ///< ONNX order
    Layout layout = Layout::linear;
    std::int64_t channel_stride = 0; ///< nhwc: >= C; what lies between is finite and meets zero weights
    /// nhwc: channels `alias_from` and following of `alias_of`, an image of the same sizes; what lies between C and
    /// channel_stride is its neighbours', which nobody reads or writes through it.
    bool part = false;
    float scale = 1; ///< s8 only
    /// s8 only. Other than 0 only between depthwise or unpadded convolutions, products and residual sums, whose biases
    /// hold what it adds: see zero_point_misuse.
    std::int32_t zero_point = 0;
    ValueId alias_of =
        none; ///< bytes of that value (Reshape, Flatten, a part that lies in one piece): no memory of its own
    std::int64_t alias_from = 0; ///< number of that value with which an alias begins
    WeightId weight = none;      ///< role constant
    /// Of a part: from its first number to its last.
    std::size_t byte_size() const;
    /// nhwc: channels of a pixel with their padding.
    std::int64_t stored_channels() const { return part ? dims[1] : channel_stride; }
};

/// Constants in the one packing every provider reads, shared by all plans of an engine:
///   conv [K][R][S][C padded to channel_stride of its input]; depthwise [R][S][C]; gemm [N][K]; vectors f32 [channels
///   padded].
struct Weight {
    std::string key; ///< "initializer|packing", equal for every shape of the engine
    ElementType type = ElementType::f16;
    Shape dims;
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
};
struct WeightStore {
    std::vector<Weight> weights;
    std::unordered_map<std::string, WeightId> by_key;
    std::map<std::string, ClampedConstant> clamped; ///< by name, of every lowering so far; empty after load
    std::string float64; ///< a value that the model computes in float64 and the engine does not; "" if there is none
    std::string both_branches; ///< an If whose condition only running tells, so that both are computed; "" likewise
};

enum class Activation : std::uint8_t {
    none,
    relu,
    clip,
    leaky_relu,
    gelu_erf,
    gelu_tanh,
    sigmoid,
    silu,
    hard_sigmoid,
    hard_swish,
    tanh
};

/// out = convert(act(acc * scale[c] + bias[c] + residual * residual_scale) * output_scale_inverse).
/// s8 output: round to nearest even, clamp to -128..127. For relu, clip and none the lowering folds
/// output_scale_inverse (and clip's bounds) into the others, so that it is 1.
struct Epilogue {
    WeightId scale = none;   ///< f32[channels]; none: 1 (floating-point weights)
    WeightId bias = none;    ///< f32[channels]; none: 0
    ValueId residual = none; ///< same dims and layout as the output; type s8 or the output's
    float residual_scale = 1;
    bool residual_last = false; ///< added behind the activation: out = convert((act(...) + residual) * inverse)
    Activation act = Activation::none;
    float low = 0;   ///< clip
    float high = 0;  ///< clip
    float alpha = 0; ///< leaky_relu, hard_sigmoid (with beta in `high`)
    float output_scale_inverse = 1;
    bool operator==(const Epilogue&) const = default;
};

struct Window {
    std::array<std::int64_t, 2> kernel{1, 1}, stride{1, 1}, dilation{1, 1};
    std::array<std::int64_t, 4> pads{0, 0, 0, 0}; ///< top, left, bottom, right
    bool operator==(const Window&) const = default;
};

/// inputs[0]: nhwc, or for the stem (C <= 4) linear f32 NCHW when `reads_nchw` (the kernel converts).
struct Conv {
    Window window;
    std::int64_t groups = 1;
    WeightId weight = none;
    bool reads_nchw = false;
    Epilogue epilogue;
    bool pooled = false;
    Window pool; /*max pool of the result, before it is written*/
};
/// The third dimension of a window over volumes that are images one behind the other: taps are images of a sample.
struct Depths {
    std::int64_t kernel = 1, stride = 1, dilation = 1, before = 0;
    std::int64_t in = 1, out = 1; ///< images a sample
    bool operator==(const Depths&) const = default;
};
struct Depthwise {
    Window window;
    WeightId weight = none; ///< [depths * r][s][c padded]
    Epilogue epilogue;
    Depths depths;
};
/// out[M,N] = in[M,K] * weight[N,K]^T. M is the product of all dims but the last.
struct Gemm {
    std::int64_t m = 0, n = 0, k = 0;
    WeightId weight = none;
    Epilogue epilogue;
};
/// out[b] = alpha * op(a[b]) * op(b[b]); both activations; dims broadcast as ONNX MatMul.
struct BatchedGemm {
    std::int64_t batch = 0, m = 0, n = 0, k = 0;
    bool transpose_a = false, transpose_b = false;
    float alpha = 1;
    std::int64_t a_pitch = 0; ///< elements from row to row of a, which may be padded; 0: none is

    std::int64_t pitch_of_a() const { return a_pitch != 0 ? a_pitch : transpose_a ? m : k; }
};
/// Where an operand of attention lies in its value: elements before the first, and from sample to sample, row to row
/// and head to head; the numbers of a head lie side by side.
struct HeadView {
    std::int64_t offset = 0, batch = 0, row = 0, head = 0;
    bool operator==(const HeadView&) const = default;
};
/// softmax(q k^T * scale + masks) v. inputs: qkv (one value [B,S,3,H,D]) or q, k and v (any value, read as their views
/// say), then the masks, which are added: of their type, [N, H or 1, Q or 1, K], leading ones left out or not; sample b
/// has mask b % N.
struct Attention {
    std::int64_t batch = 0, heads = 0, q_len = 0, kv_len = 0, depth = 0;
    std::int64_t kv_heads =
        0; ///< a divisor of heads: as many heads of q side by side read the same of k and v; 0: heads
    std::int64_t value_depth = 0; ///< of v and the result; 0: depth
    float scale = 1;
    bool packed = false;
    int masks = 0;              ///< at most 2
    bool causal = false;        ///< row i reads the first i + 1 + kv_len - q_len keys
    bool empty_is_zero = false; ///< of a row whose scores are all -inf; else NaN
    /// All 0: [B,S,H,D] from the value's beginning, or the part of [B,S,3,H,D].
    HeadView q, k, v, out;

    std::int64_t key_heads() const { return kv_heads == 0 ? heads : kv_heads; }
    std::int64_t values_depth() const { return value_depth == 0 ? depth : value_depth; }
    /// The views with nothing left out: q, k, v, out.
    std::array<HeadView, 4> views() const;
};
/// How a mask of these dims is read: strides 0 where it is the same for all.
struct MaskView {
    std::int64_t batches = 1, batch = 0, head = 0, row = 0;
};
/// Nothing if the dims do not fit the attention.
std::optional<MaskView> mask_view(const Attention& attention, const Shape& dims);
struct Pool {
    Window window;
    bool average = false;
    bool count_pad = false;
    float rescale = 1; /*s8: in scale / out scale*/
};
struct GlobalPool {
    bool average = true;
    float rescale = 1;
};
struct Softmax {
    std::int64_t rows = 0, columns = 0;
    bool log = false;
};
/// inputs: x, then residual if any. outputs: y, then optionally y quantised to s8, then optionally x + residual.
struct LayerNorm {
    std::int64_t rows = 0, columns = 0;
    float epsilon = 1e-5F;
    WeightId gamma = none, beta = none;
    bool residual = false;
    bool quantized_output = false;
    bool sum_output = false;
    bool centred = true; ///< false: the mean stays, what is left is of root mean square 1 (Zhang, Sennrich, 2019)
};
/// inputs: x, an image in nhwc. outputs: factor and shift, [N, C, 1, 1] in f32, of each sample's channel: x * factor +
/// shift is of mean 0 and variance 1 over a group of channels (Wu, He, Group normalization, 2018).
struct GroupFactors {
    std::int64_t groups = 1;
    float epsilon = 1e-5F;
};
enum class ReduceKind : std::uint8_t { sum, mean, max, min, prod, l2 };
struct Reduce {
    ReduceKind kind = ReduceKind::sum;
    std::int64_t outer = 1, reduced = 1, inner = 1;
};
/// outputs[0][i, ...] = table[index[i], ...]. inputs: table (value or weight), indices (s32, s64). Several tables may
/// be summed (embeddings).
struct Gather {
    std::int64_t axis = 0;
    std::vector<WeightId> tables;
};
struct Slice {
    std::vector<std::int64_t> starts, steps;
};
struct Transpose {
    std::vector<std::int64_t> order;
};
enum class ResizeMode : std::uint8_t { nearest, linear, cubic };
struct Resize {
    ResizeMode mode = ResizeMode::nearest;
    std::string coordinates, nearest;
    float cubic_a = -0.75F;
    std::vector<float> scales;
};
/// Type, layout and scale change: linear f32 NCHW to f16 nhwc, quantise, dequantise.
struct Reformat {};

enum class PointOp : std::uint8_t {
    input,
    constant,
    add,
    sub,
    mul,
    div,
    min,
    max,
    pow,
    neg,
    abs,
    exp,
    log,
    sqrt,
    reciprocal,
    erf,
    tanh,
    sigmoid,
    relu,
    clip,
    floor,
    ceil,
    round,
    sin,
    cos,
    equal,
    less,
    greater,
    logical_not,
    logical_and,
    logical_or,
    select,
    cast,
    atan
};
/// Register machine, at most 12 registers of f32, at most 24 instructions; instruction i writes register i % 12.
struct PointInstruction {
    PointOp op = PointOp::input;
    std::uint8_t a = 0, b = 0, c = 0;
    float x = 0, y = 0;
};
/// Where a program reads an operand in place of a copy of it: along axis a of the value number start + step times the
/// result's index along `axis`, or `start` alone.
struct ViewAxis {
    std::int64_t start = 0, step = 0;
    std::size_t axis = 0; ///< of the results
    bool operator==(const ViewAxis&) const = default;
};
struct OperandView {
    std::vector<ViewAxis> axes; ///< by axis of the value; none: as ONNX broadcasts it
    bool operator==(const OperandView&) const = default;
    /// The same as an offset and a stride for each axis of results of this rank, from the value's own strides.
    std::int64_t offset(const std::vector<std::int64_t>& strides) const;
    std::vector<std::int64_t> strides(const std::vector<std::int64_t>& strides, std::size_t rank) const;
};
struct Pointwise {
    std::vector<PointInstruction>
        code; /* inputs broadcast to outputs[0] by ONNX's rules; outputs in order of `results` */
    std::vector<std::uint8_t> results;
    std::vector<OperandView> views{}; ///< by input; empty: none is viewed
    /// The view of an input, or nothing.
    const OperandView* view(std::size_t input) const {
        return input < views.size() && !views[input].axes.empty() ? &views[input] : nullptr;
    }
};

/// Parts one behind the other along an axis, or in turns: index i of the result is part i % n's index i / n, which is
/// what a channel shuffle makes of them.
struct Concat {
    std::int64_t axis = 1;
    bool interleaved = false; ///< all parts have one size along the axis
    /// Of nhwc alone: what is made of the joined value before it is stored. Its input 0 is that value, the others are
    /// the last `operands` inputs of the op, one number or one a channel. No code: nothing.
    Pointwise program{};
    std::size_t operands = 0;
    ValueId joined = none; ///< the joined value, if the program's result is of another type; no place in memory
};

struct FusedOp;
/// Operations one behind the other, for a kernel that does not read in between what it has just written. Either 1x1
/// convolutions, in order of execution: the shortcut, if any, whose result nothing but the next reads, as its residual;
/// the convolution that adds; the one that reads that sum, if any. Or squeeze and excite (Hu et al., 2018): the average
/// of an image and two 1x1 convolutions of it, each the next one's only reader. inputs: what the parts read from
/// outside. outputs: results that others read; those of the shortcut, or of all parts but the last of squeeze and
/// excite, have no place in memory.
struct Chain {
    std::vector<FusedOp> parts;
    bool shortcut = false; ///< parts[0] is one
    bool squeeze = false;
    /// Parts whose results have no place in memory: that many first ones.
    std::size_t placeless() const;
    const FusedOp& adding() const;
    const FusedOp* behind() const; ///< the last, if it is not the one that adds
};

/// Rotary positions (Su et al., RoFormer, 2021): number i of each row's first half and number i of its second are
/// turned by an angle; interleaved: numbers 2 i and 2 i + 1 are. Of the T first numbers of a row, where `turned` says
/// so; what follows stays. inputs: x, read as the view says, whose heads and rows are axes 1 and 2 of the result;
/// cosines and sines, linear of rank 4, 1 or as many as the result has along the first three axes, T or T / 2 along the
/// last. outputs: [B, heads, rows, D], linear.
struct Rotary {
    HeadView x; ///< nothing left out
    bool interleaved = false;
    std::int64_t turned = 0; ///< T; 0: all D
    std::int64_t turned_of(std::int64_t depth) const { return turned == 0 ? depth : turned; }
};

/// ONNX's LSTM, GRU or RNN with its usual activations, or an RNN with max(x, 0), one direction or both (D). inputs:
/// gates [T, B, D G H], the product with the input plus its bias, gates in the operator's order (LSTM: input, output,
/// forget, cell; GRU: update, reset, hidden); the recurrence [D, G H, H], a constant; its bias [D G H], f32; where
/// `initial`, the state [D, B, H] and for an LSTM the cell; where `lengths`, s32 [B]: steps of a sample behind its
/// length leave its state as it is and give zeros. outputs: all states [T, D, B, H], the last [D, B, H], for an LSTM
/// the last cell. Linear.
struct Recurrent {
    Cell cell = Cell::lstm;
    bool reverse = false;             ///< of one direction: from the last step to the first
    bool linear_before_reset = false; ///< GRU: the reset gate scales the product, not the state
    bool initial = false;             ///< else zeros
    bool lengths = false;             ///< else all steps
};

using OpDetail = std::variant<Conv, Depthwise, Gemm, BatchedGemm, Attention, Pool, GlobalPool, Softmax, LayerNorm,
                              Reduce, Gather, Concat, Slice, Transpose, Resize, Reformat, Pointwise, Chain, Indexed,
                              GroupFactors, Rotary, Recurrent>;

/// A padded tensor as it lies in memory: `outer` times `size` (`wide` in the result) runs of `inner` numbers.
struct PadLine {
    std::int64_t outer = 1, size = 1, wide = 1, inner = 1;
};
PadLine pad_line(const Value& x, const Value& y, std::int64_t axis);

/// How cosines and sines are read beside the result of a Rotary.
struct RotaryTable {
    explicit RotaryTable(const Shape& dims);
    std::array<std::int64_t, 3> strides{}; ///< by axis of the result; 0: the same for all
    std::int64_t width = 0;
};

struct FusedOp {
    std::string name;               ///< of its main ONNX node
    std::vector<std::string> nodes; ///< all ONNX nodes in it
    OpDetail detail;
    std::vector<ValueId> inputs, outputs;   ///< epilogue.residual is repeated at the end of inputs
    ElementType compute = ElementType::f16; ///< what the products are of: s8, f16, bf16, f32
    bool tf32 = false;                      ///< products of f32 may round their factors to tf32
    std::int64_t macs = 0;
};
const char* kind_of(const FusedOp& op); ///< "conv", "gemm", ...

inline std::size_t Chain::placeless() const { return squeeze ? parts.size() - 1 : shortcut ? 1 : 0; }
inline const FusedOp& Chain::adding() const { return parts[shortcut ? 1 : 0]; }
inline const FusedOp* Chain::behind() const { return &parts.back() == &adding() ? nullptr : &parts.back(); }

/// An output that has room for the most: how much of `axis` is the model's is told by a value, s64 of one element.
struct OpenOutput {
    std::size_t output = 0;
    std::int64_t axis = 0;
};

/// A model for one set of input shapes.
struct Plan {
    std::vector<Value> values;
    std::vector<FusedOp> ops;             ///< in order of execution
    std::vector<ValueId> inputs, outputs; ///< in the model's order; behind its outputs, the counts of those in `open`
    std::vector<OpenOutput> open;
    std::shared_ptr<WeightStore> weights;
    std::size_t model_outputs() const { return outputs.size() - open.size(); }
};

/// Bytes to a multiple of which a part of a value begins: vector loads and copy engines ask for 16. Whole values begin
/// at multiples of 256.
inline constexpr std::size_t part_alignment = 16, value_alignment = 256;
/// Bytes to a multiple of which a value begins: a power of two up to value_alignment.
std::size_t alignment_of(const Plan& plan, ValueId id);
/// The value whose memory this one is: itself, or what it is an alias of.
ValueId root_of(const Plan& plan, ValueId id);

/// Everything of an op that its speed depends on, as text: "conv s8 n32 h56 w56 c64 k256 r1 s1 p0 st1
/// +scale+bias+res:s8+clip>s8".
std::string signature(const FusedOp& op, const Plan& plan);

} // namespace lathe::cuda
