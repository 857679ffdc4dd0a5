#include <algorithm>
#include <cctype>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cuda/plan/networks.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Plans without the digests of constants, which tell nothing to a reader.
std::string text_of(const cuda::Plan& plan) {
    const std::string text = print(plan);
    std::string shown;
    const auto hexadecimal = [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; };
    for (std::size_t i = 0; i < text.size(); ++i) {
        const std::string_view digest = std::string_view(text).substr(i + 1, 8);
        if (text[i] == '#' && digest.size() == 8 && std::all_of(digest.begin(), digest.end(), hexadecimal)) {
            i += 8;
        } else {
            shown += text[i];
        }
    }
    return shown;
}

// clang-format off
constexpr const char* residual_plan = R"(
input %0:fp32[2,3,32,32]
%1:fp16[2,16,8,8]nhwc16 = conv.fp16(%0) kernel=7,7 stride=2,2 pads=3,3,3,3 weight="w_stem|krsc|fp16|c4":fp16[16,7,7,4] reads_nchw bias="bias|+b_stem|3f800000|3f800000|16":fp32[16] relu pooled: kernel=3,3 stride=2,2 pads=1,1,1,1
%2:fp16[2,16,8,8]nhwc16 = conv.fp16(%1) kernel=1,1 stride=1,1 pads=0,0,0,0 weight="w_a|krsc|fp16|c16":fp16[16,1,1,16] bias="bias|+b_a|3f800000|3f800000|16":fp32[16] relu
%3:fp16[2,16,4,4]nhwc16 = conv.fp16(%2) kernel=3,3 stride=2,2 pads=1,1,1,1 weight="w_b|krsc|fp16|c16":fp16[16,3,3,16] bias="bias|+b_b|3f800000|3f800000|16":fp32[16] relu
%4:fp16[2,32,4,4]nhwc32 = conv.fp16(%3) kernel=1,1 stride=1,1 pads=0,0,0,0 weight="w_c|krsc|fp16|c16":fp16[32,1,1,16] bias="bias|+b_c|3f800000|3f800000|32":fp32[32]
%5:fp16[2,32,4,4]nhwc32 = conv.fp16(%1, %4) kernel=1,1 stride=2,2 pads=0,0,0,0 weight="w_d|krsc|fp16|c16":fp16[32,1,1,16] bias="bias|+b_d|3f800000|3f800000|32":fp32[32] residual=%4 relu
%6:fp16[2,24,4,4]nhwc24 = conv.fp16(%5) kernel=3,3 stride=1,1 pads=1,1,1,1 weight="w_e|krsc|fp16|c32":fp16[24,3,3,32] bias="bias|+b_e|3f800000|3f800000|24|32":fp32[32] relu
%7:fp16[2,32,4,4]nhwc32 = conv.fp16(%6, %5) kernel=1,1 stride=1,1 pads=0,0,0,0 weight="w_f|krsc|fp16|c24":fp16[32,1,1,24] bias="bias|+b_f|3f800000|3f800000|32":fp32[32] residual=%5 relu
%8:fp16[2,32,1,1]nhwc32 = global_pool.fp16(%7) average
%9:fp16[2,32,1,1] = alias %8
%10:fp16[2,32] = alias %9
%11:fp32[2,10] = gemm.fp16(%10) m=2 n=10 k=32 weight="w_fc|nk|fp16":fp16[10,32] bias="bias|+b_fc|3f800000|3f800000|10|16":fp32[16]
output %11
)";
constexpr const char* quantised_plan = R"(
input %0:fp32[2,3,32,32]
%1:int8[2,16,8,8]nhwc16*0.03125 = conv.fp16(%0) kernel=7,7 stride=2,2 pads=3,3,3,3 weight="w_stem|krsc|fp16|c4":fp16[16,7,7,4] reads_nchw scale="scale|1|42000000|16":fp32[16] bias="bias|+b_stem|3f800000|42000000|16":fp32[16] relu pooled: kernel=3,3 stride=2,2 pads=1,1,1,1
%2:int8[2,16,8,8]nhwc16*0.03125 = conv.int8(%1) kernel=1,1 stride=1,1 pads=0,0,0,0 weight="q_a|krsc|int8|c16":int8[16,1,1,16] scale="scale|s_a|3f800000|16":fp32[16] bias="bias|+b_a|3f800000|42000000|16":fp32[16] relu
%3:int8[2,16,4,4]nhwc16*0.03125 = depthwise.int8(%2) kernel=3,3 stride=2,2 pads=1,1,1,1 weight="q_b|rsc|int8|c16":int8[3,3,16] scale="scale|s_a|3f800000|16":fp32[16] bias="bias|+b_b|3f800000|42000000|16":fp32[16] relu
%4:int8[2,32,4,4]nhwc32*0.03125 = conv.int8(%3) kernel=1,1 stride=1,1 pads=0,0,0,0 weight="q_c|krsc|int8|c16":int8[32,1,1,16] scale="scale|s_c|3f800000|32":fp32[32] bias="bias|+b_c|3f800000|42000000|32":fp32[32]
%5:int8[2,32,4,4]nhwc32*0.03125 = conv.int8(%1, %4) kernel=1,1 stride=2,2 pads=0,0,0,0 weight="q_d|krsc|int8|c16":int8[32,1,1,16] scale="scale|s_c|3f800000|32":fp32[32] bias="bias|+b_d|3f800000|42000000|32":fp32[32] residual=%4 relu
%6:int8[2,32,1,1]nhwc32*0.03125 = global_pool.int8(%5) average
%7:int8[2,32,1,1]*0.03125 = alias %6
%8:int8[2,32]*0.03125 = alias %7
%9:fp32[2,10] = gemm.int8(%8) m=2 n=10 k=32 weight="q_fc|nk|int8":int8[10,32] scale="scale|s_fc|3d000000|10|16":fp32[16] bias="bias|+b_fc|3f800000|3f800000|10|16":fp32[16]
output %9
)";
constexpr const char* depthwise_plan = R"(
input %0:fp32[1,3,24,24]
%1:fp16[1,20,12,12]nhwc24 = conv.fp16(%0) kernel=3,3 stride=2,2 pads=0,0,1,1 weight="w_stem|krsc|fp16|c4":fp16[20,3,3,4] reads_nchw bias="bias|+b_stem|3f800000|3f800000|20|32":fp32[32] clip(0,6)
%2:fp16[1,20,12,12]nhwc24 = depthwise.fp16(%1) kernel=3,3 stride=1,1 pads=1,1,1,1 weight="w_a|rsc|fp16|c24":fp16[3,3,24] bias="bias|+b_a|3f800000|3f800000|20|32":fp32[32] clip(0,6)
%3:fp16[1,12,12,12]nhwc16 = conv.fp16(%2) kernel=1,1 stride=1,1 pads=0,0,0,0 weight="w_b|krsc|fp16|c24":fp16[12,1,1,24] bias="bias|+b_b|3f800000|3f800000|12|16":fp32[16]
%4:fp16[1,36,12,12]nhwc40 = conv.fp16(%3) kernel=1,1 stride=1,1 pads=0,0,0,0 weight="w_c|krsc|fp16|c16":fp16[36,1,1,16] bias="bias|+b_c|3f800000|3f800000|36|48":fp32[48] silu
%5:fp16[1,36,12,12]nhwc40 = depthwise.fp16(%4) kernel=5,5 stride=1,1 pads=2,2,2,2 weight="w_d|rsc|fp16|c40":fp16[5,5,40] bias="bias|+b_d|3f800000|3f800000|36|48":fp32[48] hard_swish
%6:fp16[1,12,12,12]nhwc16 = conv.fp16(%5, %3) kernel=1,1 stride=1,1 pads=0,0,0,0 weight="w_e|krsc|fp16|c40":fp16[12,1,1,40] bias="bias|+b_e|3f800000|3f800000|12|16":fp32[16] residual=%3
%7:fp16[1,12,6,6]nhwc16 = pool.fp16(%6) kernel=3,3 stride=2,2 pads=1,1,1,1 average
%8:fp16[1,12,1,1]nhwc16 = global_pool.fp16(%7) average
%9:fp16[1,12,1,1] = reformat.fp16(%8)
%10:fp16[1,12] = alias %9
%11:fp32[1,7] = gemm.fp16(%10) m=1 n=7 k=12 weight="w_fc|nk|t|fp16":fp16[7,12] bias="bias|+b_fc|3f800000|3f800000|7|16":fp32[16]
output %11
)";
constexpr const char* gated_plan = R"(
input %0:fp32[1,8,10,10]
%1:fp16[1,8,10,10]nhwc8 = reformat.fp32(%0)
%2:fp16[1,24,10,10]nhwc24 = conv.fp16(%1) kernel=1,1 stride=1,1 pads=0,0,0,0 weight="w_a|krsc|fp16|c8":fp16[24,1,1,8] bias="bias|+b_a|3f800000|3f800000|24|32":fp32[32] silu
%3:fp16[1,24,10,10]nhwc24 = depthwise.fp16(%2) kernel=3,3 stride=1,1 pads=1,1,1,1 weight="w_b|rsc|fp16|c24":fp16[3,3,24] bias="bias|+b_b|3f800000|3f800000|24|32":fp32[32] silu
%4:fp16[1,24,1,1]nhwc24 = global_pool.fp16(%3) average
%5:fp16[1,6,1,1]nhwc8 = conv.fp16(%4) kernel=1,1 stride=1,1 pads=0,0,0,0 weight="w_c|krsc|fp16|c24":fp16[6,1,1,24] bias="bias|+b_c|3f800000|3f800000|6|16":fp32[16] silu
%6:fp16[1,24,1,1]nhwc24 = conv.fp16(%5) kernel=1,1 stride=1,1 pads=0,0,0,0 weight="w_d|krsc|fp16|c8":fp16[24,1,1,8] bias="bias|+b_d|3f800000|3f800000|24|32":fp32[32] sigmoid
%7:fp16[1,24,10,10]nhwc24 = pointwise.fp32(%3, %6) {r0=input#0; r1=input#1; r2=mul r0 r1} -> r2
%8:fp16[1,8,10,10]nhwc8 = conv.fp16(%7, %1) kernel=1,1 stride=1,1 pads=0,0,0,0 weight="w_e|krsc|fp16|c24":fp16[8,1,1,24] bias="bias|+b_e|3f800000|3f800000|8|16":fp32[16] residual=%1
%9:fp32[1,8,10,10] = reformat.fp32(%8)
output %9
)";
constexpr const char* encoder_plan = R"(
input %0:int64[2,8]
input %1:int64[2,8]
constant %2:int32[1] = "0..1|indices":int32[1]
constant %3:int32[8] = "0..8|indices":int32[8]
%6:int64[2,1,1,8] = alias %1
%4:fp16[2,8,32] = gather.fp16(%0, %2, %3) axis=0 table="w_words|table|fp16":fp16[16,32] table="w_type|table|fp16":fp16[1,32] table="positions|table|fp16":fp16[8,32]
%5:fp16[2,8,32] = layer_norm.fp32(%4) rows=16 columns=32 epsilon=1e-12 gamma="w_gamma|vector|32":fp32[32] beta="b_beta|vector|32":fp32[32]
%7:fp16[2,1,1,8] = pointwise.fp32(%6) {r0=input#0; r1=cast r0; r2=constant 1; r3=sub r2 r1; r4=constant -30000; r5=mul r3 r4} -> r5
%8:fp16[2,8,3,4,8] = gemm.fp16(%5) m=16 n=96 k=32 weight="w_q+w_k+w_v|nk|t|fp16":fp16[96,32] bias="bias|+b_q|+b_k|+b_v|3f800000|3f800000|32|32|32|96":fp32[96]
%9:fp16[2,8,4,8] = attention.fp16(%8, %7) batch=2 heads=4 q=8 kv=8 depth=8 scale=0.35355338 packed masked
%10:fp16[2,8,32] = alias %9
%11:fp16[2,8,32] = gemm.fp16(%10, %5) m=16 n=32 k=32 weight="w_o|nk|t|fp16":fp16[32,32] bias="bias||3f800000+b_o|3f800000|32":fp32[32] residual=%5
%12:fp16[2,8,32] = layer_norm.fp32(%11) rows=16 columns=32 epsilon=1e-12 gamma="w_gamma|vector|32":fp32[32] beta="b_beta|vector|32":fp32[32]
%13:fp16[2,8,64] = gemm.fp16(%12) m=16 n=64 k=32 weight="w_up|nk|t|fp16":fp16[64,32] bias="bias||3f800000+b_up|3f800000|64":fp32[64] gelu_erf
%14:fp16[2,8,32] = gemm.fp16(%13, %12) m=16 n=32 k=64 weight="w_down|nk|t|fp16":fp16[32,64] bias="bias||3f800000+b_down|3f800000|32":fp32[32] residual=%12
%15:fp16[2,8,32] = layer_norm.fp32(%14) rows=16 columns=32 epsilon=1e-12 gamma="w_gamma|vector|32":fp32[32] beta="b_beta|vector|32":fp32[32]
%16:fp16[2,1,32] = slice.fp16(%15) starts=0,0,0 steps=1,1,1
%17:fp16[2,32] = alias %16
%18:fp32[2,8,32] = reformat.fp32(%15)
%19:fp32[2,32] = reformat.fp32(%17)
output %18
output %19
)";
constexpr const char* perceptron_plan = R"(
input %0:fp32[2,6,32]
%1:fp16[2,6,32] = reformat.fp32(%0)
%2:fp16[2,6,32], %3:int8[2,6,32]*0.03125 = layer_norm.fp32(%1) rows=12 columns=32 epsilon=1e-05 gamma="w_gamma|vector|32":fp32[32] beta="b_beta|vector|32":fp32[32] quantised
%4:int8[2,6,48]*0.03125 = gemm.int8(%3) m=12 n=48 k=32 weight="q_up|nk|t|int8":int8[48,32] scale="scale|s_up|3d000000|48":fp32[48] bias="bias||3f800000+b_up|3f800000|48":fp32[48] gelu_erf *32
%5:fp16[2,6,32] = gemm.int8(%4, %2) m=12 n=32 k=48 weight="q_down|nk|t|int8":int8[32,48] scale="scale|s_down|3d000000|32":fp32[32] bias="bias||3f800000+b_down|3f800000|32":fp32[32] residual=%2
%6:fp32[2,6,32] = layer_norm.fp32(%5) rows=12 columns=32 epsilon=1e-05 gamma="w_gamma|vector|32":fp32[32] beta="b_beta|vector|32":fp32[32]
output %6
)";
// clang-format on

