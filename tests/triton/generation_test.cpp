#include "triton/generation.hpp"

#include <cmath>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "triton/model_config.hpp"

namespace lathe::triton::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ShapeRange one_shape(Shape shape) { return {shape, shape, shape}; }

EngineInfo decoder() {
    EngineInfo info;
    info.name = "decoder";
    info.device = "cpu";
    info.inputs = {{"input_ids", DataType::int64, one_shape({1, 1})},
                   {"attention_mask", DataType::int64, {{1, 2}, {1, 8}, {1, 65}}},
                   {"past_key_values.0.key", DataType::float32, {{1, 2, 1, 8}, {1, 2, 7, 8}, {1, 2, 64, 8}}},
                   {"past_key_values.0.value", DataType::float32, {{1, 2, 1, 8}, {1, 2, 7, 8}, {1, 2, 64, 8}}}};
    info.outputs = {{"logits", DataType::float32, one_shape({1, 40})},
                    {"present.0.key", DataType::float32, one_shape({1, 2, -1, 8})},
                    {"present.0.value", DataType::float32, one_shape({1, 2, -1, 8})}};
    return info;
}

EngineInfo prefill() {
    EngineInfo info = decoder();
    info.inputs.resize(2);
    info.inputs[0].range = info.inputs[1].range = {{1, 1}, {1, 8}, {1, 32}};
    info.tokenizer = "{}";
    return info;
}

Json config() {
    return Json::parse(R"({"max_batch_size": 0, "model_transaction_policy": {"decoupled": true},
        "input": [{"name": "text", "data_type": "TYPE_STRING", "dims": ["1"], "optional": true},
                  {"name": "input_ids", "data_type": "TYPE_INT64", "dims": ["-1"], "optional": true},
                  {"name": "max_tokens", "data_type": "TYPE_INT32", "dims": ["1"]},
                  {"name": "eos", "data_type": "TYPE_INT64", "dims": ["1"], "optional": true}],
        "output": [{"name": "token", "data_type": "TYPE_INT64", "dims": ["1"]}]})");
}

/// Inputs as the server hands them over, in two pieces where they are long enough.
class Sent {
public:
    template <class T>
    Sent& add(const std::string& name, const std::vector<T>& values, const Shape& shape) {
        std::vector<std::byte> bytes(values.size() * sizeof(T));
        if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
        return add_bytes(name, std::move(bytes), shape);
    }
    Sent& text(const std::string& text, std::int64_t count = 1) {
        std::vector<std::byte> bytes(4 + text.size());
        const auto size = static_cast<std::uint32_t>(text.size());
        std::memcpy(bytes.data(), &size, 4);
        if (!text.empty()) std::memcpy(bytes.data() + 4, text.data(), text.size());
        return add_bytes("text", std::move(bytes), {count});
    }
    const std::map<std::string, InputPieces>& given() const { return given_; }

private:
    Sent& add_bytes(const std::string& name, std::vector<std::byte> bytes, const Shape& shape) {
        kept_.push_back(std::move(bytes));
        const std::span<const std::byte> all(kept_.back());
        given_[name] = {shape, {all.first(all.size() / 2), all.subspan(all.size() / 2)}};
        return *this;
    }
    std::list<std::vector<std::byte>> kept_;
    std::map<std::string, InputPieces> given_;
};

GenerationStage stage_of(const Json& json) {
    const EngineInfo reads = prefill();
    auto stage = GenerationStage::of(json, decoder(), &reads);
    if (!stage || !*stage) throw std::runtime_error(stage ? "no stage" : stage.error().describe());
    return **stage;
}

