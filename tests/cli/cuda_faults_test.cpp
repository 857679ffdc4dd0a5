// What can go wrong on a GPU, each through the real program. Skipped, with the cause, where there is no GPU.
#include <thread>

#include "cli/workspace.hpp"
#include "runtime/engine_file.hpp"
#include "support/files.hpp"
#include "support_lib/sections.hpp"

namespace lathe::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

class CudaFaults : public testing::Test {
protected:
    void SetUp() override {
        const Json found = Workspace::as_json(work_.lathe("doctor --json").output);
        for (const Json& backend : found["backends"]) {
            if (backend["backend"] == "cuda" && backend["available"] == true) return;
            if (backend["backend"] == "cuda") GTEST_SKIP() << "SKIPPED: " << backend["cause"].get<std::string>();
        }
        GTEST_SKIP() << "SKIPPED: this program was built without CUDA";
    }

    /// The command that builds the small model for a GPU, with a timing cache of its own.
    static std::string build(const std::string& engine, const std::string& more = "") {
        return "build m.onnx --device cuda --precision fp16 --allow-fallback --tune fast --timing-cache times.json "
               "-o " +
               engine + " " + more;
    }
    static std::string run(const std::string& engine, const std::string& output) {
        return "run " + engine + " arrays.npy --batch-size 8 -o " + output;
    }
    void expect_whole(const std::string& engine) const {
        EXPECT_EQ(work_.good_json("inspect " + engine)["device"], "cuda");
        (void)work_.good(run(engine, "out.npz"));
        EXPECT_GT(std::filesystem::file_size(work_.path("out.npz")), 0U);
    }

    Workspace work_;
};

TEST_F(CudaFaults, KilledBuildLeavesCacheAndEngineWhole) {
    int killed = 0;
    for (const char* seconds : {"0.2", "0.5", "0.8", "1.1", "1.5", "2.0"}) {
        const CommandResult result = work_.lathe(build("m.engine"), std::string("timeout -s KILL ") + seconds);
        if (result.exit_code != 0) ++killed;
        if (std::filesystem::exists(work_.path("times.json"))) {
            EXPECT_EQ(work_.json("times.json")["kind"], "lathe-timing-cache");
        }
        if (std::filesystem::exists(work_.path("m.engine"))) expect_whole("m.engine");
    }
    EXPECT_GT(killed, 0);
    const CommandResult last = work_.good(build("m.engine"));
    EXPECT_EQ(last.errors.find("damaged"), std::string::npos) << last.errors;
    expect_whole("m.engine");
}

TEST_F(CudaFaults, KilledRunLeavesNoOutputAndTheNextWorks) {
    (void)work_.good(build("m.engine"));
    work_.save_array("many.npy", {4000, 3, 8, 8});
    (void)work_.good("run m.engine many.npy -o whole.npz");
    const std::uintmax_t whole = std::filesystem::file_size(work_.path("whole.npz"));
    int killed = 0;
    for (const char* seconds : {"0.1", "0.3", "0.5"}) {
        const CommandResult result =
            work_.lathe("run m.engine many.npy -o killed.npz", std::string("timeout -s KILL ") + seconds);
        if (result.exit_code == 0) break;
        ++killed;
        // Killed when all was written, it may leave the result, but never a part of it.
        if (std::filesystem::exists(work_.path("killed.npz"))) {
            EXPECT_EQ(std::filesystem::file_size(work_.path("killed.npz")), whole);
            break;
        }
    }
    EXPECT_GT(killed, 0);
    expect_whole("m.engine");
}

TEST_F(CudaFaults, TwoProcessesShareTheGpuAndTheCache) {
    CommandResult first, second;
    std::thread other([&] { second = work_.lathe(build("b.engine")); });
    first = work_.lathe(build("a.engine"));
    other.join();
    EXPECT_EQ(first.exit_code, 0) << first.errors;
    EXPECT_EQ(second.exit_code, 0) << second.errors;
    EXPECT_EQ(work_.json("times.json")["environments"].size(), 1U);
    std::thread runner([&] { second = work_.lathe(run("b.engine", "b.npz")); });
    first = work_.lathe(run("a.engine", "a.npz"));
    runner.join();
    EXPECT_EQ(first.exit_code, 0) << first.errors;
    EXPECT_EQ(second.exit_code, 0) << second.errors;
}

TEST_F(CudaFaults, TooLittleMemoryIsToldAndNothingIsWritten) {
    const CommandResult refused = work_.lathe(build("small.engine"), "LATHE_CUDA_MEMORY_LIMIT=1KiB");
    EXPECT_EQ(refused.exit_code, 1) << refused.errors;
    EXPECT_THAT(refused.errors, HasSubstr("weights"));
    EXPECT_THAT(refused.errors, HasSubstr("LATHE_CUDA_MEMORY_LIMIT"));
    EXPECT_FALSE(std::filesystem::exists(work_.path("small.engine")));

    (void)work_.good(build("m.engine"));
    const CommandResult at_run = work_.lathe(run("m.engine", "none.npz"), "LATHE_CUDA_MEMORY_LIMIT=8KiB");
    EXPECT_EQ(at_run.exit_code, 1) << at_run.errors;
    EXPECT_THAT(at_run.errors, AnyOf(HasSubstr("activations"), HasSubstr("weights")));
    EXPECT_FALSE(std::filesystem::exists(work_.path("none.npz")));
    expect_whole("m.engine");
}

