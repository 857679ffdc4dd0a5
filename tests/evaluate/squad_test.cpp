#include "evaluate/squad.hpp"

#include <cmath>
#include <functional>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evaluate/squad_metrics.hpp"
#include "support/files.hpp"
#include "support_lib/command.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Scores of the official evaluate-v1.1.py and evaluate-v2.0.py (make_squad_cases.py), one by one and all together.
TEST(SquadMetrics, EqualTheOfficialScripts) {
    const auto golden = read_json_file(test::source_path("tests/evaluate/golden/squad_cases.json"));
    ASSERT_TRUE(golden) << golden.error().describe();
    const Json& cases = (*golden)["cases"];
    ASSERT_GT(cases.size(), 700U);
    AnswerScore sums[2];
    double counts[2]{};
    const auto add = [&](std::size_t version, const AnswerScore& score) {
        sums[version].exact += score.exact;
        sums[version].f1 += score.f1;
        ++counts[version];
    };
    for (const Json& each : cases) {
        const auto prediction = each["prediction"].get<std::string>();
        const auto answers = each["answers"].get<std::vector<std::string>>();
        SCOPED_TRACE(each.dump());
        EXPECT_EQ(normalize_answer(prediction), each["normalized"].get<std::string>());
        const AnswerScore v1 = score_answer_v1(prediction, answers);
        const AnswerScore v2 = score_answer_v2(prediction, answers);
        EXPECT_EQ(each["v1"].is_null(), answers.empty()); // there the script stops
        const Json expected = answers.empty() ? Json{0.0, 0.0} : each["v1"];
        EXPECT_DOUBLE_EQ(v1.exact, expected[0].get<double>());
        EXPECT_DOUBLE_EQ(v1.f1, expected[1].get<double>());
        EXPECT_DOUBLE_EQ(v2.exact, each["v2"][0].get<double>());
        EXPECT_DOUBLE_EQ(v2.f1, each["v2"][1].get<double>());
        if (!answers.empty()) add(0, v1);
        add(1, v2);
    }
    const Json& totals = (*golden)["totals"];
    EXPECT_NEAR(100 * sums[0].exact / counts[0], totals["v1"]["exact_match"].get<double>(), 1e-9);
    EXPECT_NEAR(100 * sums[0].f1 / counts[0], totals["v1"]["f1"].get<double>(), 1e-9);
    EXPECT_NEAR(100 * sums[1].exact / counts[1], totals["v2"]["exact"].get<double>(), 1e-9);
    EXPECT_NEAR(100 * sums[1].f1 / counts[1], totals["v2"]["f1"].get<double>(), 1e-9);
}

TEST(SquadMetrics, ByHand) {
    // "cat sat on mat" against "cat sat": precision 2/4, recall 2/2, F1 2/3.
    EXPECT_DOUBLE_EQ(score_answer_v1("The cat sat on a mat!", {"a cat, sat"}).f1, 2.0 / 3.0);
    EXPECT_DOUBLE_EQ(score_answer_v1("The cat sat on a mat!", {"a cat, sat"}).exact, 0.0);
    EXPECT_DOUBLE_EQ(score_answer_v1("Cat sat.", {"dog", "a cat, sat"}).exact, 1.0);
    // Nothing but articles: equal as text; 1.1 gives no F1 for that, 2.0 does.
    EXPECT_DOUBLE_EQ(score_answer_v1("the", {"an"}).exact, 1.0);
    EXPECT_DOUBLE_EQ(score_answer_v1("the", {"an"}).f1, 0.0);
    EXPECT_DOUBLE_EQ(score_answer_v2("the", {"an"}).f1, 1.0);
    EXPECT_DOUBLE_EQ(score_answer_v2("", {}).exact, 1.0);
    EXPECT_DOUBLE_EQ(score_answer_v2("something", {}).f1, 0.0);
}

