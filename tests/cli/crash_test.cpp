// Models that make runtimes divide by zero, read outside memory or take all of it, files that change or do not fit:
// each ends in a sentence and an exit code, within seconds, and leaves nothing behind.
#include <csignal>
#include <cstdlib>

#include "cli/faults.hpp"
#include "cli/workspace.hpp"
#include "graph/text.hpp"

namespace lathe::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

struct Crash {
    std::string name;
    std::string constants;
    std::string nodes;      ///< of constants and %x: float32[2, 3]; they give %y, which is added to %x
    std::string words = ""; ///< in what `build` says; empty: it may also succeed
};

std::vector<Crash> crashes() {
    const auto pair = [](const std::string& a, const std::string& b, const std::string& type = "int64") {
        return "const %a: " + type + "[2] = {" + a + "}\nconst %b: " + type + "[2] = {" + b + "}\n";
    };
    const std::string reduce = "%y = ReduceSum(%f) {keepdims = 0}\n";
    return {
        {"DivLeastByMinusOne", pair("-9223372036854775808, 5", "-1, 1"),
         "%q = Div(%a, %b)\n%f = Cast(%q) {to = 1}\n" + reduce, "least integer"},
        {"DivLeastByMinusOneAndZero", pair("-9223372036854775808, 5", "-1, 0"),
         "%q = Div(%a, %b)\n%f = Cast(%q) {to = 1}\n" + reduce, "divided by 0"},
        {"DivByZero", pair("3, 5", "1, 0"), "%q = Div(%a, %b)\n%f = Cast(%q) {to = 1}\n" + reduce, "divided by 0"},
        {"DivInt32", pair("-2147483648, 5", "-1, 1", "int32"), "%q = Div(%a, %b)\n%f = Cast(%q) {to = 1}\n" + reduce,
         "least integer"},
        {"DivByAComputedZero", pair("3, 5", "1, 2"),
         "%z = Sub(%b, %b)\n%q = Div(%a, %z)\n%f = Cast(%q) {to = 1}\n" + reduce},
        {"ModByZero", pair("3, 5", "1, 0"), "%q = Mod(%a, %b)\n%f = Cast(%q) {to = 1}\n" + reduce, "divided by 0"},
        {"ModLeastByMinusOne", pair("-9223372036854775808, 5", "-1, 1"),
         "%q = Mod(%a, %b)\n%f = Cast(%q) {to = 1}\n" + reduce, "least integer"},
        {"CumSumOnAxis99", "const %a: float32[2] = {1.0, 2.0}\nconst %b: int64[] = {99}\n",
         "%f = CumSum(%a, %b)\n" + reduce, "axis 99"},
        {"CumSumOnAxisMinus99", "const %a: float32[2] = {1.0, 2.0}\nconst %b: int64[] = {-99}\n",
         "%f = CumSum(%a, %b)\n" + reduce, "axis -99"},
        {"CumSumOfTheInput", "const %b: int64[] = {99}\n", "%y = CumSum(%x, %b)\n", "axis 99"},
        {"SoftmaxOnAxis99", "", "%y = Softmax(%x) {axis = 99}\n", "axis"},
        {"GatherFarOutside", "const %a: float32[2] = {1.0, 2.0}\nconst %b: int64[1] = {4611686018427387904}\n",
         "%f = Gather(%a, %b)\n" + reduce},
        {"SliceOfStepZero",
         "const %a: float32[2] = {1.0, 2.0}\nconst %b: int64[1] = {0}\nconst %c: int64[1] = {2}\nconst %d: int64[1] = "
         "{0}\n",
         "%f = Slice(%a, %b, %c, %b, %d)\n" + reduce},
        {"SliceOfTheLargestStep",
         "const %a: float32[2] = {1.0, 2.0}\nconst %b: int64[1] = {0}\nconst %c: int64[1] = {2}\nconst %d: int64[1] = "
         "{9223372036854775807}\n",
         "%f = Slice(%a, %b, %c, %b, %d)\n" + reduce},
        {"SliceTwiceOnOneAxis",
         "const %a: float32[4] = {1.0, 2.0, 3.0, 4.0}\nconst %b: int64[2] = {3, 3}\nconst %c: int64[2] = {4, 4}\nconst "
         "%d: int64[2] = {0, 0}\n",
         "%f = Slice(%a, %b, %c, %d)\n" + reduce},
        {"RangeOfDeltaZero", "const %a: float32[] = {0.0}\nconst %b: float32[] = {5.0}\nconst %c: float32[] = {0.0}\n",
         "%f = Range(%a, %b, %c)\n" + reduce},
        {"RangeOfAMillionMillion",
         "const %a: int64[] = {0}\nconst %b: int64[] = {1000000000000}\nconst %c: int64[] = {1}\n",
         "%q = Range(%a, %b, %c)\n%f = Cast(%q) {to = 1}\n" + reduce},
        {"OneHotOfNegativeDepth",
         "const %a: int64[2] = {0, 1}\nconst %b: int64[] = {-5}\nconst %c: float32[2] = {0.0, 1.0}\n",
         "%f = OneHot(%a, %b, %c)\n" + reduce},
        {"OneHotOfHugeDepth",
         "const %a: int64[2] = {0, 1}\nconst %b: int64[] = {1099511627776}\nconst %c: float32[2] = {0.0, 1.0}\n",
         "%f = OneHot(%a, %b, %c)\n" + reduce},
        {"TileNegative", "const %a: float32[2] = {1.0, 2.0}\nconst %b: int64[1] = {-1}\n",
         "%f = Tile(%a, %b)\n" + reduce},
        {"TileHuge", "const %a: float32[2] = {1.0, 2.0}\nconst %b: int64[1] = {1099511627776}\n",
         "%f = Tile(%a, %b)\n" + reduce, "--memory-limit"},
        {"ExpandHuge", "const %a: float32[1] = {1.0}\nconst %b: int64[2] = {1048576, 1048576}\n",
         "%f = Expand(%a, %b)\n" + reduce, "--memory-limit"},
        {"PadHuge", "const %a: float32[1] = {1.0}\nconst %b: int64[2] = {0, 1099511627776}\n",
         "%f = Pad(%a, %b)\n" + reduce, "--memory-limit"},
        {"PadNegative", "const %a: float32[2] = {1.0, 2.0}\nconst %b: int64[2] = {-3, -3}\n",
         "%f = Pad(%a, %b)\n" + reduce},
        {"ReshapeToOverflow", "const %a: float32[2] = {1.0, 2.0}\nconst %b: int64[3] = {4294967296, 4294967296, -1}\n",
         "%f = Reshape(%a, %b)\n" + reduce},
        {"ConstantOfHugeShape", "const %a: int64[2] = {1048576, 1048576}\n", "%f = ConstantOfShape(%a)\n" + reduce,
         "--memory-limit"},
        {"ShiftByTooMuch", pair("1, 1", "64, 200", "uint64"),
         "%q = BitShift(%a, %b) {direction = \"LEFT\"}\n%f = Cast(%q) {to = 1}\n" + reduce},
        {"TopKOfTooMany", "const %b: int64[1] = {99}\n", "%y, %i = TopK(%x, %b)\n"},
        {"SplitOfWrongSizes", "const %b: int64[2] = {1, 99}\n", "%y, %i = Split(%x, %b) {axis = 1}\n"},
        {"UnsqueezeTwiceOnOneAxis", "const %b: int64[2] = {0, 0}\n", "%y = Unsqueeze(%x, %b)\n"},
        {"TransposeTwiceToOneAxis", "", "%y = Transpose(%x) {perm = [0, 0]}\n"},
        {"ResizeByTenThousand", "const %r: float32[0] = {}\nconst %b: float32[2] = {1000000.0, 1000000.0}\n",
         "%y = Resize(%x, %r, %b)\n", "--memory-limit"},
    };
}

