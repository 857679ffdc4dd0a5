// The compiled form of TensorRT engines, read without TensorRT: its header, which versions load it, and what gives a
// stripped plan its weights back.
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "backends/api/tensorrt_form.hpp"
#include "backends/models.hpp"
#include "onnx/onnx.hpp"
#include "support/hash.hpp"

namespace lathe {
namespace {

std::span<const std::byte> plan_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

TensorRtForm form(const std::string& environment = "TensorRT 10.16.0") {
    TensorRtForm made;
    made.environment = environment;
    made.layers.push_back({});
    made.layers.back().name = "/conv/Conv";
    made.layers.back().type = "Convolution";
    made.layers.back().precision = "int8";
    made.inputs.push_back({"x", DataType::float32, {{1, 3}, {8, 3}, {32, 3}}});
    made.outputs.push_back({"y", DataType::float32, {{-1, 5}, {-1, 5}, {-1, 5}}});
    made.profiles = {{made.inputs[0].range}};
    made.options.emplace();
    return made;
}

TEST(TensorRtForm, TellsWhatItWasBuiltWith) {
    TensorRtForm made = form();
    made.options->strip_weights = true;
    made.options->version_compatible = true;
    made.options->optimization_level = 4;
    made.graph_digest = "0123456789abcdef0123456789abcdef";
    const std::string blob = write_tensorrt_form(made, plan_bytes("a plan")).flat();
    const auto read = read_tensorrt_form(plan_bytes(blob));
    ASSERT_TRUE(read) << read.error().describe();
    EXPECT_EQ(read->form.environment, made.environment);
    EXPECT_EQ(read->form.options, made.options);
    EXPECT_EQ(read->form.graph_digest, made.graph_digest);
    EXPECT_EQ(read->form.layers.at(0).name, "/conv/Conv");
    EXPECT_EQ(read->form.layers.at(0).precision, "int8");
    EXPECT_EQ(read->form.inputs.at(0).range.describe(), "1x3..8x3..32x3");
    EXPECT_EQ(read->form.profiles.size(), 1U);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(read->plan.data()), read->plan.size()), "a plan");
}

/// The header as written, changed, read again.
Result<TensorRtFormAndPlan> read_changed(const std::function<void(Json&)>& change) {
    static std::string blob; // viewed by what is returned
    blob = write_tensorrt_form(form(), plan_bytes("plan")).flat();
    const auto parts = read_compiled(tensorrt_format, plan_bytes(blob));
    EXPECT_TRUE(parts);
    Json header = Json::parse(parts->header);
    change(header);
    blob = write_compiled(tensorrt_format, header, plan_bytes("plan")).flat();
    return read_tensorrt_form(plan_bytes(blob));
}

TEST(TensorRtForm, ThoseOfBeforeTheOptionsWereNotedAreRead) {
    const auto old = read_changed([](Json& header) { header.erase("options"); });
    ASSERT_TRUE(old) << old.error().describe();
    EXPECT_FALSE(old->form.options.has_value());
    EXPECT_TRUE(old->form.graph_digest.empty());
    EXPECT_EQ(old->form.layers.size(), 1U);
    // What is not known counts as not compatible.
    EXPECT_TRUE(check_tensorrt_version(old->form, "TensorRT 10.16.0"));
    EXPECT_FALSE(check_tensorrt_version(old->form, "TensorRT 10.16.1"));
}

TEST(TensorRtForm, SaysWhoseLayersTheyAre) {
    TensorRtForm made = form();
    EXPECT_EQ(made.layer_source, LayerSource::network);
    made.layer_source = LayerSource::engine;
    made.layers[0].implementation = "sm80_xmma";
    made.layers[0].nodes = {"/conv/Conv", "/relu/Relu"};
    const std::string blob = write_tensorrt_form(made, plan_bytes("plan")).flat();
    const auto read = read_tensorrt_form(plan_bytes(blob));
    ASSERT_TRUE(read) << read.error().describe();
    EXPECT_EQ(read->form.layer_source, LayerSource::engine);
    EXPECT_EQ(read->form.layers.at(0).implementation, "sm80_xmma");
    EXPECT_EQ(read->form.layers.at(0).nodes, made.layers[0].nodes);
    // Before the inspector was asked they were the network's, three texts each.
    const auto old = read_changed([](Json& header) {
        header.erase("layers_from");
        header["layers"] = {{"/conv/Conv", "Convolution", "fp16"}};
    });
    ASSERT_TRUE(old) << old.error().describe();
    EXPECT_EQ(old->form.layer_source, LayerSource::network);
    EXPECT_EQ(old->form.layers.at(0).precision, "fp16");
    EXPECT_EQ(old->form.layers.at(0).nodes, std::vector<std::string>{"/conv/Conv"});
}

