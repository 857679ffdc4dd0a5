#include "backends/openvino/tokenizer.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/json.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

using testing::HasSubstr;

/// A small tokenizer as the export packs it, and what Hugging Face's library makes of texts (golden/make_tokenizer.py).
struct Golden {
    const char* name;
    const char* file;
    std::int64_t pad_id;
    PaddingSide side;
    std::size_t special; ///< tokens around a text
};

Json read(const char* file) { return read_json_file(test::source_path("tests/backends/golden/") + file).value(); }

class GoldenTokenizer : public testing::TestWithParam<Golden> {
protected:
    void SetUp() override {
        if (const auto library = openvino::tokenizers_library(); !library) {
            GTEST_SKIP() << "SKIPPED: " << library.error().describe();
        }
        golden_ = read(GetParam().file);
    }
    std::shared_ptr<Tokenizer> make(std::size_t limit) const {
        auto tokenizer = openvino::make_tokenizer(golden_["tokenizer"].dump(), limit);
        EXPECT_TRUE(tokenizer) << tokenizer.error().describe();
        return tokenizer ? *tokenizer : nullptr;
    }
    static std::vector<std::int64_t> kept(const Tokens& tokens, std::size_t row, const std::vector<std::int64_t>& of) {
        std::vector<std::int64_t> values;
        for (std::size_t i = row * tokens.length; i < (row + 1) * tokens.length; ++i) {
            if (tokens.mask[i] == 1) values.push_back(of[i]);
        }
        return values;
    }
    static void expect_rows(const Tokens& tokens, const Json& expected, const std::vector<std::int64_t>& of,
                            const Json& texts) {
        ASSERT_EQ(tokens.count, expected.size());
        std::size_t longest = 0;
        for (std::size_t i = 0; i < expected.size(); ++i) {
            const auto wanted = expected[i].get<std::vector<std::int64_t>>();
            EXPECT_EQ(kept(tokens, i, of), wanted) << texts[i];
            longest = std::max(longest, wanted.size());
            const bool behind = GetParam().side == PaddingSide::behind;
            for (std::size_t j = 0; j < tokens.length; ++j) {
                const bool padding = behind ? j >= wanted.size() : j < tokens.length - wanted.size();
                EXPECT_EQ(tokens.mask[i * tokens.length + j], padding ? 0 : 1) << texts[i];
                if (padding) {
                    EXPECT_EQ(tokens.ids[i * tokens.length + j], GetParam().pad_id) << texts[i];
                }
            }
        }
        EXPECT_EQ(tokens.length, longest);
    }
    Json golden_;
};

TEST_P(GoldenTokenizer, EqualsHuggingFaces) {
    const auto tokenizer = make(0);
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_EQ(tokenizer->max_length(), 12U);
    EXPECT_EQ(tokenizer->pad_id(), GetParam().pad_id);
    EXPECT_EQ(tokenizer->padding_side(), GetParam().side);
    EXPECT_FALSE(tokenizer->separates_pairs());
    const auto texts = golden_["texts"].get<std::vector<std::string>>();
    const auto tokens = tokenizer->encode(texts, {});
    ASSERT_TRUE(tokens) << tokens.error().describe();
    expect_rows(*tokens, golden_["ids"], tokens->ids, golden_["texts"]);
    // One text alone is not filled up, and later calls do not see earlier ones.
    const auto one = tokenizer->encode({texts.data() + 3, 1}, {});
    ASSERT_TRUE(one);
    EXPECT_EQ(one->ids, golden_["ids"][3].get<std::vector<std::int64_t>>());
}

TEST_P(GoldenTokenizer, CutsWhereTheEngineEnds) {
    const auto tokenizer = make(6);
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_EQ(tokenizer->max_length(), 6U);
    EXPECT_NE(tokenizer->digest(), make(0)->digest());
    const auto texts = golden_["texts"].get<std::vector<std::string>>();
    const auto tokens = tokenizer->encode(texts, {});
    ASSERT_TRUE(tokens) << tokens.error().describe();
    expect_rows(*tokens, golden_["ids_at_most_6"], tokens->ids, golden_["texts"]);
    EXPECT_EQ(make(500)->max_length(), 12U);
    if (GetParam().special > 0) { // no room between the special tokens
        EXPECT_FALSE(openvino::make_tokenizer(golden_["tokenizer"].dump(), GetParam().special));
    }
}

