// `lathe plan` as its users run it.
#include "cli/workspace.hpp"
#include "plan/machines.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Plan : public testing::Test {
protected:
    void SetUp() override {
        work_.write("bench.json", bench_document({{1, 2.5}, {2, 3}, {4, 4}, {8, 6}, {16, 10}}).dump());
        work_.write("stages.json", R"({"stages": [{"name": "camera", "ms": 4},
                                       {"name": "network", "median_ms": 0.8, "p99_ms": 3},
                                       {"name": "postprocess", "ms": 0.3}]})");
    }
    Workspace work_;
};

TEST_F(Plan, SaysWhatIsNeededAndWhereTheTimeGoes) {
    const std::string text =
        work_.good("plan --slo p99=30ms --rate 1500/s --from bench.json --stages stages.json").output;
    EXPECT_THAT(text, HasSubstr("p99 within 30.0 ms at 1500 requests/s: "));
    EXPECT_THAT(text, HasSubstr(" machine"));
    EXPECT_THAT(text, HasSubstr("Fewest machines by batch size"));
    for (const char* stage : {"camera", "network", "queue", "compute", "postprocess", "total"})
        EXPECT_THAT(text, HasSubstr(stage));

    EXPECT_THAT(text, HasSubstr("not measured and not in --stages: decode, preprocess, copy in, copy out\n"));

    const Json plan =
        work_.good_json("plan --slo p99=30ms --rate 90000/min --from bench.json --stages stages.json --output p.json");
    EXPECT_EQ(plan["kind"], "plan");
    EXPECT_EQ(plan["meets"], true);
    EXPECT_EQ(plan["subject"]["name"], "int8");
    EXPECT_EQ(plan["coverage"]["not_measured"], (Json{"decode", "preprocess", "copy in", "copy out"}));
    EXPECT_LE(plan["choice"]["slo_ms"].get<double>(), 30);
    EXPECT_NEAR(plan["latency_ms"]["p99"].get<double>(), plan["choice"]["slo_ms"].get<double>(), 0.1);
    EXPECT_EQ(work_.json("p.json"), plan);
    // The same again is the same.
    Json again = work_.good_json("plan --slo p99=30ms --rate 1500/s --from bench.json --stages stages.json");
    EXPECT_EQ(again["choice"], plan["choice"]);
    EXPECT_THAT(work_.good("plan --help").output,
                HasSubstr("lathe plan --slo p99=20ms --rate 1500/s --from bench.json"));
}

TEST_F(Plan, TakesATraceAndWhatIsDecided) {
    std::string trace = "seconds\n";
    for (int i = 0; i < 2000; ++i)
        trace += std::to_string(0.001 * i + 0.0001 * (i * 7 % 5)) + "\n";
    work_.write("trace.csv", trace);
    const Json plan =
        work_.good_json("plan --slo p95=25ms --trace trace.csv --rate 3000/s --from bench.json --batch 4,8 "
                        "--max-wait 2ms --machines 6 --instances 1");
    EXPECT_EQ(plan["arrivals"]["kind"], "trace");
    EXPECT_EQ(plan["choice"]["machines"], 6);
    EXPECT_EQ(plan["choice"]["max_wait_ms"], 2);
}

TEST_F(Plan, FindsTheCheapestMachines) {
    work_.write("slow.json", bench_document({{1, 10}, {4, 36}}).dump());
    work_.write("prices.json", R"({"currency": "EUR", "machines": [
        {"name": "large", "per_hour": 4, "from": "bench.json"}, {"name": "small", "per_hour": 0.25, "from": "slow.json"}]})");
    const std::string asked = "plan --slo p99=40ms --rate 2100/s --prices prices.json";
    const Json document = work_.good_json(asked + " --output p.json");
    EXPECT_EQ(work_.json("p.json"), document);
    const Json& prices = document["prices"];
    EXPECT_EQ(prices["currency"], "EUR");
    const double large = prices["kinds"][0]["rate_each"];
    const double small = prices["kinds"][1]["rate_each"];
    EXPECT_GT(large, 10 * small);
    EXPECT_GE(prices["cheapest"]["rate"], 2100);
    EXPECT_GE(prices["with_spare"]["per_hour"], prices["cheapest"]["per_hour"]);
    for (const Json& kind : prices["kinds"])
        EXPECT_LE(prices["cheapest"]["per_hour"], kind["alone"]["per_hour"]);
    for (const char* mix : {"cheapest", "with_spare"}) {
        const Json& load = prices[mix]["load"];
        EXPECT_LE(load["whole"]["of_held"], 1) << mix;
        EXPECT_LE(load["whole"]["slo_ms"], 41) << mix;
        EXPECT_GT(load["one_less"]["of_held"], load["whole"]["of_held"]) << mix;
    }
    EXPECT_LE(prices["with_spare"]["load"]["one_less"]["of_held"], 1);
    EXPECT_LE(prices["with_spare"]["load"]["one_less"]["slo_ms"], 41);
    EXPECT_GE(prices["kinds"][0]["max_batch"], 1);
    // What one holds, lathe plan itself finds it to hold.
    const Json one = work_.good_json("plan --slo p99=40ms --from bench.json --machines 1 --rate " +
                                     std::to_string(0.95 * large) + "/s");
    EXPECT_EQ(one["meets"], true);
    const std::string said = work_.good(asked).output;
    EXPECT_THAT(said, HasSubstr("cheapest: "));
    EXPECT_THAT(said, HasSubstr("with one large less "));
    work_.write("prices.csv", "name,per_hour,currency,from\nlarge,4,EUR,bench.json\nsmall,0.25,EUR,slow.json\n");
    EXPECT_EQ(work_.good_json("plan --slo p99=40ms --rate 2100/s --prices prices.csv")["prices"], prices);
    for (const char* wrong : {" --from bench.json", " --machines 2", " --subject int8"}) {
        const CommandResult refused = work_.lathe(asked + wrong);
        EXPECT_EQ(refused.exit_code, 2) << wrong << refused.errors;
    }
    EXPECT_EQ(work_.lathe("plan --slo p99=40ms --rate 1/s").exit_code, 2);
    EXPECT_EQ(work_.lathe("plan --slo p99=1ms --rate 1/s --prices prices.json").exit_code, 5);
}

