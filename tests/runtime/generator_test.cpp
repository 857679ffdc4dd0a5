// Texts continued with keys and values kept, against a loop that computes everything anew for each token.
#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/decoders.hpp"
#include "runtime/generator.hpp"

namespace lathe::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Tokens = std::vector<std::int64_t>;

constexpr std::int64_t longest = 24;

Engine engine_of(const Model& model, std::int64_t least, std::int64_t most) {
    BuildOptions options;
    for (const ValueInfo& input : model.graph.inputs) {
        ShapeRange range;
        for (std::size_t axis = 0; axis < input.dims->size(); ++axis) {
            const auto& dim = (*input.dims)[axis];
            const std::int64_t more = dim.symbol == "total" ? 1 : 0;
            const bool open = !dim.size && dim.symbol != "batch";
            range.min.push_back(dim.size.value_or(open ? least + more : 1));
            range.opt.push_back(dim.size.value_or(open ? std::max<std::int64_t>(least, most / 2) + more : 1));
            range.max.push_back(dim.size.value_or(open ? most + more : 1));
        }
        options.shapes[input.name] = range;
    }
    auto engine = Engine::build(model, options);
    if (!engine) throw std::runtime_error(engine.error().describe());
    return std::move(*engine);
}

const Engine& decoder() {
    static const Engine engine = engine_of(TinyDecoder::decode(), 1, longest);
    return engine;
}
const Engine& whole() {
    static const Engine engine = engine_of(TinyDecoder::prefill(), 1, longest + 10);
    return engine;
}

Generator generator_of(const Engine& decode, const Engine* prefill = nullptr) {
    std::optional<Generator::Prompting> prompting;
    if (prefill != nullptr) prompting.emplace(Generator::Prompting{prefill->info(), prefill->make_session().value()});
    auto made = Generator::make({decode.info(), decode.make_session().value(), decode.make_session().value()},
                                std::move(prompting));
    if (!made) throw std::runtime_error(made.error().describe());
    return std::move(*made);
}

/// Greedy, by the network that reads a whole text.
Tokens recomputed(const Tokens& prompt, std::int64_t count, std::vector<std::vector<float>>* scores = nullptr) {
    Session session = whole().make_session().value();
    Tokens text = prompt;
    for (std::int64_t made = 0; made < count; ++made) {
        const auto length = static_cast<std::int64_t>(text.size());
        Tokens mask(text.size(), 1);
        Tokens places(text.size());
        for (std::size_t i = 0; i < places.size(); ++i)
            places[i] = static_cast<std::int64_t>(i);
        std::vector<TensorView> views;
        for (const IoInfo& input : whole().info().inputs) {
            Tokens& values = input.name == "input_ids" ? text : input.name == "attention_mask" ? mask : places;
            views.push_back({input.name, DataType::int64, {1, length}, std::as_writable_bytes(std::span(values))});
        }
        const auto outputs = session.run(views);
        if (!outputs) throw std::runtime_error(outputs.error().describe());
        for (const TensorView& output : *outputs) {
            if (output.name != "logits") continue;
            const auto row = output.as<const float>();
            if (scores != nullptr) scores->emplace_back(row.begin(), row.end());
            text.push_back(std::max_element(row.begin(), row.end()) - row.begin());
        }
    }
    return {text.begin() + static_cast<std::ptrdiff_t>(prompt.size()), text.end()};
}

Result<Tokens> generated(Generator& generator, const Tokens& prompt, std::int64_t count,
                         std::optional<std::int64_t> end = {}, const Sampling& sampling = {}) {
    Tokens made;
    bool ended = false;
    LATHE_CHECK(
        generate(generator, prompt, {count, end}, sampling, {}, [&](std::int64_t token, bool last) -> Result<void> {
            EXPECT_FALSE(ended);
            ended = last;
            made.push_back(token);
            return {};
        }));
    EXPECT_TRUE(ended);
    return made;
}

TEST(Generator, MakesTheTokensOfALoopThatComputesEverythingAnew) {
    const Engine short_prompts = engine_of(TinyDecoder::prefill(), 4, 6);
    Generator alone = generator_of(decoder());
    Generator with_prefill = generator_of(decoder(), &whole());
    Generator in_two_parts = generator_of(decoder(), &short_prompts);
    std::set<std::int64_t> seen;
    for (const Tokens& prompt :
         {Tokens{5}, Tokens{17, 3}, Tokens{1, 2, 3, 4, 5}, Tokens{38, 0, 12, 12, 7, 9, 30, 21}, Tokens{5}}) {
        const Tokens expected = recomputed(prompt, 12);
        for (Generator* each : {&alone, &with_prefill, &in_two_parts}) {
            const auto made = generated(*each, prompt, 12);
            ASSERT_TRUE(made) << made.error().describe();
            EXPECT_EQ(*made, expected);
        }
        seen.insert(expected.begin(), expected.end());
    }
    EXPECT_GT(seen.size(), 4U) << "tokens that differ, or the comparison says little";
}

