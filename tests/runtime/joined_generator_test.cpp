// Texts continued side by side, against each of them continued alone.
#include "runtime/joined_generator.hpp"

#include <atomic>
#include <latch>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/decoders.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;
using Tokens = std::vector<std::int64_t>;

constexpr std::int64_t joined_longest = 30;

/// A decoder or an engine for prompts, of 1 to `texts` samples and pasts or prompts of 1 to `most` tokens.
Engine joined_engine_of(const Model& model, std::int64_t texts, std::int64_t most) {
    BuildOptions options;
    for (const ValueInfo& input : model.graph.inputs) {
        ShapeRange range;
        for (const auto& dim : *input.dims) {
            const std::int64_t more = dim.symbol == "total" ? 1 : 0;
            const bool samples = !dim.size && dim.symbol == "batch";
            range.min.push_back(dim.size.value_or(1 + (samples ? 0 : more)));
            range.opt.push_back(dim.size.value_or(samples ? texts : most / 2 + more));
            range.max.push_back(dim.size.value_or(samples ? texts : most + more));
        }
        options.shapes[input.name] = range;
    }
    auto engine = Engine::build(model, options);
    if (!engine) throw std::runtime_error(engine.error().describe());
    return std::move(*engine);
}

const Engine& joined_decoder() {
    static const Engine engine = joined_engine_of(TinyDecoder::decode(), 4, joined_longest);
    return engine;
}
const Engine& joined_prompts() {
    static const Engine engine = joined_engine_of(TinyDecoder::prefill(), 1, 6);
    return engine;
}

Generator::Decoding decoding(const Engine& engine) {
    return {engine.info(), engine.make_session().value(), engine.make_session().value()};
}
std::optional<Generator::Prompting> prompting(bool with) {
    if (!with) return std::nullopt;
    return Generator::Prompting{joined_prompts().info(), joined_prompts().make_session().value()};
}
std::unique_ptr<JoinedGenerator> joined(bool with_prompts, const Engine& engine = joined_decoder()) {
    auto made = JoinedGenerator::make(decoding(engine), prompting(with_prompts));
    if (!made) throw std::runtime_error(made.error().describe());
    return std::move(*made);
}

struct Asked {
    Tokens prompt;
    GenerationLimits limits;
    Sampling sampling{};
};
struct Made {
    Tokens tokens;
    bool ended = false;
    std::optional<Error> error;
};

template <class Continue>
Made made_by(Continue go_on, const Asked& asked, const RunCheck& check = {}) {
    Made made;
    const auto done = go_on(asked, check, [&](std::int64_t token, bool last) -> Result<void> {
        EXPECT_FALSE(made.ended);
        made.ended = last;
        made.tokens.push_back(token);
        return {};
    });
    if (!done) made.error = done.error();
    return made;
}

Made alone(const Asked& asked, bool with_prompts) {
    auto generator = Generator::make(decoding(joined_decoder()), prompting(with_prompts));
    if (!generator) throw std::runtime_error(generator.error().describe());
    return made_by(
        [&](const Asked& a, const RunCheck& check, const TakeToken& take) {
            return generate(*generator, a.prompt, a.limits, a.sampling, check, take);
        },
        asked);
}

Made together(JoinedGenerator& generator, const Asked& asked, const RunCheck& check = {}) {
    return made_by([&](const Asked& a, const RunCheck& c,
                       const TakeToken& take) { return generator.generate(a.prompt, a.limits, a.sampling, c, take); },
                   asked, check);
}

std::vector<Asked> many() {
    std::vector<Asked> list;
    for (std::int64_t i = 0; i < 24; ++i) {
        Tokens prompt;
        for (std::int64_t t = 0; t <= i * 5 % 9; ++t)
            prompt.push_back((i * 17 + t * t * 7 + 3) % 64);
        Asked asked{prompt, {1 + i * 7 % 20, std::nullopt}};
        if (i % 4 == 3) asked.sampling = {2.0F, 9, static_cast<std::uint64_t>(i)};
        list.push_back(asked);
    }
    return list;
}

