// Times of the Hopper kernels' tiles, guessed: the fullest multiprocessor's multiplying, loading, waiting and
// finishing. The constants were fitted to measured times of ResNet-50's layers (int8 at batch 1, 8, 32, 256, f16 at 1,
// 8, 32) on an H100, where the best of the first eight is 0.4 % from the best of all on average, of the first four 1.4
// %.
#include "backends/cuda/tactics/sm90_cost.hpp"

#include <algorithm>
#include <cmath>

#include "backends/cuda/kernels/sm90/geometry.hpp"

namespace lathe::cuda {

using namespace kernels;

namespace {

double up(double a, double b) { return std::ceil(a / b); }

/// What all three kernels' guesses are made of.
struct Work {
    double m, n, chunk;          ///< a tile: pixels, channels; bytes of the reduction a step takes
    double rows, flat, channels; ///< outputs; with the padding that runs of pixels include; output channels
    double taps, chunks;         ///< of a tap
    double behind;               ///< pixels that a run needs beyond its tile
    double planes;               ///< runs a chunk
    double multiprocessors, residual, finishing;
};

double multiplying(const Work& work, double tiles, double steps) {
    return tiles * steps * work.m * std::max(work.n, 64.0) * work.chunk / 9.0e6;
}

double streamed(const Work& work, const TileConfig& tile, int split) {
    const double steps = up(work.chunks * work.taps, split);
    const double blocks = up(work.rows, work.m) * up(work.channels, work.n) * split;
    const double blocks_an_sm = up(blocks, work.multiprocessors);
    const double stages = std::min<double>(tile.stages, steps);
    const double shared = stages * (work.m + work.n) * work.chunk + (split > 1 ? work.m * work.n * 4 : 0) +
                          1024 * (1 + up(512 + work.n * 8, 1024));
    const double by_registers = work.m < 128                   ? (work.n < 128   ? 4
                                                                  : work.n < 256 ? 3
                                                                                 : 2)
                                : work.m * work.n <= 128 * 128 ? 2
                                                               : 1;
    const double together = std::max(1.0, std::min(by_registers, std::floor(227 * 1024 / shared)));
    const double waves = up(blocks_an_sm, together);

    const double loading = blocks_an_sm * steps * (work.m + work.n) * work.chunk / 141e3;
    const double waiting = waves * (0.31 + steps * 0.254) + (split > 1 ? 0.99 + 0.65 * split : 0);
    const double finishing =
        blocks_an_sm * work.m * work.n / split * 0.83e-4 + waves * work.n / split * (work.m < 256 ? 1 : 2) * 0.0136;
    return std::max({multiplying(work, blocks_an_sm, steps), loading, waiting}) + finishing * work.finishing;
}

double kept(const Work& work, const TileConfig& tile, int out) {
    const double rows = work.taps > 1 ? work.flat : work.rows;
    const double tiles = up(rows, work.m), columns = up(work.channels, work.n);
    const double share = std::min(std::max(1.0, std::floor(work.multiprocessors * tile.blocks / columns)), tiles);
    const double turns = up(tiles, share);
    const double blocks = std::min<double>(tile.blocks, up(up(tiles, turns) * columns, work.multiprocessors));
    const double steps = work.taps * work.chunks, outputs = work.m * work.n;

    const double loading =
        blocks * turns * (work.chunks * (work.m + work.behind) * work.chunk + work.residual * outputs * out) / 44.3e3;
    const double finishing = blocks * turns * outputs * out * 0.617e-4 * work.finishing;
    const double waiting = up(turns, tile.consumers) * (1.28 + steps * 0.212 + outputs * 1.62e-4);
    return 1.8 + std::max({multiplying(work, blocks * turns, steps), loading, finishing, waiting});
}

double windows(const Work& work, const TileConfig& tile, int split) {
    const double mine = up(work.chunks, split), steps = mine * work.taps;
    const double blocks_an_sm = up(up(work.flat, work.m) * up(work.channels, work.n) * split, work.multiprocessors);
    const double waves = up(blocks_an_sm, tile.blocks);

    const double pixels = mine * (work.m + work.behind) * work.planes;
    const double loading = blocks_an_sm * (pixels + steps * work.n) * work.chunk / 94.6e3;
    const double waiting = waves * (3.23 + steps * 0.101) + (split > 1 ? 0.39 + 0.856 * split : 0);
    const double finishing = blocks_an_sm * work.m * work.n / split * 0.83e-4 + waves * work.n / split * 0.0018;
    return std::max({multiplying(work, blocks_an_sm, steps), loading, waiting}) + finishing * work.finishing;
}

double strips(const Work& work, const TileConfig& tile, const ImplicitGemmParams& params) {
    const int columns = static_cast<int>(up(work.channels, work.n));
    const int most = std::max(1, static_cast<int>(work.multiprocessors) / std::max(1, columns));
    return 2.0 + sm90::cut_strips(params.n, params.p, most, tile.consumers).cost * 0.45 * work.chunk / 64;
}

} // namespace

double sm90_cost(const TileConfig& tile, int split, const ImplicitGemmParams& params, int in, int out,
                 int multiprocessors) {
    Work work{};
    work.m = tile.m;
    work.n = tile.n;
    work.chunk = tile.k_bytes;
    work.rows = static_cast<double>(params.n) * params.p * params.q;
    work.flat = static_cast<double>(params.n) * (params.p + params.pad_h) * (params.q + params.pad_w);
    work.channels = params.k_stride;
    work.taps = static_cast<double>(params.r) * params.s;
    work.chunks = up(static_cast<double>(params.c_stride) * in, work.chunk);
    const int stride = std::max(1, params.stride_h);
    work.behind = work.taps > 1 ? (params.r - 1) / stride * (params.q + params.pad_w) + (params.s - 1) / stride : 0;
    work.planes = static_cast<double>(stride) * stride;
    work.multiprocessors = std::max(1, multiprocessors);
    work.residual = params.epilogue.residual_scale != 0 ? 1 : 0;
    work.finishing = 1 + work.residual / 2;
    switch (tile.kind) {
        case kind_kept: return kept(work, tile, out);
        case kind_window: return windows(work, tile, split);
        case kind_strip: return strips(work, tile, params);
        default: return streamed(work, tile, split);
    }
}

} // namespace lathe::cuda
