// Options of the light layers of image networks: stems, depthwise convolutions, 1x1 convolutions of few channels.
// Costs order them and are in microseconds; those of the kernels on mma.sync were fitted to times of an H200.

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cuda/tactics/own_options.hpp"

namespace lathe::cuda {

using namespace kernels;

namespace {

std::int32_t narrow(std::int64_t v) { return static_cast<std::int32_t>(v); }
double blocks_a_processor(std::int64_t blocks, const Device& device) {
    return static_cast<double>(blocks) / std::max(1, device.multiprocessors);
}
std::int64_t divided(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A tile's time: rounds of blocks, whose steps' instructions share the multiprocessor, and the bytes' time.
double depthwise_cost(const DepthwiseParams& p, const DepthwiseTile& tile, const Device& device) {
    const bool bytes = p.type == type_s8;
    const int pixel = p.c_stride * (bytes ? 1 : 2), parts = bytes ? 2 : 1, wide = p.stride + p.kernel;
    const std::int64_t strips = divided(p.q, 2) * divided(p.p, std::int64_t{tile.rows} * tile.steps) * p.n;
    const std::int64_t blocks = divided(pixel, 16 * tile.words) * divided(strips, 32);
    const int at_once = depthwise_mma_blocks(p, tile);
    const double mine = blocks_a_processor(blocks, device);
    const double loads = tile.rows * p.stride * wide, taps = p.kernel * p.kernel;
    const int copies = ((tile.rows - 1) * p.stride + p.kernel) * (p.kernel / 2 * 4 + 2); // moves of operands
    const double instructions = 60 + loads * 7 + tile.words * parts * (tile.rows * (taps + 1) * 1.1 + taps * 1.6) +
                                tile.words * (copies + tile.rows * 2 * (bytes ? 15.6 : 5.2));
    const double step = 0.3 + 1.65 * instructions / 1755 * std::clamp(mine, 1.0, 1.0 * at_once);
    const double life = tile.steps * step + 0.045 * (p.kernel - p.stride) * wide;
    const double rounds = mine < 3 * at_once ? std::ceil(mine / at_once) : mine / at_once + 0.5;
    const double traffic = static_cast<double>(p.n) * pixel * (1.0 * p.h * p.w + 1.0 * p.p * p.q);
    return 1 + rounds * life + traffic / 4.9e6 * (tile.words == 2 ? 1.08 : 1.0);
}

/// The same: blocks bring the weights and go through their pixels turn by turn.
double pointwise_cost(const ImplicitGemmParams& p, int type, const PointwiseTile& tile, const Device& device) {
    const int size = type == type_s8 ? 1 : 2, processors = std::max(1, device.multiprocessors);
    const double pixels = static_cast<double>(p.n) * p.p * p.q, words = p.c * size / 16.0;
    const double groups = static_cast<double>(divided(divided(p.k_stride, 32), tile.splits));
    const double at_once = tile.halves == 2 && words <= 12 ? 5 : 4, warps = std::ceil(pixels / (8.0 * tile.halves));
    const double turns = tile.turns > 0
                             ? tile.turns
                             : std::ceil(warps / (4 * std::max(1.0, std::floor(processors * at_once / tile.splits))));
    const double mine = std::ceil(warps / (4 * turns)) * tile.splits / processors;
    const double instructions = tile.halves * groups * (words * 9.9 + (type == type_s8 ? 45 : 28));
    const double life =
        0.25 + groups * words * 0.015 + turns * (0.24 + 1.22 * instructions / 1755 * std::clamp(mine, 1.0, at_once));
    const double rounds = mine < 3 * at_once ? std::ceil(mine / at_once) : mine / at_once + 0.5;
    const double traffic = pixels * size *
                           (static_cast<double>(p.c_stride) * tile.splits +
                            static_cast<double>(p.k_stride) * (p.epilogue.residual_scale != 0 ? 2 : 1));
    return 0.9 + rounds * life + traffic / 1e7;
}

} // namespace

std::string stem_options(const FusedOp& op, const Conv& conv, const Plan& plan, const Device& device,
                         std::vector<Option>& options) {
    const Value &x = plan.values[op.inputs[0]], &y = plan.values[op.outputs[0]];
    const Weight& w = weight_of(plan, conv.weight);
    StemParams p{};
    const WindowParams window = window_params(conv.window);
    if (w.type != ElementType::f16) return "a stem that multiplies in other than f16";
    if (window.stride_h != 2 || window.stride_w != 2 || window.dil_h != 1 || window.dil_w != 1)
        return "a stem of another stride than 2";
    if (conv.epilogue.residual != none) return "a stem with a residual";
    p.output_type = type_number(y.type);
    p.weight_c = narrow(w.dims.back());
    p.n = narrow(x.dims[0]);
    p.c = narrow(x.dims[1]);
    p.h = narrow(x.dims[2]);
    p.w = narrow(x.dims[3]);
    p.k = narrow(y.dims[1]);
    p.k_stride = narrow(y.channel_stride);
    p.r = window.kernel_h;
    p.s = window.kernel_w;
    p.pad_h = window.pad_h;
    p.pad_w = window.pad_w;
    p.p = (p.h + window.pad_h + window.pad_bottom - p.r) / 2 + 1;
    p.q = (p.w + window.pad_w + window.pad_right - p.s) / 2 + 1;
    p.pooled = conv.pooled ? 1 : 0;
    p.pool_p = narrow(y.dims[2]);
    p.pool_q = narrow(y.dims[3]);
    if (conv.pooled) {
        const WindowParams pool = window_params(conv.pool);
        if (pool.kernel_h != 3 || pool.kernel_w != 3 || pool.stride_h != 2 || pool.stride_w != 2 || pool.pad_h != 1 ||
            pool.pad_w != 1 || pool.dil_h != 1 || pool.dil_w != 1)
            return "a stem with another pool than 3x3 of stride 2";
    }
    p.epilogue = epilogue_params(conv.epilogue, plan);
    if (!stem_takes(p)) return "a stem of a size without a kernel";
    const bool waits = waits_on(device);
    const auto set = [x_at = place_of(plan, op.inputs[0]), y_at = place_of(plan, op.outputs[0]), weight = conv.weight,
                      epilogue = conv.epilogue](StemParams& q, const Pointers& pointers) {
        q.input = static_cast<const float*>(x_at.in(pointers));
        q.output = y_at.in(pointers);
        q.weight = weight_address(pointers, weight);
        bind_epilogue(q.epilogue, epilogue, Place{}, pointers);
    };
    options.push_back(make_option(op, waits, "stem", std::numeric_limits<double>::max(), p, set, launch_stem));
    if (stem_direct_takes(p))
        for (const int steps : {1, 2, 4, 7, 14, 28}) {
            const double strips = std::ceil(p.q / 16.0) * static_cast<double>(divided(p.p, steps)) * p.n;
            const double rounds = std::ceil(strips / 4 / (5.0 * std::max(1, device.multiprocessors)));
            options.push_back(make_option(op, waits, "stem_direct/" + std::to_string(steps), rounds * (2 + steps), p,
                                          set, [steps](const StemParams& q, cudaStream_t stream, bool programmatic) {
                                              return launch_stem_direct(q, steps, stream, programmatic);
                                          }));
        }
    if (device.sm == 90 && stem_wgmma_takes(p))
        for (const int rows : {1, 2, 3, 4, 7}) {
            // rows of the convolution that the fullest multiprocessor computes, and as many again for a tile's input
            const double tiles = std::ceil(static_cast<double>(p.pool_p) / rows) * std::ceil(p.pool_q / 56.0) * p.n;
            const double cost = std::ceil(tiles / std::max(1, device.multiprocessors)) * (2 * rows + 1 + 2);
            options.push_back(make_option(op, waits, "stem_wgmma/" + std::to_string(rows), cost, p, set,
                                          [rows](const StemParams& q, cudaStream_t stream, bool programmatic) {
                                              return launch_stem_wgmma(q, rows, stream, programmatic);
                                          }));
        }
    return {};
}

std::string depthwise_options(const FusedOp& op, const Depthwise& detail, const Plan& plan, const Device& device,
                              std::vector<Option>& options) {
    DepthwiseParams p{};
    const Value &x = plan.values[op.inputs[0]], &y = plan.values[op.outputs[0]];
    const Shape xd = image_dims(x), yd = image_dims(y);
    const Weight& w = weight_of(plan, detail.weight);
    const WindowParams window = window_params(detail.window);
    if (window.kernel_h != window.kernel_w || window.stride_h != window.stride_w || window.dil_h != 1 ||
        window.dil_w != 1)
        return "a depthwise window that is not square or is dilated";
    if (w.type != x.type || x.channel_stride != y.channel_stride) return "types or strides that differ";
    p.type = type_number(x.type);
    p.output_type = type_number(y.type);
    p.weight_c = narrow(w.dims.back());
    p.n = narrow(xd[0]);
    p.c = narrow(xd[1]);
    p.h = narrow(xd[2]);
    p.w = narrow(xd[3]);
    p.c_stride = narrow(x.channel_stride);
    p.p = narrow(yd[2]);
    p.q = narrow(yd[3]);
    p.kernel = window.kernel_h;
    p.stride = window.stride_h;
    p.pad_h = window.pad_h;
    p.pad_w = window.pad_w;
    p.pad_word = 0x01010101U * static_cast<std::uint8_t>(x.zero_point);
    p.epilogue = epilogue_params(detail.epilogue, plan);
    const bool residual = detail.epilogue.residual != none;
    if (residual && plan.values[detail.epilogue.residual].channel_stride != y.channel_stride)
        return "a residual whose channels are padded unlike the output's";
    if (!depthwise_takes(p)) return "a depthwise window or type without a kernel";
    const bool waits = waits_on(device);
    const auto set = [x_at = place_of(plan, op.inputs[0]), y_at = place_of(plan, op.outputs[0]), weight = detail.weight,
                      epilogue = detail.epilogue, residual_at = residual_place(detail.epilogue, plan)](
                         DepthwiseParams& q, const Pointers& pointers) {
        q.input = x_at.in(pointers);
        q.output = y_at.in(pointers);
        q.weight = weight_address(pointers, weight);
        bind_epilogue(q.epilogue, epilogue, residual_at, pointers);
    };
    options.push_back(
        make_option(op, waits, "depthwise", std::numeric_limits<double>::max(), p, set, launch_depthwise));
    if (residual) return {};
    for (const int words : {2, 4})
        for (const int rows : {1, 2, 4})
            for (const int steps : {1, 2, 3, 4, 7}) {
                const DepthwiseTile tile{words, rows, steps};
                if (steps > 1 && rows * (steps - 1) >= p.p) continue;
                if (!depthwise_mma_takes(p, tile)) continue;
                const std::string id = "depthwise_mma/w" + std::to_string(words) + "r" + std::to_string(rows) + "s" +
                                       std::to_string(steps);
                options.push_back(make_option(op, waits, id, depthwise_cost(p, tile, device), p, set,
                                              [tile](const DepthwiseParams& q, cudaStream_t stream, bool programmatic) {
                                                  return launch_depthwise_mma(q, tile, stream, programmatic);
                                              }));
            }
    return {};
}

void pointwise_mma_options(const FusedOp& op, const ImplicitGemm& gemm, const Device& device,
                           std::vector<Option>& options) {
    if (gemm.in != gemm.out || !gemm.pointwise()) return;
    const int type = type_number(gemm.in);
    const ImplicitGemmParams& p = gemm.params;
    if (gemm.epilogue.residual != none && (p.epilogue.residual_is_s8 != 0) != (type == type_s8)) return;
    const int groups = narrow(divided(p.k_stride, 32));
    std::vector<int> splits;
    for (const int split : {1, 2, 4, groups})
        if (split <= groups && std::ranges::find(splits, split) == splits.end()) splits.push_back(split);
    std::vector<Option> found;
    for (const int halves : {2, 4})
        for (const int split : splits)
            for (const int turns : {0, 1, 2}) {
                const PointwiseTile tile{halves, split, turns};
                if (!pointwise_mma_takes(p, type, tile)) continue;
                std::string id = "pointwise_mma/h" + std::to_string(halves) + "p" + std::to_string(split) + "t" +
                                 std::to_string(turns);
                std::string name = "lathe " + id + " for " + op.name;
                found.push_back({std::move(id), pointwise_cost(p, type, tile, device),
                                 [gemm, tile, type, name = std::move(name), waits = waits_on(device)] {
                                     return make_kernel(name, 0, waits,
                                                        [gemm, tile, type](const Pointers& pointers) -> Result<Launch> {
                                                            return Launch([params = gemm.bound(pointers), tile, type](
                                                                              cudaStream_t stream, bool programmatic) {
                                                                return launch_pointwise_mma(params, type, tile, stream,
                                                                                            programmatic);
                                                            });
                                                        });
                                 }});
            }
    // the best few come before the tiles of the implicit gemm, whose costs are clock cycles; the rest behind them
    std::ranges::stable_sort(found, {}, &Option::cost);
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (i >= 4) found[i].cost += 1e9;
        options.push_back(std::move(found[i]));
    }
}

} // namespace lathe::cuda