TEST(CudaLowering, ResidualNetworkInFp16) {
    const auto plan = plan_of(network(residual_network()), Precision::float16, {{2, 3, 32, 32}});
    EXPECT_EQ("\n" + text_of(plan), residual_plan);
}

TEST(CudaLowering, QuantisedNetworkInInt8) {
    const auto plan = plan_of(network(quantised_network()), Precision::int8, {{2, 3, 32, 32}});
    EXPECT_EQ("\n" + text_of(plan), quantised_plan);
}

TEST(CudaLowering, DepthwiseNetworkInFp16) {
    const auto plan = plan_of(network(depthwise_network()), Precision::float16, {{1, 3, 24, 24}});
    EXPECT_EQ("\n" + text_of(plan), depthwise_plan);
}

TEST(CudaLowering, GatedNetworkInFp16) {
    const auto plan = plan_of(network(gated_network()), Precision::float16, {{1, 8, 10, 10}});
    EXPECT_EQ("\n" + text_of(plan), gated_plan);
}

TEST(CudaLowering, NormalisationsAreOneOperationEach) {
    const auto plan = plan_of(network(normalised_network()), Precision::float16, {{2, 8, 10, 10}, {2, 30, 24}});
    std::map<std::string, int> kinds;
    for (const cuda::FusedOp& op : plan.ops)
        ++kinds[kind_of(op)];
    const std::string text = text_of(plan);
    EXPECT_EQ(kinds["group_factors"], 2) << text;
    EXPECT_EQ(kinds["layer_norm"], 3) << text;
    EXPECT_EQ(kinds["pointwise"], 2) << text; // with what stands behind them
    EXPECT_EQ(kinds["reduce"], 0) << text;
    // The past is read as it lies.
    EXPECT_THAT(text, HasSubstr("groups=6"));
    EXPECT_THAT(text, HasSubstr("groups=24"));
    for (const cuda::FusedOp& op : plan.ops) {
        if (std::holds_alternative<cuda::Concat>(op.detail)) {
            EXPECT_EQ(plan.values[op.inputs[0]].type, cuda::ElementType::f32);
            EXPECT_EQ(plan.values[op.outputs[0]].type, cuda::ElementType::f16);
        }
    }
}

