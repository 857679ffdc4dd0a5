// Requests put together into runs, and their outputs taken apart, against tensors written out by hand.
#include "triton/batch.hpp"

#include <cstring>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe::triton::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

BatchInputs::Memory no_memory() {
    return [](std::size_t) { return std::span<std::byte>(); };
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
    return std::as_bytes(std::span(values));
}

template <class T>
std::vector<T> values_of(const TensorView& view) {
    const auto values = view.as<const T>();
    return {values.begin(), values.end()};
}

/// One input x of [samples, 2] floats, one output y of the same, 2 to 4 samples a run.
Serving rows_of_two() {
    Serving serving;
    serving.inputs = {{"x", DataType::float32, {{2, 2}, {2, 2}, {4, 2}}}};
    serving.outputs = {{"y", DataType::float32, {{-1, 2}, {-1, 2}, {-1, 2}}}};
    serving.batched = true;
    serving.least = 2;
    serving.most = 4;
    return serving;
}

/// Tokens and mask of [samples, length], states of [samples, length, 2] and one number a sample.
Serving texts(bool in_front) {
    Serving serving;
    serving.inputs = {{"input_ids", DataType::int64, {{1, 2}, {4, 4}, {4, 8}}},
                      {"attention_mask", DataType::int32, {{1, 2}, {4, 4}, {4, 8}}}};
    serving.outputs = {{"states", DataType::float32, {{-1, -1, 2}, {-1, -1, 2}, {-1, -1, 2}}},
                       {"score", DataType::float32, {{-1}, {-1}, {-1}}}};
    serving.batched = true;
    serving.most = 4;
    serving.filling = TextFilling{{99, 0}, in_front, 2, 8, {{2, 5}, {3, 4}}};
    return serving;
}

struct Text {
    std::vector<std::int64_t> ids;
    std::vector<std::int32_t> mask;
    RequestInputs request;

    explicit Text(std::vector<std::int64_t> tokens, std::int64_t samples = 1)
        : ids(std::move(tokens)), mask(ids.size(), 1) {
        const Shape shape{samples, static_cast<std::int64_t>(ids.size()) / samples};
        request.inputs = {{shape, {bytes_of(ids)}}, {shape, {bytes_of(mask)}}};
    }
};

TEST(BatchInput, OneRequestInOnePieceIsReadInPlace) {
    const Serving serving = rows_of_two();
    const std::vector<float> values{1, 2, 3, 4};
    RequestInputs request{{{{2, 2}, {bytes_of(values)}}}, 0, 0};
    ASSERT_TRUE(serving.check(request));
    BatchInputs run;
    const RequestInputs* only = &request;
    const auto views = run.join(serving, {&only, 1}, no_memory());
    ASSERT_EQ(views.size(), 1U);
    EXPECT_EQ(views[0].bytes.data(), reinterpret_cast<const std::byte*>(values.data()));
    EXPECT_EQ(run.size().samples, 2);
}

TEST(BatchInput, PiecesFewSamplesAndOddPlacesAreCopied) {
    const Serving serving = rows_of_two();
    const std::vector<float> values{1, 2, 3, 4};
    const auto all = bytes_of(values);
    std::vector<std::byte> shifted(all.size() + 1);
    std::ranges::copy(all, shifted.begin() + 1);
    struct Case {
        const char* what;
        InputPieces input;
        std::vector<float> joined;
    };
    for (Case& each :
         std::vector<Case>{{"in pieces", {{2, 2}, {all.first(6), all.subspan(6, 0), all.subspan(6)}}, {1, 2, 3, 4}},
                           {"filled up by its last row", {{1, 2}, {all.first(8)}}, {1, 2, 1, 2}},
                           {"not aligned", {{2, 2}, {std::span<const std::byte>(shifted).subspan(1)}}, {1, 2, 3, 4}}}) {
        RequestInputs request{{each.input}, 0, 0};
        ASSERT_TRUE(serving.check(request)) << each.what;
        BatchInputs run;
        const RequestInputs* only = &request;
        const auto views = run.join(serving, {&only, 1}, no_memory());
        EXPECT_EQ(values_of<float>(views[0]), each.joined) << each.what;
        EXPECT_EQ(views[0].shape, (Shape{2, 2})) << each.what;
    }
}