TEST(TextPieces, AreWordsMarksAndIdeographs) {
    const std::string text = "It's 3.5%,\tna\u00efve\u2014\u65e5\u672c \u20ac5";
    std::vector<std::string> pieces;
    for (const TextPiece& piece : text_pieces(text))
        pieces.push_back(text.substr(piece.begin, piece.end - piece.begin));
    EXPECT_THAT(pieces, ElementsAre("It", "'", "s", "3", ".", "5", "%", ",", "na\u00efve", "\u2014", "\u65e5", "\u672c",
                                    "\u20ac", "5"));
    EXPECT_THAT(text_pieces(" \n\t "), IsEmpty());
}

/// Tokens are chunks of at most two bytes of a piece, "a" and "b" among them; [CLS] is 1, [SEP] 2.
class Chunks final : public Tokenizer {
public:
    explicit Chunks(std::size_t longest = 100, bool pairs = true) : longest_(longest), pairs_(pairs) {}
    std::size_t max_length() const override { return longest_; }
    std::int64_t pad_id() const override { return 0; }
    bool separates_pairs() const override { return false; }
    std::string digest() const override { return "chunks"; }
    static std::int64_t id(std::string_view chunk) {
        std::int64_t value = 10;
        for (const char c : chunk)
            value = value * 256 + static_cast<unsigned char>(c);
        return value;
    }
    std::string unbroken; ///< a word that is one token
    std::vector<std::int64_t> ids(const std::string& text) const {
        std::vector<std::int64_t> found;
        std::size_t skip = 0;
        for (const TextPiece& piece : text_pieces(text)) {
            if (piece.begin < skip) continue;
            if (!unbroken.empty() && text.compare(piece.begin, unbroken.size(), unbroken) == 0) {
                found.push_back(id(unbroken));
                skip = piece.begin + unbroken.size();
                continue;
            }
            for (std::size_t at = piece.begin; at < piece.end; at += 2)
                found.push_back(id(std::string_view(text).substr(at, std::min<std::size_t>(2, piece.end - at))));
        }
        return found;
    }
    Result<std::size_t> count_cut(std::span<const std::string>, std::span<const std::string>, const Tokens&) override {
        return std::size_t{0};
    }
    Result<Tokens> encode(std::span<const std::string> first, std::span<const std::string> second) override {
        if (!second.empty() && !pairs_) return Error{ErrorCode::unsupported, "no pairs", "", ""};
        std::vector<std::vector<std::int64_t>> rows;
        std::vector<std::vector<std::int64_t>> types;
        Tokens tokens;
        for (std::size_t i = 0; i < first.size(); ++i) {
            std::vector<std::int64_t> row{1};
            for (const std::int64_t each : ids(first[i]))
                row.push_back(each);
            row.resize(std::min(row.size(), longest_ - 1));
            row.push_back(2);
            std::vector<std::int64_t> type(row.size(), 0);
            if (!second.empty()) {
                for (const std::int64_t each : ids(second[i]))
                    row.push_back(each);
                row.push_back(2);
                type.resize(row.size(), 1);
            }
            tokens.length = std::max(tokens.length, row.size());
            rows.push_back(row);
            types.push_back(type);
        }
        tokens.count = first.size();
        for (std::size_t i = 0; i < rows.size(); ++i) {
            for (std::size_t j = 0; j < tokens.length; ++j) {
                tokens.ids.push_back(j < rows[i].size() ? rows[i][j] : 0);
                tokens.mask.push_back(j < rows[i].size() ? 1 : 0);
                tokens.types.push_back(j < types[i].size() ? types[i][j] : 0);
            }
        }
        return tokens;
    }

private:
    std::size_t longest_;
    bool pairs_;
};

WindowMaker maker(Tokenizer& tokenizer, const WindowOptions& options) {
    auto made = WindowMaker::make(tokenizer, options);
    EXPECT_TRUE(made) << made.error().describe();
    return *std::move(made);
}

