#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "lathe/result.hpp"
#include "support/byte_chain.hpp"

namespace lathe {

/// ONNX files to graphs and back. Nothing of a model is lost: what the graph does not model is kept as opaque bytes
/// and written again. What changes is form only: tensors are written as raw data, initializers and value infos sorted
/// by name, and the domain "ai.onnx" written as "".

struct LoadOptions {
    /// Run `verify` on the graph. Nodes in the wrong order are sorted (with a warning in the log) before giving up.
    bool verify = true;
    /// Subgraphs nested deeper than this are refused.
    int max_depth = 64;
    /// Weights inside a file of at least as many bytes are used where they lie, not copied by protobuf, which reads
    /// 2 GB at most. Smaller files may change on disk once they are read.
    std::size_t in_place_from = std::size_t{1} << 30;
};

/// Read a model. External data is mapped; files outside the model's folder are refused. Inputs with initial values are
/// constants after it, and operators on quantised tensors and fused ones are written out
/// (write_out_quantized_operators, write_out_fused_operators). Errors: io, not_found (file or data), parse_error (with
/// node or tensor), unsupported (too new).
Result<Model> load_onnx(const std::filesystem::path& path, const LoadOptions& options = {});

/// The same from memory. `data_folder` is where external data lies; empty: models with external data are refused.
/// `owner` keeps the bytes alive for weights that are used in place; null: they are copied.
Result<Model> parse_onnx(std::span<const std::byte> bytes, const std::filesystem::path& data_folder = {},
                         const LoadOptions& options = {}, const std::shared_ptr<const void>& owner = nullptr);

/// The model as one ONNX file with its weights inside. Fails with out_of_range past protobuf's limit of 2 GB.
Result<std::string> serialize_onnx(const Model& model);

/// Protobuf's limit on a message.
inline constexpr std::size_t protobuf_limit = 0x7FFFFFFF;

/// The same in pieces, weights where they lie in `model` (whose tensors the result shares), of any size. Past `limit`
/// only `parse_onnx` reads it: a message of more than 2 GB, with weights at multiples of 4 bytes.
Result<ByteChain> onnx_pieces(const Model& model, std::size_t limit = protobuf_limit);

enum class ExternalData {
    automatic, ///< only where the file would pass `SaveOptions::inline_limit`
    always,
    never,
};

struct SaveOptions {
    ExternalData external_data = ExternalData::automatic;
    std::size_t inline_limit = 1'900'000'000; ///< bytes; protobuf's own limit is 2^31 - 1
    std::size_t external_minimum = 1024;      ///< smaller tensors stay inside the model file
};

/// Write a model. Weights outside go to "FILE.HASH.data" beside it, named after their content and written first: a
/// crash at any moment leaves the old model with its old data, or the new with the new. Data files of earlier versions
/// are not removed, since a copy of the old model may still use them; the log names them.
Result<void> save_onnx(const Model& model, const std::filesystem::path& path, const SaveOptions& options = {});

struct CheckOptions {
    bool full = false; ///< also strict shape and type inference
};

/// ONNX's own checker. Large weights are not copied for it. Error: verification_failed with the checker's words.
Result<void> check_onnx(const Model& model, const CheckOptions& options = {});

/// Types and shapes of values between nodes go, in bodies too.
void forget_value_infos(Graph& graph);

struct InferOptions {
    /// Forget the value infos first (they are stale after input shapes changed or nodes were rewritten).
    bool discard_existing = false;
    bool strict = false; ///< fail where a node's shapes contradict each other, rather than leave them unknown
};

/// ONNX shape inference with data propagation; fills `value_infos` of the graph and its subgraphs and the unknown
/// dimensions of outputs. Symbolic dimensions stay symbolic. Error: verification_failed naming the contradiction.
Result<void> infer_shapes(Model& model, const InferOptions& options = {});

/// Convert to another version of the ai.onnx operator set with ONNX's converter, then check the result. The model is
/// unchanged on failure. Errors: unsupported, naming the node that stands in the way and what to do.
Result<void> convert_opset(Model& model, std::int64_t target);

/// Replaces the main graph's nodes for which `wanted` holds, and that ONNX defines by a body of simpler operators at
/// the model's opset, by that body (one level: bodies may hold such operators again). Value infos of what is added are
/// missing until `infer_shapes`. True if any was replaced.
Result<bool> write_out_functions(Model& model, const std::function<bool(const Node&)>& wanted);

/// Replaces operators on quantised tensors (ONNX's QLinearConv and QLinearMatMul, ONNX Runtime's QLinearAdd, QGemm,
/// DynamicQuantizeMatMul and others, as its quantizer's QOperator format and its optimizer write them) by
/// QuantizeLinear, DequantizeLinear and the operator between, in subgraphs too; integer biases become floats. What has
/// no such form stays. Models before opset 13 are converted where a scale for each channel asks for it. How many were
/// replaced. Errors: those of convert_opset.
Result<std::size_t> write_out_quantized_operators(Model& model);

/// Replaces operators that ONNX Runtime's optimisers write for several (com.microsoft's FusedMatMul,
/// SkipLayerNormalization, Attention, MatMulNBits and others; LayerNormalization before opset 17) by the operators of
/// ai.onnx that they stand for, in subgraphs too, from opset 11 on. Weights of 4 and 8 bits in blocks become
/// DequantizeLinear, for which the model is converted to opset 21, or floats where that fails. What has no such form
/// stays. How many were replaced.
std::size_t write_out_fused_operators(Model& model);

/// The newest ai.onnx opset and IR version this build knows.
std::int64_t latest_opset();
std::int64_t latest_ir_version();

/// Make axis 0 of every input `batch` (a size, or a symbol). Reshape targets whose leading entry is the old batch
/// size are made to follow it where that is provably right; value infos are inferred anew. The model is unchanged on
/// failure. Errors: unsupported, naming the node that has the old batch size built in.
Result<void> set_batch_size(Model& model, const Dimension& batch);

/// Fix open sizes of inputs: "NAME:?x128" or, for an only input, "?x128"; ? leaves an axis as it is. An axis with a
/// name gets its size in all inputs and outputs. Value infos are inferred anew; the model is unchanged on failure.
/// Errors: invalid_argument (no such input, rank, contradiction), unsupported (the model has another fixed size there).
Result<void> set_input_shapes(Model& model, const std::vector<std::string>& shapes);

/// Remove graph inputs that are also initializers (files before IR version 4 list all weights so), which makes them
/// constants that passes may fold. Returns how many were removed. Raises the IR version to 4 if any.
std::size_t drop_initializer_inputs(Model& model);

/// A floating-point initializer that holds NaN or infinity.
struct NonfiniteTensor {
    std::string name;
    std::size_t nans = 0;
    std::size_t infinities = 0;
    bool mask =
        false; ///< no fault: zeros and infinities, or infinities that no layer reads and that scores are added to
};
/// Initializers (subgraphs included) and Constant nodes' tensors with NaN or infinity.
std::vector<NonfiniteTensor> find_nonfinite(const Model& model);

} // namespace lathe
