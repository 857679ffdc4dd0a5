#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "data/open_dataset.hpp"
#include "data/preprocess.hpp"
#include "graph/graph.hpp"
#include "lathe/result.hpp"
#include "tasks/detection/head.hpp"

namespace lathe {

/// What the model expects of data, input by input.
std::vector<InputSpec> input_specs(const Model& model);

/// The preprocessing in the model's metadata, if there is any. Errors: parse_error, invalid_argument.
Result<std::optional<Preprocess>> preprocess_of(const Model& model);

/// The detection head that the model's declared outputs tell, for a model of one input of pictures.
std::optional<DetectionHead> head_of(const Model& model);
/// What is usual for its head, for a detector that does not say how pictures become its input; else nothing.
std::optional<Preprocess> assumed_preprocess(const Model& model);

/// Gives a network for pictures of any size the one that its preprocessing makes, or without preprocessing that of the
/// metadata "imgsz" ([height, width], as Ultralytics writes it), and infers shapes anew. What was fixed ("320x320"), or
/// nothing: the size is fixed already, is told nowhere, or the model has other inputs. Errors: as set_input_shapes.
Result<std::optional<std::string>> fix_picture_size(Model& model, const std::optional<Preprocess>& preprocess);

/// Fixes height and width of the only input, of rank 4, and infers shapes anew. Returns "HEIGHTxWIDTH". Errors: as
/// set_input_shapes.
Result<std::string> set_picture_size(Model& model, Preprocess::Size size);

/// How texts become this model's inputs: its tokenizer, if it has one, run by OpenVINO. Labels are not read.
TextOptions text_options(const Model& model, std::string columns);

} // namespace lathe
