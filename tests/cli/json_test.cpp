// With --json, standard output is one JSON document: for every command, where it succeeds, where it finds what its exit
// code 5 stands for, and where it fails.
#include <set>
#include <sstream>

#include "cli/workspace.hpp"
#include "plan/machines.hpp"
#include "support_lib/places.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

struct Case {
    std::string arguments;
    int exit_code = 0;
    const char* kind = nullptr; ///< the document's; nullptr: it has the failure alone
};

const std::string tune =
    "tune m.onnx --data photos --calibrate arrays.npy --metric kl --time-budget 0.1 --time-limit 0.1 "
    "--sensitivity-samples 2 --output best.engine ";

/// Every command in success, with what it finds, and with a file that is missing or is none of its kind.
std::vector<Case> cases() {
    const std::string log = "'" + test::source_path("tests/bench/logs/trt930_loaded_engine.log") + "'";
    return {{"optimize m.onnx --calibrate arrays.npy --evaluate photos --precisions fp32 --output out --against '' "
             "--batch-sizes 1 --duration 0.1 --time-limit 0.2",
             0, "optimize"},
            {"optimize none.onnx --calibrate arrays.npy --output out2", 3},
            {"demo --copy pictures", 0, "demo"}, // the whole of it is in tests/python
            {"demo --copy m.onnx/pictures", 1},
            // Successes are in tests/export: they need PyTorch.
            {"export none.py:net --output e.onnx", 4},
            {"inspect m.onnx", 0, "model"},
            {"inspect m.engine", 0, "engine"},
            {"inspect none.onnx", 3},
            {"simplify --list-passes", 0, "passes"},
            {"simplify m.onnx -o s2.onnx", 0, "simplify"},
            {"simplify none.onnx -o s3.onnx", 3},
            {"calibrate s.onnx --data arrays.npy -o s2.ranges", 0, "calibration"},
            {"calibrate s.onnx --data none -o s3.ranges", 3},
            {"convert-ranges s.ranges --format dynamic-ranges -o s.json", 0, "convert-ranges"},
            {"convert-ranges none.cache --format dynamic-ranges -o s4.json", 3},
            {"quantize s.onnx --ranges s.ranges -o q2.onnx", 0, "quantize"},
            {"quantize s.onnx --explain", 0, "quantize"},
            {"quantize --lint q.onnx --target openvino", 0, "lint"},
            {"quantize --lint zeros.onnx --target tensorrt", 5, "lint"},
            {"quantize s.onnx --ranges none.ranges -o q3.onnx", 3},
            {"autocast s.onnx -o a.onnx", 0, "autocast"},
            {"autocast s.onnx --data arrays.npy -o a2.onnx", 0, "autocast"},
            {"autocast none.onnx -o a3.onnx", 3},
            {"build m.onnx -o m2.engine", 0, "build"},
            {"build none.onnx -o m3.engine", 3},
            {"run m.engine photos", 0, "run"},
            {"run m.engine none", 3},
            {"profile-data none.engine --data t.tsv", 3}, // success is in text_test.cpp: it needs a tokenizer
            {"bench m.engine --batch-sizes 1 --duration 0 --time-limit 0.2 --verbose", 0, "bench"},
            {"bench none.engine", 3},
            {"trtexec-log " + log, 0, "bench"},
            {"trtexec-log none.log", 3},
            {"eval m.engine --data photos", 0, "eval"},
            {"eval m.engine --data none", 3},
            {"compare m.onnx s.onnx --data arrays.npy", 0, "compare"},
            {"compare m.onnx s.onnx --data arrays.npy --reduce nothing.onnx", 0, "compare"},
            {"compare m.onnx other.onnx --data arrays.npy", 5, "compare"},
            {"compare m.onnx other.onnx --data arrays.npy --reduce small.onnx", 5, "compare"},
            {"compare m.onnx other.onnx --data arrays.npy --reduce no/such/small.onnx", 3, "compare"},
            {"compare m.onnx none.onnx", 3},
            {"sensitivity m.onnx --data photos --calibrate arrays.npy --samples 4", 0, "sensitivity"},
            {"sensitivity m.onnx --data none", 3},
            {"tune none.onnx --data photos --output n.engine", 3},
            {"plan --slo p99=30ms --rate 300/s --from bench.json", 0, "plan"},
            {"plan --slo p99=2ms --rate 100/s --from bench.json", 5, "plan"},
            {"plan --slo p99=2ms --rate 100/s --from none.json", 3},
            {"deploy triton m.engine -o repo", 0, "deploy"},
            {"deploy triton m.engine -o repo", 2},
            {"deploy triton m.engine -o repo2 --from bench.json --slo p99=1ms --rate 100/s", 5},
            {"report bench.json -o r.html", 0, "report"},
            {"report none.json -o r.html", 3},
            {"show m.onnx -o g.html", 0, "show"},
            {"show m.engine -o g.html", 0, "show"},
            {"show none.onnx", 3},
            {"show m.onnx -o m.onnx", 2},
            {"show m.onnx --with bench.json -o g.html", 3},
            {"completion fish", 0, "completion"},
            {"completion powershell", 2},
            {"man", 0, "man"},
            {"man page", 2},
            {"doctor", 0, "doctor"},
            // What cannot be understood, and a command that is not there.
            {"compare m.onnx", 2},
            {"bench m.engine --colour red", 2},
            {"forge m.onnx", 2}};
}