class HostileGraph : public testing::TestWithParam<Crash> {};

TEST_P(HostileGraph, EndsInASentence) {
    const Crash& crash = GetParam();
    const Workspace work;
    const std::string text = "opset 18\ninput %x: float32[2, 3]\n" + crash.constants + crash.nodes +
                             "%z = Add(%x, %y)\noutput %z: float32[?, ?]\n";
    const auto model = parse_graph_text(text);
    ASSERT_TRUE(model) << model.error().describe() << "\n" << text;
    work.save(*model, "h.onnx");
    for (const std::string arguments :
         {"inspect h.onnx", "build h.onnx -o h.engine", "simplify h.onnx -o s.onnx", "autocast h.onnx -o a.onnx"}) {
        const CommandResult result = work.lathe(arguments, "ulimit -v 12000000 && timeout 30");
        SCOPED_TRACE(arguments + "\n" + result.output + result.errors);
        EXPECT_LE(result.exit_code, 5);
        EXPECT_THAT(result.errors, Not(AnyOf(HasSubstr("a bug in Lathe"), HasSubstr("a library failed"),
                                             HasSubstr("a library gave up"), HasSubstr("Exception from"),
                                             HasSubstr("FrontEnd API"), HasSubstr("std::"))));
        if (arguments.starts_with("build") && !crash.words.empty()) {
            EXPECT_NE(result.exit_code, 0);
            EXPECT_THAT(result.errors, HasSubstr(crash.words));
        }
    }
}
INSTANTIATE_TEST_SUITE_P(All, HostileGraph, testing::ValuesIn(crashes()),
                         [](const testing::TestParamInfo<Crash>& info) { return info.param.name; });

TEST(Faults, AFileCutShortWhileItIsMapped) {
    const TemporaryFolder folder;
    ASSERT_TRUE(write_file(folder / "file", std::string(1 << 16, 'x')));
    const auto read_cut_file = [&] {
        cli::answer_faults();
        const auto mapped = MappedFile::open(folder / "file");
        std::filesystem::resize_file(folder / "file", 0);
        std::exit(static_cast<int>((*mapped)->bytes()[5000]));
    };
    EXPECT_EXIT(read_cut_file(), testing::ExitedWithCode(1), "a file was cut short");
}