// A text that just fills the model is not cut, one token more is.
TEST_P(GoldenTokenizer, CountsWhatItCuts) {
    const auto texts = golden_["texts"].get<std::vector<std::string>>();
    const auto uncut = golden_["ids"].get<std::vector<std::vector<std::int64_t>>>(); // but at 12
    for (const std::size_t limit : {6U, 8U, 11U}) {
        const auto tokenizer = make(limit);
        ASSERT_NE(tokenizer, nullptr);
        std::size_t longer = 0;
        for (const auto& ids : uncut)
            longer += ids.size() > limit ? 1 : 0;
        for (int again = 0; again < 2; ++again) {
            const auto tokens = tokenizer->encode(texts, {});
            ASSERT_TRUE(tokens);
            const auto cut = tokenizer->count_cut(texts, {}, *tokens);
            ASSERT_TRUE(cut) << cut.error().describe();
            EXPECT_EQ(*cut, longer) << limit;
        }
    }
    // Beyond the tokenizer's own limit too.
    const auto tokenizer = make(0);
    ASSERT_NE(tokenizer, nullptr);
    std::string text = "the";
    std::vector<bool> seen;
    for (int words = 1; words < 30; ++words, text += " the") {
        const std::vector<std::string> one{text};
        const auto tokens = tokenizer->encode(one, {});
        ASSERT_TRUE(tokens);
        const auto cut = tokenizer->count_cut(one, {}, *tokens);
        ASSERT_TRUE(cut);
        seen.push_back(*cut == 1);
        const auto joint = tokenizer->encode(one, one);
        ASSERT_TRUE(joint);
        const auto joint_cut = tokenizer->count_cut(one, one, *joint);
        ASSERT_TRUE(joint_cut) << joint_cut.error().describe();
        if (*cut == 1) {
            EXPECT_EQ(*joint_cut, 1U) << words;
        }
        if (words == 1) {
            EXPECT_EQ(*joint_cut, 0U);
        }
    }
    EXPECT_TRUE(std::ranges::is_sorted(seen));
    EXPECT_FALSE(seen.front());
    EXPECT_TRUE(seen.back());
    const auto whole = make(0)->encode(std::vector<std::string>{"the the"}, {});
    ASSERT_TRUE(whole);
    const std::size_t word = whole->length - make(0)->encode(std::vector<std::string>{"the"}, {})->length;
    if (word == 1) { // as many words as there is room for beside the special tokens
        EXPECT_EQ(std::ranges::count(seen, false), static_cast<std::ptrdiff_t>(12 - GetParam().special));
    }
}

TEST_P(GoldenTokenizer, JoinsPairs) {
    const auto tokenizer = make(0);
    ASSERT_NE(tokenizer, nullptr);
    std::vector<std::string> first;
    std::vector<std::string> second;
    for (const auto& pair : golden_["pairs"]) {
        first.push_back(pair[0].get<std::string>());
        second.push_back(pair[1].get<std::string>());
    }
    const auto tokens = tokenizer->encode(first, second);
    ASSERT_TRUE(tokens) << tokens.error().describe();
    expect_rows(*tokens, golden_["pair_ids"], tokens->ids, golden_["pairs"]);
    if (!golden_["pair_types"].empty()) {
        expect_rows(*tokens, golden_["pair_types"], tokens->types, golden_["pairs"]);
    }
}

// The library crashes or makes unknown tokens of what is not UTF-8, so nothing of that kind may reach it.
TEST_P(GoldenTokenizer, TakesUtf8Alone) {
    const auto tokenizer = make(0);
    ASSERT_NE(tokenizer, nullptr);
    const std::vector<std::string> fine{"the quiet film", std::string("a\0b", 3), "\xEF\xBF\xBF \xF4\x8F\xBF\xBF"};
    for (const char* bytes : {"\xFF\xFE", "caf\xE9", "a\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "ok \xE2\x82"}) {
        const std::vector<std::string> bad{fine[0], bytes};
        const std::vector<std::string> good{fine[0], fine[0]};
        const auto first = tokenizer->encode(bad, {});
        ASSERT_FALSE(first) << testing::PrintToString(bytes);
        EXPECT_EQ(first.error().code, ErrorCode::parse_error);
        EXPECT_THAT(first.error().describe(), HasSubstr("text 2"));
        const auto second = tokenizer->encode(good, bad);
        ASSERT_FALSE(second);
        EXPECT_THAT(second.error().describe(), HasSubstr("second text 2"));
    }
    EXPECT_TRUE(tokenizer->encode(fine, {}));
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, GoldenTokenizer,
                         testing::Values(Golden{"WordPiece", "tokenizer.json", 0, PaddingSide::behind, 2},
                                         Golden{"ByteLevelBpe", "bpe.json", 1, PaddingSide::behind, 2},
                                         Golden{"ByteLevelBpeOfPrompts", "bpe_prompt.json", 0, PaddingSide::in_front,
                                                0}),
                         [](const auto& info) { return info.param.name; });

TEST(TokenizerDescription, IsRefusedWhereDamaged) {
    if (const auto library = openvino::tokenizers_library(); !library) {
        GTEST_SKIP() << "SKIPPED: " << library.error().describe();
    }
    const Json whole = read("tokenizer.json")["tokenizer"];
    const auto refused = [&](const std::function<void(Json&)>& change) {
        Json json = whole;
        change(json);
        const auto tokenizer = openvino::make_tokenizer(json.dump(), 0);
        EXPECT_FALSE(tokenizer);
        return tokenizer ? std::string() : tokenizer.error().describe();
    };
    EXPECT_THAT(refused([](Json& json) { json["format"] = "other"; }), HasSubstr("not known"));
    EXPECT_THAT(refused([](Json& json) { json["max_length"] = 0; }), HasSubstr("max_length"));
    EXPECT_THAT(refused([](Json& json) { json["padding"] = "above"; }), HasSubstr("padding"));
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
