#pragma once

#include <cstdint>

namespace lathe::cuda {

/// Operations whose places are computed. The plan, the interpreter and the kernels share these numbers.
enum class IndexedKind : std::int32_t {
    gather_elements,  ///< x, indices, of the result's sizes or 1
    gather_nd,        ///< x, indices; axis: leading dimensions that both have
    scatter_elements, ///< x, indices, updates; mode: Scatter
    scatter_nd,       ///< x, indices, updates; mode: Scatter
    top_k,            ///< x -> values, indices; mode: 1 largest, 0 smallest
    arg_extreme,      ///< x -> indices; mode: 1 largest, 0 smallest; first: the last of equal ones
    cumulate,         ///< x; first: exclusive; second: from the end
    triangle,         ///< x; number: diagonal; first: the upper one
    one_hot,          ///< indices, values (off, on)
    arithmetic,       ///< integers, broadcast to the result; mode: Integer; first: they are unsigned, of 64 bits
    pad,              ///< x, for Padding::constant the number; along `axis`, `number` before it (below 0: cut off)
    /// x [N, C, H, W], places [N, P, Q, 2], or x [N, C, D, H, W], places [N, O, P, Q, 3]; mode: Sampling (cubic of
    /// images alone); number: Outside; first: align corners
    grid_sample,
    /// x [N, C, D, H, W], all nhwc -> [N, T S, E, H, W], S its channel stride: channels (t, c) of depth e are channel c
    /// of depth e * axis + t * mode - number, zeros where there is none. What a window of T depths makes of a
    /// convolution of volumes: one of images, with T times as many channels.
    depth_taps,
    reverse_sequence, ///< x, lengths [batch]; axis: of time, number: of the batch; what lies behind a length stays
    roi_align,        ///< x [N, C, H, W], boxes [R, 4] f32, images [R] -> [R, C, P, Q], x and it in one layout; number:
                      ///< sampling ratio; mode: 1 the largest, 0 the mean; first: half pixels; factor: spatial scale
    pick_boxes,       ///< boxes [B, N, 4], scores [B, C, N] -> places [B, C, most], s32, best first, then -1; factor:
                      ///< overlap; second: scores above `limit` alone; first: centres and sizes
    list_boxes, ///< places of pick_boxes -> rows [B C most, 3] of batch, class and place, then zeros; their number
    nonzero,    ///< x -> indices [rank, numbers of x], then zeros; their number
};
/// Candidates that pick_boxes takes: a bit each lies in a block's shared memory.
inline constexpr std::int64_t most_candidates = 48 * 1024 * 8 - 4096;
/// What stands beside a padded tensor.
enum class Padding : std::int32_t { constant, reflect, edge, wrap };
enum class Sampling : std::int32_t { linear, nearest, cubic };
/// What lies outside a sampled image.
enum class Outside : std::int32_t { zeros, border, reflection };
/// What scattering makes of the number that is there and the new one.
enum class Scatter : std::int32_t { replace, add, multiply, largest, smallest };
/// Arithmetic of 64 bits (plan/whole_numbers.hpp); of one operand from `negate` to `sign`, of three behind.
enum class Integer : std::int32_t {
    add,
    subtract,
    multiply,
    divide,         ///< towards 0
    remainder,      ///< the sign of the divisor
    remainder_of_c, ///< the sign of the dividend
    smallest,
    largest,
    bits_and,
    bits_or,
    bits_xor,
    equal,
    less,
    greater,
    less_equal,
    greater_equal,
    shift_left,  ///< by more than all bits or less than none: nothing is left
    shift_right, ///< likewise: all sign
    power,
    remainder_of_reals,   ///< the sign of the divisor
    remainder_of_reals_c, ///< the sign of the dividend
    power_of_reals,
    negate,
    absolute,
    convert,
    bits_not,
    sign,
    choose, ///< a truth value, then what it stands for
};

} // namespace lathe::cuda
