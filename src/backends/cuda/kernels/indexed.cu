// Operations whose places are computed: gathering, scattering, sorting out, sums along an axis, and arithmetic on
// integers. Each number is moved or computed by one thread; whoever writes the same place twice does so in one thread,
// in order, so that results are the same in every run.

#include "backends/cuda/kernels/detection.hpp"
#include "backends/cuda/kernels/indexed.hpp"
#include "backends/cuda/kernels/stored.cuh"
#include "backends/cuda/plan/grid_sample.hpp"
#include "backends/cuda/plan/whole_numbers.hpp"

namespace lathe::cuda::kernels {
namespace {

constexpr int threads = 256;

__host__ __device__ inline std::int64_t count_of(const TensorDesc& t) {
    std::int64_t count = 1;
    for (int d = 0; d < t.rank; ++d)
        count *= t.dims[d];
    return count;
}
__device__ __forceinline__ void move(const TensorDesc& to, std::int64_t at, const TensorDesc& from, std::int64_t i) {
    move_number(to.data, at, from.data, i, to.type);
}
__device__ __forceinline__ std::int64_t load_integer(const TensorDesc& t, std::int64_t i) {
    return load_whole(t.data, t.type, i);
}
__device__ __forceinline__ void store_integer(const TensorDesc& t, std::int64_t i, std::int64_t v) {
    store_whole(t.data, t.type, i, v);
}
__device__ __forceinline__ double load_number(const TensorDesc& t, std::int64_t i) {
    return kernels::load_number(t.data, t.type, i);
}
__device__ __forceinline__ void store_number(const TensorDesc& t, std::int64_t i, double v) {
    kernels::store_number(t.data, t.type, i, v);
}
__device__ __forceinline__ std::int64_t clamped(std::int64_t index, std::int64_t size) {
    if (index < 0) index += size;
    return index < 0 ? 0 : index >= size ? size - 1 : index;
}
__host__ __device__ inline std::int64_t product(const TensorDesc& t, int from, int to) {
    std::int64_t count = 1;
    for (int d = from; d < to; ++d)
        count *= t.dims[d];
    return count;
}

/// Where number i of a tensor like `shape` goes in x, with another index along the axis.
__device__ std::int64_t along_axis(const IndexedParams& p, const TensorDesc& shape, std::int64_t i,
                                   std::int64_t index) {
    std::int64_t offset = 0;
    for (int d = shape.rank - 1; d >= 0; --d) {
        const std::int64_t at = i % shape.dims[d];
        i /= shape.dims[d];
        offset += (d == p.axis ? clamped(index, p.in[0].dims[d]) : at) * p.in[0].strides[d];
    }
    return offset;
}

/// What a tuple of indices names in x, in numbers from its beginning.
__device__ std::int64_t tuple(const IndexedParams& p, std::int64_t which, int batch_dims, std::int64_t inner) {
    const TensorDesc& indices = p.in[1];
    const int width = static_cast<int>(indices.dims[indices.rank - 1]);
    std::int64_t offset = which / product(indices, batch_dims, indices.rank - 1);
    for (int k = 0; k < width; ++k) {
        const std::int64_t size = p.in[0].dims[batch_dims + k];
        offset = offset * size + clamped(load_integer(indices, which * width + k), size);
    }
    return offset * inner;
}

__device__ void scatter_one(const IndexedParams& p, std::int64_t to, std::int64_t from) {
    const auto how = static_cast<Scatter>(p.mode);
    if (how == Scatter::replace) return move(p.out[0], to, p.in[2], from);
    if (p.out[0].type == type_s64) {
        const std::int64_t there = load_integer(p.out[0], to), fresh = load_integer(p.in[2], from);
        store_integer(p.out[0], to,
                      how == Scatter::add        ? there + fresh
                      : how == Scatter::multiply ? there * fresh
                      : how == Scatter::largest  ? (there > fresh ? there : fresh)
                                                 : (there < fresh ? there : fresh));
        return;
    }
    const double there = load_number(p.out[0], to), fresh = load_number(p.in[2], from);
    store_number(p.out[0], to,
                 how == Scatter::add        ? there + fresh
                 : how == Scatter::multiply ? there * fresh
                 : how == Scatter::largest  ? fmax(there, fresh)
                                            : fmin(there, fresh));
}

/// Place of number i of the result in an operand that is broadcast to it.
__device__ std::int64_t broadcast(const TensorDesc& from, const TensorDesc& to, std::int64_t i) {
    std::int64_t offset = 0;
    for (int d = to.rank - 1; d >= 0; --d) {
        const std::int64_t at = i % to.dims[d];
        i /= to.dims[d];
        const int own = d - (to.rank - from.rank);
        if (own >= 0 && from.dims[own] != 1) offset += at * from.strides[own];
    }
    return offset;
}

/// A line along the axis of x: its first number and the step, which is the number of lines side by side.
struct Line {
    std::int64_t from, step, size;
};
__device__ Line line_of(const IndexedParams& p, const TensorDesc& t, std::int64_t i) {
    const int axis = static_cast<int>(p.axis);
    const std::int64_t inner = product(t, axis + 1, t.rank), size = t.dims[axis];
    return {i / inner * size * inner + i % inner, inner, size};
}

/// NaN is above all numbers.
__device__ __forceinline__ bool above(double a, double b) { return a > b || (isnan(a) && !isnan(b)); }

/// Number i of x goes where its rank in its line says, if that is among the best.
__device__ void top_k(const IndexedParams& p, std::int64_t i) {
    const TensorDesc& x = p.in[0];
    const std::int64_t inner = product(x, static_cast<int>(p.axis) + 1, x.rank), size = x.dims[p.axis];
    const std::int64_t place = i / inner % size, which = i / (inner * size) * inner + i % inner;
    const Line line = line_of(p, x, which), to = line_of(p, p.out[0], which);
    const double own = load_number(x, i);
    std::int64_t rank = 0;
    for (std::int64_t j = 0; j < line.size; ++j) {
        const double v = load_number(x, line.from + j * line.step);
        const bool before = p.mode != 0 ? above(v, own) : above(own, v);
        rank += before || (j < place && !above(v, own) && !above(own, v)) ? 1 : 0;
    }
    if (rank >= to.size) return;
    move(p.out[0], to.from + rank * to.step, x, i);
    store_integer(p.out[1], to.from + rank * to.step, place);
}

__device__ void arg_extreme(const IndexedParams& p, std::int64_t i) {
    const Line line = line_of(p, p.in[0], i);
    std::int64_t best = 0;
    double held = load_number(p.in[0], line.from);
    for (std::int64_t j = 1; j < line.size; ++j) {
        const double v = load_number(p.in[0], line.from + j * line.step);
        if ((p.mode != 0 ? v > held : v < held) || (p.first != 0 && v == held)) {
            held = v;
            best = j;
        }
    }
    store_integer(p.out[0], i, best);
}

__device__ void cumulate(const IndexedParams& p, std::int64_t i) {
    const Line line = line_of(p, p.in[0], i);
    const bool exact = p.in[0].type == type_s64;
    double sum = 0;
    std::int64_t whole = 0;
    for (std::int64_t j = 0; j < line.size; ++j) {
        const std::int64_t at = line.from + (p.second != 0 ? line.size - 1 - j : j) * line.step;
        const double fresh = load_number(p.in[0], at);
        const std::int64_t integer = exact ? load_integer(p.in[0], at) : 0;
        if (p.first == 0) sum += fresh, whole += integer;
        if (exact)
            store_integer(p.out[0], at, whole);
        else
            store_number(p.out[0], at, sum);
        if (p.first != 0) sum += fresh, whole += integer;
    }
}

__device__ void arithmetic(const IndexedParams& p, std::int64_t i) {
    const TensorDesc& y = p.out[0];
    const auto how = static_cast<Integer>(p.mode);
    std::int64_t at[3];
    for (int k = 0; k < p.in_count; ++k)
        at[k] = broadcast(p.in[k], y, i);
    if (whole::is_of_reals(how)) {
        store_number(y, i, whole::computed(how, load_number(p.in[0], at[0]), load_number(p.in[1], at[1])));
        return;
    }
    std::int64_t v[3] = {};
    for (int k = 0; k < p.in_count; ++k)
        v[k] = load_integer(p.in[k], at[k]);
    store_integer(y, i, whole::computed(how, v[0], v[1], v[2], p.first != 0));
}

__device__ void grid_sample(const IndexedParams& p, std::int64_t i) {
    const TensorDesc &x = p.in[0], &y = p.out[0], &grid = p.in[1];
    const std::int64_t places = product(y, 2, y.rank), plane = i / places, size = product(x, 2, x.rank);
    const std::int64_t place = plane / y.dims[1] * places + i % places;
    const auto to = [&](int k) { return load_any(grid.data, grid.type, (x.rank - 2) * place + k); };
    const auto how = static_cast<Sampling>(p.mode);
    const auto outside = static_cast<Outside>(p.number);
    float v = 0;
    if (x.rank == 5) {
        const auto fetch = [&](std::int64_t depth, std::int64_t row, std::int64_t column) {
            return load_any(x.data, x.type, plane * size + (depth * x.dims[3] + row) * x.dims[4] + column);
        };
        v = sampling::sample_volume(fetch, x.dims[2], x.dims[3], x.dims[4], to(0), to(1), to(2), how, outside,
                                    p.first != 0);
    } else {
        const auto fetch = [&](std::int64_t row, std::int64_t column) {
            return load_any(x.data, x.type, plane * size + row * x.dims[3] + column);
        };
        v = sampling::sample(fetch, x.dims[2], x.dims[3], to(0), to(1), how, outside, p.first != 0);
    }
    store_any(y.data, y.type, i, v);
}

__device__ void reverse_sequence(const IndexedParams& p, std::int64_t i) {
    const TensorDesc& x = p.in[0];
    const int time = static_cast<int>(p.axis), batch = static_cast<int>(p.number);
    const std::int64_t step = product(x, time + 1, x.rank), steps = x.dims[time];
    const std::int64_t at = i / step % steps;
    std::int64_t length = load_integer(p.in[1], i / product(x, batch + 1, x.rank) % x.dims[batch]);
    length = length > steps ? steps : length;
    move(p.out[0], i, x, at < length ? i + (length - 1 - 2 * at) * step : i);
}

/// Number i of the result as it lies in memory, its padding channels too.
__device__ void depth_taps(const IndexedParams& p, std::int64_t i) {
    const TensorDesc &x = p.in[0], &y = p.out[0];
    const std::int64_t channel = i % y.channel_stride, plane = x.dims[3] * x.dims[4];
    const std::int64_t pixel = i / y.channel_stride % plane, e = i / (y.channel_stride * plane) % y.dims[2];
    const std::int64_t n = i / (y.channel_stride * plane * y.dims[2]), tap = channel / x.channel_stride;
    const std::int64_t depth = e * p.axis + tap * p.mode - p.number;
    if (channel >= y.dims[1] || depth < 0 || depth >= x.dims[2])
        store_any(y.data, y.type, i, 0.0F);
    else
        move(y, i, x, ((n * x.dims[2] + depth) * plane + pixel) * x.channel_stride + channel % x.channel_stride);
}

/// How many threads there are to be.
std::int64_t work(const IndexedParams& p) {
    const TensorDesc& x = p.in[0];
    switch (p.kind) {
        case IndexedKind::top_k: return count_of(x);
        case IndexedKind::arg_extreme:
        case IndexedKind::cumulate: return count_of(x) / x.dims[p.axis];
        case IndexedKind::scatter_elements: return count_of(p.in[2]) / p.in[2].dims[p.axis];
        case IndexedKind::scatter_nd: return count_of(p.in[2]); // see below for sums
        case IndexedKind::depth_taps: return count_of(p.out[0]) / p.out[0].dims[1] * p.out[0].channel_stride;
        default: return count_of(p.out[0]);
    }
}

__global__ void indexed(const __grid_constant__ IndexedParams p, std::int64_t count) {
    pdl_wait();
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
    if (i >= count) return;
    const TensorDesc &x = p.in[0], &y = p.out[0];
    switch (p.kind) {
        case IndexedKind::gather_elements: {
            std::int64_t index = 0, rest = i; // indices of size 1 are for all
            for (int d = y.rank - 1; d >= 0; rest /= y.dims[d--])
                index += p.in[1].dims[d] == 1 ? 0 : rest % y.dims[d] * p.in[1].strides[d];
            move(y, i, x, along_axis(p, y, i, load_integer(p.in[1], index)));
            break;
        }
        case IndexedKind::gather_nd: {
            const int batch_dims = static_cast<int>(p.axis);
            const std::int64_t inner =
                product(x, batch_dims + static_cast<int>(p.in[1].dims[p.in[1].rank - 1]), x.rank);
            move(y, i, x, tuple(p, i / inner, batch_dims, inner) + i % inner);
            break;
        }
        case IndexedKind::scatter_elements: {
            // All that may meet lies along one line.
            const Line line = line_of(p, p.in[2], i);
            for (std::int64_t j = 0; j < line.size; ++j) {
                const std::int64_t at = line.from + j * line.step;
                scatter_one(p, along_axis(p, p.in[1], at, load_integer(p.in[1], at)), at);
            }
            break;
        }
        case IndexedKind::scatter_nd: {
            const std::int64_t inner = product(x, static_cast<int>(p.in[1].dims[p.in[1].rank - 1]), x.rank);
            if (static_cast<Scatter>(p.mode) == Scatter::replace) {
                move(y, tuple(p, i / inner, 0, inner) + i % inner, p.in[2], i);
                break;
            }
            if (i >= inner) break;
            for (std::int64_t which = 0; which < count_of(p.in[2]) / inner; ++which)
                scatter_one(p, tuple(p, which, 0, inner) + i, which * inner + i);
            break;
        }
        case IndexedKind::top_k: top_k(p, i); break;
        case IndexedKind::arg_extreme: arg_extreme(p, i); break;
        case IndexedKind::cumulate: cumulate(p, i); break;
        case IndexedKind::triangle: {
            const std::int64_t columns = x.dims[x.rank - 1], rows = x.dims[x.rank - 2];
            const std::int64_t across = i % columns - i / columns % rows;
            if (p.first != 0 ? across < p.number : across > p.number)
                store_stored(y.data, y.type, i, 0.0F);
            else
                move(y, i, x, i);
            break;
        }
        case IndexedKind::one_hot: {
            const int axis = static_cast<int>(p.axis);
            const std::int64_t depth = y.dims[axis], inner = product(y, axis + 1, y.rank);
            std::int64_t index = load_integer(x, i / (inner * depth) * inner + i % inner);
            if (index < 0) index += depth;
            move(y, i, p.in[1], i / inner % depth == index ? 1 : 0);
            break;
        }
        case IndexedKind::pad: {
            const int axis = static_cast<int>(p.axis);
            const std::int64_t wide = y.dims[axis], size = x.dims[axis], inner = product(y, axis + 1, y.rank);
            const std::int64_t at = i / inner % wide - p.number;
            const auto how = static_cast<Padding>(p.mode);
            const bool within = at >= 0 && at < size;
            if (within || how != Padding::constant) {
                const std::int64_t from = within ? at : sampling::padded_from(at, size, how);
                move(y, i, x, (i / (inner * wide) * size + from) * inner + i % inner);
            } else if (p.in_count > 1) {
                move(y, i, p.in[1], 0);
            } else {
                store_stored(y.data, y.type, i, 0.0F);
            }
            break;
        }
        case IndexedKind::grid_sample: grid_sample(p, i); break;
        case IndexedKind::depth_taps: depth_taps(p, i); break;
        case IndexedKind::reverse_sequence: reverse_sequence(p, i); break;
        case IndexedKind::arithmetic: arithmetic(p, i); break;
        case IndexedKind::roi_align:
        case IndexedKind::pick_boxes:
        case IndexedKind::list_boxes:
        case IndexedKind::nonzero: break; // detection.cu
    }
}

__global__ void copy_all(const __grid_constant__ IndexedParams p, std::int64_t count) {
    pdl_wait();
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
    if (i < count) move(p.out[0], i, p.in[0], i);
}

} // namespace

cudaError_t launch_indexed(const IndexedParams& p, cudaStream_t stream, bool programmatic) {
    if (p.kind == IndexedKind::scatter_elements || p.kind == IndexedKind::scatter_nd) {
        const std::int64_t all = count_of(p.in[0]);
        const cudaError_t code =
            launch_kernel(copy_all, blocks_for(all, threads), threads, 0, stream, programmatic, 1, p, all);
        if (code != cudaSuccess || count_of(p.in[2]) == 0) return code;
    }
    if (p.kind == IndexedKind::roi_align || p.kind == IndexedKind::pick_boxes || p.kind == IndexedKind::list_boxes ||
        p.kind == IndexedKind::nonzero)
        return launch_detection(p, stream, programmatic);
    const std::int64_t count = work(p);
    return launch_kernel(indexed, blocks_for(count, threads), threads, 0, stream, programmatic, 1, p, count);
}

} // namespace lathe::cuda::kernels