TEST(BatchInput, TheSessionsMemoryIsWrittenWhereThereIsSome) {
    const Serving serving = rows_of_two();
    const std::vector<float> first{1, 2};
    const std::vector<float> second{3, 4, 5, 6};
    RequestInputs one{{{{1, 2}, {bytes_of(first)}}}, 0, 0};
    RequestInputs two{{{{2, 2}, {bytes_of(second)}}}, 0, 0};
    ASSERT_TRUE(serving.check(one));
    ASSERT_TRUE(serving.check(two));
    std::vector<float> session(8);
    const auto memory = [&](std::size_t) { return std::as_writable_bytes(std::span(session)); };
    BatchInputs run;
    const std::vector<const RequestInputs*> both{&one, &two};
    const auto views = run.join(serving, both, memory);
    EXPECT_EQ(views[0].bytes.data(), reinterpret_cast<const std::byte*>(session.data()));
    EXPECT_THAT(values_of<float>(views[0]), ElementsAre(1, 2, 3, 4, 5, 6));
    // One in one piece too: the device copies from there.
    const RequestInputs* only = &two;
    EXPECT_EQ(run.join(serving, {&only, 1}, memory)[0].bytes.data(), views[0].bytes.data());
    EXPECT_THAT(values_of<float>(views[0]), ElementsAre(3, 4, 5, 6));
}

TEST(BatchInput, EachGetsItsOwnRows) {
    const Serving serving = rows_of_two();
    const std::vector<float> values{1, 2, 3, 4, 5, 6};
    RequestInputs one{{{{1, 2}, {bytes_of(values).first(8)}}}, 0, 0};
    RequestInputs two{{{{2, 2}, {bytes_of(values).subspan(8)}}}, 0, 0};
    ASSERT_TRUE(serving.check(one));
    ASSERT_TRUE(serving.check(two));
    ASSERT_TRUE(serving.can_share(one, two));
    BatchInputs run;
    const std::vector<const RequestInputs*> both{&one, &two};
    const auto views = run.join(serving, both, no_memory());
    const TensorView output{"y", DataType::float32, {3, 2}, views[0].bytes};
    const auto part = OutputPart::of(serving, 0, output, run.size(), two, 1);
    ASSERT_TRUE(part) << part.error().describe();
    EXPECT_EQ(part->shape(), (Shape{2, 2}));
    std::vector<float> got(part->bytes() / sizeof(float));
    part->write(reinterpret_cast<std::byte*>(got.data()));
    EXPECT_THAT(got, ElementsAre(3, 4, 5, 6));
    const TensorView flat{"y", DataType::float32, {6}, views[0].bytes};
    EXPECT_EQ(OutputPart::of(serving, 0, flat, run.size(), two, 1).error().code, ErrorCode::mismatch);
}

