// No command writes over what it reads, whatever name or link leads there, and nothing is read or written before that
// is known.
#include <cstdlib>
#include <filesystem>
#include <regex>

#include "cli/workspace.hpp"

namespace lathe::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Overwrite {
    std::string name;
    std::string input;     ///< made by prepare(), and to be as it was afterwards
    std::string arguments; ///< OUT stands for the output
};

/// Every command and option that writes a file.
std::vector<Overwrite> overwrites() {
    return {
        {"Build", "m.onnx", "build m.onnx -o OUT"},
        {"BuildLayerInfo", "m.onnx", "build m.onnx -o e --exportLayerInfo OUT"},
        {"BuildPlan", "m.onnx", "build m.onnx -o e --plan OUT"},
        {"BuildTimingCache", "m.onnx", "build m.onnx -o e --timing-cache OUT"},
        {"BuildPreprocess", "p.json", "build m.onnx --preprocess p.json -o OUT"},
        {"Simplify", "m.onnx", "simplify m.onnx --output OUT"},
        {"SimplifyWithEquals", "m.onnx", "simplify m.onnx --output=OUT"},
        {"CalibrateData", "arrays.npy", "calibrate m.onnx --data arrays.npy -o OUT --force"},
        {"CalibrateModel", "m.onnx", "calibrate m.onnx --data arrays.npy -o OUT --force"},
        {"CalibratePicture", "photos/rgb.png", "calibrate m.onnx --data photos -o OUT --force"},
        {"ConvertRanges", "s.ranges", "convert-ranges s.ranges -o OUT"},
        {"QuantizeModel", "s.onnx", "quantize s.onnx --ranges s.ranges -o OUT"},
        {"QuantizeRanges", "s.ranges", "quantize s.onnx --ranges s.ranges -o OUT"},
        {"QuantizeData", "arrays.npy", "quantize s.onnx --ranges s.ranges --data arrays.npy --effort 1 -o OUT"},
        {"Autocast", "s.onnx", "autocast s.onnx --ranges s.ranges -o OUT"},
        {"AutocastRanges", "s.ranges", "autocast s.onnx --ranges s.ranges -o OUT"},
        {"RunEngine", "m.engine", "run m.engine arrays.npy -o OUT"},
        {"RunData", "arrays.npy", "run m.engine arrays.npy -o OUT"},
        {"ProfileData", "texts.tsv", "profile-data m.onnx --data texts.tsv --output OUT"},
        {"BenchEngine", "m.engine", "bench m.engine --output OUT"},
        {"BenchPeer", "m.onnx", "bench m.engine --against onnxruntime=m.onnx --output OUT"},
        {"BenchPeersInAList", "m.onnx", "bench m.engine --against openvino,onnxruntime=m.onnx --output OUT"},
        {"BenchRawInput", "arrays.npy", "bench m.engine --loadInputs input:arrays.npy --output OUT"},
        {"BenchProfile", "m.engine", "bench m.engine --exportProfile OUT"},
        {"BenchSource", "net.py", "bench m.engine --against pytorch --source net.py:net --output OUT"},
        {"TrtexecLog", "trt.log", "trtexec-log trt.log -o OUT"},
        {"Eval", "m.engine", "eval m.engine --data photos --output OUT"},
        {"EvalReference", "m.engine", "eval q.engine --reference m.engine --data photos --output OUT"},
        {"Sensitivity", "m.onnx", "sensitivity m.onnx --data arrays.npy -o OUT"},
        {"SensitivityReport", "arrays.npy", "sensitivity m.onnx --data arrays.npy -o s.json --report OUT"},
        {"Tune", "m.onnx", "tune m.onnx --data photos -o OUT"},
        {"TuneResults", "m.onnx", "tune m.onnx --data photos -o t.engine --results OUT"},
        {"TuneReport", "m.onnx", "tune m.onnx --data photos -o t.engine --report OUT"},
        {"Plan", "b.json", "plan --from b.json --rate 10 --slo 100 --output OUT"},
        {"Report", "b.json", "report b.json -o OUT"},
        {"Optimize", "m.onnx", "optimize m.onnx --precisions fp32 --timing-cache OUT"},
        {"Export", "w.pth", "export resnet18 --weights w.pth --output OUT"},
    };
}

std::string with_output(const std::string& arguments, const std::string& output) {
    return std::regex_replace(arguments, std::regex("OUT"), output);
}