TEST(TensorRtForm, DamageIsSaid) {
    const auto code = [](const std::function<void(Json&)>& change) {
        const auto read = read_changed(change);
        return read ? ErrorCode::internal : read.error().code;
    };
    EXPECT_EQ(code([](Json& header) { header.erase("environment"); }), ErrorCode::corrupt);
    EXPECT_EQ(code([](Json& header) { header["layers"] = 3; }), ErrorCode::corrupt);
    EXPECT_EQ(code([](Json& header) { header["layers"] = {{1, "b"}}; }), ErrorCode::corrupt);
    EXPECT_EQ(code([](Json& header) {
                  header["layers"] = Json::array({Json::array({"a", "b"})});
              }),
              ErrorCode::corrupt);
    EXPECT_EQ(code([](Json& header) { header["graph"] = 7; }), ErrorCode::corrupt);
    EXPECT_EQ(code([](Json& header) { header["options"] = Json::object(); }), ErrorCode::parse_error);
    EXPECT_EQ(code([](Json& header) { header["options"]["optimization_level"] = 9; }), ErrorCode::parse_error);
    EXPECT_EQ(read_tensorrt_form(plan_bytes("none")).error().code, ErrorCode::corrupt);
}

TEST(TensorRtForm, LaterVersionsLoadVersionCompatiblePlansOfTensorRt) {
    struct Case {
        const char* built;
        bool compatible;
        const char* here;
        bool loads;
    };
    for (const Case& each :
         {Case{"TensorRT 10.16.0", false, "TensorRT 10.16.0", true},
          Case{"TensorRT 10.16.0", false, "TensorRT 10.16.1", false},
          Case{"TensorRT 10.9.0", true, "TensorRT 10.16.0", true},
          Case{"TensorRT 10.16.0", true, "TensorRT 10.9.0", false},
          Case{"TensorRT 10.16.1", true, "TensorRT 10.16.0", false},
          Case{"TensorRT 10.16.0", true, "TensorRT 11.1.0", true},
          Case{"TensorRT 11.1.0", true, "TensorRT 10.16.0", false},
          Case{"TensorRT 10.16.0", true, "TensorRT-RTX 11.0.0", false},
          Case{"TensorRT-RTX 1.6.1", true, "TensorRT-RTX 1.6.1", true},
          Case{"TensorRT-RTX 1.6.1", true, "TensorRT-RTX 1.7.1", false},
          Case{"TensorRT ten", true, "TensorRT 11.0.0", false}, Case{"", true, "TensorRT 11.0.0", false}}) {
        TensorRtForm made = form(each.built);
        made.options->version_compatible = each.compatible;
        const auto checked = check_tensorrt_version(made, each.here);
        EXPECT_EQ(checked.has_value(), each.loads) << each.built << " here " << each.here;
        if (checked) continue;
        EXPECT_EQ(checked.error().code, ErrorCode::mismatch);
        EXPECT_NE(checked.error().message.find(each.here), std::string::npos) << checked.error().describe();
    }
}

TEST(TensorRtForm, AStrippedPlansWeightsComeFromItsOwnGraphOnly) {
    for (const Precision precision : {Precision::float32, Precision::float16, Precision::bfloat16}) {
        Model model = test::small_network();
        TensorRtOptions wanted;
        wanted.strip_weights = true;
        set_tensorrt_options(model, wanted);
        const auto parsed = tensorrt_onnx(model, precision);
        ASSERT_TRUE(parsed) << parsed.error().describe();
        TensorRtForm made = form();
        made.options = wanted;
        made.graph_digest = hash_hex(plan_bytes(*parsed));
        // As an engine file keeps it.
        const std::string graph = *serialize_onnx(model);
        const auto again = onnx_for_refit(made, plan_bytes(graph), precision);
        ASSERT_TRUE(again) << again.error().describe();
        EXPECT_EQ(*again, *parsed);

        const auto none = onnx_for_refit(made, {}, precision);
        ASSERT_FALSE(none);
        EXPECT_EQ(none.error().code, ErrorCode::not_found);
        test::add_weights(model, "w", {4, 3, 3, 3}, 99);
        const std::string other = *serialize_onnx(model);
        const auto refused = onnx_for_refit(made, plan_bytes(other), precision);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, ErrorCode::mismatch);
        EXPECT_EQ(refused.error().hint, "build the engine again");
    }
}

} // namespace
} // namespace lathe
