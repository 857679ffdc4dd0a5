#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/engine.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// Which of Triton's backends runs the model; lathe: this project's own, which loads engine files.
enum class TritonBackend { lathe, onnxruntime, openvino, tensorrt };
std::string to_string(TritonBackend backend); ///< as Triton names it
std::optional<TritonBackend> triton_backend_from_name(std::string_view name);
/// The file that the backend loads: model.engine, model.onnx, model.xml, model.plan.
std::string model_file_of(TritonBackend backend);

/// How a model is to be served.
struct TritonSizing {
    std::int64_t max_batch = 1;          ///< samples; what a model without an axis for them has is not asked
    std::vector<std::int64_t> preferred; ///< batch sizes that are run without waiting for more
    std::int64_t max_queue_delay_us = 0;
    std::size_t instances = 1;
    bool one_thread_each = false; ///< CPU: each instance on a thread of its own
    std::int64_t max_queue = 0;   ///< requests that may wait; 0: any number
    std::string reason;           ///< where the figures come from, for the comment
};

struct TritonModel {
    std::string name;
    TritonBackend backend = TritonBackend::onnxruntime;
    EngineInfo info;
    TritonSizing sizing;
    bool gpu = false;
    bool pictures = false; ///< lathe: its input is JPEG or PNG files, which the backend decodes and preprocesses
    bool pixels = false;   ///< lathe: its input is pixels, uint8 RGB, which the backend preprocesses
    bool texts = false;    ///< lathe: its input is texts, which the backend cuts into tokens
    /// lathe: a decoder, which the backend has continue tokens (with `texts`: or a text), with one answer a token.
    bool generates = false;
    bool gives_texts = false; ///< with `generates`: answers are the text's pieces, too
};

/// Triton's name of an element type: TYPE_FP32. Errors: unsupported (a type that Triton lacks), naming the tensor.
Result<std::string> triton_type(const IoInfo& io);
/// Sizes as Triton wants them: -1 where they are open, without the samples where it batches.
Shape triton_dims(const IoInfo& io, bool batched);

/// All inputs and outputs have the samples as their first axis, and their number is open.
bool has_open_batch(const EngineInfo& info);

/// The text of config.pbtxt: a ModelConfig of Triton's model_config.proto. Errors: unsupported (an element type that
/// Triton lacks, naming the tensor).
Result<std::string> triton_config(const TritonModel& model);

/// Samples that the backend computes for a batch of less: OpenVINO's compiles for max_batch_size and pads up to it.
bool pads_batches(TritonBackend backend);

} // namespace lathe
