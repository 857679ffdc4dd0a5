#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/calibrate.hpp"
#include "lathe/export.hpp"
#include "lathe/model.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// Who will run the quantised model. Engines of the device "cpu" want `openvino`.
enum class Target { openvino, onnxruntime, tensorrt, cuda };
LATHE_API const char* to_string(Target target);
/// invalid_argument, with the names that exist, for any other text.
LATHE_API Result<Target> target_from_name(std::string_view name);

/// A tensor's range, given by hand: finite, low <= 0 <= high.
struct RangeOverride {
    std::string tensor;
    float low = 0;
    float high = 0;
};

/// How many scales a weight has: one for each output channel, or one for all of it.
enum class WeightGranularity { per_channel, per_tensor };
LATHE_API const char* to_string(WeightGranularity granularity); ///< "per-channel", "per-tensor"
/// invalid_argument, with the names that exist, for any other text.
LATHE_API Result<WeightGranularity> weight_granularity_from_name(std::string_view name);

/// symmetric: int8, zero point 0, a scale by the largest magnitude. asymmetric: uint8, all 256 steps from the least
/// value to the largest.
enum class ActivationScheme { symmetric, asymmetric };
LATHE_API const char* to_string(ActivationScheme scheme);
/// invalid_argument, with the names that exist, for any other text.
LATHE_API Result<ActivationScheme> activation_scheme_from_name(std::string_view name);

/// How much of int8 weights take. A CPU without VNNI adds the products of uint8 and int8 two by two in 16 bits, and
/// 255 x 127 twice does not fit.
enum class WeightRange {
    full,       ///< -127..127
    pairs,      ///< so too, but the steps of two that such a CPU adds make at most 128 together
    seven_bits, ///< -64..64
};
LATHE_API const char* to_string(WeightRange range); ///< "full", "pairs", "seven-bits"
/// invalid_argument, with the names that exist, for any other text.
LATHE_API Result<WeightRange> weight_range_from_name(std::string_view name);

struct QuantizeRequest {
    Target target = Target::openvino;
    /// Left in float: a node's name, an op type, or a regular expression for whole node names. One that matches nothing
    /// is an error.
    std::vector<std::string> exclude = {};
    std::optional<Method> method = {};            ///< instead of the calibration's
    double percentile = 99.99;                    ///< with Method::percentile in `method`
    std::optional<WeightRange> weight_range = {}; ///< absent: what this CPU and the target need
    /// In place of what any method finds. One whose tensor is not quantised is an error.
    std::vector<RangeOverride> overrides = {};
    /// How much to correct what int8 costs, 0 to 3, as `lathe quantize --effort`: 0 nothing; 1 cheap layers in float
    /// that the answer is measured to depend on, SmoothQuant, fast bias correction; 2 last layers in float where that
    /// is nearly free, equalisation, weight rounding, exact bias correction too; 3 also ranges by error (unless
    /// `method` is given), and all from more samples. Each step is kept only if it gains on samples held back.
    int effort = 0;
    std::optional<Data> data = {}; ///< samples for an effort over 0, best those of the calibration; labels are not read
    std::string preprocess = {};   ///< instead of the model's own: see CalibrationOptions
    std::size_t threads = 0;       ///< for an effort over 0; 0: all cores
    Progress* progress = nullptr;  ///< nullptr: silent
    std::optional<WeightGranularity> weights = {};    ///< absent: what the target runs best
    std::optional<ActivationScheme> activations = {}; ///< likewise
    /// Leave layers in float to whose output int8 would add noise of 2 % of its variance or more, and many times that
    /// of the others, where that costs at most about 4 % of the time. Told by the calibration's histograms. And at most
    /// as much again for the last convolutions of networks that answer for each place of an image.
    bool noisy_in_float = true;
};

/// What was decided for one input of one node, and why.
struct QuantizeDecision {
    std::string node;
    std::string op_type;
    std::string tensor;
    bool quantized = false;
    std::string reason;      ///< stable name: "heavy_input", "too_few_channels", ...
    std::string explanation; ///< one sentence
    std::string detail;      ///< numbers or names behind the reason; may be empty
};

struct QuantizePlan {
    std::vector<QuantizeDecision> decisions; ///< in graph order
    std::size_t quantized_nodes = 0;         ///< Conv, ConvTranspose, Gemm, MatMul in int8
    std::size_t heavy_nodes = 0;             ///< all of them
    std::vector<std::string> remarks;        ///< what would make the result better
};

/// One step of correcting, and what it brought on the samples held back.
struct QuantizeCorrection {
    /// "last-layers", "measured-layers", "equalize", "smooth", "ranges", "rounding", "bias-correction"
    std::string method;
    bool kept = false;
    std::string detail;        ///< how often it fired, or why it did not
    double sqnr_db_before = 0; ///< of the model's first output
    double sqnr_db_after = 0;  ///< with this step, kept or not
    double seconds = 0;
};

struct QuantizedModel {
    ModelPtr model; ///< with explicit QuantizeLinear and DequantizeLinear; build it with Precision::int8
    QuantizePlan plan;
    Method method = Method::mse;
    WeightRange weight_range = WeightRange::full;
    std::vector<QuantizeCorrection> corrections = {}; ///< in the order tried; none with effort 0
};

/// Where int8 would begin and end, and why; needs no calibration.
/// Errors: invalid_argument (quantised already, malformed `exclude`), not_found (`exclude` matches nothing),
/// unsupported (the target does not run such activations).
LATHE_API Result<QuantizePlan> explain_quantization(const Model& model, const QuantizeRequest& request);

/// Write the quantisation into a copy of the model, checked by ONNX's checker.
/// Errors: as explain_quantization; mismatch (calibrated on another model), out_of_range (NaN or infinity in a tensor
/// to be quantised), invalid_argument (an effort that does not exist, or without data; an override that is no range),
/// not_found (an override's tensor; too few samples to correct on), unsupported, verification_failed, what the data
/// gives, cancelled.
LATHE_API Result<QuantizedModel> quantize(const Model& model, const Calibration& calibration,
                                          const QuantizeRequest& request = {});

} // namespace lathe
