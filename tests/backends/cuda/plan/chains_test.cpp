// Where one kernel could run several 1x1 convolutions, and that a plan with chains computes what it did without.
#include <string>

#include <gtest/gtest.h>

#include "backends/cuda/plan/audit.hpp"
#include "backends/cuda/plan/chains.hpp"
#include "backends/cuda/plan/memory.hpp"
#include "networks.hpp"

namespace lathe::cuda {
namespace {

/// Two bottleneck blocks, the first with a shortcut of stride 2, and a convolution behind them.
std::string blocks(const std::string& act = "Relu", const std::string& more = "") {
    return "opset 18\n"
           "input %x: float32[N, 32, 8, 8]\n"
           "input %w_a: float32[16, 32, 1, 1]\ninput %b_a: float32[16]\n"
           "input %w_b: float32[16, 16, 3, 3]\ninput %b_b: float32[16]\n"
           "input %w_c: float32[64, 16, 1, 1]\ninput %b_c: float32[64]\n"
           "input %w_d: float32[64, 32, 1, 1]\ninput %b_d: float32[64]\n"
           "input %w_e: float32[16, 64, 1, 1]\ninput %b_e: float32[16]\n"
           "input %w_f: float32[64, 16, 1, 1]\ninput %b_f: float32[64]\n"
           "input %w_g: float32[32, 64, 1, 1]\ninput %b_g: float32[32]\n"
           "%a = Conv(%x, %w_a, %b_a)\n%a_r = Relu(%a)\n"
           "%b = Conv(%a_r, %w_b, %b_b) {pads = [1, 1, 1, 1], strides = [2, 2]}\n%b_r = Relu(%b)\n"
           "%d = Conv(%x, %w_d, %b_d) {strides = [2, 2]}\n"
           "%c = Conv(%b_r, %w_c, %b_c)\n"
           "%sum = Add(%c, %d)\n%sum_r = " +
           act +
           "(%sum)\n"
           "%e = Conv(%sum_r, %w_e, %b_e)\n%e_r = Relu(%e)\n"
           "%f = Conv(%e_r, %w_f, %b_f)\n"
           "%sum2 = Add(%sum_r, %f)\n%sum2_r = Relu(%sum2)\n"
           "%g = Conv(%sum2_r, %w_g, %b_g)\n" +
           more + "output %g: float32[N, 32, 4, 4]\n";
}

Plan plan_of(const std::string& text, std::int64_t n = 2) {
    return lathe::test::plan_of(lathe::test::network(text), Precision::float16, {{n, 32, 8, 8}});
}

std::size_t index_of(const Plan& plan, const std::string& weight) {
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
        const auto* conv = std::get_if<Conv>(&plan.ops[i].detail);
        if (conv != nullptr && plan.weights->weights[conv->weight].key.find(weight) != std::string::npos) return i;
    }
    return plan.ops.size();
}

std::string names(const Plan& plan, const std::vector<ChainSite>& sites) {
    std::string text;
    for (const ChainSite& site : sites) {
        for (const std::size_t i : site.ops()) {
            for (const char* weight : {"w_a", "w_b", "w_c", "w_d", "w_e", "w_f", "w_g"})
                if (index_of(plan, weight) == i) text += weight[2];
        }
        text += " ";
    }
    return text;
}

TEST(CudaChains, AreFoundFromShortcutToTheNextBlock) {
    const Plan plan = plan_of(blocks());
    // The whole first; the second block's sum has no shortcut to compute.
    EXPECT_EQ(names(plan, chain_sites(plan)), "dce dc ce fg ");
}

TEST(CudaChains, AreFoundInAQuantisedNetwork) {
    const auto model = lathe::test::network(lathe::test::bottleneck_network());
    const std::vector<Shape> shapes{{1, 64, 20, 20}};
    const Plan plan = lathe::test::plan_of(model, Precision::int8, shapes);
    std::string found;
    for (const ChainSite& site : chain_sites(plan))
        found += chain_of(plan, site).name + "; ";
    // The expanding convolution is quantised on its own: it is what the shortcut's convolution adds.
    EXPECT_EQ(found, "Conv -> a3 + Conv -> a0 + Conv -> b1; Conv -> c3 + Conv -> c0 + Conv -> d1; "
                     "Conv -> a3 + Conv -> a0; Conv -> a0 + Conv -> b1; Conv -> b3 + Conv -> c1; "
                     "Conv -> c3 + Conv -> c0; Conv -> c0 + Conv -> d1; ");
    Plan joined = plan;
    join_chains(joined, chain_sites(plan));
    auto inputs = lathe::test::random_inputs(model, shapes);
    EXPECT_EQ(lathe::test::interpreted(plan, inputs, true)[0].bytes,
              lathe::test::interpreted(joined, inputs, true)[0].bytes);
}

TEST(CudaChains, ASumReadByOthersIsWrittenAnywayAShortcutIsNot) {
    // d is read twice: no kernel may keep it to itself.
    std::string text = blocks();
    text.replace(text.find("%sum2 = Add(%sum_r, %f)"), 23, "%twice = Add(%sum_r, %d)\n%sum2 = Add(%twice, %f)");
    const Plan plan = plan_of(text);
    EXPECT_EQ(names(plan, chain_sites(plan)).find("dc"), std::string::npos);
}

TEST(CudaChains, OtherActivationsAreNotTaken) {
    const Plan plan = plan_of(blocks("Sigmoid"));
    EXPECT_EQ(names(plan, chain_sites(plan)).find('c'), std::string::npos);
}

TEST(CudaChains, PlanWithChainsIsValidAndComputesTheSame) {
    const auto model = lathe::test::network(blocks());
    const std::vector<Shape> shapes{{2, 32, 8, 8}};
    const Plan plan = lathe::test::plan_of(model, Precision::float16, shapes);
    Plan joined = plan;
    join_chains(joined, chain_sites(joined));
    ASSERT_TRUE(verify(joined)) << verify(joined).error().describe();
    EXPECT_EQ(joined.ops.size(), plan.ops.size() - 3);
    const std::string text = print(joined);
    EXPECT_NE(text.find("chain"), std::string::npos) << text;
    auto inputs = lathe::test::random_inputs(model, shapes);
    const auto expected = lathe::test::interpreted(plan, inputs, true);
    const auto found = lathe::test::interpreted(joined, inputs, true);
    ASSERT_EQ(expected.size(), found.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_EQ(expected[i].bytes, found[i].bytes);
}

TEST(CudaChains, AShortcutHasNoPlaceInMemory) {
    std::string text = blocks(); // with results so wide that they are most of what is alive
    for (std::size_t at = text.find("64"); at != std::string::npos; at = text.find("64", at))
        text.replace(at, 2, "512");
    Plan plan = plan_of(text);
    std::vector<ChainSite> sites = chain_sites(plan);
    std::erase_if(sites, [](const ChainSite& site) { return site.behind || !site.shortcut; });
    ASSERT_EQ(sites.size(), 1U);
    plan.ops.resize(sites[0].adding + 1);
    plan.outputs.clear();
    Plan joined = plan;
    join_chains(joined, sites);
    const std::size_t shortcut = plan.values[plan.ops[*sites[0].shortcut].outputs[0]].byte_size();
    const std::size_t x = plan.values[plan.ops[*sites[0].shortcut].inputs[0]].byte_size();
    EXPECT_EQ(plan_memory(joined).lower_bound, plan_memory(plan).lower_bound - shortcut + x);
}

TEST(CudaChains, SignaturesTellChainsApart) {
    const Plan plan = plan_of(blocks());
    std::vector<std::string> signatures;
    for (const ChainSite& site : chain_sites(plan))
        signatures.push_back(signature(chain_of(plan, site), plan));
    for (std::size_t i = 0; i < signatures.size(); ++i) {
        EXPECT_EQ(signatures[i].find("chain fp16"), 0U) << signatures[i];
        for (std::size_t j = 0; j < i; ++j)
            EXPECT_NE(signatures[i], signatures[j]);
    }
}

TEST(CudaChains, AuditNamesTheParts) {
    Plan plan = plan_of(blocks());
    const Audit before = audit(plan, Precision::float16);
    join_chains(plan, chain_sites(plan));
    const Audit after = audit(plan, Precision::float16);
    ASSERT_EQ(before.rows.size(), after.rows.size());
    std::int64_t macs = 0;
    for (const FusedOp& op : plan.ops)
        macs += op.macs;
    for (const Audit::Row& row : before.rows)
        macs -= row.macs;
    EXPECT_EQ(macs, 0);
}

/// Squeeze and excite as exporters write it; `more` reads what lies in between.
std::string gated(const std::string& pool = "%m = GlobalAveragePool(%x)\n", const std::string& more = "") {
    return "opset 18\ninput %i: float32[N, 24, 8, 8]\n"
           "input %w_i: float32[24, 24, 1, 1]\ninput %w_a: float32[6, 24, 1, 1]\ninput %b_a: float32[6]\n"
           "input %w_b: float32[24, 6, 1, 1]\ninput %b_b: float32[24]\nconst %axes: int64[2] = {2, 3}\n"
           "%x = Conv(%i, %w_i)\n" +
           pool + "%a = Conv(%m, %w_a, %b_a)\n%a_r = Relu(%a)\n%b = Conv(%a_r, %w_b, %b_b)\n%g = Sigmoid(%b)\n" + more +
           "%y = Mul(%g, %x)\noutput %y: float32[N, 24, 8, 8]\n";
}

TEST(CudaChains, SqueezeAndExciteIsOneAndComputesTheSame) {
    for (const Precision precision : {Precision::float16, Precision::float32}) {
        for (const char* pool : {"%m = GlobalAveragePool(%x)\n", "%m = ReduceMean(%x, %axes) {keepdims = 1}\n"}) {
            const auto model = lathe::test::network(gated(pool));
            const std::vector<Shape> shapes{{3, 24, 8, 8}};
            const Plan plan = lathe::test::plan_of(model, precision, shapes);
            const auto sites = chain_sites(plan);
            ASSERT_EQ(sites.size(), 1U) << print(plan);
            EXPECT_EQ(sites[0].squeeze.size(), 3U);
            Plan joined = plan;
            join_chains(joined, sites);
            ASSERT_TRUE(verify(joined)) << verify(joined).error().describe();
            EXPECT_EQ(joined.ops.size(), plan.ops.size() - 2);
            EXPECT_NE(print(joined).find("squeeze"), std::string::npos);
            auto inputs = lathe::test::random_inputs(model, shapes);
            EXPECT_EQ(lathe::test::interpreted(plan, inputs, true)[0].bytes,
                      lathe::test::interpreted(joined, inputs, true)[0].bytes);
            joined.outputs.push_back(plan.ops[sites[0].squeeze[0]].outputs[0]);
            EXPECT_FALSE(verify(joined)) << "a result without a place in memory is read";
        }
    }
}

TEST(CudaChains, SqueezeAndExciteThatOthersReadInBetweenIsNotOne) {
    const std::string more = "%z = Relu(%a)\noutput %z: float32[N, 6, 1, 1]\n";
    for (const std::string& text : {gated("%m = GlobalAveragePool(%x)\n", more), gated("%m = GlobalMaxPool(%x)\n")}) {
        const Plan plan = lathe::test::plan_of(lathe::test::network(text), Precision::float16, {{2, 24, 8, 8}});
        EXPECT_TRUE(chain_sites(plan).empty()) << print(plan);
    }
}

TEST(CudaChains, AShortcutReadByAnotherOpBreaksThePlan) {
    Plan plan = plan_of(blocks());
    std::vector<ChainSite> sites = chain_sites(plan);
    join_chains(plan, sites);
    for (FusedOp& op : plan.ops) {
        if (const auto* chain = std::get_if<Chain>(&op.detail); chain != nullptr && chain->shortcut)
            plan.outputs.push_back(chain->parts[0].outputs[0]);
    }
    EXPECT_FALSE(verify(plan));
}

} // namespace
} // namespace lathe::cuda
