#pragma once
// One function a family of kernels. Each gives what can be tried, best guess first, and the source of one of them.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/cuda/generate/generate.hpp"
#include "backends/cuda/generate/space.hpp"
#include "backends/cuda/generate/text.hpp"

namespace lathe::cuda::generated {

/// Kernels of one operation, by id.
struct Family {
    std::vector<std::string> variants; ///< empty: `why`
    std::string why;
};
Family refused(std::string why);

/// Vectors of `width` elements, `count` of them a thread, all loads before the first store: "v8x4".
struct Vectors {
    std::int64_t width = 1, count = 1;
    std::string id() const { return join("v", width, "x", count); }
};
/// From widths that divide what is walked; `elements` in all.
std::vector<Vectors> vector_choices(std::int64_t width, std::int64_t elements, const GeneratedTarget& target);
Result<Vectors> vectors_of(const std::string& variant);

inline std::int64_t size_of(ElementType type) { return static_cast<std::int64_t>(bytes_of(type)); }
/// The least power of two that is not less.
inline std::int64_t up_to_power(std::int64_t v) {
    return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(v, 1))));
}

inline constexpr std::uint32_t usual_threads = 256;
/// Of a block that takes `count` of `total` pieces a thread: fewer while that brings work to more multiprocessors.
inline std::uint32_t threads_for(std::int64_t total, std::int64_t count) {
    constexpr std::int64_t processors = 128; // about, of the cards that matter
    std::uint32_t threads = usual_threads;
    while (threads > 64 && total <= processors * threads / 2 * count)
        threads /= 2;
    return threads;
}
/// The line that opens a kernel: its name, its arguments with their types; inputs first.
void open_kernel(Source& source, GeneratedKernel& kernel, const std::vector<Operand>& inputs,
                 const std::vector<Operand>& outputs);
/// The same, and a loop in which thread after thread takes piece `i` of `total`, `vectors.count` of them each; sets
/// threads and grid. `close_pieces` ends loop and kernel.
void open_pieces(Source& source, GeneratedKernel& kernel, const std::vector<Operand>& inputs,
                 const std::vector<Operand>& outputs, const Vectors& vectors, std::int64_t total);
void close_pieces(Source& source, GeneratedKernel& kernel);
inline Error no_variant(const std::string& variant) {
    return {ErrorCode::mismatch, "no generated kernel \"" + variant + "\"", "", "build again"};
}

/// A program of registers as statements: `inputs` are expressions of floats; gives the results' names.
Result<std::vector<std::string>> write_program(Source& source, const Pointwise& program,
                                               const std::vector<std::string>& inputs, bool exact);

/// Arithmetic of whole numbers that is one expression of 64 bits.
bool computes_integers(const FusedOp& op, const Plan& plan);
/// Of operands of 64 bits; "" for what is none.
std::string integer_expression(Integer how, const std::string& a, const std::string& b, const std::string& c);

/// Elementwise: Pointwise, arithmetic of whole numbers, and movements that are strides alone.
Result<GeneratedKernel> emit_elementwise(const Space& space, const FusedOp& op, const std::string& name,
                                         const Vectors& vectors);
/// The widest vectors that `space` can be walked by.
std::int64_t elementwise_width(const Space& space);

/// A movement whose input is contiguous along another dim than its output: through shared memory.
bool transposes(const Space& space);
std::vector<std::string> transpose_variants(const Space& space);
Result<GeneratedKernel> emit_transpose(const Space& space, const std::string& variant);

/// Input and output of an operation that only moves (Transpose, Slice, Reformat).
Result<Space> movement_space(const FusedOp& op, const Plan& plan);

Family concat_family(const FusedOp& op, const Plan& plan, const GeneratedTarget& target);
Result<GeneratedKernel> emit_concat(const std::string& variant, const FusedOp& op, const Plan& plan);

/// Reduce and GlobalPool.
Family reduce_family(const FusedOp& op, const Plan& plan, const GeneratedTarget& target);
Result<GeneratedKernel> emit_reduce(const std::string& variant, const FusedOp& op, const Plan& plan);

Family factors_family(const FusedOp& op, const Plan& plan, const GeneratedTarget& target);
Result<GeneratedKernel> emit_factors(const std::string& variant, const FusedOp& op, const Plan& plan);

Family rotary_family(const FusedOp& op, const Plan& plan, const GeneratedTarget& target);
Result<GeneratedKernel> emit_rotary(const std::string& variant, const FusedOp& op, const Plan& plan);

/// Softmax and LayerNorm.
Family rows_family(const FusedOp& op, const Plan& plan, const GeneratedTarget& target);
Result<GeneratedKernel> emit_rows(const std::string& variant, const FusedOp& op, const Plan& plan);

Family pool_family(const FusedOp& op, const Plan& plan, const GeneratedTarget& target);
Result<GeneratedKernel> emit_pool(const std::string& variant, const FusedOp& op, const Plan& plan);

Family gather_family(const FusedOp& op, const Plan& plan, const GeneratedTarget& target);
Result<GeneratedKernel> emit_gather(const std::string& variant, const FusedOp& op, const Plan& plan);

/// Indexed of kind pad.
Family pad_family(const FusedOp& op, const Plan& plan, const GeneratedTarget& target);
Result<GeneratedKernel> emit_pad(const std::string& variant, const FusedOp& op, const Plan& plan);

/// Indexed of kind gather_elements.
Family places_family(const FusedOp& op, const Plan& plan, const GeneratedTarget& target);
Result<GeneratedKernel> emit_places(const std::string& variant, const FusedOp& op, const Plan& plan);

Family resize_family(const FusedOp& op, const Plan& plan, const GeneratedTarget& target);
Result<GeneratedKernel> emit_resize(const std::string& variant, const FusedOp& op, const Plan& plan);

} // namespace lathe::cuda::generated