TEST(CudaLowering, DecodersAreRotaryPositionsAndCausalAttention) {
    for (const auto heads : {HeadProducts::three, HeadProducts::biased, HeadProducts::one}) {
        const auto plan = plan_of(network(decoder_network(heads)), Precision::float16, {{2, 6, 40}, {2, 6}});
        const std::string text = text_of(plan);
        std::map<std::string, int> kinds;
        for (const cuda::FusedOp& op : plan.ops)
            ++kinds[kind_of(op)];
        EXPECT_EQ(kinds["rotary"], 2) << text;
        EXPECT_EQ(kinds["attention"], 1) << text;
        EXPECT_EQ(kinds["gemm"], 5) << text;      // heads in one, the output's, gate, the other and what follows
        EXPECT_EQ(kinds["pointwise"], 3) << text; // kept keys, their mask, the gate's SiLU with its product
        EXPECT_EQ(kinds["slice"] + kinds["transpose"] + kinds["concat"] + kinds["softmax"], 0) << text;
        EXPECT_THAT(text, HasSubstr("key_heads=2 causal empty_is_zero masked"));
        // Heads are read where they lie in their product, the mask of kept keys is the same for all rows.
        for (const cuda::FusedOp& op : plan.ops) {
            if (const auto* attention = std::get_if<cuda::Attention>(&op.detail)) {
                EXPECT_EQ(attention->masks, 1);
                EXPECT_EQ(plan.values[op.inputs.back()].dims, (Shape{2, 1, 1, 6}));
            }
            if (const auto* rotary = std::get_if<cuda::Rotary>(&op.detail)) {
                EXPECT_EQ(rotary->x.head, 16);
                EXPECT_EQ(rotary->x.row, 128);
            }
        }
    }
}