TEST(JoinedGenerator, GivesEveryTextTheTokensThatItGetsAlone) {
    for (const bool with_prompts : {false, true}) {
        const auto generator = joined(with_prompts);
        const std::vector<Asked> list = many();
        std::vector<Made> wanted;
        for (const Asked& asked : list)
            wanted.push_back(alone(asked, with_prompts));
        // More callers than places, so that texts come and go at any time, several rounds of them.
        for (const std::size_t callers : {1U, 4U, 9U}) {
            std::vector<Made> found(list.size());
            std::atomic<std::size_t> next = 0;
            {
                std::vector<std::jthread> threads;
                for (std::size_t i = 0; i < callers; ++i) {
                    threads.emplace_back([&] {
                        for (std::size_t place = next++; place < list.size(); place = next++)
                            found[place] = together(*generator, list[place]);
                    });
                }
            }
            for (std::size_t i = 0; i < list.size(); ++i) {
                EXPECT_FALSE(found[i].error) << found[i].error->describe();
                EXPECT_EQ(found[i].tokens, wanted[i].tokens) << i << ", " << callers << " callers";
                EXPECT_TRUE(found[i].ended);
            }
        }
    }
}

TEST(JoinedGenerator, ALongTextTakesNoRoomFromThoseThatJoinIt) {
    const auto generator = joined(false);
    // One place is masked, and the last token is not read: 28 are read before the second text comes.
    const Asked slow{Tokens(4, 3), {joined_longest - 3, std::nullopt}};
    const Asked quick{{9, 2}, {joined_longest - 2, std::nullopt}};
    const Made wanted_slow = alone(slow, false);
    const Made wanted_quick = alone(quick, false);
    ASSERT_FALSE(wanted_slow.error || wanted_quick.error);
    std::latch late(1);
    std::int64_t seen = 0;
    Made first;
    Made second;
    {
        const std::jthread one([&] {
            first = made_by(
                [&](const Asked& a, const RunCheck& check, const TakeToken& take) {
                    return generator->generate(a.prompt, a.limits, a.sampling, check,
                                               [&](std::int64_t token, bool last) -> Result<void> {
                                                   if (++seen == a.limits.most - 2) late.count_down();
                                                   return take(token, last);
                                               });
                },
                slow);
        });
        const std::jthread other([&] {
            late.wait();
            second = together(*generator, quick);
        });
    }
    EXPECT_FALSE(first.error) << first.error->describe();
    EXPECT_EQ(first.tokens, wanted_slow.tokens);
    EXPECT_FALSE(second.error) << second.error->describe();
    EXPECT_EQ(second.tokens, wanted_quick.tokens);
}

TEST(JoinedGenerator, ATextThatFailsOrIsCancelledEndsAlone) {
    const Engine longer = joined_engine_of(TinyDecoder::decode(), 4, 50);
    const auto generator = joined(false, longer);
    auto own = Generator::make(decoding(longer), {});
    ASSERT_TRUE(own);
    const auto by_itself = [&](const Asked& asked) {
        return made_by(
            [&](const Asked& a, const RunCheck& check, const TakeToken& take) {
                return generate(*own, a.prompt, a.limits, a.sampling, check, take);
            },
            asked);
    };
    const Asked bad{Tokens(8, 3), {40, std::nullopt}}; // place 34 is no number
    const Asked good{{5, 6}, {20, std::nullopt}};
    const Asked cancelled{{7}, {25, std::nullopt}};
    const Made wanted_good = by_itself(good);
    const Made wanted_bad = by_itself(bad);
    ASSERT_FALSE(wanted_good.error);
    ASSERT_TRUE(wanted_bad.error);
    for (int round = 0; round < 3; ++round) {
        Made found_bad;
        Made found_good;
        Made found_again;
        Made found_cancelled;
        std::atomic<int> runs = 0;
        const RunCheck check = [&]() -> Result<void> {
            if (++runs > 6) return Error{ErrorCode::cancelled, "enough", "", ""};
            return {};
        };
        {
            const std::jthread a([&] { found_bad = together(*generator, bad); });
            const std::jthread b([&] {
                found_good = together(*generator, good);
                found_again = together(*generator, good);
            });
            const std::jthread c([&] { found_cancelled = together(*generator, cancelled, check); });
        }
        ASSERT_TRUE(found_bad.error);
        EXPECT_THAT(found_bad.error->describe(), HasSubstr("is NaN"));
        EXPECT_EQ(found_bad.tokens, wanted_bad.tokens);
        EXPECT_EQ(found_good.tokens, wanted_good.tokens);
        EXPECT_EQ(found_again.tokens, wanted_good.tokens);
        ASSERT_TRUE(found_cancelled.error);
        EXPECT_EQ(found_cancelled.error->code, ErrorCode::cancelled);
        EXPECT_EQ(found_cancelled.tokens.size(), 6U);
    }
}