TEST(BatchInput, TextsAreFilledUpAndCutBack) {
    for (const bool in_front : {false, true}) {
        const Serving serving = texts(in_front);
        Text two({1, 2});
        Text three({3, 4, 5});
        ASSERT_TRUE(serving.check(two.request));
        ASSERT_TRUE(serving.check(three.request));
        ASSERT_TRUE(serving.can_share(two.request, three.request));
        BatchInputs run;
        const std::vector<const RequestInputs*> both{&two.request, &three.request};
        const auto views = run.join(serving, both, no_memory());
        EXPECT_EQ(run.size().length, 5) << "the profile of two samples";
        EXPECT_EQ(views[0].shape, (Shape{2, 5}));
        const auto ids = values_of<std::int64_t>(views[0]);
        const auto mask = values_of<std::int32_t>(views[1]);
        if (in_front) {
            EXPECT_THAT(ids, ElementsAre(99, 99, 99, 1, 2, 99, 99, 3, 4, 5));
            EXPECT_THAT(mask, ElementsAre(0, 0, 0, 1, 1, 0, 0, 1, 1, 1));
        } else {
            EXPECT_THAT(ids, ElementsAre(1, 2, 99, 99, 99, 3, 4, 5, 99, 99));
            EXPECT_THAT(mask, ElementsAre(1, 1, 0, 0, 0, 1, 1, 1, 0, 0));
        }
        std::vector<float> states(2 * 5 * 2);
        std::iota(states.begin(), states.end(), 0.0F);
        const TensorView output{"states", DataType::float32, {2, 5, 2}, std::as_writable_bytes(std::span(states))};
        const auto part = OutputPart::of(serving, 0, output, run.size(), three.request, 1);
        ASSERT_TRUE(part);
        EXPECT_EQ(part->shape(), (Shape{1, 3, 2}));
        std::vector<float> got(part->bytes() / sizeof(float));
        part->write(reinterpret_cast<std::byte*>(got.data()));
        const float from = in_front ? 14.0F : 10.0F;
        EXPECT_THAT(got, ElementsAre(from, from + 1, from + 2, from + 3, from + 4, from + 5));
        std::vector<float> scores{7, 8};
        const TensorView score{"score", DataType::float32, {2}, std::as_writable_bytes(std::span(scores))};
        const auto own = OutputPart::of(serving, 1, score, run.size(), three.request, 1);
        ASSERT_TRUE(own);
        EXPECT_EQ(own->shape(), (Shape{1}));
        float value = 0;
        own->write(reinterpret_cast<std::byte*>(&value));
        EXPECT_EQ(value, 8);
    }
}

/// Copies as a GPU's would be, in memory of the test's own, done no sooner than one waits.
class LateCopies final : public DeviceCopies {
public:
    Result<std::span<std::byte>> memory(std::size_t number, std::size_t bytes) override {
        if (memory_.size() <= number) memory_.resize(number + 1);
        if (memory_[number].size() < bytes) memory_[number].assign(bytes, std::byte{0xEE});
        return std::span(memory_[number]);
    }
    Result<void> copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
        if (fails) return Error{ErrorCode::internal, "copying a tensor: lost", "", ""};
        late_.push_back({to, from, bytes});
        return {};
    }
    Result<void> wait() override {
        for (const auto& [to, from, bytes] : late_)
            std::memcpy(to, from, bytes);
        late_.clear();
        return {};
    }
    bool holds(const std::byte* data) const {
        return std::ranges::any_of(
            memory_, [&](const auto& each) { return data >= each.data() && data < each.data() + each.size(); });
    }

    bool fails = false;

private:
    struct Copy {
        std::byte* to;
        const std::byte* from;
        std::size_t bytes;
    };
    std::vector<std::vector<std::byte>> memory_;
    std::vector<Copy> late_;
};

TEST(DeviceInput, WhatLiesThereAndOnTheHostIsPutTogetherThere) {
    Serving serving = rows_of_two();
    const std::vector<float> first{1, 2};
    const std::vector<float> second{3, 4, 5, 6};
    const auto halves = bytes_of(second);
    RequestInputs one{{{{1, 2}, {bytes_of(first)}}}, 0, 0};
    RequestInputs two{{{{2, 2}, {halves.first(8), halves.subspan(8)}, {true, false}}}, 0, 0};
    ASSERT_TRUE(serving.check(one));
    ASSERT_TRUE(serving.check(two));
    EXPECT_FALSE(one.inputs[0].any_in_gpu());
    EXPECT_TRUE(two.inputs[0].any_in_gpu());
    serving.sizes = {1, 2, 4};
    for (const std::size_t room : {0U, 8U}) { // of the session's page-locked memory, in floats
        LateCopies copies;
        DeviceInputs run(copies);
        std::vector<float> session(room);
        const std::vector<const RequestInputs*> both{&one, &two};
        const auto views =
            run.join(serving, both, [&](std::size_t) { return std::as_writable_bytes(std::span(session)); });
        ASSERT_TRUE(views) << views.error().describe();
        EXPECT_TRUE(copies.holds((*views)[0].bytes.data()));
        EXPECT_EQ((*views)[0].shape, (Shape{4, 2})) << "the next size of a run";
        EXPECT_THAT(values_of<float>((*views)[0]), ElementsAre(1, 2, 3, 4, 5, 6, 5, 6));
        EXPECT_EQ(run.size().samples, 4);
        copies.fails = true;
        EXPECT_EQ(run.join(serving, both, no_memory()).error().code, ErrorCode::internal);
    }
}