TEST(CudaLowering, EncoderInFp16) {
    const auto plan = plan_of(network(encoder(false)), Precision::float16, {{2, 8}, {2, 8}});
    EXPECT_EQ("\n" + text_of(plan), encoder_plan);
    // The other export differs in the scale alone, by its rounding.
    const auto other = plan_of(network(encoder(true)), Precision::float16, {{2, 8}, {2, 8}});
    ASSERT_EQ(other.ops.size(), plan.ops.size());
    for (std::size_t i = 0; i < plan.ops.size(); ++i)
        EXPECT_EQ(signature(plan.ops[i], plan), signature(other.ops[i], other));
}

TEST(CudaLowering, NothingIsFusedForWhichATypeHasNoKernel) {
    // Left to the reference kernel, a stem or an attention takes longer than the rest of its network.
    const auto stem = [](Precision precision) {
        return text_of(plan_of(network(residual_network()), precision, {{2, 3, 32, 32}}));
    };
    EXPECT_THAT(stem(Precision::float16), HasSubstr("nchw"));
    EXPECT_THAT(stem(Precision::float16), HasSubstr("pooled"));
    EXPECT_THAT(stem(Precision::bfloat16), HasSubstr("nchw"));
    EXPECT_THAT(stem(Precision::bfloat16), Not(HasSubstr("pooled")));
    EXPECT_THAT(stem(Precision::float32), Not(HasSubstr("nchw")));
    // Pooled behind the stem only where a kernel pools; patches are packed as rows of a product.
    const auto first = [](const std::string& filters, const std::string& attributes) {
        return text_of(plan_of(network("opset 18\ninput %x: float32[N, 3, 32, 32]\ninput %w_stem: float32[" + filters +
                                       "]\n%c = Conv(%x, %w_stem) {" + attributes +
                                       "}\n%y = MaxPool(%c) {kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = "
                                       "[2, 2]}\noutput %y: undefined\n"),
                               Precision::float16, {{2, 3, 32, 32}}));
    };
    EXPECT_THAT(first("16, 3, 3, 3", "strides = [2, 2]"), HasSubstr("pooled"));
    EXPECT_THAT(first("16, 3, 3, 3", "strides = [1, 1]"), Not(HasSubstr("pooled")));
    EXPECT_THAT(first("96, 3, 3, 3", "strides = [2, 2]"), Not(HasSubstr("pooled")));
    EXPECT_THAT(first("16, 3, 5, 5", "strides = [2, 2]"), Not(HasSubstr("pooled")));
    EXPECT_THAT(first("16, 3, 5, 5", "strides = [2, 2]"), HasSubstr("fp16[16,5,5,4] reads_nchw"));
    EXPECT_THAT(first("16, 3, 4, 4", "strides = [4, 4]"), HasSubstr("fp16[16,4,4,3] reads_nchw"));
    const auto heads = [](Precision precision) {
        return text_of(plan_of(network(encoder(false)), precision, {{2, 8}, {2, 8}}));
    };
    EXPECT_THAT(heads(Precision::float16), HasSubstr("attention"));
    EXPECT_THAT(heads(Precision::bfloat16), HasSubstr("attention"));
    EXPECT_THAT(heads(Precision::float32), Not(HasSubstr("attention")));
    // In FP32 there are kernels for heads of 32 and 64, and for a few rows none is worth it.
    const auto wide = [](Precision precision, std::int64_t length) {
        std::string text = encoder(false);
        const std::string sizes = "{0, 0, 4, 8}";
        text.replace(text.find(sizes), sizes.size(), "{0, 0, 1, 32}");
        return text_of(plan_of(network(text), precision, {{2, length}, {2, length}}));
    };
    EXPECT_THAT(wide(Precision::float32, 16), HasSubstr("attention.fp32"));
    EXPECT_THAT(wide(Precision::tensor_float32, 16), HasSubstr("attention.tf32"));
    EXPECT_THAT(wide(Precision::float32, 15), Not(HasSubstr("attention")));
}

