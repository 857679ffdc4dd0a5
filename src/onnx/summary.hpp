#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "support/json.hpp"

namespace lathe {

/// One node as `lathe inspect --layers` shows it.
struct LayerSummary {
    std::string name;    ///< Node::label, with the enclosing nodes' in front for a subgraph's node
    std::string op_type; ///< "Conv", "com.example.Foo"
    std::vector<ValueInfo> inputs;
    std::vector<ValueInfo> outputs;
    std::int64_t macs = 0;       ///< multiply-accumulates; see ModelSummary::macs
    std::int64_t parameters = 0; ///< constants it reads, directly or through DequantizeLinear
    std::string precision;       ///< "fp32", "fp16", "bf16", "int8", "int4", "fp8", or an element type's name
};

struct ModelSummary {
    std::string name;
    std::int64_t ir_version = 0;
    std::map<std::string, std::int64_t> opsets;
    std::string producer;
    std::vector<ValueInfo> inputs; ///< without those that are initializers
    std::vector<ValueInfo> outputs;
    std::map<std::string, std::size_t> operators; ///< how often each occurs, subgraphs included
    std::size_t nodes = 0;

    /// Elements of all constants but int64, boolean and string ones (shapes, masks and names, not weights).
    std::int64_t parameters = 0;
    /// Multiply-accumulates of one inference: Conv, ConvTranspose, Gemm, MatMul, LSTM, GRU, RNN and the integer forms
    /// (groups counted; bias, pooling and elementwise work not). Unknown dimensions count as 1, a loop's body once.
    std::int64_t macs = 0;
    bool assumed_dimensions = false; ///< some dimension was unknown and counted as 1
    std::size_t unknown_layers = 0;  ///< such nodes whose shapes are not known; their MACs are missing from the sum
    std::int64_t weight_bytes = 0;
    std::int64_t activation_bytes = 0;      ///< of all values the graph's nodes compute
    std::int64_t peak_activation_bytes = 0; ///< largest sum alive at once, in the order of the file, nothing in place
    std::map<std::string, std::size_t> precisions; ///< of the layers that multiply (those with MACs)
    std::vector<LayerSummary> layers;
};

/// Shapes are inferred on a copy; a model whose inference fails is summarised with what is known.
ModelSummary summarize(const Model& model);

/// Layers are included if `with_layers`. Shapes are arrays of numbers, symbols or null.
Json to_json(const ModelSummary& summary, bool with_layers);
Json to_json(const ValueInfo& info); ///< {"name", "type", "shape"}

/// "1x3x224x224", "batchx3x224x224", "?"; "" if the rank is unknown.
std::string shape_text(const ValueInfo& info);

} // namespace lathe
