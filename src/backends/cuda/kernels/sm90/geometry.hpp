#pragma once
// Arithmetic of the Hopper implicit GEMM that has nothing to do with the device, so that the CPU tests can check it.

#include <cstdint>

#ifdef __CUDACC__
#define LATHE_HOST_DEVICE __host__ __device__
#else
#define LATHE_HOST_DEVICE
#endif

namespace lathe::cuda::kernels::sm90 {

/// Where byte `column` of row `row` lies in a tile that TMA wrote with a swizzle as wide as a row (64 or 128 bytes):
/// 16-byte pieces change places within eight rows, so that wgmma reads a column of pieces from all banks.
LATHE_HOST_DEVICE constexpr int swizzled_offset(int row, int column, int row_bytes) {
    const int offset = row * row_bytes + column;
    return row_bytes == 128 ? offset ^ ((offset >> 3) & 0x70) : offset ^ ((offset >> 3) & 0x30);
}

/// Descriptor of a K-major operand in shared memory for wgmma, without its address: rows of `row_bytes` (64 or 128),
/// groups of eight rows right behind each other. The address (bytes / 16) goes into the lowest 14 bits.
LATHE_HOST_DEVICE constexpr std::uint64_t operand_descriptor(int row_bytes) {
    const std::uint64_t layout = row_bytes == 128 ? 1 : 2;
    const std::uint64_t eight_rows = static_cast<std::uint64_t>(row_bytes) * 8 / 16;
    return (layout << 62) | (eight_rows << 32) | (std::uint64_t{1} << 16);
}

/// One spatial direction of a convolution as TMA's im2col mode wants it: the box of first taps reaches from `lower` to
/// `extent + upper`, walked in steps of `stride`. Exactly `outputs` steps fit, whatever the padding at the far end.
struct PixelBox {
    int lower = 0, upper = 0;
};
LATHE_HOST_DEVICE constexpr PixelBox pixel_box(int extent, int outputs, int stride, int pad) {
    return {-pad, -pad + (outputs - 1) * stride + 1 - extent};
}

/// The first pixel of a tile: image, and row and column of its first tap (negative inside the padding).
struct FirstPixel {
    int n = 0, h = 0, w = 0;
};
LATHE_HOST_DEVICE constexpr FirstPixel first_pixel(int index, int p, int q, int stride_h, int stride_w, int pad_h,
                                                   int pad_w) {
    const int image = index / (p * q);
    const int rest = index - image * p * q;
    const int row = rest / q;
    return {image, row * stride_h - pad_h, (rest - row * q) * stride_w - pad_w};
}

/// How the weights' rows (output channels) are dealt to the columns of a wgmma so that a thread, which holds columns
/// 8 j + 2 t and 8 j + 2 t + 1 for its t of 0..3 and all j, ends up with `run` channels next to each other: within a
/// group of 4 * run columns, column 8 j + 2 t + b is channel run * t + 2 j + b. With a run of 2 nothing moves.
LATHE_HOST_DEVICE constexpr int run_of(int output_bytes, int n) {
    return output_bytes == 4 ? 2 : 16 / output_bytes < n / 4 ? 16 / output_bytes : n / 4;
}
LATHE_HOST_DEVICE constexpr int channel_of_column(int column, int run) {
    const int within = column % (4 * run);
    return column - within + run * (within % 8 / 2) + 2 * (within / 8) + within % 2;
}
/// Where scale and bias of a channel lie: four lanes read four channels each, next to each other.
LATHE_HOST_DEVICE constexpr int vector_place(int channel, int run) {
    if (run < 4) return channel;
    const int within = channel % (4 * run);
    return channel - within + within % run / 4 * 16 + within / run * 4 + within % 4;
}

/// Staging area of the epilogue: rows of `n` 4-byte sums. The pitch spreads the eight rows a warp writes at once over
/// all banks; pieces of 16 bytes are permuted so that lanes that each read 64 (or 32) bytes of a row do not collide.
LATHE_HOST_DEVICE constexpr int staging_pitch(int n) { return n * 4 + 32; }
LATHE_HOST_DEVICE constexpr int staging_piece(int piece) { return piece ^ ((piece >> 3) & 3); }

/// How images of p rows are cut into strips for `groups` warpgroups a block and at most `most` blocks.
struct Strips {
    int rows = 0, down = 0, count = 0, blocks = 0; ///< of a strip; strips of an image, of all; blocks
    int cost = 0;                                  ///< rows that the tensor cores of a block multiply, or as long
};
/// Strips as high as keep the warpgroups busy. Each takes two rows more than it makes; a row takes a warpgroup that has
/// the tensor cores to itself about twice as long as the tensor cores.
LATHE_HOST_DEVICE constexpr Strips cut_strips(int n, int p, int most, int groups) {
    Strips best{};
    for (int rows = 1; rows <= 14 && rows <= p; ++rows) {
        Strips strips{rows, (p + rows - 1) / rows, 0, 0, 0};
        strips.count = n * strips.down;
        strips.blocks = strips.count < most ? strips.count : most;
        const int of_block = (strips.count + strips.blocks - 1) / strips.blocks;
        const int rounds = (strips.count + strips.blocks * groups - 1) / (strips.blocks * groups);
        strips.cost = (of_block > 2 * rounds ? of_block : 2 * rounds) * (rows + 2);
        if (best.cost == 0 || strips.cost < best.cost) best = strips;
    }
    return best;
}

} // namespace lathe::cuda::kernels::sm90
