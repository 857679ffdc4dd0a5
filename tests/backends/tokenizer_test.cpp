#include "backends/openvino/tokenizer.hpp"

#include <cstdlib>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/json.hpp"

namespace lathe {
namespace {

using testing::HasSubstr;

/// A small WordPiece tokenizer as the export packs it, and what Hugging Face's library makes of texts
/// (golden/make_tokenizer.py).
const Json& golden() {
    static const Json json = read_json_file(std::string(LATHE_BACKENDS_GOLDEN) + "/tokenizer.json").value();
    return json;
}

class GoldenTokenizer : public testing::Test {
protected:
    void SetUp() override {
        if (const auto library = openvino::tokenizers_library(); !library) {
            GTEST_SKIP() << "SKIPPED: " << library.error().describe();
        }
    }
    static std::shared_ptr<Tokenizer> make(std::size_t limit) {
        auto tokenizer = openvino::make_tokenizer(golden()["tokenizer"].dump(), limit);
        EXPECT_TRUE(tokenizer) << tokenizer.error().describe();
        return tokenizer ? *tokenizer : nullptr;
    }
};

std::vector<std::int64_t> kept(const Tokens& tokens, std::size_t row, const std::vector<std::int64_t>& of) {
    std::vector<std::int64_t> values;
    for (std::size_t i = row * tokens.length; i < (row + 1) * tokens.length; ++i) {
        if (tokens.mask[i] == 1) values.push_back(of[i]);
    }
    return values;
}

void expect_rows(const Tokens& tokens, const Json& expected, const std::vector<std::int64_t>& of, const Json& texts) {
    ASSERT_EQ(tokens.count, expected.size());
    std::size_t longest = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const auto wanted = expected[i].get<std::vector<std::int64_t>>();
        EXPECT_EQ(kept(tokens, i, of), wanted) << texts[i];
        longest = std::max(longest, wanted.size());
        // Filled up on the right.
        for (std::size_t j = wanted.size(); j < tokens.length; ++j) {
            EXPECT_EQ(tokens.mask[i * tokens.length + j], 0);
            EXPECT_EQ(tokens.ids[i * tokens.length + j], 0);
        }
    }
    EXPECT_EQ(tokens.length, longest);
}

TEST_F(GoldenTokenizer, EqualsHuggingFaces) {
    const auto tokenizer = make(0);
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_EQ(tokenizer->max_length(), 12U);
    EXPECT_EQ(tokenizer->pad_id(), 0);
    EXPECT_FALSE(tokenizer->separates_pairs());
    const auto texts = golden()["texts"].get<std::vector<std::string>>();
    const auto tokens = tokenizer->encode(texts, {});
    ASSERT_TRUE(tokens) << tokens.error().describe();
    expect_rows(*tokens, golden()["ids"], tokens->ids, golden()["texts"]);
    // One text alone is not filled up, and later calls do not see earlier ones.
    const auto one = tokenizer->encode({texts.data() + 3, 1}, {});
    ASSERT_TRUE(one);
    EXPECT_EQ(one->ids, golden()["ids"][3].get<std::vector<std::int64_t>>());
}

TEST_F(GoldenTokenizer, CutsWhereTheEngineEnds) {
    const auto tokenizer = make(6);
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_EQ(tokenizer->max_length(), 6U);
    EXPECT_NE(tokenizer->digest(), make(0)->digest());
    const auto texts = golden()["texts"].get<std::vector<std::string>>();
    const auto tokens = tokenizer->encode(texts, {});
    ASSERT_TRUE(tokens) << tokens.error().describe();
    expect_rows(*tokens, golden()["ids_at_most_6"], tokens->ids, golden()["texts"]);
    EXPECT_EQ(make(500)->max_length(), 12U);
    EXPECT_FALSE(openvino::make_tokenizer(golden()["tokenizer"].dump(), 2)); // no room between the special tokens
}

TEST_F(GoldenTokenizer, JoinsPairs) {
    const auto tokenizer = make(0);
    ASSERT_NE(tokenizer, nullptr);
    std::vector<std::string> first;
    std::vector<std::string> second;
    for (const auto& pair : golden()["pairs"]) {
        first.push_back(pair[0].get<std::string>());
        second.push_back(pair[1].get<std::string>());
    }
    const auto tokens = tokenizer->encode(first, second);
    ASSERT_TRUE(tokens) << tokens.error().describe();
    expect_rows(*tokens, golden()["pair_ids"], tokens->ids, golden()["pairs"]);
    expect_rows(*tokens, golden()["pair_types"], tokens->types, golden()["pairs"]);
}

TEST_F(GoldenTokenizer, RefusesDamage) {
    const auto refused = [](const std::function<void(Json&)>& change) {
        Json json = golden()["tokenizer"];
        change(json);
        const auto tokenizer = openvino::make_tokenizer(json.dump(), 0);
        EXPECT_FALSE(tokenizer);
        return tokenizer ? std::string() : tokenizer.error().describe();
    };
    EXPECT_THAT(refused([](Json& json) { json["format"] = "other"; }), HasSubstr("not known"));
    EXPECT_THAT(refused([](Json& json) { json["max_length"] = 0; }), HasSubstr("max_length"));
    EXPECT_THAT(refused([](Json& json) { json.erase("single"); }), HasSubstr("missing"));
    EXPECT_THAT(refused([](Json& json) { json["single"]["xml"] = "a*=="; }), HasSubstr("base64"));
    EXPECT_THAT(refused([](Json& json) { json["single"]["xml"] = "AAAA"; }), HasSubstr("unpack"));
    EXPECT_THAT(refused([](Json& json) { json["single"]["xml"] = json["single"]["weights"]; }),
                HasSubstr("cannot run"));
    EXPECT_FALSE(openvino::make_tokenizer("[1]", 0));
    EXPECT_FALSE(openvino::make_tokenizer("{", 0));
}

TEST(TokenizersLibrary, IsLookedForWhereTheUserSays) {
    const char* before = std::getenv("LATHE_TOKENIZERS");
    const std::string kept = before == nullptr ? "" : before;
    ::setenv("LATHE_TOKENIZERS", "/nowhere/lib.so", 1);
    const auto library = openvino::tokenizers_library();
    ASSERT_FALSE(library);
    EXPECT_EQ(library.error().code, ErrorCode::not_found);
    EXPECT_THAT(library.error().describe(), HasSubstr("LATHE_TOKENIZERS"));
    if (before == nullptr) {
        ::unsetenv("LATHE_TOKENIZERS");
    } else {
        ::setenv("LATHE_TOKENIZERS", kept.c_str(), 1);
    }
}

} // namespace
} // namespace lathe
