#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "passes/rewrite.hpp"

namespace lathe::passes {

/// One of the values that a convolution reads side by side, by channel.
struct ChannelPart {
    std::string value;
    std::int64_t first = 0, channels = 0; ///< of the convolution's
};

/// Whether the node is a Concat by channel of values of this rank.
bool joins_channels(const Node& node, std::size_t rank);

/// What a Concat by channel, which nobody else reads, makes `value` of, or the value itself. Nothing where it is joined
/// along another axis or read by others, or where shapes are not known.
std::optional<std::vector<ChannelPart>> channel_parts(const Site& site, const std::string& value, std::size_t rank);

std::int64_t channels_of(const std::vector<ChannelPart>& parts);

/// What is known of a value whose rank is known, with another number of channels.
ValueInfo info_with_channels(const Graph& graph, const std::string& value, std::int64_t channels);

/// The parts side by side again, joined before the site's root if they are several.
std::string joined_parts(const Site& site, const std::vector<ChannelPart>& parts);

/// The weights that the site's root, a convolution in one group with constant weights of floats, has for these parts;
/// nothing if one is not finite.
std::optional<Tensor> weights_of_parts(const Site& site, const std::vector<ChannelPart>& parts);

/// The site's root over `value`, which has as many channels as these weights, put before it.
std::string convolved(const Site& site, const std::string& value, const Tensor& weights, const std::string& bias);

} // namespace lathe::passes
