#include "bench/length_mix.hpp"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/small_encoder.hpp"
#include "runtime/engine.hpp"

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(LengthMix, PaddingIsParsed) {
    EXPECT_EQ(parse_padding("own")->kind, Padding::Kind::own);
    EXPECT_EQ(parse_padding("longest")->kind, Padding::Kind::longest);
    EXPECT_THAT(parse_padding("32,16,32,64")->buckets, ElementsAre(16U, 32U, 64U));
    for (const char* bad : {"", "16,", ",16", "0", "16,x", "-4", "16 32", "1e3", "99999999999999999999"}) {
        const auto parsed = parse_padding(bad);
        ASSERT_FALSE(parsed) << bad;
        EXPECT_EQ(parsed.error().code, ErrorCode::invalid_argument);
        EXPECT_EQ(parsed.error().where, "--buckets");
    }
}

TEST(LengthMix, LengthsAreFilledUp) {
    const std::vector<std::size_t> lengths{3, 9, 16, 12};
    EXPECT_THAT(*padded_lengths({Padding::Kind::own}, lengths), ElementsAre(3U, 9U, 16U, 12U));
    EXPECT_THAT(*padded_lengths({Padding::Kind::longest}, lengths), ElementsAre(16U, 16U, 16U, 16U));
    EXPECT_THAT(*padded_lengths({Padding::Kind::buckets, {8, 12, 32}}, lengths), ElementsAre(8U, 12U, 32U, 12U));
    const auto short_of = padded_lengths({Padding::Kind::buckets, {8, 12}}, lengths);
    ASSERT_FALSE(short_of);
    EXPECT_THAT(short_of.error().message, HasSubstr("16"));
}

HostTensor rows(const std::string& name, std::size_t count, std::vector<std::int64_t> values) {
    HostTensor tensor(name, DataType::int64,
                      {static_cast<std::int64_t>(count), static_cast<std::int64_t>(values.size() / count)});
    std::ranges::copy(values, tensor.as<std::int64_t>().begin());
    return tensor;
}

TEST(LengthMix, FillingUpPutsPaddingOnOneSideOfEveryRow) {
    HostTensor narrow("token_type_ids", DataType::int32, {2, 2});
    std::ranges::copy(std::vector<std::int32_t>{0, 1, 0, 1}, narrow.as<std::int32_t>().begin());
    Requests requests(1);
    requests[0].push_back(rows("input_ids", 2, {1, 2, 3, 4}));
    requests[0].push_back(rows("attention_mask", 2, {1, 1, 1, 0}));
    requests[0].push_back(narrow);
    const Requests filled = fill_up(requests, std::vector<std::size_t>{4}, 9);
    EXPECT_THAT(filled[0][0].shape, ElementsAre(2, 4));
    EXPECT_THAT(filled[0][0].as<std::int64_t>(), ElementsAre(1, 2, 9, 9, 3, 4, 9, 9));
    EXPECT_THAT(filled[0][1].as<std::int64_t>(), ElementsAre(1, 1, 0, 0, 1, 0, 0, 0));
    EXPECT_THAT(filled[0][2].as<std::int32_t>(), ElementsAre(0, 1, 0, 0, 0, 1, 0, 0));
    const Requests prompts = fill_up(requests, std::vector<std::size_t>{4}, 9, PaddingSide::in_front);
    EXPECT_THAT(prompts[0][0].as<std::int64_t>(), ElementsAre(9, 9, 1, 2, 9, 9, 3, 4));
    EXPECT_THAT(prompts[0][2].as<std::int32_t>(), ElementsAre(0, 0, 0, 1, 0, 0, 0, 1));
}

/// Calls of request i take (i + 1) · `scale` seconds on a clock that is turned by hand.
class FakeList final : public RequestList {
public:
    FakeList(std::string name, double scale, double& clock, std::string& log)
        : name_(std::move(name)), scale_(scale), clock_(clock), log_(log) {}
    int fail_at = -1; ///< the turn
    ErrorCode failure = ErrorCode::out_of_range;
    Result<std::vector<double>> run(std::size_t first, std::size_t count, Progress&) override {
        log_ += name_ + std::to_string(first) + "+" + std::to_string(count) + " ";
        if (turn_++ == fail_at) return Error{failure, "too long", "", ""};
        std::vector<double> times;
        for (std::size_t i = first; i < first + count; ++i) {
            times.push_back(scale_ * static_cast<double>(i + 1) * 1e9);
            clock_ += scale_ * static_cast<double>(i + 1);
        }
        return times;
    }

private:
    std::string name_;
    double scale_;
    double& clock_;
    std::string& log_;
    int turn_ = 0;
};

class MixTurnsTest : public testing::Test {
protected:
    MixTurnsTest() {
        turns_.requests_a_turn = 2;
        turns_.pause_ms = 500;
        turns_.now = [this] { return clock_; };
        turns_.sleep_ms = [this](double ms) { clock_ += ms / 1000; };
    }
    double clock_ = 100;
    std::string log_;
    FakeList a_{"a", 1, clock_, log_};
    FakeList b_{"b", 2, clock_, log_};
    std::vector<RequestList*> lists_{&a_, &b_};
    MixTurns turns_;
};