TEST_F(Plan, SaysWhatCannotBe) {
    const CommandResult fast = work_.lathe("plan --slo p99=2ms --rate 100/s --from bench.json");
    EXPECT_EQ(fast.exit_code, 5);
    EXPECT_THAT(fast.output, HasSubstr("not possible"));
    EXPECT_THAT(fast.errors, HasSubstr("a faster engine"));
    const auto refused = [&](const std::string& arguments, int code, const std::string& why) {
        const CommandResult result = work_.lathe("plan " + arguments);
        EXPECT_EQ(result.exit_code, code) << arguments;
        EXPECT_THAT(result.errors, HasSubstr(why)) << arguments;
    };
    refused("--slo p99=20ms --from bench.json", 2, "--rate");
    refused("--slo 20ms --rate 1/s --from bench.json", 2, "--slo");
    refused("--slo p99=20ms --rate fast --from bench.json", 2, "1500/s");
    refused("--slo p99=20ms --rate 1/s --from none.json", 3, "none.json");
    refused("--slo p99=20ms --rate 1/s --from stages.json", 3, "lathe bench");
    refused("--slo p99=20ms --rate 1/s --from bench.json --subject fp16", 3, "torch, int8");
    refused("--slo p99=20ms --rate 1/s --from bench.json --batch 32", 2, "16");
    refused("--slo p99=20ms --rate 1/s --from bench.json --stages bench.json", 3, "stages");
    refused("--slo p99=20ms --rate 1e6/s --from bench.json --machines 2", 2, "cannot serve");
}

TEST_F(Plan, ReckonsWithCallsAsAServerMakesThem) {
    work_.make_engine();
    const std::string text =
        work_.good("bench m.engine --batch-sizes 1,2 --pause 1 --duration 0 --time-limit 0.2 --output b.json").output;
    EXPECT_THAT(text, HasSubstr("Calls as a server makes them"));
    for (const Json& row : work_.json("b.json")["latency"]) {
        EXPECT_EQ(row["after_pause"]["pause_ms"], 1);
        EXPECT_GT(row["after_pause"]["median_ms"].get<double>(), 0);
        EXPECT_GT(row["after_other_size"]["count"].get<int>(), 0);
    }
    const CommandResult own = work_.good("plan --slo p99=1s --rate 10/s --from b.json");
    EXPECT_THAT(own.errors, Not(HasSubstr("--pause")));
    EXPECT_THAT(own.output, HasSubstr("not measured and not in --stages: decode, preprocess, postprocess; no copies in "
                                      "or out: the engine computes on the CPU"));
    EXPECT_THAT(work_.good("plan --slo p99=30ms --rate 10/s --from bench.json").errors, HasSubstr("--pause"));
}

TEST_F(Plan, ServesItsPredictionHere) {
    work_.make_engine();
    const std::string text =
        work_.good("plan --slo p99=30ms --rate 300/s --from bench.json --try m.engine --try-seconds 1 --output p.json")
            .output;
    EXPECT_THAT(text, HasSubstr("Served here"));
    const Json tried = work_.json("p.json")["tried"];
    EXPECT_GE(tried["requests"], 100);
    EXPECT_GT(tried["measured"]["p99_ms"].get<double>(), 0);
    EXPECT_GT(tried["predicted"]["median_ms"].get<double>(), 2) << "the bench's figures, not this engine's";
    // The second load is predicted from what the first showed: this engine takes a fraction of the bench's times.
    EXPECT_THAT(text, HasSubstr("predicted from the first load"));
    const double served = tried["served"]["all"]["served_ms"].get<double>();
    EXPECT_LT(tried["served"]["all"]["factor"].get<double>(), 0.8);
    EXPECT_GE(tried["again"]["requests"], 100);
    EXPECT_LT(tried["again"]["predicted"]["median_ms"].get<double>(), tried["predicted"]["median_ms"].get<double>());
    // And later plans know it.
    const std::string plan = "plan --slo p99=30ms --rate 10/s --from bench.json --batch 1 --machines 1 --instances 1";
    const double before = work_.good_json(plan)["latency_ms"]["p50"].get<double>();
    const double after = work_.good_json(plan + " --served p.json")["latency_ms"]["p50"].get<double>();
    EXPECT_GT(before, 2.4);
    EXPECT_LT(after, before - 0.5) << "served in " << served << " ms";
    const CommandResult refused = work_.lathe(plan + " --served bench.json");
    EXPECT_EQ(refused.exit_code, 3);
    EXPECT_THAT(refused.errors, HasSubstr("--try"));
}

} // namespace
} // namespace lathe::test