TEST(CudaLowering, QuantisedPerceptronInInt8) {
    const auto plan = plan_of(network(quantised_perceptron()), Precision::int8, {{2, 6, 32}});
    EXPECT_EQ("\n" + text_of(plan), perceptron_plan);
}

TEST(CudaLowering, EveryUnsupportedNodeIsNamedAtOnce) {
    const Model model = network("opset 18\ninput %x: float32[4, 4]\n"
                                "%a = Multinomial(%x)\n%b = Einsum(%x) {equation = \"ii -> i\"}\n%c = Relu(%b)\n"
                                "output %a: int32[4, 1]\noutput %c: float32[4]\n");
    auto prepared = cuda::prepare(model, Precision::float16);
    ASSERT_TRUE(prepared);
    const auto plan = cuda::lower(*prepared, {{4, 4}});
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, ErrorCode::unsupported);
    EXPECT_THAT(plan.error().describe(), HasSubstr("Multinomial"));
    EXPECT_THAT(plan.error().describe(), HasSubstr("Einsum"));
    EXPECT_THAT(plan.error().describe(), Not(HasSubstr("Relu"))); // only lost with what it reads
}

TEST(CudaLowering, ShapesThatTheModelForbidsAreOutOfRange) {
    const Model model = network(residual_network());
    auto prepared = cuda::prepare(model, Precision::float16);
    ASSERT_TRUE(prepared);
    for (const Shape& shape : {Shape{1, 3, 33, 32}, Shape{1, 3, 32}, Shape{0, 3, 32, 32}, Shape{1, 4, 32, 32}}) {
        const auto plan = cuda::lower(*prepared, {shape});
        ASSERT_FALSE(plan) << to_string(shape);
        EXPECT_EQ(plan.error().code, ErrorCode::out_of_range);
    }
    EXPECT_EQ(cuda::lower(*prepared, {}).error().code, ErrorCode::invalid_argument);
}

