// Options of first convolutions, which read f32 NCHW of up to 4 channels. Costs order them and are in microseconds.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "backends/cuda/generate/space.hpp"
#include "backends/cuda/kernels/stems.hpp"
#include "backends/cuda/tactics/own_options.hpp"
#include "backends/cuda/tactics/sm90_cost.hpp"

namespace lathe::cuda {

using namespace kernels;

namespace {

/// Results along a dimension of this size, padding included.
std::int32_t outputs(std::int32_t size, std::int32_t kernel, std::int32_t stride, std::int32_t dilation) {
    return (size - dilation * (kernel - 1) - 1) / stride + 1;
}

/// Pooled stems on wgmma: rounds of two blocks a multiprocessor, or of one where there are few, with `first` rows of
/// the convolution's time until a tile's first one. `alone` and `shared`: microseconds a row.
double pooled_stem_cost(std::int64_t tiles, int rows, double first, double alone, double shared, const Device& device) {
    const double mine = blocks_a_processor(tiles, device);
    return 2 + (2 * rows + 1 + first) * (mine <= 1 ? alone : shared * std::ceil(mine / 2));
}

/// stem_patch: rounds of tiles; instructions of a warp's 32 results times 32 channels share the multiprocessor, beside
/// that the results' bytes.
double patch_cost(const StemParams& p, const StemPatchTile& tile, const Device& device) {
    const StemPatchBlock block = stem_patch_block(p, tile);
    const double steps = std::ceil(p.window.kernel_h * p.window.kernel_w / 4.0);
    const double tiles =
        static_cast<double>(generated::divided_up(p.q, tile.columns) * generated::divided_up(p.p, tile.rows)) * p.n *
        block.slices;
    const double passes = block.passes, units = tile.rows * tile.columns / 32.0;
    const double item = 60 + steps * (12 + tile.blocks * 18) + tile.blocks * 110;
    const double pixels = ((tile.rows - 1.0) * p.window.stride_h + p.window.kernel_h) *
                          ((tile.columns - 1.0) * p.window.stride_w + p.window.kernel_w);
    const double fill = std::ceil(pixels / 128) * 60;
    const double rounds = std::ceil(units * passes / 4); // of a warp
    const double mine = tiles / std::max(1, device.multiprocessors);
    const double life = (fill + rounds * item * 2) * std::max(1.0, mine / block.resident);
    const double weights = steps * passes * tile.blocks * 40;
    const double busy = (std::max(1.0, mine) * (units * passes * item + 4 * fill)) / 4;
    const double bytes =
        static_cast<double>(p.n) *
        (4.0 * p.c * p.h * p.w + static_cast<double>(p.p) * p.q * p.k_stride * (p.output_type == type_s8 ? 1 : 2));
    // what hides behind the bytes still decides between tiles
    return 2 + (weights + 0.2 * busy) / 1755 + std::max({busy / 1755, (life + 1500) / 1755, bytes / 4e6});
}

/// The best of these by cost, so that each way of doing a stem is tried.
void keep_best(std::vector<Option> found, std::size_t count, std::vector<Option>& options) {
    std::ranges::stable_sort(found, {}, &Option::cost);
    for (std::size_t i = 0; i < std::min(found.size(), count); ++i)
        options.push_back(std::move(found[i]));
}

template <class Set>
void patch_options(const FusedOp& op, const StemParams& p, Set set, const Device& device,
                   std::vector<Option>& options) {
    constexpr std::pair<int, int> shapes[] = {{1, 32}, {2, 16}, {2, 32},  {4, 16},  {4, 32}, {8, 16},
                                              {8, 32}, {4, 64}, {16, 16}, {16, 32}, {8, 64}};
    std::vector<Option> found;
    for (const int blocks : {1, 2, 3}) {
        if (blocks > 1 && p.k_stride <= 32 * (blocks - 1)) continue;
        for (const auto& [rows, columns] : shapes) {
            const StemPatchTile tile{rows, columns, blocks};
            if (!stem_patch_takes(p, tile)) continue;
            const std::string id =
                "stem_patch/h" + std::to_string(rows) + "w" + std::to_string(columns) + "b" + std::to_string(blocks);
            found.push_back(make_option(op, waits_on(device), id, patch_cost(p, tile, device), p, set,
                                        [tile, processors = device.multiprocessors](
                                            const StemParams& q, cudaStream_t stream, bool programmatic) {
                                            return launch_stem_patch(q, tile, processors, stream, programmatic);
                                        }));
        }
    }
    keep_best(std::move(found), 6, options);
}

constexpr std::int64_t most_patches_bytes = std::int64_t{1} << 29;

/// Patches as rows of a matrix in the workspace, and a product behind it, by the kernels of any GPU or of Hopper.
/// `planes`: the channels' planes one after another, without the padding to 4 channels; the weights, brought into that
/// order, lie behind the patches.
void gathered_options(const FusedOp& op, const Conv& conv, const Plan& plan, const StemParams& stem, bool planes,
                      const Device& device, std::vector<Option>& options) {
    const WindowParams& window = stem.window;
    if (stem.pooled != 0) return;
    PatchesParams patches{};
    patches.type = stem.weight_type;
    patches.n = stem.n;
    patches.c = stem.c;
    patches.h = stem.h;
    patches.w = stem.w;
    patches.p = stem.p;
    patches.q = stem.q;
    patches.k = stem.k;
    patches.weight_c = stem.weight_c;
    patches.channels = planes ? stem.c : stem.weight_c;
    patches.planes = planes ? 1 : 0;
    patches.window = window;
    const std::int64_t rows = std::int64_t{stem.n} * stem.p * stem.q;
    const std::int64_t columns = std::int64_t{window.kernel_h} * window.kernel_w * patches.channels;
    const std::int64_t pitch = (columns + 7) / 8 * 8;
    if (pitch > most_patches_bytes / 2 || rows > 0x3fffffff || (!planes && pitch != columns)) return;
    patches.pitch = narrow(pitch);
    const std::int64_t bytes = rows * pitch * 2, weight_bytes = planes ? stem.k * pitch * 2 : 0;
    if (!patches_take(patches) || bytes > most_patches_bytes) return;
    ImplicitGemm gemm;
    gemm.params = {};
    ImplicitGemmParams& g = gemm.params;
    g.n = g.w = g.q = g.r = g.s = g.stride_h = g.stride_w = g.dil_h = g.dil_w = 1;
    g.h = g.p = narrow(rows);
    g.c = g.c_stride = g.c_pitch = patches.pitch;
    g.k = stem.k;
    g.k_stride = g.k_pitch = stem.k_stride;
    g.epilogue = stem.epilogue;
    gemm.in = gemm.weight = weight_of(plan, conv.weight).type;
    gemm.out = plan.values[op.outputs[0]].type;
    gemm.output = place_of(plan, op.outputs[0]);
    gemm.weight_id = conv.weight;
    gemm.epilogue = conv.epilogue;
    gemm.gemm = true;
    const double gathering = 2 + static_cast<double>(bytes + weight_bytes) * 3 / 4e6;
    const bool waits = waits_on(device);
    const Place input = place_of(plan, op.inputs[0]);
    const std::string prefix = planes ? "planes+" : "patches+";

    std::vector<Option> found;
    // `product` makes the launch of the product from its parameters
    const auto add = [&](const std::string& tile, double cost, auto product) {
        const std::string id = prefix + tile, name = "lathe " + id + " for " + op.name;
        const auto launch = [=](const Pointers& pointers) -> Result<Launch> {
            PatchesParams from = patches;
            from.input = static_cast<const float*>(input.in(pointers));
            from.output = pointers.workspace;
            ImplicitGemmParams params = gemm.bound(pointers);
            params.input = pointers.workspace;
            if (planes) {
                from.weight = params.weight;
                from.weights = static_cast<std::byte*>(pointers.workspace) + bytes;
                params.weight = from.weights;
            }
            LATHE_TRY(Launch multiply, product(params));
            // Products fetch their weights before they wait for what was launched before them.
            const bool overlaps = waits && !planes;
            return Launch([from, multiply = std::move(multiply), overlaps](cudaStream_t stream, bool programmatic) {
                const cudaError_t code = launch_patches(from, stream, programmatic);
                return code != cudaSuccess ? code : multiply(stream, overlaps);
            });
        };
        const auto workspace = static_cast<std::size_t>(bytes + weight_bytes);
        found.push_back({id, gathering + cost, [=] { return make_kernel(name, workspace, waits, launch); }});
    };
    for (const MmaTile& tile : mma_tiles_for(gemm, false, device))
        add(tile.id, tile.cost / 1755,
            [at = tile.tile, split = tile.split,
             out = type_number(gemm.out)](const ImplicitGemmParams& params) -> Result<Launch> {
                return Launch([params, at, split, out](cudaStream_t stream, bool programmatic) {
                    return launch_implicit_gemm_mma(at, split, params, out, stream, programmatic);
                });
            });
    keep_best(std::exchange(found, {}), 2, options);
    int count = 0;
    const TileConfig* tiles = sm90_tiles(count);
    for (int i = 0; i < count && device.sm == 90; ++i) {
        if (tiles[i].in_type != type_number(gemm.in) || tiles[i].out_type != type_number(gemm.out)) continue;
        for (const int split : {1, 2, 4, 8}) {
            if (!sm90_takes(i, split, g)) continue;
            const int out = static_cast<int>(bytes_of(gemm.out));
            add(std::string(tiles[i].name) + "_x" + std::to_string(split),
                sm90_cost(tiles[i], split, g, 2, out, device.multiprocessors),
                [i, split, name = op.name](const ImplicitGemmParams& params) -> Result<Launch> {
                    std::array<std::byte, 384> maps{}; // as the launch copies them
                    LATHE_CUDA(encode_maps_sm90(i, params, maps.data()), "the tensor maps of " + name);
                    return Launch([params, maps, i, split](cudaStream_t stream, bool programmatic) {
                        return launch_implicit_gemm_sm90(i, split, params, maps.data(), stream, programmatic);
                    });
                });
        }
    }
    keep_best(std::move(found), 3, options);
}

} // namespace

std::string stem_options(const FusedOp& op, const Conv& conv, const Plan& plan, const Device& device,
                         std::vector<Option>& options) {
    const Value &x = plan.values[op.inputs[0]], &y = plan.values[op.outputs[0]];
    const Weight& w = weight_of(plan, conv.weight);
    StemParams p{};
    const WindowParams window = window_params(conv.window);
    if (conv.epilogue.residual != none) return "a stem with a residual";
    if (conv.groups != 1 || x.dims.size() != 4 || y.layout != Layout::nhwc) return "a stem in groups, or no image";
    p.weight_type = type_number(w.type);
    p.output_type = type_number(y.type);
    p.weight_c = narrow(w.dims.back());
    p.n = narrow(x.dims[0]);
    p.c = narrow(x.dims[1]);
    p.h = narrow(x.dims[2]);
    p.w = narrow(x.dims[3]);
    p.k = narrow(y.dims[1]);
    p.k_stride = narrow(y.channel_stride);
    p.window = window;
    p.p = outputs(p.h + window.pad_h + window.pad_bottom, window.kernel_h, window.stride_h, window.dil_h);
    p.q = outputs(p.w + window.pad_w + window.pad_right, window.kernel_w, window.stride_w, window.dil_w);
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
    const bool waits = waits_on(device);
    const auto set = [x_at = place_of(plan, op.inputs[0]), y_at = place_of(plan, op.outputs[0]), weight = conv.weight,
                      epilogue = conv.epilogue](StemParams& q, const Pointers& pointers) {
        q.input = static_cast<const float*>(x_at.in(pointers));
        q.output = y_at.in(pointers);
        q.weight = weight_address(pointers, weight);
        bind_epilogue(q.epilogue, epilogue, Place{}, pointers);
    };
    patch_options(op, p, set, device, options);
    for (const bool planes : {false, true})
        gathered_options(op, conv, plan, p, planes, device, options);
    if (stem_takes(p))
        options.push_back(make_option(op, waits, "stem", std::numeric_limits<double>::max(), p, set, launch_stem));
    if (stem_direct_takes(p))
        for (const int steps : {1, 2, 4, 7, 14, 28}) {
            const double strips = std::ceil(p.q / 16.0) * static_cast<double>(generated::divided_up(p.p, steps)) * p.n;
            const double rounds = std::ceil(strips / 4 / (5.0 * std::max(1, device.multiprocessors)));
            options.push_back(make_option(op, waits, "stem_direct/" + std::to_string(steps), rounds * (2 + steps), p,
                                          set, [steps](const StemParams& q, cudaStream_t stream, bool programmatic) {
                                              return launch_stem_direct(q, steps, stream, programmatic);
                                          }));
        }
    for (const int columns : {64, 112})
        for (const int rows : {1, 2, 3, 4, 7, 14, 28}) {
            const StemPlanesTile tile{rows, columns};
            if (device.sm != 90 || !stem_planes_takes(p, tile)) continue;
            const bool all = columns == 112;
            const std::int64_t tiles =
                generated::divided_up(p.pool_p, rows) * (all ? 1 : generated::divided_up(p.pool_q, 28)) * p.n;
            const double cost = pooled_stem_cost(tiles, rows, 2.5, all ? 0.67 : 0.46, all ? 0.97 : 0.67, device);
            const std::string id = "stem_planes/c" + std::to_string(columns) + "r" + std::to_string(rows);
            options.push_back(make_option(op, waits, id, cost, p, set,
                                          [tile](const StemParams& q, cudaStream_t stream, bool programmatic) {
                                              return launch_stem_planes(q, tile, stream, programmatic);
                                          }));
        }
    if (device.sm == 90 && stem_wgmma_takes(p))
        for (const int rows : {1, 2, 3, 4, 7}) {
            const std::int64_t tiles =
                generated::divided_up(p.pool_p, rows) * generated::divided_up(p.pool_q, 56) * p.n;
            const double cost = pooled_stem_cost(tiles, rows, 0, 1.5, 2.4, device);
            options.push_back(make_option(op, waits, "stem_wgmma/" + std::to_string(rows), cost, p, set,
                                          [rows](const StemParams& q, cudaStream_t stream, bool programmatic) {
                                              return launch_stem_wgmma(q, rows, stream, programmatic);
                                          }));
        }
    return options.empty() ? "a stem of a size, type or pool without a kernel" : "";
}

} // namespace lathe::cuda