TEST(SquadWindows, SlideOverTheContext) {
    Chunks tokenizer;
    // [CLS] who [SEP] ... [SEP] leaves 9 - 5 = 4 places for the context's 7 tokens; the question's two chunks are wh,
    // o.
    WindowMaker make = maker(tokenizer, {.max_length = 9, .doc_stride = 2, .max_question = 8});
    const ContextTokens context = *make.tokenize("ab, cd ef ghi jk");
    ASSERT_EQ(context.ids.size(), 7U); // ab | , | cd | ef | gh i | jk
    EXPECT_EQ(context.pieces[5], context.pieces[4]);
    const auto windows = *make.windows("who", context);
    ASSERT_EQ(windows.size(), 3U);
    const std::int64_t wh = Chunks::id("wh");
    const std::int64_t o = Chunks::id("o");
    EXPECT_THAT(windows[0].ids,
                ElementsAre(1, wh, o, 2, Chunks::id("ab"), Chunks::id(","), Chunks::id("cd"), Chunks::id("ef"), 2));
    EXPECT_THAT(windows[0].types, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1, 1));
    EXPECT_EQ(windows[0].first, 4U);
    EXPECT_THAT(windows[0].tokens, ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(windows[1].tokens, ElementsAre(2, 3, 4, 5));
    EXPECT_THAT(windows[2].tokens, ElementsAre(4, 5, 6));
    // Token 2 has one token on its smaller side in the first window and none in the second; token 3 the reverse.
    EXPECT_THAT(windows[0].most_context, ElementsAre(true, true, true, false));
    EXPECT_THAT(windows[1].most_context, ElementsAre(false, true, true, false));
    EXPECT_THAT(windows[2].most_context, ElementsAre(false, true, true));
}

TEST(SquadWindows, AWordThatTheTokenizerCutsElsewhereIsOnePiece) {
    Chunks tokenizer;
    tokenizer.unbroken = "x-y";
    WindowMaker make = maker(tokenizer, {});
    const std::string text = "a-b x-y c-d";
    const ContextTokens context = *make.tokenize(text);
    std::vector<std::string> pieces;
    for (const TextPiece& piece : context.pieces)
        pieces.push_back(text.substr(piece.begin, piece.end - piece.begin));
    EXPECT_THAT(pieces, ElementsAre("a", "-", "b", "x-y", "c", "-", "d"));
}

TEST(SquadWindows, QuestionsAreCutAndRoomIsNeeded) {
    Chunks tokenizer;
    WindowMaker make = maker(tokenizer, {.max_length = 8, .doc_stride = 4, .max_question = 2});
    const ContextTokens context = *make.tokenize("ab cd");
    EXPECT_EQ((*make.windows("when where who", context))[0].ids.size(), 7U); // 2 of the question, 3 special, 2
    WindowMaker narrow = maker(tokenizer, {.max_length = 5, .doc_stride = 4, .max_question = 2});
    EXPECT_EQ(narrow.windows("when where", context).error().code, ErrorCode::out_of_range);
    EXPECT_EQ((*make.windows("who", *make.tokenize("")))[0].tokens.size(), 0U);
    Chunks single(100, false);
    EXPECT_EQ(WindowMaker::make(single, {}).error().code, ErrorCode::unsupported);
    EXPECT_EQ(WindowMaker::make(tokenizer, {.doc_stride = 0}).error().code, ErrorCode::invalid_argument);
}

SpanScores scores_of(std::size_t length) {
    return {std::vector<float>(length, -9.0F), std::vector<float>(length, -9.0F)};
}

TEST(SquadAnswers, TheBestAllowedSpanWins) {
    Chunks tokenizer;
    WindowMaker make = maker(tokenizer, {.max_length = 9, .doc_stride = 2, .max_question = 8});
    const std::string text = "ab, cd ef ghi jk";
    const ContextTokens context = *make.tokenize(text);
    const auto windows = *make.windows("who", context);
    std::vector<SpanScores> scores;
    for (const Window& window : windows)
        scores.push_back(scores_of(window.ids.size()));
    SquadOptions options;
    const auto answer = [&](bool may_be_none = false) {
        return best_answer(text, context, windows, scores, options, may_be_none);
    };
    scores[0].start[4] = 3; // ab
    scores[0].end[6] = 2;   // cd
    EXPECT_EQ(answer(), "ab, cd");
    options.max_answer = 2; // three tokens are too long now: 3 - 9 with an end at ab or ","
    EXPECT_EQ(answer(), "ab");
    options.max_answer = 30;
    scores[0].start[1] = 50; // in the question
    scores[0].end[1] = 50;
    EXPECT_EQ(answer(), "ab, cd");
    scores[1].start[4] = 9; // cd, which has more context in the first window
    scores[1].end[4] = 9;
    EXPECT_EQ(answer(), "ab, cd");
    scores[1].start[6] = 4; // gh, of the piece "ghi"
    scores[1].end[6] = 4;
    EXPECT_EQ(answer(), "ghi");
    // No answer: 4 + 4 = 8 is beaten by more than the threshold only where every window says so.
    for (SpanScores& each : scores)
        each.start[0] = each.end[0] = 5;
    EXPECT_EQ(answer(), "ghi");
    EXPECT_EQ(answer(true), "");
    options.null_threshold = 2;
    EXPECT_EQ(answer(true), "ghi"); // 10 - 8 is not more than 2
    options.null_threshold = 0;
    scores[2].start[0] = -9;
    EXPECT_EQ(answer(true), "ghi");
}

