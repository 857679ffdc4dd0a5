#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lathe/types.hpp"

namespace lathe {

/// Which positions of a batch of sequences are the samples' own and which are padding: the input `attention_mask`,
/// [batch, length], 0 where a position is padding. What a network computes there means nothing, and often is unlike
/// anything that it computes elsewhere.
///
/// Where a tensor has its positions, told by its shape alone:
///
///     [batch, length, ...]          axis 1, rank 3 and more: hidden states, answers by token
///     [batch, heads, length, size]  axis 2, rank 4: what attention reads and gives
///     [batch * length, size]        rank 2: the rows, one sample behind the other
///
/// A tensor that fits none of these or two (as many heads as positions) has no positions and counts whole: pooled
/// sentences, keys turned round.
class PositionMask {
public:
    /// Nothing where no input is an `attention_mask` of integers [batch, length], or where it has no zero.
    static std::optional<PositionMask> of(std::span<const TensorView> inputs);
    static std::optional<PositionMask> of(const HostTensor& mask);

    /// Element i of a position is at ((sample * heads + head) * length + position) * size + i.
    struct Layout {
        std::size_t heads = 1;
        std::size_t size = 1; ///< elements of a position
    };
    std::optional<Layout> layout_of(const Shape& shape) const;

    /// Whether an element of a tensor so laid out belongs to a position that is no padding.
    bool is_own(const Layout& layout, std::size_t element) const {
        const std::size_t position = element / layout.size;
        return own_[position / (length_ * layout.heads) * length_ + position % length_] != 0;
    }

    /// use(values) for every stretch of a tensor that is no padding, in order; once for all of a tensor without
    /// positions.
    template <class Use>
    void for_each_own(std::span<const float> values, const Shape& shape, Use use) const {
        const auto layout = layout_of(shape);
        if (!layout) return use(values);
        const std::size_t positions = values.size() / layout->size;
        for (std::size_t at = 0; at < positions;) {
            std::size_t end = at;
            while (end < positions && is_own(*layout, end * layout->size))
                ++end;
            if (end > at) use(values.subspan(at * layout->size, (end - at) * layout->size));
            at = end + 1;
        }
    }

private:
    PositionMask(std::vector<std::uint8_t> own, std::size_t batch, std::size_t length)
        : own_(std::move(own)), batch_(batch), length_(length) {}
    static std::optional<PositionMask> make(DataType type, const Shape& shape, std::span<const std::byte> bytes);

    std::vector<std::uint8_t> own_; ///< [batch, length]
    std::size_t batch_;
    std::size_t length_;
};

} // namespace lathe