TEST(TritonGeneration, IsOfModelsThatAreDecoupled) {
    Json json = config();
    EXPECT_TRUE(stage_of(json).takes_texts());
    json["input"].erase(0);
    EXPECT_FALSE(stage_of(json).takes_texts());
    json["model_transaction_policy"]["decoupled"] = false;
    EXPECT_FALSE(GenerationStage::of(json, decoder(), nullptr).value());
    json.erase("model_transaction_policy");
    EXPECT_FALSE(GenerationStage::of(json, decoder(), nullptr).value());
    const EngineInfo reads = prefill();
    const auto whole = serving_of(config(), decoder(), &reads);
    ASSERT_TRUE(whole) << whole.error().describe();
    EXPECT_TRUE(whole->generation);
    const auto stray = serving_of(complete_config(Json::object(), decoder()).value(), decoder(), &reads);
    ASSERT_FALSE(stray);
    EXPECT_THAT(stray.error().describe(), HasSubstr("remove prefill.engine"));
}

TEST(TritonGeneration, RefusesConfigsThatSayOtherwise) {
    const auto told = [](const std::function<void(Json&)>& change, EngineInfo engine = decoder()) {
        Json json = config();
        change(json);
        const EngineInfo reads = prefill();
        const auto stage = GenerationStage::of(json, engine, &reads);
        return stage ? std::string("taken") : stage.error().describe();
    };
    EXPECT_EQ(told([](Json&) {}), "taken");
    EXPECT_THAT(told([](Json& json) { json["max_batch_size"] = 4; }), HasSubstr("max_batch_size is 4"));
    EXPECT_THAT(told([](Json& json) { json["input"][3]["name"] = "end"; }), HasSubstr("input \"end\""));
    EXPECT_THAT(told([](Json& json) { json["input"][3]["data_type"] = "TYPE_INT32"; }),
                HasSubstr("data_type is TYPE_INT32, not TYPE_INT64"));
    EXPECT_THAT(told([](Json& json) { json["input"].erase(2); }), HasSubstr("max_tokens is missing"));
    EXPECT_THAT(told([](Json& json) {
                    json["input"].erase(0);
                    json["input"].erase(0);
                }),
                HasSubstr("input_ids and text both are"));
    EXPECT_THAT(told([](Json& json) { json["output"][0]["name"] = "logits"; }), HasSubstr("the outputs are token"));
    EXPECT_THAT(told([](Json& json) { json["output"].erase(0); }), HasSubstr("the output token"));
    const auto with_text = [](Json& json) {
        json["output"].push_back({{"name", "text"}, {"data_type", "TYPE_STRING"}});
    };
    EXPECT_THAT(told(with_text), HasSubstr("tells no text of its tokens"));
    EXPECT_THAT(told([](Json& json) {
                    json["output"].push_back({{"name", "text"}, {"data_type", "TYPE_INT64"}});
                }),
                HasSubstr("output \"text\""));
    EngineInfo tells = prefill();
    tells.tokenizer = R"({"huggingface":{"decoder":{"type":"ByteLevel"},"model":{"vocab":{"a":0}}}})";
    Json texts = config();
    with_text(texts);
    const auto stage = GenerationStage::of(texts, decoder(), &tells);
    ASSERT_TRUE(stage) << stage.error().describe();
    EXPECT_TRUE((*stage)->gives_texts());
    EXPECT_FALSE((*GenerationStage::of(config(), decoder(), &tells))->gives_texts());
    EngineInfo encoder = prefill();
    EXPECT_THAT(told([](Json&) {}, encoder), HasSubstr("reads no keys and values of a past"));
    const auto no_tokenizer = GenerationStage::of(config(), decoder(), nullptr);
    ASSERT_FALSE(no_tokenizer);
    EXPECT_THAT(no_tokenizer.error().describe(), HasSubstr("no engine of the model carries a tokenizer"));
    EngineInfo other = decoder();
    other.outputs[0].range = one_shape({1, 41});
    EXPECT_THAT(told([](Json&) {}, other), HasSubstr("vocabularies of 40 and 41"));
}