TEST(DeviceInput, TextsAreFilledUpThereAsOnTheHost) {
    for (const bool in_front : {false, true}) {
        for (const bool in_gpu : {false, true}) {
            const Serving serving = texts(in_front);
            Text two({1, 2, 11, 12}, 2);
            Text three({3, 4, 5});
            // Cut in the middle of a row and of a number.
            const auto ids = bytes_of(two.ids);
            two.request.inputs[0].pieces = {ids.first(12), ids.subspan(12, 7), ids.subspan(19)};
            two.request.inputs[0].in_gpu = {in_gpu, false, in_gpu};
            three.request.inputs[1].in_gpu = {true};
            ASSERT_TRUE(serving.check(two.request));
            ASSERT_TRUE(serving.check(three.request));
            const std::vector<const RequestInputs*> both{&two.request, &three.request};
            BatchInputs host;
            const auto wanted = host.join(serving, both, no_memory());
            LateCopies copies;
            DeviceInputs run(copies);
            const auto views = run.join(serving, both, no_memory());
            ASSERT_TRUE(views) << views.error().describe();
            EXPECT_EQ(values_of<std::int64_t>((*views)[0]), values_of<std::int64_t>(wanted[0]));
            EXPECT_EQ(values_of<std::int32_t>((*views)[1]), values_of<std::int32_t>(wanted[1]));
            EXPECT_EQ(run.size().length, host.size().length);
            // A part of an output, by copies.
            std::vector<float> states(3 * 4 * 2);
            std::iota(states.begin(), states.end(), 0.0F);
            const TensorView output{"states", DataType::float32, {3, 4, 2}, std::as_writable_bytes(std::span(states))};
            const auto part = OutputPart::of(serving, 0, output, run.size(), two.request, 0);
            ASSERT_TRUE(part);
            std::vector<float> direct(part->bytes() / sizeof(float));
            std::vector<float> copied(direct.size());
            part->write(reinterpret_cast<std::byte*>(direct.data()));
            ASSERT_TRUE(part->write(reinterpret_cast<std::byte*>(copied.data()), copies));
            ASSERT_TRUE(copies.wait());
            EXPECT_EQ(copied, direct);
        }
    }
}

TEST(BatchInput, RunsAreFilledUpToTheirSizes) {
    Serving serving = rows_of_two();
    EXPECT_EQ(serving.run_size(1), 2);
    EXPECT_EQ(serving.run_size(3), 3);
    serving.sizes = {1, 2, 4};
    EXPECT_EQ(serving.run_size(1), 2) << "the engine's least";
    EXPECT_EQ(serving.run_size(3), 4);
    EXPECT_EQ(serving.run_size(4), 4);
    const std::vector<float> values{1, 2, 3, 4, 5, 6};
    RequestInputs three{{{{3, 2}, {bytes_of(values)}}}, 0, 0};
    ASSERT_TRUE(serving.check(three));
    BatchInputs run;
    const RequestInputs* only = &three;
    const auto views = run.join(serving, {&only, 1}, no_memory());
    EXPECT_THAT(values_of<float>(views[0]), ElementsAre(1, 2, 3, 4, 5, 6, 5, 6));
    const auto part =
        OutputPart::of(serving, 0, {"y", DataType::float32, {4, 2}, views[0].bytes}, run.size(), three, 0);
    ASSERT_TRUE(part);
    EXPECT_EQ(part->shape(), (Shape{3, 2}));
}

TEST(BatchInput, LengthsFollowProfilesOfTheSameSamples) {
    const Serving serving = texts(false);
    struct Case {
        std::int64_t samples, longest, length;
    };
    for (const Case& each : {Case{1, 1, 2}, Case{1, 6, 6}, Case{2, 3, 5}, Case{2, 6, 6}, Case{3, 4, 4}, Case{4, 4, 4}})
        EXPECT_EQ(serving.length_for(each.samples, each.longest), each.length) << each.samples << " " << each.longest;
}

