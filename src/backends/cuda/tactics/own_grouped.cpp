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

/// Tiles that cover the image with little beside it.
std::vector<GroupedMmaTile> grouped_mma_tiles(const GroupedParams& p, std::size_t limit) {
    const GroupedMmaForm form = grouped_mma_form(p);
    std::vector<GroupedMmaTile> tiles;
    const auto up = [](std::int32_t a, std::int32_t b) { return (a + b - 1) / b; };
    for (const std::int32_t fragments : {1, 2, 4}) {
        if (fragments > form.most) break;
        const std::int32_t pixels = form.pixels * fragments;
        std::int32_t before = 0;
        for (std::int32_t parts = 1; parts <= 64; ++parts) {
            const std::int32_t columns = up(p.q, parts);
            if (columns > pixels || columns == before) continue;
            if (columns < 4 && parts > 1) break;
            before = columns;
            const std::int32_t rows = up(p.p, up(p.p, std::min(p.p, pixels / columns)));
            const std::int32_t images = rows >= p.p && columns >= p.q ? std::min(p.n, pixels / (rows * columns)) : 1;
            const GroupedMmaTile tile{fragments, images, rows, columns};
            if (grouped_mma_takes(p, tile, limit)) tiles.push_back(tile);
        }
    }
    return tiles;
}

/// As grouped_cost, of grouped_mma: not fitted.
double grouped_mma_cost(const GroupedParams& p, const GroupedMmaTile& tile, const Device& device) {
    const GroupedMmaForm form = grouped_mma_form(p);
    const double size = p.type == type_s8 ? 1 : 2, units = 128.0 / form.pixels;
    const double slabs = rounded_up(p.k, 64), fragments = tile.fragments;
    const double count = rounded_up(p.p, tile.rows) * rounded_up(p.q, tile.columns) * rounded_up(p.n, tile.images);
    const double patch = tile.images * ((tile.rows - 1.0) * p.window.stride_h + 3) *
                         ((tile.columns - 1.0) * p.window.stride_w + 3) * 64 * size / 16;
    const double wide = 64 / units, steps = 9 * wide * size / 32, tiles = wide / 8;
    const double products = 8 / 4.0 * steps * fragments * tiles * 8, loads = 8 * steps * (fragments * 4 + tiles * 2);
    const double ending = fragments * tiles * 8 * 60 / 4;
    const double each = patch / 32 * 30 / 4 + std::max(products, loads) + ending;
    const double at_once = std::clamp(
        std::floor(224.0 * 1024 / (static_cast<double>(grouped_mma_shared_bytes(p, tile)) + 3072)), 1.0, 2.0);
    const double processors = std::max(1, device.multiprocessors), resident = processors * at_once;
    const double blocks = std::max(1.0, std::floor(resident / slabs)); // that go through the tiles of a slab
    const double turns = std::ceil(count / std::min(count, blocks)) * std::ceil(slabs / resident);
    const double life = 4000 + steps * tiles * units * 20 + turns * (1500 + at_once * each);
    const double bytes = static_cast<double>(p.n) * size *
                         (static_cast<double>(p.h) * p.w * p.c_stride + static_cast<double>(p.p) * p.q * p.k_stride);
    return 1 + 0.7 * std::max(life / 1755, bytes / 3e6);
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
    for (const GroupedMmaTile& tile : grouped_mma_tiles(p, limit)) {
        const std::string id = "grouped_mma/f" + std::to_string(tile.fragments) + "i" + std::to_string(tile.images) +
                               "h" + std::to_string(tile.rows) + "w" + std::to_string(tile.columns);
        options.push_back(make_option(op, waits_on(device), id, grouped_mma_cost(p, tile, device), p, set,
                                      [tile, limit, processors = device.multiprocessors](
                                          const GroupedParams& q, cudaStream_t stream, bool programmatic) {
                                          return launch_grouped_mma(q, tile, limit, processors, stream, programmatic);
                                      }));
        found = true;
    }
    return found ? "" : "groups too wide for a block's shared memory, or pixels that are not 16 bytes";
}

} // namespace lathe::cuda
