#pragma once
// What elementwise operations and movements walk over: the places of their result in the order of memory, and for each
// operand the strides by which it follows.

#include <cstdint>
#include <vector>

#include "backends/cuda/generate/generate.hpp"

namespace lathe::cuda::generated {

/// A value as a strided array: dims in ONNX order, images of rank 3 with a height of 1 put in.
struct View {
    Shape dims;
    std::vector<std::int64_t> strides; ///< in elements
    std::int64_t channel_stride = 0;   ///< nhwc: channels of a pixel with their padding
    std::int64_t pitch = 0;            ///< nhwc: from pixel to pixel
    bool nhwc() const { return channel_stride != 0; }
    /// Dims from the outermost in memory to the innermost.
    std::vector<std::size_t> order() const;
};
View view_of(const Value& value);
/// A linear value seen beside an image of rank 3, which has a height of 1 put in.
void insert_height(View& view);

struct Operand {
    GeneratedArgument argument;
    ElementType type = ElementType::f32;
    float scale = 1;
    std::int64_t offset = 0;           ///< elements
    std::vector<std::int64_t> strides; ///< by dim of the space
    std::int64_t room = 0;             ///< innermost indices that can be read without leaving memory; 0: the valid ones
};
Operand operand_of(const Plan& plan, ValueId id);

struct Space {
    std::vector<std::int64_t> sizes; ///< outermost first
    std::int64_t valid = 0;          ///< innermost indices from here on are padding, to be written as zeros
    std::vector<Operand> inputs, outputs;

    std::int64_t inner() const { return sizes.back(); }
    std::int64_t total() const;
    bool padded() const { return valid < inner(); }
    /// Whether a result lies in memory as the space is walked, without gaps: not in a part of an image.
    bool dense(const Operand& output) const;
    /// The greatest offset of any operand fits 31 bits.
    bool narrow() const;
    /// Drops dims of size 1 and joins those that all operands walk through in one.
    void collapse();
};

/// The space of an output in memory order, without inputs. `whole`: padding is like other elements.
Space space_of(const Plan& plan, const std::vector<ValueId>& outputs, bool whole);
/// Puts in an input whose strides are given by the output's ONNX dims (0: repeated).
void add_input(Space& space, const Plan& plan, ValueId id, const View& output, const std::vector<std::int64_t>& strides,
               std::int64_t offset);

std::int64_t common_factor(std::int64_t a, std::int64_t b);
/// The greatest power of two that divides both.
std::int64_t common_power(std::int64_t a, std::int64_t b);
inline std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

} // namespace lathe::cuda::generated