TEST_F(CudaFaults, CandidatesThatDoNotFitAreNamed) {
    const Json result = work_.good_json(build("m.engine", "--explain --workspace 1"));
    std::size_t chosen = 0;
    for (const Json& op : result["report"]["ops"]) {
        for (const Json& candidate : op["candidates"]) {
            // A kernel that needs more is named with that reason, never chosen.
            const bool too_large = candidate["refused"].get<std::string>().find("workspace") != std::string::npos;
            EXPECT_FALSE(too_large && candidate["chosen"] == true) << candidate.dump();
            if (candidate["chosen"] == true) ++chosen;
        }
    }
    EXPECT_GT(chosen, 0U);
    EXPECT_LE(result["report"]["workspace_bytes"].get<std::size_t>(), 1U);
    expect_whole("m.engine");
}

TEST_F(CudaFaults, ShapesOutsideTheRangeAreRefused) {
    (void)work_.good(build("m.engine", "--shape input:1x3x8x8..4x3x8x8..8x3x8x8"));
    const CommandResult result = work_.lathe("run m.engine arrays.npy --batch-size 16 -o none.npz");
    EXPECT_EQ(result.exit_code, 3) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("16x3x8x8"));
    EXPECT_THAT(result.errors, HasSubstr("1x3x8x8..4x3x8x8..8x3x8x8"));
    EXPECT_FALSE(std::filesystem::exists(work_.path("none.npz")));
}

TEST_F(CudaFaults, AnEngineOfAnotherGpuIsCompiledAnew) {
    (void)work_.good(build("m.engine"));
    const std::string bytes = work_.read("m.engine");
    const auto contents = parse_engine(std::as_bytes(std::span(bytes)), "m.engine");
    ASSERT_TRUE(contents) << contents.error().describe();
    Json info = contents->info;
    const std::string key = info["blob_key"].get<std::string>();
    ASSERT_NE(key.find("driver "), std::string::npos) << key;
    for (const auto& [what, other] : {std::pair<std::string, std::string>{"driver ", "driver 1"}, {"sm_", "sm_1"}}) {
        std::string changed = key;
        changed.replace(changed.find(what), what.size(), other);
        info["blob_key"] = changed;
        ASSERT_TRUE(write_engine(work_.path("other.engine"), info, again(contents->sections)));
        const CommandResult result = work_.good(run("other.engine", "other.npz"));
        EXPECT_THAT(result.errors, HasSubstr("compiled anew: built for"));
        EXPECT_THAT(result.errors, HasSubstr(other));
    }
}

TEST_F(CudaFaults, DamagedFilesAreNamed) {
    (void)work_.good(build("m.engine"));
    std::string bytes = work_.read("m.engine");
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x40);
    work_.write("damaged.engine", bytes);
    const CommandResult damaged = work_.lathe(run("damaged.engine", "none.npz"));
    EXPECT_EQ(damaged.exit_code, 3) << damaged.errors;
    EXPECT_THAT(damaged.errors, HasSubstr("damaged.engine"));
    work_.write("cut.engine", bytes.substr(0, bytes.size() / 2));
    EXPECT_EQ(work_.lathe(run("cut.engine", "none.npz")).exit_code, 3);
    EXPECT_FALSE(std::filesystem::exists(work_.path("none.npz")));

    for (const char* garbage :
         {"", "{\"kind\":", "{\"kind\":\"lathe-timing-cache\",\"version\":1,\"environments\":7}"}) {
        work_.write("times.json", garbage);
        const CommandResult again = work_.good(build("again.engine"));
        EXPECT_THAT(again.errors, HasSubstr("times.json.damaged")) << garbage;
        EXPECT_EQ(work_.json("times.json")["kind"], "lathe-timing-cache");
        expect_whole("again.engine");
    }
}

TEST_F(CudaFaults, AGpuThatIsNotThereIsNamed) {
    const CommandResult result = work_.lathe(build("m.engine", "--devices 77"));
    EXPECT_EQ(result.exit_code, 3) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("no GPU 77"));
    const CommandResult hidden = work_.lathe(build("m.engine"), "CUDA_VISIBLE_DEVICES=");
    EXPECT_EQ(hidden.exit_code, 4) << hidden.errors;
    EXPECT_THAT(hidden.errors, HasSubstr("CUDA_VISIBLE_DEVICES"));
    EXPECT_FALSE(std::filesystem::exists(work_.path("m.engine")));
}

} // namespace
} // namespace lathe::test
