#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/cuda/plan/ir.hpp"
#include "lathe/result.hpp"

namespace lathe::cuda {

/// What a generated kernel is given, in order: a value's address or a weight's.
struct GeneratedArgument {
    ValueId value = none;
    WeightId weight = none;
};

/// One operation as CUDA C++: everything of it that is known (types, sizes, strides, scales) is a literal.
struct GeneratedKernel {
    std::string source; ///< of one kernel, to stand behind `generated_preamble()`
    std::string entry;  ///< the kernel's name
    std::array<std::uint32_t, 3> grid{1, 1, 1};
    std::uint32_t threads = 128;    ///< a block, in x
    std::uint32_t cluster = 1;      ///< blocks along x that share their memory
    std::uint32_t shared_bytes = 0; ///< dynamic; at most 48 KiB
    std::vector<GeneratedArgument> arguments;
};

/// What a source is specialised on beside the operation.
struct GeneratedTarget {
    int sm = 90;
    int multiprocessors = 132;
};

/// Ids of the kernels that can be generated for the op, best guess first; none: `why` says why.
std::vector<std::string> generated_variants(const FusedOp& op, const Plan& plan, const GeneratedTarget& target,
                                            std::string& why);
/// Errors: mismatch (no such variant).
Result<GeneratedKernel> generate(const std::string& variant, const FusedOp& op, const Plan& plan,
                                 const GeneratedTarget& target);

/// Types, conversions and vector accesses that every source uses; needs no header. Inline PTX where C++ has no words.
const std::string& generated_preamble();
/// The same functions without PTX, for a compiler of the host: tests run the sources without a GPU.
const std::string& generated_portable_preamble();

} // namespace lathe::cuda
