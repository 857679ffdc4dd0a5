#pragma once

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

/// Gives each convolution of bytes without a bias whose result several read one that adds nothing. Some of the readers
/// go before their copy of the scales (Relu, a pool, a QuantizeLinear, a product with a constant), others behind it;
/// OpenVINO 2026.4 then takes one copy into the convolution, and those with a copy of their own are scaled twice. Where
/// sizes are fixed it mostly gathers that copy in a kernel first, which a long chain (long_chains.hpp) or an old
/// processor prevents.
void keep_shared_scales(ov::Model& model);

} // namespace lathe::openvino