TEST(JoinedGenerator, WhatATakerThrowsOrRefusesEndsItsText) {
    const auto generator = joined(true);
    const auto refusing = generator->generate(Tokens{1, 2}, {5, {}}, {}, {}, [](std::int64_t, bool) -> Result<void> {
        return Error{ErrorCode::io, "the client is gone", "", ""};
    });
    EXPECT_EQ(refusing.error().code, ErrorCode::io);
    int taken = 0;
    const auto throwing = generator->generate(Tokens{1, 2}, {5, {}}, {}, {}, [&](std::int64_t, bool) -> Result<void> {
        if (++taken == 3) throw std::bad_alloc();
        return {};
    });
    EXPECT_EQ(throwing.error().code, ErrorCode::out_of_memory);
    EXPECT_EQ(together(*generator, {{1, 2}, {5, {}}}).tokens, alone({{1, 2}, {5, {}}}, true).tokens);
}

TEST(JoinedGenerator, RefusesWhatAGeneratorRefuses) {
    const auto generator = joined(false);
    const auto told = [&](const Asked& asked) { return together(*generator, asked).error.value().describe(); };
    EXPECT_THAT(told({{}, {2, {}}}), HasSubstr("no token to go on from"));
    EXPECT_THAT(told({{1, 64}, {2, {}}}), HasSubstr("input_ids 1"));
    EXPECT_THAT(told({{1}, {0, {}}}), HasSubstr("max_tokens"));
    EXPECT_THAT(told({{1}, {1000, {}}}), HasSubstr("1000 tokens behind a prompt of 1 are more than the"));
    EXPECT_THAT(told({Tokens(60, 3), {1, {}}}), HasSubstr("a prompt of 60 tokens is longer than the"));
    EXPECT_EQ(JoinedGenerator::most_texts(joined_decoder().info()), 4);
    EXPECT_EQ(JoinedGenerator::most_texts(joined_prompts().info()), 1);
    EXPECT_FALSE(JoinedGenerator::make(decoding(joined_prompts()), {}));
}

TEST(JoinedGenerator, EndsWithTheTokenThatEndsAText) {
    for (const bool with_prompts : {false, true}) {
        const auto generator = joined(with_prompts);
        const Made all = alone({{9, 2}, {8, {}}}, with_prompts);
        for (const std::int64_t end : {all.tokens[0], all.tokens[4]}) {
            const auto first = std::find(all.tokens.begin(), all.tokens.end(), end);
            const Made ended = together(*generator, {{9, 2}, {8, end}});
            EXPECT_EQ(ended.tokens, Tokens(all.tokens.begin(), first + 1));
            EXPECT_TRUE(ended.ended);
        }
        EXPECT_EQ(together(*generator, {{9, 2}, {1, {}}}).tokens, Tokens{all.tokens[0]});
    }
}

} // namespace
} // namespace lathe::test
