// Tokens back into text, against Hugging Face's decode (make_detokenizer.py).
#include "data/detokenizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/golden.hpp"
#include "data/text_pieces.hpp"
#include "support/json.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

TEST(Detokenizer, SaysWhatHuggingFaceSays) {
    const auto golden_file = read_json_file(golden("detokenizer.json"));
    ASSERT_TRUE(golden_file) << golden_file.error().describe();
    std::size_t longer_than_a_token = 0;
    for (const Json& tokenizer : *golden_file) {
        const auto made = Detokenizer::of(Json{{"huggingface", tokenizer["huggingface"]}}.dump());
        ASSERT_TRUE(made) << made.error().describe();
        for (const Json& each : tokenizer["cases"]) {
            const auto ids = each["ids"].get<std::vector<std::int64_t>>();
            const auto wanted = each["text"].get<std::string>();
            TextWriter writer(*made);
            std::string text;
            for (const std::int64_t id : ids) {
                const std::string piece = writer.next(id);
                EXPECT_FALSE(first_not_utf8(piece)) << each["ids"].dump();
                text += piece;
            }
            const std::string rest = writer.end();
            longer_than_a_token += rest.empty() ? 0 : 1;
            EXPECT_EQ(text + rest, wanted) << each["ids"].dump();
            EXPECT_EQ(writer.end(), "") << "once";
            // In the middle of a text that is there: together the same, wherever it is cut.
            for (std::size_t cut = 0; cut <= ids.size(); ++cut) {
                TextWriter first(*made);
                std::string before;
                for (std::size_t i = 0; i < cut; ++i)
                    before += first.next(ids[i]);
                TextWriter on(*made, std::span(ids).first(cut));
                std::string behind;
                for (std::size_t i = cut; i < ids.size(); ++i)
                    behind += on.next(ids[i]);
                EXPECT_EQ(before + behind + on.end(), wanted) << cut << " of " << each["ids"].dump();
            }
        }
    }
    EXPECT_GT(longer_than_a_token, 5U) << "no case ends in the middle of a character";
}

TEST(Detokenizer, RefusesWhatItDoesNotKnow) {
    const Json vocabulary{{"vocab", {{"a", 0}}}};
    struct Case {
        std::string text;
        ErrorCode code;
        const char* reason;
    };
    for (const Case& each : std::vector<Case>{
             {"", ErrorCode::parse_error, "no JSON object"},
             {"{}", ErrorCode::unsupported, "tells no text"},
             {Json{{"huggingface", {{"model", vocabulary}}}}.dump(), ErrorCode::unsupported, "no decoder"},
             {Json{{"huggingface", {{"model", vocabulary}, {"decoder", {{"type", "Metaspace"}}}}}}.dump(),
              ErrorCode::unsupported, "Metaspace"},
             {Json{{"huggingface", {{"decoder", {{"type", "ByteLevel"}}}}}}.dump(), ErrorCode::parse_error,
              "no vocabulary"},
             {R"({"huggingface":{"decoder":{"type":"ByteLevel"},"model":{"vocab":{"a":"b"}}}})", ErrorCode::parse_error,
              "has no id"},
             {R"({"huggingface":{"decoder":{"type":"ByteLevel"},"model":{"vocab":{"a":0}},"added_tokens":[{"id":1}]}})",
              ErrorCode::parse_error, "added token"},
             {R"({"huggingface":{"decoder":{"type":7},"model":{"vocab":{"a":0}}}})", ErrorCode::unsupported,
              "no decoder"}}) {
        const auto refused = Detokenizer::of(each.text);
        ASSERT_FALSE(refused) << each.text;
        EXPECT_EQ(refused.error().code, each.code) << each.text;
        EXPECT_THAT(refused.error().describe(), HasSubstr(each.reason)) << each.text;
    }
    const auto one = Detokenizer::of(
        R"({"huggingface":{"decoder":{"type":"Sequence","decoders":[{"type":"ByteLevel"}]},"model":{"vocab":{"a":0}}}})");
    ASSERT_TRUE(one) << one.error().describe();
    EXPECT_EQ(TextWriter(*one).next(0), "a");
}

} // namespace
} // namespace lathe::test
