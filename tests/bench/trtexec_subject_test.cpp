// Times that trtexec exports, and programs run to their end.
#include "bench/trtexec_subject.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/process.hpp"
#include "support_lib/command.hpp"

namespace lathe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TrtexecTimes, AreReadQueryByQuery) {
    // As TensorRT 8 to 11 write them, with endToEndMs up to 8.2.
    const auto trace = parse_trtexec_times(
        R"([
  { "startEnqMs" : 0.1, "endEnqMs" : 0.2, "startH2dMs" : 0.1, "endH2dMs" : 0.3, "startComputeMs" : 0.3, "endComputeMs" : 0.8, "startD2hMs" : 0.8, "endD2hMs" : 0.9, "h2dMs" : 0.2, "computeMs" : 0.5, "d2hMs" : 0.1, "latencyMs" : 0.8, "endToEndMs" : 0.8 }
  , { "h2dMs" : 0, "computeMs" : 0.25, "d2hMs" : 0, "latencyMs" : 0.25 }
])",
        "times.json", 0);
    ASSERT_TRUE(trace) << trace.error().describe();
    EXPECT_THAT(trace->latency, ElementsAre(0.8, 0.25));
    EXPECT_THAT(trace->copy_in, ElementsAre(0.2, 0.0));
    EXPECT_THAT(trace->compute, ElementsAre(0.5, 0.25));
    EXPECT_THAT(trace->copy_out, ElementsAre(0.1, 0.0));
}

// TensorRT up to 8.4 exports all queries, those of the warm-up too.
TEST(TrtexecTimes, OfTheWarmUpAreLeftOut) {
    const std::string text =
        R"([ { "startComputeMs" : 0.3, "h2dMs" : 0.1, "computeMs" : 9, "d2hMs" : 0.1, "latencyMs" : 9.2 }
           , { "startComputeMs" : 199.9, "h2dMs" : 0.1, "computeMs" : 4, "d2hMs" : 0.1, "latencyMs" : 4.2 }
           , { "startComputeMs" : 200, "h2dMs" : 0.1, "computeMs" : 1, "d2hMs" : 0.1, "latencyMs" : 1.2 }
           , { "startComputeMs" : 202, "h2dMs" : 0.1, "computeMs" : 2, "d2hMs" : 0.1, "latencyMs" : 2.2 } ])";
    EXPECT_THAT(parse_trtexec_times(text, "t", 200)->compute, ElementsAre(1, 2));
    EXPECT_THAT(parse_trtexec_times(text, "t", 0)->compute, ElementsAre(9, 4, 1, 2));
    const auto none = parse_trtexec_times(text, "t", 300);
    ASSERT_FALSE(none);
    EXPECT_THAT(none.error().describe(), HasSubstr("after the warm-up"));
}

TEST(TrtexecTimes, BrokenOnesAreRefused) {
    for (const char* text : {"", "[", "{}", "[]", "[1]", "[{}]", R"([{"h2dMs":0,"computeMs":1,"d2hMs":0}])",
                             R"([{"h2dMs":0,"computeMs":1,"d2hMs":0,"latencyMs":"1"}])",
                             R"([{"h2dMs":0,"computeMs":-1,"d2hMs":0,"latencyMs":1}])",
                             R"([{"h2dMs":0,"computeMs":0,"d2hMs":0,"latencyMs":0}])"}) {
        const auto trace = parse_trtexec_times(text, "times.json", 0);
        ASSERT_FALSE(trace) << text;
        EXPECT_EQ(trace.error().code, ErrorCode::parse_error) << text;
        EXPECT_THAT(trace.error().describe(), HasSubstr("times.json"));
    }
}

class Stopped final : public Progress {
public:
    bool cancelled() const override { return true; }
};

TEST(RunProgram, GivesStatusAndWhatWasPrinted) {
    const std::chrono::seconds limit(20);
    const auto both = run_program({"sh", "-c", "echo out; echo err >&2; cat; exit 3"}, limit, no_progress());
    ASSERT_TRUE(both) << both.error().describe();
    EXPECT_EQ(both->status, 3);
    EXPECT_EQ(both->text, "out\nerr\n"); // and nothing to read
    EXPECT_EQ(run_program({"sh", "-c", "kill -9 $$"}, limit, no_progress())->status, 128 + 9);
    EXPECT_EQ(run_program({"no-such-program-here"}, limit, no_progress()).error().code, ErrorCode::not_found);
}

TEST(RunProgram, EndsWhatTakesTooLongOrIsNotWanted) {
    const auto late = run_program({"sleep", "60"}, std::chrono::seconds(0), no_progress());
    ASSERT_FALSE(late);
    EXPECT_THAT(late.error().message, HasSubstr("did not end"));
    Stopped stopped;
    const auto unwanted = run_program({"sleep", "60"}, std::chrono::seconds(60), stopped);
    ASSERT_FALSE(unwanted);
    EXPECT_EQ(unwanted.error().code, ErrorCode::cancelled);
}

} // namespace
} // namespace lathe
