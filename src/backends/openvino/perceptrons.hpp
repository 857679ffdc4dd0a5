#pragma once

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

/// Puts Maximum(x, x), which is x, before a quantisation between two products of rows with bytes, where nothing, or a
/// factor or shift, is behind the first product's activation or in its place. Of few rows OpenVINO 2026.4 gathers such
/// products in one kernel, which takes the first one's sums for floats, or one channel's factor for all.
void keep_perceptrons_apart(ov::Model& model);

/// Writes a product with weights of one number as one elementwise. Of rows between two products OpenVINO 2026.4 refuses
/// to make a kernel ("Layout rank can't be larger than tensor rank").
void write_products_of_one_number(ov::Model& model);

} // namespace lathe::openvino
