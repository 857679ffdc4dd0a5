// What all generated sources stand on: one text for NVRTC, one for a compiler of the host, with the same functions.
#include "backends/cuda/generate/generate.hpp"

namespace lathe::cuda {

namespace {

constexpr const char* types = R"(
typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
)";

constexpr const char* device_words = R"(
#define DEVICE static __device__ __forceinline__
#define KERNEL extern "C" __global__
extern __shared__ __align__(16) unsigned char shared_memory[];

DEVICE float bits_float(u32 bits) { return __int_as_float((int)bits); }
DEVICE float half_float(u16 v) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v)); return r; }
DEVICE u16 float_half(float v) { u16 r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(v)); return r; }
DEVICE float bfloat_float(u16 v) { return __int_as_float((int)((u32)v << 16)); }
DEVICE u16 float_bfloat(float v) { u16 r; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(v)); return r; }
DEVICE i8 float_s8(float v) { int r; asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(r) : "f"(v)); return (i8)r; }
DEVICE void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
DEVICE void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
DEVICE u32 thread_index() { return threadIdx.x; }
DEVICE u32 block_x() { return blockIdx.x; }
DEVICE u32 block_y() { return blockIdx.y; }
DEVICE u32 block_z() { return blockIdx.z; }
DEVICE void block_barrier() { __syncthreads(); }
DEVICE float shuffle_xor(float v, int lane) { return __shfl_xor_sync(0xffffffffu, v, lane); }
DEVICE float quick_exp(float v) { return __expf(v); }
DEVICE float quick_divide(float a, float b) { return __fdividef(a, b); }
DEVICE float root(float v) { return sqrtf(v); }
DEVICE float inverse_root(float v) { return rsqrtf(v); }
DEVICE float round_even(float v) { return rintf(v); }
#if __CUDA_ARCH__ >= 900
DEVICE void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
/// A float in the shared memory of a block of the cluster, at the place where it lies in one's own.
DEVICE float cluster_float(const float* own, u32 block) {
  u32 at = (u32)__cvta_generic_to_shared(own), there;
  float v;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(block));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(there) : "memory");
  return v;
}
#endif
)";

constexpr const char* host_words = R"(
#include <cmath>
#include <cstring>
#define DEVICE static inline
#define KERNEL extern "C"
#define __restrict__
#define __launch_bounds__(n)
using std::fabs;
extern "C" {
u32 thread_index();
u32 block_x();
u32 block_y();
u32 block_z();
void block_barrier();
void cluster_barrier();
float shuffle_xor(float v, int lane);
float cluster_float(const float* own, u32 block);
unsigned char* shared_memory_of_block();
}
#define shared_memory shared_memory_of_block()
DEVICE float bits_float(u32 bits) { float r; std::memcpy(&r, &bits, 4); return r; }
DEVICE u32 float_bits(float v) { u32 r; std::memcpy(&r, &v, 4); return r; }
DEVICE float half_float(u16 v) {
  const u32 sign = (u32)(v >> 15) << 31, exponent = (v >> 10) & 31, mantissa = v & 1023;
  if (exponent == 31) return bits_float(sign | 0x7f800000u | (mantissa << 13));
  const float size = exponent == 0 ? std::ldexp((float)mantissa, -24)
                                   : std::ldexp((float)(mantissa + 1024), (int)exponent - 25);
  return sign != 0 ? -size : size;
}
DEVICE u16 float_half(float v) {
  const u16 sign = (u16)((float_bits(v) >> 31) << 15);
  const float size = std::fabs(v);
  if (!(size == size)) return (u16)(sign | 0x7e00);
  if (size >= 65520.0f) return (u16)(sign | 0x7c00);
  if (size < 6.103515625e-05f) return (u16)(sign | (u16)std::nearbyint(std::ldexp(size, 24)));
  int exponent;
  const float fraction = std::frexp(size, &exponent);
  const int mantissa = (int)std::nearbyint(std::ldexp(fraction, 11));
  return (u16)(sign | (u16)(((exponent + 14) << 10) + (mantissa - 1024)));
}
DEVICE float bfloat_float(u16 v) { return bits_float((u32)v << 16); }
DEVICE u16 float_bfloat(float v) {
  const u32 bits = float_bits(v);
  if (!(v == v)) return 0x7fff;
  return (u16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
DEVICE i8 float_s8(float v) {
  const float r = std::nearbyint(v);
  return (i8)(r < -128.0f ? -128 : r > 127.0f ? 127 : (int)r);
}
DEVICE void wait_for_previous() {}
DEVICE void let_next_start() {}
DEVICE float quick_exp(float v) { return std::exp(v); }
DEVICE float quick_divide(float a, float b) { return a / b; }
DEVICE float root(float v) { return std::sqrt(v); }
DEVICE float inverse_root(float v) { return 1.0f / std::sqrt(v); }
DEVICE float round_even(float v) { return std::nearbyint(v); }
)";

constexpr const char* common_words = R"(
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T v[N];
};
/// N elements by accesses of P; `from` (`to`) lies at a multiple of P elements.
template <int P, int N, class T>
DEVICE void load(const T* from, T (&to)[N]) {
#pragma unroll
  for (int i = 0; i < N; i += P) {
    const Pack<T, P> pack = *reinterpret_cast<const Pack<T, P>*>(from + i);
#pragma unroll
    for (int k = 0; k < P; ++k) to[i + k] = pack.v[k];
  }
}
template <int P, int N, class T>
DEVICE void store(T* to, const T (&from)[N]) {
#pragma unroll
  for (int i = 0; i < N; i += P) {
    Pack<T, P> pack;
#pragma unroll
    for (int k = 0; k < P; ++k) pack.v[k] = from[i + k];
    *reinterpret_cast<Pack<T, P>*>(to + i) = pack;
  }
}
DEVICE float smaller(float a, float b) { return fminf(a, b); }
DEVICE float larger(float a, float b) { return fmaxf(a, b); }
DEVICE int within(int i, int size) { return i < 0 ? 0 : i >= size ? size - 1 : i; }
DEVICE float sigmoid(float v) { return quick_divide(1.0f, 1.0f + quick_exp(-v)); }
)";

} // namespace

const std::string& generated_preamble() {
    static const std::string text = std::string(types) + device_words + common_words;
    return text;
}

const std::string& generated_portable_preamble() {
    static const std::string text = std::string(types) + host_words + common_words;
    return text;
}

} // namespace lathe::cuda
