// Options of convolutions in groups, and of others that the implicit GEMM refuses. Costs are microseconds.

#include <algorithm>
#include <cmath>

#include "backends/cuda/kernels/grouped.hpp"
#include "backends/cuda/tactics/own_options.hpp"

namespace lathe::cuda {

using namespace kernels;

namespace {

double rounded_up(double a, double b) { return std::ceil(a / b); }

/// What the blocks of a multiprocessor do: weights once, then for each tile of results its pixels, products (bound by
/// loads from shared memory) and epilogue.
double grouped_cost(const GroupedParams& p, const GroupedTile& tile, const Device& device) {
    const int together = grouped_tiles_together(p, tile.tiles), slices = grouped_slices(p);
    const double pixels = tile.rows * tile.columns, blocks = rounded_up(p.k_stride, 8.0 * tile.tiles);
    const double count = rounded_up(p.p, tile.rows) * rounded_up(p.q, tile.columns) * p.n * blocks;
    const double processors = std::max(1, device.multiprocessors), mine = std::max(1.0, count / processors);
    const bool exact = p.type == type_f32 && p.tf32 == 0;
    const double items = pixels / 32 * tile.tiles / together;
    const double products = exact ? items * slices * 14 : items * slices / 2.0 * (8 + 2 * together);
    const double patch = ((tile.rows - 1.0) * p.window.stride_h + p.window.kernel_h) *
                         ((tile.columns - 1.0) * p.window.stride_w + p.window.kernel_w);
    const double width =
        std::max(1.0, static_cast<double>(slices) / (p.window.kernel_h * p.window.kernel_w)) * tile.tiles / together;
    const double pieces = patch * width / 128 * 45, results = pixels * tile.tiles * 2 / 128 * 80;
    const double weights = tile.tiles * slices * 10 + 1500;
    const double waiting = std::ceil(items / 4) * slices / 2.0 * 60;                      // of a warp for its operands
    const double alone = weights + 1500 + pieces + results + std::max(products, waiting); // a block without company
    const double size = p.type == type_s8 ? 1 : p.type == type_f32 ? 4 : 2;
    const double bytes = static_cast<double>(p.n) * size *
                         (static_cast<double>(p.h) * p.w * p.c_stride + static_cast<double>(p.p) * p.q * p.k_stride);
    const double busy = weights + mine * (pieces + results + products);
    // what hides behind the bytes still decides between tiles
    return 2 + 0.2 * busy / 1755 + std::max({alone / 1755, busy / 1755, bytes / 4e6});
}

} // namespace

std::string grouped_options(const FusedOp& op, const Conv& conv, const Plan& plan, const Device& device,
                            std::vector<Option>& options) {
    const Value &x = plan.values[op.inputs[0]], &y = plan.values[op.outputs[0]];
    const Shape xd = image_dims(x), yd = image_dims(y);
    const Weight& w = weight_of(plan, conv.weight);
    if (conv.reads_nchw || conv.pooled) return "a convolution that reads NCHW or pools";
    if (x.layout != Layout::nhwc || y.layout != Layout::nhwc) return "a convolution of another layout";
    if (w.type != x.type) return "an input and weights of several types";
    GroupedParams p{};
    p.type = type_number(x.type);
    p.output_type = type_number(y.type);
    p.tf32 = op.tf32 ? 1 : 0;
    p.n = narrow(xd[0]);
    // of a convolution without groups the weights hold the padding of a pixel's channels
    p.groups = narrow(conv.groups);
    p.c = narrow(w.dims.back() * conv.groups);
    p.h = narrow(xd[2]);
    p.w = narrow(xd[3]);
    p.c_stride = narrow(x.channel_stride);
    p.k = narrow(yd[1]);
    p.k_stride = narrow(y.stored_channels());
    p.k_pitch = narrow(y.channel_stride);
    p.p = narrow(yd[2]);
    p.q = narrow(yd[3]);
    p.window = window_params(conv.window);
    p.epilogue = epilogue_params(conv.epilogue, plan);
    if (p.c > p.c_stride) return "the weight has more channels than a pixel of the input";
    if (conv.epilogue.residual != none) {
        const Value& residual = plan.values[conv.epilogue.residual];
        if (residual.layout != Layout::nhwc || (residual.type != ElementType::s8 && residual.type != y.type))
            return "a residual of another type or layout";
        p.epilogue.residual_stride = narrow(residual.channel_stride);
    }
    const auto set = [x_at = place_of(plan, op.inputs[0]), y_at = place_of(plan, op.outputs[0]), weight = conv.weight,
                      epilogue = conv.epilogue,
                      residual_at = residual_place(conv.epilogue, plan)](GroupedParams& q, const Pointers& pointers) {
        q.input = x_at.in(pointers);
        q.output = y_at.in(pointers);
        q.weight = weight_address(pointers, weight);
        bind_epilogue(q.epilogue, epilogue, residual_at, pointers);
    };
    const std::size_t limit = device.shared_per_block;
    bool found = false;
    for (const int tiles : {1, 2, 3, 4, 6, 8}) {
        if (tiles > 1 && 8 * (tiles / 2) >= p.k) continue; // half of them would be idle
        for (const auto& [rows, columns] : {std::pair{2, 16}, {4, 8}, {4, 16}, {8, 8}, {4, 32}, {8, 16}}) {
            const GroupedTile tile{rows, columns, tiles};
            if (!grouped_takes(p, tile, limit)) continue;
            const std::string id =
                "grouped/h" + std::to_string(rows) + "w" + std::to_string(columns) + "t" + std::to_string(tiles);
            options.push_back(make_option(op, waits_on(device), id, grouped_cost(p, tile, device), p, set,
                                          [tile, limit, processors = device.multiprocessors](
                                              const GroupedParams& q, cudaStream_t stream, bool programmatic) {
                                              return launch_grouped(q, tile, limit, processors, stream, programmatic);
                                          }));
            found = true;
        }
    }
    return found ? "" : "groups too wide for a block's shared memory, or pixels that are not 16 bytes";
}

} // namespace lathe::cuda
