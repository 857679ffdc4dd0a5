#pragma once
// GELU for epilogues: no calls, no branches, no exact division.

namespace lathe::cuda::kernels {

/// x * Phi(x) = max(x, 0) - |x| * (1 - Phi(|x|)), and 1 - Phi(|x|) = 1 / (2 (1 + a1 |x| + ... + a6 |x|^6)^16) within
/// 1.5e-7 (Abramowitz and Stegun, 7.1.28, for x / sqrt 2); the coefficients are
/// 2^(1/16) a_i / 2^(i/2), which takes in the factor 2.
__device__ __forceinline__ float fast_gelu(float x) {
    const float y = fabsf(x);
    float p = fmaf(y, 5.62129966e-06F, 5.1055209e-05F);
    p = fmaf(p, y, 3.9686137e-05F);
    p = fmaf(p, y, 0.00342273924F);
    p = fmaf(p, y, 0.0220769985F);
    p = fmaf(p, y, 0.052075163F);
    p = fmaf(p, y, 1.04427378F);
    p *= p;
    p *= p;
    p *= p;
    p *= p;
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(p));
    return fmaf(-y, r, fmaxf(x, 0.0F));
}
/// x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3)
__device__ __forceinline__ float fast_gelu_tanh(float x) {
    const float u = x * fmaf(x * x, -0.1029432F, -2.3022082F); // times -2 log2 e
    float e, r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(u));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.0F + e));
    return x * r;
}

} // namespace lathe::cuda::kernels
