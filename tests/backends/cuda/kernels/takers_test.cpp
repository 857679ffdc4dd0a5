// Which kernel is there for which convolution, product and attention: a list, so that a change that leaves one to the
// reference or to another kernel is seen without a GPU.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/cuda/device/cuda.hpp"
#include "backends/cuda/tactics/provider.hpp"
#include "cases.hpp"

namespace lathe::cuda::test {
namespace {

struct Taker {
    std::string test_case, provider, kernel; ///< kernel: what a candidate's id begins with
    int sm = 80;                             ///< from this compute capability on
};

const std::vector<Taker>& takers() {
    static const std::vector<Taker> list{
        // first convolutions
        {"stem_vgg_f16", "lathe", "stem_patch"},
        {"stem_vgg_224_f16", "lathe", "stem_patch"},
        {"stem_vgg_bf16", "lathe", "stem_patch"},
        {"stem_inception_s8", "lathe", "stem_patch"},
        {"stem_inception_f16", "lathe", "stem_direct"},
        {"stem_convnext_f16", "lathe", "stem_patch"},
        {"stem_convnext_f16", "lathe", "patches+"},
        {"stem_convnext_f16", "lathe", "patches+igemm_f16", 90},
        {"stem_vit16_bf16", "lathe", "patches+"},
        {"stem_vit32_s8", "lathe", "patches+"},
        {"stem_pit_f16", "lathe", "planes+"},
        {"stem_convmixer_f16", "lathe", "planes+"},
        {"stem_tail_gelu_fp16", "lathe", "stem_direct"},
        {"stem_alexnet_f16", "lathe", "stem_patch"},
        {"stem_yolo6_bf16", "lathe", "stem_patch"},
        {"stem_unet_f16", "lathe", "stem_patch"},
        {"stem_dilated_f16", "lathe", "stem_patch"},
        {"stem7x7_224_pooled_fp16", "lathe", "stem_planes", 90},
        {"stem7x7_224_pooled_fp16", "lathe", "stem"},
        {"conv_f32_c3pad_biasrelu", "lathe", "fma_f32"},
        // ordinary ones: dilated, asymmetric, of one row
        {"conv_f16_dil2_biasrelu", "lathe", "mma_f16"},
        {"conv_f16_dil2_biasrelu", "lathe90", "igemm_f16", 90},
        {"conv_s8_dil2_biasrelu", "lathe", "mma_s8"},
        {"conv_s8_asym_biasrelu", "lathe", "mma_s8"},
        {"conv_f16_asym_biasrelu", "lathe90", "igemm_f16", 90},
        {"conv_tf32_asym_biasrelu", "lathe", "mma_tf32"},
        {"conv_bf16_r1s7_biasrelu", "lathe", "mma_bf16"},
        {"plain_f32_to_s8", "lathe", "grouped"},
        {"plain_s8_to_bf16", "lathe", "grouped"},
        // depthwise
        {"depthwise_any_fp16_k7", "lathe", "depthwise_window/c14"},
        {"depthwise_any_int8_k7", "lathe", "depthwise_window/c7"},
        {"depthwise_turned_fp16_k7s1", "lathe", "depthwise_toeplitz/r7c2b2"},
        {"depthwise_turned_bf16_k5s2_wide", "lathe", "depthwise_toeplitz"},
        {"depthwise_turned_int8_k7s2_small", "lathe", "depthwise_toeplitz"},
        {"recurrent_lstm_narrow_fp16", "lathe", "recurrent_mma/1x"},
        {"recurrent_lstm_many_bf16", "lathe", "recurrent_mma/4x", 90},
        {"recurrent_gru_many_fp16", "lathe90w", "recurrent_cluster/", 90},
        {"depthwise_any_zero_point_k7", "lathe", "depthwise_window"},
        {"depthwise_any_fp32_k31", "lathe", "depthwise_window"},
        {"depthwise_any_bf16_k3dil12", "lathe", "depthwise_window"},
        {"depthwise_any_int8_r1s7", "lathe", "depthwise_window"},
        {"depthwise_any_fp16_k3s2same", "lathe", "depthwise_mma"},
        {"depthwise_s8_to_fp16_silu", "lathe", "depthwise_mma"},
        {"depthwise_s8_to_bf16_silu", "lathe", "depthwise_window"},
        {"depthwise_mobile_fp16_to_fp16_k5s2_silu", "lathe", "depthwise_mma"},
        {"depthwise_mobile_bf16_to_bf16_k3s1_hswish", "lathe", "depthwise_mma"},
        {"depthwise_mobile_int8_to_int8_k5s1_hswish", "lathe", "depthwise_mma"},
        {"depthwise_mobile_int8_to_fp16_k5s2_biasrelu", "lathe", "depthwise_mma"},
        {"depthwise_fp16_to_s8_hswish", "lathe", "depthwise_window"},
        {"depthwise_int8_k3s1", "lathe", "depthwise_mma"},
        {"depthwise_deep_fp16_k3s1", "lathe", "depthwise_window/c2"},
        {"depthwise_deep_bf16_k5s4", "lathe", "depthwise_window/c4"},
        {"depthwise_parts_fp16_k3s2_biasrelu", "lathe", "depthwise_mma"},
        {"depthwise_parts_int8_k5s1_biasrelu", "lathe", "depthwise_mma"},
        {"depthwise_parts_bf16_k7s1_resrelu", "lathe", "depthwise_window"},
        // parts of images, activations that are curves, residuals behind them
        {"parts_f16_c1x1_silures", "lathe", "mma_f16"},
        {"parts_f16_c1x1few_silures", "lathe", "pointwise_mma"},
        {"parts_f16_c3x3few_silures", "lathe", "grouped"},
        {"parts_f16_c3x3_silures", "lathe90", "igemm_f16", 90},
        {"parts_s8_c3x3_silures", "lathe90", "igemm_s8", 90},
        {"parts_f16_window28_silures", "lathe90", "wgemm_f16", 90},
        {"parts_f16_expand28_silures", "lathe90", "rgemm_f16", 90},
        {"curved_s8_window56_silu", "lathe90", "sgemm_s8", 90},
        {"curved_f16_window28_hswish", "lathe90", "wgemm_f16", 90},
        {"curved_f16_few144_leaky", "lathe", "pointwise_mma"},
        {"curved_s8_few16_silu", "lathe", "pointwise_mma"},
        {"curved_s8_few144_relures", "lathe", "pointwise_mma"},
        {"squeeze_fp16_few", "lathe", "squeeze/r1"},
        {"squeeze_fp16_many", "lathe", "squeeze/x8", 90},
        {"squeeze_fp32_odd", "lathe", "squeeze/x2", 90},
        {"squeeze_bf16_pixels", "lathe", "squeeze/r2"},
        // in groups
        {"grouped_f16_resnext4", "lathe", "grouped/"},
        {"grouped_f16_resnext4", "lathe", "grouped_mma/"},
        {"grouped_f16_regnet24", "lathe", "grouped_mma/f1i1h7w7"},
        {"grouped_bf16_visformer48", "lathe", "grouped_mma/"},
        {"grouped_f16_regnet40", "lathe", "grouped_mma/f1i2h7w7"},
        {"grouped_s8_regnet16", "lathe", "grouped_mma/"},
        {"grouped_s8_regnet24", "lathe", "grouped/"},
        {"grouped_s8_to_fp16_silu", "lathe", "grouped/"},
        {"grouped_f32_wide64", "lathe", "grouped"},
        {"grouped_tf32_wide112", "lathe", "grouped"},
        {"grouped_bf16_odd12to20", "lathe", "grouped"},
        {"grouped_s8_multiplier", "lathe", "grouped"},
        // products of rows that are no whole vectors
        {"gemm_s8_k888", "lathe", "small_gemm"},
        {"gemm_s8_odd", "lathe", "small_gemm"},
        {"gemm_f16_odd", "lathe", "small_gemm"},
        {"gemm_step1_fp16", "lathe", "small_gemm/8"},
        {"gemm_step8_bf16", "lathe", "small_gemm/4"},
        // lines and sampling
        {"top_k_long_fp16", "lathe", "top_k/t1024"},
        {"top_k_first_fp32", "lathe", "top_k/t32"},
        {"arg_max_rows_fp16", "lathe", "arg_extreme/t1"},
        {"cumulate_long_fp32", "lathe", "cumulate/t256"},
        {"grid_0_0", "lathe", "grid_sample/s"},
        {"grid_f16", "lathe", "grid_sample/d"},
        {"attention_short_tokens_fp16", "lathe", "attention_short"},
        {"attention_short_pairs_bf16", "lathe", "attention_short"},
        {"attention_windows_fp16", "lathe", "attention_short"},
        {"attention_depth36_fp16", "lathe", "attention_flash"},
        {"attention_depth17_bf16", "lathe", "attention_flash"},
    };
    return list;
}

TEST(KernelTakers, AreThoseOfTheList) {
    const auto own = make_own_provider(), sm90 = make_sm90_provider(), wide = make_wide_provider();
    const std::vector<Case> cases = table();
    for (const Taker& taker : takers()) {
        const auto found = std::ranges::find(cases, taker.test_case, &Case::name);
        ASSERT_NE(found, cases.end()) << taker.test_case;
        const TestPlan test = found->make();
        for (const int sm : {80, 86, 90}) {
            Device device;
            device.sm = sm;
            device.multiprocessors = 108;
            device.shared_per_block = std::size_t{sm == 80 ? 163U : sm == 86 ? 99U : 227U} << 10;
            const Provider& provider = taker.provider == "lathe" ? *own : taker.provider == "lathe90" ? *sm90 : *wide;
            std::string why;
            const auto ids = provider.candidates(test.plan.ops[test.main], test.plan, device, Effort::full, why);
            const bool takes =
                std::ranges::any_of(ids, [&](const std::string& id) { return id.starts_with(taker.kernel); });
            EXPECT_EQ(takes, sm >= taker.sm) << taker.test_case << ": " << taker.provider << ":" << taker.kernel
                                             << " on " << sm << (why.empty() ? "" : ": " + why);
        }
    }
}

} // namespace
} // namespace lathe::cuda::test