class JsonOutput : public testing::Test {
protected:
    void SetUp() override {
        work_.make_int8();
        work_.make_engine();
        work_.save(tiny_classifier(9), "other.onnx");
        Json bench = bench_document({{1, 2.5}, {2, 3}, {4, 4}, {8, 6}});
        bench["subjects"][1]["file"] = "m.engine";
        work_.write("bench.json", bench.dump());
        // A zero point that TensorRT does not take.
        work_.save(model_from_text("opset 18\ninput %x: float32[1, 4]\nconst %s: float32[] = {0.1}\n"
                                   "const %z: int8[] = {5}\n%q = QuantizeLinear(%x, %s, %z)\n"
                                   "%y = DequantizeLinear(%q, %s, %z)\noutput %y: float32[1, 4]\n"),
                   "zeros.onnx");
    }

    void check(const Case& each) {
        const CommandResult result =
            work_.lathe(each.arguments + " --json", "env LATHE_PYTHON=/no/such/python NO_COLOR=1");
        EXPECT_EQ(result.exit_code, each.exit_code) << each.arguments << "\n" << result.errors;
        const auto document = parse_json(result.output, "standard output");
        ASSERT_TRUE(document) << each.arguments << "\n" << document.error().describe() << "\n" << result.output;
        ASSERT_TRUE(document->is_object()) << each.arguments;
        EXPECT_EQ(document->contains("kind"), each.kind != nullptr) << each.arguments;
        if (each.kind != nullptr) {
            EXPECT_EQ(document->value("kind", ""), each.kind) << each.arguments;
        }
        EXPECT_EQ(document->contains("error"), result.exit_code != 0) << each.arguments;
        if (result.exit_code == 0) return;
        const Json& error = (*document)["error"];
        EXPECT_THAT(result.errors, HasSubstr(error["message"].get<std::string>())) << each.arguments;
        EXPECT_EQ(error["code"] == "verification_failed", result.exit_code == 5) << each.arguments;
    }
    Workspace work_;
};

TEST_F(JsonOutput, IsOneDocumentWhateverIsFound) {
    std::set<std::string> tried{"tune"}; // below
    for (const Case& each : cases()) {
        check(each);
        tried.insert(each.arguments.substr(0, each.arguments.find(' ')));
    }
    // No command is left out.
    std::istringstream help(work_.good("--help").output);
    bool commands = false;
    std::size_t known = 0;
    for (std::string line; std::getline(help, line);) {
        if (commands && line.starts_with("  ") && line.size() > 2 && line[2] != ' ') {
            const std::string name = line.substr(2, line.find(' ', 2) - 2);
            EXPECT_TRUE(tried.contains(name)) << "add lathe " << name << " to the cases";
            ++known;
        }
        commands = commands || line.starts_with("Subcommands");
    }
    EXPECT_GE(known, 20U);
}

TEST_F(JsonOutput, OfAComparisonHasWhatWasFoundAndTheFailure) {
    const CommandResult result = work_.lathe("compare m.onnx other.onnx --data arrays.npy --reduce small.onnx --json");
    const Json document = Workspace::as_json(result.output);
    EXPECT_EQ(document["equal"], false);
    EXPECT_EQ(document["reduced"]["nodes_second"], 1);
    EXPECT_THAT(document["error"]["message"].get<std::string>(), HasSubstr(document["first_past"].get<std::string>()));
}

// No mix can be asked to lose less than nothing, so that this may end either way.
TEST_F(JsonOutput, OfTuneIsOneDocumentGoodOrNot) {
    for (const char* drop : {"100", "0"}) {
        const CommandResult result = work_.lathe(tune + "--max-drop " + drop + " --json");
        ASSERT_TRUE(result.exit_code == 0 || result.exit_code == 5) << result.errors;
        const Json document = Workspace::as_json(result.output);
        EXPECT_EQ(document["kind"], "tune");
        EXPECT_EQ(document["good"], result.exit_code == 0);
        EXPECT_EQ(document.contains("error"), result.exit_code == 5);
    }
}

} // namespace
} // namespace lathe::test
