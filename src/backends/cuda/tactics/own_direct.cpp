// Options of the light layers of image networks: depthwise convolutions, 1x1 convolutions of few channels.
// Costs order them and are in microseconds; those of the kernels on mma.sync were fitted to times of an H200.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backends/cuda/generate/space.hpp"
#include "backends/cuda/kernels/depthwise.hpp"
#include "backends/cuda/tactics/own_options.hpp"

namespace lathe::cuda {

using namespace kernels;

namespace {

/// Whether the activation is more than a clamp.
bool is_curve(const EpilogueParams& e) { return e.act > static_cast<std::int32_t>(Activation::clip); }

/// A tile's time: rounds of blocks, whose steps' instructions share the multiprocessor, and the bytes' time.
double depthwise_cost(const DepthwiseParams& p, const DepthwiseTile& tile, const Device& device) {
    const bool bytes = p.type == type_s8;
    const int kernel = p.window.kernel_h, stride = p.window.stride_h;
    const int pixel = p.c_stride * (bytes ? 1 : 2), parts = bytes ? 2 : 1, wide = stride + kernel;
    const std::int64_t strips =
        generated::divided_up(p.q, 2) * generated::divided_up(p.p, std::int64_t{tile.rows} * tile.steps) * p.n;
    const std::int64_t blocks = generated::divided_up(pixel, 16 * tile.words) * generated::divided_up(strips, 32);
    const int at_once = depthwise_mma_blocks(p, tile);
    const double mine = blocks_a_processor(blocks, device);
    const double loads = tile.rows * stride * wide, taps = kernel * kernel;
    const int copies = ((tile.rows - 1) * stride + kernel) * (kernel / 2 * 4 + 2); // moves of operands
    const double ending = (bytes ? 15.6 : 5.2) + (is_curve(p.epilogue) ? (bytes ? 4 : 2) * 8.0 : 0.0);
    const double instructions = 60 + loads * 7 + tile.words * parts * (tile.rows * (taps + 1) * 1.1 + taps * 1.6) +
                                tile.words * (copies + tile.rows * 2 * ending);
    const double step = 0.3 + 1.65 * instructions / 1755 * std::clamp(mine, 1.0, 1.0 * at_once);
    const double life = tile.steps * step + 0.045 * (kernel - stride) * wide;
    const double rounds = mine < 3 * at_once ? std::ceil(mine / at_once) : mine / at_once + 0.5;
    const double traffic = static_cast<double>(p.n) * pixel * (1.0 * p.h * p.w + 1.0 * p.p * p.q);
    return 1 + rounds * life + traffic / 4.9e6 * (tile.words == 2 ? 1.08 : 1.0);
}

/// The same of a thread's instructions for 4 channels of `columns` results: loads, conversions, products, epilogue.
double depthwise_window_cost(const DepthwiseParams& p, int columns, const Device& device) {
    const WindowParams& window = p.window;
    const bool general = window.dil_w != 1 || window.stride_w > 2 || window.kernel_w < 3;
    const double taps = window.kernel_w, reach = general ? columns * taps : (columns - 1) * window.stride_w + taps;
    const double row = 20 + reach * (p.type == type_s8 ? 12 : 8) + taps * (2 + 4 * columns);
    const int rows = window.kernel_h * p.depths.kernel;
    const double instructions = 200 + rows * row + columns * 14;
    const std::int64_t strips = generated::divided_up(p.q, columns) * p.p * p.n,
                       channels = std::max(p.c_stride, p.y_stride);
    const std::int64_t warps = generated::divided_up(strips, 4) * generated::divided_up(channels, 32);
    const double slots = 4.0 * std::max(1, device.multiprocessors), mine = static_cast<double>(warps) / slots;
    // half as much again for waiting: not measured, and what the tensor cores take was first in all measurements
    const double issue = 1.5 * instructions * std::max(1.0, mine) / 1755;
    const double latency = rows * (columns <= 4 && !general ? 0.2 : 0.5);
    const double x = static_cast<double>(p.n) * p.depths.in / p.depths.out * p.h * p.w * p.c_stride,
                 y = static_cast<double>(p.n) * p.p * p.q;
    const double size = p.type == type_s8 ? 1 : p.type == type_f32 ? 4 : 2;
    return 2 + std::max({issue, latency, (x * size + y * p.y_stride * size) / 2.7e6});
}

/// Tiles whose strips fill the tensor cores' rows.
std::vector<ToeplitzTile> toeplitz_tiles(const DepthwiseParams& p, std::size_t shared_limit) {
    std::vector<ToeplitzTile> tiles;
    const auto up = [](std::int32_t a, std::int32_t b) { return (a + b - 1) / b; };
    for (const std::int32_t rows : {1, 2, 4, 7}) {
        if (rows > 1 && rows / 2 >= p.p) continue;
        std::int32_t before = 0;
        for (const std::int32_t parts : {1, 2, 4, 8, 16}) {
            const std::int32_t chunks = up(up(p.q, 8), parts);
            if (chunks > 16 || chunks == before) continue;
            before = chunks;
            const std::int32_t bands = std::min(16 / chunks, up(p.p, rows));
            const bool whole = bands * rows >= p.p && chunks * 8 >= p.q;
            ToeplitzTile tile{rows, chunks, bands, whole ? std::min(p.n, 16 / (chunks * bands)) : 1};
            if (!depthwise_toeplitz_takes(p, tile)) continue;
            const auto too_large = [&] { return depthwise_toeplitz_shared_bytes(p, tile) > shared_limit; };
            while (tile.images > 1 && too_large())
                tile.images = (tile.images + 1) / 2;
            if (!too_large()) tiles.push_back(tile);
        }
    }
    return tiles;
}

/// The same: blocks that turn the channels of their pixels, multiply, and turn them back; not fitted.
double toeplitz_cost(const DepthwiseParams& p, const ToeplitzTile& tile, const Device& device) {
    const double kernel = p.window.kernel_h, stride = p.window.stride_h, size = p.type == type_s8 ? 1 : 2;
    const double steps = stride == 1 ? 1 : 2, rows = tile.rows * tile.bands;
    const double high = (rows - 1) * stride + kernel, octets = (tile.chunks - 1) * stride + 2 * steps;
    const double tiles = std::ceil(p.q / (tile.chunks * 8.0)) * std::ceil(p.p / rows) *
                         std::ceil(static_cast<double>(p.n) / tile.images) *
                         std::ceil(std::max(p.c_stride, p.y_stride) / 32.0);
    const double turned = tile.images * (high * octets * 100 + rows * tile.chunks * 90) / 8 / 4;
    const double products = 32.0 / 4 * steps * (tile.rows * kernel * 7.0 + (tile.rows * stride + kernel) * 4 + 60);
    const double shared = static_cast<double>(depthwise_toeplitz_shared_bytes(p, tile)) + 1024;
    const double at_once = std::clamp(std::floor(227.0 * 1024 / shared), 1.0, stride == 1 ? 3.0 : 2.0);
    const double mine = tiles / std::max(1, device.multiprocessors);
    const double rounds = mine < 3 * at_once ? std::ceil(mine / at_once) : mine / at_once + 0.5;
    const double life = (2500 + at_once * (turned + products)) / 1755;
    const double traffic =
        size * p.n * (1.0 * p.h * p.w * p.c_stride * high / (rows * stride) + 1.0 * p.p * p.q * p.y_stride);
    return 1 + std::max(rounds * life, traffic / 3.5e6);
}

/// The same: blocks bring the weights and go through their pixels turn by turn.
double pointwise_cost(const ImplicitGemmParams& p, int type, const PointwiseTile& tile, const Device& device) {
    const int size = type == type_s8 ? 1 : 2, processors = std::max(1, device.multiprocessors);
    const double pixels = static_cast<double>(p.n) * p.p * p.q, words = p.c * size / 16.0;
    const double groups =
        static_cast<double>(generated::divided_up(generated::divided_up(p.k_stride, 32), tile.splits));
    const double at_once = tile.halves == 2 && words <= 12 ? 5 : 4, warps = std::ceil(pixels / (8.0 * tile.halves));
    const double turns = tile.turns > 0
                             ? tile.turns
                             : std::ceil(warps / (4 * std::max(1.0, std::floor(processors * at_once / tile.splits))));
    const double mine = std::ceil(warps / (4 * turns)) * tile.splits / processors;
    const double instructions =
        tile.halves * groups * (words * 9.9 + (type == type_s8 ? 45 : 28) + (is_curve(p.epilogue) ? 64 : 0));
    const double life =
        0.25 + groups * words * 0.015 + turns * (0.24 + 1.22 * instructions / 1755 * std::clamp(mine, 1.0, at_once));
    const double rounds = mine < 3 * at_once ? std::ceil(mine / at_once) : mine / at_once + 0.5;
    const double traffic = pixels * size *
                           (static_cast<double>(p.c_stride) * tile.splits +
                            static_cast<double>(p.k_stride) * (p.epilogue.residual_scale != 0 ? 2 : 1));
    return 0.9 + rounds * life + traffic / 1e7;
}

} // namespace

std::string depthwise_options(const FusedOp& op, const Depthwise& detail, const Plan& plan, const Device& device,
                              std::vector<Option>& options) {
    DepthwiseParams p{};
    const Value &x = plan.values[op.inputs[0]], &y = plan.values[op.outputs[0]];
    const Shape xd = image_dims(x), yd = image_dims(y);
    const Weight& w = weight_of(plan, detail.weight);
    if (w.type != x.type) return "an input and weights of several types";
    if (x.layout != Layout::nhwc || y.layout != Layout::nhwc) return "a depthwise convolution of another layout";
    p.type = type_number(x.type);
    p.output_type = type_number(y.type);
    p.weight_c = narrow(w.dims.back());
    p.c = narrow(xd[1]);
    p.h = narrow(xd[2]);
    p.w = narrow(xd[3]);
    p.c_stride = narrow(x.stored_channels());
    p.c_pitch = narrow(x.channel_stride);
    p.y_stride = narrow(y.stored_channels());
    p.y_pitch = narrow(y.channel_stride);
    p.p = narrow(yd[2]);
    p.q = narrow(yd[3]);
    p.window = window_params(detail.window);
    p.depths = depth_params(detail.depths);
    p.n = narrow(yd[0]);
    p.pad_word = 0x01010101U * static_cast<std::uint8_t>(x.zero_point);
    p.epilogue = epilogue_params(detail.epilogue, plan);
    if (detail.epilogue.residual != none) {
        const Value& residual = plan.values[detail.epilogue.residual];
        if (residual.layout != Layout::nhwc || (residual.type != ElementType::s8 && residual.type != y.type))
            return "a residual of another type or layout";
        p.epilogue.residual_stride = narrow(residual.channel_stride);
    }
    const bool waits = waits_on(device);
    const auto set = [x_at = place_of(plan, op.inputs[0]), y_at = place_of(plan, op.outputs[0]), weight = detail.weight,
                      epilogue = detail.epilogue, residual_at = residual_place(detail.epilogue, plan)](
                         DepthwiseParams& q, const Pointers& pointers) {
        q.input = x_at.in(pointers);
        q.output = y_at.in(pointers);
        q.weight = weight_address(pointers, weight);
        bind_epilogue(q.epilogue, epilogue, residual_at, pointers);
    };
    if (depthwise_window_shared_bytes(p) > device.shared_per_block) return "a depthwise window of too many taps";
    for (const int columns : {2, 4, 7, 14}) {
        if (!depthwise_window_takes(p, columns)) continue;
        const std::string id = "depthwise_window/c" + std::to_string(columns);
        options.push_back(make_option(op, waits, id, depthwise_window_cost(p, columns, device), p, set,
                                      [columns](const DepthwiseParams& q, cudaStream_t stream, bool programmatic) {
                                          return launch_depthwise_window(q, columns, stream, programmatic);
                                      }));
    }
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
    for (const ToeplitzTile& tile : toeplitz_tiles(p, device.shared_per_block)) {
        const std::string id = "depthwise_toeplitz/r" + std::to_string(tile.rows) + "c" + std::to_string(tile.chunks) +
                               "b" + std::to_string(tile.bands) + "i" + std::to_string(tile.images);
        options.push_back(make_option(op, waits, id, toeplitz_cost(p, tile, device), p, set,
                                      [tile](const DepthwiseParams& q, cudaStream_t stream, bool programmatic) {
                                          return launch_depthwise_toeplitz(q, tile, stream, programmatic);
                                      }));
    }
    return options.empty() ? "a depthwise window or type without a kernel" : "";
}

void pointwise_mma_options(const FusedOp& op, const ImplicitGemm& gemm, const Device& device,
                           std::vector<Option>& options) {
    if (gemm.in != gemm.out || !gemm.pointwise()) return;
    const int type = type_number(gemm.in);
    const ImplicitGemmParams& p = gemm.params;
    if (gemm.epilogue.residual != none && (p.epilogue.residual_is_s8 != 0) != (type == type_s8)) return;
    const int groups = narrow(generated::divided_up(p.k_stride, 32));
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
