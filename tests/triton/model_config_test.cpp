#include "triton/model_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe::triton::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

EngineInfo classifier() {
    EngineInfo info;
    info.device = "cpu";
    info.inputs = {{"picture", DataType::float32, {{1, 3, 8, 8}, {4, 3, 8, 8}, {16, 3, 8, 8}}}};
    info.outputs = {{"scores", DataType::float32, {{-1, 3}, {-1, 3}, {-1, 3}}},
                    {"best", DataType::int64, {{-1}, {-1}, {-1}}}};
    return info;
}

EngineInfo text_model() {
    EngineInfo info;
    info.device = "cpu";
    for (const char* name : {"input_ids", "attention_mask"})
        info.inputs.push_back({name, DataType::int64, {{1, 2}, {8, 64}, {32, 128}}});
    info.outputs = {{"states", DataType::float32, {{-1, -1, 8}, {-1, -1, 8}, {-1, -1, 8}}}};
    info.tokenizer = R"({"format":"openvino_tokenizers","pad_id":7,"padding":"in front"})";
    const auto one_shape = [](Shape shape) { return ShapeRange{shape, shape, shape}; };
    info.profiles = {{{"input_ids", info.inputs[0].range}, {"attention_mask", info.inputs[0].range}},
                     {{"input_ids", one_shape({8, 32})}, {"attention_mask", one_shape({8, 32})}}};
    return info;
}

TEST(TritonModelConfigs, WhatTheyDoNotSayTheEngineTells) {
    const auto completed = complete_config(Json{{"name", "m"}, {"max_batch_size", 0}}, classifier());
    ASSERT_TRUE(completed) << completed.error().describe();
    EXPECT_EQ((*completed)["max_batch_size"], 16);
    EXPECT_EQ((*completed)["dynamic_batching"], Json::object());
    EXPECT_EQ((*completed)["input"], Json::parse(R"([{"name":"picture","data_type":"TYPE_FP32","dims":[3,8,8]}])"));
    EXPECT_EQ((*completed)["output"][1],
              Json::parse(R"({"name":"best","data_type":"TYPE_INT64","dims":[1],"reshape":{"shape":[]}})"));
    const auto serving = serving_of(*completed, classifier());
    ASSERT_TRUE(serving) << serving.error().describe();
    EXPECT_TRUE(serving->batched);
    EXPECT_EQ(serving->most, 16);
    // What it says stays.
    const Json said = Json::parse(
        R"({"max_batch_size":4,"sequence_batching":{},"input":[{"name":"picture","data_type":"TYPE_FP32","dims":["3","8","8"]}]})");
    const auto kept = complete_config(said, classifier());
    ASSERT_TRUE(kept);
    EXPECT_EQ((*kept)["max_batch_size"], 4);
    EXPECT_EQ((*kept)["input"], said["input"]);
    EXPECT_FALSE(kept->contains("dynamic_batching"));
    EXPECT_EQ(serving_of(*kept, classifier())->most, 4);
    // Of one size: nothing batches.
    EngineInfo fixed = classifier();
    fixed.inputs[0].range.min = fixed.inputs[0].range.max;
    EXPECT_EQ((*complete_config(Json::object(), fixed))["input"][0]["dims"], (Shape{16, 3, 8, 8}));
}

TEST(TritonModelConfigs, TextsMayDifferInLength) {
    const auto completed = complete_config(Json::object(), text_model());
    ASSERT_TRUE(completed);
    EXPECT_EQ((*completed)["input"][0]["allow_ragged_batch"], true);
    const auto serving = serving_of(*completed, text_model());
    ASSERT_TRUE(serving && serving->filling);
    const TextFilling& filling = *serving->filling;
    EXPECT_THAT(filling.values, ElementsAre(7, 0));
    EXPECT_TRUE(filling.in_front);
    EXPECT_EQ(filling.least, 2);
    EXPECT_EQ(filling.most, 128);
    EXPECT_THAT(filling.profiles, ElementsAre(std::pair<std::int64_t, std::int64_t>(8, 32)));

    struct Case {
        const char* what;
        void (*change)(EngineInfo&);
    };
    for (const Case& each : {
             Case{"no tokenizer", [](EngineInfo& info) { info.tokenizer.clear(); }},
             Case{"a damaged tokenizer", [](EngineInfo& info) { info.tokenizer = "{"; }},
             Case{"one length", [](EngineInfo& info) { info.inputs[0].range.min[1] = 128; }},
             Case{"another input", [](EngineInfo& info) { info.inputs[0].name = "position_ids"; }},
             Case{"no mask", [](EngineInfo& info) { info.inputs.pop_back(); }},
             Case{"positions in two axes",
                  [](EngineInfo& info) {
                      info.outputs[0].range = {{-1, 4, -1}, {-1, 4, -1}, {-1, 4, -1}};
                  }},
         }) {
        EngineInfo info = text_model();
        each.change(info);
        EXPECT_FALSE(text_filling_of(info)) << each.what;
    }
}

