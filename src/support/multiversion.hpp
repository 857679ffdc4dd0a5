#pragma once

/// Before a function: it is compiled for AVX-512, for AVX2 and for any processor, and the one that fits is chosen when
/// the program starts. Nothing elsewhere, nor under a sanitizer, since the choice is made before it has set itself up.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define LATHE_MULTIVERSION __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LATHE_MULTIVERSION
#endif
