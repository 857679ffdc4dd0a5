// Operations on the lines along an axis (the best k, the place of an extreme, running sums), and sampling of images.
// Numbers are compared as integers that sort as they do, with their place behind: whatever the order of threads, of
// equal numbers the one that ONNX names is taken.

#include <type_traits>

#include "backends/cuda/kernels/common.cuh"
#include "backends/cuda/kernels/lines.hpp"
#include "backends/cuda/plan/grid_sample.hpp"

namespace lathe::cuda::kernels {
namespace {

constexpr unsigned whole_warp = 0xffffffffU;

/// The lines of a linear tensor: number j of line i is at first(i) + j * step.
struct Lines {
    std::int64_t count, size, step;
    __host__ __device__ Lines(const TensorDesc& t, std::int64_t axis) : count(1), size(t.dims[axis]), step(1) {
        for (int d = 0; d < t.rank; ++d) {
            if (d != axis) count *= t.dims[d];
            if (d > axis) step *= t.dims[d];
        }
    }
    __device__ std::int64_t first(std::int64_t line) const { return line / step * size * step + line % step; }
};

bool is_float(std::int32_t type) { return type == type_f32 || type == type_f16 || type == type_bf16; }

/// Calls with a null pointer of the type's storage.
template <class Call>
cudaError_t with_float(std::int32_t type, const Call& call) {
    if (type == type_f32) return call(static_cast<float*>(nullptr));
    if (type == type_f16) return call(static_cast<__half*>(nullptr));
    return call(static_cast<__nv_bfloat16*>(nullptr));
}

/// An integer that sorts as the number does: ascending, or descending where the largest come first. Both zeros are one.
template <class T>
__device__ __forceinline__ std::uint32_t sort_key(T v, bool largest) {
    if constexpr (sizeof(T) == 4) {
        const std::uint32_t bits = __float_as_uint(v == 0.0F ? 0.0F : v);
        const std::uint32_t up = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
        return largest ? ~up : up;
    } else {
        std::uint32_t bits = *reinterpret_cast<const std::uint16_t*>(&v);
        if (bits == 0x8000U) bits = 0;
        const std::uint32_t up = (bits & 0x8000U) != 0 ? ~bits & 0xffffU : bits | 0x8000U;
        return largest ? ~up & 0xffffU : up;
    }
}

__device__ __forceinline__ void store_place(const TensorDesc& t, std::int64_t at, std::int64_t place) {
    if (t.type == type_s64)
        static_cast<std::int64_t*>(t.data)[at] = place;
    else
        static_cast<std::int32_t*>(t.data)[at] = static_cast<std::int32_t>(place);
}

__device__ __forceinline__ std::uint64_t warp_smallest(std::uint64_t v) {
    for (int far = 16; far > 0; far /= 2)
        v = min(v, __shfl_xor_sync(whole_warp, v, far));
    return v;
}

// ---- the best k

/// How many bits the places of a line take, at least one.
__host__ __device__ inline int place_bits(std::int64_t size) {
    int bits = 1;
    while ((std::int64_t{1} << bits) < size)
        ++bits;
    return bits;
}

constexpr int digit_bits = 11;
constexpr int digits = 1 << digit_bits;
constexpr int largest_k = 4096;
constexpr std::int64_t keys_in_shared = 16384; // of 4 bytes; what a multiprocessor of any GPU has

int power_of_two(std::int64_t n) {
    int power = 2;
    while (power < n)
        power *= 2;
    return power;
}

template <int threads>
__device__ void sort_shared(std::uint64_t* keys, int size) {
    for (int run = 2; run <= size; run *= 2) {
        for (int far = run / 2; far > 0; far /= 2) {
            __syncthreads();
            for (int i = static_cast<int>(threadIdx.x); i < size / 2; i += threads) {
                const int a = 2 * i - (i & (far - 1)), b = a + far;
                const bool up = (a & run) == 0;
                const std::uint64_t left = keys[a], right = keys[b];
                if ((left > right) == up) {
                    keys[a] = right;
                    keys[b] = left;
                }
            }
        }
    }
    __syncthreads();
}

/// What a digit's histogram says: the digit under which the number wanted is, how many are below it and in it.
struct Digit {
    int digit, below, inside;
};

/// A block a line. `sorted`: keys that are sorted at last, a power of two; `keep`: the line's keys stay in shared
/// memory.
template <class T, int threads>
__global__ void __launch_bounds__(threads)
    top_k_block(const __grid_constant__ IndexedParams p, const Lines lines, const Lines to, int sorted, bool keep) {
    extern __shared__ std::uint64_t best[];
    __shared__ int warp_sums[threads / 32];
    __shared__ Digit found;
    __shared__ int taken;
    int* const histogram = reinterpret_cast<int*>(best + sorted);
    auto* const kept = reinterpret_cast<std::uint32_t*>(histogram + digits);
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const auto size = static_cast<int>(lines.size), k = static_cast<int>(to.size);
    const bool largest = p.mode != 0;
    pdl_wait();
    const std::int64_t first = lines.first(blockIdx.x);
    const T* const x = static_cast<const T*>(p.in[0].data) + first;
    const auto key_of = [&](int j) { return sort_key(x[j * lines.step], largest); };
    if (keep)
        for (int j = thread; j < size; j += threads)
            kept[j] = key_of(j);
    const int places = place_bits(lines.size);
    const auto number = [&](int j) {
        return static_cast<std::uint64_t>(keep ? kept[j] : key_of(j)) << places | static_cast<std::uint64_t>(j);
    };
    // Digit by digit from the top, until all under the digits found are wanted.
    std::uint64_t prefix = 0;
    int unknown = 8 * static_cast<int>(sizeof(T)) + places, need = k;
    while (true) {
        const int width = min(digit_bits, unknown), shift = unknown - width;
        for (int i = thread; i < digits; i += threads)
            histogram[i] = 0;
        if (thread == 0) taken = 0;
        __syncthreads();
        for (int j = thread; j < size; j += threads) {
            const std::uint64_t v = number(j);
            if (v >> unknown == prefix) atomicAdd(&histogram[static_cast<int>(v >> shift) & ((1 << width) - 1)], 1);
        }
        __syncthreads();
        constexpr int own = digits / threads;
        int sum = 0;
        for (int i = 0; i < own; ++i)
            sum += histogram[thread * own + i];
        int through = sum;
        for (int far = 1; far < 32; far *= 2) {
            const int other = __shfl_up_sync(whole_warp, through, far);
            if (lane >= far) through += other;
        }
        if (lane == 31) warp_sums[warp] = through;
        __syncthreads();
        for (int i = 0; i < warp; ++i)
            through += warp_sums[i];
        int below = through - sum;
        if (below < need && need <= through) {
            int digit = thread * own;
            while (below + histogram[digit] < need)
                below += histogram[digit++];
            found = {digit, below, histogram[digit]};
        }
        __syncthreads();
        prefix = prefix << width | static_cast<std::uint64_t>(found.digit);
        unknown = shift;
        need -= found.below;
        if (found.inside == need) break;
        __syncthreads();
    }
    for (int i = thread; i < sorted; i += threads)
        best[i] = ~std::uint64_t{0};
    __syncthreads();
    for (int j = thread; j < size; j += threads) {
        const std::uint64_t v = number(j);
        if (v >> unknown <= prefix) best[atomicAdd(&taken, 1)] = v;
    }
    sort_shared<threads>(best, sorted);
    const std::int64_t mask = (std::int64_t{1} << places) - 1, at = to.first(blockIdx.x);
    for (int i = thread; i < k; i += threads) {
        const std::int64_t place = static_cast<std::int64_t>(best[i]) & mask;
        static_cast<T*>(p.out[0].data)[at + i * to.step] = x[place * lines.step];
        store_place(p.out[1], at + i * to.step, place);
    }
}

constexpr int warps_a_block = 8;

/// A warp a line of at most 32 * items numbers.
template <class T, int items>
__global__ void __launch_bounds__(32 * warps_a_block)
    top_k_warp(const __grid_constant__ IndexedParams p, const Lines lines, const Lines to) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::int64_t line = std::int64_t{blockIdx.x} * warps_a_block + threadIdx.x / 32;
    pdl_wait();
    if (line >= lines.count) return;
    const T* const x = static_cast<const T*>(p.in[0].data) + lines.first(line);
    const auto size = static_cast<int>(lines.size), k = static_cast<int>(to.size);
    constexpr std::uint64_t gone = ~std::uint64_t{0};
    std::uint64_t held[items], own = gone;
#pragma unroll
    for (int i = 0; i < items; ++i) {
        const int j = i * 32 + lane;
        held[i] = j < size ? static_cast<std::uint64_t>(sort_key(x[j * lines.step], p.mode != 0)) << 32 |
                                 static_cast<std::uint64_t>(j)
                           : gone;
        own = min(own, held[i]);
    }
    std::int64_t mine = 0; // lane n keeps the n-th
    for (int n = 0; n < k; ++n) {
        const std::uint64_t best = warp_smallest(own);
        if (lane == n) mine = static_cast<std::int64_t>(best & 0xffffffffU);
        if (own != best) continue;
        own = gone;
#pragma unroll
        for (int i = 0; i < items; ++i) {
            if (held[i] == best) held[i] = gone;
            own = min(own, held[i]);
        }
    }
    if (lane >= k) return;
    const std::int64_t at = to.first(line) + lane * to.step;
    static_cast<T*>(p.out[0].data)[at] = x[mine * lines.step];
    store_place(p.out[1], at, mine);
}

template <class T, int threads>
cudaError_t launch_block(const IndexedParams& p, cudaStream_t stream, bool programmatic) {
    const Lines lines(p.in[0], p.axis), to(p.out[0], p.axis);
    const int sorted = power_of_two(to.size);
    const bool keep = lines.size <= keys_in_shared;
    const auto bytes = static_cast<std::size_t>(top_k_shared_bytes(p, threads));
    const cudaError_t code = cudaFuncSetAttribute(reinterpret_cast<const void*>(top_k_block<T, threads>),
                                                  cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
    if (code != cudaSuccess) return code;
    return launch_kernel(top_k_block<T, threads>, static_cast<unsigned>(lines.count), threads, bytes, stream,
                         programmatic, 1, p, lines, to, sorted, keep);
}
template <class T, int items>
cudaError_t launch_warp(const IndexedParams& p, cudaStream_t stream, bool programmatic) {
    const Lines lines(p.in[0], p.axis), to(p.out[0], p.axis);
    return launch_kernel(top_k_warp<T, items>, blocks_for(lines.count, warps_a_block), 32 * warps_a_block, 0, stream,
                         programmatic, 1, p, lines, to);
}

// ---- places of extremes

/// `threads` a line, in blocks of `size` threads.
template <class T, int threads, int size>
__global__ void __launch_bounds__(size) arg_extreme_lines(const __grid_constant__ IndexedParams p, const Lines lines) {
    __shared__ std::uint64_t best[size / 32];
    const std::int64_t line = (std::int64_t{blockIdx.x} * size + threadIdx.x) / threads;
    pdl_wait();
    if (line >= lines.count) return; // whole warps where a line has several
    const T* const x = static_cast<const T*>(p.in[0].data) + lines.first(line);
    const auto count = static_cast<std::uint32_t>(lines.size);
    std::uint64_t held = ~std::uint64_t{0};
#pragma unroll 4
    for (std::uint32_t j = threadIdx.x % threads; j < count; j += threads) {
        const std::uint32_t place = p.first != 0 ? count - 1 - j : j;
        held = min(held, static_cast<std::uint64_t>(sort_key(x[j * lines.step], p.mode != 0)) << 32 | place);
    }
    if constexpr (threads >= 32) held = warp_smallest(held);
    if constexpr (threads == size) {
        if (threadIdx.x % 32 == 0) best[threadIdx.x / 32] = held;
        __syncthreads();
        for (const std::uint64_t other : best)
            held = min(held, other);
    }
    if (threadIdx.x % threads != 0) return;
    const auto place = static_cast<std::uint32_t>(held);
    store_place(p.out[0], line, p.first != 0 ? count - 1 - place : place);
}

template <class T, int threads, int size>
cudaError_t launch_extreme(const IndexedParams& p, cudaStream_t stream, bool programmatic) {
    const Lines lines(p.in[0], p.axis);
    return launch_kernel(arg_extreme_lines<T, threads, size>, blocks_for(lines.count * threads, size), size, 0, stream,
                         programmatic, 1, p, lines);
}

// ---- running sums

template <class T, class Sum>
__device__ __forceinline__ Sum as_sum(T v) {
    if constexpr (std::is_same_v<Sum, float>)
        return to_float(v);
    else
        return v;
}
template <class T, class Sum>
__device__ __forceinline__ T of_sum(Sum v) {
    if constexpr (std::is_same_v<Sum, float>)
        return from_float<T>(v);
    else
        return static_cast<T>(v);
}

constexpr int sum_items = 4; // a thread's numbers, neighbours along the line
constexpr int sum_threads = 256;

/// `threads` a line, in blocks of sum_threads. Blocked sums: each number's error grows with the logarithm of its place.
template <class T, class Sum, int threads>
__global__ void __launch_bounds__(sum_threads)
    cumulate_lines(const __grid_constant__ IndexedParams p, const Lines lines) {
    __shared__ Sum warp_sums[2][sum_threads / 32]; // two in turn: one barrier a round
    const int thread = static_cast<int>(threadIdx.x) % threads, lane = static_cast<int>(threadIdx.x) % 32;
    const std::int64_t line = (std::int64_t{blockIdx.x} * sum_threads + threadIdx.x) / threads;
    pdl_wait();
    if (line >= lines.count) return;
    const std::int64_t first = lines.first(line), size = lines.size;
    const T* const x = static_cast<const T*>(p.in[0].data) + first;
    T* const y = static_cast<T*>(p.out[0].data) + first;
    Sum before = 0; // of all rounds
    for (std::int64_t from = 0, round = 0; from < size; from += threads * sum_items, ++round) {
        Sum fresh[sum_items], sum = 0;
        std::int64_t at[sum_items];
#pragma unroll
        for (int i = 0; i < sum_items; ++i) {
            const std::int64_t j = from + thread * sum_items + i;
            at[i] = j < size ? (p.second != 0 ? size - 1 - j : j) * lines.step : -1;
            fresh[i] = at[i] < 0 ? Sum{0} : as_sum<T, Sum>(x[at[i]]);
        }
#pragma unroll
        for (int i = 0; i < sum_items; ++i)
            sum += fresh[i];
        Sum through = sum;
        for (int far = 1; far < 32; far *= 2) {
            const Sum other = __shfl_up_sync(whole_warp, through, far);
            if (lane >= far) through += other;
        }
        Sum all = __shfl_sync(whole_warp, through, 31);
        Sum running = before + through - sum;
        if constexpr (threads > 32) {
            Sum* const sums = warp_sums[round % 2];
            if (lane == 31) sums[threadIdx.x / 32] = through;
            __syncthreads();
            all = 0;
            running = before;
            for (int i = 0; i < threads / 32; ++i) {
                if (i < static_cast<int>(threadIdx.x) / 32) running += sums[i];
                all += sums[i];
            }
            running += through - sum;
        }
#pragma unroll
        for (int i = 0; i < sum_items; ++i) {
            const Sum with = running + fresh[i];
            if (at[i] >= 0) y[at[i]] = of_sum<T, Sum>(p.first != 0 ? running : with);
            running = with;
        }
        before += all;
    }
}

template <class T, class Sum>
cudaError_t launch_sums(const IndexedParams& p, int threads, cudaStream_t stream, bool programmatic) {
    const Lines lines(p.in[0], p.axis);
    const unsigned blocks = blocks_for(lines.count * threads, sum_threads);
    if (threads == 32)
        return launch_kernel(cumulate_lines<T, Sum, 32>, blocks, sum_threads, 0, stream, programmatic, 1, p, lines);
    return launch_kernel(cumulate_lines<T, Sum, 256>, blocks, sum_threads, 0, stream, programmatic, 1, p, lines);
}

// ---- sampling

/// Which pixels of a plane a place reads, and their shares; a pixel below 0 is a zero.
struct Taps {
    static constexpr int most = 4;
    int pixel[most];
    float share[most];
};

template <Sampling how>
__device__ __forceinline__ Taps taps_of(float x, float y, int height, int width, Outside outside, bool align) {
    const sampling::Axis<float> across(width, align), down(height, align);
    x = across.place(x, align);
    y = down.place(y, align);
    if constexpr (how == Sampling::nearest) {
        x = nearbyintf(x);
        y = nearbyintf(y);
    }
    x = across.inside(x, outside);
    y = down.inside(y, outside);
    const auto pixel = [&](float row, float column) {
        const std::int64_t i = down.pixel(row, outside), j = across.pixel(column, outside);
        return i < 0 || j < 0 ? -1 : static_cast<int>(i * width + j);
    };
    if constexpr (how == Sampling::nearest) return {{pixel(nearbyintf(y), nearbyintf(x)), -1, -1, -1}, {1, 0, 0, 0}};
    const float left = floorf(x), top = floorf(y), dx = x - left, dy = y - top;
    return {{pixel(top, left), pixel(top, left + 1), pixel(top + 1, left), pixel(top + 1, left + 1)},
            {(1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx}};
}

constexpr int grid_threads = 256;

/// Planes blockIdx.y * channels and on of a sample, in places from blockIdx.x on; a staged block goes through all
/// places.
template <class T, Sampling how, bool staged>
__global__ void __launch_bounds__(grid_threads)
    sample_planes(const __grid_constant__ IndexedParams p, int channels, int groups) {
    extern __shared__ uint4 shared[];
    const TensorDesc &in = p.in[0], &out = p.out[0];
    const auto height = static_cast<int>(in.dims[2]), width = static_cast<int>(in.dims[3]);
    const std::int64_t pixels = in.dims[2] * in.dims[3], places = out.dims[2] * out.dims[3];
    const std::int64_t sample = blockIdx.y / groups, plane = blockIdx.y % groups * channels;
    const auto count = static_cast<int>(min(std::int64_t{channels}, in.dims[1] - plane));
    pdl_wait();
    const T* const x = static_cast<const T*>(in.data) + (sample * in.dims[1] + plane) * pixels;
    T* const y = static_cast<T*>(out.data) + (sample * in.dims[1] + plane) * places;
    const T* from = x;
    if constexpr (staged) {
        T* const planes = reinterpret_cast<T*>(shared);
        const std::int64_t all = count * pixels;
        std::int64_t done = 0;
        if (reinterpret_cast<std::uintptr_t>(x) % sizeof(uint4) == 0) {
            const std::int64_t words = all * static_cast<std::int64_t>(sizeof(T)) / 16;
            for (std::int64_t i = threadIdx.x; i < words; i += grid_threads)
                shared[i] = reinterpret_cast<const uint4*>(x)[i];
            done = words * 16 / static_cast<std::int64_t>(sizeof(T));
        }
        for (std::int64_t i = done + threadIdx.x; i < all; i += grid_threads)
            planes[i] = x[i];
        __syncthreads();
        from = planes;
    }
    const std::int64_t step = staged ? grid_threads : std::int64_t{gridDim.x} * grid_threads;
    const std::int64_t begin = staged ? threadIdx.x : std::int64_t{blockIdx.x} * grid_threads + threadIdx.x;
    for (std::int64_t place = begin; place < places; place += step) {
        const std::int64_t at = 2 * (sample * places + place);
        const float across = load_any(p.in[1].data, p.in[1].type, at);
        const float down = load_any(p.in[1].data, p.in[1].type, at + 1);
        const auto outside = static_cast<Outside>(p.number);
        if constexpr (how == Sampling::cubic) {
            for (int c = 0; c < count; ++c) {
                const auto fetch = [&](std::int64_t row, std::int64_t column) {
                    return to_float(from[c * pixels + row * width + column]);
                };
                y[c * places + place] =
                    from_float<T>(sampling::sample(fetch, height, width, across, down, how, outside, p.first != 0));
            }
        } else {
            const Taps taps = taps_of<how>(across, down, height, width, outside, p.first != 0);
            constexpr int used = how == Sampling::nearest ? 1 : 4;
#pragma unroll 4
            for (int c = 0; c < count; ++c) {
                float sum = 0;
#pragma unroll
                for (int i = 0; i < used; ++i)
                    if (taps.pixel[i] >= 0) sum += taps.share[i] * to_float(from[c * pixels + taps.pixel[i]]);
                y[c * places + place] = from_float<T>(sum);
            }
        }
    }
}

template <class T, Sampling how>
cudaError_t launch_planes(const IndexedParams& p, const GridTile& tile, cudaStream_t stream, bool programmatic) {
    const std::int64_t places = p.out[0].dims[2] * p.out[0].dims[3];
    const auto groups = static_cast<int>((p.in[0].dims[1] + tile.channels - 1) / tile.channels);
    const auto planes = static_cast<unsigned>(p.in[0].dims[0] * groups);
    if (!tile.staged)
        return launch_kernel(sample_planes<T, how, false>, dim3(blocks_for(places, grid_threads), planes), grid_threads,
                             0, stream, programmatic, 1, p, tile.channels, groups);
    const std::int64_t bytes = grid_sample_shared_bytes(p, tile);
    const cudaError_t code = cudaFuncSetAttribute(reinterpret_cast<const void*>(sample_planes<T, how, true>),
                                                  cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
    if (code != cudaSuccess) return code;
    return launch_kernel(sample_planes<T, how, true>, dim3(1, planes), grid_threads, static_cast<std::size_t>(bytes),
                         stream, programmatic, 1, p, tile.channels, groups);
}

} // namespace

bool top_k_takes(const IndexedParams& p, int threads) {
    if (p.kind != IndexedKind::top_k || !is_float(p.in[0].type) || p.out[0].type != p.in[0].type) return false;
    const Lines lines(p.in[0], p.axis), to(p.out[0], p.axis);
    if (lines.count < 1 || to.size < 1 || to.size > lines.size || lines.count >= 0x7fffffff) return false;
    if (threads == 32) return lines.size <= 1024 && to.size <= 32;
    return (threads == 256 || threads == 1024) && to.size <= largest_k && lines.size < 0x7fffffff;
}

std::int64_t top_k_shared_bytes(const IndexedParams& p, int threads) {
    if (threads == 32) return 0;
    const std::int64_t size = p.in[0].dims[p.axis], sorted = power_of_two(p.out[0].dims[p.axis]);
    return std::int64_t{sizeof(std::uint64_t)} * sorted + std::int64_t{sizeof(int)} * digits +
           (size <= keys_in_shared ? std::int64_t{sizeof(std::uint32_t)} * size : 0);
}

cudaError_t launch_top_k(const IndexedParams& p, int threads, cudaStream_t stream, bool programmatic) {
    return with_float(p.in[0].type, [&]<class T>(T*) {
        if (threads == 256) return launch_block<T, 256>(p, stream, programmatic);
        if (threads == 1024) return launch_block<T, 1024>(p, stream, programmatic);
        const std::int64_t size = p.in[0].dims[p.axis];
        if (size <= 128) return launch_warp<T, 4>(p, stream, programmatic);
        if (size <= 256) return launch_warp<T, 8>(p, stream, programmatic);
        return launch_warp<T, 32>(p, stream, programmatic);
    });
}

bool arg_extreme_takes(const IndexedParams& p, int threads) {
    if (p.kind != IndexedKind::arg_extreme || !is_float(p.in[0].type)) return false;
    const Lines lines(p.in[0], p.axis);
    return (threads == 1 || threads == 32 || threads == 256) && lines.count > 0 && lines.count < 0x7fffffff / 256 &&
           lines.size < 0x7fffffff;
}

cudaError_t launch_arg_extreme(const IndexedParams& p, int threads, cudaStream_t stream, bool programmatic) {
    return with_float(p.in[0].type, [&]<class T>(T*) {
        if (threads == 1) return launch_extreme<T, 1, 128>(p, stream, programmatic);
        if (threads == 32) return launch_extreme<T, 32, 256>(p, stream, programmatic);
        return launch_extreme<T, 256, 256>(p, stream, programmatic);
    });
}

bool cumulate_takes(const IndexedParams& p, int threads) {
    const std::int32_t type = p.in[0].type;
    if (p.kind != IndexedKind::cumulate || type != p.out[0].type) return false;
    if (!is_float(type) && type != type_s32 && type != type_s64) return false;
    const Lines lines(p.in[0], p.axis);
    return (threads == 32 || threads == 256) && lines.count > 0 && lines.size > 0 && lines.count < 0x7fffffff / 256;
}

cudaError_t launch_cumulate(const IndexedParams& p, int threads, cudaStream_t stream, bool programmatic) {
    if (p.in[0].type == type_s64) return launch_sums<std::int64_t, std::int64_t>(p, threads, stream, programmatic);
    if (p.in[0].type == type_s32) return launch_sums<std::int32_t, std::int32_t>(p, threads, stream, programmatic);
    return with_float(p.in[0].type,
                      [&]<class T>(T*) { return launch_sums<T, float>(p, threads, stream, programmatic); });
}

std::int64_t grid_sample_shared_bytes(const IndexedParams& p, const GridTile& tile) {
    const std::int64_t size = p.in[0].type == type_f32 ? 4 : 2;
    return tile.staged ? (tile.channels * p.in[0].dims[2] * p.in[0].dims[3] * size + 15) / 16 * 16 : 0;
}

bool grid_sample_takes(const IndexedParams& p, const GridTile& tile) {
    const TensorDesc& x = p.in[0];
    if (p.kind != IndexedKind::grid_sample || x.rank != 4 || !is_float(x.type) || p.out[0].type != x.type) return false;
    if (!is_float(p.in[1].type) || tile.channels < 1 || tile.channels > x.dims[1]) return false;
    const std::int64_t groups = (x.dims[1] + tile.channels - 1) / tile.channels;
    return x.dims[2] * x.dims[3] < 0x7fffffff && x.dims[0] * groups <= 65535 &&
           grid_sample_shared_bytes(p, tile) > 0 == tile.staged;
}

cudaError_t launch_grid_sample(const IndexedParams& p, const GridTile& tile, cudaStream_t stream, bool programmatic) {
    return with_float(p.in[0].type, [&]<class T>(T*) {
        switch (static_cast<Sampling>(p.mode)) {
            case Sampling::nearest: return launch_planes<T, Sampling::nearest>(p, tile, stream, programmatic);
            case Sampling::cubic: return launch_planes<T, Sampling::cubic>(p, tile, stream, programmatic);
            default: return launch_planes<T, Sampling::linear>(p, tile, stream, programmatic);
        }
    });
}

} // namespace lathe::cuda::kernels