TEST(TritonModelConfigs, ContradictionsAreNamedWithTheirCure) {
    struct Case {
        const char* config;
        const char* reason;
    };
    for (const Case& each : {
             Case{R"({"max_batch_size":17})", "write max_batch_size: 16"},
             Case{R"({"max_batch_size":4,"input":[{"name":"image","data_type":"TYPE_FP32","dims":[3,8,8]}]})",
                  "it has: picture"},
             Case{R"({"max_batch_size":4,"input":[{"name":"picture","data_type":"TYPE_FP16","dims":[3,8,8]}]})",
                  "write data_type: TYPE_FP32"},
             Case{R"({"max_batch_size":4,"input":[{"name":"picture","data_type":"TYPE_FP32","dims":[3,8,9]}]})",
                  "do not fit the engine's"},
             Case{R"({"max_batch_size":4,"input":[{"name":"picture","data_type":"TYPE_FP32","dims":[8,8]}]})",
                  "do not fit the engine's"},
             Case{R"({"max_batch_size":4,"input":[{"name":"picture","data_type":"TYPE_FP32","dims":["three"]}]})",
                  "no whole numbers"},
             Case{R"({"max_batch_size":4,"output":[{"name":"score","data_type":"TYPE_FP32","dims":[3]}]})",
                  "it has: scores, best"},
         }) {
        const auto completed = complete_config(Json::parse(each.config), classifier());
        ASSERT_TRUE(completed);
        const auto refused = serving_of(*completed, classifier());
        ASSERT_FALSE(refused) << each.config;
        EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument) << each.config;
        EXPECT_THAT(refused.error().describe(), HasSubstr(each.reason));
        EXPECT_THAT(refused.error().where, HasSubstr("config.pbtxt"));
    }
    const auto missing = serving_of(Json::parse(R"({"max_batch_size":4})"), classifier());
    ASSERT_FALSE(missing);
    EXPECT_THAT(missing.error().describe(), HasSubstr("input picture is missing"));
}

TEST(TritonModelConfigs, InstancesSuitTheDevice) {
    struct Case {
        const char* device;
        const char* config;
        const char* reason; ///< null: they suit
    };
    for (const Case& each : {
             Case{"cpu", R"({"instance_group":[{"kind":"KIND_CPU","count":2}]})", nullptr},
             Case{"cpu", R"({"instance_group":[{"kind":"KIND_GPU","gpus":[0]}]})", "kind: KIND_CPU"},
             Case{"cuda", R"({"instance_group":[{"kind":"KIND_GPU","gpus":[1,0,1]}]})", nullptr},
             Case{"cuda", R"({"instance_group":[{"kind":"KIND_CPU"}]})", "kind: KIND_GPU"},
             Case{"cuda", R"({})", "kind: KIND_GPU"},
             Case{"cuda", R"({"instance_group":[{"kind":"KIND_GPU"}],"parameters":{"threads":{"string_value":"2"}}})",
                  "no threads to choose"},
         }) {
        EngineInfo info = classifier();
        info.device = each.device;
        const auto load = read_load_config(Json::parse(each.config));
        ASSERT_TRUE(load) << load.error().describe();
        auto suits = check_instances(*load, info);
        EXPECT_EQ(static_cast<bool>(suits), each.reason == nullptr) << each.config;
        if (each.reason != nullptr && !suits) {
            EXPECT_THAT(suits.error().describe(), HasSubstr(each.reason));
        }
    }
    EXPECT_THAT(read_load_config(Json::parse(R"({"instance_group":[{"kind":"KIND_GPU","gpus":[1,0,1]}]})"))->gpus,
                ElementsAre(0, 1));
    for (const char* threads : {"0", "-1", "two", "", "1.5"}) {
        const Json config{{"parameters", {{"threads", {{"string_value", threads}}}}}};
        EXPECT_FALSE(read_load_config(config)) << threads;
    }
    EXPECT_EQ(read_load_config(Json::parse(R"({"parameters":{"threads":{"string_value":"3"}}})"))->threads, 3U);
}

} // namespace
} // namespace lathe::triton::test