TEST_F(MixTurnsTest, TakeTheSameRequestsInTurns) {
    turns_.time_limit_s = 0.1; // one pass all the same
    const auto times = run_mix(lists_, 3, turns_, no_progress());
    ASSERT_TRUE(times);
    EXPECT_EQ(log_, "a0+2 b0+2 a2+1 b2+1 ");
    EXPECT_THAT((*times)[0].call_ns, ElementsAre(1e9, 2e9, 3e9));
    EXPECT_THAT((*times)[1].turn_ns, ElementsAre(6e9, 6e9));
    EXPECT_THAT((*times)[1].pass_ns, ElementsAre(12e9));
}

TEST_F(MixTurnsTest, EndWithWholePasses) {
    // A pass takes 6 + 12 s of calls and 4 pauses of 0.5 s: two fit in 2 x 20 s, a third does not in 2 x 29.9 s.
    turns_.time_limit_s = 20;
    EXPECT_THAT(run_mix(lists_, 3, turns_, no_progress())->at(0).pass_ns, ElementsAre(6e9, 6e9));
    turns_.time_limit_s = 29.9;
    EXPECT_EQ(run_mix(lists_, 3, turns_, no_progress())->at(1).pass_ns.size(), 2U);
    turns_.time_limit_s = 30;
    EXPECT_EQ(run_mix(lists_, 3, turns_, no_progress())->at(1).pass_ns.size(), 3U);
}

TEST_F(MixTurnsTest, GoOnWithoutAListThatFails) {
    a_.fail_at = 1;
    turns_.time_limit_s = 0;
    const auto times = run_mix(lists_, 4, turns_, no_progress());
    ASSERT_TRUE(times);
    ASSERT_TRUE((*times)[0].failure);
    EXPECT_EQ((*times)[0].failure->message, "too long");
    EXPECT_TRUE((*times)[0].pass_ns.empty());
    EXPECT_THAT((*times)[1].pass_ns, ElementsAre(20e9));
}

TEST_F(MixTurnsTest, EndWhereAllFailOrTheUserStops) {
    a_.fail_at = 0;
    b_.fail_at = 0;
    turns_.time_limit_s = 1e9;
    const auto none = run_mix(lists_, 4, turns_, no_progress());
    ASSERT_TRUE(none);
    EXPECT_TRUE((*none)[1].failure);

    FakeList stopped("s", 1, clock_, log_);
    stopped.fail_at = 0;
    stopped.failure = ErrorCode::cancelled;
    RequestList* only = &stopped;
    const auto cancelled = run_mix(std::span(&only, 1), 4, turns_, no_progress());
    ASSERT_FALSE(cancelled);
    EXPECT_EQ(cancelled.error().code, ErrorCode::cancelled);
}

Requests token_requests(const std::vector<std::size_t>& lengths) {
    Requests requests;
    std::int64_t next = 11;
    for (const std::size_t length : lengths) {
        std::vector<std::int64_t> ids;
        for (std::size_t i = 0; i < length; ++i)
            ids.push_back(next = next * 37 % 61);
        requests.push_back(
            {rows("input_ids", 1, ids), rows("attention_mask", 1, std::vector<std::int64_t>(length, 1))});
    }
    return requests;
}

std::vector<std::vector<float>> answers(Session& session, Requests requests) {
    std::vector<std::vector<float>> all;
    for (auto& request : requests) {
        const auto outputs = session.run(std::vector<TensorView>{request[0].view(), request[1].view()});
        EXPECT_TRUE(outputs) << outputs.error().describe();
        if (!outputs) return {};
        const auto* values = reinterpret_cast<const float*>((*outputs)[0].bytes.data());
        all.emplace_back(values, values + (*outputs)[0].bytes.size() / sizeof(float));
    }
    return all;
}

float largest_difference(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
    float largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        for (std::size_t j = 0; j < a[i].size(); ++j)
            largest = std::max(largest, std::fabs(a[i][j] - b[i][j]));
    }
    return largest;
}

TEST(LengthMix, PaddingChangesNoResult) {
    BuildOptions options;
    for (const char* name : {"input_ids", "attention_mask"})
        options.shapes[name] = ShapeRange{{1, 1}, {1, 16}, {1, 64}};
    const auto engine = Engine::build(test::small_encoder(), options);
    ASSERT_TRUE(engine) << engine.error().describe();
    auto session = engine->make_session();
    ASSERT_TRUE(session) << session.error().describe();
    const std::vector<std::size_t> lengths{1, 3, 7, 12, 16, 31};
    const Requests requests = token_requests(lengths);
    const auto own = answers(*session, requests);
    ASSERT_EQ(own.size(), lengths.size());
    for (const Padding& padding : {Padding{Padding::Kind::longest}, Padding{Padding::Kind::buckets, {8, 16, 64}}}) {
        const Requests filled = fill_up(requests, *padded_lengths(padding, lengths), 5);
        EXPECT_LE(largest_difference(own, answers(*session, filled)), 1e-5F);
    }
    // Padding that the mask does not cover must show.
    Requests unmasked = fill_up(requests, *padded_lengths({Padding::Kind::longest}, lengths), 5);
    for (auto& request : unmasked)
        std::ranges::fill(request[1].as<std::int64_t>(), 1);
    EXPECT_GT(largest_difference(own, answers(*session, unmasked)), 1e-2F);
}

} // namespace
} // namespace lathe