TEST(TritonGeneration, ReadsRequests) {
    const GenerationStage stage = stage_of(config());
    Sent all;
    all.add<std::int64_t>("input_ids", {4, 7, 9}, {3}).add<std::int32_t>("max_tokens", {12}, {1});
    const auto plain = stage.request(all.given());
    ASSERT_TRUE(plain) << plain.error().describe();
    EXPECT_THAT(plain->prompt, ElementsAre(4, 7, 9));
    EXPECT_FALSE(plain->text);
    EXPECT_EQ(plain->limits.most, 12);
    EXPECT_FALSE(plain->limits.end);
    EXPECT_EQ(plain->sampling.temperature, 0.0F);
    all.add<std::int64_t>("eos", {2}, {1}).add<float>("temperature", {0.5F}, {1});
    all.add<std::int32_t>("top_k", {40}, {1}).add<std::int64_t>("seed", {-1}, {1});
    const auto full = stage.request(all.given());
    ASSERT_TRUE(full) << full.error().describe();
    EXPECT_EQ(full->limits.end, 2);
    EXPECT_EQ(full->sampling.temperature, 0.5F);
    EXPECT_EQ(full->sampling.top_k, 40U);
    EXPECT_EQ(full->sampling.seed, ~std::uint64_t{0});
    Sent text;
    text.text("a film").add<std::int32_t>("max_tokens", {1}, {1});
    EXPECT_EQ(stage.request(text.given()).value().text, "a film");
}

TEST(TritonGeneration, NamesWhatIsWrongWithARequest) {
    const GenerationStage stage = stage_of(config());
    const auto told = [&](const std::function<void(Sent&)>& change, bool most = true) {
        Sent sent;
        if (most) sent.add<std::int32_t>("max_tokens", {12}, {1});
        change(sent);
        const auto request = stage.request(sent.given());
        return request ? std::string("taken") : request.error().describe();
    };
    const auto ids = [](Sent& sent) { sent.add<std::int64_t>("input_ids", {1}, {1}); };
    EXPECT_EQ(told(ids), "taken");
    EXPECT_THAT(told(ids, false), HasSubstr("max_tokens"));
    EXPECT_THAT(told([](Sent&) {}), HasSubstr("there is no prompt"));
    EXPECT_THAT(told([&](Sent& sent) {
                    ids(sent);
                    sent.text("a");
                }),
                HasSubstr("there are two prompts"));
    EXPECT_THAT(told([](Sent& sent) {
                    sent.add<std::int64_t>("input_ids", {1, 2}, {2, 1});
                }),
                HasSubstr("a prompt is a row of tokens"));
    EXPECT_THAT(told([](Sent& sent) { sent.add<std::int64_t>("input_ids", {1, 2}, {3}); }), HasSubstr("16 bytes"));
    EXPECT_THAT(told([](Sent& sent) { sent.text("\xff"); }), HasSubstr("UTF-8"));
    EXPECT_THAT(told([](Sent& sent) { sent.text("a", 2).text("a\xC3"); }), HasSubstr("UTF-8"));
    for (const std::int32_t most : {0, -3}) {
        EXPECT_THAT(told(
                        [&](Sent& sent) {
                            ids(sent);
                            sent.add<std::int32_t>("max_tokens", {most}, {1});
                        },
                        false),
                    HasSubstr(std::to_string(most) + " tokens cannot be made"));
    }
    const auto with_ids = [&](const auto& more) {
        return told([&](Sent& sent) {
            ids(sent);
            more(sent);
        });
    };
    for (const float bad : {-1.0F, INFINITY, NAN})
        EXPECT_THAT(with_ids([&](Sent& sent) { sent.add<float>("temperature", {bad}, {1}); }),
                    HasSubstr("no temperature"));
    EXPECT_THAT(with_ids([](Sent& sent) { sent.add<std::int32_t>("top_k", {-1}, {1}); }), HasSubstr("top_k"));
    EXPECT_THAT(with_ids([](Sent& sent) { sent.add<std::int64_t>("eos", {1, 2}, {2}); }), HasSubstr("2 were sent"));
}

} // namespace
} // namespace lathe::triton::test