TEST(BatchInput, BadRequestsAreRefusedWithTheirCause) {
    const Serving rows = rows_of_two();
    const Serving words = texts(false);
    const std::vector<std::byte> zeros(1024);
    const auto input = [&](Shape shape, std::size_t bytes) {
        return InputPieces{std::move(shape), {std::span(zeros).first(bytes)}};
    };
    struct Case {
        const Serving& serving;
        std::vector<InputPieces> inputs;
        const char* reason;
    };
    for (const Case& each :
         std::vector<Case>{{rows, {input({2, 3}, 24)}, "2x3 is outside the engine's range"},
                           {rows, {input({2}, 8)}, "outside the engine's range"},
                           {rows, {input({5, 2}, 40)}, "at most 4 samples"},
                           {rows, {input({0, 2}, 0)}, "outside the engine's range"},
                           {rows, {input({-1, 2}, 0)}, "outside the engine's range"},
                           {rows, {input({2, 2}, 12)}, "holds 12 bytes, and 2x2 of float32 takes 16"},
                           {words, {input({1, 9}, 72), input({1, 9}, 36)}, "1x9 is outside"},
                           {words, {input({1, 3}, 24), input({1, 4}, 16)}, "different lengths: 3 and 4"},
                           {words, {input({1, 3}, 24), input({2, 3}, 24)}, "different numbers of samples: 1 and 2"}}) {
        RequestInputs request{each.inputs, 0, 0};
        const auto refused = each.serving.check(request);
        ASSERT_FALSE(refused) << each.reason;
        Result<void> copy = refused;
        EXPECT_THAT(copy.error().describe(), HasSubstr(each.reason));
    }
    // A shorter text than the engine takes is filled up to its least.
    Text one({5});
    ASSERT_TRUE(words.check(one.request));
    BatchInputs run;
    const RequestInputs* only = &one.request;
    EXPECT_THAT(values_of<std::int64_t>(run.join(words, {&only, 1}, no_memory())[0]), ElementsAre(5, 99));
}

TEST(BatchInput, WhatDoesNotBatchSharesNothing) {
    Serving serving = rows_of_two();
    serving.batched = false;
    const std::vector<float> values{1, 2, 3, 4};
    RequestInputs request{{{{2, 2}, {bytes_of(values)}}}, 0, 0};
    ASSERT_TRUE(serving.check(request));
    EXPECT_FALSE(serving.can_share(request, request));
    RequestInputs few{{{{1, 2}, {bytes_of(values).first(8)}}}, 0, 0};
    EXPECT_FALSE(serving.check(few)) << "nothing is filled up";
    std::vector<std::size_t> group;
    const std::vector<const RequestInputs*> waiting{&request, &request};
    serving.next_run(waiting, group);
    EXPECT_THAT(group, ElementsAre(0));
}

// A server hands over requests together; one whose client went away meanwhile has no inputs to look at.
TEST(BatchInput, RequestsThatWereRefusedAreInNoRun) {
    Serving serving = rows_of_two();
    serving.most = 4;
    const std::vector<float> values(8);
    std::vector<RequestInputs> requests;
    for (const std::int64_t samples : {2, 1, 3, 1}) {
        requests.push_back({{{{samples, 2}, {bytes_of(values).first(static_cast<std::size_t>(8 * samples))}}}, 0, 0});
        ASSERT_TRUE(serving.check(requests.back()));
    }
    std::vector<const RequestInputs*> waiting{nullptr,      &requests[0], nullptr, &requests[1],
                                              &requests[2], nullptr,      nullptr, &requests[3]};
    std::vector<std::size_t> group;
    std::vector<std::vector<std::size_t>> runs;
    for (serving.next_run(waiting, group); !group.empty(); serving.next_run(waiting, group)) {
        runs.push_back(group);
        for (const std::size_t i : group)
            waiting[i] = nullptr;
    }
    EXPECT_THAT(runs, ElementsAre(ElementsAre(1, 3, 7), ElementsAre(4))) << "3 samples do not fit beside 2 and 1";
}

} // namespace
} // namespace lathe::triton::test