TEST(Faults, EverySignalOfTheProcessor) {
    for (const auto& [signal, words] : {std::pair{SIGSEGV, "a library failed"}, std::pair{SIGFPE, "integer division"},
                                        std::pair{SIGILL, "a library failed"}, std::pair{SIGABRT, "gave up"}}) {
        const auto raised = [signal = signal] {
            cli::answer_faults();
            (void)std::raise(signal);
        };
        EXPECT_EXIT(raised(), testing::ExitedWithCode(1), words);
    }
}

TEST(Files, ALimitOnTheirSizeIsAnErrorAndLeavesNothing) {
    const Workspace work;
    work.make_engine();
    for (const std::string arguments :
         {"build m.onnx -o e", "simplify m.onnx -o e", "calibrate m.onnx --data arrays.npy -o e"}) {
        const CommandResult result = work.lathe(arguments, "ulimit -f 1 &&");
        EXPECT_EQ(result.exit_code, 1) << arguments << result.errors;
        EXPECT_THAT(result.errors, HasSubstr("ulimit -f")) << arguments;
        EXPECT_THAT(run_command("ls -a '" + work.path("").string() + "'").output, Not(HasSubstr(".tmp"))) << arguments;
        EXPECT_FALSE(std::filesystem::exists(work.path("e")));
    }
    const CommandResult deployed =
        work.lathe("deploy triton m.engine -o repository --backend openvino", "ulimit -f 1 &&");
    EXPECT_EQ(deployed.exit_code, 1) << deployed.errors;
}

TEST(Files, APipeThatNobodyReadsIsRefused) {
    const Workspace work;
    (void)run_command("mkfifo '" + work.path("pipe").string() + "'");
    const CommandResult result = work.lathe("simplify m.onnx -o pipe", "timeout 60");
    EXPECT_EQ(result.exit_code, 1) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("nothing reads this pipe"));
    (void)work.good("simplify m.onnx -o s.onnx");
    (void)work.lathe("simplify m.onnx -o pipe", "{ cat pipe > got & } &&");
    EXPECT_TRUE(run_command("sleep 0.2; cmp '" + work.path("got").string() + "' '" + work.path("s.onnx").string() + "'")
                    .exit_code == 0);
}

TEST(Memory, ALimitOnItIsToldAsSuch) {
    const Workspace work;
    const CommandResult result = work.lathe("build m.onnx -o e", "ulimit -v 400000 &&");
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.errors, AnyOf(HasSubstr("memory"), HasSubstr("cannot allocate")));
    EXPECT_THAT(result.errors, Not(HasSubstr("a bug in Lathe")));
}

TEST(Memory, DoublingAConstantEndsAtTheLimit) {
    const Workspace work;
    std::string text = "opset 18\ninput %x: float32[1]\nconst %t0: float32[4] = {1.0, 2.0, 3.0, 4.0}\n";
    for (int i = 0; i < 36; ++i)
        text += "%t" + std::to_string(i + 1) + " = Concat(%t" + std::to_string(i) + ", %t" + std::to_string(i) +
                ") {axis = 0, name = \"double" + std::to_string(i) + "\"}\n";
    text += "%s = ReduceSum(%t36) {keepdims = 0}\n%y = Add(%x, %s)\noutput %y: float32[1]\n";
    const auto model = parse_graph_text(text);
    ASSERT_TRUE(model) << model.error().describe();
    work.save(*model, "h.onnx");
    for (const std::string arguments : {"build h.onnx -o e", "simplify h.onnx -o s.onnx", "inspect h.onnx"}) {
        const CommandResult result = work.lathe(arguments + " --memory-limit 1GB", "ulimit -v 8000000 && timeout 60");
        SCOPED_TRACE(arguments + result.output + result.errors);
        if (arguments.starts_with("inspect")) {
            EXPECT_EQ(result.exit_code, 0);
            continue;
        }
        EXPECT_EQ(result.exit_code, 1);
        EXPECT_THAT(result.errors, HasSubstr("double2"));
        EXPECT_THAT(result.errors, HasSubstr("GB"));
    }
}

TEST(Memory, InputsThatAreTooLargeAreRefused) {
    const Workspace work;
    for (const std::string size : {"4294967296", "1099511627776"}) {
        const auto model = parse_graph_text("opset 18\ninput %x: float32[" + size +
                                            "]\n%i = Identity(%x)\n%y = Relu(%i)\noutput %y: float32[" + size + "]\n");
        ASSERT_TRUE(model) << model.error().describe();
        work.save(*model, "h.onnx");
        for (const std::string arguments : {"build h.onnx -o e", "simplify h.onnx -o s.onnx"}) {
            const CommandResult result = work.lathe(arguments + " --memory-limit 2GB", "timeout 30");
            EXPECT_TRUE(result.exit_code == 1 || result.exit_code == 3) << arguments << result.output << result.errors;
            EXPECT_THAT(result.errors, HasSubstr("input x")) << arguments;
        }
    }
}

} // namespace
} // namespace lathe::test
