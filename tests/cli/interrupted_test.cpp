// A full disk or a killed process leaves the file that was there, or the whole new one; an interrupted command ends
// soon, with nothing left behind.
#include <chrono>
#include <sstream>

#include "cli/workspace.hpp"
#include "support_lib/places.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

TEST(Interrupted, FullDiskLeavesTheOldFile) {
    const Workspace work;
    work.make_ranges();
    work.make_engine();
    struct Case {
        std::string arguments;
        std::string file;
    };
    // A limit of 4 KiB a file stands for the full disk.
    for (const Case& each : {Case{"build m.onnx -o old", "old"}, Case{"simplify m.onnx -o old", "old"},
                             Case{"quantize s.onnx --ranges s.ranges -o old", "old"},
                             Case{"calibrate s.onnx --data arrays.npy --force -o old", "old"},
                             Case{"run m.engine many.npy -o old", "old"}}) {
        work.write("old", "what was there");
        work.save_array("many.npy", {400, 3, 8, 8});
        const CommandResult result = work.lathe(each.arguments, "ulimit -f 4; trap '' XFSZ;");
        EXPECT_EQ(result.exit_code, 1) << each.arguments << "\n" << result.errors;
        EXPECT_THAT(result.errors, HasSubstr(each.file)) << each.arguments;
        EXPECT_THAT(result.errors, HasSubstr("too large")) << each.arguments;
        EXPECT_EQ(work.read("old"), "what was there") << each.arguments;
    }
}

TEST(Interrupted, KilledBuildLeavesOldOrNew) {
    const Workspace work;
    work.make_engine();
    const std::string old = work.read("m.engine");
    work.save(tiny_classifier(50), "other.onnx");
    int killed = 0;
    for (const char* seconds : {"0.05", "0.2", "0.35", "0.5", "0.65", "0.8", "1.0", "1.3"}) {
        const CommandResult result =
            work.lathe("build other.onnx -o m.engine", std::string("timeout -s KILL ") + seconds);
        if (result.exit_code == 0) break;
        ++killed;
        if (work.read("m.engine") == old) continue;
        EXPECT_EQ(work.good_json("inspect m.engine")["precision"], "fp32");
    }
    EXPECT_GT(killed, 0);
    (void)work.good("build other.onnx -o m.engine");
    EXPECT_NE(work.read("m.engine"), old);
}

/// OpenVINO works on it for longer than any test waits, in one call.
Model endless_model() {
    std::string text = "opset 18\ninput %v0: float32[N, 4]\n";
    constexpr int nodes = 80'000; // calibrate takes seconds, on a fast machine too
    text += "const %bias: float32[4] = {0.1, 0.2, 0.3, 0.4}\n"
            "const %weights: float32[4, 4] = {1, 0.1, 0, 0, 0, 1, 0.1, 0, 0, 0, 1, 0.1, 0.1, 0, 0, 1}\n";
    for (int i = 1; i < nodes; ++i)
        text += "%v" + std::to_string(i) + " = Add(%v" + std::to_string(i - 1) + ", %bias)\n";
    // Last, or calibrate would compute no more than its input.
    text += "%v" + std::to_string(nodes) + " = MatMul(%v" + std::to_string(nodes - 1) + ", %weights)\n";
    text += "output %v" + std::to_string(nodes) + ": float32[N, 4]\n";
    return model_from_text(text);
}

struct Signal {
    std::string name;
    int exit_code;
};

/// Sends the signal after so many seconds: how long the command then took, in seconds, and that it ended as it must.
void expect_prompt_end(const Workspace& work, const std::string& arguments, const Signal& signal,
                       const std::string& after, const std::string& before = "") {
    SCOPED_TRACE(arguments + " " + signal.name + " after " + after);
    const auto start = std::chrono::steady_clock::now();
    const CommandResult result =
        work.lathe(arguments, before + " timeout --preserve-status -k 20 -s " + signal.name + " " + after);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(result.exit_code, signal.exit_code) << result.errors;
    EXPECT_LT(took.count() - std::stod(after), 2.0);
    // A sentence of the program's own: a process that the signal killed would have said nothing.
    EXPECT_THAT(result.errors, HasSubstr("interrupted"));
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(work.path("")))
        EXPECT_THAT(entry.path().string(), testing::Not(testing::EndsWith(".tmp")));
}

const std::vector<Signal> signals{{"INT", 130}, {"TERM", 143}};

TEST(Interrupted, LongCallsOfALibraryEnd) {
    const Workspace work;
    work.save(endless_model(), "endless.onnx");
    work.save_array("rows.npy", {8, 4});
    work.write("old", "what was there");
    for (const Signal& signal : signals) {
        for (const char* arguments :
             {"build endless.onnx -o old", "calibrate endless.onnx --data rows.npy --force -o old",
              "optimize endless.onnx --precisions fp32 -o out", "compare endless.onnx endless.onnx"}) {
            expect_prompt_end(work, arguments, signal, "1.5");
            EXPECT_EQ(work.read("old"), "what was there") << arguments;
        }
    }
    const CommandResult document = work.lathe("build endless.onnx -o old --json", "timeout --preserve-status 1");
    EXPECT_EQ(Workspace::as_json(document.output)["error"]["code"], "cancelled");
}

TEST(Interrupted, ASecondSignalEndsAtOnce) {
    const Workspace work;
    work.save(endless_model(), "endless.onnx");
    const auto start = std::chrono::steady_clock::now();
    const CommandResult result = run_command("cd '" + work.path("").string() + "' && { '" + test::lathe_binary() +
                                             "' build endless.onnx -o e & pid=$!; sleep 1; kill -TERM $pid; "
                                             "sleep 0.35; kill -TERM $pid; wait $pid; }");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(result.exit_code, 143) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("interrupted"));
    EXPECT_LT(took.count(), 2.15); // 1.2 s after the first it would have ended by itself
}

TEST(Interrupted, NoChildIsLeft) {
    const Workspace work;
    work.make_engine();
    // A framework's process that starts another, and neither answers nor ends when it is asked to.
    work.write("python",
               "#!/bin/sh\ntrap '' INT TERM\nsleep 300 &\necho $$ $! >> started\nwhile :; do sleep 1; done\n");
    std::filesystem::permissions(work.path("python"), std::filesystem::perms::owner_all);
    for (const Signal& signal : signals) {
        for (const std::string arguments : {"bench m.engine --model m.onnx --against onnxruntime --batch-sizes 1",
                                            "export resnet18 --output r.onnx"}) {
            work.write("started", "");
            expect_prompt_end(work, arguments, signal, "1.5", "LATHE_PYTHON='" + work.path("python").string() + "'");
            std::istringstream started(work.read("started"));
            int processes = 0;
            for (pid_t process = 0; started >> process; ++processes) {
                // Killed, it may still be waiting for someone to ask how it ended.
                const CommandResult state = run_command("ps -o stat= -p " + std::to_string(process));
                EXPECT_TRUE(state.output.empty() || state.output.front() == 'Z') << process << state.output;
            }
            EXPECT_GE(processes, 2) << arguments;
        }
    }
}

} // namespace
} // namespace lathe::test
