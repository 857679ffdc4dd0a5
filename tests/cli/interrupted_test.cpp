// A full disk or a killed process leaves the file that was there, or the whole new one.
#include "cli/workspace.hpp"

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

} // namespace
} // namespace lathe::test
