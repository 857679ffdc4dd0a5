#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <onnx/onnx_pb.h>

#include "graph/graph.hpp"
#include "lathe/result.hpp"
#include "onnx/onnx.hpp"
#include "support/files.hpp"

/// Between protobuf and the graph. Only for files of src/onnx.
namespace lathe::proto {

/// Parse with a nesting limit and without protobuf's own messages on standard error. False if malformed.
bool parse(google::protobuf::MessageLite& message, std::span<const std::byte> bytes);
bool parse(google::protobuf::MessageLite& message, const std::string& bytes);

/// Serialized with map-free deterministic order.
std::string serialize(const google::protobuf::MessageLite& message);

/// Key and length of a length-delimited field; the length takes at least `width` bytes.
std::string field_start(int number, std::size_t length, std::size_t width = 1);

/// A model file apart from the raw data of its main graph's initializers of at least `least` bytes.
struct WithoutWeights {
    std::string model;
    std::vector<std::span<const std::byte>> weights; ///< by initializer; empty where the data stayed inside
};
/// Empty optional: the bytes are no protobuf message, or not one of this form.
std::optional<WithoutWeights> without_weights(std::span<const std::byte> bytes, std::size_t least);

/// Finds the content of tensors whose proto holds none (external data, or data left out on purpose).
class TensorSource {
public:
    virtual ~TensorSource() = default;
    /// Empty optional: this source knows nothing of the tensor.
    virtual Result<std::optional<Tensor>> find(const onnx::TensorProto& proto) = 0;
};

/// External data files of one folder, each mapped once.
class ExternalFiles : public TensorSource {
public:
    explicit ExternalFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}
    Result<std::optional<Tensor>> find(const onnx::TensorProto& proto) override;

private:
    Result<std::shared_ptr<const MappedFile>> open(const std::string& location);
    std::filesystem::path folder_;
    std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

/// The protos are emptied of tensor data on the way (it moves, so that nothing is copied).
struct Importer {
    TensorSource* source = nullptr;
    int max_depth = 64;
    const WithoutWeights* apart = nullptr; ///< weights that the main graph's initializers lack
    std::shared_ptr<const void> owner{};   ///< keeps them alive; null: they are copied

    Result<Model> model(onnx::ModelProto& proto);
    Result<Graph> graph(onnx::GraphProto& proto, int depth);
    Result<Node> node(onnx::NodeProto& proto, int depth);
    Result<Attribute> attribute(onnx::AttributeProto& proto, int depth);
    /// `raw`: the raw data that the proto lacks; empty where it has its own.
    Result<Tensor> tensor(onnx::TensorProto& proto, std::span<const std::byte> raw = {});
};
Result<ValueInfo> import_value_info(const onnx::ValueInfoProto& proto);
/// Type, shape and byte count of a tensor, checked. Bytes are SIZE_MAX for strings.
struct TensorHeader {
    DataType type = DataType::undefined;
    Shape shape;
    std::size_t count = 0;
    std::size_t bytes = 0;
};
Result<TensorHeader> import_tensor_header(const onnx::TensorProto& proto);

/// What export does with a tensor's bytes.
enum class TensorData {
    inside,        ///< raw_data holds a copy
    large_away,    ///< tensors above a limit that no shape depends on have type and shape but no data
    large_emptied, ///< the same tensors are shown as having no elements, which a checker accepts
};
struct Exporter {
    TensorData data = TensorData::inside;
    bool initializers = true; ///< of the main graph; false where the caller writes them itself

    Result<onnx::ModelProto> model(const Model& model) const;
    Result<void> graph(const Graph& graph, onnx::GraphProto& proto, bool main) const;
    Result<void> node(const Node& node, onnx::NodeProto& proto) const;
    Result<void> attribute(const Attribute& attribute, onnx::AttributeProto& proto) const;
    void tensor(const Tensor& tensor, onnx::TensorProto& proto) const;
};
Result<void> export_value_info(const ValueInfo& info, onnx::ValueInfoProto& proto);
/// All of a tensor but its elements.
void export_tensor_header(const Tensor& tensor, onnx::TensorProto& proto);
/// True for tensors whose data `TensorData::large_away` leaves out.
bool is_left_out(const Tensor& tensor);

/// Refuses a model whose own functions, written out where they are called, make more than a million nodes: 41 functions
/// that each call the next twice are a few hundred bytes, and shape inference follows every call.
Result<void> check_function_calls(const onnx::ModelProto& message);

/// What a file says that no exporter means.
Error malformed(std::string message, std::string where = "");

/// Runs `call`, turning what ONNX or protobuf throw into an Error of that code.
Result<void> guarded(ErrorCode code, const std::string& what, const std::function<void()>& call);

} // namespace lathe::proto
