#include "triton/texts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe::triton::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A token a character.
class Letters final : public Tokenizer {
public:
    std::size_t max_length() const override { return 8; }
    std::int64_t pad_id() const override { return 5; }
    bool separates_pairs() const override { return false; }
    std::string digest() const override { return "letters"; }
    Result<Tokens> encode(std::span<const std::string> first, std::span<const std::string> /*second*/) override {
        Tokens tokens;
        tokens.count = first.size();
        for (const std::string& text : first)
            tokens.length = std::max(tokens.length, text.size());
        for (const std::string& text : first) {
            for (std::size_t i = 0; i < tokens.length; ++i) {
                tokens.ids.push_back(i < text.size() ? text[i] : pad_id());
                tokens.mask.push_back(i < text.size() ? 1 : 0);
            }
        }
        return tokens;
    }
    Result<std::size_t> count_cut(std::span<const std::string> /*first*/, std::span<const std::string> /*second*/,
                                  const Tokens& /*tokens*/) override {
        return std::size_t{0};
    }
};

EngineInfo ids_model() {
    EngineInfo info;
    for (const char* name : {"input_ids", "attention_mask"})
        info.inputs.push_back({name, DataType::int64, {{1, 3}, {8, 64}, {32, 128}}});
    info.tokenizer = "{}";
    return info;
}

Json texts_config(const char* name = "text", const char* type = "TYPE_STRING") {
    return {{"max_batch_size", 4}, {"input", Json::array({{{"name", name}, {"data_type", type}, {"dims", {1}}}})}};
}

TEST(TritonTexts, BecomeTheEnginesInputs) {
    const auto stage = TextStage::of(texts_config(), ids_model());
    ASSERT_TRUE(stage && *stage);
    EXPECT_EQ((*stage)->limit(), 128U);
    Letters tokenizer;
    const auto one = (*stage)->tokens({"ab"}, tokenizer); // filled up to the engine's least length
    ASSERT_TRUE(one) << one.error().describe();
    EXPECT_EQ((*one)[0].name, "input_ids");
    EXPECT_EQ((*one)[0].shape, (Shape{1, 3}));
    EXPECT_THAT((*one)[0].as<std::int64_t>(), ElementsAre('a', 'b', 5));
    EXPECT_THAT((*one)[1].as<std::int64_t>(), ElementsAre(1, 1, 0));
    const auto two = (*stage)->tokens({"a", "bcde"}, tokenizer);
    ASSERT_TRUE(two);
    EXPECT_EQ((*two)[1].shape, (Shape{2, 4}));
    EXPECT_THAT((*two)[1].as<std::int64_t>(), ElementsAre(1, 0, 0, 0, 1, 1, 1, 1));
}

TEST(TritonTexts, WhatIsNoneIsNamed) {
    const auto stage = TextStage::of(texts_config(), ids_model()).value();
    ASSERT_TRUE(stage);
    Letters tokenizer;
    const auto bytes = stage->tokens({"good", "\xff"}, tokenizer);
    ASSERT_FALSE(bytes);
    EXPECT_EQ(bytes.error().code, ErrorCode::parse_error);
    EXPECT_THAT(bytes.error().describe(), HasSubstr("text 1"));
    const auto empty = stage->tokens({"", "good"}, tokenizer);
    ASSERT_FALSE(empty);
    EXPECT_EQ(empty.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(empty.error().describe(), HasSubstr("text 0"));
}

TEST(TritonTexts, AreOfEnginesThatReadTokensAlone) {
    EXPECT_FALSE(TextStage::of(texts_config("input_ids", "TYPE_INT64"), ids_model()).value());
    EXPECT_FALSE(TextStage::of(Json::object(), ids_model()).value());
    EngineInfo plain = ids_model();
    plain.tokenizer.clear();
    EXPECT_FALSE(TextStage::of(texts_config(), plain).value());

    EXPECT_THAT(TextStage::of(texts_config("sentence"), ids_model()).error().describe(), HasSubstr("name: \"text\""));
    struct Case {
        const char* what;
        void (*change)(EngineInfo&);
    };
    for (const Case& each : {
             Case{"another input", [](EngineInfo& info) { info.inputs[0].name = "past"; }},
             Case{"numbers", [](EngineInfo& info) { info.inputs[0].type = DataType::float32; }},
             Case{"a third axis",
                  [](EngineInfo& info) {
                      info.inputs[0].range = {{1, 3, 1}, {1, 3, 1}, {1, 3, 1}};
                  }},
         }) {
        EngineInfo info = ids_model();
        each.change(info);
        const auto refused = TextStage::of(texts_config(), info);
        ASSERT_FALSE(refused) << each.what;
        EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument) << each.what;
    }
}

} // namespace
} // namespace lathe::triton::test