TEST(Generator, GivesTheScoresOfALoopThatComputesEverythingAnew) {
    std::vector<std::vector<float>> expected;
    const Tokens made = recomputed({4, 8, 15}, 10, &expected);
    Generator generator = generator_of(decoder());
    auto scores = generator.begin(Tokens{4, 8, 15});
    for (std::size_t step = 0; step < made.size(); ++step) {
        ASSERT_TRUE(scores) << scores.error().describe();
        ASSERT_EQ(scores->size(), expected[step].size());
        // As far as sums in another order go, at scores of this size.
        float largest = 1;
        for (const float score : expected[step])
            largest = std::max(largest, std::abs(score));
        for (std::size_t i = 0; i < scores->size(); ++i)
            ASSERT_NEAR((*scores)[i], expected[step][i], 1e-4F * largest) << "step " << step << ", token " << i;
        if (step + 1 < made.size()) scores = generator.next(made[step]);
    }
}

TEST(Generator, EndsWithTheTokenThatEndsATextOrAtTheMost) {
    Generator generator = generator_of(decoder());
    const Tokens all = recomputed({9, 2}, 8);
    const auto first = std::find(all.begin(), all.end(), all[3]);
    const auto ended = generated(generator, {9, 2}, 8, all[3]);
    ASSERT_TRUE(ended) << ended.error().describe();
    EXPECT_EQ(*ended, Tokens(all.begin(), first + 1));
    EXPECT_EQ(generated(generator, {9, 2}, 1).value(), Tokens{all[0]});
}

TEST(Generator, RefusesTextsThatAreTooLong) {
    for (const Engine* prefill : {static_cast<const Engine*>(nullptr), &whole()}) {
        Generator generator = generator_of(decoder(), prefill);
        const Tokens prompt(5, 3);
        const std::int64_t room = generator.most_after(5);
        // The last token is not read; without a prefill one masked place is in front.
        EXPECT_EQ(room, prefill == nullptr ? longest - 4 : longest - 3);
        const auto fits = generated(generator, prompt, room);
        ASSERT_TRUE(fits) << fits.error().describe();
        EXPECT_EQ(*fits, recomputed(prompt, room));
        const auto more = generated(generator, prompt, room + 1);
        ASSERT_FALSE(more);
        EXPECT_EQ(more.error().code, ErrorCode::out_of_range);
        EXPECT_THAT(more.error().describe(),
                    HasSubstr(std::to_string(room + 1) + " tokens behind a prompt of 5 are more than the " +
                              std::to_string(room) + " that the engine has room for"));
        const auto longer = generated(generator, Tokens(60, 3), 1);
        ASSERT_FALSE(longer);
        EXPECT_THAT(longer.error().describe(), HasSubstr("a prompt of 60 tokens is longer than the"));
        // It goes on serving, and no further than it can.
        ASSERT_TRUE(generator.begin(Tokens{1}));
        Result<std::span<const float>> step = generator.next(1);
        for (int i = 0; i < 40 && step; ++i)
            step = generator.next(1);
        ASSERT_FALSE(step);
        EXPECT_THAT(step.error().describe(), HasSubstr("longer than the 24 tokens of a past"));
    }
}

TEST(Generator, NamesTokensThatAreNone) {
    Generator generator = generator_of(decoder());
    for (const std::int64_t token : {std::int64_t{-1}, TinyDecoder::vocabulary}) {
        const auto refused = generated(generator, {1, token}, 2);
        ASSERT_FALSE(refused);
        EXPECT_THAT(refused.error().describe(), HasSubstr("is not in the vocabulary of 64 tokens"));
        EXPECT_THAT(refused.error().where, HasSubstr("input_ids 1"));
    }
    EXPECT_THAT(generated(generator, {}, 2).error().describe(), HasSubstr("no token to go on from"));
    EXPECT_THAT(generated(generator, {1}, 0).error().describe(), HasSubstr("max_tokens"));
}

