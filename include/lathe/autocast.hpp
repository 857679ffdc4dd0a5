#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lathe/engine_types.hpp"
#include "lathe/export.hpp"
#include "lathe/model.hpp"
#include "lathe/progress.hpp"
#include "lathe/result.hpp"

namespace lathe {

/// What `lathe autocast` does: write FP16 or BF16 into a model. With `data` or `ranges` each node is judged by the
/// range of its values and the depth of its sums; without, by what it does.
struct AutocastRequest {
    std::filesystem::path model;       ///< ONNX in FP32, best a simplified one; without measurements also one with Q/DQ
    std::filesystem::path output = {}; ///< ONNX to write; empty: AutocastResult::model alone
    Precision format = Precision::float16; ///< or bfloat16
    Progress* progress = nullptr;          ///< nullptr: silent

    std::filesystem::path data = {};   ///< samples to measure the model on, as Data::path
    std::filesystem::path ranges = {}; ///< of every activation, instead; beside `data`: the file made, or reused

    // Only where values are measured; another value than the usual one is refused without.
    std::string columns = {};               ///< of text files, as Data::columns
    std::size_t samples = 100;              ///< spread evenly over the data; 0: all
    std::size_t threads = 0;                ///< that measure; 0: all cores
    std::string preprocess = {};            ///< instead of the model's own: see CalibrationOptions
    bool force = false;                     ///< measure anew, whatever `ranges` holds
    std::optional<Precision> io_types = {}; ///< of floating-point inputs and outputs: `format`; absent: FP32 stays
    double headroom = 2;                    ///< measured magnitudes count so many times, for data not seen; at least 1
    double error_limit = 0.01;              ///< largest bound of the relative error of a sum that is not kept in FP32
    bool wide_sums = true;        ///< Conv, Gemm and MatMul add up in FP32, as matrix units do; else in the 16-bit type
    std::int64_t open_size = 256; ///< of open axes that are summed over
    /// Left in FP32: a node's name, an op type, or a regular expression for whole node names. One that matches nothing
    /// is an error.
    std::vector<std::string> exclude = {};
};

/// A share 0..1 of values, as a histogram knows it: between two bounds, since its bins have a width.
struct ShareBounds {
    double least = 0;
    double most = 0;
};

/// What a node adds up for each number of its result.
struct CastSum {
    std::int64_t terms = 0;     ///< 0: not known
    bool assumed = false;       ///< an open axis counted as AutocastRequest::open_size
    bool in_fp32 = false;       ///< whatever the node's type
    double error_bound = 0;     ///< of the result, relative to the sum of the terms' magnitudes
    double largest_product = 0; ///< of products or squares inside it, bounded by the factors' extremes
    double largest_sum = 0;     ///< of partial sums, likewise
};

/// What was decided for one node that has floating-point tensors, and why.
struct AutocastDecision {
    std::string node;
    std::string op;
    bool cast = false;
    std::string reason;         ///< stable name: "cast", "activation_overflow", "deep_reduction", ...
    std::string explanation;    ///< one sentence
    std::string detail;         ///< numbers or names behind the reason; may be empty
    double absmax = 0;          ///< largest magnitude of its measured tensors
    std::optional<CastSum> sum; ///< absent where it adds up nothing
};

/// A tensor with values above the format's largest.
struct OverflowingTensor {
    std::string tensor;
    bool constant = false;
    double absmax = 0;
    ShareBounds share; ///< of its values
};

/// A node whose products or partial sums may pass the format's largest value, whatever holds them.
struct OverflowingNode {
    std::string node;
    std::string op;
    double largest_product = 0;
    double largest_sum = 0;
    bool held_in_fp32 = false;
};

/// A tensor with values under the format's smallest normal number, which lose bits.
struct SubnormalTensor {
    std::string tensor;
    double absmax = 0;
    ShareBounds subnormal;     ///< of its values
    ShareBounds flushed;       ///< of its values: those that become 0
    double relative_error = 0; ///< L2 norm of what is lost over that of the tensor
};

/// All constants together, or all measured activations, and those that lose something, the worst first.
struct Subnormals {
    std::uint64_t values = 0;
    ShareBounds subnormal;
    ShareBounds flushed;
    std::vector<SubnormalTensor> tensors;
};

struct AutocastResult {
    ModelPtr model;
    bool measured = false; ///< by ranges; else by what operations do
    std::string format;    ///< "fp16", "bf16"
    std::int64_t opset = 0;
    std::int64_t converted_from = 0; ///< the opset before, where the format needed a later one; else 0
    std::size_t cast_nodes = 0;
    std::size_t fp32_nodes = 0; ///< that read or give floats and stay FP32
    std::size_t casts = 0;      ///< Cast nodes that were added
    std::vector<std::string> remarks;

    // Where values were measured.
    std::size_t samples = 0;
    std::string reused;         ///< what of `ranges` was reused, in a sentence; may be empty
    double largest = 0;         ///< finite value of the format
    double smallest_normal = 0; ///< of the format
    std::size_t constants_in_16_bits = 0;
    std::vector<AutocastDecision> decisions; ///< in graph order
    std::vector<OverflowingTensor> overflow; ///< the largest first
    std::vector<OverflowingNode> inside_overflow;
    Subnormals constants;
    Subnormals activations;

    // Where operations decided.
    std::map<std::string, std::size_t> kept_ops; ///< in FP32, with how often
    std::vector<std::string> kept_for_range;     ///< nodes with a constant that does not fit the format

    std::string document; ///< everything, as JSON text: what `lathe autocast --json` prints
};

/// Errors: invalid_argument (another format; Q/DQ in a model that is measured, what judges measured values where there
/// are none), not_found (a file; an `exclude` that matches nothing), mismatch (ranges of another model), out_of_range
/// (an input's or output's values do not fit `io_types`), what calibrating and the data give, verification_failed
/// (ONNX's checker refuses the result), io, cancelled.
LATHE_API Result<AutocastResult> autocast(const AutocastRequest& request);

} // namespace lathe
