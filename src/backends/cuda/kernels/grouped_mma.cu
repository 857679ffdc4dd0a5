// Convolutions of 3x3 in groups on mma.sync. A wide group, or some narrow ones side by side with weights of 0 between
// them (an infinite input of a neighbour then gives NaN), are a unit: slices of 16 bytes of input channels a tap, Tiles
// of 8 output channels. A warp multiplies 16 * Fragments pixels with all of a unit, so that a pixel's channels come
// from shared memory once a tap, and finishes its sums in registers.
//
// A block keeps the weights of some units as the instruction takes them and goes through the image tile by tile; the
// next tile's pixels are on their way meanwhile. Of the 16 channels of two tiles a lane has four neighbours, so that it
// stores 8 bytes: column n of tile t is channel 4 * (n / 2) + 2 * t + n % 2.

#include <algorithm>

#include "backends/cuda/kernels/grouped.cuh"
#include "backends/cuda/kernels/vec4.cuh"

namespace lathe::cuda::kernels {
namespace {

using namespace in_groups;

constexpr int threads = 256, warps = threads / 32, taps = 9;

struct Work {
    std::int32_t units; ///< of the image
    std::int32_t images, rows, columns;
    std::int32_t across, down, count; ///< tiles of an image, and of all
    std::int32_t patch_h, patch_w, patch_bytes;
    Divisor by_patch, by_patch_w;
};

/// Units of a block: about 64 channels.
constexpr int units_of(int tiles) { return tiles <= 2 ? 4 : tiles <= 4 ? 2 : 1; }
/// Pieces of 16 bytes that the input channels of a unit are.
constexpr int slices_of(Math math, int tiles) { return math == Math::s8 ? tiles / 2 : tiles; }
constexpr int steps_of(int slices) { return (taps * slices + 1) / 2; }
constexpr int weights_bytes(Math math, int tiles) {
    return units_of(tiles) * steps_of(slices_of(math, tiles)) * tiles * 256;
}
constexpr int most_fragments(int tiles) { return tiles <= 4 ? 4 : 2; }

template <Math M>
__device__ __forceinline__ float number(std::uint32_t word) {
    if constexpr (M == Math::s8)
        return static_cast<float>(static_cast<std::int32_t>(word));
    else
        return __uint_as_float(word);
}

template <class T>
constexpr std::int32_t type_of = sizeof(T) == 1              ? type_s8
                                 : std::is_same_v<T, __half> ? type_f16
                                                             : type_bf16;

static __device__ __noinline__ Four residual_added(Four four, const void* data, std::int32_t type, std::int64_t at,
                                                   float scale, int count) {
    for (int k = 0; k < count; ++k)
        four.v[k] = fmaf(load_any(data, type, at + k), scale, four.v[k]);
    return four;
}
__device__ __forceinline__ void add_residual(float (&v)[4], const EpilogueParams& e, std::int32_t output_type,
                                             std::int64_t at, int count) {
    const Four done = residual_added({{v[0], v[1], v[2], v[3]}}, e.residual,
                                     e.residual_is_s8 != 0 ? type_s8 : output_type, at, e.residual_scale, count);
#pragma unroll
    for (int i = 0; i < 4; ++i)
        v[i] = done.v[i];
}

template <Math M, class Out, int Tiles, int Fragments>
__global__ void __launch_bounds__(threads, 2)
    grouped_mma(const __grid_constant__ GroupedParams p, const __grid_constant__ Work t) {
    using T = typename Stored<M>::type;
    constexpr int elements = slice_bytes / static_cast<int>(sizeof(T)), of_word = elements / 4;
    constexpr int slices = slices_of(M, Tiles), steps = steps_of(slices);
    constexpr int units = units_of(Tiles), channels = Tiles * tile_channels;
    constexpr int width = units * slices, pixel_bytes = (width | 1) * slice_bytes; // odd: pixels in other banks
    constexpr int unit_bytes = steps * Tiles * 256;
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ float4 scales[units * channels / 4], biases[units * channels / 4];
    __shared__ std::int32_t offsets[steps * 2];
    unsigned char* patches = shared + units * unit_bytes;
    const int thread = static_cast<int>(threadIdx.x), warp = thread >> 5, lane = thread & 31, g = lane >> 2,
              q = lane & 3;
    const int first_unit = static_cast<int>(blockIdx.y) * units, slice0 = first_unit * slices;
    const WindowParams& window = p.window;
    const EpilogueParams& e = p.epilogue;
    const int group = p.c / p.groups;

    // Weights do not depend on the kernel before: [unit][step], of two tiles [lane][2][2] words, of a last one
    // [lane][2].
#pragma unroll 4
    for (int i = warp; i < units * steps * Tiles * 2; i += warps) {
        const int half = i % 2, tile = i / 2 % Tiles, step = i / (2 * Tiles) % steps, unit = i / (2 * Tiles * steps);
        const bool paired = tile < Tiles / 2 * 2;
        const int channel = paired ? tile / 2 * 16 + g / 2 * 4 + tile % 2 * 2 + g % 2 : tile * 8 + g;
        const int slice = step * 2 + half, tap = slice / slices;
        const int out = (first_unit + unit) * channels + channel; // of the image, and its first input channel
        const int in = (slice0 + unit * slices + slice % slices) * elements + q * of_word - out / group * group;
        std::uint32_t word = 0; // numbers of one group, as a group is whole words
        if (tap < taps && out < p.k && in >= 0 && in < group)
            word = __ldg(reinterpret_cast<const std::uint32_t*>(static_cast<const T*>(p.weight) +
                                                                (std::int64_t{out} * taps + tap) * group + in));
        std::uint32_t* to = reinterpret_cast<std::uint32_t*>(shared + unit * unit_bytes + step * Tiles * 256);
        to[paired ? tile / 2 * 128 + lane * 4 + tile % 2 * 2 + half : tile / 2 * 128 + lane * 2 + half] = word;
    }
    for (int i = thread; i < units * channels; i += threads) {
        const int channel = first_unit * channels + i;
        const bool real = channel < p.k;
        reinterpret_cast<float*>(scales)[i] = real && e.scale != nullptr ? e.scale[channel] : 1.0F;
        reinterpret_cast<float*>(biases)[i] = real && e.bias != nullptr ? e.bias[channel] : 0.0F;
    }
    for (int i = thread; i < steps * 2; i += threads) {
        const int at = i < taps * slices ? i : 0, tap = at / slices; // the last one's weights are 0
        offsets[i] =
            (tap / 3 * window.dil_h * t.patch_w + tap % 3 * window.dil_w) * pixel_bytes + at % slices * slice_bytes;
    }
    // Pixels of a tile are numbered image by image, row by row: those that this lane reads, and those it finishes.
    constexpr int warps_a_unit = warps / units;
    const int unit = warp / warps_a_unit, pixel0 = warp % warps_a_unit * Fragments * 16;
    const int area = t.rows * t.columns, pixels = t.images * area;
    std::int32_t read_at[Fragments];
#pragma unroll
    for (int i = 0; i < Fragments; ++i) {
        const int m = min(pixel0 + i * 16 + lane % 16, pixels - 1), image = m / area, rest = m % area;
        read_at[i] = ((image * t.patch_h + rest / t.columns * window.stride_h) * t.patch_w +
                      rest % t.columns * window.stride_w) *
                         pixel_bytes +
                     unit * slices * slice_bytes;
    }
    struct Place {
        std::int16_t image, row, column;
    } places[Fragments][2];
#pragma unroll
    for (int i = 0; i < Fragments; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int m = pixel0 + i * 16 + half * 8 + g, rest = m % area;
            places[i][half] = {static_cast<std::int16_t>(m < pixels ? m / area : -1),
                               static_cast<std::int16_t>(rest / t.columns),
                               static_cast<std::int16_t>(rest % t.columns)};
        }
    pdl_wait();
    pdl_trigger();

    const char* input = static_cast<const char*>(p.input);
    const std::int64_t input_pixel = static_cast<std::int64_t>(p.c_stride) * static_cast<int>(sizeof(T));
    const auto place = [&](int at, int& image, int& oh, int& ow) {
        const int rest = at % (t.down * t.across);
        image = at / (t.down * t.across) * t.images;
        oh = rest / t.across * t.rows;
        ow = rest % t.across * t.columns;
    };
    const auto load = [&](int at, int stage) {
        int image0, oh0, ow0;
        place(at, image0, oh0, ow0);
        const int h0 = oh0 * window.stride_h - window.pad_h, w0 = ow0 * window.stride_w - window.pad_w;
        const std::uint32_t to = mma::shared_address(patches + stage * t.patch_bytes);
        const int patch = t.patch_h * t.patch_w;
#pragma unroll 1
        for (int i = thread; i < t.images * patch * width; i += threads) {
            const int pixel = i / width, slice = i % width, image = t.by_patch.divide(pixel);
            const int rest = pixel - image * patch, row = t.by_patch_w.divide(rest);
            const int n = image0 + image, h = h0 + row, w = w0 + rest - row * t.patch_w;
            const int byte = (slice0 + slice) * slice_bytes;
            const bool inside = n < p.n && static_cast<unsigned>(h) < static_cast<unsigned>(p.h) &&
                                static_cast<unsigned>(w) < static_cast<unsigned>(p.w) && byte < input_pixel;
            mma::copy_async(to + static_cast<std::uint32_t>(pixel * pixel_bytes + slice * slice_bytes),
                            inside ? input + ((static_cast<std::int64_t>(n) * p.h + h) * p.w + w) * input_pixel + byte
                                   : input,
                            inside);
        }
    };
    // A round brings a tile and multiplies the one before.
    int at = static_cast<int>(blockIdx.x) - static_cast<int>(gridDim.x), next = static_cast<int>(blockIdx.x), stage = 1;
    for (; at < t.count; at = next, next += static_cast<int>(gridDim.x)) {
        stage = 1 - stage;
        if (next < t.count) load(next, stage);
        mma::copy_commit();
        if (at < 0) continue;
        mma::copy_wait<1>();
        __syncthreads();

        std::uint32_t sums[Fragments][Tiles][4] = {};
        const std::uint32_t patch = mma::shared_address(patches + (1 - stage) * t.patch_bytes);
        const unsigned char* weights = shared + unit * unit_bytes;
#pragma unroll 3
        for (int step = 0; step < steps; ++step) {
            std::uint32_t a[Fragments][4];
            const std::uint32_t from = patch + static_cast<std::uint32_t>(offsets[step * 2 + lane / 16]);
#pragma unroll
            for (int i = 0; i < Fragments; ++i)
                mma::load_matrices(a[i], from + static_cast<std::uint32_t>(read_at[i]));
#pragma unroll
            for (int pair = 0; pair < Tiles / 2; ++pair) {
                const uint4 b = *reinterpret_cast<const uint4*>(weights + step * Tiles * 256 + pair * 512 + lane * 16);
#pragma unroll
                for (int i = 0; i < Fragments; ++i) {
                    mma::multiply<M>(sums[i][pair * 2], a[i], b.x, b.y);
                    mma::multiply<M>(sums[i][pair * 2 + 1], a[i], b.z, b.w);
                }
            }
            if constexpr (Tiles % 2 != 0) {
                const uint2 b =
                    *reinterpret_cast<const uint2*>(weights + step * Tiles * 256 + Tiles / 2 * 512 + lane * 8);
#pragma unroll
                for (int i = 0; i < Fragments; ++i)
                    mma::multiply<M>(sums[i][Tiles - 1], a[i], b.x, b.y);
            }
        }
        __syncthreads(); // the patch has been read
        int image0, oh0, ow0;
        place(at, image0, oh0, ow0);
        const int channel0 = (first_unit + unit) * channels;
        if (first_unit + unit >= t.units) continue;
#pragma unroll
        for (int i = 0; i < Fragments; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const Place& own = places[i][half];
                const int n = image0 + own.image, oh = oh0 + own.row, ow = ow0 + own.column;
                if (own.image < 0 || n >= p.n || oh >= p.p || ow >= p.q) continue;
                const std::int64_t pixel = (static_cast<std::int64_t>(n) * p.p + oh) * p.q + ow;
                const auto finish4 = [&](float(&v)[4], int channel, int count) {
                    const std::int64_t residual = pixel * e.residual_stride + channel0 + channel;
                    if (e.residual != nullptr && e.residual_last == 0)
                        add_residual(v, e, p.output_type, residual, count);
                    activate_briefly(v, e);
                    if (e.residual != nullptr && e.residual_last != 0)
                        add_residual(v, e, p.output_type, residual, count);
#pragma unroll
                    for (float& x : v)
                        x *= e.output_scale_inverse;
                };
#pragma unroll
                for (int pair = 0; pair < Tiles / 2; ++pair) {
                    const int channel = pair * 16 + q * 4;
                    const float4 scale = scales[(unit * channels + channel) / 4],
                                 bias = biases[(unit * channels + channel) / 4];
                    const std::uint32_t(&low)[4] = sums[i][pair * 2], (&high)[4] = sums[i][pair * 2 + 1];
                    float v[4] = {fmaf(number<M>(low[half * 2]), scale.x, bias.x),
                                  fmaf(number<M>(low[half * 2 + 1]), scale.y, bias.y),
                                  fmaf(number<M>(high[half * 2]), scale.z, bias.z),
                                  fmaf(number<M>(high[half * 2 + 1]), scale.w, bias.w)};
                    finish4(v, channel, 4);
                    store4(p.output, type_of<Out>, pixel * p.k_pitch + channel0 + channel, v);
                }
                if constexpr (Tiles % 2 != 0) {
                    const int channel = Tiles / 2 * 16 + q * 2;
                    const float* scale = reinterpret_cast<const float*>(scales) + unit * channels + channel;
                    const float* bias = reinterpret_cast<const float*>(biases) + unit * channels + channel;
                    const std::uint32_t(&only)[4] = sums[i][Tiles - 1];
                    float v[4] = {fmaf(number<M>(only[half * 2]), scale[0], bias[0]),
                                  fmaf(number<M>(only[half * 2 + 1]), scale[1], bias[1])};
                    finish4(v, channel, 2);
                    *reinterpret_cast<std::uint32_t*>(static_cast<Out*>(p.output) + pixel * p.k_pitch + channel0 +
                                                      channel) = pack_pair<Out>(v[0], v[1]);
                }
            }
    }
}

int bytes_of_type(int type) { return type == type_s8 ? 1 : 2; }
Math math_of(int type) { return type == type_s8 ? Math::s8 : type == type_f16 ? Math::f16 : Math::bf16; }

/// Channels of a unit; 0: there is none.
int unit_channels(const GroupedParams& p) {
    const int elements = slice_bytes / bytes_of_type(p.type), in = p.c / p.groups;
    for (int count = 1; count <= 16 && in * count <= 64; ++count)
        if (in * count >= 16 && in * count % elements == 0 && p.groups % count == 0) return in * count;
    return 0;
}

std::size_t cut(const GroupedParams& p, const GroupedMmaTile& tile, Work& t) {
    const int channels = unit_channels(p), tiles = channels / tile_channels;
    const Math math = math_of(p.type);
    const auto up = [](int a, int b) { return (a + b - 1) / b; };
    t.units = p.k / channels;
    t.images = tile.images, t.rows = tile.rows, t.columns = tile.columns;
    t.across = up(p.q, tile.columns);
    t.down = up(p.p, tile.rows);
    t.count = t.across * t.down * up(p.n, tile.images);
    t.patch_h = (tile.rows - 1) * p.window.stride_h + 2 * p.window.dil_h + 1;
    t.patch_w = (tile.columns - 1) * p.window.stride_w + 2 * p.window.dil_w + 1;
    t.by_patch = Divisor(t.patch_h * t.patch_w);
    t.by_patch_w = Divisor(t.patch_w);
    t.patch_bytes = tile.images * t.patch_h * t.patch_w * (units_of(tiles) * slices_of(math, tiles) | 1) * slice_bytes;
    const auto weights = static_cast<std::size_t>(weights_bytes(math, tiles));
    return weights + 2 * static_cast<std::size_t>(t.patch_bytes);
}

template <Math M, class Out, int Tiles, int Fragments>
cudaError_t launch_one(const GroupedParams& p, const Work& t, std::size_t shared, int processors, cudaStream_t stream,
                       bool programmatic) {
    auto* kernel = grouped_mma<M, Out, Tiles, Fragments>;
    const cudaError_t code = cudaFuncSetAttribute(
        reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
    if (code != cudaSuccess) return code;
    constexpr int units = units_of(Tiles);
    const int slabs = (t.units + units - 1) / units;
    const std::int64_t resident =
        std::clamp<std::int64_t>((224 << 10) / static_cast<std::int64_t>(shared + 3072), 1, 2);
    const std::int64_t most = std::max<std::int64_t>(1, processors * resident / slabs);
    return launch_kernel(
        kernel, dim3(static_cast<unsigned>(std::min<std::int64_t>(t.count, most)), static_cast<unsigned>(slabs)),
        threads, shared, stream, programmatic, 1, p, t);
}
/// The instance of `tiles`, from Tiles down.
template <Math M, class Out = typename Stored<M>::type, int Tiles = 8>
cudaError_t launch_tiles(int tiles, int fragments, const GroupedParams& p, const Work& t, std::size_t shared,
                         int processors, cudaStream_t stream, bool programmatic) {
    if constexpr (Tiles < 2) {
        return cudaErrorInvalidValue;
    } else if (tiles != Tiles) {
        constexpr int step = M == Math::s8 ? 2 : 1; // a slice of bytes is two tiles
        return launch_tiles<M, Out, Tiles - step>(tiles, fragments, p, t, shared, processors, stream, programmatic);
    } else {
        if (fragments == 1) return launch_one<M, Out, Tiles, 1>(p, t, shared, processors, stream, programmatic);
        if (fragments == 2) return launch_one<M, Out, Tiles, 2>(p, t, shared, processors, stream, programmatic);
        if constexpr (most_fragments(Tiles) >= 4)
            if (fragments == 4) return launch_one<M, Out, Tiles, 4>(p, t, shared, processors, stream, programmatic);
        return cudaErrorInvalidValue;
    }
}

} // namespace

GroupedMmaForm grouped_mma_form(const GroupedParams& p) {
    if (p.type != type_f16 && p.type != type_bf16 && p.type != type_s8) return {};
    if (p.output_type != p.type && !(p.type == type_s8 && p.output_type == type_f16)) return {};
    const WindowParams& window = p.window;
    if (p.groups < 2 || p.c != p.k || p.c % p.groups != 0 || window.kernel_h != 3 || window.kernel_w != 3) return {};
    if (p.c_stride * bytes_of_type(p.type) % slice_bytes != 0 || p.k_stride != p.k || p.k_pitch % 4 != 0) return {};
    if (p.c / p.groups % (p.type == type_s8 ? 4 : 2) != 0) return {};
    if (std::int64_t{p.n} * p.h * p.w > 0x7fffffff || std::int64_t{p.n} * p.p * p.q > 0x7fffffff) return {};
    const int channels = unit_channels(p);
    if (channels == 0) return {};
    const int tiles = channels / tile_channels;
    return {warps / units_of(tiles) * 16, most_fragments(tiles)};
}

std::size_t grouped_mma_shared_bytes(const GroupedParams& p, const GroupedMmaTile& tile) {
    Work t{};
    return cut(p, tile, t);
}

bool grouped_mma_takes(const GroupedParams& p, const GroupedMmaTile& tile, std::size_t shared_limit) {
    const GroupedMmaForm form = grouped_mma_form(p);
    if (form.pixels == 0 || tile.fragments > form.most || tile.rows < 1 || tile.columns < 1 || tile.images < 1)
        return false;
    if (tile.fragments != 1 && tile.fragments != 2 && tile.fragments != 4) return false;
    if (std::int64_t{tile.images} * tile.rows * tile.columns > form.pixels * tile.fragments) return false;
    return grouped_mma_shared_bytes(p, tile) + 3072 <= shared_limit;
}

cudaError_t launch_grouped_mma(const GroupedParams& p, const GroupedMmaTile& tile, std::size_t shared_limit,
                               int processors, cudaStream_t stream, bool programmatic) {
    if (!grouped_mma_takes(p, tile, shared_limit)) return cudaErrorInvalidValue;
    Work t{};
    const std::size_t shared = cut(p, tile, t);
    const int tiles = unit_channels(p) / tile_channels;
    const auto launched = [&](auto launch) {
        return launch(tiles, tile.fragments, p, t, shared, processors, stream, programmatic);
    };
    if (p.type == type_f16) return launched(launch_tiles<Math::f16>);
    if (p.type == type_bf16) return launched(launch_tiles<Math::bf16>);
    return launched(p.output_type == type_s8 ? launch_tiles<Math::s8> : launch_tiles<Math::s8, __half>);
}

} // namespace lathe::cuda::kernels