/// Every pair of positions tried, in place of the n best.
TEST(SquadAnswers, EqualTryingAllSpansWhereNIsLarge) {
    Chunks tokenizer;
    WindowMaker make = maker(tokenizer, {.max_length = 16, .doc_stride = 5, .max_question = 8});
    const std::string text = "the quick brown fox, jumps over a lazy dog; and runs away at once";
    const ContextTokens context = *make.tokenize(text);
    const auto windows = *make.windows("why so", context);
    ASSERT_GT(windows.size(), 2U);
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    SquadOptions options;
    options.n_best = 100;
    options.max_answer = 6;
    for (int trial = 0; trial < 50; ++trial) {
        std::vector<SpanScores> scores;
        double best = -1e9;
        std::string expected;
        for (const Window& window : windows) {
            scores.push_back(scores_of(window.ids.size()));
            for (auto* side : {&scores.back().start, &scores.back().end})
                std::ranges::generate(*side, [&] { return normal(random); });
            for (std::size_t i = 0; i < window.tokens.size(); ++i) {
                for (std::size_t j = i; j < window.tokens.size() && j < i + 6; ++j) {
                    const double score = static_cast<double>(scores.back().start[window.first + i]) +
                                         static_cast<double>(scores.back().end[window.first + j]);
                    if (!window.most_context[i] || score <= best) continue;
                    best = score;
                    const auto from = context.pieces[window.tokens[i]].begin;
                    expected = text.substr(from, context.pieces[window.tokens[j]].end - from);
                }
            }
        }
        EXPECT_EQ(best_answer(text, context, windows, scores, options, false), expected);
    }
}

/// Points at the first place of a chunk in the row; at nothing where there is none.
class Finder final : public SpanPredictor {
public:
    Finder(std::string name, std::string chunk) : name_(std::move(name)), id_(Chunks::id(chunk)) {}
    const std::string& name() const override { return name_; }
    const std::string& precision() const override { return precision_; }
    Result<std::vector<SpanScores>> score(const Batch& batch) override {
        const HostTensor& ids = batch.inputs.at(0);
        EXPECT_EQ(ids.name, "input_ids");
        const auto length = static_cast<std::size_t>(ids.shape[1]);
        std::vector<SpanScores> scores;
        for (std::size_t row = 0; row < batch.size(); ++row) {
            SpanScores each = scores_of(length);
            each.start[0] = each.end[0] = 0;
            for (std::size_t i = 1; i < length; ++i) {
                if (ids.as<std::int64_t>()[row * length + i] == id_) each.start[i] = each.end[i] = 7;
            }
            if (broken) each.start[0] = std::nanf("");
            scores.push_back(each);
        }
        return scores;
    }
    bool broken = false;

private:
    std::string name_;
    std::string precision_ = "fp32";
    std::int64_t id_;
};

const char* const small = R"({"version": "2", "data": [{"title": "t", "paragraphs": [
 {"context": "ab sat on the mat. cd ran away", "qas": [
  {"id": "1", "question": "who sat?", "answers": [{"text": "ab", "answer_start": 0}], "is_impossible": false},
  {"id": "2", "question": "where?", "answers": [{"text": "the mat"}, {"text": "mat"}], "is_impossible": false},
  {"id": "3", "question": "when?", "answers": [], "is_impossible": true}]},
 {"context": "nobody", "qas": [{"id": "4", "question": "who?", "answers": [], "is_impossible": true}]}]}]})";

