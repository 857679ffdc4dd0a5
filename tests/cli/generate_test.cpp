// A decoder continues texts: lathe run --max-tokens, and what deploy writes of one.
#include "backends/decoders.hpp"
#include "cli/workspace.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Generate : public testing::Test {
protected:
    void SetUp() override {
        work_.save(TinyDecoder::decode(), "d.onnx");
        work_.save(TinyDecoder::prefill(), "p.onnx");
        work_.good("build d.onnx -o d.engine " + TinyDecoder::shapes(20));
        work_.good("build p.onnx -o p.engine " + TinyDecoder::prefill_shapes(12));
    }
    void refused(const std::string& arguments, int code, const std::string& why) {
        const CommandResult result = work_.lathe(arguments);
        EXPECT_EQ(result.exit_code, code) << arguments << "\n" << result.output << result.errors;
        EXPECT_THAT(result.errors, HasSubstr(why)) << arguments;
    }
    Json tokens(const std::string& arguments) {
        Json all = Json::array();
        const Json document = work_.good_json("run d.engine " + arguments);
        for (const Json& sample : document["samples"])
            all.push_back(sample["tokens"]);
        return all;
    }

    Workspace work_;
};

TEST_F(Generate, ContinuesEachPrompt) {
    const Json both = tokens("--ids 5,9,2 --ids 30 --max-tokens 6");
    ASSERT_EQ(both.size(), 2U);
    EXPECT_EQ(both[0].size(), 6U);
    EXPECT_EQ(tokens("--ids 5,9,2 --max-tokens 6 --prefill p.engine")[0], both[0]);
    EXPECT_EQ(tokens("--ids 30 --max-tokens 6")[0], both[1]) << "whatever came before";
    EXPECT_NE(both[0], both[1]);
    const std::string end = std::to_string(both[0][1].get<int>());
    EXPECT_LE(tokens("--ids 5,9,2 --max-tokens 6 --eos " + end)[0].size(), 2U);
    const std::string drawn = "--ids 5,9,2 --max-tokens 6 --temperature 1000 --top-tokens 20";
    EXPECT_EQ(tokens(drawn + " --seed 4"), tokens(drawn + " --seed 4"));
    EXPECT_NE(tokens(drawn + " --seed 4"), tokens(drawn + " --seed 5"));
    EXPECT_THAT(work_.good("run d.engine --ids 5,9,2 --max-tokens 6").output, HasSubstr("  5 9 2 | "));
}

TEST_F(Generate, SaysWhatCannotBeContinued) {
    refused("run d.engine --max-tokens 4", 2, "there is no prompt");
    refused("run d.engine --ids 5", 2, "--max-tokens");
    refused("run d.engine --ids 5,x --max-tokens 4", 2, "these are no token ids");
    refused("run d.engine --ids 5,64 --max-tokens 4", 2, "64 is not in the vocabulary");
    refused("run d.engine --ids 5 --max-tokens 21", 3, "21 tokens behind a prompt of 1 are more than the 20");
    refused("run d.engine --text hello --max-tokens 4", 2, "no engine here carries a tokenizer");
    refused("run d.engine arrays.npy --ids 5 --max-tokens 4", 2, "leave out files");
    refused("run p.engine --ids 5 --max-tokens 4", 2, "reads no keys and values of a past");
    refused("run d.engine --prefill d.engine --ids 5 --max-tokens 4", 2, "a prompt does not fill the input");
}

TEST_F(Generate, IsDeployedAsADecoder) {
    refused("deploy triton p.engine -o repo --generate", 2, "reads no keys and values of a past");
    refused("deploy triton d.engine -o repo --generate --backend onnxruntime", 2, "continues no texts");
    refused("deploy triton d.engine -o repo --generate --texts", 2, "--generate");
    refused("deploy triton d.engine -o repo --generate --from bench.json", 2, "how a text is continued");
    refused("deploy triton d.engine -o repo --prefill p.engine", 2, "add --generate");
    refused("deploy triton d.engine -o repo --streams 2", 2, "add --generate");
    refused("deploy triton d.engine -o repo --generate --prefill d.engine", 2, "a prompt does not fill the input");
    EXPECT_FALSE(std::filesystem::exists(work_.path("repo"))) << "nothing was written";
    const Json told = work_.good_json("deploy triton d.engine -o repo --generate --prefill p.engine");
    EXPECT_EQ(told["models"][0]["instances"], 8);
    EXPECT_EQ(told["models"][0]["takes_texts"], false);
    EXPECT_EQ(told["models"][0]["max_batch_size"], 0);
    const std::string config = work_.read("repo/d/config.pbtxt");
    EXPECT_THAT(config, HasSubstr("model_transaction_policy {\n  decoupled: true\n}\n"));
    EXPECT_THAT(config, HasSubstr("input {\n  name: \"max_tokens\"\n  data_type: TYPE_INT32\n  dims: [1]\n}\n"));
    EXPECT_THAT(config, HasSubstr("count: 8\n"));
    EXPECT_THAT(config, Not(HasSubstr("past_key_values")));
    EXPECT_EQ(work_.read("repo/d/1/prefill.engine"), work_.read("p.engine"));
}

} // namespace
} // namespace lathe::test
