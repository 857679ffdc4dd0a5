#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.hpp"
#include "data/preprocess.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"
#include "tasks/detection/detection.hpp"
#include "tasks/output_part.hpp"

namespace lathe {

/// How a detector's outputs hold its detections. A is the number of anchors, C of classes, K of detections that are
/// ready; boxes are in pixels of the model's input unless said otherwise.
enum class HeadForm {
    yolox,       ///< NxAx(5+C): centre and log size relative to a cell of the grid (or, as the values tell, decoded
                 ///< already), objectness, class scores
    yolov5,      ///< NxAx(5+C): centre x, y, width, height, objectness, class scores (also YOLOv7)
    yolov8,      ///< Nx(4+C)xA, or NxAx(4+C): centre x, y, width, height, class scores (also YOLOv9, YOLO11)
    distances,   ///< for each grid class scores and the distances from a cell to a box's sides, see DistanceHead
                 ///< (PicoDet, GFL, NanoDet, SCRFD, FCOS, YuNet)
    yolo_nas,    ///< NxAxC scores and NxAx4 left, top, right, bottom; NMS not done (also DAMO-YOLO)
    end_to_end,  ///< NxKx6: left, top, right, bottom, score, class (YOLOv10, YOLO26; NMS done or not needed)
    detr,        ///< NxQx(C+1) logits, the last "no object", and NxQx4 centre x, y, width, height, 0..1
    rt_detr,     ///< NxQxC logits, each class for itself, and boxes as DETR's (also deformable DETR, RF-DETR)
    ssd,         ///< NxAxC scores, class 0 "background", and NxAx4 left, top, right, bottom, 0..1; NMS not done
    lists,       ///< boxes left, top, right, bottom; scores; classes: [N,]Kx4, [N,]K, [N,]K, with NMS in the graph.
                 ///< Boxes of which no value passes 2 are shares of the input
    mmdeploy,    ///< [N,]Kx5 left, top, right, bottom, score and [N,]K classes, with NMS in the graph
    paddle,      ///< Kx6 class, score, left, top, right, bottom, with NMS in the graph (PaddleDetection)
    yolov7_nms,  ///< Kx7 sample, left, top, right, bottom, class, score (YOLOv7's export with NMS)
    nms_indices, ///< NxAx4 top, left, bottom, right; NxCxA scores; [1x]Kx3 sample, class and anchor of those that are
                 ///< left, as ONNX's NonMaxSuppression takes and gives them (Keras' YOLOv3)
};
/// "yolox", "rt-detr": as --head takes it.
const char* to_string(HeadForm form);
std::optional<HeadForm> head_form_from_name(std::string_view name);
/// "yolox, yolov5, ...", for help and errors.
std::string head_form_names();

/// A model's output as its shape shows it; negative sizes are free.
struct OutputShape {
    std::string name;
    Shape shape;
    bool sampled = true; ///< axis 0 is, or may be, the sample; else it is known to be another
};
/// OutputShape::sampled of an output and an input that have these sizes along axis 0 (negative: free): where the
/// input's is fixed, the output's must be the same.
inline bool is_sampled(std::int64_t output, std::int64_t input) { return input < 0 || output == input; }

/// Of HeadForm::distances: left, top, right and bottom, each told by `bins` values, are measured from a place in the
/// cell. One value is the distance, in strides of the grid or in pixels, as the values tell (FCOS, arXiv 1904.01355);
/// more are logits of the distances 0, 1, ... strides, of which the expectation counts (distribution focal loss, arXiv
/// 2006.04388). Scores are probabilities, or logits, as the values tell.
struct DistanceHead {
    std::size_t bins = 0;           ///< values a side
    std::size_t anchors_a_cell = 1; ///< one after the other
    bool from_corner = false;       ///< distances are measured from the cell's top left corner, not its centre
    bool maps = false;              ///< outputs are NxCxhxw, else NxAxC
    /// A third output of each grid with one value an anchor, a probability or logit as the class scores are: the score
    /// is the square root of its product with theirs (FCOS' centreness; YuNet).
    bool confidence = false;
    /// In place of distances the offset of the centre from the cell's top left corner, and the logarithms of width and
    /// height, all in strides (YuNet).
    bool centre_and_size = false;
    bool operator==(const DistanceHead&) const = default;
};

struct DetectionHead {
    HeadForm form = HeadForm::yolox;
    /// Which of the model's: the one; scores, boxes; boxes, scores, classes; of distances the one, or the scores of
    /// each grid, then the distances of each, then the confidences of each where there are any.
    std::vector<std::size_t> outputs;
    std::size_t classes = 0; ///< 0: not told by the shapes (where detections are ready)
    std::size_t height = 0;  ///< of the model's input, pixels
    std::size_t width = 0;
    std::vector<std::size_t> strides; ///< of yolox and distances: the input's pixels a cell, grid after grid
    bool anchors_last = false;        ///< of yolov8: Nx(4+C)xA
    bool vertical_first = false;      ///< of lists: boxes are top, left, bottom, right, as TensorFlow's
    bool one_sample = false;          ///< the outputs have no axis for the sample
    /// The output with masks, of a network that finds instances: prototypes NxMxhxw, of which each anchor has M
    /// coefficients behind all else it says; of lists and mmdeploy [N,]K[x1]xhxw, the object's probability in its box
    /// or the input.
    std::optional<std::size_t> masks = std::nullopt;
    std::size_t coefficients = 0; ///< M; 0 of lists and mmdeploy
    DistanceHead distances = {};
    bool operator==(const DetectionHead&) const = default;
};

/// Cells of a grid along a side of the input, which convolutions of stride 2 round up.
inline std::size_t cells_along(std::size_t side, std::size_t stride) { return (side + stride - 1) / stride; }

/// The head that the outputs' shapes tell, or nothing. One output is a YOLO's if its anchors are those of the input's
/// grids of strides 8, 16, 32 (or up to 64): A cells with 5 + C values yolox, 3 A cells yolov5, 4 + C values before the
/// cells yolov8. Of four grids it is NanoDet-Plus's where the input is smaller than 640 or not whole cells of them.
/// Two outputs with the same number of boxes are YOLO-NAS's where those are the cells of such grids, DETR's (100
/// queries, or 91 + 1 classes), an SSD's (at least 1000 boxes) or RT-DETR's; three are lists where one has 4 values a
/// box, and two one; 5 values a box and labels mmdeploy. Two outputs (or three, with points) for each of several grids
/// are distances. Rows of 6 values beside a list, or of 7, that are no samples are detections with NMS done (paddle,
/// yolov7_nms); rows of 3 beside NxAx4 boxes and NxCxA scores are nms_indices. Masks are told by an output of four axes
/// beside a YOLO's, of at least 8 channels and a quarter of the input's size, or one beside lists that is named so.
std::optional<DetectionHead> recognise_head(std::span<const OutputShape> outputs, std::size_t height,
                                            std::size_t width);

/// The head that was named, with the outputs that fit it. Errors: mismatch where none do, saying what would.
Result<DetectionHead> make_head(HeadForm form, std::span<const OutputShape> outputs, std::size_t height,
                                std::size_t width);

/// Which values mean what.
std::vector<OutputPart> parts_of(const DetectionHead& head);

struct DecodeOptions {
    float score_threshold = 0.001F;  ///< as detectors are evaluated; for pictures 0.25 and more
    float overlap_threshold = 0.65F; ///< of NMS: a box that overlaps a better one of its class by more goes
    std::size_t most = 8000;         ///< detections a picture; COCO itself counts the best 100 of a class
};

/// The detections in sample `sample`, best score first, in pixels of the model's input. `outputs`: all of the model's,
/// float32, axis 0 the sample (but for heads of one sample, which may lack it). Where the form needs it, NMS is done
/// for each class. What is NaN or infinite is no detection.
/// Errors: mismatch where an output is not as the head's shapes were.
Result<std::vector<Detection>> decode(const DetectionHead& head, std::span<const HostTensor> outputs,
                                      std::size_t sample, const DecodeOptions& options);

/// A detection and where in its output it stands: the anchor, query, or place in the lists.
struct DecodedRow {
    Detection detection;
    std::size_t row = 0;
};
/// The same as decode, with the rows.
Result<std::vector<DecodedRow>> decode_rows(const DetectionHead& head, std::span<const HostTensor> outputs,
                                            std::size_t sample, const DecodeOptions& options);

/// The picture that a sample was made of.
struct PicturePlace {
    Preprocess::Mapping mapping; ///< from its pixels to the model's input's
    PictureSize size;
};

/// From pixels of the model's input to the picture's own.
void map_back(std::vector<Detection>& detections, const Preprocess::Mapping& mapping);

/// Greedy non-maximum suppression within each class: indices of those kept, best score first; equal scores in the order
/// given.
std::vector<std::size_t> suppress(std::span<const Detection> detections, float overlap_threshold);

/// An output is not what its head says.
Error unlike_head(const HostTensor& output, const std::string& wanted);

} // namespace lathe
