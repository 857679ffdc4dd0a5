#pragma once

#include <memory>

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

/// Gives each convolution of bytes without a bias whose result several read one that adds nothing. Some of the readers
/// go before their copy of the scales (Relu, a pool, a QuantizeLinear, a product with a constant), others behind it;
/// OpenVINO 2026.4 then takes one copy into the convolution, and those with a copy of their own are scaled twice. Where
/// sizes are fixed it mostly gathers that copy in a kernel first, which a long chain (long_chains.hpp) or an old
/// processor prevents.
void keep_shared_scales(ov::Model& model);

/// Whether a layer's weights are bytes, or come of them.
bool are_bytes(const ov::Node& weights);

/// Whether a constant that changes nothing is added or subtracted.
bool adds_nothing(const ov::Node& node);

/// The same value behind a node that OpenVINO does not leave out: a convolution's of several channels behind a bias of
/// zeros, which costs nothing, others behind Maximum(x, x).
std::shared_ptr<ov::Node> kept_apart(const ov::Output<ov::Node>& value);

} // namespace lathe::openvino
