// Everything a ModelProto can hold comes back.

#include "conformance/canonical.hpp"
#include "onnx/models.hpp"

namespace lathe {
namespace {

std::string difference_after_round_trip(onnx::ModelProto original, const std::function<void(Model&)>& edit = {}) {
    auto model = test::parse(original);
    if (!model) return "import: " + model.error().describe();
    if (edit) edit(*model);
    const auto written = serialize_onnx(*model);
    if (!written) return "export: " + written.error().describe();
    onnx::ModelProto exported;
    if (!exported.ParseFromString(*written)) return "not protobuf";
    test::canonicalize(original);
    test::canonicalize(exported);
    return test::first_difference(original, exported);
}

onnx::TensorProto small_tensor(const std::string& name) {
    onnx::TensorProto tensor;
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.add_dims(2);
    tensor.add_float_data(1.5F);
    tensor.add_float_data(-0.0F);
    return tensor;
}

void add_property(google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>* list, const char* key) {
    auto* entry = list->Add();
    entry->set_key(key);
    entry->set_value("value of " + std::string(key));
}

/// One of everything.
onnx::ModelProto everything() {
    auto model = test::proto_from(R"(<ir_version: 11, opset_import: ["" : 18, "local" : 1, "com.example" : 3]>
        agraph (float[batch, 3, ?] x, seq(float[2]) s, optional(int64[N]) o, float z) => (float[batch, 3, ?] y)
        { y = local.f <axis: int = 2> (x) }
        <domain: "local", opset_import: ["" : 18], doc_string: "a function"> f <axis> (a) => (b)
        { b = Softmax <axis: int = @axis> (a) })");
    model.set_producer_name("someone");
    model.set_producer_version("1.2");
    model.set_domain("org.example");
    model.set_model_version(7);
    model.set_doc_string("of the model");
    add_property(model.mutable_metadata_props(), "model");
    auto* configuration = model.add_configuration();
    configuration->set_name("two devices");
    configuration->set_num_devices(2);
    model.add_training_info()->mutable_algorithm()->set_name("training");

    auto& graph = *model.mutable_graph();
    graph.set_doc_string("of the graph");
    add_property(graph.mutable_metadata_props(), "graph");
    graph.mutable_input(0)->set_doc_string("of the input");
    add_property(graph.mutable_input(0)->mutable_metadata_props(), "input");
    graph.mutable_input(0)->mutable_type()->set_denotation("IMAGE");
    graph.mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_denotation(
        "DATA_BATCH");
    *graph.add_initializer() = small_tensor("w");
    graph.mutable_initializer(0)->set_doc_string("of the tensor");
    add_property(graph.mutable_initializer(0)->mutable_metadata_props(), "tensor");
    auto* sparse = graph.add_sparse_initializer();
    *sparse->mutable_values() = small_tensor("sparse");
    sparse->mutable_indices()->set_data_type(onnx::TensorProto::INT64);
    sparse->mutable_indices()->add_dims(2);
    sparse->mutable_indices()->add_int64_data(0);
    sparse->mutable_indices()->add_int64_data(3);
    sparse->add_dims(5);
    auto* annotation = graph.add_quantization_annotation();
    annotation->set_tensor_name("x");
    add_property(annotation->mutable_quant_parameter_tensor_names(), "SCALE_TENSOR");
    auto* info = graph.add_value_info();
    info->set_name("b");
    info->mutable_type()->mutable_map_type()->set_key_type(onnx::TensorProto::INT64);

    auto& node = *graph.add_node();
    node.set_op_type("Everything");
    node.set_domain("com.example");
    node.set_overload("v2");
    node.set_name("all");
    node.set_doc_string("of the node");
    add_property(node.mutable_metadata_props(), "node");
    node.add_input("x");
    node.add_input("");
    node.add_input("sparse");
    node.add_output("");
    node.add_output("b");
    auto* device = node.add_device_configurations();
    device->set_configuration_id("two devices");
    device->set_pipeline_stage(1);
    const auto add = [&](const char* name, onnx::AttributeProto::AttributeType type) -> onnx::AttributeProto& {
        auto* attribute = node.add_attribute();
        attribute->set_name(name);
        attribute->set_type(type);
        attribute->set_doc_string(std::string("of ") + name);
        return *attribute;
    };
    add("f", onnx::AttributeProto::FLOAT).set_f(-0.0F);
    add("i", onnx::AttributeProto::INT).set_i(std::numeric_limits<std::int64_t>::min());
    add("s", onnx::AttributeProto::STRING).set_s(std::string("a\0\xff", 3));
    *add("t", onnx::AttributeProto::TENSOR).mutable_t() = small_tensor("inner");
    auto& body = *add("g", onnx::AttributeProto::GRAPH).mutable_g();
    body.set_name("body");
    *body.add_initializer() = small_tensor("deep");
    body.add_output()->set_name("deep");
    add_property(body.mutable_metadata_props(), "body");
    add("fs", onnx::AttributeProto::FLOATS).add_floats(std::numeric_limits<float>::infinity());
    add("is", onnx::AttributeProto::INTS).add_ints(-5);
    add("ss", onnx::AttributeProto::STRINGS).add_strings("text");
    add("empty", onnx::AttributeProto::INTS);
    *add("ts", onnx::AttributeProto::TENSORS).add_tensors() = small_tensor("listed");
    add("gs", onnx::AttributeProto::GRAPHS).add_graphs()->set_name("listed body");
    *add("st", onnx::AttributeProto::SPARSE_TENSOR).mutable_sparse_tensor() = *sparse;
    *add("sts", onnx::AttributeProto::SPARSE_TENSORS).add_sparse_tensors() = *sparse;
    add("tp", onnx::AttributeProto::TYPE_PROTO).mutable_tp()->mutable_tensor_type()->set_elem_type(1);
    add("tps", onnx::AttributeProto::TYPE_PROTOS).add_type_protos()->set_denotation("nothing");
    return model;
}

TEST(Lossless, OneOfEverything) { EXPECT_EQ(difference_after_round_trip(everything()), ""); }

TEST(Lossless, UnknownFieldsOfModelGraphNodeAndAttribute) {
    auto model = everything();
    for (google::protobuf::Message* message : std::initializer_list<google::protobuf::Message*>{
             &model, model.mutable_graph(), model.mutable_graph()->mutable_node(1),
             model.mutable_graph()->mutable_node(1)->mutable_attribute(0)}) {
        message->GetReflection()->MutableUnknownFields(message)->AddLengthDelimited(4000, "from the future");
    }
    EXPECT_EQ(difference_after_round_trip(model), "");
}

TEST(Lossless, TheComparisonSeesSmallChanges) {
    const std::pair<const char*, std::function<void(Model&)>> edits[] = {
        {"attribute", [](Model& m) { m.graph.nodes[1]->set("f", 0.0F); }},
        {"overload", [](Model& m) { m.graph.nodes[1]->overload.clear(); }},
        {"node metadata", [](Model& m) { m.graph.nodes[1]->metadata.clear(); }},
        {"device", [](Model& m) { m.graph.nodes[1]->opaque.clear(); }},
        {"type", [](Model& m) { m.graph.inputs[0].opaque_type.clear(); }},
        {"sparse", [](Model& m) { m.graph.opaque_quantization_annotations.clear(); }},
        {"function", [](Model& m) { m.opaque_functions.clear(); }},
        {"weight", [](Model& m) { m.graph.initializers.at("w") = test::ramp("w", {2}); }},
        {"training", [](Model& m) { m.opaque_training_info.clear(); }},
    };
    for (const auto& [name, edit] : edits) {
        EXPECT_NE(difference_after_round_trip(everything(), edit), "") << name;
    }
}

struct TypedCase {
    int type;
    int count;
    std::function<void(onnx::TensorProto&)> fill;
};

TEST(Lossless, TypedDataOfEveryElementType) {
    using T = onnx::TensorProto;
    const auto ints = [](std::initializer_list<int> values) {
        return [values = std::vector<int>(values)](T& t) {
            for (const int value : values)
                t.add_int32_data(value);
        };
    };
    const TypedCase cases[] = {
        {T::FLOAT, 2, [](T& t) { t.add_float_data(1), t.add_float_data(2); }},
        {T::COMPLEX64, 1, [](T& t) { t.add_float_data(1), t.add_float_data(2); }},
        {T::DOUBLE, 1, [](T& t) { t.add_double_data(0.1); }},
        {T::COMPLEX128, 1, [](T& t) { t.add_double_data(1), t.add_double_data(2); }},
        {T::INT64, 2, [](T& t) { t.add_int64_data(-1), t.add_int64_data(1LL << 40); }},
        {T::UINT64, 1, [](T& t) { t.add_uint64_data(~0ULL); }},
        {T::UINT32, 1, [](T& t) { t.add_uint64_data(4294967295U); }},
        {T::INT32, 2, ints({-1, 7})},
        {T::INT16, 2, ints({-32768, 32767})},
        {T::UINT16, 1, ints({65535})},
        {T::INT8, 2, ints({-128, 127})},
        {T::UINT8, 1, ints({255})},
        {T::BOOL, 2, ints({0, 1})},
        {T::FLOAT16, 1, ints({0xFC00})},
        {T::BFLOAT16, 1, ints({0xFF80})},
        {T::FLOAT8E4M3FN, 1, ints({0x7F})},
        {T::FLOAT8E5M2, 1, ints({0xFF})},
        {T::FLOAT8E8M0, 1, ints({0x80})},
        {T::UINT4, 3, ints({0x21, 0x03})},
        {T::INT4, 2, ints({0xF1})},
        {T::FLOAT4E2M1, 1, ints({0x07})},
        {T::UINT2, 5, ints({0xE4, 0x01})},
        {T::INT2, 1, ints({0x03})},
        {T::FLOAT6E2M3, 5, ints({63, 1, 32, 7, 9})},
        {T::FLOAT6E3M2, 1, ints({42})},
        {T::STRING, 2, [](T& t) { t.add_string_data("a"), t.add_string_data(std::string("\0b", 2)); }},
    };
    for (const TypedCase& each : cases) {
        auto model = test::proto_from("agraph (float[2] x) => (float[2] y) { y = Identity(x) }");
        auto* tensor = model.mutable_graph()->add_initializer();
        tensor->set_name("w");
        tensor->set_data_type(each.type);
        tensor->add_dims(each.count);
        each.fill(*tensor);
        EXPECT_EQ(difference_after_round_trip(model), "") << T::DataType_Name(static_cast<T::DataType>(each.type));
    }
}

TEST(Lossless, EmptyTensorsAndScalars) {
    auto model = test::proto_from("agraph (float[2] x) => (float[2] y) { y = Identity(x) }");
    auto* empty = model.mutable_graph()->add_initializer();
    empty->set_name("empty");
    empty->set_data_type(onnx::TensorProto::INT64);
    empty->add_dims(0);
    auto* scalar = model.mutable_graph()->add_initializer();
    scalar->set_name("scalar");
    scalar->set_data_type(onnx::TensorProto::INT64);
    scalar->add_int64_data(5);
    EXPECT_EQ(difference_after_round_trip(model), "");
    const auto loaded = test::parse(model);
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->graph.initializers.at("scalar").to_int64s(), std::vector<std::int64_t>{5});
    EXPECT_TRUE(check_onnx(*loaded)) << check_onnx(*loaded).error().describe();
}

TEST(Lossless, IrVersionRisesOnlyWhereNeeded) {
    auto old =
        test::proto_from("<ir_version: 3, opset_import: [\"\" : 8]> agraph (float[2] x, float[2] w) => (float[2] "
                         "y) { y = Add(x, w) }");
    auto* w = old.mutable_graph()->add_initializer();
    *w = small_tensor("w");
    EXPECT_EQ(difference_after_round_trip(old), "");
    auto model = test::parse(old);
    ASSERT_TRUE(model);
    EXPECT_EQ(model->graph.constant("w"), nullptr) << "an input may be overridden";
    EXPECT_EQ(drop_initializer_inputs(*model), 1U);
    EXPECT_NE(model->graph.constant("w"), nullptr);
    EXPECT_EQ(model->ir_version, 4);
    EXPECT_TRUE(check_onnx(*model));
}

TEST(Lossless, OperatorSetsOfAModelOlderThanTheyAreStay) {
    auto proto = test::proto_from(R"(<ir_version: 8, opset_import: ["" : 13]> agraph (float[2] x) => (float[2] y) {
        y = Relu(x)
    })");
    proto.set_ir_version(2);
    const auto read = test::parse(proto);
    ASSERT_TRUE(read) << read.error().describe();
    const auto written = serialize_onnx(*read);
    ASSERT_TRUE(written) << written.error().describe();
    const auto again = parse_onnx(std::as_bytes(std::span(*written)));
    ASSERT_TRUE(again) << again.error().describe();
    EXPECT_EQ(again->opsets, read->opsets);
    EXPECT_EQ(again->ir_version, 3);
}

} // namespace
} // namespace lathe
