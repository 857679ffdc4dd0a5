// What detectors end in: bins of boxes, the boxes that overlap no better one, and lists whose length is counted.

#include "backends/cuda/kernels/common.cuh"
#include "backends/cuda/kernels/detection.hpp"
#include "backends/cuda/plan/detection.hpp"

namespace lathe::cuda::kernels {
namespace {

constexpr int threads = 256;

__host__ __device__ inline std::int64_t count_of(const TensorDesc& t) {
    std::int64_t count = 1;
    for (int d = 0; d < t.rank; ++d)
        count *= t.dims[d];
    return count;
}
__device__ __forceinline__ std::int64_t load_integer(const TensorDesc& t, std::int64_t i) {
    if (t.type == type_s64) return static_cast<const std::int64_t*>(t.data)[i];
    if (t.type == type_s32) return static_cast<const std::int32_t*>(t.data)[i];
    return static_cast<std::int64_t>(load_any(t.data, t.type, i));
}
/// An index below 0 counts from the end; what is out of bounds is brought to the nearest.
__device__ __forceinline__ std::int64_t clamped(std::int64_t index, std::int64_t size) {
    if (index < 0) index += size;
    return index < 0 ? 0 : index >= size ? size - 1 : index;
}
/// A score and its place as an integer: the least is the best, of equal ones the first.
__device__ __forceinline__ std::uint64_t best_first(float score, std::uint32_t place) {
    const std::uint32_t bits = __float_as_uint(score == 0.0F ? 0.0F : score);
    const std::uint32_t up = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
    return static_cast<std::uint64_t>(~up) << 32 | place;
}

/// Neighbouring threads have what lies side by side in memory: channels of a bin, or bins of a channel. Channels that
/// only fill up become zeros.
__global__ void __launch_bounds__(threads) roi_align(const __grid_constant__ IndexedParams p, std::int64_t count) {
    pdl_wait();
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
    if (i >= count) return;
    const TensorDesc &x = p.in[0], &y = p.out[0];
    const bool channels_last = y.channel_stride > 0;
    const std::int64_t bins = y.dims[2] * y.dims[3], channels = channels_last ? y.channel_stride : y.dims[1];
    const std::int64_t channel = channels_last ? i % channels : i / bins % channels;
    const std::int64_t bin = channels_last ? i / channels % bins : i % bins, roi = i / channels / bins;
    if (channel >= y.dims[1]) return store_any(y.data, y.type, i, 0.0F);
    const std::int64_t plane = clamped(load_integer(p.in[2], roi), x.dims[0]) * x.strides[0] + channel * x.strides[1];
    const auto fetch = [&](std::int64_t row, std::int64_t column) {
        return load_any(x.data, x.type, plane + row * x.strides[2] + column * x.strides[3]);
    };
    float box[4];
    for (int k = 0; k < 4; ++k)
        box[k] = load_any(p.in[1].data, p.in[1].type, 4 * roi + k);
    const detection::RoiGrid<float> grid{p.factor, p.number, p.mode != 0, p.first != 0};
    store_any(y.data, y.type, i,
              detection::roi_bin(fetch, x.dims[2], x.dims[3], box, y.dims[2], y.dims[3], bin / y.dims[3],
                                 bin % y.dims[3], grid));
}

__device__ detection::Box box_at(const IndexedParams& p, std::int64_t i) {
    const TensorDesc& t = p.in[0];
    return {load_any(t.data, t.type, 4 * i), load_any(t.data, t.type, 4 * i + 1), load_any(t.data, t.type, 4 * i + 2),
            load_any(t.data, t.type, 4 * i + 3), p.first != 0};
}

constexpr int pick_threads = 1024;

/// The least of all threads' keys, for all of them.
__device__ std::uint64_t least_of_block(std::uint64_t key, std::uint64_t* shared) {
    for (int far = 16; far > 0; far /= 2)
        key = min(key, __shfl_xor_sync(0xffffffffU, key, far));
    __syncthreads(); // the last round's is read by all
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = key;
    __syncthreads();
    key = shared[threadIdx.x % 32];
    for (int far = 16; far > 0; far /= 2)
        key = min(key, __shfl_xor_sync(0xffffffffU, key, far));
    return key;
}

/// A block a sample and class: the best box that is left is taken, those it overlaps go. Which are left are bits in
/// shared memory, of which each thread reads and writes words of its own.
__global__ void __launch_bounds__(pick_threads) pick_boxes(const __grid_constant__ IndexedParams p) {
    extern __shared__ std::uint32_t left[];
    __shared__ std::uint64_t best[32];
    pdl_wait();
    const std::int64_t candidates = p.in[0].dims[1], classes = p.out[0].dims[1], most = p.out[0].dims[2];
    const std::int64_t boxes = blockIdx.x / classes * candidates, scores = blockIdx.x * candidates;
    const int words = static_cast<int>((candidates + 31) / 32), me = static_cast<int>(threadIdx.x);
    auto* picks = static_cast<std::int32_t*>(p.out[0].data) + blockIdx.x * most;
    const auto score = [&](std::int64_t i) { return load_any(p.in[1].data, p.in[1].type, scores + i); };
    for (int word = me; word < words; word += pick_threads) {
        std::uint32_t bits = 0;
        for (int bit = 0; bit < 32 && 32 * word + bit < candidates; ++bit) {
            const float s = score(32 * word + bit);
            if (p.second != 0 ? s > p.limit : s == s) bits |= 1U << bit;
        }
        left[word] = bits;
    }
    std::int64_t taken = 0;
    for (; taken < most; ++taken) {
        std::uint64_t key = ~std::uint64_t{0};
        for (int word = me; word < words; word += pick_threads) {
            for (std::uint32_t bits = left[word]; bits != 0; bits &= bits - 1) {
                const int i = 32 * word + __ffs(static_cast<int>(bits)) - 1;
                key = min(key, best_first(score(i), static_cast<std::uint32_t>(i)));
            }
        }
        key = least_of_block(key, best);
        if (key == ~std::uint64_t{0}) break;
        const auto chosen = static_cast<std::int32_t>(key & 0xffffffffU);
        if (me == 0) picks[taken] = chosen;
        const detection::Box box = box_at(p, boxes + chosen);
        for (int word = me; word < words; word += pick_threads) {
            std::uint32_t bits = left[word];
            for (std::uint32_t rest = bits; rest != 0; rest &= rest - 1) {
                const int i = 32 * word + __ffs(static_cast<int>(rest)) - 1;
                if (i == chosen || detection::overlap(box, box_at(p, boxes + i), p.factor)) bits &= ~(1U << (i % 32));
            }
            left[word] = bits;
        }
    }
    for (std::int64_t i = taken + me; i < most; i += pick_threads)
        picks[i] = -1;
}

/// Numbers of x that `keeps` holds for, in order: `put(place in order, place in x)`. One block; how many there are.
template <class Keeps, class Put>
__device__ std::int64_t packed(std::int64_t size, const Keeps& keeps, const Put& put) {
    __shared__ int sums[pick_threads / 32];
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    std::int64_t count = 0;
    for (std::int64_t from = 0; from < size; from += pick_threads) {
        const std::int64_t i = from + threadIdx.x;
        const bool kept = i < size && keeps(i);
        const unsigned mask = __ballot_sync(0xffffffffU, kept);
        __syncthreads();
        if (lane == 0) sums[warp] = __popc(mask);
        __syncthreads();
        int before = 0, all = 0;
        for (int k = 0; k < pick_threads / 32; ++k) {
            before += k < warp ? sums[k] : 0;
            all += sums[k];
        }
        if (kept) put(count + before + __popc(mask & ((1U << lane) - 1U)), i);
        count += all;
    }
    return count;
}

__global__ void __launch_bounds__(pick_threads) list_boxes(const __grid_constant__ IndexedParams p) {
    pdl_wait();
    const TensorDesc& picks = p.in[0];
    const std::int64_t size = picks.dims[0] * picks.dims[1] * picks.dims[2];
    auto* rows = static_cast<std::int64_t*>(p.out[0].data);
    const std::int64_t count = packed(
        size, [&](std::int64_t i) { return load_integer(picks, i) >= 0; },
        [&](std::int64_t to, std::int64_t i) {
            rows[3 * to] = i / picks.dims[2] / picks.dims[1];
            rows[3 * to + 1] = i / picks.dims[2] % picks.dims[1];
            rows[3 * to + 2] = load_integer(picks, i);
        });
    for (std::int64_t i = 3 * count + threadIdx.x; i < 3 * size; i += pick_threads)
        rows[i] = 0;
    if (threadIdx.x == 0) *static_cast<std::int64_t*>(p.out[1].data) = count;
}

__global__ void __launch_bounds__(pick_threads) nonzero(const __grid_constant__ IndexedParams p) {
    pdl_wait();
    const TensorDesc& x = p.in[0];
    const std::int64_t size = count_of(x);
    auto* places = static_cast<std::int64_t*>(p.out[0].data);
    const bool whole = x.type == type_s64 || x.type == type_s32;
    const std::int64_t count = packed(
        size, [&](std::int64_t i) { return whole ? load_integer(x, i) != 0 : load_any(x.data, x.type, i) != 0.0F; },
        [&](std::int64_t to, std::int64_t i) {
            for (int axis = x.rank - 1; axis >= 0; --axis) {
                places[axis * size + to] = i % x.dims[axis];
                i /= x.dims[axis];
            }
        });
    for (int axis = 0; axis < x.rank; ++axis)
        for (std::int64_t i = count + threadIdx.x; i < size; i += pick_threads)
            places[axis * size + i] = 0;
    if (threadIdx.x == 0) *static_cast<std::int64_t*>(p.out[1].data) = count;
}

} // namespace

cudaError_t launch_detection(const IndexedParams& p, cudaStream_t stream, bool programmatic) {
    if (p.kind == IndexedKind::roi_align) {
        const std::int64_t channels = p.out[0].channel_stride > 0 ? p.out[0].channel_stride : p.out[0].dims[1];
        const std::int64_t all = count_of(p.out[0]) / p.out[0].dims[1] * channels;
        return launch_kernel(roi_align, blocks_for(all, threads), threads, 0, stream, programmatic, 1, p, all);
    }
    if (p.kind == IndexedKind::pick_boxes) {
        const auto rows = static_cast<unsigned>(p.out[0].dims[0] * p.out[0].dims[1]);
        const auto bits = static_cast<std::size_t>((p.in[0].dims[1] + 31) / 32) * sizeof(std::uint32_t);
        return launch_kernel(pick_boxes, rows, pick_threads, bits, stream, programmatic, 1, p);
    }
    if (p.kind == IndexedKind::list_boxes)
        return launch_kernel(list_boxes, 1, pick_threads, 0, stream, programmatic, 1, p);
    return launch_kernel(nonzero, 1, pick_threads, 0, stream, programmatic, 1, p);
}

} // namespace lathe::cuda::kernels
