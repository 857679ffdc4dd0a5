#include "quantize/target.hpp"

#include <algorithm>
#include <array>

#include "support/machine.hpp"

namespace lathe {
namespace {

// openvino: with both inputs of a residual Add quantised, ResNet-50 runs as 60 kernels, all convolutions u8 to u8;
// with the skip input alone 12 convolutions write float32 and 12 more kernels add (72). Accuracy is the same.
//   Attention is one float kernel, whatever its products read: int8 factors are only turned back before it. MiniLM with
//   float factors is 1.13 times as fast (1x128, 8x128), 1.20 (1x32), 1.24 over the lengths of SST-2; one thread.
// onnxruntime: QLinearConv needs its output quantised, and a single reader of it.
// cuda: cuDNN's int8 stem is slower than its FP16 one (0.62 against 0.35 ms at batch 32), so it stays high.
//   Symmetric int8 leaves 7 bits behind a Relu: ResNet-50 agrees with float in 97.8 % instead of 98.3 % of images.
// tensorrt: image stems are padded to 4 channels and worth it; other convolutions under 8 channels are not.
constexpr std::array profiles{
    TargetProfile{.target = Target::openvino,
                  .name = "openvino",
                  .activations = NumberFormat::uint8(),
                  .residual = ResidualRule::both_inputs,
                  .quantize_activation_matmul = false,
                  .range_without_vnni = WeightRange::pairs,
                  .scales_in_front = true},
    TargetProfile{.target = Target::onnxruntime,
                  .name = "onnxruntime",
                  .activations = NumberFormat::uint8(),
                  .residual = ResidualRule::both_inputs,
                  .quantize_outputs = true,
                  .pair_after_pass_through = true,
                  .quantize_activation_matmul = false,
                  .range_without_vnni = WeightRange::pairs,
                  .pairs_span_positions = true},
    TargetProfile{.target = Target::tensorrt,
                  .name = "tensorrt",
                  .activations = NumberFormat::int8(),
                  .residual = ResidualRule::skip_input,
                  .minimum_channels = 8,
                  .minimum_matmul_size = 16},
    TargetProfile{.target = Target::cuda,
                  .name = "cuda",
                  .activations = NumberFormat::int8(),
                  .residual = ResidualRule::skip_input,
                  .quantize_activation_matmul = false,
                  .minimum_channels = 8,
                  .quantize_stem = false,
                  .quantize_gates = false,
                  .minimum_matmul_size = 16,
                  .zero_point_from_zero = true,
                  .gates_and_adds_behind = true},
};

} // namespace

std::span<const TargetProfile> target_profiles() { return profiles; }

const TargetProfile& profile_of(Target target) { return profiles.at(static_cast<std::size_t>(target)); }

WeightRange range_for_this_cpu(const TargetProfile& profile) {
    const Machine machine = this_machine();
    const std::array exact{"avx512_vnni", "avx_vnni", "avx_vnni_int8", "amx_int8"};
    const bool is_exact = std::ranges::any_of(exact, [&](const char* flag) { return machine.has_flag(flag); });
    return is_exact ? WeightRange::full : profile.range_without_vnni;
}

const char* to_string(Target target) { return profile_of(target).name; }

Result<Target> target_from_name(std::string_view name) {
    const auto found = std::ranges::find(profiles, name, &TargetProfile::name);
    if (found != profiles.end()) return found->target;
    return Error{ErrorCode::invalid_argument, "unknown target '" + std::string(name) + "'", "",
                 "use openvino, onnxruntime, tensorrt or cuda"};
}

} // namespace lathe