std::vector<InputSpec> text_inputs() {
    return {{"input_ids", DataType::int64, {-1, -1}}, {"attention_mask", DataType::int64, {-1, -1}}};
}

TEST(Squad, ScoresAgainstPeoplesAnswers) {
    const test::TemporaryFolder folder;
    ASSERT_TRUE(write_file(folder / "squad.json", small));
    const SquadData data = *load_squad(folder / "squad.json");
    EXPECT_TRUE(data.version2);
    ASSERT_EQ(data.questions.size(), 4U);
    Chunks tokenizer;
    Finder finds_ab("ab", "ab");
    Finder finds_ma("mat", "ma");
    const std::vector<SpanPredictor*> subjects{&finds_ab, &finds_ma};
    const auto result = evaluate_squad(subjects, true, data, tokenizer, text_inputs(), {}, no_progress());
    ASSERT_TRUE(result) << result.error().describe();
    // "ab" for the three questions of the first text, none for "nobody": right are the first and the last.
    EXPECT_THAT(result->subjects[0].answers, ElementsAre("ab", "ab", "ab", ""));
    EXPECT_DOUBLE_EQ(result->subjects[0].exact, 0.5);
    EXPECT_DOUBLE_EQ(result->subjects[0].has_answer_exact, 0.5);
    EXPECT_DOUBLE_EQ(result->subjects[0].no_answer_exact, 0.5);
    EXPECT_DOUBLE_EQ(result->subjects[0].f1, 0.5);
    EXPECT_THAT(result->subjects[1].answers, ElementsAre("mat", "mat", "mat", ""));
    const Json json = to_json(*result);
    EXPECT_FALSE(json[0].contains("vs_reference"));
    EXPECT_DOUBLE_EQ(json[1]["vs_reference"]["agreement"].get<double>(), 0.25);
    EXPECT_DOUBLE_EQ(json[1]["vs_reference"]["f1_delta"].get<double>(), 0.0);
}

TEST(Squad, NaNCountsAsNoAnswer) {
    const test::TemporaryFolder folder;
    ASSERT_TRUE(write_file(folder / "squad.json", small));
    const SquadData data = *load_squad(folder / "squad.json");
    Chunks tokenizer;
    Finder broken("broken", "ab");
    broken.broken = true;
    const std::vector<SpanPredictor*> subjects{&broken};
    const auto result = evaluate_squad(subjects, false, data, tokenizer, text_inputs(), {}, no_progress());
    ASSERT_TRUE(result);
    EXPECT_EQ(result->subjects[0].nonfinite, 4U);
    EXPECT_THAT(result->subjects[0].answers, ElementsAre("", "", "", ""));
}

TEST(Squad, FilesThatAreNone) {
    const test::TemporaryFolder folder;
    for (const char* text : {"[]", "{}", R"({"data": [1]})", R"({"data": []})", R"({"data": [{"paragraphs": [{}]}]})",
                             R"({"data": [{"paragraphs": [{"context": "c", "qas": [{"id": 1}]}]}]})",
                             R"({"data": [{"paragraphs": [{"context": "c", "qas": [{"id": "1", "question": "q",
                                "answers": [3]}]}]}]})"}) {
        ASSERT_TRUE(write_file(folder / "bad.json", text));
        const auto data = load_squad(folder / "bad.json");
        ASSERT_FALSE(data) << text;
        EXPECT_EQ(data.error().code, ErrorCode::parse_error) << text;
    }
    EXPECT_FALSE(load_squad(folder / "none.json"));
    ASSERT_TRUE(write_file(folder / "latin.json", std::string_view("{\"data\": \"caf\xE9\"}")));
    const auto latin = load_squad(folder / "latin.json");
    ASSERT_FALSE(latin);
    EXPECT_THAT(latin.error().describe(), testing::HasSubstr("0xE9 at byte 14"));
    EXPECT_THAT(latin.error().hint, testing::HasSubstr("iconv"));
}

} // namespace
} // namespace lathe
