#pragma once

#include "backends/openvino/core.hpp"

namespace lathe::openvino {

/// Writes what follows an LSTM, GRU or RNN of one direction as a Squeeze, a Transpose of three axes and an Unsqueeze.
/// Between two Transposes of the form that ONNX's reader writes, OpenVINO's plugin for CPUs (2026.4) lets the layer
/// read [time, batch, feature] in place and notes that beside the layer, not in it: the note is lost in what
/// `export_model` writes, and the imported engine takes the axis of time for that of the batch. All but the last of
/// stacked layers are of this form. Here no layer is; the Transposes of two layers in a row cancel instead.
void keep_sequence_axis(ov::Model& model);

} // namespace lathe::openvino