TEST(CudaLowering, WeightsAreSharedByAllShapes) {
    auto prepared = cuda::prepare(network(quantised_network()), Precision::int8);
    ASSERT_TRUE(prepared);
    ASSERT_TRUE(cuda::lower(*prepared, {{1, 3, 32, 32}}));
    const std::size_t count = prepared->weights->weights.size();
    for (const std::int64_t batch : {2, 8, 31})
        ASSERT_TRUE(cuda::lower(*prepared, {{batch, 3, 32, 32}}));
    EXPECT_EQ(prepared->weights->weights.size(), count);
}

TEST(CudaLowering, WeightsOfOtherSizesThanAskedForAreNotTaken) {
    auto prepared = cuda::prepare(network(quantised_network()), Precision::int8);
    ASSERT_TRUE(prepared);
    const std::vector<Shape> shapes{{1, 3, 32, 32}};
    const auto first = cuda::lower(*prepared, shapes);
    ASSERT_TRUE(first);
    for (cuda::Weight& weight : prepared->weights->weights) {
        const std::int64_t count = element_count(weight.dims);
        weight.dims = {count, 1}; // as many numbers, in another form
    }
    const auto second = cuda::lower(*prepared, shapes);
    ASSERT_TRUE(second) << second.error().describe();
    for (const cuda::FusedOp& op : second->ops)
        if (const auto* conv = std::get_if<cuda::Conv>(&op.detail)) {
            EXPECT_EQ(prepared->weights->weights[conv->weight].dims.size(), 4U) << op.name;
        }
}

