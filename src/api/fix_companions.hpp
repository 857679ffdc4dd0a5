#pragma once

#include <optional>
#include <string>

#include "data/preprocess.hpp"
#include "graph/graph.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// Detectors that were told their picture's size by inputs of their own (data/companions.hpp), by what that means for
/// how they are fed and read.
enum class SizedDetector {
    transformer,   ///< RT-DETR, D-FINE, DEIM: "orig_target_sizes"
    paddle,        ///< PaddleDetection with NMS in the graph
    paddle_no_nms, ///< PaddleDetection's RT-DETR
    keras_yolo,    ///< Keras' YOLOv3 of the ONNX model zoo: "image_shape"
};

struct FixedCompanions {
    SizedDetector detector = SizedDetector::transformer;
    std::string told; ///< "orig_target_sizes is the width and height of images": which inputs became what
};

/// Makes companions of the pictures what they are for a picture of the size of the model's input: its own width and
/// height, and 1 for a scale, for as many samples as there are pictures. Boxes are then in pixels of the model's input,
/// as all other detectors', and the companions are no inputs any more; the metadata "lathe.fixed_inputs" names them.
/// Where the size or the number of samples is open they are computed from the picture's shape. Value infos are inferred
/// anew. Nothing where the model has no companions, takes over 4096 pictures at once, or has an opset before 8 (no
/// Expand) and open sizes.
/// Errors: as infer_shapes; the model is unchanged on failure.
Result<std::optional<FixedCompanions>> fix_companions(Model& model);

/// Whether the outputs are rows of detections of all samples in one list, and how many each sample has, as
/// PaddleDetection's: with an open number of samples nothing else tells whose a row is.
bool lists_all_samples(const Graph& graph);

/// As is usual for them, for pictures of that size. The whole picture is stretched to it, of keras_yolo letterboxed.
Preprocess usual_preprocess(SizedDetector detector, Preprocess::Size size, Layout layout);

} // namespace lathe
