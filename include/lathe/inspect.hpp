#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lathe/export.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"

namespace lathe {

/// A value of a model's graph.
struct DescribedValue {
    std::string name;
    DataType type = DataType::undefined;
    std::optional<Shape> shape; ///< open sizes as -1; absent: the rank is unknown
};

/// One node, those of subgraphs included.
struct DescribedLayer {
    std::string name;
    std::string op; ///< "Conv", "com.example.Foo"
    std::vector<DescribedValue> inputs;
    std::vector<DescribedValue> outputs;
    std::int64_t macs = 0;       ///< multiply-accumulates of one inference
    std::int64_t parameters = 0; ///< constants that it reads, directly or through DequantizeLinear
    std::string precision;       ///< "fp32", "int8", ...
};

/// What `lathe inspect` tells of an ONNX model. (Engines describe themselves: EngineInfo.)
struct InspectResult {
    std::string name;
    std::string producer;
    std::map<std::string, std::int64_t> opsets; ///< by domain; "" is ONNX's own
    std::vector<DescribedValue> inputs;         ///< without those that are constants
    std::vector<DescribedValue> outputs;
    std::map<std::string, std::size_t> operators; ///< how often each occurs, subgraphs included
    std::int64_t parameters = 0;
    std::int64_t macs = 0;           ///< of one inference
    bool assumed_dimensions = false; ///< open sizes counted as 1
    std::size_t unknown_layers = 0;  ///< whose multiply-accumulates are missing from the sum
    std::int64_t weight_bytes = 0;
    std::int64_t activation_bytes = 0;      ///< of all values that nodes compute
    std::int64_t peak_activation_bytes = 0; ///< most alive at once, in the order of the file, nothing in place
    std::vector<DescribedLayer> layers;
    std::map<std::string, std::string> metadata;
    std::vector<std::string> nonfinite_weights; ///< constants with NaN or infinity
    std::string document; ///< everything, as JSON text: what `lathe inspect --layers --json` prints
};

/// Errors: not_found, parse_error, io, what a damaged model gives.
LATHE_API Result<InspectResult> inspect(const std::filesystem::path& model);

} // namespace lathe