TEST(CudaLowering, SavedAndLoadedGivesTheSamePlans) {
    // One weight over 64 KiB, so that it is not in the saved model.
    const Model model = network("opset 18\ninput %x: float32[N, 130]\ninput %w_a: float32[130, 200]\n"
                                "input %b_a: float32[200]\n%h = MatMul(%x, %w_a)\n%s = Add(%h, %b_a)\n"
                                "%y = Relu(%s)\noutput %y: float32[N, 200]\n");
    auto prepared = cuda::prepare(model, Precision::float16);
    ASSERT_TRUE(prepared);
    EXPECT_EQ(prepared->large.size(), 1);
    ASSERT_TRUE(cuda::lower(*prepared, {{4, 130}}));
    const auto chain = cuda::serialize(*prepared);
    ASSERT_TRUE(chain) << chain.error().describe();
    const std::string saved = chain->flat();
    auto loaded = cuda::deserialize(std::as_bytes(std::span(saved)), nullptr);
    ASSERT_TRUE(loaded) << loaded.error().describe();
    for (const std::int64_t batch : {1, 4, 9}) {
        const auto before = cuda::lower(*prepared, {{batch, 130}});
        const auto after = cuda::lower(*loaded, {{batch, 130}});
        ASSERT_TRUE(before);
        ASSERT_TRUE(after) << after.error().describe();
        EXPECT_EQ(print(*before), print(*after));
        auto inputs = random_inputs(model, {{batch, 130}});
        EXPECT_EQ(interpreted(*before, inputs, true)[0].bytes, interpreted(*after, inputs, true)[0].bytes);
    }
    EXPECT_EQ(cuda::serialize(*loaded)->flat(), saved);
}