class LostInput : public testing::TestWithParam<Overwrite> {
protected:
    void SetUp() override {
        work_.make_int8_engine();
        work_.make_engine();
        for (const char* name : {"p.json", "texts.tsv", "trt.log", "b.json", "w.pth", "net.py"})
            work_.write(name, "{}\n");
    }
    void expect_refused(const std::string& output) {
        const std::string before = work_.read(GetParam().input);
        const std::string listing = run_command("ls -a '" + work_.path("").string() + "'").output;
        const CommandResult result = work_.lathe(with_output(GetParam().arguments, output), "timeout 20");
        EXPECT_EQ(result.exit_code, 2) << output << "\n" << result.output << result.errors;
        EXPECT_THAT(result.errors, HasSubstr("the output is"));
        EXPECT_EQ(work_.read(GetParam().input), before);
        EXPECT_EQ(run_command("ls -a '" + work_.path("").string() + "'").output, listing);
    }
    Workspace work_;
};

TEST_P(LostInput, IsRefusedByEveryName) {
    const std::string& input = GetParam().input;
    expect_refused(input);
    expect_refused("./" + input);
    expect_refused("'" + work_.path(input).string() + "'");
    // Renaming over another name of a picture leaves the folder's own as it is.
    if (GetParam().name != "CalibratePicture") {
        fs::create_hard_link(work_.path(input), work_.path("hard"));
        expect_refused("hard");
    }
    fs::create_symlink(work_.path(input), work_.path("soft"));
    expect_refused("soft");
}
INSTANTIATE_TEST_SUITE_P(All, LostInput, testing::ValuesIn(overwrites()),
                         [](const testing::TestParamInfo<Overwrite>& info) { return info.param.name; });

TEST(LostInputs, ExternalWeightsAreInputsToo) {
    const Workspace work;
    work.save(tiny_classifier(), "x.onnx", {.external_data = ExternalData::always});
    std::string data;
    for (const auto& entry : fs::directory_iterator(work.path("")))
        if (entry.path().extension() == ".data") data = entry.path().filename().string();
    ASSERT_FALSE(data.empty());
    const std::string before = work.read(data);
    const CommandResult result = work.lathe("build x.onnx -o " + data);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.errors, HasSubstr("weights"));
    EXPECT_EQ(work.read(data), before);
}

TEST(LostInputs, OutputsMadeUpFromTheModelsName) {
    const Workspace work;
    fs::create_directory(work.path("out"));
    fs::create_symlink(work.path("m.onnx"), work.path("out/m.simplified.onnx"));
    const std::string before = work.read("m.onnx");
    const CommandResult result = work.lathe("optimize m.onnx --precisions fp32 --against '' -o out");
    EXPECT_EQ(result.exit_code, 2) << result.output << result.errors;
    EXPECT_EQ(work.read("m.onnx"), before);
}

TEST(LostInputs, TwoOutputsAreNotOneFile) {
    const Workspace work;
    const CommandResult result = work.lathe("tune m.onnx --data photos -o t.engine --results r --report ./r");
    EXPECT_EQ(result.exit_code, 2) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("two outputs"));
}

TEST(LostInputs, AnOlderOutputIsReplaced) {
    const Workspace work;
    (void)work.good("build m.onnx -o e");
    (void)work.good("build m.onnx -o e");
    (void)work.good("run e arrays.npy -o o.npz");
    (void)work.good("run e arrays.npy -o o.npz");
    (void)work.good("inspect m.onnx --memory-limit 1GB");
}

// A command that gets another option to write a file has to tell it here and in src/cli/written_files.cpp.
TEST(LostInputs, EveryOptionThatWritesIsKnown) {
    const Workspace work;
    const std::string help = work.lathe("--help").output;
    const std::regex command_name("^  ([a-z-]+) ", std::regex::multiline);
    std::size_t commands = 0;
    for (std::sregex_iterator it(help.begin(), help.end(), command_name), end; it != end; ++it) {
        const std::string name = (*it)[1];
        const std::string text = work.lathe(name + " --help").output;
        ++commands;
        // "  --plan TEXT   TensorRT: also write the plan as a file", the words perhaps on a line of their own
        const std::regex writes("--([A-Za-z-]+)[^\\n]*\\s(?! *-)(?:[Ww]rite [^\\n]*|[^\\n]*file to write|HTML page to "
                                "write|JSON to write)");
        for (std::sregex_iterator option(text.begin(), text.end(), writes); option != end; ++option) {
            static const std::vector<std::string> known{"output", "plan",          "report",          "results",
                                                        "png",    "exportProfile", "exportLayerInfo", "draw"};
            EXPECT_THAT(known, testing::Contains(option->str(1))) << name << ": " << option->str();
        }
    }
    EXPECT_GT(commands, 15U) << help;
}

} // namespace
} // namespace lathe::test