TEST(Generator, TellsScoresThatAreNoNumbers) {
    const Engine longer = engine_of(TinyDecoder::decode(), 1, 40);
    Generator generator = generator_of(longer);
    Tokens made;
    const auto refused =
        generate(generator, Tokens(8, 3), {30, {}}, {}, {}, [&](std::int64_t token, bool last) -> Result<void> {
            EXPECT_FALSE(last);
            made.push_back(token);
            return {};
        });
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().describe(), HasSubstr("the score of token 0 is NaN"));
    EXPECT_EQ(made, recomputed(Tokens(8, 3), 27)) << "places 0 to 33 are good";
    const auto good = generated(generator, {5}, 3);
    ASSERT_TRUE(good) << good.error().describe();
    EXPECT_EQ(*good, recomputed({5}, 3)) << "the next text has nothing of it";
}

TEST(Generator, StopsWhereItIsTold) {
    Generator generator = generator_of(decoder());
    int runs = 0;
    Tokens made;
    const auto stopped = generate(
        generator, Tokens{1, 2, 3}, {20, {}}, {},
        [&]() -> Result<void> {
            if (++runs > 5) return Error{ErrorCode::cancelled, "enough", "", ""};
            return {};
        },
        [&](std::int64_t token, bool) -> Result<void> {
            made.push_back(token);
            return {};
        });
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
    EXPECT_EQ(made, recomputed({1, 2, 3}, 3)) << "three runs for the prompt, two for tokens";
}

TEST(Generator, NamesEnginesThatContinueNoText) {
    const auto decoding = [](const Engine& engine) {
        return Generator::Decoding{engine.info(), engine.make_session().value(), engine.make_session().value()};
    };
    EXPECT_FALSE(Decoder::looks_like_one(whole().info()));
    EXPECT_TRUE(Decoder::looks_like_one(decoder().info()));
    const auto no_past = Generator::make(decoding(whole()), {});
    ASSERT_FALSE(no_past);
    EXPECT_THAT(no_past.error().describe(), HasSubstr("reads no keys and values of a past"));
    const auto no_prefill =
        Generator::make(decoding(decoder()), Generator::Prompting{decoder().info(), decoder().make_session().value()});
    ASSERT_FALSE(no_prefill);
    EXPECT_THAT(no_prefill.error().describe(), HasSubstr("a prompt does not fill the input"));
    EngineInfo other = decoder().info();
    other.outputs.pop_back();
    const auto no_present = Decoder::of(other);
    ASSERT_FALSE(no_present);
    EXPECT_THAT(no_present.error().describe(), HasSubstr("does not give what its next run takes as past_key_values.1"));
    other = decoder().info();
    other.outputs[0].name = "scores";
    EXPECT_THAT(Decoder::of(other).error().describe(), HasSubstr("no such output"));
}

TEST(TokenChoice, IsGreedyAtNoTemperatureAndFollowsSoftmaxAtOne) {
    const std::vector<float> scores{0.0F, 2.0F, -INFINITY, 1.0F, 2.0F};
    TokenChoice greedy(Sampling{});
    EXPECT_EQ(greedy.choose(scores).value(), 1) << "the first of equal ones";
    const auto drawn = [&](const Sampling& sampling, int count) {
        TokenChoice choice(sampling);
        std::vector<int> counts(scores.size());
        for (int i = 0; i < count; ++i)
            ++counts[static_cast<std::size_t>(choice.choose(scores).value())];
        return counts;
    };
    constexpr int draws = 40000;
    for (const float temperature : {1.0F, 0.5F, 4.0F}) {
        const auto counts = drawn({temperature, 0, 3}, draws);
        double sum = 0;
        for (const float score : scores)
            sum += std::exp(static_cast<double>(score / temperature));
        for (std::size_t i = 0; i < scores.size(); ++i) {
            const double share = std::exp(static_cast<double>(scores[i] / temperature)) / sum;
            const double spread = std::sqrt(share * (1 - share) / draws);
            EXPECT_NEAR(counts[i] / static_cast<double>(draws), share, 5 * spread + 1e-12) << temperature << " " << i;
        }
    }
    const auto two = drawn({4.0F, 2, 3}, 1000);
    EXPECT_EQ(two[1] + two[4], 1000);
    EXPECT_GT(two[1], 400);
    EXPECT_GT(two[4], 400);
    EXPECT_EQ(drawn({1.0F, 0, 9}, 50), drawn({1.0F, 0, 9}, 50));
    EXPECT_NE(drawn({1.0F, 0, 9}, 5000), drawn({1.0F, 0, 10}, 5000));
    const std::vector<float> infinite{1.0F, INFINITY};
    EXPECT_THAT(greedy.choose(infinite).error().describe(), HasSubstr("token 1 is infinite"));
}

} // namespace
} // namespace lathe::test