TEST(CudaLowering, SavedAndLoadedKeepsAnEmbeddingsConstantRows) {
    // Tables over 64 KiB: words, positions, and types that only repeat one row.
    Model model = network("opset 18\ninput %ids: int64[N, 200]\ninput %w_words: float32[300, 100]\n"
                          "input %w_positions: float32[1, 200, 100]\ninput %w_types: float32[1, 200, 100]\n"
                          "%e = Gather(%w_words, %ids)\n%p = Add(%e, %w_positions)\n%t = Add(%w_types, %p)\n"
                          "%y = Relu(%t)\noutput %y: float32[N, 200, 100]\n");
    std::vector<float> types;
    for (int row = 0; row < 200; ++row) {
        for (int i = 0; i < 100; ++i)
            types.push_back(static_cast<float>(i) / 64);
    }
    model.graph.initializers.at("w_types") = Tensor::of_floats("w_types", {1, 200, 100}, types);
    auto prepared = cuda::prepare(model, Precision::float16);
    ASSERT_TRUE(prepared);
    ASSERT_EQ(prepared->large.size(), 3);
    ASSERT_TRUE(cuda::lower(*prepared, {{4, 200}}));
    const auto chain = cuda::serialize(*prepared);
    ASSERT_TRUE(chain) << chain.error().describe();
    const std::string saved = chain->flat();
    auto loaded = cuda::deserialize(std::as_bytes(std::span(saved)), nullptr);
    ASSERT_TRUE(loaded) << loaded.error().describe();
    for (const std::int64_t batch : {1, 4, 9}) {
        const auto before = cuda::lower(*prepared, {{batch, 200}});
        const auto after = cuda::lower(*loaded, {{batch, 200}});
        ASSERT_TRUE(before) << before.error().describe();
        ASSERT_TRUE(after) << after.error().describe();
        EXPECT_EQ(print(*before), print(*after));
    }
}

TEST(CudaLowering, DamagedSavedModelsAreRefused) {
    auto prepared = cuda::prepare(network(quantised_network()), Precision::int8);
    ASSERT_TRUE(prepared);
    ASSERT_TRUE(cuda::lower(*prepared, {{1, 3, 32, 32}}));
    const std::string saved = cuda::serialize(*prepared)->flat();
    for (std::size_t size = 0; size + 256 < saved.size(); size += 97)
        EXPECT_FALSE(cuda::deserialize(std::as_bytes(std::span(saved).first(size)), nullptr)) << size;
    std::string other = saved;
    other[8] = 9;
    EXPECT_EQ(cuda::deserialize(std::as_bytes(std::span(other)), nullptr).error().code, ErrorCode::mismatch);
}

TEST(CudaLowering, WeightsTooLargeForFp16AreRefusedWithTheCure) {
    Model model = network("opset 18\ninput %x: float32[N, 2]\ninput %w_a: float32[2, 2]\n%y = MatMul(%x, %w_a)\n"
                          "output %y: float32[N, 2]\n");
    model.graph.initializers.at("w_a") = Tensor::of_floats("w_a", {2, 2}, std::vector<float>{1.0F, 1e6F, 1.0F, 1.0F});
    auto prepared = cuda::prepare(model, Precision::float16);
    ASSERT_TRUE(prepared);
    const auto plan = cuda::lower(*prepared, {{1, 2}});
    ASSERT_FALSE(plan);
    EXPECT_THAT(plan.error().describe(), HasSubstr("bf16"));
    EXPECT_TRUE(cuda::prepare(model, Precision::bfloat16));
}

TEST(CudaVerify, BrokenPlansAreFound) {
    const auto good = plan_of(network(residual_network()), Precision::float16, {{1, 3, 32, 32}});
    ASSERT_TRUE(verify(good));
    auto plan = good;
    std::swap(plan.ops[1], plan.ops[2]);
    EXPECT_FALSE(verify(plan));
    plan = good;
    plan.ops[0].outputs[0] = 1000;
    EXPECT_FALSE(verify(plan));
    plan = good;
    plan.values[plan.outputs[0]].dims[0] = 3;
    EXPECT_FALSE(verify(plan));
}

} // namespace
} // namespace lathe::test
