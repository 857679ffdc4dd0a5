// Files that are damaged or written to do harm: each is refused with an error that says what is wrong, none crashes.

#include <functional>
#include <random>

#include "onnx/models.hpp"

namespace lathe {
namespace {

using Change = std::function<void(onnx::ModelProto&)>;

struct Hostile {
    const char* name;
    Change change;
    const char* says; ///< part of the error
};

/// GoogleTest names a parameter by this.
void PrintTo(const Hostile& c, std::ostream* out) { *out << c.name; }

onnx::ModelProto base() {
    auto model = test::proto_from("agraph (float[2,3] x) => (float[2,3] y) { y = Add(x, w) }");
    auto* w = model.mutable_graph()->add_initializer();
    w->set_name("w");
    w->set_data_type(onnx::TensorProto::FLOAT);
    w->add_dims(2);
    w->add_dims(3);
    w->set_raw_data(std::string(24, '\0'));
    return model;
}

onnx::TensorProto& weight(onnx::ModelProto& model) { return *model.mutable_graph()->mutable_initializer(0); }

void typed(onnx::ModelProto& model, int type) {
    weight(model).clear_raw_data();
    weight(model).set_data_type(type);
}

class HostileModel : public testing::TestWithParam<Hostile> {};

TEST_P(HostileModel, IsRefusedWithItsReason) {
    auto proto = base();
    ASSERT_TRUE(test::parse(proto)) << "the unchanged model must load";
    GetParam().change(proto);
    const auto model = test::parse(proto);
    ASSERT_FALSE(model);
    EXPECT_NE(model.error().describe().find(GetParam().says), std::string::npos) << model.error().describe();
    EXPECT_FALSE(model.error().hint.empty()) << model.error().describe();
    EXPECT_NE(model.error().code, ErrorCode::internal);
}

const Hostile hostile_models[] = {
    {"NegativeDimension", [](auto& m) { weight(m).set_dims(0, -2); }, "negative dimension -2"},
    {"HugeDimension", [](auto& m) { weight(m).set_dims(0, std::int64_t{1} << 62); }, "more elements than any memory"},
    {"ProductOverflows",
     [](auto& m) {
         weight(m).set_dims(0, std::int64_t{1} << 33);
         weight(m).set_dims(1, std::int64_t{1} << 33);
     },
     "more elements than any memory"},
    {"BombOfZeros", [](auto& m) { weight(m).set_dims(0, std::int64_t{1} << 40); }, "raw data holds 24 bytes"},
    {"RawDataTooShort", [](auto& m) { weight(m).set_raw_data("abc"); }, "raw data holds 3 bytes"},
    {"RawDataTooLong", [](auto& m) { weight(m).set_raw_data(std::string(25, 'a')); }, "raw data holds 25 bytes"},
    {"NoData", [](auto& m) { weight(m).clear_raw_data(); }, "float_data holds 0 entries"},
    {"TypedDataTooShort",
     [](auto& m) {
         typed(m, onnx::TensorProto::FLOAT);
         weight(m).add_float_data(1);
     },
     "float_data holds 1 entries"},
    {"TypedDataInAnotherField",
     [](auto& m) {
         typed(m, onnx::TensorProto::INT64);
         for (int i = 0; i < 6; ++i)
             weight(m).add_int32_data(1);
     },
     "int64_data holds 0 entries"},
    {"RawAndTypedData", [](auto& m) { weight(m).add_float_data(1); }, "raw data and typed data"},
    {"ValueDoesNotFitType",
     [](auto& m) {
         typed(m, onnx::TensorProto::UINT8);
         for (int i = 0; i < 6; ++i)
             weight(m).add_int32_data(300);
     },
     "does not fit 8 bits"},
    {"StringWithRawData", [](auto& m) { weight(m).set_data_type(onnx::TensorProto::STRING); }, "string tensor has raw"},
    {"UnknownElementType", [](auto& m) { weight(m).set_data_type(99); }, "element type 99"},
    {"UndefinedElementType", [](auto& m) { weight(m).set_data_type(0); }, "element type 0"},
    {"Segment", [](auto& m) { weight(m).mutable_segment()->set_begin(0); }, "segments"},
    {"InitializerTwice", [](auto& m) { *m.mutable_graph()->add_initializer() = weight(m); }, "two initializers"},
    {"InitializerWithoutName", [](auto& m) { weight(m).clear_name(); }, "initializer has no name"},
    {"ExternalDataWithoutFolder",
     [](auto& m) {
         weight(m).clear_raw_data();
         weight(m).set_data_location(onnx::TensorProto::EXTERNAL);
     },
     "lies in another file"},
    {"UndefinedInput", [](auto& m) { m.mutable_graph()->mutable_node(0)->set_input(0, "nothing"); }, "nothing"},
    {"NameComputedTwice",
     [](auto& m) {
         auto* node = m.mutable_graph()->add_node();
         node->set_op_type("Relu");
         node->add_input("x");
         node->add_output("y");
     },
     "computed twice"},
    {"OutputNotComputed", [](auto& m) { m.mutable_graph()->mutable_output(0)->set_name("z"); }, "nothing computes"},
    {"Cycle",
     [](auto& m) {
         m.mutable_graph()->mutable_node(0)->set_input(0, "b");
         auto* node = m.mutable_graph()->add_node();
         node->set_op_type("Relu");
         node->add_input("y");
         node->add_output("b");
     },
     "before it is computed"},
    {"AttributeTwice",
     [](auto& m) {
         for (int i = 0; i < 2; ++i) {
             auto* attribute = m.mutable_graph()->mutable_node(0)->add_attribute();
             attribute->set_name("axis");
             attribute->set_type(onnx::AttributeProto::INT);
             attribute->set_i(i);
         }
     },
     "given twice"},
    {"AttributeWithoutName", [](auto& m) { m.mutable_graph()->mutable_node(0)->add_attribute()->set_i(1); },
     "attribute has no name"},
    {"NegativeInputDimension",
     [](auto& m) {
         m.mutable_graph()
             ->mutable_input(0)
             ->mutable_type()
             ->mutable_tensor_type()
             ->mutable_shape()
             ->mutable_dim(0)
             ->set_dim_value(-3);
     },
     "dimension is -3"},
    {"InputOfUnknownType",
     [](auto& m) { m.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(77); },
     "element type 77"},
    {"TwoOutputsOfOneName", [](auto& m) { *m.mutable_graph()->add_output() = m.graph().output(0); }, "same name"},
    {"TwoInputsOfOneName", [](auto& m) { *m.mutable_graph()->add_input() = m.graph().input(0); }, "same name"},
    {"NoGraph", [](auto& m) { m.clear_graph(); }, "no ONNX graph"},
    {"NewerIrVersion", [](auto& m) { m.set_ir_version(1000); }, "newer than the newest known"},
    {"OpsetTwice",
     [](auto& m) {
         auto* import = m.add_opset_import();
         import->set_domain("ai.onnx");
         import->set_version(7);
     },
     "two versions"},
    {"NegativeOpset", [](auto& m) { m.mutable_opset_import(0)->set_version(-1); }, "version -1"},
    {"OpsetNotImported", [](auto& m) { m.mutable_graph()->mutable_node(0)->set_domain("com.example"); }, "com.example"},
};
INSTANTIATE_TEST_SUITE_P(Table, HostileModel, testing::ValuesIn(hostile_models),
                         [](const auto& info) { return std::string(info.param.name); });

onnx::ModelProto nested(int levels) {
    auto model = test::proto_from("agraph (bool c, float[1] x) => (float[1] y) { y = Identity(x) }");
    onnx::GraphProto* graph = model.mutable_graph();
    for (int i = 0; i < levels; ++i) {
        auto* node = graph->add_node();
        node->set_op_type("If");
        node->add_input("c");
        node->add_output("out" + std::to_string(i));
        auto* attribute = node->add_attribute();
        attribute->set_name("then_branch");
        attribute->set_type(onnx::AttributeProto::GRAPH);
        graph = attribute->mutable_g();
        graph->set_name("body");
    }
    return model;
}

TEST(HostileNesting, DepthIsLimited) {
    EXPECT_TRUE(test::parse(nested(60)));
    for (const int levels : {65, 100, 130, 300}) {
        const auto model = test::parse(nested(levels));
        ASSERT_FALSE(model) << levels;
        EXPECT_FALSE(model.error().hint.empty());
    }
}

TEST(HostileNesting, RecursiveFunctionIsRefusedNotFollowed) {
    auto proto = test::proto_from(R"(<ir_version: 9, opset_import: ["" : 18, "local" : 1]>
        agraph (float[2] x) => (float[2] y) { y = local.f(x) }
        <domain: "local", opset_import: ["" : 18, "local" : 1]> f (a) => (b) { b = local.f(a) })");
    auto model = test::parse(proto);
    ASSERT_TRUE(model) << model.error().describe();
    EXPECT_FALSE(infer_shapes(*model));
    EXPECT_FALSE(check_onnx(*model, {true}));
}

/// f0 calls f1 `calls` times, f1 calls f2, ...; the last adds.
onnx::ModelProto chain_of_functions(int functions, int calls) {
    std::string text = R"(<ir_version: 9, opset_import: ["" : 18, "local" : 1]>
        agraph (float[2] x) => (float[2] y) { y = local.f0(x) })";
    for (int i = 0; i < functions; ++i) {
        text += "<domain: \"local\", opset_import: [\"\" : 18, \"local\" : 1]> f" + std::to_string(i) + " (v0) => (v" +
                std::to_string(calls) + ") {";
        const std::string callee = i + 1 < functions ? "local.f" + std::to_string(i + 1) : "Relu";
        for (int call = 0; call < calls; ++call)
            text += "v" + std::to_string(call + 1) + " = " + callee + "(v" + std::to_string(call) + ")\n";
        text += "}\n";
    }
    return test::proto_from(text);
}

TEST(HostileNesting, FunctionsThatStandForBillionsOfNodesAreRefused) {
    for (const auto& [functions, calls] : {std::pair{41, 2}, std::pair{20, 2}, std::pair{7, 10}, std::pair{300, 1}}) {
        const auto model = test::parse(chain_of_functions(functions, calls));
        ASSERT_FALSE(model) << functions;
        EXPECT_EQ(model.error().code, ErrorCode::parse_error);
        EXPECT_NE(model.error().message.find("stand for more than"), std::string::npos);
    }
    for (const auto& [functions, calls] : {std::pair{10, 2}, std::pair{3, 10}, std::pair{100, 1}}) {
        auto model = test::parse(chain_of_functions(functions, calls));
        ASSERT_TRUE(model) << model.error().describe();
        EXPECT_TRUE(infer_shapes(*model));
    }
}

TEST(HostileBytes, EveryTruncationIsRefused) {
    const std::string whole = base().SerializeAsString();
    ASSERT_TRUE(parse_onnx(test::bytes_of(whole)));
    for (std::size_t size = 0; size < whole.size(); ++size) {
        // A cut between two fields can leave a smaller valid model; none may crash, and none may lose data unnoticed.
        const auto model = parse_onnx(test::bytes_of(whole.substr(0, size)));
        if (model) {
            EXPECT_EQ(model->graph.initializers.size(), 1U) << size;
        }
    }
    EXPECT_FALSE(parse_onnx(test::bytes_of(whole.substr(0, whole.size() / 2))));
}

TEST(HostileBytes, FlippedBytesNeverCrash) {
    const std::string whole = base().SerializeAsString();
    std::mt19937 random(20240731);
    for (int i = 0; i < 3000; ++i) {
        std::string damaged = whole;
        for (int k = 0; k < 1 + i % 4; ++k)
            damaged[random() % damaged.size()] = static_cast<char>(random());
        auto model = parse_onnx(test::bytes_of(damaged));
        if (!model) continue;
        const auto written = serialize_onnx(*model);
        EXPECT_TRUE(written) << "step " << i;
        (void)infer_shapes(*model).has_value();
        (void)check_onnx(*model).has_value();
    }
}

TEST(HostileBytes, GarbageIsNotAModel) {
    for (const std::string& text :
         {std::string(), std::string("hello, world"), std::string(1000, '\xff'), std::string("\x89PNG\r\n\x1a\n"),
          std::string(100, '\0'), std::string("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")}) {
        const auto model = parse_onnx(test::bytes_of(text));
        ASSERT_FALSE(model) << text;
        EXPECT_EQ(model.error().code, ErrorCode::parse_error);
    }
}

TEST(HostileBytes, MissingFileNamesIt) {
    const auto model = load_onnx("/nonexistent/model.onnx");
    ASSERT_FALSE(model);
    EXPECT_NE(model.error().describe().find("/nonexistent/model.onnx"), std::string::npos);
}

TEST(Load, UnsortedNodesAreSorted) {
    auto proto = test::proto_from("agraph (float[2] x) => (float[2] y) { y = Relu(t)  t = Neg(x) }");
    const auto model = test::parse(proto);
    ASSERT_TRUE(model) << model.error().describe();
    EXPECT_EQ(model->graph.nodes.front()->op_type, "Neg");
}

} // namespace
} // namespace lathe
